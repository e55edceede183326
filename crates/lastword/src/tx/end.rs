//! The end of a transaction: commit, roll-back, and a panic in either.
//!
//! Invariant: an end that panics poisons the pool before the panic leaves it ([`Ending`]). By then
//! an ID may be assigned without a record, a record may be in the log without its words, and
//! ownership records may be taken. None of this can be undone: a roll-back would add a second ID,
//! and would restore words that the log holds as committed. The poison ends every transaction and
//! every wait that meets this state, and prevents a clean shutdown. The log alone then decides at
//! recovery.

use words::{Stop, TxId};

use super::Tx;
use crate::design::Design;
use crate::{Error, Limit};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Open,
    /// In its commit or roll-back. If it is dropped in this stage, that has panicked.
    Ending,
    Over,
}

/// The guard of a running commit or roll-back, which a return disarms.
pub(crate) struct Ending<'t, D: Design> {
    design: &'t D,
    local: &'t mut D::Local,
    step: &'static str,
}

impl<'t, D: Design> Ending<'t, D> {
    /// Runs a commit or roll-back.
    #[inline(always)]
    pub(crate) fn run<R>(
        design: &'t D,
        local: &'t mut D::Local,
        step: &'static str,
        end: impl FnOnce(&D, &mut D::Local) -> R,
    ) -> R {
        let guard = Ending { design, local, step };
        let done = end(guard.design, guard.local);
        std::mem::forget(guard);
        done
    }
}

impl<D: Design> Drop for Ending<'_, D> {
    #[cold]
    fn drop(&mut self) {
        self.design.end_panicked(self.local, self.step);
    }
}

impl<D: Design> Tx<'_, D> {
    /// Whether a commit or roll-back is running. During `drop` this means that it panicked.
    #[inline]
    pub(crate) fn is_ending(&self) -> bool {
        self.stage == Stage::Ending
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

    /// Rolls back and returns the error for the program.
    #[cold]
    pub(crate) fn fail(&mut self, stop: Stop) -> Error {
        // Before the roll-back, which clears the write set.
        let too_large = self.design.why_too_large(self.local);
        let seen = self.roll_back();
        let info = self.shape.info();
        match (stop, self.reason.take()) {
            (Stop::Aborted, Some(reason)) => Error::Aborted { reason, seen },
            (Stop::Full, _) => Error::Full {
                wanted_bytes: self.wild.offset,
                heap_bytes: info.heap_bytes,
                log_bytes: info.log_bytes,
            },
            (Stop::TooLarge, _) if let Some(error) = too_large => error,
            (Stop::TooLarge, _) => {
                let (log_bytes, ring_bytes) = (info.log_bytes, info.ring_bytes);
                let (words_max, limit) =
                    (self.design.words_max(), Limit::of(log_bytes, ring_bytes));
                Error::TransactionTooLarge { limit, words_max, log_bytes, ring_bytes }
            }
            (Stop::BadSize, _) => Error::BadSize,
            (Stop::BadValue, _) => Error::BadValue,
            (Stop::ReadOnly, _) => Error::ReadOnly,
            (Stop::BadPointer, _) => {
                Error::BadPointer { object: self.wild.object, offset: self.wild.offset }
            }
            (stop, _) => Error::Stopped { stop },
        }
    }
}

impl<D: Design> Drop for Tx<'_, D> {
    #[inline]
    fn drop(&mut self) {
        self.roll_back_if_open();
    }
}
