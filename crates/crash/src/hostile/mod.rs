//! Files that lie: whatever is in them, each answer is a value or a typed error, after bounded
//! work.
//!
//! The bodies of the fuzz targets in `fuzz/` are here, so that `cargo test` runs them too, over the
//! committed corpus and over seeded random inputs.
//!
//! | target | what the input drives |
//! |---|---|
//! | [`superblock`] | words of superblocks and log heads, in both copies or one |
//! | [`log`] | a log of arbitrary bytes, or a valid one with changes |
//! | [`alloc`] | a heap of arbitrary words, or a valid one with changes, and what is done with it |
//! | [`pool`] | changes anywhere in a pool's files, then everything that can be done with a pool |
//!
//! A checksum would hide everything behind it, so half of the time it is put right again after the
//! changes ([`seal`]).
//!
//! Each panics when something is not as it must be, which is how a fuzzer knows.

pub mod agree;
mod alloc;
mod files;
mod input;
mod log;
mod pool;
pub mod seal;

pub use self::alloc::alloc;
pub use self::log::log;
pub use self::pool::{examine, pool, superblock};
pub use files::{Area, Files, Kind, Part, options};
pub use input::Input;

/// A target: its name, which is also that of its folder in the corpus, and its body.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 4] =
    [("superblock", superblock), ("log", log), ("alloc", alloc), ("pool", pool)];
