//! Transaction identifiers: the log's short numbers for transactions.
//!
//! An identifier is reused only after the durable Log Start has passed the last record that may
//! contain it. Otherwise recovery would attribute entries to the wrong transaction. To reuse
//! identifiers as late as possible, unused ones go first, then those that have been free longest.

use std::collections::{BTreeMap, VecDeque};

/// The identifiers of a log's transactions, from 1.
#[derive(Debug)]
pub(super) struct TransactionIds {
    most: u32,
    /// The last identifier that has ever been assigned.
    last: u32,
    /// Identifiers that have been assigned and are free again.
    free: VecDeque<u32>,
    /// Identifiers that become free when Log Start passes a record.
    gone: BTreeMap<u64, Vec<u32>>,
}

impl TransactionIds {
    pub(super) fn new(most: u32) -> TransactionIds {
        TransactionIds { most, last: 0, free: VecDeque::new(), gone: BTreeMap::new() }
    }

    /// Whether less than an eighth is free. That reserve serves transactions that begin until lines
    /// are applied.
    pub(super) fn are_few(&self) -> bool {
        8 * (self.last - self.free.len() as u32) > 7 * self.most
    }

    /// Assigns a free identifier, if there is one.
    pub(super) fn take(&mut self) -> Option<u32> {
        if self.last < self.most {
            self.last += 1;
            return Some(self.last);
        }
        self.free.pop_front()
    }

    /// Releases an identifier once Log Start has passed this record, or at once without a record.
    pub(super) fn give_back(&mut self, id: u32, record: Option<u64>) {
        match record {
            Some(record) => self.gone.entry(record).or_default().push(id),
            None => self.free.push_back(id),
        }
    }

    /// Notes the position of the durable Log Start.
    pub(super) fn log_starts_at(&mut self, record: u64) {
        let later = self.gone.split_off(&record);
        self.free.extend(std::mem::replace(&mut self.gone, later).into_values().flatten());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_is_reused_after_log_start_passes() {
        let mut ids = TransactionIds::new(3);
        assert_eq!([ids.take(), ids.take()], [Some(1), Some(2)]);
        ids.give_back(2, Some(10));
        ids.give_back(1, None);
        assert_eq!([ids.take(), ids.take(), ids.take()], [Some(3), Some(1), None]);
        ids.log_starts_at(10);
        assert_eq!(ids.take(), None, "record 10 can still be read");
        ids.log_starts_at(11);
        assert_eq!([ids.take(), ids.take()], [Some(2), None]);
    }

    #[test]
    fn ids_are_few_below_one_eighth_free() {
        let mut ids = TransactionIds::new(16);
        (0..14).for_each(|_| assert!(ids.take().is_some()));
        assert!(!ids.are_few());
        let last = ids.take().unwrap();
        assert!(ids.are_few());
        ids.give_back(last, None);
        assert!(!ids.are_few());
    }
}
