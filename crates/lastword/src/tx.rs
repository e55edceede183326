//! A running transaction, as its body sees it.
//!
//! This type checks every access, once for all designs:
//! - the address against the pool: tag, alignment and bound in one comparison;
//! - a write against the object's header;
//! - the transaction's size against the log.
//!
//! An invalid access ends the attempt, and no access reaches outside the pool.

mod end;
mod live;
mod replay;

use lw_alloc::{Detached, Prepared};
use medium::mutants::{Mutant, injected};
use words::{Addr, Allocate, BLOCK_BYTES, HEADER_BYTES, Seen, Stop, TxId, Words};

use crate::Error;
use crate::design::{At, Decoupled, Design, Ending};
use crate::pool::Shape;
use crate::reason::{AbortReason, Reason};

/// Words of an object's header, which precedes the object.
const HEADER_WORDS: u64 = HEADER_BYTES / 8;

/// Offset of an object's link: the first word of its header.
const LINK: u64 = HEADER_BYTES.wrapping_neg();

/// The prepared blocks of the run that a worker looked up last, and the number of changes of its
/// watch word at that time; see [`live`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    run: Prepared,
    changes: u64,
}

impl Known {
    pub(crate) const NOTHING: Known = Known { run: Prepared::NONE, changes: 0 };
}

/// A running transaction.
pub struct Tx<'t, D: Design = Decoupled> {
    design: &'t D,
    local: &'t mut D::Local,
    shape: &'t Shape,
    arena: usize,
    /// The pool's tag, in the bits of an address that hold it.
    base: u64,
    /// Words of the heap. 0 after the attempt has ended, so that every later access takes the path
    /// to `refuse`.
    bound: u64,
    /// The size of the heap at the begin of the attempt.
    heap_bytes: u64,
    /// The last object found to be live, and its size. Its header is in the read set, so the commit
    /// verifies that the object is still live.
    live: (u64, u64),
    /// The prepared blocks of the run of the last block found to be live. The run's watch word is
    /// in the read set.
    run: Prepared,
    /// The run that an earlier transaction of the worker found. Valid only after its watch word is
    /// read again, if the number of changes is the same.
    known: &'t mut Known,
    /// Whether this transaction prepared or freed a run. It may roll back, so its view of a run is
    /// not kept in `known`.
    changes_runs: bool,
    /// Runs to give back after the body.
    detached: Vec<Detached>,
    read_only: bool,
    stop: Option<Stop>,
    /// The refused address. With [`Stop::Full`], its offset is the requested size in bytes, and its
    /// object the number of an array's blocks, or 0.
    wild: Addr,
    reason: Option<Reason>,
    /// Dropping the transaction rolls back if this is `Open`.
    stage: Stage,
}

/// The end of an attempt by a stop other than a conflict.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The heap was full. A worker may reclaim memory and try again, so the error is not made yet:
    /// its numbers cost a walk over all runs, and a reclaim changes them.
    Full(MetFull),
    /// The error for the program.
    Error(Error),
}

/// A request that a full heap could not serve.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MetFull {
    /// The request, as in [`Tx::wild`]. Without bytes if the body itself returned the stop.
    pub(crate) wanted: Addr,
    /// The size of the heap.
    pub(crate) heap_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Open,
    /// In its commit or roll-back. If it is dropped in this stage, that has panicked.
    Ending,
    Over,
}

