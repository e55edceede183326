//! Corrupt files: whatever their content, each call returns a value or a typed error after bounded
//! work.
//!
//! The bodies of the fuzz targets in `fuzz/` are here, so that `cargo test` runs them too, over the
//! committed corpus and over seeded random inputs.
//!
//! | target | the input drives |
//! |---|---|
//! | [`superblock`] | words of superblocks and log heads, in both copies or one |
//! | [`log`] | a log of arbitrary bytes, or a valid one with changes |
//! | [`alloc`] | a heap of arbitrary words, or a valid one with changes, and operations on it |
//! | [`pool`] | changes anywhere in a pool's files, then every operation on a pool |
//!
//! A checksum would hide all code after it, so half of the time the checksums are fixed after the
//! changes ([`seal`]).
//!
//! Each target panics on a violation, which a fuzzer recognises.

pub mod agree;
mod alloc;
pub mod edits;
mod files;
mod input;
mod log;
mod pool;
mod pool_files;
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
