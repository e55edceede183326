//! Frozen images: the heap image as of one transaction, while reproduction goes on.
//!
//! A frozen image begins, is copied and ends *between steps*: under the lock of the steps, when no
//! batch is open. Its transaction is the last one taken in. The words of every group up to there
//! are in the heap image or gathered for it, and no word of a later one is.
//!
//! A long copy takes the lock once for each slice. A step that finds a visitor waiting gives way
//! to it, as if another thread held the step. Otherwise the thread that reproduces could take the
//! lock again each time before the visitor wakes up, and the copy would not get on.

use std::ops::Range;

use medium::FrozenImage;
use medium::mutants::{Mutant, injected};
use words::TxId;

use super::Reproduce;
use crate::persist::{Notifiers, Persist};
use crate::sync::{Arc, Ordering, lock};

impl Reproduce {
    /// Returns the last transaction whose words were taken in.
    pub(crate) fn taken_in(&self) -> TxId {
        // Acquire: pairs with the Release in `step`.
        TxId(self.taken_in.load(Ordering::Acquire))
    }

    /// Begins a frozen image as of the last transaction taken in, and returns that. `None` if the
    /// heap image has no content to freeze.
    pub(crate) fn freeze(
        &self,
        persist: &Persist,
        notifiers: &Notifiers,
        image: &Arc<FrozenImage>,
    ) -> Option<TxId> {
        self.between_steps(persist, notifiers, |last| {
            let is_frozen = self.shards.for_each(|part| part.freeze(image));
            is_frozen.then_some(last)
        })
    }

    /// Copies pages to a frozen image.
    pub(crate) fn copy_frozen(
        &self,
        persist: &Persist,
        notifiers: &Notifiers,
        image: &FrozenImage,
        pages: Range<usize>,
    ) {
        self.between_steps(persist, notifiers, |_| {
            self.shards.for_each(|part| {
                part.copy_frozen(image, pages.clone());
                true
            });
        });
    }

    /// Ends a frozen image.
    pub(crate) fn thaw(&self, persist: &Persist, notifiers: &Notifiers, image: &Arc<FrozenImage>) {
        self.between_steps(persist, notifiers, |_| {
            self.shards.for_each(|part| {
                part.thaw(image);
                true
            });
        });
    }

    /// Calls `visit` with the last transaction taken in, while no step runs.
    pub(crate) fn between_steps<R>(
        &self,
        persist: &Persist,
        notifiers: &Notifiers,
        visit: impl FnOnce(TxId) -> R,
    ) -> R {
        // Dropped after the lock, also by a panic.
        let _over = VisitOver { persist, notifiers };
        // Relaxed: the lock orders all else, and a step that misses the visitor costs it a wait.
        self.visitors.fetch_add(1, Ordering::Relaxed);
        let state = lock(&self.state);
        self.visitors.fetch_sub(1, Ordering::Relaxed);
        visit(TxId(state.last))
    }
}

/// Wakes the threads that gave way to a visitor, or found the lock taken.
struct VisitOver<'a> {
    persist: &'a Persist,
    notifiers: &'a Notifiers,
}

impl Drop for VisitOver<'_> {
    fn drop(&mut self) {
        // Such a thread sleeps until the epoch moves, and read it before it saw the visitor. The
        // thread that reproduces has an event of its own.
        if !injected(Mutant::VisitNotNotified) {
            self.persist.progress.step_is_over();
        }
        self.notifiers.notify_reproducer();
    }
}
