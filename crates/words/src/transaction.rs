//! The traits: words, allocation, and whoever runs transactions.

use crate::{Addr, Seen, Stop};

/// Order of commit. IDs are dense; [`TxId::NONE`] stands before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxId(pub u64);

impl TxId {
    /// No transaction.
    pub const NONE: TxId = TxId(0);

    /// The ID that follows.
    #[inline]
    pub const fn next(self) -> TxId {
        TxId(self.0 + 1)
    }
}

impl std::fmt::Display for TxId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Names a lock for designs that isolate by locks which the program names itself.
///
/// ```text
///   63     56 55                                 0
///   | space   | index: what is locked in it        |     space 255: the allocator's own locks
/// ```
///
/// **The order of locks.** A transaction takes the program's locks in ascending order, all of them
/// before its first allocation or retirement: then no two wait for each other. The allocator's come
/// behind, inside of everything: the arena's, then that of the chunks. So whoever holds one of
/// those waits for none of the program's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockId(pub u64);

impl LockId {
    /// The number of the first space that is not the program's.
    pub const SPACE_END: u8 = u8::MAX;

    /// The lock of this index in a space of the program's. Of an index only the lowest 56 bits
    /// count: two that share them share a lock, which is safe.
    ///
    /// # Panics
    /// When `space` is the allocator's, 255.
    #[inline]
    pub const fn of(space: u8, index: u64) -> LockId {
        assert!(space < LockId::SPACE_END, "space 255 is the allocator's");
        LockId((space as u64) << 56 | index & ((1 << 56) - 1))
    }
}

/// A transaction, seen by data structures: persistent words, read and written atomically together.
///
/// Every method that can answer [`Stop`] answers the same `Stop` ever after (see there).
pub trait Words {
    /// Reads one 8-byte word.
    ///
    /// # Errors
    /// [`Stop::Conflict`] when another transaction is in the way, [`Stop::BadPointer`] when `at`
    /// is outside the heap or not a multiple of 8.
    fn read(&mut self, at: Addr) -> Result<u64, Stop>;

    /// Writes one 8-byte word. Others see it, and it becomes durable, with the whole transaction.
    ///
    /// # Errors
    /// As [`read`](Words::read); also [`Stop::BadPointer`] when `at` is in no live object,
    /// [`Stop::TooLarge`] when the transaction outgrows its worker's ring or the log.
    fn write(&mut self, at: Addr, value: u64) -> Result<(), Stop>;

    /// Reads neighbouring words of one object.
    ///
    /// # Errors
    /// As [`read`](Words::read).
    #[inline]
    fn read_words(&mut self, at: Addr, out: &mut [u64]) -> Result<(), Stop> {
        for (i, word) in out.iter_mut().enumerate() {
            *word = self.read(at.plus(8 * i as u64))?;
        }
        Ok(())
    }

    /// Finds out which version of an object this transaction reads; see [`View`](crate::View).
    ///
    /// # Errors
    /// As [`read`](Words::read).
    #[inline]
    fn look(&mut self, object: u64) -> Result<Seen, Stop> {
        Ok(Seen { object, version: 0 })
    }

    /// Reads the word `offset` bytes into an object whose version is known; nothing of the object
    /// was written since it was found.
    ///
    /// # Errors
    /// As [`read`](Words::read).
    #[inline]
    fn read_seen(&mut self, seen: Seen, offset: u64) -> Result<u64, Stop> {
        self.read(Addr::new(seen.object, offset))
    }

    /// The same for neighbouring words.
    ///
    /// # Errors
    /// As [`read`](Words::read).
    #[inline]
    fn read_words_seen(&mut self, seen: Seen, offset: u64, out: &mut [u64]) -> Result<(), Stop> {
        self.read_words(Addr::new(seen.object, offset), out)
    }

    /// Writes neighbouring words of one object.
    ///
    /// # Errors
    /// As [`write`](Words::write).
    #[inline]
    fn write_words(&mut self, at: Addr, words: &[u64]) -> Result<(), Stop> {
        for (i, word) in words.iter().enumerate() {
            self.write(at.plus(8 * i as u64), *word)?;
        }
        Ok(())
    }

