//! The contents of the DRAM cache: buckets of 8 lines, each with the transaction that wrote it
//! last.

use std::collections::BTreeSet;

use super::super::dram::WAYS;
use crate::machine::memory::LineWords;

/// A line in the cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) line: u32,
    pub(super) words: LineWords,
    /// The transaction that wrote it, or 0 for none.
    pub(super) serial: u64,
    /// A number that changes with each write.
    pub(super) version: u64,
    /// The write-back of this version, while it is in flight.
    pub(super) write_back: Option<u64>,
    /// The committed version that its transaction has overwritten.
    pub(super) before: Option<Before>,
    used: u64,
}

/// A committed version of a line that an open transaction overwrote before its write-back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    pub(super) words: LineWords,
    /// The record of its commit.
    pub(super) end: u64,
    /// Its write-back, if it has one.
    pub(super) number: Option<u64>,
    pub(super) is_written_back: bool,
}

/// State of the cache.
#[derive(Debug)]
pub(super) struct Cache {
    slots: Vec<Option<Line>>,
    /// Slots that may have an overwritten version that is not in the heap image.
    overwritten: BTreeSet<usize>,
    clock: u64,
    lines: u64,
}

impl Cache {
    pub(super) fn new(buckets: u32) -> Cache {
        let slots = vec![None; buckets as usize * WAYS];
        Cache { slots, overwritten: BTreeSet::new(), clock: 0, lines: 0 }
    }

    /// The number of lines.
    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    /// Whether the cache is about as full as it gets. Some buckets fill later than others.
    pub(super) fn is_full(&self) -> bool {
        10 * self.lines >= 9 * self.slots.len() as u64
    }

    /// Returns the slot of a line.
    pub(super) fn find(&self, bucket: usize, line: u32) -> Option<usize> {
        let slots = bucket * WAYS..(bucket + 1) * WAYS;
        slots.into_iter().find(|slot| self.slots[*slot].is_some_and(|it| it.line == line))
    }

    /// Returns the line in a slot.
    pub(super) fn line(&self, slot: usize) -> Option<&Line> {
        self.slots[slot].as_ref()
    }

    /// Returns the line in a slot for changes.
    pub(super) fn line_mut(&mut self, slot: usize) -> &mut Line {
        self.slots[slot].as_mut().expect("the slot has a line")
    }

    /// Returns the transaction that last wrote the line in a slot. Returns 0 for none, or without a
    /// line.
    pub(super) fn serial(&self, slot: usize) -> u64 {
        self.slots[slot].map_or(0, |it| it.serial)
    }

    /// Returns the slots with an overwritten version that is not in the heap image, in ascending
    /// order. The work is proportional to the slots that may have one.
    pub(super) fn overwritten(&mut self) -> Vec<usize> {
        let Cache { slots, overwritten, .. } = self;
        let has = |it: &Line| it.before.is_some_and(|before| !before.is_written_back);
        overwritten.retain(|slot| slots[*slot].as_ref().is_some_and(has));
        overwritten.iter().copied().collect()
    }

    /// Keeps the committed version that was overwritten in a slot.
    pub(super) fn keep_before(&mut self, slot: usize, before: Before) {
        self.line_mut(slot).before = Some(before);
        self.overwritten.insert(slot);
    }

    /// Marks a line as just used.
    pub(super) fn touch(&mut self, slot: usize) {
        self.clock += 1;
        let clock = self.clock;
        self.line_mut(slot).used = clock;
    }

    /// Returns the slot for a new line of a bucket: a free one, or that of the least recently used
    /// line that may leave.
    pub(super) fn place(&self, bucket: usize, may_leave: impl Fn(&Line) -> bool) -> Option<usize> {
        let slots = bucket * WAYS..(bucket + 1) * WAYS;
        slots.clone().find(|slot| self.slots[*slot].is_none()).or_else(|| {
            let used = |slot: &usize| {
                self.slots[*slot].as_ref().filter(|it| may_leave(it)).map(|it| it.used)
            };
            slots.filter(|slot| used(slot).is_some()).min_by_key(used)
        })
    }

    /// Inserts a line into a free slot.
    pub(super) fn put(&mut self, slot: usize, line: u32, words: LineWords, serial: u64) {
        let (version, used) = (0, 0);
        self.slots[slot] =
            Some(Line { line, words, serial, version, write_back: None, before: None, used });
        self.lines += 1;
        self.renew(slot, words, serial);
    }

    /// Overwrites a line with a new version.
    pub(super) fn renew(&mut self, slot: usize, words: LineWords, serial: u64) {
        self.touch(slot);
        let version = self.clock;
        let line = self.line_mut(slot);
        (line.words, line.serial, line.version, line.write_back) = (words, serial, version, None);
    }

    /// Removes a line.
    pub(super) fn remove(&mut self, slot: usize) -> Line {
        self.lines -= 1;
        self.slots[slot].take().expect("the slot has a line")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overwritten_slots_are_those_without_write_back() {
        let mut cache = Cache::new(4);
        let before = Before { words: [0; 8], end: 1, number: None, is_written_back: false };
        for slot in [9, 3, 20, 4] {
            cache.put(slot, slot as u32, [0; 8], 1);
            cache.keep_before(slot, before);
        }
        cache.put(5, 5, [0; 8], 1);
        assert_eq!(cache.overwritten(), [3, 4, 9, 20]);
        cache.line_mut(9).before = Some(Before { is_written_back: true, ..before });
        cache.remove(4);
        assert_eq!(cache.overwritten(), [3, 20]);
        cache.keep_before(9, before);
        assert_eq!(cache.overwritten(), [3, 9, 20]);
    }

    #[test]
    fn full_bucket_evicts_least_recently_used_line() {
        let mut cache = Cache::new(2);
        for line in 0..WAYS as u32 {
            let slot = cache.place(1, |_| false).expect("the bucket has a free slot");
            cache.put(slot, line, [0; 8], u64::from(line));
        }
        let first = cache.find(1, 0).unwrap();
        cache.touch(first);
        assert_eq!(cache.place(1, |_| false), None);
        assert_eq!(cache.place(1, |_| true), cache.find(1, 1));
        assert_eq!(cache.place(1, |line| line.serial != 1), cache.find(1, 2));
        let version = cache.line(first).unwrap().version;
        cache.renew(first, [1; 8], 9);
        assert!(cache.line(first).unwrap().version > version, "a write makes a new version");
        assert_eq!((cache.remove(first).serial, cache.lines()), (9, 7));
        assert_eq!(cache.find(1, 0), None);
    }
}
