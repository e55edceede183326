//! What is in the DRAM cache: buckets of 8 lines, each with the transaction that wrote it last.

use super::super::dram::WAYS;
use crate::machine::memory::LineWords;

/// A line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) line: u32,
    pub(super) words: LineWords,
    /// The transaction that wrote it; 0: nobody's.
    pub(super) serial: u64,
    /// Each time that it is written it has another.
    pub(super) version: u64,
    /// The write that brings this version home, when it is under way.
    pub(super) home: Option<u64>,
    /// What its transaction has found here, and has overwritten.
    pub(super) before: Option<Before>,
    used: u64,
}

/// A version of a line that somebody has committed, and that an open transaction has overwritten
/// before it was at home.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    pub(super) words: LineWords,
    /// The record that has committed it.
    pub(super) end: u64,
    /// The write that brings it home.
    pub(super) number: Option<u64>,
    pub(super) is_home: bool,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Cache {
    slots: Vec<Option<Line>>,
    clock: u64,
    lines: u64,
}

impl Cache {
    pub(super) fn new(buckets: u32) -> Cache {
        Cache { slots: vec![None; buckets as usize * WAYS], clock: 0, lines: 0 }
    }

    /// How many there are.
    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    /// Whether there are about as many as there can be: some buckets fill up later than others.
    pub(super) fn is_full(&self) -> bool {
        10 * self.lines >= 9 * self.slots.len() as u64
    }

    /// Where a line is.
    pub(super) fn find(&self, bucket: usize, line: u32) -> Option<usize> {
        let slots = bucket * WAYS..(bucket + 1) * WAYS;
        slots.into_iter().find(|slot| self.slots[*slot].is_some_and(|it| it.line == line))
    }

    /// The line in a slot.
    pub(super) fn line(&self, slot: usize) -> Option<&Line> {
        self.slots[slot].as_ref()
    }

    /// The same, to change it.
    pub(super) fn line_mut(&mut self, slot: usize) -> &mut Line {
        self.slots[slot].as_mut().expect("it is there")
    }

    /// The transaction that wrote the line in a slot last; 0: nobody's, or no line.
    pub(super) fn serial(&self, slot: usize) -> u64 {
        self.slots[slot].map_or(0, |it| it.serial)
    }

    /// Slots whose lines have overwritten a version that is not at home.
    pub(super) fn overwritten(&self) -> Vec<usize> {
        let has = |it: &Line| it.before.is_some_and(|before| !before.is_home);
        (0..self.slots.len()).filter(|slot| self.slots[*slot].as_ref().is_some_and(has)).collect()
    }

    /// A line was read or written.
    pub(super) fn touch(&mut self, slot: usize) {
        self.clock += 1;
        let clock = self.clock;
        self.line_mut(slot).used = clock;
    }

    /// Where a line of a bucket would go: a free slot, or that of the line that was not used for
    /// longest among those that may leave.
    pub(super) fn place(&self, bucket: usize, may_leave: impl Fn(&Line) -> bool) -> Option<usize> {
        let slots = bucket * WAYS..(bucket + 1) * WAYS;
        slots.clone().find(|slot| self.slots[*slot].is_none()).or_else(|| {
            let used = |slot: &usize| {
                self.slots[*slot].as_ref().filter(|it| may_leave(it)).map(|it| it.used)
            };
            slots.filter(|slot| used(slot).is_some()).min_by_key(used)
        })
    }

    /// A line is there from here on, in a slot that is free.
    pub(super) fn put(&mut self, slot: usize, line: u32, words: LineWords, serial: u64) {
        let (version, used) = (0, 0);
        self.slots[slot] =
            Some(Line { line, words, serial, version, home: None, before: None, used });
        self.lines += 1;
        self.renew(slot, words, serial);
    }

    /// A line is written again.
    pub(super) fn renew(&mut self, slot: usize, words: LineWords, serial: u64) {
        self.touch(slot);
        let version = self.clock;
        let line = self.line_mut(slot);
        (line.words, line.serial, line.version, line.home) = (words, serial, version, None);
    }

    /// A line is there no longer.
    pub(super) fn remove(&mut self, slot: usize) -> Line {
        self.lines -= 1;
        self.slots[slot].take().expect("it is there")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_bucket_gives_up_the_line_that_was_not_used_for_longest_among_those_that_may_leave() {
        let mut cache = Cache::new(2);
        for line in 0..WAYS as u32 {
            let slot = cache.place(1, |_| false).expect("there are free slots");
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
