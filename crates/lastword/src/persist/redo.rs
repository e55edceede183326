//! The worker's side of its volatile ring: the redo records of its transactions.
//!
//! Invariant: for each assigned ID, the slot announces `drawing` before the assignment, and `drawn`
//! after the record is published; see [`frontier`](super::frontier).

use std::ops::Range;

use medium::mutants::{Mutant, planted};

use super::frontier::Slot;
use crate::perform::{Redo, Space, Written};
use crate::sync::{Arc, AtomicU64};
use lw_log::{RECORD_HEAD_WORDS, Writer};
use words::TxId;

/// The redo log of one worker.
pub(crate) struct RingRedo<S> {
    pub(crate) slot: Arc<Slot<S>>,
    writer: Writer,
    /// Words of the last record that did not fit.
    pub(crate) wanted: usize,
    /// Words in the ring from which the worker checks whether it should help.
    late_at: u64,
}

/// Words of a ring that is never full: 128 GiB of addresses, more than the machine's memory. The
/// persist step returns consumed pages to the system, so a worker whose records are taken promptly
/// uses little memory. (DudeTM, section 5.1: DudeTM-Inf.)
pub(crate) const UNBOUNDED_WORDS: usize = 1 << 34;

/// Words that such a ring returns at a time: a huge page.
const PIECE_WORDS: u64 = (2 << 20) / 8;

/// The words that an unbounded ring returns after its `taken` cursor has moved.
pub(crate) fn given_back(before: u64, after: u64) -> impl Iterator<Item = Range<usize>> {
    let pieces = before / PIECE_WORDS..after / PIECE_WORDS;
    pieces.map(|piece| {
        let first = (piece * PIECE_WORDS) as usize % UNBOUNDED_WORDS;
        first..first + PIECE_WORDS as usize
    })
}

impl<S: AsRef<[AtomicU64]>> RingRedo<S> {
    pub(crate) fn new(slot: Arc<Slot<S>>) -> RingRedo<S> {
        RingRedo { slot, writer: Writer::default(), wanted: 0, late_at: 0 }
    }

    /// Whether the worker should run the persist step itself, because more than the usual words
    /// wait.
    #[inline]
    pub(crate) fn is_late(&mut self, usual: impl FnOnce() -> u64) -> bool {
        self.writer.used() > self.late_at && self.is_still_late(usual())
    }

    #[cold]
    fn is_still_late(&mut self, usual: u64) -> bool {
        // Read the shared cursor only when the cached one says so, and then not again for a while.
        self.writer.refresh(&self.slot.ring);
        let used = self.writer.used();
        let usual = usual.min(self.slot.ring.capacity() as u64 / 2);
        // Early enough for a pool without a pause. (Four times as late: durable p50 21.5 instead of
        // 18.6 us; `lastword run tpcc-hash --transactions 60000 --sample every --medium emulated
        // --bandwidth-gbps 1 --pause-us 0`.)
        self.late_at = usual.max(used + usual / 8);
        used > usual
    }
}

impl<S: AsRef<[AtomicU64]>> Redo for RingRedo<S> {
    #[inline]
    fn has_room(&mut self, words: usize) -> bool {
        // Plus a no-op record, so that a commit that fails after this can still record its ID.
        let fits = self.writer.has_room(&self.slot.ring, words + RECORD_HEAD_WORDS);
        if !fits {
            self.wanted = words;
        }
        fits
    }

    #[inline]
    fn drawing(&mut self, clock: u64) {
        self.slot.drawing(clock);
    }

    #[inline]
    fn record(&mut self, id: TxId, written: Written<'_, impl Space>) {
        let mut record = self.writer.record(&self.slot.ring);
        written.runs(
            &mut record,
            |record| record.skip(),
            |record, value| record.push(value),
            |record, at, head| record.set(at, head),
        );
        let drawn_first = planted(Mutant::CommittingClearedBeforePublished);
        if drawn_first {
            self.slot.drawn();
        }
        record.publish(id.0);
        if !drawn_first {
            self.slot.drawn();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unbounded_ring_releases_each_piece_once() {
        let wrap = UNBOUNDED_WORDS as u64;
        let mut at = wrap - 3 * PIECE_WORDS - 5;
        let mut next = (at / PIECE_WORDS * PIECE_WORDS) as usize % UNBOUNDED_WORDS;
        for step in [7, PIECE_WORDS, 1, 5 * PIECE_WORDS / 2, 0, 3 * PIECE_WORDS] {
            for words in given_back(at, at + step) {
                assert_eq!((words.start, words.len() as u64), (next, PIECE_WORDS));
                next = words.end % UNBOUNDED_WORDS;
            }
            at += step;
            let end = (at % wrap) as usize;
            assert!(next <= end && end - next < PIECE_WORDS as usize, "{next} {end}");
        }
    }
}
