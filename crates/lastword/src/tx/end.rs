//! Ends a transaction without a commit: a roll-back, or an error for the program.

use lw_alloc::{Request, Shortage};
use words::{Stop, TxId};

use super::{Stage, Tx};
use crate::design::{Design, Ending};
use crate::{Error, Limit};

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
            (Stop::Full, _) => {
                let word = |offset: u64| self.design.peek((offset / 8) as usize);
                let heap = self.shape.heap();
                let usage = heap.usage_now(word);
                let wanted_bytes = self.wild.offset;
                let request = match self.wild.object {
                    0 => Request::Bytes(wanted_bytes),
                    blocks => Request::Blocks(blocks),
                };
                let shortage = match wanted_bytes {
                    0 => Shortage::default(),
                    _ => heap.shortage(&usage, request),
                };
                Error::Full {
                    wanted_bytes,
                    heap_bytes: info.heap_bytes,
                    free_bytes: usage.free_bytes,
                    largest_free_bytes: usage.largest_free_bytes,
                    free_slot_bytes: usage.free_slot_bytes(),
                    shortage,
                }
            }
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
