//! The conditions under which the pending group is sent.
//!
//! | | |
//! |---|---|
//! | closes it | number of transactions, size, age, a thread that waits for it |
//! | holds it back | groups in flight, a full log, too much queued memory |
//!
//! A group that is sent early is durable sooner; a group that is sent late shares its barrier with
//! more transactions.

use lw_log::Group;

use super::{Persist, Sending, Waiting};
use crate::sync::{Ordering, try_lock};

/// Transactions in flight up to which another small group is sent beside them. Two threads that
/// wait for each commit do not hold each other up. With more, later ones share a write, because a
/// separate write costs more processor time than it saves. Measured with `lastword run tatp-hash
/// --durability sync` (disk at 0.14 ms), 2, 16 and 64 threads: 7.8, 52 and 153 k/s with one group
/// at a time, 8.7, 49 and 148 with 2, 9.0, 45 and 139 with 8.
const EAGER_TRANSACTIONS: u64 = 2;

impl Persist {
    /// The last transaction that the pending group may take.
    pub(super) fn last_of(&self, pending: &Group, merged: u64) -> u64 {
        let first = if pending.is_empty() { merged + 1 } else { pending.first().0 };
        match self.grouping.transactions {
            0 => u64::MAX,
            most => (first - 1).saturating_add(most),
        }
    }

    /// Whether the pending group is full, and whether it is due to be sent.
    pub(super) fn is_due(&self, sending: &Sending) -> (bool, bool) {
        let Sending { pending, closed, opened, .. } = sending;
        if !self.grouping.combines() {
            // A group that is three quarters full is closed too: hardly another record would fit.
            return (*closed || pending.words() > self.gathered_words / 4 * 3, true);
        }
        let last = self.last_of(pending, pending.last().0);
        let large = pending.words() >= self.gathered_words;
        let full = *closed || large || pending.last().0 >= last;
        // Acquire: pairs with `hurry`.
        let awaited = pending.first().0 <= self.requested.load(Ordering::Acquire);
        let full = full || opened.is_over(&self.grouping);
        (full, full || awaited)
    }

    /// Returns the pending group if it waits for more transactions and no other work is left.
    pub(crate) fn waiting(&self) -> Option<Waiting> {
        if !self.grouping.combines() {
            return None;
        }
        // The thread that holds the lock has work to do, so the group does not wait.
        let sending = try_lock(&self.sending)?;
        let idle = sending.packing.is_empty() && self.in_flight.is_empty();
        let waits = idle && !sending.pending.is_empty() && !self.is_due(&sending).1;
        let rest = sending.opened.rest(&self.grouping);
        let waiting = waits.then(|| Waiting { last: sending.pending.last().0, rest });
        drop(sending);
        // A thread that requested a flush after the check may have found the lock taken. It sleeps
        // until the epoch moves, so move it.
        self.progress.turn_is_over();
        waiting
    }

    /// Whether the medium accepts the pending group, and the group is worth a write of its own.
    pub(super) fn may_send(&self, sending: &Sending, full: bool) -> bool {
        if self.is_memory() {
            return true;
        }
        let (count, oldest) = self.in_flight.oldest();
        let Sending { pending, packing, .. } = sending;
        let Some(oldest) = oldest.or(packing.first()) else { return true };
        let few = pending.last().0 + 1 - oldest <= EAGER_TRANSACTIONS;
        (full || few) && count + packing.len() < self.medium.depth()
    }

    /// Whether queued writes fit in memory with a group that ends at `plain_end`. The limit is
    /// the log's size: a compressed log holds far more writes than memory could. A group is half
    /// the log at most, so it never waits forever.
    pub(super) fn has_memory(&self, plain_end: u64) -> bool {
        !self.grouping.compress || plain_end <= self.queue.plain_tail() + self.medium.bytes()
    }

    /// Bytes of log that wait for reproduction, or the bytes they decode to if those are more.
    pub(crate) fn queued_bytes(&self) -> u64 {
        let stored = self.queue.bytes();
        // Uncompressed groups take less memory than log, so their log bytes decide.
        let plain = if self.grouping.compress { self.queue.plain_bytes() } else { 0 };
        stored.max(plain)
    }
}
