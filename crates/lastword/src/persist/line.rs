//! Groups between the merge and their places in the log, in ID order.
//!
//! ```text
//!   working: | 7: packed | 8: being packed | 9: packed |       ready: | 5 | 6 |   -> places
//! ```
//!
//! Threads take groups off in ID order and pack them in any order. A packed group waits here for
//! those before it, so that several threads can pack while the log stays in order.
//!
//! Invariant: `ready`, then `working`, are in ID order without gaps.

use std::collections::VecDeque;

use lw_log::{Group, Packed};

use super::grouping::Packer;

/// A group that one thread packs.
pub(crate) struct Job {
    /// Its position in line.
    pub(crate) number: u64,
    pub(crate) gathered: Group,
    pub(crate) packer: Packer,
}

/// The groups that were taken off and have no place yet.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// Packed groups with no unpacked group before them.
    pub(crate) ready: VecDeque<Packed>,
    working: VecDeque<Working>,
    /// Number of the first group in `working`, or of the next one.
    number: u64,
    /// Packers that no thread uses at the moment.
    packers: Vec<Packer>,
    /// Words of combined groups.
    pub(crate) combined_words: u64,
}

/// A group that is unpacked, or waits for an unpacked one before it.
#[derive(Debug)]
struct Working {
    /// Its first transaction.
    first: u64,
    /// `None` until it is packed.
    packed: Option<VecDeque<Packed>>,
}

impl Line {
    /// Whether every group has a place.
    pub(crate) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.working.is_empty()
    }

    /// Groups without a place.
    pub(crate) fn len(&self) -> usize {
        self.ready.len() + self.working.len()
    }

    /// Number of groups that are unpacked or wait for an unpacked one.
    pub(crate) fn working(&self) -> usize {
        self.working.len()
    }

    /// The first transaction without a place.
    pub(crate) fn first(&self) -> Option<u64> {
        let ready = self.ready.front().map(Packed::first);
        ready.or_else(|| self.working.front().map(|working| working.first))
    }

    /// Takes a packer for the calling thread.
    pub(crate) fn packer(&mut self) -> Packer {
        self.packers.pop().unwrap_or_default()
    }

    /// Returns a packer to the pool of packers and collects its counts.
    pub(crate) fn put_back(&mut self, mut packer: Packer) {
        self.combined_words += std::mem::take(&mut packer.combined_words);
        self.packers.push(packer);
    }

    /// Assigns a position to a group, for the caller to pack.
    pub(crate) fn hand_out(&mut self, gathered: Group, packer: Packer) -> Job {
        let number = self.number + self.working.len() as u64;
        self.working.push_back(Working { first: gathered.first().0, packed: None });
        Job { number, gathered, packer }
    }

    /// Completes a packed group. It becomes ready, with the packed groups after it, once all before
    /// it are.
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
    fn groups_packed_out_of_order_are_ready_in_order() {
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