impl<'t, D: Design> Tx<'t, D> {
    #[inline]
    pub(crate) fn new(
        design: &'t D,
        local: &'t mut D::Local,
        known: &'t mut Known,
        shape: &'t Shape,
        arena: usize,
        read_only: bool,
    ) -> Tx<'t, D> {
        let (base, heap_bytes) = (shape.base(), shape.heap_bytes());
        let bound = heap_bytes / 8;
        let wild = Addr::new(0, 0);
        let (live, run) = ((0, 0), Prepared::NONE);
        let (stop, reason, stage) = (None, None, Stage::Open);
        Tx {
            design,
            local,
            shape,
            arena,
            base,
            bound,
            heap_bytes,
            live,
            run,
            known,
            changes_runs: false,
            detached: Vec::new(),
            read_only,
            stop,
            wild,
            reason,
            stage,
        }
    }

    /// Ends the transaction without any effect: `return tx.abort(reason)`. `run` then returns
    /// [`Error::Aborted`](crate::Error::Aborted) with this reason and with the last ID that the
    /// body may have seen.
    ///
    /// # Errors
    /// Always: [`Stop::Aborted`].
    pub fn abort<R>(&mut self, reason: impl AbortReason) -> Result<R, Stop> {
        if self.stop.is_none() {
            self.reason = Some(Reason(Box::new(reason)));
        }
        Err(self.end(Stop::Aborted))
    }

    #[inline]
    pub(crate) fn stopped(&self) -> Option<Stop> {
        self.stop
    }

    #[inline]
    pub(crate) fn words_written(&self) -> usize {
        self.design.words_written(self.local)
    }

    /// Gives back the runs that the body freed. Called after the body.
    ///
    /// # Errors
    /// As [`Words::retire`].
    #[inline]
    pub(crate) fn give_back(&mut self) -> Result<(), Stop> {
        if D::BY_OBJECT && !self.detached.is_empty() {
            self.give_runs_back()?;
        }
        Ok(())
    }

    /// Runs one step of a reclaim, after a transaction has met a full heap: see
    /// [`lw_alloc::Heap::reclaim`].
    ///
    /// # Errors
    /// As [`Words::retire`].
    #[cold]
    pub(crate) fn reclaim(&mut self, step: lw_alloc::Step) -> Result<lw_alloc::Reclaimed, Stop> {
        let heap = self.shape.heap();
        // Before the first write: a design may then end a group.
        self.design.gives_runs_back(self.local);
        heap.reclaim(&mut Metadata(self), step).map_err(|stop| self.end(stop))
    }

    /// Returns the bitmap of the arenas that may own a slab or keep free slots.
    ///
    /// # Errors
    /// As [`Words::read`].
    #[cold]
    pub(crate) fn owners(&mut self) -> Result<u64, Stop> {
        let heap = self.shape.heap();
        heap.owners(&mut Metadata(self)).map_err(|stop| self.end(stop))
    }

    /// Returns how far the program's data are migrated.
    ///
    /// # Errors
    /// As [`Words::read`].
    #[cold]
    pub(crate) fn migrated(&mut self) -> Result<lw_alloc::Migrated, Stop> {
        let heap = self.shape.heap();
        heap.migrated(&mut Metadata(self)).map_err(|stop| self.end(stop))
    }

    /// Notes how far the program's data are migrated.
    ///
    /// # Errors
    /// As [`Words::write`].
    #[cold]
    pub(crate) fn set_migrated(&mut self, now: lw_alloc::Migrated) -> Result<(), Stop> {
        let heap = self.shape.heap();
        heap.set_migrated(&mut Metadata(self), now).map_err(|stop| self.end(stop))
    }

    #[cold]
    fn give_runs_back(&mut self) -> Result<(), Stop> {
        let heap = self.shape.heap();
        for run in std::mem::take(&mut self.detached) {
            heap.give_back(&mut Metadata(self), run).map_err(|stop| self.end(stop))?;
        }
        Ok(())
    }

    /// Commits. After a conflict, dropping the transaction rolls it back.
    #[inline]
    pub(crate) fn commit(&mut self) -> Result<TxId, Stop> {
        self.stage = Stage::Ending;
        let committed = Ending::run(self.design, self.local, "commit", D::commit);
        // A conflict leaves the transaction open, so that `drop` rolls it back.
        self.stage = if committed.is_ok() { Stage::Over } else { Stage::Open };
        committed
    }

    /// Ends the attempt: every later access returns the same stop.
    #[cold]
    fn end(&mut self, stop: Stop) -> Stop {
        self.bound = 0;
        let stop = if self.is_outgrown(stop) { Stop::Conflict } else { stop };
        *self.stop.get_or_insert(stop)
    }

    /// Ends the attempt, and notes the refused request: bytes, and the number of an array's blocks.
    #[cold]
    fn end_wanting(&mut self, stop: Stop, bytes: u64, blocks: u64) -> Stop {
        if self.stop.is_none() {
            self.wild = Addr::new(blocks, bytes);
        }
        self.end(stop)
    }

    #[cold]
    fn refuse(&mut self, at: Addr) -> Stop {
        if self.stop.is_none() {
            self.wild = at;
        }
        self.end(Stop::BadPointer)
    }

    /// Checks an address and returns the place of its word in the heap.
    #[inline(always)]
    fn place(&mut self, at: Addr) -> Result<At, Stop> {
        // A foreign tag, a negative offset or an odd byte all come out far above the bound: the
        // subtraction wraps, and the rotation carries the low three bits to the top.
        let index = at.byte().wrapping_sub(self.base).rotate_right(3);
        if index >= self.bound {
            return Err(self.refuse(at));
        }
        Ok(At { object: self.object(at)?, index: index as usize })
    }

    /// Checks an address and returns the place of neighboring words in the heap.
    #[inline(always)]
    fn run_place(&mut self, at: Addr, words: usize) -> Result<At, Stop> {
        let index = at.byte().wrapping_sub(self.base).rotate_right(3);
        if index.saturating_add(words as u64) > self.bound {
            return Err(self.refuse(at));
        }
        Ok(At { object: self.object(at)?, index: index as usize })
    }

    /// Checks an address inside an object that `look` returned.
    #[inline(always)]
    fn seen_place(&mut self, at: Addr, words: usize) -> Result<At, Stop> {
        let index = at.byte().wrapping_sub(self.base).rotate_right(3);
        if index.saturating_add(words as u64) > self.bound {
            return Err(self.refuse(at));
        }
        let object = (at.object.wrapping_sub(self.base) / 8) as usize;
        Ok(At { object, index: index as usize })
    }

    /// Returns the index of the object, for designs that isolate objects. An object has its header
    /// before it.
    #[inline(always)]
    fn object(&mut self, at: Addr) -> Result<usize, Stop> {
        if !D::BY_OBJECT {
            return Ok(0);
        }
        let object = at.object.wrapping_sub(self.base).rotate_right(3);
        // An object within these bounds has all of its header inside the heap.
        let is_there = object.wrapping_sub(HEADER_WORDS) < self.bound.wrapping_sub(HEADER_WORDS);
        if is_there { Ok(object as usize) } else { Err(self.refuse(at)) }
    }

    #[inline(always)]
    fn put(&mut self, at: At, value: u64) -> Result<(), Stop> {
        if self.read_only {
            return Err(self.end(Stop::ReadOnly));
        }
        let done = self.design.write(self.local, at, value);
        self.check_size(done)
    }

    /// Ends the attempt if a write failed, or if the transaction exceeds the log.
    #[inline(always)]
    fn check_size(&mut self, done: Result<(), Stop>) -> Result<(), Stop> {
        if let Err(stop) = done {
            return Err(self.end(stop));
        }
        if self.design.words_written(self.local) > self.design.words_max() {
            return Err(self.end(Stop::TooLarge));
        }
        Ok(())
    }

    /// Locks the object, where the design isolates by object and a read alone does not protect it.
    #[inline(always)]
    fn protect_object(&mut self, at: Addr) -> Result<(), Stop> {
        if !D::BY_OBJECT || self.read_only {
            return self.stop.map_or(Ok(()), Err);
        }
        let place = self.place(at)?;
        let done = self.design.protect(self.local, place);
        self.check_size(done)
    }

    /// Returns the index of the first word and the number of words, if all are in the heap. For
    /// hints, which may be wrong.
    #[inline]
    fn hint(&self, at: Addr, bytes: usize) -> Option<(usize, usize)> {
        let index = at.byte().wrapping_sub(self.base) >> 3;
        let words = bytes.div_ceil(8).min(words::OBJECT_BYTES_MAX / 8);
        let end = index.saturating_add(words as u64);
        (end <= self.bound).then_some((index as usize, words))
    }
}

