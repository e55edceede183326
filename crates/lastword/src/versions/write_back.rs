//! Write-back: what has committed comes home when nobody needs what home has, and links are taken
//! away. (Pisces, section 3.1, algorithm 1, lines 51 to 59.)
//!
//! ```text
//!   first in the queue:   ended at 7     oldest running began at 7 or later?
//!                         stores its words at home
//!                         release
//!                         takes its links away        who finds no link finds the words
//! ```
//!
//! The paper's worker waits here for the grace period. Ours waits a little, then leaves the
//! transaction in its queue and goes on: what was committed is durable and can be read, through its
//! links. So a transaction that stays open for long costs memory for copies, and keeps others from
//! writing what was written since it began; nothing else. Whoever needs the queue empty works on it
//! (the next commit, who meets a link, the frontier's), for its worker may have gone.
//!
//! *Order.* By the queue's worker, in the order of commits: two of them may have written the same
//! object only if the first was home before the second began to. Queues of different workers hold
//! different objects.
//!
//! *Chunks.* A transaction that gives chunks back waits for more: until every other one that began
//! before its end is over with all that it does. One of these may have written a block of the run
//! that was given back, and comes home later, when the memory may have become something else. (An
//! object of a slab has a link, and stays where it is, whatever becomes of it.) Nobody waits for
//! each other here: who gives chunks back holds the chunks' object until it is home.

use std::collections::VecDeque;

use medium::writes::{Piece, Pieces};

use super::Home;
use super::link::EMPTY;
use crate::sync::{Ordering, fence};

/// A transaction that has committed.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// The number of its attempt.
    pub(super) attempt: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    /// What it has changed.
    pub(super) batch: Vec<u64>,
    /// The objects that have a link to it.
    pub(super) objects: Vec<usize>,
    pub(super) gives_chunks_back: bool,
    /// Nobody but an observer may see it.
    pub(super) stays: bool,
}

/// One worker's queue.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    queue: VecDeque<Done>,
    /// Where the transaction began that the last one here waited for in vain, if it did.
    pub(super) waited_for: u64,
    /// How often.
    pub(super) in_vain: u32,
    /// For reuse.
    spare: Vec<Done>,
}

impl Waiting {
    /// A place to fill for a transaction that has committed: empty, with memory.
    pub(super) fn place(&mut self) -> Done {
        self.spare.pop().unwrap_or_default()
    }

    pub(super) fn push(&mut self, done: Done) {
        self.queue.push_back(done);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Where the first one began.
    pub(super) fn start(&self) -> Option<u64> {
        self.queue.front().map(|done| done.start)
    }

    /// The last attempt that nothing before or at is in the queue of; `last` when it is empty.
    pub(super) fn home_up_to(&self, last: u64) -> u64 {
        self.queue.front().map_or(last, |done| done.attempt - 1)
    }

    /// Brings home what may come. `oldest`: where the oldest running transaction began; `beside`
    /// says where the oldest of other workers did that is not over with everything.
    pub(super) fn write_back(&mut self, home: &impl Home, oldest: u64, beside: impl Fn() -> u64) {
        while let Some(done) = self.queue.front_mut() {
            let is_needed = done.end > oldest || done.gives_chunks_back && done.end > beside();
            if done.stays || is_needed {
                return;
            }
            store(home, &done.batch);
            // It is home. Others change these words as soon as their link is gone, and whoever
            // observes a machine whose power goes between two links would take ours for newer.
            done.batch.clear();
            // Who finds no link finds these words.
            fence(Ordering::Release);
            for object in &done.objects {
                home.store(super::link_of(*object), EMPTY);
            }
            let mut done = self.queue.pop_front().expect("it was looked at");
            done.objects.clear();
            done.gives_chunks_back = false;
            if self.spare.len() < SPARE {
                self.spare.push(done);
            }
        }
    }

    /// What a word will be when all of this is home, if it is changed.
    pub(super) fn will_be(&self, index: usize) -> Option<(u64, u64)> {
        let word = |done: &Done| {
            Pieces::new(&done.batch)
                .filter_map(|piece| match piece {
                    Piece::Run(first, words) => {
                        words.get(index.checked_sub(first as usize)?).copied()
                    }
                    Piece::Mark(_) => None,
                })
                .last()
        };
        self.queue.iter().rev().find_map(|done| Some((done.end, word(done)?)))
    }
}

/// Stores what a batch says.
#[inline]
pub(crate) fn store(home: &impl Home, batch: &[u64]) {
    for piece in Pieces::new(batch) {
        let Piece::Run(index, words) = piece else { continue };
        for (value, index) in words.iter().zip(index as usize..) {
            home.store(index, *value);
        }
    }
}

/// Places that are kept.
const SPARE: usize = 8;

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use medium::writes::run;

    use super::*;
    use crate::perform::Heap;
    use crate::sync::AtomicU64;

    /// A home whose power goes with the second link that is taken away.
    struct Cut {
        words: Box<Heap>,
        links: AtomicU64,
    }

    impl Home for Cut {
        fn words(&self) -> &Heap {
            &self.words
        }

        fn store(&self, index: usize, value: u64) {
            if value == EMPTY && self.links.fetch_add(1, Ordering::Relaxed) == 1 {
                panic!("the power goes");
            }
            self.words[index].store(value, Ordering::Relaxed);
        }

        fn exchange(&self, index: usize, current: u64, new: u64) -> Result<u64, u64> {
            let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
            self.words[index].compare_exchange(current, new, success, failure)
        }
    }

    #[test]
    fn what_is_home_is_not_waiting_whatever_becomes_of_its_links() {
        let words = (0..16).map(|_| AtomicU64::new(0)).collect();
        let home = Cut { words, links: AtomicU64::new(0) };
        let mut waiting = Waiting::default();
        waiting.push(Done {
            end: 1,
            batch: vec![run(4, 1), 7],
            objects: vec![4, 8],
            ..Done::default()
        });
        assert_eq!(waiting.will_be(4), Some((1, 7)));
        let cut = AssertUnwindSafe(|| waiting.write_back(&home, 1, || 1));
        catch_unwind(cut).expect_err("the power went");
        assert_eq!(home.words[4].load(Ordering::Relaxed), 7);
        assert_eq!(waiting.will_be(4), None);
    }
}
