//! Names of transactions: what the log calls them, in few bits.
//!
//! A name is given again when Log Start, as memory has it, is behind the last record that may be
//! about whoever had it: otherwise recovery would take entries of one for those of another. So that
//! it comes again as late as possible, those that were never given go first, then those that are
//! free for longest.

use std::collections::{BTreeMap, VecDeque};

/// The names of a log's transactions, from 1.
#[derive(Debug)]
pub(super) struct Names {
    most: u32,
    /// The last one that was given for the first time.
    last: u32,
    /// Those that were given and are free again.
    free: VecDeque<u32>,
    /// Those that are free when Log Start is behind a record.
    gone: BTreeMap<u64, Vec<u32>>,
}

impl Names {
    pub(super) fn new(most: u32) -> Names {
        Names { most, last: 0, free: VecDeque::new(), gone: BTreeMap::new() }
    }

    /// Whether less than an eighth is free: for transactions that begin until lines are home.
    pub(super) fn are_few(&self) -> bool {
        8 * (self.last - self.free.len() as u32) > 7 * self.most
    }

    /// One that nobody has, if there is any.
    pub(super) fn take(&mut self) -> Option<u32> {
        if self.last < self.most {
            self.last += 1;
            return Some(self.last);
        }
        self.free.pop_front()
    }

    /// Whoever has it needs it no longer, when Log Start is behind this record; without one, now.
    pub(super) fn give_back(&mut self, name: u32, record: Option<u64>) {
        match record {
            Some(record) => self.gone.entry(record).or_default().push(name),
            None => self.free.push_back(name),
        }
    }

    /// Memory has Log Start here.
    pub(super) fn log_starts_at(&mut self, record: u64) {
        let behind = self.gone.split_off(&record);
        self.free.extend(std::mem::replace(&mut self.gone, behind).into_values().flatten());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_again_when_log_start_is_behind_its_record_and_the_oldest_first() {
        let mut names = Names::new(3);
        assert_eq!([names.take(), names.take()], [Some(1), Some(2)]);
        names.give_back(2, Some(10));
        names.give_back(1, None);
        assert_eq!([names.take(), names.take(), names.take()], [Some(3), Some(1), None]);
        names.log_starts_at(10);
        assert_eq!(names.take(), None, "record 10 can still be read");
        names.log_starts_at(11);
        assert_eq!([names.take(), names.take()], [Some(2), None]);
    }

    #[test]
    fn names_are_few_when_less_than_an_eighth_is_free() {
        let mut names = Names::new(16);
        (0..14).for_each(|_| assert!(names.take().is_some()));
        assert!(!names.are_few());
        let last = names.take().unwrap();
        assert!(names.are_few());
        names.give_back(last, None);
        assert!(!names.are_few());
    }
}
