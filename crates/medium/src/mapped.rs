//! The back ends that map their file: home is stored to, the log is stored to, and no call of the
//! system stands between a word and its durability.
//!
//! They are one [`MappedHome`] and one [`MappedLog`] over a [`Domain`], the persistence domain:
//! what a store has to reach to be durable. What tells the three apart is data, one row each in
//! `domain`. An [`InPlace`] is for who runs on the mapping itself.
//!
//! ```text
//!   words -> cache -> write back -> memory       dax: durable in memory
//!   words -> past the cache ------> memory       emulated: the same, and the device's delay
//!   words -> cache                               persistent_cache: durable in the cache
//! ```

mod combiner;
mod domain;
mod emulation;
mod home;
mod in_place;
mod log;
mod stores;

pub use self::combiner::Combining;
pub use self::domain::Domain;
pub use self::emulation::Emulation;
pub use self::home::MappedHome;
pub use self::in_place::InPlace;
pub use self::log::MappedLog;
