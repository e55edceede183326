//! A boundary in the order of commits: all transactions up to an ID have ended, and none after it
//! goes on.
//!
//! ```text
//!   thread that chooses it              committing worker
//!   a limit := 0                        1 committing := clock seen       (`workers`)
//!   b the boundary: read the clock      2 assign the ID
//!     by an addition of 0               3 wait while the ID is above the limit
//!     limit := the boundary             4 record, stores
//!   c wait until all up to there        5 committing := idle
//!     have ended
//!   d the work at the boundary
//!   e limit := none
//! ```
//!
//! Step c waits only for commits in flight, and these wait only for the device. It does not wait
//! for running bodies, so no program can delay a boundary. A commit that waits at 3 has its
//! ownership records and an ID above the boundary. No commit up to the boundary waits for it: an
//! attempt that meets its records rolls back.
//!
//! Invariants:
//! - *A commit above the boundary has not passed 3 before d ends.* Steps 2 and b add to
//!   the same word, and the commit's step 2 comes after b. It reads from b's release sequence, so
//!   step 3 loads the limit that step a stored, or a later one. If it loads the limit that step e
//!   stored, it acquires the work of d. (If b read the clock before a, a commit could be assigned
//!   an ID between them. That ID would be above the boundary, and the commit could miss the limit.)
//! - *A commit up to the boundary has ended before d.* The commit's step 2 comes before b. Step c
//!   therefore loads the value of the commit's step 1 or a later one, and waits for step 5; see
//!   `workers`.
//! - Step e follows in every case: a guard runs it, also after a failure of the pool in c or
//!   a panic in d.
//!
//! A commit pays one load of a word that seldom changes.

use medium::mutants::{Mutant, injected};

use super::workers::Workers;
use crate::error::Error;
use crate::poison::Poison;
use crate::sync::{AtomicU64, Mutex, Ordering, lock, rest};

/// The most polls that [`rest`] counts: by then it sleeps between them.
const LOOKS_MAX: u32 = 100;

/// No limit.
const NONE: u64 = u64::MAX;

/// The boundary of a pool's commits, while there is one.
#[derive(Debug)]
pub(super) struct Boundary {
    /// The last ID whose commit may go on.
    limit: AtomicU64,
    /// Held by the thread that chooses it.
    choosing: Mutex<()>,
}

/// Lifts the limit when it is dropped.
struct Limited<'b>(&'b Boundary);

impl Default for Boundary {
    fn default() -> Boundary {
        Boundary { limit: AtomicU64::new(NONE), choosing: Mutex::default() }
    }
}

impl Boundary {
    /// Step 3. Ends also when the pool has failed.
    #[inline(always)]
    pub(super) fn pass(&self, id: u64, poison: &Poison) {
        // Acquire: pairs with e. The stores that follow see the work of d.
        if id > self.limit.load(Ordering::Acquire) && !injected(Mutant::CommitIgnoresLimit) {
            self.wait(id, poison);
        }
    }

    #[cold]
    fn wait(&self, id: u64, poison: &Poison) {
        let mut look = 0;
        while id > self.limit.load(Ordering::Acquire) && poison.check().is_ok() {
            rest(look);
            look = LOOKS_MAX.min(look + 1);
        }
    }

    /// Steps a and b. Returns the boundary, and the guard that is step e.
    fn choose(&self, clock: &AtomicU64) -> (u64, Limited<'_>) {
        let early =
            injected(Mutant::BoundaryReadBeforeLimit).then(|| clock.load(Ordering::Acquire));
        // Relaxed: the addition publishes it.
        self.limit.store(0, Ordering::Relaxed);
        let limited = Limited(self);
        // AcqRel: Release publishes the limit to commits with later IDs. Acquire shows the step 1
        // of all others.
        let last = early.unwrap_or_else(|| clock.fetch_add(0, Ordering::AcqRel));
        // Relaxed: it only releases commits up to the boundary, which need nothing of this thread.
        self.limit.store(last, Ordering::Relaxed);
        (last, limited)
    }
}

impl Drop for Limited<'_> {
    fn drop(&mut self) {
        // Release: a commit that sees no limit sees the work of d.
        self.0.limit.store(NONE, Ordering::Release);
    }
}

impl Workers {
    /// Runs `work` at a boundary, which it gets as the ID of the last transaction up to there.
    ///
    /// # Errors
    /// The pool's sticky error. `work` has not run then.
    pub(super) fn at_boundary<R>(
        &self,
        clock: &AtomicU64,
        work: impl FnOnce(u64) -> R,
    ) -> Result<R, Error> {
        let _choosing = lock(&self.boundary.choosing);
        self.poison.check()?;
        let (last, limited) = self.boundary.choose(clock);
        if !injected(Mutant::BoundaryNotAwaited) {
            self.wait(clock, last)?;
        }
        let early = injected(Mutant::LimitLiftedBeforeFreeze);
        let limited = (!early).then_some(limited);
        let done = work(last);
        drop(limited);
        Ok(done)
    }
}
