//! Frozen images: the heap image as of one transaction, while reproduction goes on.
//!
//! A thread begins, copies or ends a frozen image *between steps*: under the lock of the steps,
//! while no batch is open. The transaction of the image is the last one taken in. The words of
//! every group up to there are in the heap image or gathered for it, and no word of a later group
//! is.
//!
//! A long copy takes the lock once for each slice. While such a thread (a *visitor*) waits, a step
//! returns `Busy`. Otherwise the reproduce thread could take the lock again before the visitor
//! wakes, and the copy would starve.

use std::ops::Range;

use medium::FrozenImage;
use medium::mutants::{Mutant, injected};
use words::TxId;

use super::Reproduce;
use crate::error::Error;
use crate::persist::Persist;
use crate::superblock::{GrowthStep, Superblocks};
use crate::sync::{Arc, Ordering, lock};

impl Reproduce {
    /// Returns the last transaction whose words were taken in.
    pub(crate) fn taken_in(&self) -> TxId {
        // Acquire: pairs with the Release in `step`.
        TxId(self.taken_in.load(Ordering::Acquire))
    }

    /// Whether groups are taken in whose pages are not all written.
    pub(crate) fn has_gathered(&self) -> bool {
        // Relaxed: a thread that reads an old value tries the step once more, or looks again.
        self.gathered.load(Ordering::Relaxed)
    }

    /// Whether a batch is off the queue and not yet applied.
    pub(crate) fn is_working(&self) -> bool {
        // Acquire: as in `step`.
        self.working.load(Ordering::Acquire)
    }

    /// Whether a visitor was the last to hold the lock of the steps.
    pub(crate) fn was_visited(&self) -> bool {
        // Relaxed, as below: a caller that reads an old value waits for one step more or less.
        self.visited.load(Ordering::Relaxed)
    }

    /// Whether a step has been refused since the last one ran.
    pub(crate) fn has_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Notes that a step runs, or that a visitor has waited for one in vain.
    pub(crate) fn had_turn(&self) {
        self.visited.store(false, Ordering::Relaxed);
        self.refused.store(false, Ordering::Relaxed);
    }

    /// Begins a frozen image as of the last transaction taken in, and returns that. `None` if the
    /// heap image has no content to freeze.
    ///
    /// # Errors
    /// That of a pool that has failed. Its heap image may be incomplete.
    pub(crate) fn freeze(
        &self,
        persist: &Persist,
        image: &Arc<FrozenImage>,
    ) -> Result<Option<TxId>, Error> {
        self.between_steps(persist, |_, last| {
            // Under the lock: a step that failed before has poisoned the pool by now.
            persist.progress.check()?;
            Ok(self.shards.for_each(|part| part.freeze(image)).then_some(last))
        })
    }

    /// Copies pages to a frozen image.
    pub(crate) fn copy_frozen(&self, persist: &Persist, image: &FrozenImage, pages: Range<usize>) {
        self.between_steps(persist, |_, _| {
            self.shards.for_each(|part| {
                part.copy_frozen(image, pages.clone());
                true
            });
        });
    }

    /// Ends a frozen image.
    pub(crate) fn thaw(&self, persist: &Persist, image: &Arc<FrozenImage>) {
        self.between_steps(persist, |_, _| {
            self.shards.for_each(|part| {
                part.thaw(image);
                true
            });
        });
    }

    /// Records a step of the heap's or the log's growth in the superblock, between two steps: they
    /// write it, too.
    ///
    /// # Errors
    /// The medium's; the pool is poisoned then.
    pub(crate) fn record_growth(&self, persist: &Persist, step: GrowthStep) -> Result<(), Error> {
        let recorded = self.between_steps(persist, |superblocks, _| {
            // Under the lock: a step that failed before has poisoned the pool by now.
            persist.progress.check()?;
            let mut next = *superblocks.current();
            next.record_growth(step);
            if next == *superblocks.current() {
                return Ok(Ok(())); // announced by an earlier attempt
            }
            let recorded = superblocks.update(|now| now.record_growth(step));
            self.superblock_counts.publish(superblocks.counts());
            Ok::<_, Error>(recorded)
        })?;
        recorded.map_err(|error| persist.progress.fail(error.into()))
    }

    /// Adapts the pace of page writes to a log of `bytes` bytes.
    pub(crate) fn log_has_grown(&self, bytes: u64) {
        lock(&self.state).pace.set_log_bytes(bytes);
    }

    /// Calls `visit` with the superblocks and the last transaction taken in, while no step runs.
    pub(crate) fn between_steps<R>(
        &self,
        persist: &Persist,
        visit: impl FnOnce(&mut Superblocks, TxId) -> R,
    ) -> R {
        // Dropped after the lock, also by a panic.
        let _over = VisitOver(persist);
        // Relaxed: the lock orders everything else. A step that does not see the visitor only
        // delays it.
        self.visitors.fetch_add(1, Ordering::Relaxed);
        let mut state = lock(&self.state);
        self.visitors.fetch_sub(1, Ordering::Relaxed);
        self.visited.store(true, Ordering::Relaxed);
        let last = TxId(state.last);
        visit(&mut state.superblocks, last)
    }
}

/// When it is dropped, wakes the threads that saw a visitor or found the lock taken. No lock is
/// held then: callbacks may run.
struct VisitOver<'a>(&'a Persist);

impl Drop for VisitOver<'_> {
    fn drop(&mut self) {
        // A thread that returned `Busy` sleeps until the epoch changes. It read the epoch before it
        // saw the visitor.
        if !injected(Mutant::VisitNotNotified) {
            self.0.progress.step_is_over();
        }
    }
}
