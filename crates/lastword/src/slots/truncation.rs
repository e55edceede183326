//! Truncation: applies logged records to the heap image, then frees their space in all slots.
//!
//! ```text
//!   records up to a frontier, of every slot:  words -> heap image     barrier
//!   head of slot 0: the image holds all up to this ID                 barrier
//!   a slot without other records is written from its beginning
//! ```
//!
//! One thread truncates at a time. Any thread may truncate, and it covers every slot, so an idle or
//! departed worker holds up no other. Each design chooses its own frontier.
//!
//! Invariants, and the failure without each:
//! - The heap image is durable before the head says so, and the head before a slot restarts from
//!   its beginning. Otherwise a crash finds words in neither place.
//! - Records are truncated in their order over all slots. Slot by slot, the newer value of a word
//!   could be applied and freed in one slot; recovery would then replay an older value from
//!   another.
//! - The head never moves backwards.
//! - A record is verified again when it is read back. Another program may have truncated the file
//!   or punched a hole into it. Unverified zeros pass for an empty record, and the head would then
//!   free words that only the log had.
//! - Its sequence is verified too. Records of earlier wraps have the same key and may begin at the
//!   same word, so a block that a restored copy brings back passes every other check. The words of
//!   the record that it replaced would then be freed and never applied. A slot's workers, one after
//!   another, number their records without a gap, no-op records and groups included, and a failed
//!   write poisons the pool. So one sequence is right at each place.
//!
//! Truncation writes the current values of the words: all of them are durable in the log.

use medium::mutants::{Mutant, injected};
use medium::writes::{Piece, Pieces, run};

use super::format::{Head, Key};
use super::store::SlotStore;
use super::workers::{Meter, Workers};
use crate::Error;
use crate::sync::{AtomicUsize, Ordering};

/// State of truncation: the persistent head, and the freed part of each slot.
#[derive(Debug)]
pub(super) struct Truncation {
    key: Key,
    head: Head,
    /// For each slot, the records that the heap image has.
    tails: Vec<Tail>,
    records: Vec<u64>,
    meter: Meter,
}

/// The records of a slot that the heap image has.
#[derive(Clone, Copy, Debug, Default)]
struct Tail {
    /// The word up to which they reach.
    at: usize,
    /// The sequence of the last one. It survives a restart of the slot.
    sequence: u64,
}

impl Truncation {
    pub(super) fn new(store: &SlotStore, last: u64) -> Truncation {
        Truncation {
            key: store.key(0),
            head: Head { sequence: 0, id: last, last: 0 },
            tails: vec![Tail::default(); store.layout.slots],
            records: Vec::new(),
            meter: Meter::default(),
        }
    }

    pub(super) fn head(&self) -> Head {
        self.head
    }

    pub(super) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Returns the word of a slot up to which records are freed.
    pub(super) fn tail(&self, slot: usize) -> usize {
        self.tails[slot].at
    }

    /// Restarts a slot whose records end at word `at` with sequence `last`, if all of them are
    /// freed. Returns whether it did.
    pub(super) fn restart(
        &mut self,
        slot: usize,
        (at, last): (usize, u64),
        filled: &AtomicUsize,
    ) -> bool {
        let is_empty = self.tails[slot].at == at || injected(Mutant::RestartedFirst);
        if is_empty {
            // Under the lock, so that a truncating thread sees both changes or neither.
            self.tails[slot] = Tail { at: 0, sequence: last };
            filled.store(0, Ordering::Release);
        }
        is_empty
    }

    /// Truncates all records up to the frontier: two persist barriers. `last` is called once those
    /// records are known; the head stores its result.
    pub(super) fn forget(
        &mut self,
        store: &SlotStore,
        workers: &Workers,
        frontier: u64,
        last: impl FnOnce() -> u64,
    ) -> Result<(), Error> {
        let Truncation { key, head, tails, records, meter } = self;
        // No new record is below the frontier, and the head never moves backwards.
        if frontier <= head.id {
            return Ok(());
        }
        let (mut lines, mut pages, mut ends) = (0, Vec::new(), tails.clone());
        for (number, slot) in workers.used().enumerate() {
            // Read after the frontier, so every record up to it is within `filled`.
            let filled = slot.filled.load(Ordering::Acquire);
            let Tail { at: first, mut sequence } = tails[number];
            records.resize(filled - first, 0);
            store.read_records(number, first, records)?;
            let mut at = 0;
            let key = store.key(number);
            // Whole records fill the words up to `filled` exactly. A record that reaches past it
            // lacks words in `records`, which is a change like any other.
            while at < records.len() {
                let Some(record) = key.open_next(first, at, sequence + 1, records) else {
                    return Err(store.changed_record(number, first + at));
                };
                // The record's first mark has its ID or stamp; see `format`.
                if store.base() + (record.batch[0] >> 16) > frontier {
                    break;
                }
                for piece in Pieces::new(&record.batch[1..]) {
                    let Piece::Run(index, words) = piece else { continue };
                    match store.is_in_place() {
                        true => lines += store.write_back(index as usize, words.len()),
                        false => push_current(store, index, words.len(), &mut pages),
                    }
                }
                at += store.room(record.words());
                sequence += 1;
            }
            ends[number] = Tail { at: first + at, sequence };
        }
        let next = Head { sequence: head.sequence + 1, id: frontier, last: last() };
        if injected(Mutant::TruncatedFirst) {
            store.write_head(0, key, next, meter)?;
        }
        // Before the head: the records that it frees have the durable witnesses.
        lines += store.keep_witnesses(frontier, workers.used().count());
        match store.is_in_place() {
            true => store.flush_lines(lines, meter)?,
            false => store.write_pages(&[&pages], meter)?,
        }
        store.write_head(0, key, next, meter)?;
        // Only after the head is durable: an error leaves every record in its slot.
        (*head, *tails) = (next, ends);
        Ok(())
    }
}

/// Appends the current values of words to a batch.
fn push_current(store: &SlotStore, index: u64, words: usize, batch: &mut Vec<u64>) {
    batch.push(run(index, words));
    let heap = &store.heap()[index as usize..index as usize + words];
    batch.extend(heap.iter().map(|word| word.load(Ordering::Relaxed)));
}
