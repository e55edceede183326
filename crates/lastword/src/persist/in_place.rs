//! Groups that are sent from the memory in which they were gathered: the short way of a pool on
//! memory with one persist thread, without combination and compression.
//!
//! A thread that waits for its own commit sends a group of one transaction. The stages of
//! [`Persist::send`](super::Persist::send) for larger groups would take longer than its persist
//! barrier. Here the group has one memory all the time: records are merged into it, it is sealed
//! there, and the queue copies the writes of a small group.
//!
//! Invariant: nothing is packed or in flight in such a pool, so the pending group is the next one.

use lw_log::Group;
use medium::mutants::{Mutant, injected};
use words::TxId;

use super::queue::LogGroup;
use super::{Persist, Sending, Step};
use crate::sync::Ordering;

impl Persist {
    /// Lets the [combiner](super::combiner::Combiner) make a transaction durable. Returns whether
    /// it has.
    #[inline]
    pub(crate) fn is_combined(&self, id: TxId) -> bool {
        self.appends_in_place() && self.combiner.serves(id, || self.durable() >= id)
    }

    /// Makes the last witness durable. Called before recovery may skip the log up to this sequence.
    pub(crate) fn keep_witness(&self, recycled: u64) {
        self.medium.keep_witness(recycled);
    }

    /// Whether groups are sent from the memory in which they were gathered.
    pub(super) fn appends_in_place(&self) -> bool {
        let plain = !self.grouping.combines() && !self.grouping.compress;
        // The bug queues a copy of the packed group.
        plain && self.is_send_awaited() && !injected(Mutant::AppliedBeforeLog)
    }

    /// Sends the pending group, if there is one. One persist barrier.
    pub(super) fn append_pending(&self, sending: &mut Sending) -> Result<Step, medium::Error> {
        if sending.pending.is_empty() {
            return Ok(Step::Nothing);
        }
        let (full, _) = self.is_due(sending);
        let Sending { log, pending, closed, .. } = sending;
        let (first, last, words) = (pending.first().0, pending.last().0, pending.words());
        let has_room = log.has_room(words, &self.queue.tail) && self.queue.next_may_lag(words);
        // Relaxed: as in `take_off`. Stored if it changes, because each waiter reads it.
        if self.log_full.load(Ordering::Relaxed) == has_room {
            self.log_full.store(!has_room, Ordering::Relaxed);
        }
        if !has_room {
            self.meter.undurable.saw(last);
            return Ok(Step::LogFull);
        }
        *closed = false;
        if injected(Mutant::GroupWitnessFirst) {
            let end = log.head() + 8 * words as u64;
            self.medium.leave_witness(end, &self.witness_key.line(last));
        }
        let group = std::mem::take(pending);
        let (end, memory) = log.append_to_memory(group, self.queue.end())?;
        self.meter.gathered(8 * words as u64);
        self.meter.placed(8 * words as u64, 8 * words as u64);
        self.meter.log_grew(log.head(), log.padding_bytes(), 0);
        let left = self.acknowledged(memory, None, LogGroup { first, last, words, end });
        *pending = Group::new(left.unwrap_or_else(|| self.queue.memory()));
        Ok(if full { Step::More } else { Step::Done })
    }
}