impl<D: Design> Words for Tx<'_, D> {
    #[inline(always)]
    fn read(&mut self, at: Addr) -> Result<u64, Stop> {
        let place = self.place(at)?;
        match self.design.read(self.local, place) {
            Ok(value) => Ok(value),
            Err(stop) => Err(self.end(stop)),
        }
    }

    #[inline(always)]
    fn write(&mut self, at: Addr, value: u64) -> Result<(), Stop> {
        let place = self.place(at)?;
        self.check_live(at, place.index, 8)?;
        self.put(place, value)
    }

    #[inline]
    fn read_words(&mut self, at: Addr, out: &mut [u64]) -> Result<(), Stop> {
        let place = self.run_place(at, out.len())?;
        match self.design.read_run(self.local, place, out) {
            Ok(()) => Ok(()),
            Err(stop) => Err(self.end(stop)),
        }
    }

    #[inline(always)]
    fn look(&mut self, object: u64) -> Result<Seen, Stop> {
        let version = match D::BY_OBJECT {
            true => {
                let at = self.place(Addr::new(object, 0))?;
                self.design.look(self.local, at.object)
            }
            false => 0,
        };
        Ok(Seen { object, version })
    }

    #[inline(always)]
    fn read_seen(&mut self, seen: Seen, offset: u64) -> Result<u64, Stop> {
        let at = Addr::new(seen.object, offset);
        if !D::BY_OBJECT {
            return self.read(at);
        }
        let at = self.seen_place(at, 1)?;
        self.design.read_seen(self.local, seen.version, at).map_err(|stop| self.end(stop))
    }

    #[inline(always)]
    fn read_words_seen(&mut self, seen: Seen, offset: u64, out: &mut [u64]) -> Result<(), Stop> {
        let at = Addr::new(seen.object, offset);
        if !D::BY_OBJECT {
            return self.read_words(at, out);
        }
        let at = self.seen_place(at, out.len())?;
        self.design.read_run_seen(self.local, seen.version, at, out).map_err(|stop| self.end(stop))
    }

    #[inline(always)]
    fn write_words(&mut self, at: Addr, words: &[u64]) -> Result<(), Stop> {
        if words.is_empty() {
            return self.stop.map_or(Ok(()), Err);
        }
        let place = self.run_place(at, words.len())?;
        self.check_live(at, place.index, 8 * words.len() as u64)?;
        if self.read_only {
            return Err(self.end(Stop::ReadOnly));
        }
        let done = self.design.write_run(self.local, place, words);
        self.check_size(done)
    }

    #[inline]
    fn protect(&mut self, at: Addr) -> Result<(), Stop> {
        if !D::BY_OBJECT || self.read_only {
            return self.stop.map_or(Ok(()), Err);
        }
        let place = self.place(at)?;
        self.check_live(at, place.index, 8)?;
        self.protect_object(at)
    }

    #[inline]
    fn will_write(&mut self, at: Addr, bytes: usize) {
        if let Some((index, words)) = self.hint(at, bytes) {
            self.design.will_write(index, words);
        }
        // The first write reads the header, unless the head of the run suffices.
        if self.shape.runs().begin(at.object.wrapping_sub(self.base)).is_none()
            && let Some((index, words)) = self.hint(header_of(at), 8)
        {
            self.design.will_read(index, words);
        }
    }

    #[inline]
    fn will_read(&mut self, at: Addr, bytes: usize) {
        if let Some((index, words)) = self.hint(at, bytes) {
            self.design.will_read(index, words);
        }
    }

    fn retire(&mut self, at: Addr, bytes: u64) -> Result<(), Stop> {
        // This call may free the object and the run that are cached as live.
        (self.live, self.run) = ((0, 0), Prepared::NONE);
        let (heap, arena) = (self.shape.heap(), self.arena);
        let detached = heap.detach(&mut Metadata(self), arena, at, bytes);
        let detached = detached.map_err(|stop| match stop {
            Stop::BadPointer => self.refuse(at),
            stop => self.end(stop),
        })?;
        self.changed(at.object);
        let Some(run) = detached else { return Ok(()) };
        self.design.gives_runs_back(self.local);
        if D::BY_OBJECT && !injected(Mutant::RunGivenBackAtOnce) {
            // Concurrent readers still read the run in the heap image, and links of new objects
            // would lie among its words. Give it back after the body.
            self.detached.push(run);
            return Ok(());
        }
        heap.give_back(&mut Metadata(self), run).map_err(|stop| self.end(stop))
    }
}

