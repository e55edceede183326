//! Groups between the merge and their places in the log, in ID order.
//!
//! ```text
//!   working: | 7: packed | 8: at work | 9: packed |       ready: | 5 | 6 |   -> places
//! ```
//!
//! Threads take groups off in ID order and pack them in any: one that is packed waits here for
//! those before it.
//!
//! Invariant: `ready`, then `working`, are in ID order, and nothing is missing between them.

use std::collections::VecDeque;

use lw_log::{Group, Packed};

use super::grouping::Packer;

/// A group that one thread packs.
pub(crate) struct Job {
    /// Its place in line.
    pub(crate) number: u64,
    pub(crate) gathered: Group,
    pub(crate) packer: Packer,
}

/// What was taken off and has no place yet.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// Packed, and so is all before.
    pub(crate) ready: VecDeque<Packed>,
    working: VecDeque<Working>,
    /// Number of the first that is worked on, or will be.
    number: u64,
    /// What threads pack with, and nobody uses at the moment.
    packers: Vec<Packer>,
    /// Words of the groups that were combined.
    pub(crate) combined_words: u64,
}

/// Taken off, and with a group before it that is not packed.
#[derive(Debug)]
struct Working {
    /// Its first transaction.
    first: u64,
    /// When it is packed.
    packed: Option<VecDeque<Packed>>,
}

impl Line {
    /// Whether there is nothing without a place.
    pub(crate) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.working.is_empty()
    }

    /// Groups without a place.
    pub(crate) fn len(&self) -> usize {
        self.ready.len() + self.working.len()
    }

    /// Groups that are worked on, or wait for one that is.
    pub(crate) fn working(&self) -> usize {
        self.working.len()
    }

    /// The first transaction without a place.
    pub(crate) fn first(&self) -> Option<u64> {
        let ready = self.ready.front().map(Packed::first);
        ready.or_else(|| self.working.front().map(|working| working.first))
    }

    /// What a thread packs with.
    pub(crate) fn packer(&mut self) -> Packer {
        self.packers.pop().unwrap_or_default()
    }

    /// The same, when it is done with it.
    pub(crate) fn put_back(&mut self, mut packer: Packer) {
        self.combined_words += std::mem::take(&mut packer.combined_words);
        self.packers.push(packer);
    }

    /// Takes a group off, for the caller to pack.
    pub(crate) fn hand_out(&mut self, gathered: Group, packer: Packer) -> Job {
        let number = self.number + self.working.len() as u64;
        self.working.push_back(Working { first: gathered.first().0, packed: None });
        Job { number, gathered, packer }
    }

    /// It is packed: it is ready, and what has waited behind it, if all before are.
    pub(crate) fn hand_in(&mut self, number: u64, packed: VecDeque<Packed>) {
        self.working[(number - self.number) as usize].packed = Some(packed);
        while let Some(front) = self.working.front_mut()
            && let Some(packed) = front.packed.take()
        {
            self.ready.extend(packed);
            self.working.pop_front();
            self.number += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use medium::Buffer;
    use words::TxId;

    fn group(id: u64) -> Group {
        let mut group = Group::new(Buffer::new(0));
        group.push(TxId(id), 0);
        group
    }

    #[test]
    fn groups_that_are_packed_out_of_order_are_ready_in_order() {
        let mut line = Line::default();
        let mut jobs: Vec<Job> =
            (1..=4).map(|id| line.hand_out(group(id), Packer::default())).collect();
        assert_eq!((line.len(), line.working(), line.first()), (4, 4, Some(1)));
        let mut done = Vec::new();
        for (at, ready) in [(2, 0), (0, 1), (0, 3), (0, 4)] {
            let Job { number, gathered, .. } = jobs.remove(at);
            line.hand_in(number, [Packed::plain(gathered, 8)].into());
            done.push(line.ready.len());
            assert_eq!(line.ready.len(), ready, "after {done:?}");
        }
        assert!(line.ready.iter().map(Packed::first).eq(1..=4));
        assert_eq!((line.len(), line.working(), line.first()), (4, 0, Some(1)));
        // The next is a job like the first.
        let job = line.hand_out(group(5), Packer::default());
        line.hand_in(job.number, [Packed::plain(job.gathered, 8)].into());
        assert_eq!(line.ready.len(), 5);
    }
}
