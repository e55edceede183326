//! When the pending group is sent: what closes it, what holds it back.
//!
//! | | |
//! |---|---|
//! | closes it | its number, its size, its time, somebody who waits |
//! | holds it back | groups under way, no room in the log, too much in memory |

use lw_log::Group;

use super::{Persist, Sending, Waiting};
use crate::sync::{Ordering, try_lock};

/// Transactions under way up to which another small group is sent beside them. Two threads that
/// wait for each commit are not held up by each other; of more, the later ones share a write,
/// because a write of its own costs the processor more than it saves in time. Measured with
/// `lastword run tatp-hash --durability sync` (disk at 0.14 ms), 2, 16 and 64 threads: 7.8, 52 and
/// 153 k/s with one group at a time, 8.7, 49 and 148 with 2, 9.0, 45 and 139 with 8.
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

    /// Whether the pending group takes no more, and whether it is to be sent.
    pub(super) fn is_due(&self, sending: &Sending) -> (bool, bool) {
        let Sending { pending, closed, opened, .. } = sending;
        if !self.grouping.combines() {
            // Or next to nothing more would fit.
            return (*closed || pending.words() > self.gathered_words / 4 * 3, true);
        }
        let last = self.last_of(pending, pending.last().0);
        let large = pending.words() >= self.gathered_words;
        let full = *closed || large || pending.last().0 >= last;
        // Acquire: pairs with `hurry`.
        let awaited = pending.first().0 <= self.hurried.load(Ordering::Acquire);
        let full = full || opened.is_over(&self.grouping);
        (full, full || awaited)
    }

    /// The pending group, if it waits for more transactions and nothing else is left to do.
    pub(crate) fn waiting(&self) -> Option<Waiting> {
        if !self.grouping.combines() {
            return None;
        }
        // Somebody who is in it has something to do.
        let sending = try_lock(&self.sending)?;
        let idle = sending.line.is_empty() && self.flights.is_empty();
        let waits = idle && !sending.pending.is_empty() && !self.is_due(&sending).1;
        let rest = sending.opened.rest(&self.grouping);
        let waiting = waits.then(|| Waiting { last: sending.pending.last().0, rest });
        drop(sending);
        // Who hurried after the look and found the step taken sleeps until a turn ends.
        self.progress.turn_is_over();
        waiting
    }

    /// Whether the medium has room for the pending group, and it is worth a write of its own.
    pub(super) fn may_fly(&self, sending: &Sending, full: bool) -> bool {
        if self.is_memory() {
            return true;
        }
        let (count, oldest) = self.flights.oldest();
        let Sending { pending, line, .. } = sending;
        let Some(oldest) = oldest.or(line.first()) else { return true };
        let few = pending.last().0 + 1 - oldest <= EAGER_TRANSACTIONS;
        (full || few) && count + line.len() < self.medium.depth()
    }

    /// Whether what has a place and is not at home is no more than the log holds, with a group that
    /// ends at this count of bytes. Compressed, a log holds far more writes than fit in memory. It
    /// is never for ever: one group is half the log at most.
    pub(super) fn has_memory(&self, behind: u64) -> bool {
        !self.grouping.compress || behind <= self.queue.plain_tail() + self.medium.bytes()
    }

    /// Bytes of log, or of what they decode to if that is more, that wait for reproduction.
    pub(crate) fn queued_bytes(&self) -> u64 {
        let stored = self.queue.bytes();
        // What is not compressed takes less memory than log.
        let plain = if self.grouping.compress { self.queue.plain_bytes() } else { 0 };
        stored.max(plain)
    }
}