impl<D: Design> Allocate for Tx<'_, D> {
    fn allocate(&mut self, bytes: usize) -> Result<u64, Stop> {
        let (heap, arena) = (self.shape.heap(), self.arena);
        let address = heap.allocate(&mut Metadata(self), arena, bytes);
        address.map_err(|stop| self.end_wanting(stop, bytes as u64, 0))
    }

    fn allocate_pieces(&mut self, bytes: u64) -> Result<u64, Stop> {
        let (heap, arena) = (self.shape.heap(), self.arena);
        let address = heap.allocate_pieces(&mut Metadata(self), arena, bytes);
        address.map_err(|stop| self.end_wanting(stop, bytes, 0))
    }

    fn resize(&mut self, first: u64, from: u64, to: u64) -> Result<bool, Stop> {
        // This call may change the size of the object that is cached as live.
        self.live = (0, 0);
        let heap = self.shape.heap();
        heap.resize(&mut Metadata(self), first, from, to).map_err(|stop| match stop {
            Stop::BadPointer => self.refuse(Addr::new(first, 0)),
            stop => self.end(stop),
        })
    }

    fn reserve_blocks(&mut self, blocks: u64) -> Result<u64, Stop> {
        let heap = self.shape.heap();
        let first = heap.reserve_blocks(&mut Metadata(self), blocks);
        first.map_err(|stop| self.end_wanting(stop, blocks.saturating_mul(BLOCK_BYTES), blocks))
    }

    fn prepare_blocks(&mut self, first: u64, most: u64) -> Result<u64, Stop> {
        let heap = self.shape.heap();
        let left =
            heap.prepare_blocks(&mut Metadata(self), first, most).map_err(|stop| match stop {
                Stop::BadPointer => self.refuse(Addr::new(first, 0)),
                stop => self.end(stop),
            })?;
        self.changed(first);
        Ok(left)
    }

    fn root(&mut self) -> Result<u64, Stop> {
        let heap = self.shape.heap();
        heap.root(&mut Metadata(self)).map_err(|stop| self.end(stop))
    }

    fn set_root(&mut self, object: u64) -> Result<(), Stop> {
        let heap = self.shape.heap();
        heap.set_root(&mut Metadata(self), object).map_err(|stop| self.end(stop))
    }
}

