//! The traits of a transaction: words, allocation, and the workers that run transactions.

use crate::{Addr, Seen, Stop};

/// A transaction ID: its place in commit order. IDs are dense; [`TxId::NONE`] precedes the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxId(pub u64);

impl TxId {
    /// No transaction.
    pub const NONE: TxId = TxId(0);

    /// Returns the ID that follows.
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

/// The identifier of a lock, for designs that isolate by locks which the program chooses.
///
/// ```text
///   63     56 55                                 0
///   | space   | index: the thing that is locked    |     space 255: the allocator's own locks
/// ```
///
/// **Lock order.** A transaction takes the program's locks in ascending order, and all of them
/// before its first allocation or retirement: then no two transactions wait for each other. The
/// allocator's locks come after them: first the arena's, then the chunks'. A transaction that holds
/// one of those therefore never waits for one of the program's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockId(pub u64);

impl LockId {
    /// The first space number that is not the program's.
    pub const SPACE_END: u8 = u8::MAX;

    /// Returns the lock of this index in a space of the program's. Only the lowest 56 bits of an
    /// index count: two indexes that share them share a lock, which is safe.
    ///
    /// # Panics
    /// When `space` is 255, which belongs to the allocator.
    #[inline]
    pub const fn of(space: u8, index: u64) -> LockId {
        assert!(space < LockId::SPACE_END, "lock space 255 belongs to the allocator");
        LockId((space as u64) << 56 | index & ((1 << 56) - 1))
    }
}

/// A transaction as data structures see it: persistent words that are read and written atomically.
///
/// A [`Stop`] is sticky: after the first, every method returns the same.
pub trait Words {
    /// Reads one 8-byte word.
    ///
    /// # Errors
    /// [`Stop::Conflict`] on a conflict with another transaction, [`Stop::BadPointer`] when `at`
    /// is outside the heap or not a multiple of 8.
    fn read(&mut self, at: Addr) -> Result<u64, Stop>;

    /// Writes one 8-byte word. It becomes visible and durable with the whole transaction.
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

    /// Finds the version of an object that this transaction reads; see [`View`](crate::View).
    ///
    /// # Errors
    /// As [`read`](Words::read).
    #[inline]
    fn look(&mut self, object: u64) -> Result<Seen, Stop> {
        Ok(Seen { object, version: 0 })
    }

    /// Reads the word `offset` bytes into an object whose version is known. The transaction must
    /// not have written the object since [`look`](Words::look).
    ///
    /// # Errors
    /// As [`read`](Words::read).
    #[inline]
    fn read_seen(&mut self, seen: Seen, offset: u64) -> Result<u64, Stop> {
        self.read(Addr::new(seen.object, offset))
    }

    /// Reads neighbouring words of an object whose version is known, as
    /// [`read_seen`](Words::read_seen) does.
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

    /// Takes a lock in designs without isolation of their own (simulated hardware); else a no-op.
    ///
    /// # Errors
    /// [`Stop::Conflict`] when waiting for the lock could deadlock.
    #[inline]
    fn lock(&mut self, lock: LockId) -> Result<(), Stop> {
        let _ = lock;
        Ok(())
    }

    /// Adds the word at `at` to the write set without changing it. It matters where a read set
    /// alone does not give serializability (snapshot isolation); elsewhere it is a no-op.
    ///
    /// # Errors
    /// As [`write`](Words::write).
    #[inline]
    fn protect(&mut self, at: Addr) -> Result<(), Stop> {
        let _ = at;
        Ok(())
    }

    /// Hints that these bytes will be read soon, each read giving the address of the next. Designs
    /// may prefetch. Any address is allowed.
    #[inline]
    fn will_read(&mut self, at: Addr, bytes: usize) {
        let _ = (at, bytes);
    }

    /// Hints that these bytes will be written, or read closely together, soon. Designs may
    /// prefetch. Any address is allowed.
    #[inline]
    fn will_write(&mut self, at: Addr, bytes: usize) {
        let _ = (at, bytes);
    }

    /// Retires the unlinked object, run of blocks or run of pieces at `at`: its memory is reused
    /// once no transaction can still see it. This transaction itself may reuse it at once. If it
    /// does not commit, nothing is retired.
    ///
    /// # Errors
    /// [`Stop::BadPointer`] when nothing was allocated at `at`, or not so many bytes; else as
    /// [`write`](Words::write).
    fn retire(&mut self, at: Addr, bytes: u64) -> Result<(), Stop>;

