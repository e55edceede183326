//! Traits of a medium: the heap image, the log, and the operations that each counts.
//!
//! Designs access storage through these alone. Each back end implements them in its own folder.

use std::fmt;
use std::ops::Range;

use crate::buffer::Buffer;
use crate::error::Error;
use crate::frozen::FrozenImage;
use crate::sync::Arc;

/// Where words live when no log holds a newer value.
///
/// One thread at a time uses it. Nothing is durable before [`barrier`](HeapMedium::barrier).
pub trait HeapMedium: Send {
    /// Starts to apply a batch of writes to the heap image; [`crate::writes`] has its encoding.
    /// Writes of one word take effect in the order given. Recovery may read them again only after a
    /// barrier.
    ///
    /// # Errors
    /// A write outside the heap, or the medium's own error. After the latter the pool must not go
    /// on.
    fn write_back(&mut self, writes: &[u64]) -> Result<(), Error>;

    /// Persist barrier: everything written back before is durable when it returns.
    ///
    /// # Errors
    /// The medium's own; then the state of all writes since the last barrier is unknown.
    fn barrier(&mut self) -> Result<(), Error>;

    /// First half of a barrier, for a heap image in [parts](crate::Parts): writes out the writes
    /// that this part has gathered. On memory, where each thread has its own fence, it is the whole
    /// barrier.
    ///
    /// # Errors
    /// As [`barrier`](HeapMedium::barrier).
    fn write_out(&mut self) -> Result<(), Error> {
        self.barrier()
    }

    /// Notes that the writes given from here on are of log groups after this sequence.
    fn starts_at(&mut self, sequence: u64) {
        let _ = sequence;
    }

    /// Returns the writes that are gathered and not yet written out. Memory gathers none that a
    /// caller could wait with.
    fn unwritten(&self) -> Unwritten {
        Unwritten::default()
    }

    /// Writes out the next `pages` pages with gathered writes, in the order of their numbers and
    /// from the last one to the first again. So a page that gets writes after it was written out
    /// waits for a round. Later writes to a page are written out with it. On memory it is the whole
    /// barrier.
    ///
    /// # Errors
    /// As [`barrier`](HeapMedium::barrier).
    fn write_next(&mut self, pages: usize) -> Result<(), Error> {
        let _ = pages;
        self.write_out()
    }

    /// Second half of a barrier: makes durable the writes that every part has written out before.
    /// One call covers all parts, so a file is synced once.
    ///
    /// # Errors
    /// As [`barrier`](HeapMedium::barrier).
    fn sync(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Begins to keep a frozen image: copies each page to it before the page changes. The image has
    /// everything written back so far, written out or not. Returns whether this heap image supports
    /// it.
    fn freeze(&mut self, image: &Arc<FrozenImage>) -> bool {
        let _ = image;
        false
    }

    /// Copies to a frozen image those pages of the range that this part owns and that have no copy
    /// yet. An error fails only the frozen image: see [`FrozenImage::check`].
    fn copy_frozen(&mut self, image: &FrozenImage, pages: Range<usize>) {
        let _ = (image, pages);
    }

    /// Ends a frozen image: pages are no longer copied to it.
    fn thaw(&mut self, image: &Arc<FrozenImage>) {
        let _ = image;
    }

    /// Computes the unknown checksums of the pages in the range, for all parts, and makes them
    /// durable. Returns whether any was unknown. Called after a barrier on all parts, while no part
    /// is used.
    ///
    /// # Errors
    /// As [`barrier`](HeapMedium::barrier); [`Error::DamagedPages`].
    fn seal(&mut self, pages: Range<usize>) -> Result<bool, Error> {
        let _ = pages;
        Ok(false)
    }

    /// Compares those pages of the range that this part owns with their checksums, and adds the
    /// result. Damaged pages are marked, durably after the next barrier.
    ///
    /// # Errors
    /// The medium's own; then the pool must not go on. A page that cannot be read is no error: it
    /// counts as damaged.
    fn scrub(&mut self, pages: Range<usize>, scrubbed: &mut Scrubbed) -> Result<(), Error> {
        let _ = (pages, scrubbed);
        Ok(())
    }

    /// Returns the operations since the medium was opened.
    fn counts(&self) -> Counts;
}

/// The result of a comparison of pages with their checksums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Number of pages that were compared.
    pub compared: usize,
    /// The pages that differ.
    pub damaged: Vec<usize>,
}

/// Gathered writes of a heap image that are not yet written out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unwritten {
    /// Pages with such writes.
    pub pages: usize,
    /// These pages in groups, in the order in which they are written.
    pub ahead: [Ahead; Unwritten::GROUPS],
}

/// A group of pages with gathered writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// Pages that have been written when the group has; 0: there is no such group.
    pub pages: usize,
    /// The log sequence after which the oldest writes of the group were logged.
    pub oldest: u64,
}

impl Default for Ahead {
    fn default() -> Ahead {
        Ahead { pages: 0, oldest: u64::MAX }
    }
}

impl Unwritten {
    /// Groups into which the pages are divided.
    pub const GROUPS: usize = 16;

    /// Returns the log sequence after which the oldest writes were logged; `None` without writes.
    pub fn oldest(&self) -> Option<u64> {
        self.groups().map(|group| group.oldest).min()
    }

    /// Returns the groups that there are.
    pub fn groups(&self) -> impl Iterator<Item = &Ahead> {
        self.ahead.iter().filter(|group| group.pages > 0)
    }

