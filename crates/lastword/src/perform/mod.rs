//! Perform: runs transactions in shadow memory, isolated by a transactional memory.
//!
//! A transactional memory implements [`Tm`]. It handles the words of a [`Space`] and transaction
//! IDs, and does not know about durability. The writes of a committed transaction go to a [`Redo`]:
//! the volatile ring of `decoupled`, or none for `volatile`.
//!
//! | memory | isolation | for |
//! |---|---|---|
//! | [`Stm`] | time-based, in place, ownership records taken at the first write | the default |
//! | [`Serial`] | one lock for everything | a reference for tests of the others |
//!
//! (DudeTM, sections 3.2 and 4.1.)

mod contention;
mod records;
mod serial;
mod space;
mod stm;
mod write_set;

pub(crate) use contention::{Backoff, GaveUp, QueuePlace, Wait};
pub use contention::{Obstacle, StarvationLock};
pub(crate) use records::{check_records, records_of};
pub use serial::Serial;
pub use space::{Heap, Space};
pub use stm::Stm;
pub use write_set::Written;
pub(crate) use write_set::{STRIPE_WORDS, record_words_max};

use crate::Error;
use crate::sync::{AtomicU64, Ordering};
use words::{Stop, TxId};

/// A transactional memory: isolation and order for the words of a shared heap.
///
/// An attempt is `begin`, then reads and writes, then `commit` or `roll_back`. After any of them
/// has returned a `Stop`, only `roll_back` may follow.
pub trait Tm: Send + Sync + Sized + 'static {
    /// Name on the command line and in statistics.
    const NAME: &'static str;

    /// The running transaction of one worker. Its sets and buffers are reused.
    type Attempt: Send;

    /// Makes a memory for a heap of this size, with this number of ownership records, if it has
    /// any. 0 selects a number for the heap and the machine. No ID is assigned yet.
    ///
    /// # Errors
    /// [`Error::NoRecords`].
    fn sized(heap_words: usize, records: u64) -> Result<Self, Error>;

    /// Continues after the transaction `last`. Called before any worker begins.
    fn starting_after(self, last: TxId) -> Self {
        // Relaxed: sharing the memory with other threads orders this store.
        self.clock().store(last.0, Ordering::Relaxed);
        self
    }

    /// Returns the state of one worker; `worker` is unique among the live ones.
    fn attempt(&self, worker: usize) -> Self::Attempt;

    /// Returns the clock: the last assigned ID. It is committed when no worker is in `commit`.
    fn clock(&self) -> &AtomicU64;

    /// Returns the starvation lock.
    fn starvation_lock(&self) -> &StarvationLock;

    /// Takes the obstacle that ended the last attempt with a conflict.
    fn obstacle(&self, attempt: &mut Self::Attempt) -> Obstacle {
        let _ = attempt;
        Obstacle::Unknown
    }

    /// Returns the worker that holds a [`Held`](Obstacle::Held) record, if it still has this value.
    fn holder(&self, key: u64, seen: u64) -> Option<usize> {
        let _ = (key, seen);
        None
    }

    /// Begins an attempt.
    fn begin(&self, attempt: &mut Self::Attempt);

    /// Begins a read-only attempt. It may be faster and conflict more often.
    fn begin_read(&self, attempt: &mut Self::Attempt) {
        self.begin(attempt);
    }

    /// Reads a word of the snapshot.
    ///
    /// # Errors
    /// [`Stop::Conflict`].
    fn read(
        &self,
        attempt: &mut Self::Attempt,
        space: impl Space,
        index: usize,
    ) -> Result<u64, Stop>;

    /// Reads neighboring words of the snapshot.
    ///
    /// # Errors
    /// [`Stop::Conflict`].
    fn read_run(
        &self,
        attempt: &mut Self::Attempt,
        space: impl Space,
        index: usize,
        out: &mut [u64],
    ) -> Result<(), Stop>;

    /// Writes a word.
    ///
    /// # Errors
    /// [`Stop::Conflict`].
    fn write(
        &self,
        attempt: &mut Self::Attempt,
        space: impl Space,
        index: usize,
        value: u64,
    ) -> Result<(), Stop>;

    /// Writes neighboring words.
    ///
    /// # Errors
    /// [`Stop::Conflict`].
    fn write_run(
        &self,
        attempt: &mut Self::Attempt,
        space: impl Space,
        index: usize,
        values: &[u64],
    ) -> Result<(), Stop>;

    /// Hints that words from `index` on will be read.
    fn will_read(&self, space: impl Space, index: usize, words: usize);

    /// Hints that words from `index` on will be written.
    fn will_write(&self, space: impl Space, index: usize, words: usize);

    /// Returns the number of different words that the attempt wrote.
    fn words_written(&self, attempt: &Self::Attempt) -> usize;

    /// Commits. Returns the transaction's ID; for a read-only transaction, the last ID that it may
    /// have seen.
    ///
    /// # Errors
    /// [`Stop::Conflict`] on a conflict, or if `redo` has no room.
    fn commit(
        &self,
        attempt: &mut Self::Attempt,
        space: impl Space,
        redo: &mut impl Redo,
    ) -> Result<TxId, Stop>;

    /// Rolls the attempt back. Returns the last ID that it may have seen.
    fn roll_back(
        &self,
        attempt: &mut Self::Attempt,
        space: impl Space,
        redo: &mut impl Redo,
    ) -> TxId;
}

/// The destination of the writes of committed transactions, in the order of their IDs.
///
/// For each assigned ID: `assigning` before the clock advances, then exactly one `record`.
pub trait Redo {
    /// Whether a record with this many words of runs fits. Called before an ID is assigned, so that
    /// a commit cannot fail for lack of room. After a call with 0 a record without writes always
    /// fits.
    fn has_room(&mut self, words: usize) -> bool;

    /// Announces that an ID greater than `clock` is about to be assigned.
    fn assigning(&mut self, clock: u64);

    /// Records the writes of the transaction `id`; none if it was rolled back.
    fn record(&mut self, id: TxId, written: Written<'_, impl Space>);
}

/// A [`Redo`] without effect, for designs that are not durable.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRedo;

impl Redo for NoRedo {
    #[inline]
    fn has_room(&mut self, _words: usize) -> bool {
        true
    }

    #[inline]
    fn assigning(&mut self, _clock: u64) {}

    #[inline]
    fn record(&mut self, _id: TxId, _written: Written<'_, impl Space>) {}
}
