//! Truncation: what records say comes home, and then they are forgotten, of all slots at once.
//!
//! ```text
//!   records up to a frontier, of every slot:  their words -> home     barrier
//!   head of slot 0: up to this all is at home                         barrier
//!   a slot that has nothing else is written from its beginning
//! ```
//!
//! One thread at a time forgets; any thread may, for every slot, so a worker that is idle or gone
//! holds nobody up. Which frontier is the design's business. Orders, and what goes wrong without
//! them:
//! - Home is durable before the head says so, and that before a slot is written again from its
//!   beginning: a crash would find words neither here nor there.
//! - It goes by the order of the records over all slots. By slots it would lose: this slot's newer
//!   value of a word is home and forgotten, an older one of another slot is replayed over it.
//! - The head never goes back.
//! - A record is checked again when it is read back. Another program may have cut the file or
//!   punched a hole into it. Unchecked zeros pass for a record without words, and the head would
//!   then forget words that only the log had.
//!
//! What goes home is what words hold by now: all of it is durable in the log.

use medium::mutants::{Mutant, planted};
use medium::writes::{Piece, Pieces, run};

use super::format::{Head, Key};
use super::ground::Ground;
use super::workers::{Meter, Workers};
use crate::Error;
use crate::sync::{AtomicUsize, Ordering};

/// What is forgotten.
#[derive(Debug)]
pub(super) struct Truncation {
    key: Key,
    head: Head,
    /// In each slot, the word up to which records are at home.
    tails: Vec<usize>,
    records: Vec<u64>,
    meter: Meter,
}

impl Truncation {
    pub(super) fn new(ground: &Ground, last: u64) -> Truncation {
        Truncation {
            key: ground.key(0),
            head: Head { sequence: 0, id: last, last: 0 },
            tails: vec![0; ground.layout.slots],
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

    /// The word of a slot up to which records are forgotten.
    pub(super) fn tail(&self, slot: usize) -> usize {
        self.tails[slot]
    }

    /// Lets a slot that has records up to word `at` begin again, if all of them are forgotten.
    pub(super) fn restart(&mut self, slot: usize, at: usize, filled: &AtomicUsize) -> bool {
        let is_empty = self.tails[slot] == at || planted(Mutant::RestartedFirst);
        if is_empty {
            // Under the lock: whoever forgets sees both or neither.
            self.tails[slot] = 0;
            filled.store(0, Ordering::Release);
        }
        is_empty
    }

    /// Forgets all records up to the frontier, which are in their slots: two persist barriers.
    /// `last`, asked when it is known what those are, is what the head says beside it.
    pub(super) fn forget(
        &mut self,
        ground: &Ground,
        workers: &Workers,
        frontier: u64,
        last: impl FnOnce() -> u64,
    ) -> Result<(), Error> {
        let Truncation { key, head, tails, records, meter } = self;
        if frontier <= head.id {
            return Ok(());
        }
        let (mut lines, mut pages, mut ends) = (0, Vec::new(), tails.clone());
        for (number, slot) in workers.used().enumerate() {
            // Behind the frontier: every record up to it is there.
            let filled = slot.filled.load(Ordering::Acquire);
            records.resize(filled - tails[number], 0);
            ground.read_records(number, tails[number], records)?;
            let mut at = 0;
            let key = ground.key(number);
            while at < records.len() {
                let Some(record) = key.open_part(tails[number], at, records) else {
                    return Err(ground.changed_record(number, tails[number] + at));
                };
                // Its first mark; see `format`.
                if ground.base() + (record.batch[0] >> 16) > frontier {
                    break;
                }
                for piece in Pieces::new(&record.batch[1..]) {
                    let Piece::Run(index, words) = piece else { continue };
                    match ground.is_home() {
                        true => lines += ground.write_back(index as usize, words.len()),
                        false => present(ground, index, words.len(), &mut pages),
                    }
                }
                at += ground.room(record.words());
            }
            ends[number] += at;
        }
        let next = Head { sequence: head.sequence + 1, id: frontier, last: last() };
        if planted(Mutant::TruncatedFirst) {
            ground.write_head(0, key, next, meter)?;
        }
        match ground.is_home() {
            true => ground.lines_home(lines, meter)?,
            false => ground.pages_home(&[&pages], meter)?,
        }
        ground.write_head(0, key, next, meter)?;
        (*head, *tails) = (next, ends);
        Ok(())
    }
}

/// What words hold by now.
fn present(ground: &Ground, index: u64, words: usize, batch: &mut Vec<u64>) {
    batch.push(run(index, words));
    let heap = &ground.heap()[index as usize..index as usize + words];
    batch.extend(heap.iter().map(|word| word.load(Ordering::Relaxed)));
}
