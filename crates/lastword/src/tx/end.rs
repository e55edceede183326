//! Ends a transaction without a commit: a roll-back, or an error for the program.

use medium::mutants::{Mutant, injected};
use words::{Stop, TxId};

use super::{Ended, MetFull, Stage, Tx};
use crate::design::{Design, Ending};
use crate::{Error, Limit, ReplicationError};

impl<D: Design> Tx<'_, D> {
    /// Whether a commit or roll-back is running. During `drop` this means that it panicked.
    #[inline]
    pub(crate) fn is_ending(&self) -> bool {
        self.stage == Stage::Ending
    }

    /// Returns the request that a full heap could not serve, if one has ended the transaction.
    pub(crate) fn met_full(&self) -> Option<MetFull> {
        (self.stop == Some(Stop::Full)).then(|| self.request())
    }

    fn request(&self) -> MetFull {
        MetFull { wanted: self.wild, heap_bytes: self.heap_bytes }
    }

    /// Whether the heap has grown since the attempt began, so that it may have met memory behind
    /// its own bound, or a heap that is no longer full. That is a conflict: the transaction runs
    /// again. Each needs a growth, so it ends.
    pub(super) fn is_outgrown(&self, stop: Stop) -> bool {
        matches!(stop, Stop::Full | Stop::BadPointer)
            && self.shape.heap_bytes() != self.heap_bytes
            && !injected(Mutant::OutgrownBound)
    }

    /// Rolls back. Returns the last ID that the transaction may have seen.
    pub(crate) fn roll_back(&mut self) -> TxId {
        self.stage = Stage::Ending;
        let seen = Ending::run(self.design, self.local, "roll-back", D::roll_back);
        self.stage = Stage::Over;
        seen
    }

    /// Rolls back unless the transaction has ended, or its end has panicked.
    #[inline]
    pub(crate) fn roll_back_if_open(&mut self) {
        // In a forked child the heap may belong to the parent, which continues this transaction.
        if self.stage == Stage::Open && !self.shape.is_forked() {
            self.roll_back();
        }
    }

    /// Rolls back and returns the end of the attempt, for the worker or the program.
    #[cold]
    pub(crate) fn fail(&mut self, stop: Stop) -> Ended {
        // Before the roll-back, which clears the write set.
        let too_large = self.design.why_too_large(self.local);
        let seen = self.roll_back();
        let info = self.shape.info();
        let error = match (stop, self.reason.take()) {
            (Stop::Full, _) => return Ended::Full(self.request()),
            (Stop::Aborted, Some(reason)) => Error::Aborted { reason, seen },
            (Stop::TooLarge, _) if let Some(error) = too_large => error,
            (Stop::TooLarge, _) => {
                let (log_bytes, ring_bytes) = (info.log_bytes, info.ring_bytes);
                let (words_max, limit) =
                    (self.design.words_max(), Limit::of(log_bytes, ring_bytes));
                Error::TransactionTooLarge { limit, words_max, log_bytes, ring_bytes }
            }
            (Stop::BadSize, _) => Error::BadSize,
            (Stop::BadValue, _) => Error::BadValue,
            (Stop::ReadOnly, _) if self.shape.is_following() => ReplicationError::Following.into(),
            (Stop::ReadOnly, _) => Error::ReadOnly,
            (Stop::BadPointer, _) => {
                Error::BadPointer { object: self.wild.object, offset: self.wild.offset }
            }
            (stop, _) => Error::Stopped { stop },
        };
        Ended::Error(error)
    }
}

impl<D: Design> Drop for Tx<'_, D> {
    #[inline]
    fn drop(&mut self) {
        self.roll_back_if_open();
    }
}

#[cfg(test)]
mod tests {
    use words::{Addr, Allocate, Words};

    use super::*;
    use crate::pool::WALKS;
    use crate::{Options, Pool, Volatile};

    #[test]
    fn full_heap_is_walked_once_for_a_returned_error() {
        let options = Options::new().bytes(1 << 20);
        let pool = Pool::<Volatile>::create_as("", options).unwrap();
        let (mut first, mut other) = (pool.worker().unwrap(), pool.worker().unwrap());
        // Each slab stays with the first worker, also when it is empty.
        for bytes in (16..=1024).step_by(16) {
            let made = first.run(|tx| tx.allocate(bytes)).unwrap().value;
            let _ = first.run(|tx| tx.retire(Addr::new(made, 0), bytes as u64)).unwrap();
        }
        let allocate = |tx: &mut Tx<'_, Volatile>| tx.allocate(100);
        let walks = || WALKS.with(std::cell::Cell::take);
        // A transaction in parts reclaims nothing, and ends without an error for the program.
        loop {
            let mut open = other.begin(false).unwrap();
            match open.tx().allocate(100) {
                Ok(_) => drop(open.commit().unwrap()),
                Err(stop) => break assert_eq!(stop, Stop::Full),
            }
        }
        assert_eq!(walks(), 0);
        let mut reclaimed = 0;
        let error = loop {
            match other.run(allocate) {
                Ok(_) => reclaimed += 1,
                Err(error) => break error,
            }
            assert_eq!(walks(), 0, "a reclaim made room");
        };
        assert!(reclaimed > 100, "{reclaimed}");
        assert!(matches!(error, Error::Full { free_bytes: 0, .. }), "{error:?}");
        assert_eq!(walks(), 1);
    }
}
