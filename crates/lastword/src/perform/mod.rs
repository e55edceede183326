//! Perform: transactions run in shadow memory, isolated by a transactional memory.
//!
//! A transactional memory is a component behind [`Tm`]; it knows words of a [`Space`] and
//! transaction IDs, and nothing about durability. What a committed transaction wrote goes to a
//! [`Redo`]: the volatile ring of `decoupled`, or nowhere for `volatile`.
//!
//! | memory | isolation | for |
//! |---|---|---|
//! | [`Stm`] | time-based, ownership records taken at the first write, in place | the default |
//! | [`Serial`] | one lock for everything | the reference that others are tested against |
//!
//! (DudeTM, sections 3.2 and 4.1.)

mod contention;
mod records;
mod serial;
mod space;
mod stm;
mod write_set;

pub(crate) use contention::{Closed, Fortune, Turn};
pub use contention::{Gate, Obstacle};
pub(crate) use records::records_of;
pub use serial::Serial;
pub use space::{Heap, Space};
pub use stm::Stm;
pub(crate) use write_set::STRIPE_WORDS;
pub use write_set::Written;

use crate::Error;
use crate::sync::{AtomicU64, Ordering};
use words::{Stop, TxId};

/// A transactional memory: isolation and order for words of a shared heap.
///
/// One attempt runs `begin`, then reads and writes, then `commit` or `roll_back`. After any of them
/// has answered `Stop`, only `roll_back` may follow.
pub trait Tm: Send + Sync + Sized + 'static {
    /// Its name, as the command line and statistics say it.
    const NAME: &'static str;

    /// One worker's running transaction: sets and buffers, kept from one to the next.
    type Attempt: Send;

    /// A memory for a heap of so many words, with so many ownership records, where it has them; 0:
    /// as many as suit the heap and the machine. No transaction has an ID yet.
    ///
    /// # Errors
    /// [`Error::NoRecords`].
    fn sized(heap_words: usize, records: u64) -> Result<Self, Error>;

    /// Goes on after the transaction `last`. Before any worker begins.
    fn starting_after(self, last: TxId) -> Self {
        // Relaxed: what shares the memory with other threads orders it.
        self.clock().store(last.0, Ordering::Relaxed);
        self
    }

    /// The state of one worker. `worker` is unique among the living ones.
    fn attempt(&self, worker: usize) -> Self::Attempt;

    /// ID of the last transaction that has drawn one. Committed when no worker is in `commit`.
    fn clock(&self) -> &AtomicU64;

    /// Its starvation lock.
    fn gate(&self) -> &Gate;

    /// Why the last attempt ended with a conflict; asked once.
    fn obstacle(&self, attempt: &mut Self::Attempt) -> Obstacle {
        let _ = attempt;
        Obstacle::Unknown
    }

    /// Whether a record that was [`Held`](Obstacle::Held) still has this value.
    fn is_held(&self, key: u64, seen: u64) -> bool {
        let _ = (key, seen);
        false
    }

    /// Begins an attempt.
    fn begin(&self, attempt: &mut Self::Attempt);

    /// Begins an attempt that will not write. It may be quicker, and conflict more often.
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

    /// Reads neighbouring words of the snapshot.
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

    /// Writes neighbouring words.
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

    /// A hint that words from `index` on will be read.
    fn will_read(&self, space: impl Space, index: usize, words: usize);

    /// A hint that words from `index` on will be written.
    fn will_write(&self, space: impl Space, index: usize, words: usize);

    /// How many different words the attempt has written.
    fn words_written(&self, attempt: &Self::Attempt) -> usize;

    /// Commits; answers the transaction's ID, or for a transaction that wrote nothing the ID of
    /// the last transaction that it may have seen.
    ///
    /// # Errors
    /// [`Stop::Conflict`] when another transaction was in the way, or `redo` had no room.
    fn commit(
        &self,
        attempt: &mut Self::Attempt,
        space: impl Space,
        redo: &mut impl Redo,
    ) -> Result<TxId, Stop>;

    /// Takes everything back. Answers the ID of the last transaction that it may have seen.
    fn roll_back(
        &self,
        attempt: &mut Self::Attempt,
        space: impl Space,
        redo: &mut impl Redo,
    ) -> TxId;
}

/// Where the writes of committed transactions go, in the order of their IDs.
///
/// For each ID drawn: `drawing` before the clock is moved, then exactly one `record`.
pub trait Redo {
    /// Whether a record of so many runs' words fits; asked before an ID is drawn, so that a commit
    /// cannot fail for space. A record without writes always fits once this was asked for zero.
    fn has_room(&mut self, words: usize) -> bool;

    /// An ID larger than `clock` is about to be drawn.
    fn drawing(&mut self, clock: u64);

    /// The transaction `id` wrote this; nothing at all when it was rolled back.
    fn record(&mut self, id: TxId, written: Written<'_, impl Space>);
}

/// For designs that keep nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRedo;

impl Redo for NoRedo {
    #[inline]
    fn has_room(&mut self, _words: usize) -> bool {
        true
    }

    #[inline]
    fn drawing(&mut self, _clock: u64) {}

    #[inline]
    fn record(&mut self, _id: TxId, _written: Written<'_, impl Space>) {}
}
