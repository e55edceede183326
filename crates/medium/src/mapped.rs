//! Memory-mapped back ends: the heap image and the log are stored through the mapping, and no
//! system call stands between a word and its durability.
//!
//! The three back ends share one [`MappedHeap`] and one [`MappedLog`] over a [`Domain`], the
//! persistence domain: the level that a store must reach to be durable. Their differences are
//! data, one row each in `domain`. Designs that run on the mapping itself use an [`InPlace`].
//!
//! ```text
//!   words -> cache -> write back -> memory       dax: durable in memory
//!   words -> past the cache ------> memory       emulated: the same, and the device's delay
//!   words -> cache                               persistent_cache: durable in the cache
//! ```

mod checksums;
mod combiner;
mod domain;
mod emulation;
mod heap;
mod in_place;
mod log;
mod stores;
mod witnesses;

pub use self::checksums::MappedChecksums;
pub use self::combiner::Combining;
pub use self::domain::Domain;
pub use self::emulation::Emulation;
pub use self::heap::MappedHeap;
pub use self::in_place::InPlace;
pub use self::log::MappedLog;