    /// Counts work between memory accesses, in instructions; only a simulated machine uses it.
    #[inline]
    fn compute(&mut self, instructions: u32) {
        let _ = instructions;
    }

    /// Notes that the allocator has taken a run of `bytes` bytes for this transaction. A pool that
    /// grows before it is full counts them.
    #[inline]
    fn took_run(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// Notes that the next address depends on the value just read; only a simulated machine waits.
    #[inline]
    fn after_last_read(&mut self) {}
}

/// [`Words`] whose heap allocates objects as part of the transaction: an aborted or lost
/// transaction has allocated nothing.
pub trait Allocate: Words {
    /// Allocates an object of at least `bytes` (1 to
    /// [`OBJECT_BYTES_MAX`](crate::OBJECT_BYTES_MAX)); returns its first byte. Its content is
    /// undefined: write every word before you read it.
    ///
    /// # Errors
    /// [`Stop::Full`], [`Stop::BadSize`], [`Stop::TooLarge`], [`Stop::Conflict`].
    fn allocate(&mut self, bytes: usize) -> Result<u64, Stop>;

    /// Reserves a run of `blocks` objects of [`BLOCK_BYTES`](crate::BLOCK_BYTES) each,
    /// [`block_stride`](crate::block_stride) apart; returns the first byte of the first. No block
    /// may be written before it is prepared.
    ///
    /// # Errors
    /// As [`allocate`](Allocate::allocate).
    fn reserve_blocks(&mut self, blocks: u64) -> Result<u64, Stop>;

    /// Prepares up to `most` further blocks of the run, in order, filled with zeros; returns how
    /// many remain unprepared.
    ///
    /// A long run is prepared in several transactions, because each must fit in the log. The
    /// progress is part of the pool: a crash loses only the last step.
    ///
    /// # Errors
    /// [`Stop::BadPointer`] when `first` is not a reserved run; else as
    /// [`allocate`](Allocate::allocate).
    fn prepare_blocks(&mut self, first: u64, most: u64) -> Result<u64, Stop>;

    /// Allocates a run of pieces for a string of `bytes` bytes, more than
    /// [`OBJECT_BYTES_MAX`](crate::OBJECT_BYTES_MAX); returns the first byte of the first piece.
    ///
    /// The pieces are [`PIECE_STRIDE`](crate::PIECE_STRIDE) apart, and each is an object of
    /// [`PIECE_BYTES`](crate::PIECE_BYTES) bytes, the last of as many as remain. All are writable
    /// at once. Their content is undefined, as that of a new object.
    ///
    /// # Errors
    /// As [`allocate`](Allocate::allocate).
    fn allocate_pieces(&mut self, bytes: u64) -> Result<u64, Stop>;

    /// Resizes an object or a run of pieces from `from` to `to` bytes in place, if its memory
    /// allows that. Returns whether it did.
    ///
    /// After `true`, the bytes that both sizes have are kept, further ones are undefined, and the
    /// object is retired as one of `to` bytes. After `false` nothing has changed, because there is
    /// no room, another size class takes less memory, or `from` and `to` are on different sides of
    /// [`OBJECT_BYTES_MAX`](crate::OBJECT_BYTES_MAX). The caller then moves the content.
    ///
    /// # Errors
    /// [`Stop::BadPointer`] when nothing of `from` bytes was allocated at `first`,
    /// [`Stop::BadSize`] when `to` is 0; else as [`allocate`](Allocate::allocate).
    fn resize(&mut self, first: u64, from: u64, to: u64) -> Result<bool, Stop>;

    /// Returns the object from which the program reaches all others; 0 in a new heap.
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

/// One worker of a pool, of whatever design, that runs transactions.
pub trait Transact {
    /// A transaction of this worker.
    type Tx<'t>: Allocate
    where
        Self: 't;
    /// The reason why a transaction failed.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Runs `body` as one transaction, again after each conflict, until it commits or fails.
    ///
    /// # Errors
    /// The [`Stop`] of `body`, unless it is a conflict; then nothing was written.
    fn transact<R>(
        &mut self,
        body: impl FnMut(&mut Self::Tx<'_>) -> Result<R, Stop>,
    ) -> Result<R, Self::Error>;
}
