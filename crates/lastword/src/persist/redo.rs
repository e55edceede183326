//! A worker's end of its volatile ring: where its transactions' writes go.
//!
//! Invariant: for each ID drawn, the slot says `drawing` before, and `drawn` after the record is
//! published; see [`frontier`](super::frontier).

use super::frontier::Slot;
use crate::perform::{Redo, Written};
use crate::sync::{Arc, AtomicU64};
use lw_log::{RECORD_HEAD_WORDS, Writer};
use words::TxId;

/// The redo log of one worker.
pub(crate) struct RingRedo<S> {
    pub(crate) slot: Arc<Slot<S>>,
    writer: Writer,
    /// Words of the record that last found no room.
    pub(crate) wanted: usize,
    half: u64,
}

impl<S: AsRef<[AtomicU64]>> RingRedo<S> {
    pub(crate) fn new(slot: Arc<Slot<S>>) -> RingRedo<S> {
        let half = slot.ring.capacity() as u64 / 2;
        RingRedo { slot, writer: Writer::default(), wanted: 0, half }
    }

    /// Whether more than half the ring waits for the persist step.
    #[inline]
    pub(crate) fn is_half_full(&mut self) -> bool {
        self.writer.used() > self.half && self.is_still_half_full()
    }

    #[cold]
    fn is_still_half_full(&mut self) -> bool {
        // Looks at the shared cursor only when the last look says so.
        self.writer.refresh(&self.slot.ring);
        self.writer.used() > self.half
    }
}

impl<S: AsRef<[AtomicU64]>> Redo for RingRedo<S> {
    #[inline]
    fn has_room(&mut self, words: usize) -> bool {
        // And for one more hole, so that a commit that fails after this can still record one.
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
    fn record(&mut self, id: TxId, written: Written<'_>) {
        let mut record = self.writer.record(&self.slot.ring);
        written.runs(
            &mut record,
            |record| record.skip(),
            |record, value| record.push(value),
            |record, at, head| record.set(at, head),
        );
        record.publish(id.0);
        self.slot.drawn();
    }
}
