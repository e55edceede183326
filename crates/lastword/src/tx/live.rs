//! Whether what a program is about to write is in a live object.

use lw_alloc::{Prepared, Runs};
use words::{Addr, BLOCK_BYTES, Stop};

use super::{Known, Tx, header_of};
use crate::design::{At, Design};

impl<D: Design> Tx<'_, D> {
    /// Whether the program may write these words, of which the first has this index: they are in a
    /// live object.
    #[inline(always)]
    pub(super) fn check_live(&mut self, at: Addr, index: usize, bytes: u64) -> Result<(), Stop> {
        if at.object == self.live.0 && at.offset.saturating_add(bytes) <= self.live.1 {
            return Ok(());
        }
        // Who takes whole objects touches the header anyway, and rests on nothing else.
        if !D::BY_OBJECT
            && at.offset.saturating_add(bytes) <= BLOCK_BYTES
            && (self.run.has(at.object.wrapping_sub(self.base)) || self.look_at_run(at)?)
        {
            return Ok(());
        }
        self.look_at_header(at, index, bytes)
    }

    /// Whether the object is a block of a live run, as far as is known without its header: a block
    /// all by itself in memory would cost a cache miss for the header and one for the word.
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

    #[inline(never)]
    fn look_at_head(&mut self, object: u64, begin: u64) -> Result<bool, Stop> {
        self.watch(begin)?;
        if self.changes_runs {
            return self.look_at_own_head(object, begin);
        }
        // Past the transaction, and yet as if in it: who changes the head has written the watch
        // before. What was seen of a change is refused by the second look at the watch, whose
        // Acquire fence stands behind these loads; a change after it is a conflict at the commit.
        let load = |offset: u64| self.design.peek((offset / 8) as usize);
        let run = Prepared::of(begin, load);
        let changes = self.shape.runs().changes(begin);
        self.watch(begin)?;
        self.run = run;
        *self.known = Known { run, changes };
        Ok(run.has(object))
    }

    /// The same by reads of the transaction, which may have written the head itself: not every
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

    #[inline(always)]
    fn watch(&mut self, begin: u64) -> Result<(), Stop> {
        let index = (Runs::watch(begin) / 8) as usize;
        let at = At { object: 0, index };
        self.design.read(self.local, at).map_err(|stop| self.end(stop)).map(drop)
    }

    /// If a run begins with this object, the transaction has prepared or freed it.
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
        // What is to be written comes while the header does, not after it.
        self.design.will_write(index, 1);
        let object = at.object.wrapping_sub(self.base);
        let header_at = self.place(header_of(at)).map_err(|stop| self.blame(at, stop))?;
        // Read in the transaction: that the object is live is part of what the commit rests on. A
        // look past the transaction would let a write pass that comes after another's free, and end
        // in the allocator's free list.
        let header = self.design.read(self.local, header_at).map_err(|stop| self.end(stop))?;
        // Both bytes are multiples of 8, the object's and the first one to be written.
        match lw_alloc::header::writable_bytes(header, object) {
            Some(size) if at.offset.saturating_add(bytes) <= size => {
                self.live = (at.object, size);
                if !D::BY_OBJECT && lw_alloc::header::is_block(header) {
                    let load = |offset: u64| self.design.peek((offset / 8) as usize);
                    self.shape.runs().learn(object, load);
                }
                Ok(())
            }
            _ => Err(self.refuse(at)),
        }
    }

    /// Names the access that the program made, not the header's.
    fn blame(&mut self, at: Addr, stop: Stop) -> Stop {
        self.wild = at;
        stop
    }
}