    /// Isolation for designs that have none of their own (simulated hardware); nothing elsewhere.
    ///
    /// # Errors
    /// [`Stop::Conflict`] when waiting for the lock could never end.
    #[inline]
    fn lock(&mut self, lock: LockId) -> Result<(), Stop> {
        let _ = lock;
        Ok(())
    }

    /// Adds what was read at `at` to the write set without changing it, where reads alone are not
    /// enough for serializability (snapshot isolation); nothing elsewhere.
    ///
    /// # Errors
    /// As [`write`](Words::write).
    #[inline]
    fn protect(&mut self, at: Addr) -> Result<(), Stop> {
        let _ = at;
        Ok(())
    }

    /// A hint: these bytes will be read soon, one read telling where the next one goes. Designs may
    /// prefetch. Any address is allowed.
    #[inline]
    fn will_read(&mut self, at: Addr, bytes: usize) {
        let _ = (at, bytes);
    }

    /// A hint: these bytes will be written, or read closely together, soon. Designs may prefetch.
    /// Any address is allowed.
    #[inline]
    fn will_write(&mut self, at: Addr, bytes: usize) {
        let _ = (at, bytes);
    }

    /// The object or run of blocks at `at` is unlinked: its memory may be used again when no
    /// transaction can still see it. This transaction itself may be given it at once; if it does
    /// not commit, nothing was retired.
    ///
    /// # Errors
    /// [`Stop::BadPointer`] when nothing was allocated at `at`, or not so many bytes; else as
    /// [`write`](Words::write).
    fn retire(&mut self, at: Addr, bytes: u64) -> Result<(), Stop>;

    /// Work between memory accesses, in instructions; only a simulated machine counts it.
    #[inline]
    fn compute(&mut self, instructions: u32) {
        let _ = instructions;
    }

    /// The next address was computed from the value just read; only a simulated machine waits.
    #[inline]
    fn after_last_read(&mut self) {}
}

/// [`Words`] whose heap can give out new objects, as part of the transaction: an aborted or lost
/// transaction has allocated nothing.
pub trait Allocate: Words {
    /// A new object of at least `bytes` (1 to [`OBJECT_BYTES_MAX`](crate::OBJECT_BYTES_MAX));
    /// answers its first byte. What is in it is not defined: write every word before you read it.
    ///
    /// # Errors
    /// [`Stop::Full`], [`Stop::BadSize`], [`Stop::TooLarge`], [`Stop::Conflict`].
    fn allocate(&mut self, bytes: usize) -> Result<u64, Stop>;

    /// Room for a run of `blocks` objects of [`BLOCK_BYTES`](crate::BLOCK_BYTES) each,
    /// [`block_stride`](crate::block_stride) apart; answers the first one's first byte. None of
    /// them may be written before it is prepared.
    ///
    /// # Errors
    /// As [`allocate`](Allocate::allocate).
    fn reserve_blocks(&mut self, blocks: u64) -> Result<u64, Stop>;

    /// Makes up to `most` further blocks of the run ready, in order, filled with zeros; answers how
    /// many are still not ready. A long run is prepared in several transactions, because one must
    /// fit in the log; how far it has come is part of the pool: a crash loses only the last step.
    ///
    /// # Errors
    /// [`Stop::BadPointer`] when `first` is no reserved run; else as
    /// [`allocate`](Allocate::allocate).
    fn prepare_blocks(&mut self, first: u64, most: u64) -> Result<u64, Stop>;

    /// The object from which the program reaches everything else; 0 in a new heap.
    ///
    /// # Errors
    /// [`Stop::Conflict`].
    fn root(&mut self) -> Result<u64, Stop>;

    /// Makes `object` the root.
    ///
    /// # Errors
    /// As [`write`](Words::write).
    fn set_root(&mut self, object: u64) -> Result<(), Stop>;
}

/// Whoever runs transactions: one worker of a pool, whatever its design.
pub trait Transact {
    /// A transaction of this worker.
    type Tx<'t>: Allocate
    where
        Self: 't;
    /// Why a transaction could not be done.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Runs `body` as one transaction, again when it conflicts, until it commits or cannot.
    ///
    /// # Errors
    /// Whatever `body` ended with, other than a conflict; then nothing was written.
    fn transact<R>(
        &mut self,
        body: impl FnMut(&mut Self::Tx<'_>) -> Result<R, Stop>,
    ) -> Result<R, Self::Error>;
}
