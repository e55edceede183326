//! The words of running transactions in a mapped heap image, and their old values, for views.
//!
//! A frozen image begins at a `boundary`. By then running transactions have stored words in
//! place, and they go on. The *live* records, those that no head has voided, have the old values.
//! So a page is copied with the live records laid over.
//!
//! Invariant: while a page has no copy, each of its words has its value of the boundary, or a live
//! record has that value. For a word that a transaction stores:
//! - The transaction has an ID up to the boundary: it has ended, so the word has its value of the
//!   boundary.
//! - The worker stores after it sees the watch: it copies the page first.
//! - Otherwise the transaction's record has the word's value of the boundary: any other transaction
//!   that changed the word since then would have copied the page. The worker copies the page before
//!   it voids the record ([`keep`](Undo::keep)). It sees the watch by then: its commit has an ID
//!   above the boundary, so it waited until the limit was lifted.
//!
//! The thread that copies holds the lock of the page's group, so a transaction with words in the
//! page does not void its records meanwhile. Other transactions may void and overwrite
//! their records while this thread reads them. Those records have no word in the page, or are later
//! than its copy.

use std::ops::Range;

use medium::PAGE_WORDS;
use medium::mutants::{Mutant, injected};
use medium::writes::{Piece, Pieces};

use super::Undo;
use crate::sync::Ordering;

impl Undo {
    /// Whether a slot has records of a transaction in flight, whose words may be in the heap image.
    /// Called when no worker is left; the program has then leaked a worker in the middle of a
    /// transaction. Acquire: pairs with the stores after a record and after the head that voids it.
    pub(super) fn is_open_in_place(&self) -> bool {
        self.workers.used().any(|slot| slot.filled.load(Ordering::Acquire) > 0)
    }

    /// Stores a word in place.
    #[inline(always)]
    pub(super) fn store(&self, index: usize, value: u64) {
        self.store.store_over(index, value, |first, out| self.lay_over(first, out));
    }

    /// Copies the pages of words to the frozen images that lack them, before the record of these
    /// words is voided.
    #[cold]
    pub(super) fn keep(&self, index: usize, words: usize) {
        if !injected(Mutant::RecordsVoidedBeforeCopy) {
            self.store.keep(index, words, |first, out| self.lay_over(first, out));
        }
    }

    /// Replaces words of running transactions by their old values, in neighboring pages that were
    /// just read.
    #[cold]
    pub(super) fn lay_over(&self, first_page: usize, out: &mut [u64]) {
        if injected(Mutant::LiveRecordsIgnored) {
            return;
        }
        let first = first_page * PAGE_WORDS;
        let span = first..first + out.len();
        let mut records = Vec::new();
        for (number, filled) in self.workers.live() {
            records.resize(filled, 0);
            if self.store.read_records(number, 0, &mut records).is_ok() {
                self.lay_over_slot(number, &records, &span, out);
            }
        }
    }

    /// Lays the live records of one slot over the pages.
    fn lay_over_slot(&self, number: usize, records: &[u64], span: &Range<usize>, out: &mut [u64]) {
        let (key, mut at, mut whole) = (self.store.key(number), 0, Vec::new());
        // A record that is not whole is being overwritten: see the module.
        while let Some(record) = key.open(at, records) {
            whole.push(record.batch);
            at += self.store.room(record.words());
        }
        // Newest first: a word's oldest record has its value from before the transaction.
        for piece in whole.into_iter().rev().flat_map(Pieces::new) {
            let Piece::Run(index, words) = piece else { continue };
            for (index, value) in (index as usize..).zip(words) {
                if span.contains(&index) {
                    out[index - span.start] = *value;
                }
            }
        }
    }
}
