//! The write buffer of a `redo` transaction: written cache lines, indexed by a hash table.
//!
//! ```text
//!   filter   64 bits: bit h of the hash of each line in the buffer
//!   index    hash -> place of the line, by linear probing; at most half full
//!   lines    number, mask of written words, the words
//! ```
//!
//! Every read of the transaction searches the buffer, and most lines are not in it. While the
//! transaction has written few lines, the filter rejects those at the cost of one multiplication.
//! Otherwise the index decides.

use crate::perform::Heap;
use crate::sync::Ordering;
use medium::cpu::LINE_WORDS;

/// No line.
const NONE: u32 = u32::MAX;
/// An empty place: no transaction has this stamp.
const EMPTY: (u32, u32) = (0, NONE);
/// Initial places of the index.
const PLACES: usize = 256;

/// The words that a transaction has written, private to it until commit.
#[derive(Debug)]
pub(super) struct Buffer {
    filter: u64,
    /// The stamp and the place of each line. An entry is empty unless it has the current stamp.
    index: Vec<(u32, u32)>,
    stamp: u32,
    lines: Vec<Line>,
    /// The place of the line written last.
    last: u32,
}

#[derive(Clone, Debug)]
struct Line {
    number: usize,
    /// Bit i: word i was written.
    mask: u8,
    words: [u64; LINE_WORDS],
}