/// Returns the address of an object's header: its second word, right before the object.
#[inline]
fn header_of(at: Addr) -> Addr {
    Addr::new(at.object, 8_u64.wrapping_neg())
}

/// The allocator's view of a transaction. Unlike a program, it writes headers and the allocator's
/// own objects.
struct Metadata<'a, 't, D: Design>(&'a mut Tx<'t, D>);

impl<D: Design> Words for Metadata<'_, '_, D> {
    #[inline]
    fn read(&mut self, at: Addr) -> Result<u64, Stop> {
        self.0.read(at)
    }

    #[inline]
    fn write(&mut self, at: Addr, value: u64) -> Result<(), Stop> {
        if D::BY_OBJECT && (at.offset == LINK || at.object == self.0.base) {
            // The design owns the links. The object's lock replaces the watch word.
            return Ok(());
        }
        let place = self.0.place(at)?;
        if injected(Mutant::AllocatorNotLogged) {
            self.0.design.poke(place.index, value);
            return Ok(());
        }
        self.0.put(place, value)
    }

    #[inline]
    fn protect(&mut self, at: Addr) -> Result<(), Stop> {
        self.0.protect_object(at)
    }

    fn took_run(&mut self, bytes: u64) {
        self.0.shape.took_run(bytes);
    }

    fn retire(&mut self, at: Addr, _bytes: u64) -> Result<(), Stop> {
        Err(self.0.refuse(at)) // the allocator frees nothing of its own
    }
}
