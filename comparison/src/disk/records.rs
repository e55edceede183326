//! Records and transactions, the same for every store.
//!
//! | work | transaction |
//! |---|---|
//! | `update` | one record of 100 000 replaced, uniform keys |
//! | `mixed` | 10 records replaced, keys uniform over all present, and 10 inserted |
//!
//! A record is 100 bytes under a key of 8. Keys have no pattern, so inserts go everywhere. A
//! record's contents follow from its key and the transaction that wrote it, so a second run of the
//! same script yields the expected contents.

use clap::ValueEnum;
use serde::Serialize;

use crate::draw::{Draw, mix};

/// Records that are there from the beginning.
pub(crate) const RECORDS: u64 = 100_000;

/// Bytes of a record.
pub(crate) const RECORD_BYTES: usize = 100;

/// Bytes of a key.
pub(crate) const KEY_BYTES: usize = 8;

/// A record; the upper half of the last word is no part of it, and 0.
pub(crate) type Record = [u64; RECORD_BYTES.div_ceil(8)];

/// A record to write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Put {
    pub(crate) key: u64,
    pub(crate) record: Record,
    /// No record has this key.
    pub(crate) is_new: bool,
}

/// One of the comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Work {
    /// One record replaced.
    Update,
    /// 10 replaced and 10 inserted.
    Mixed,
}

impl Work {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Work::Update => "1 update",
            Work::Mixed => "10 updates + 10 inserts",
        }
    }

    /// Records replaced and inserted by a transaction.
    pub(crate) fn puts(self) -> (u64, u64) {
        match self {
            Work::Update => (1, 0),
            Work::Mixed => (10, 10),
        }
    }

    /// Transactions for each second asked for.
    pub(crate) fn per_second(self) -> f64 {
        match self {
            Work::Update => 2e6,
            Work::Mixed => 1e5,
        }
    }

    /// Bytes of the user's data that a transaction changes.
    pub(crate) fn user_bytes(self) -> u64 {
        let (updates, inserts) = self.puts();
        updates * RECORD_BYTES as u64 + inserts * (RECORD_BYTES + KEY_BYTES) as u64
    }
}

/// The key of the record with this number.
pub(crate) fn key(index: u64) -> u64 {
    mix(index)
}

/// Returns the record that the transaction `stamp` (0: loading) writes under a key.
#[inline]
pub(crate) fn record(key: u64, stamp: u64) -> Record {
    let mut record = [0; 13];
    let seed = (key ^ stamp).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for (word, i) in record.iter_mut().zip(0..) {
        *word = seed.wrapping_add(i);
    }
    (record[0], record[1]) = (key, stamp);
    record[12] &= 0xffff_ffff;
    record
}

/// The transactions of one thread, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    draw: Draw,
    work: Work,
    count: u64,
    stamp: u64,
}

impl Script {
    pub(crate) fn new(work: Work, draw: Draw) -> Script {
        Script { draw, work, count: RECORDS, stamp: 0 }
    }

    /// Returns the writes of the next transaction.
    #[inline]
    pub(crate) fn next(&mut self, puts: &mut Vec<Put>) {
        self.stamp += 1;
        let (updates, inserts) = self.work.puts();
        puts.clear();
        for _ in 0..updates {
            let key = key(self.draw.below(self.count));
            puts.push(Put { key, record: record(key, self.stamp), is_new: false });
        }
        for index in self.count..self.count + inserts {
            let key = key(index);
            puts.push(Put { key, record: record(key, self.stamp), is_new: true });
        }
        self.count += inserts;
    }

    /// Returns each record's last writer, after this many transactions.
    pub(crate) fn stamps_after(mut self, transactions: u64) -> Vec<u64> {
        let mut stamps = vec![0; self.count as usize];
        let (updates, inserts) = self.work.puts();
        for stamp in 1..=transactions {
            for _ in 0..updates {
                stamps[self.draw.below(self.count) as usize] = stamp;
            }
            stamps.extend((0..inserts).map(|_| stamp));
            self.count += inserts;
        }
        stamps
    }
}

/// Loads the initial records before timing, in transactions of moderate size.
pub(crate) fn load<E>(mut run: impl FnMut(&[Put]) -> Result<(), E>) -> Result<(), E> {
    let new = |index| Put { key: key(index), record: record(key(index), 0), is_new: true };
    let puts: Vec<Put> = (0..RECORDS).map(new).collect();
    puts.chunks(100).try_for_each(&mut run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn the_last_writers_are_those_of_the_script() {
        for work in [Work::Update, Work::Mixed] {
            let script = Script::new(work, Draw::new(7, 0, 0));
            let (mut written, mut puts) = (HashMap::new(), Vec::new());
            let mut running = script.clone();
            for _ in 0..5000 {
                running.next(&mut puts);
                for put in &puts {
                    let before = written.insert(put.key, put.record[1]);
                    assert!(!put.is_new || before.is_none());
                }
            }
            let stamps = script.stamps_after(5000);
            assert!(stamps.iter().filter(|stamp| **stamp > 0).count() > 4000);
            for (index, stamp) in (0..).zip(stamps) {
                assert_eq!(written.get(&key(index)).copied().unwrap_or(0), stamp);
            }
        }
    }
}