#[inline(always)]
fn hash(line: usize) -> u64 {
    (line as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Buffer {
    pub(super) fn new() -> Buffer {
        Buffer { filter: 0, index: vec![EMPTY; PLACES], stamp: 1, lines: Vec::new(), last: NONE }
    }

    /// Returns the place where the search for a line begins.
    #[inline(always)]
    fn place(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.index.len() - 1)
    }

    #[inline(always)]
    fn may_have(&self, hash: u64) -> bool {
        self.filter >> (hash >> 58) & 1 != 0
    }

    #[inline(always)]
    fn at(&self, place: usize) -> Option<&Line> {
        let (stamp, at) = self.index[place];
        if stamp == self.stamp { self.lines.get(at as usize) } else { None }
    }

    #[inline]
    fn find(&self, number: usize, hash: u64) -> Option<&Line> {
        let mut place = self.place(hash);
        loop {
            let line = self.at(place)?;
            if line.number == number {
                return Some(line);
            }
            place = (place + 1) & (self.index.len() - 1);
        }
    }

    /// Returns the word as the transaction sees it.
    #[inline(always)]
    pub(super) fn load(&self, heap: &Heap, index: usize) -> u64 {
        let number = index / LINE_WORDS;
        let hash = hash(number);
        if self.may_have(hash)
            && let Some(line) = self.find(number, hash)
            && line.mask >> (index % LINE_WORDS) & 1 != 0
        {
            return line.words[index % LINE_WORDS];
        }
        heap[index].load(Ordering::Relaxed)
    }

    /// Reads neighbouring words as the transaction sees them.
    #[inline]
    pub(super) fn load_run(&self, heap: &Heap, index: usize, out: &mut [u64]) {
        let words = &heap[index..index + out.len()];
        for (value, word) in out.iter_mut().zip(words) {
            *value = word.load(Ordering::Relaxed);
        }
        if self.filter == 0 {
            return;
        }
        let last = (index + out.len().max(1) - 1) / LINE_WORDS;
        for number in index / LINE_WORDS..=last {
            let hash = hash(number);
            if !self.may_have(hash) {
                continue;
            }
            let Some(line) = self.find(number, hash) else { continue };
            let mut mask = line.mask;
            while mask != 0 {
                let word = mask.trailing_zeros() as usize;
                mask &= mask - 1;
                let at = (number * LINE_WORDS + word).wrapping_sub(index);
                if let Some(value) = out.get_mut(at) {
                    *value = line.words[word];
                }
            }
        }
    }

    /// Writes a word to the buffer.
    #[inline(always)]
    pub(super) fn store(&mut self, index: usize, value: u64) {
        let number = index / LINE_WORDS;
        if self.lines.get(self.last as usize).is_none_or(|line| line.number != number) {
            self.last = self.enter(number);
        }
        let line = &mut self.lines[self.last as usize];
        line.mask |= 1 << (index % LINE_WORDS);
        line.words[index % LINE_WORDS] = value;
    }

    /// Returns the place of a line, which it adds if absent.
    fn enter(&mut self, number: usize) -> u32 {
        if 2 * (self.lines.len() + 1) > self.index.len() {
            self.grow();
        }
        let hash = hash(number);
        let mut place = self.place(hash);
        loop {
            match self.at(place) {
                None => break,
                Some(line) if line.number == number => return self.index[place].1,
                Some(_) => place = (place + 1) & (self.index.len() - 1),
            }
        }
        self.filter |= 1 << (hash >> 58);
        let at = self.lines.len() as u32; // fewer lines than words in a slot
        self.index[place] = (self.stamp, at);
        self.lines.push(Line { number, mask: 0, words: [0; LINE_WORDS] });
        at
    }

    #[cold]
    fn grow(&mut self) {
        self.index = vec![EMPTY; 2 * self.index.len()];
        for (at, line) in self.lines.iter().enumerate() {
            let mut place = self.place(hash(line.number));
            while self.index[place] != EMPTY {
                place = (place + 1) & (self.index.len() - 1);
            }
            self.index[place] = (self.stamp, at as u32);
        }
    }

    /// Removes all words, in constant time: a new stamp empties the index.
    #[inline]
    pub(super) fn clear(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        self.lines.clear();
        (self.filter, self.last) = (0, NONE);
        self.stamp = self.stamp.wrapping_add(1);
        if self.stamp == 0 {
            // The stamp has wrapped: entries of old transactions may have any stamp, so none may
            // stay.
            self.index.fill(EMPTY);
            self.stamp = 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::AtomicU64;
    use std::collections::HashMap;

    #[test]
    fn buffer_returns_own_writes_over_heap() {
        let heap: Vec<AtomicU64> = (0..40_000).map(AtomicU64::new).collect();
        let mut buffer = Buffer::new();
        let mut at = 1_usize;
        for round in 0..50 {
            let mut model = HashMap::new();
            for step in 0..round * round {
                at = (at * 1_103_515_245 + 12_345) % (1 << 31);
                let index = at / 8 % heap.len();
                buffer.store(index, 1_000_000 + step);
                model.insert(index, 1_000_000 + step);
            }
            let expected: Vec<u64> = (0..heap.len())
                .map(|index| model.get(&index).copied().unwrap_or(index as u64))
                .collect();
            let seen: Vec<u64> = (0..heap.len()).map(|index| buffer.load(&heap, index)).collect();
            assert!(seen == expected, "round {round}");
            for first in [0, 3, 8, 61, 39_000] {
                let mut run = vec![0; 77];
                buffer.load_run(&heap, first, &mut run);
                assert_eq!(run, expected[first..first + 77]);
            }
            buffer.load_run(&heap, 5, &mut []);
            buffer.clear();
        }
        assert_eq!(buffer.load(&heap, 7), 7);
    }

    #[test]
    fn wrapped_stamp_finds_no_stale_line() {
        let heap: Vec<AtomicU64> = (0..64).map(AtomicU64::new).collect();
        let mut buffer = Buffer::new();
        buffer.store(9, 1);
        buffer.clear();
        buffer.stamp = u32::MAX;
        buffer.store(17, 2);
        buffer.clear();
        assert_eq!((buffer.stamp, buffer.load(&heap, 9), buffer.load(&heap, 17)), (1, 9, 17));
        assert_eq!(buffer.lines.len(), 0);
        buffer.store(9, 3);
        assert_eq!(buffer.load(&heap, 9), 3);
    }
}
