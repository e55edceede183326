//! Checks that a program writes only to live objects.
//!
//! The check reads in the transaction, so the commit verifies its result. It has three levels, from
//! cheap to expensive: the last object, the run of a block, and the object's header.
//!
//! ```text
//!   run (an array)    | head: blocks prepared so far | block 0 | block 1 | ... | unprepared ... |
//!   watch word        one of 16 words at the heap's start, by the number of the run's first unit
//! ```
//!
//! * A *run* is here an array of the allocator: equal *blocks*, side by side. The allocator
//!   *prepares* them in order, which makes them live, and frees them together.
//! * The *head* is the run's first line. It says how many blocks are prepared, so one line replaces
//!   the headers of all of them. The blocks of [`Prepared`] are live.
//! * Preparing or freeing a run writes its *watch word* first, with the 0 that it always holds. So
//!   a transaction that has read the watch word conflicts with a change of the head. The head
//!   itself may share its stripe with words that programs write all the time.
//! * [`Runs`] counts the writes of each watch word. With the same count, the [`Known`] run of an
//!   earlier transaction of the worker is still as it was.

use lw_alloc::{Prepared, Runs};
use words::{Addr, BLOCK_BYTES, Stop};

use super::{Known, Tx, header_of};
use crate::design::{At, Design};

impl<D: Design> Tx<'_, D> {
    /// Checks that these words, the first with this index, are in a live object.
    #[inline(always)]
    pub(super) fn check_live(&mut self, at: Addr, index: usize, bytes: u64) -> Result<(), Stop> {
        if at.object == self.live.0 && at.offset.saturating_add(bytes) <= self.live.1 {
            return Ok(());
        }
        // A design that isolates objects reads the header anyway, and its lock needs no other
        // proof.
        if !D::BY_OBJECT
            && at.offset.saturating_add(bytes) <= BLOCK_BYTES
            && (self.run.has(at.object.wrapping_sub(self.base)) || self.look_at_run(at)?)
        {
            return Ok(());
        }
        self.look_at_header(at, index, bytes)
    }

    /// Whether the object is a prepared block of a run, as far as is known without its header. A
    /// lone block in memory would cost one cache miss for the header and one for the word.
    #[inline(always)]
    fn look_at_run(&mut self, at: Addr) -> Result<bool, Stop> {
        let object = at.object.wrapping_sub(self.base);
        let known = *self.known;
        if known.run.has(object) {
            let begin = known.run.begin();
            self.watch(begin)?;
            if self.shape.runs().changes(begin) == known.changes {
                self.run = known.run;
                return Ok(true);
            }
        }
        match self.shape.runs().begin(object) {
            Some(begin) => self.look_at_head(object, begin),
            None => Ok(false),
        }
    }

    /// Reads the head of the run that begins at unit `begin`, and keeps it for later transactions.
    #[inline(never)]
    fn look_at_head(&mut self, object: u64, begin: u64) -> Result<bool, Stop> {
        self.watch(begin)?;
        if self.changes_runs {
            return self.look_at_own_head(object, begin);
        }
        // These loads bypass the transaction, but count as its reads. A writer of the head writes
        // the watch word first. The second read of the watch refuses a change that these loads saw:
        // its Acquire fence follows them. A later change is a conflict at commit.
        let load = |offset: u64| self.design.peek((offset / 8) as usize);
        let run = Prepared::of(begin, load);
        let changes = self.shape.runs().changes(begin);
        self.watch(begin)?;
        self.run = run;
        *self.known = Known { run, changes };
        Ok(run.has(object))
    }

    /// Looks at the head through reads of the transaction, which may have written it: not every
    /// design writes in place.
    #[cold]
    fn look_at_own_head(&mut self, object: u64, begin: u64) -> Result<bool, Stop> {
        let mut failed = None;
        let run = Prepared::of(begin, |offset| {
            let at = At { object: 0, index: (offset / 8) as usize };
            let word = self.design.read(self.local, at);
            word.unwrap_or_else(|stop| {
                failed = Some(stop);
                0
            })
        });
        if let Some(stop) = failed {
            return Err(self.end(stop));
        }
        self.run = run;
        Ok(run.has(object))
    }

    /// Reads the run's watch word in the transaction, so that a change of the head is a conflict.
    #[inline(always)]
    fn watch(&mut self, begin: u64) -> Result<(), Stop> {
        let index = (Runs::watch(begin) / 8) as usize;
        let at = At { object: 0, index };
        self.design.read(self.local, at).map_err(|stop| self.end(stop)).map(drop)
    }

    /// Notes that the transaction prepared or freed the run that begins with this object, if one
    /// does.
    #[inline]
    pub(super) fn changed(&mut self, first: u64) {
        let object = first.wrapping_sub(self.base);
        if Runs::may_begin_with(object) {
            self.changes_runs = true;
            if !D::BY_OBJECT {
                self.shape.runs().changed(object);
            }
        }
    }

    #[inline(never)]
    fn look_at_header(&mut self, at: Addr, index: usize, bytes: u64) -> Result<(), Stop> {
        // Prefetch the word to be written while the header is loaded.
        self.design.will_write(index, 1);
        let object = at.object.wrapping_sub(self.base);
        let header_at = self.place(header_of(at)).map_err(|stop| self.blame(at, stop))?;
        // Read in the transaction: the commit depends on the object being live. A read outside it
        // would accept a write after another transaction's free, and the write would corrupt the
        // allocator's free list.
        let header = self.design.read(self.local, header_at).map_err(|stop| self.end(stop))?;
        // Both are multiples of 8: the object's address and the first byte to be written.
        match lw_alloc::header::writable_bytes(header, object) {
            Some(size) if at.offset.saturating_add(bytes) <= size => {
                if !D::BY_OBJECT && lw_alloc::header::is_block(header) {
                    let array = Runs::begin_of_late_block(object, header);
                    if let Some(begin) = array
                        && !self.look_at_head(object, begin)?
                    {
                        return Err(self.refuse(at));
                    }
                    let load = |offset: u64| self.design.peek((offset / 8) as usize);
                    self.shape.runs().learn(object, header, load);
                }
                self.live = (at.object, size);
                Ok(())
            }
            _ => Err(self.refuse(at)),
        }
    }

    /// Reports the program's access instead of the header's.
    fn blame(&mut self, at: Addr, stop: Stop) -> Stop {
        self.wild = at;
        stop
    }
}
