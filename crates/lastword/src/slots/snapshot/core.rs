//! State shared by the workers of a pool, and the steps that need nothing else.

use medium::{Memory, cpu};
use words::TxId;

use super::super::format::SLOTS_MAX;
use super::super::gather::Gather;
use super::super::store::SlotStore;
use super::super::truncation::Truncation;
use super::super::workers::Workers;
use super::Local;
use super::group::Groups;
use crate::Options;
use crate::dual_version::{Attempt, Finished, Owned, Shown, Versions};
use crate::error::Error;
use crate::sync::{AtomicU64, Mutex, Ordering};

/// One grace period in this many is timed, because reading the cycle counter takes as long as a
/// short one.
const TIMED_EVERY: u64 = 8;

const _: () = assert!(SLOTS_MAX <= crate::dual_version::WORKERS_MAX);

/// State shared by the workers and by the threads that end their groups.
pub(super) struct Core {
    pub(super) versions: Versions<Memory>,
    pub(super) store: SlotStore,
    pub(super) workers: Workers,
    pub(super) gather: Gather,
    pub(super) truncation: Mutex<Truncation>,
    /// Transactions up to this ID are certainly durable. `u64::MAX` until a transaction is unwound
    /// while it is made durable.
    pub(super) sure: AtomicU64,
    /// The attempt that the last worker of each number left to the next one.
    pub(super) kept: Box<[Mutex<Option<Attempt>>]>,
    pub(super) groups: Option<Groups>,
    pub(super) options: Options,
}

impl Core {
    /// Computes the unknown page checksums, at a clean shutdown.
    pub(super) fn seal(&self) -> Result<(), Error> {
        self.store.seal().map_err(|error| self.workers.poison.put(error))
    }

    pub(super) fn clock(&self) -> &AtomicU64 {
        self.versions.clock()
    }

    /// Leaves a commit that failed or panicked while it was made durable, so that its fate after a
    /// crash is unknown. Its objects stay locked; the pool is poisoned. Where no store reaches the
    /// medium by itself (`file`, a simulated power failure) the copies are shown: a test observes
    /// the heap as other transactions would have seen it. Its timestamp is above `sure`, so that no
    /// wait reports it as durable.
    #[cold]
    pub(super) fn leave_undecided(&self, local: &mut Local) {
        if self.store.is_detached()
            && let Some(log) = &local.log
        {
            // `committed_id` without groups: with groups a worker has no log of its own.
            let committed = self.clock().load(Ordering::Acquire);
            self.sure.fetch_min(committed, Ordering::Relaxed);
            self.versions.force(local.attempt.owned(), &log.batch);
        }
    }

    /// Commits a transaction that only protected objects. It logs nothing and shows nothing, but it
    /// counts as a write from here on, so it gets an end. A transaction that began earlier and then
    /// writes one of these objects conflicts with it. Returns the last ID that the transaction has
    /// seen; the timestamp that it consumes is no transaction's ID.
    #[cold]
    pub(super) fn commit_protected(&self, local: &mut Local) -> TxId {
        let Local { number, attempt, .. } = local;
        let seen = attempt.seen();
        self.versions.commits(attempt);
        let shown = self.versions.show(&self.store, attempt.owned());
        let (end, ends) = (shown.end, (shown, attempt.looks()));
        let finished = self.finish(*number, attempt.owned(), ends, &mut Vec::new());
        self.versions.ended(attempt, end, finished);
        TxId(seen)
    }

    /// Applies versions that have just ended to the heap, now or later. Times the grace period
    /// of one transaction in [`TIMED_EVERY`].
    #[inline(always)]
    pub(super) fn finish(
        &self,
        slot: usize,
        owned: &Owned,
        (shown, looks): (Shown<'_>, u32),
        batch: &mut Vec<u64>,
    ) -> Finished {
        let timed = shown.end.is_multiple_of(TIMED_EVERY);
        let now = || if timed { cpu::cycles() } else { 0 };
        let began = now();
        let finished = self.versions.finish(&self.store, owned, (shown, looks), batch, now);
        if timed {
            self.workers.slot(slot).meter.grace(finished.known.saturating_sub(began));
        }
        finished
    }
}
