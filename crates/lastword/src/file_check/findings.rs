//! The findings of all threads that check a pool's files.
//!
//! A thread looks at the files and adds its finding later. In between another thread may look, too,
//! after a file was cut, and add that. Both write under one lock, so that a thread which has seen
//! nothing keeps the flag of a thread which has seen a cut.

use medium::mutants::{Mutant, injected};

use crate::sync::{AtomicBool, Mutex, Ordering, lock};

/// A first cut `C`, which stays, and a loss of names, which may end.
#[derive(Debug)]
pub(crate) struct Findings<C> {
    /// Whether the last look found a loss of names, or any look a cut.
    is_lost: AtomicBool,
    /// The first cut found.
    cut: Mutex<Option<C>>,
}

impl<C> Default for Findings<C> {
    fn default() -> Findings<C> {
        Findings { is_lost: AtomicBool::new(false), cut: Mutex::new(None) }
    }
}

impl<C: Clone> Findings<C> {
    /// Whether there is a loss. A thread may see one late. It then returns the result of an earlier
    /// look.
    #[inline]
    pub(crate) fn is_lost(&self) -> bool {
        // Relaxed: no other memory depends on it.
        self.is_lost.load(Ordering::Relaxed)
    }

    /// Adds what a look found, and returns the cut to report. `replaces`: whether the second cut is
    /// reported in place of the first.
    pub(crate) fn add(
        &self,
        names_lost: bool,
        cuts: impl IntoIterator<Item = C>,
        replaces: impl Fn(&C, &C) -> bool,
    ) -> Option<C> {
        // Locked after the look, whose system calls may wait for a disk while other threads look.
        // Each thread adds its cuts before it returns, so once one has returned with a cut, every
        // later look returns it too.
        let mut cut = lock(&self.cut);
        for seen in cuts {
            if cut.as_ref().is_none_or(|cut| replaces(cut, &seen)) {
                *cut = Some(seen);
            }
        }
        let found = cut.clone();
        let cut = if injected(Mutant::FindingStoredAfterUnlock) {
            drop(cut);
            None
        } else {
            Some(cut)
        };
        // Stored under the lock: a thread that looked before a cut must not overwrite the finding
        // of a thread that looked after it. A lost name differs, since a name can come back.
        self.is_lost.store(names_lost || found.is_some(), Ordering::Relaxed);
        drop(cut);
        found
    }
}
