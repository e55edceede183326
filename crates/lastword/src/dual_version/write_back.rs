//! Write-back: applies committed copies to the heap after their grace period, and removes their
//! links.
//!
//! ```text
//!   first in the queue:   ended at 7     oldest running began at 7 or later?
//!                         stores its words in the heap
//!                         release fence
//!                         removes its links        a reader without a link finds the words
//! ```
//!
//! The paper's worker waits here for its grace period. This one waits briefly, then leaves the
//! transaction in its queue and continues: the transaction is durable, and readers follow its
//! links. So a long transaction costs only memory for copies, and conflicts for writers of objects
//! that were written since it began. Any thread that needs the queue empty works on it, because its
//! worker may be gone: the next commit, a writer that meets a link, truncation.
//!
//! *Order.* A queue is processed in commit order. A transaction locks an object only after the
//! earlier one's words are in the heap, so order matters only within a queue. Queues of different
//! workers hold different objects.
//!
//! *Runs.* A transaction that frees a run (an array, or a slab with its last object) waits longer.
//! It waits until every other transaction that began before its end is completely finished. One of
//! those may have written in the run, or freed an object there, and may be applied later, when the
//! memory serves other objects. This wait cannot deadlock: a transaction that frees a run keeps the
//! page object locked until it is applied, so no transaction takes the run before. The write-back
//! removes the page object's link last. Otherwise another transaction could take the run and commit
//! a word at the place of an old link. Removing that link would then erase the word.

use std::collections::VecDeque;

use medium::mutants::{Mutant, injected};
use medium::writes::{Piece, Pieces};

use super::ObjectHeap;
use super::link::EMPTY;
use crate::sync::{Ordering, fence_unless};

/// A committed transaction.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// The number of its attempt.
    pub(super) attempt: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    /// Its changes: runs of words.
    pub(super) batch: Vec<u64>,
    /// The objects with a link to its copies.
    pub(super) objects: Vec<usize>,
    pub(super) gives_runs_back: bool,
    /// Only an observer may see it, so it is never applied.
    pub(super) stays: bool,
}

/// The queue of one worker.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    queue: VecDeque<Done>,
    /// Start of the transaction that the last commit waited for in vain, if it did.
    pub(super) waited_for: u64,
    /// How often commits have waited for that one.
    pub(super) in_vain: u32,
    /// Memory for reuse.
    spare: Vec<Done>,
}

impl Waiting {
    /// Returns an empty entry for a committed transaction, with reused memory.
    pub(super) fn place(&mut self) -> Done {
        self.spare.pop().unwrap_or_default()
    }

    pub(super) fn push(&mut self, done: Done) {
        self.queue.push_back(done);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns the start of the first transaction.
    pub(super) fn start(&self) -> Option<u64> {
        self.queue.front().map(|done| done.start)
    }

    /// Returns the last attempt such that the queue has none up to it; `last` if the queue is
    /// empty.
    pub(super) fn applied_up_to(&self, last: u64) -> u64 {
        self.queue.front().map_or(last, |done| done.attempt - 1)
    }

    /// Applies the transactions whose grace period is over. `oldest` is the start of the oldest
    /// running transaction. `beside` returns the start of the oldest unfinished transaction of
    /// other workers.
    pub(super) fn write_back(
        &mut self,
        heap_image: &impl ObjectHeap,
        oldest: u64,
        beside: impl Fn() -> u64,
    ) {
        while let Some(done) = self.queue.front_mut() {
            let holds_runs = done.gives_runs_back && !injected(Mutant::ChunksFreedBesideWriters);
            let is_needed = done.end > oldest || holds_runs && done.end > beside();
            if done.stays || is_needed && !injected(Mutant::WriteBackDoesNotWait) {
                return;
            }
            if injected(Mutant::UnlinkedBeforeWrittenBack) {
                for object in &done.objects {
                    heap_image.store(super::link_of(*object), EMPTY);
                }
            }
            store(heap_image, &done.batch);
            // The words are in the heap, and other transactions change them as soon as the link is
            // removed. An observer of a power failure between two removals must not take this batch
            // for newer.
            done.batch.clear();
            // Release: a reader that finds no link sees these words.
            fence_unless(Mutant::NoFenceBeforeUnlink, Ordering::Release);
            let is_last = |object: usize| done.gives_runs_back && object == PAGE_OBJECT;
            for &object in done.objects.iter().filter(|&&object| !is_last(object)) {
                heap_image.store(super::link_of(object), EMPTY);
            }
            if done.objects.iter().any(|&object| is_last(object)) {
                // Release: a transaction that takes the run writes after the removals above.
                fence_unless(Mutant::NoFenceBeforeUnlink, Ordering::Release);
                heap_image.store(super::link_of(PAGE_OBJECT), EMPTY);
            }
            let mut done = self.queue.pop_front().expect("the loop condition found it");
            done.objects.clear();
            done.gives_runs_back = false;
            if self.spare.len() < SPARE {
                self.spare.push(done);
            }
        }
    }

    /// Calls `each` with the timestamp and the words of every waiting transaction, in order.
    pub(super) fn batches(&self, mut each: impl FnMut(u64, &[u64])) {
        self.queue.iter().for_each(|done| each(done.end, &done.batch));
    }

    /// Calls `put` with the words that the heap gets from the waiting transactions, in order: each
    /// word's index and value.
    pub(super) fn words(&self, mut put: impl FnMut(usize, u64)) {
        for done in self.queue.iter().filter(|done| !done.stays) {
            for piece in Pieces::new(&done.batch) {
                let Piece::Run(index, words) = piece else { continue };
                (index as usize..).zip(words).for_each(|(index, value)| put(index, *value));
            }
            done.objects.iter().for_each(|object| put(super::link_of(*object), EMPTY));
        }
    }
}

/// Copies those words of a batch that are in `out`, which begins with the word `first`.
pub(super) fn lay_over(batch: &[u64], first: usize, out: &mut [u64]) {
    for piece in Pieces::new(batch) {
        let Piece::Run(index, words) = piece else { continue };
        for (&value, index) in words.iter().zip(index as usize..) {
            if let Some(out) = index.checked_sub(first).and_then(|at| out.get_mut(at)) {
                *out = value;
            }
        }
    }
}

/// Stores the words of a batch in the heap.
#[inline]
pub(crate) fn store(heap_image: &impl ObjectHeap, batch: &[u64]) {
    for piece in Pieces::new(batch) {
        let Piece::Run(index, words) = piece else { continue };
        for (value, index) in words.iter().zip(index as usize..) {
            heap_image.store(index, *value);
        }
    }
}

/// Entries kept for reuse.
const SPARE: usize = 8;

/// Word index of the page object, which a transaction locks to take or free a run.
pub(super) const PAGE_OBJECT: usize = (lw_alloc::PAGE_OBJECT / 8) as usize;

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use medium::writes::run;