    /// Joins two parts, if each is written at half of the rate.
    #[must_use]
    pub fn plus(mut self, other: Unwritten) -> Unwritten {
        self.pages += other.pages;
        for (group, other) in self.ahead.iter_mut().zip(other.ahead) {
            group.pages += other.pages;
            group.oldest = group.oldest.min(other.oldest);
        }
        self
    }
}

/// Log area that can be read back, by recovery or by inspection tools.
pub trait ReadLog {
    /// Bytes of the log area.
    fn bytes(&self) -> u64;

    /// Unit to which groups are padded. No two appends write to the same unit, so no later write
    /// can tear an acknowledged record.
    fn block_bytes(&self) -> usize;

    /// Reads the bytes at `at`; groups in flight may be included or not.
    ///
    /// # Errors
    /// The medium's own, or a range outside the area.
    fn read(&self, at: u64, out: &mut [u64]) -> Result<(), Error>;

    /// Reads the witnesses of the log, a line each; none where it has none.
    ///
    /// # Errors
    /// The medium's own.
    fn witnesses(&self) -> Result<Vec<Witness>, Error> {
        Ok(Vec::new())
    }
}

/// A line beside the log that says which groups were durable.
pub type Witness = [u64; 8];

/// Appends groups to the log, several at a time where the device can, and acknowledges them in
/// order when they are durable.
///
/// On a device, one thread at a time appends and one at a time asks for acknowledgements; other
/// threads wait inside. On memory, where no group is ever in flight, any number of threads append
/// at the same time. Positions are bytes in the log area, multiples of
/// [`block_bytes`](ReadLog::block_bytes).
pub trait LogMedium: ReadLog + Send + Sync {
    /// Maximum number of groups in flight. It is 0 where bytes are durable as soon as they are
    /// written; there [`append`](LogMedium::append) returns each group at once.
    fn depth(&self) -> usize;

    /// Sends the first `words` words of `group` to `at`: whole blocks, inside the area, apart from
    /// all groups in flight. A device does not block the caller: the group is in flight on return,
    /// and its buffer comes back with the acknowledgement. Memory returns the buffer at once, and
    /// its bytes are durable.
    ///
    /// # Errors
    /// The medium's own; then the pool must not go on.
    ///
    /// # Panics
    /// If [`depth`](LogMedium::depth) groups are already in flight.
    fn append(&self, at: u64, group: Buffer, words: usize) -> Result<Option<Buffer>, Error>;

    /// Does as [`append`](LogMedium::append) on memory, for a caller that lets one thread at a time
    /// append: the counts then need no locked instructions.
    ///
    /// # Errors
    /// As [`append`](LogMedium::append).
    fn append_alone(&self, at: u64, group: Buffer, words: usize) -> Result<Buffer, Error> {
        let durable = self.append(at, group, words)?;
        Ok(durable.expect("memory is durable at once"))
    }

    /// Returns the oldest group in flight once it is durable, whatever became of later groups. This
    /// is a group's persist barrier. `wait` selects whether to block for it. `None`: it is not
    /// durable yet, or no group is in flight.
    ///
    /// # Errors
    /// The medium's own; then the state of every group in flight is unknown, and no group is
    /// acknowledged any more.
    fn acknowledge(&self, wait: bool) -> Result<Option<Buffer>, Error>;

    /// Stores a witness where memory has a place for it. The groups that it names are durable; the
    /// last one ends at this sequence of the log. The witness survives the end of the process. That
    /// of the first group in each 4 KiB, and of the first one after
    /// [`keep_witness`](LogMedium::keep_witness), survives a power failure, once an append that
    /// began later has returned. One thread at a time calls it. No barrier.
    fn leave_witness(&self, end: u64, witness: &Witness) {
        let _ = (end, witness);
    }

    /// Makes the last witness durable. Called before recovery may skip the log up to this sequence.
    /// Costs one persist barrier where witnesses are kept in the cache.
    fn keep_witness(&self, recycled: u64) {
        let _ = recycled;
    }

    /// Returns the operations since the medium was opened.
    fn counts(&self) -> Counts;

    /// How groups get to the file; `None` where the log is mapped.
    fn written(&self) -> Option<LogPath> {
        None
    }

    /// Returns up to how many bytes the log can grow; 0: it keeps its size.
    fn bytes_max(&self) -> u64 {
        0
    }

    /// Makes the file long enough for a log of `bytes` bytes, at most
    /// [`bytes_max`](LogMedium::bytes_max). Durable on return, at one persist barrier. Groups may
    /// use them after [`extend`](LogMedium::extend).
    ///
    /// # Errors
    /// Those of [`PoolFile::grow`](crate::PoolFile::grow).
    fn reserve(&self, bytes: u64) -> Result<(), Error> {
        let _ = bytes;
        Ok(())
    }

    /// The log has so many bytes from now on. They were [reserved](LogMedium::reserve).
    fn extend(&self, bytes: u64) {
        let _ = bytes;
    }

    /// Gives up a lock on the file that was moved to the log. Nothing is in flight, and nothing may
    /// be appended afterwards.
    fn unlock(&self) {}
}

/// How groups get to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPath {
    /// By io_uring, several at a time; else by `pwritev2`, one at a time.
    pub io_uring: bool,
    /// Past the page cache (`O_DIRECT`); else through it, as durable but slower.
    pub direct: bool,
}

impl fmt::Display for LogPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let call = if self.io_uring { "io_uring" } else { "pwritev2" };
        let way = if self.direct { "direct" } else { "page cache" };
        write!(f, "{call}, {way}")
    }
}

/// Operations of a medium since it was opened.
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
