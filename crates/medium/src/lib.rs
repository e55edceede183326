//! Back ends that make bytes durable.
//!
//! The designs access storage through two small traits. A [`HeapMedium`] stores words into the heap
//! image and makes them durable there. A [`LogMedium`] appends groups to the log and acknowledges
//! them.
//!
//! | back end | heap image | log | write back | persist barrier |
//! |---|---|---|---|---|
//! | `file` | [`FileHeap`] | [`FileLog`] | gathered pages; direct groups | one sync |
//! | `dax` | [`MappedHeap`] | [`MappedLog`] | past the cache, or lines | a fence |
//! | `persistent_cache` | [`MappedHeap`] | [`MappedLog`] | nothing | a fence |
//! | `emulated` | [`MappedHeap`] | [`MappedLog`] | as on `dax` | a fence and a delay |
//!
//! The last three map their file and differ in their [`Domain`]. A design that runs on the mapping
//! itself uses an [`InPlace`].
//!
//! Adding a back end takes a folder beside these, a row here, and a run of the tests in `suite`.
//!
//! Heap image and log are areas of a [`PoolFile`], which is locked and allocated, and never becomes
//! shorter. [`Memory`] is the DRAM that a pool runs on, and a [`Buffer`] holds a log group while it
//! is built. [`PageChecksums`] are the checksums of a heap image. [`cpu`] has processor operations
//! beyond loads and stores. The unsafe code is in `claim`, `mapping`, `memory`, `cpu`, `stdio`,
//! `uring` and, for tests, `executed`, behind functions that are sound under any input.

pub mod cpu;
#[cfg(any(test, feature = "mutants"))]
pub mod executed;
pub mod signals;
pub mod stdio;
pub mod sync;
pub mod writes;

mod area;
mod buffer;
mod claim;
mod error;
mod file;
mod frozen;
mod frozen_memory;
#[cfg(test)]
mod frozen_memory_tests;
mod log_reader;
mod mapped;
mod mapping;
mod memory;
mod page_checksums;
mod page_watch;
mod parts;
mod patience;
mod pool_file;
mod process;
mod retry;
mod shell;
#[cfg(test)]
mod suite;
mod traits;

pub use buffer::Buffer;
pub use claim::Claim;
pub use error::Error;
pub use file::{FileHeap, FileLog};
pub use frozen::{FrozenImage, PAGE_WORDS};
pub use frozen_memory::{FrozenMemory, ReadPages, read_pages};
pub use log_reader::LogReader;
pub use mapped::{Combining, Domain, Emulation, InPlace, MappedChecksums, MappedHeap, MappedLog};
pub use mapping::KeptMemory;
pub use memory::{Memory, Room};
pub use page_checksums::{ChecksumArea, FileChecksums, PageChecksums};
pub use parts::Parts;
pub use patience::Patience;
pub use pool_file::{LostName, PoolFile, Prewrite};
pub use process::Process;
pub use shell::quoted;
pub use traits::{
    Ahead, Counts, HeapMedium, LogMedium, LogPath, ReadLog, Scrubbed, Unwritten, Witness,
};

pub use system::{FileSystem, System, mutants};