    use super::*;
    use crate::perform::Heap;
    use crate::sync::AtomicU64;

    /// A heap whose power fails at a chosen removal of a link.
    struct Cut {
        words: Box<Heap>,
        links: AtomicU64,
    }

    impl ObjectHeap for Cut {
        fn words(&self) -> &Heap {
            &self.words
        }

        fn store(&self, index: usize, value: u64) {
            if value == EMPTY && self.links.fetch_add(1, Ordering::Relaxed) == 1 {
                panic!("injected power failure");
            }
            self.words[index].store(value, Ordering::Relaxed);
        }

        fn exchange(&self, index: usize, current: u64, new: u64) -> Result<u64, u64> {
            let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
            self.words[index].compare_exchange(current, new, success, failure)
        }
    }

    fn heap_with_cut_at(removals: u64) -> Cut {
        let words = (0..32).map(|_| AtomicU64::new(0)).collect();
        Cut { words, links: AtomicU64::new(2_u64.wrapping_sub(removals)) }
    }

    #[test]
    fn page_object_of_freed_run_is_unlinked_last() {
        for (gives_runs_back, kept) in [(true, [0, 0, 1]), (false, [0, 1, 0])] {
            let heap_image = heap_with_cut_at(3);
            let links = [4, 8, PAGE_OBJECT].map(super::super::link_of);
            for link in links {
                heap_image.words[link].store(1, Ordering::Relaxed);
            }
            let mut waiting = Waiting::default();
            let objects = vec![PAGE_OBJECT, 4, 8];
            waiting.push(Done { end: 1, objects, gives_runs_back, ..Done::default() });
            let cut = AssertUnwindSafe(|| waiting.write_back(&heap_image, 1, || 1));
            catch_unwind(cut).expect_err("the injected failure panics");
            let found = links.map(|link| heap_image.words[link].load(Ordering::Relaxed));
            assert_eq!(found, kept, "two links of three are removed");
        }
    }

    #[test]
    fn applied_batch_is_empty_when_power_fails_at_links() {
        let heap_image = heap_with_cut_at(2);
        let mut waiting = Waiting::default();
        waiting.push(Done {
            end: 1,
            batch: vec![run(4, 1), 7],
            objects: vec![4, 8],
            ..Done::default()
        });
        let word = |waiting: &Waiting| {
            let mut words = [0; 2];
            waiting.batches(|_, batch| lay_over(batch, 3, &mut words));
            words
        };
        assert_eq!(word(&waiting), [0, 7]);
        let cut = AssertUnwindSafe(|| waiting.write_back(&heap_image, 1, || 1));
        catch_unwind(cut).expect_err("the injected failure panics");
        assert_eq!(heap_image.words[4].load(Ordering::Relaxed), 7);
        assert_eq!(word(&waiting), [0, 0]);
    }
}
