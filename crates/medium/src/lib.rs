//! What makes bytes durable.
//!
//! Two small traits stand between the designs and the world: a [`HomeMedium`] takes words home and
//! makes them durable there, a [`LogMedium`] takes groups of the log and acknowledges them.
//!
//! | back end | home | log | write back | persist barrier |
//! |---|---|---|---|---|
//! | `file` | [`FileHome`] | [`FileLog`] | gathered pages; direct groups | one sync |
//! | `dax` | [`MappedHome`] | [`MappedLog`] | past the cache, or lines | a fence |
//! | `persistent_cache` | [`MappedHome`] | [`MappedLog`] | nothing | a fence |
//! | `emulated` | [`MappedHome`] | [`MappedLog`] | as on `dax` | a fence and a delay |
//!
//! The last three map their file and differ in their [`Domain`]; a design that runs on the mapping
//! itself takes an [`InPlace`].
//!
//! Another back end is a folder beside these, a row here, and a run of the tests in `suite`.
//!
//! Both are parts of a [`PoolFile`], which is locked, allocated and of constant length. [`Memory`]
//! is what a pool runs on meanwhile, a [`Buffer`] what a group of the log is built in, and [`cpu`]
//! has what the processor offers beyond loads and stores. The unsafe code is in `mapping`,
//! `memory`, `cpu` and `stdio`, behind functions that are sound under any input.

pub mod cpu;
pub mod mutants;
pub mod recording;
pub mod signals;
pub mod stdio;
pub mod sync;
pub mod writes;

mod area;
mod buffer;
mod error;
mod file;
mod log_reader;
mod mapped;
mod mapping;
mod memory;
mod parts;
mod patience;
mod pool_file;
mod process;
#[cfg(test)]
mod suite;
mod system;

pub use buffer::Buffer;
pub use error::Error;
pub use file::{FileHome, FileLog, LogPath};
pub use log_reader::LogReader;
pub use mapped::{Combining, Domain, Emulation, InPlace, MappedHome, MappedLog};
pub use memory::Memory;
pub use parts::Parts;
pub use patience::Patience;
pub use pool_file::{FileSystem, LostName, PoolFile, Prewrite};
pub use process::Process;

pub use system::{Call, Fault, Faults, System};

/// Where words live when no log holds a newer value.
///
/// One thread at a time uses it. Nothing is durable before [`barrier`](HomeMedium::barrier).
pub trait HomeMedium: Send {
    /// Starts moving a batch of writes home; see [`writes`] for its encoding. Writes of one word
    /// take effect in the order given. May be read again (by recovery) only after a barrier.
    ///
    /// # Errors
    /// A write that leaves the heap, or the medium's own; after the latter the pool must not go on.
    fn write_back(&mut self, writes: &[u64]) -> Result<(), Error>;

    /// Persist barrier: everything written back before is durable when it returns.
    ///
    /// # Errors
    /// The medium's own; then nothing is known about what was written since the last barrier.
    fn barrier(&mut self) -> Result<(), Error>;

    /// The first half of a barrier, for a home in [`Parts`]: what this part has in hand leaves it.
    /// On memory, where a fence is each thread's own, it is the barrier, and nothing is left.
    ///
    /// # Errors
    /// As [`barrier`](HomeMedium::barrier).
    fn write_out(&mut self) -> Result<(), Error> {
        self.barrier()
    }

    /// The second half: what every part has written out before is durable when one of them
    /// returns from this. A file is synced once, however many parts it has.
    ///
    /// # Errors
    /// As [`barrier`](HomeMedium::barrier).
    fn sync(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// What it has cost.
    fn counts(&self) -> Counts;
}

/// A log area that can be read back, by recovery or by who only looks.
pub trait ReadLog {
    /// Bytes of the log area.
    fn bytes(&self) -> u64;

    /// The unit that groups are padded to: what one append writes shares no such unit with another,
    /// so that no later write can tear an acknowledged record.
    fn block_bytes(&self) -> usize;

    /// Reads back what was written at `at`; what is under way may be read or not.
    ///
    /// # Errors
    /// The medium's own, or a range outside the area.
    fn read(&self, at: u64, out: &mut [u64]) -> Result<(), Error>;
}

/// Takes groups of the log, several at a time where the device can, and tells in their order when
/// they are durable.
///
/// To a device one thread at a time appends, and one at a time asks for acknowledgements; others
/// wait inside. To memory, where nothing is under way, any number append at the same time.
/// Positions are bytes in the log area, multiples of [`block_bytes`](ReadLog::block_bytes).
pub trait LogMedium: ReadLog + Send + Sync {
    /// Most groups that may be under way. Where bytes are durable as soon as they are written there
    /// are none, and [`append`](LogMedium::append) gives each group straight back.
    fn depth(&self) -> usize;

    /// Sends the first `words` words of `group` to `at`: whole blocks, inside the area, apart from
    /// everything that is under way. A device is not waited for: its group is under way on return,
    /// and its memory comes back with the acknowledgement. Memory gives it back at once, durable.
    ///
    /// # Errors
    /// The medium's own; then the pool must not go on.
    ///
    /// # Panics
    /// When as many groups are under way as can be.
    fn append(&self, at: u64, group: Buffer, words: usize) -> Result<Option<Buffer>, Error>;

    /// The oldest group under way, once it is durable, whatever became of later ones; `wait` says
    /// whether to wait for that. `None` when it is not durable yet, or nothing is under way. The
    /// persist barrier of a group is here.
    ///
    /// # Errors
    /// The medium's own; then nothing is known about any group that was under way, and none is
    /// acknowledged any more.
    fn acknowledge(&self, wait: bool) -> Result<Option<Buffer>, Error>;

    /// What it has cost.
    fn counts(&self) -> Counts;

    /// How groups get to the file; `None` where the log is mapped.
    fn written(&self) -> Option<LogPath> {
        None
    }
}

/// What a medium has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes sent to the device, padding included.
    pub bytes: u64,
    /// Writes sent to the device (system calls, or flushes of emulated memory).
    pub device_writes: u64,
    /// Persist barriers.
    pub persist_barriers: u64,
    /// Nanoseconds spent spinning for the emulated device.
    pub emulated_delay_ns: u64,
}

impl Counts {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Counts) -> Counts {
        Counts {
            bytes: self.bytes + other.bytes,
            device_writes: self.device_writes + other.device_writes,
            persist_barriers: self.persist_barriers + other.persist_barriers,
            emulated_delay_ns: self.emulated_delay_ns + other.emulated_delay_ns,
        }
    }
}
