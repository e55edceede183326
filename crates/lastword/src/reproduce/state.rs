//! The batches that were taken in, and how far the heap image has their words.

use std::collections::VecDeque;

use medium::Unwritten;
use medium::mutants::{Mutant, injected};

use super::{Batch, Work};
use crate::persist::Queued;
use crate::superblock::Superblocks;
use crate::write_pace::{LogInUse, WritePace};

/// The state of the thread that reproduces.
pub(super) struct State {
    pub(super) superblocks: Superblocks,
    /// The batches taken in and not yet reproduced, oldest first.
    pub(super) taken: VecDeque<Taken>,
    /// The last transaction and the log sequence taken in.
    pub(super) last: u64,
    pub(super) end: u64,
    pub(super) pace: WritePace,
    /// The words that wait after the last step.
    pub(super) unwritten: Unwritten,
}

/// A batch that was taken in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// The last transaction.
    pub(super) last: u64,
    /// The log sequence after it.
    pub(super) end: u64,
    /// Words of the groups.
    pub(super) words: u64,
}

impl State {
    /// Takes groups in, and decides how many pages the step writes. `used`: the bytes of log in
    /// use, or of the words in it. `end`: the log sequence after the last durable group.
    pub(super) fn take_in(
        &mut self,
        groups: Vec<Queued>,
        work: Work,
        (used, end): (u64, u64),
    ) -> Batch {
        let (start, mut words) = (self.end, 0);
        for queued in &groups {
            let group = queued.group;
            assert_eq!(group.first, self.last + 1, "transactions are reproduced in ID order");
            (self.last, self.end) = (group.last, group.end);
            words += queued.writes().len() as u64;
        }
        if !groups.is_empty() {
            self.taken.push_back(Taken { last: self.last, end: self.end, words });
        }
        let begin = self.superblocks.current().log_sequence;
        let log = LogInUse { used, begin, end };
        let pages = match work {
            Work::All { .. } if self.taken.is_empty() => 0,
            Work::All { pages, .. } => pages,
            // A compressed group counts with the memory that its words take.
            Work::Paced { .. } => {
                self.pace.pages((self.end - start).max(8 * words), &log, &self.unwritten)
            }
        };
        Batch { groups, start, pages }
    }

    /// Whether a step is to write pages now, however little it takes in. `used`: the bytes of log
    /// in use, or of the words in it.
    pub(super) fn pages_are_due(&self, used: u64) -> bool {
        !self.taken.is_empty() && self.pace.is_due(used, self.unwritten.pages)
    }

    /// Takes off the batches before the oldest word that is not written. Returns them as one.
    pub(super) fn reach(&mut self, oldest: Option<u64>) -> Option<Taken> {
        let oldest = oldest.filter(|_| !injected(Mutant::UnwrittenPagesIgnored));
        let (mut reached, mut words) = (None, 0);
        let is_written = |taken: &mut Taken| oldest.is_none_or(|oldest| taken.end <= oldest);
        while let Some(taken) = self.taken.pop_front_if(is_written) {
            words += taken.words;
            reached = Some(Taken { words, ..taken });
        }
        reached
    }

    /// Records durably in the superblock that the heap image has these batches.
    pub(super) fn mark(&mut self, reached: Taken) -> Result<(), medium::Error> {
        self.superblocks.update(|now| {
            now.reproduced = reached.last;
            now.log_sequence = reached.end;
        })
    }

    /// Marks all that was taken in. For mutants.
    pub(super) fn mark_all(&mut self) -> Result<(), medium::Error> {
        self.mark(Taken { last: self.last, end: self.end, words: 0 })
    }
}
