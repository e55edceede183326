//! An array of words whose untouched parts cost nothing.
//!
//! A heap has tens of mebibytes, and a run touches a small part of them. A run with power cuts
//! copies the heap about ten times, and compares it as a whole again and again. A visit of each
//! page would cost a page fault of the host and dominate such a run. This array notes the pages
//! that were written, and its users skip the others.
//!
//! ```text
//!   used:   1 0 0 1 ...                       a bit per page
//!   words:  | page | blank | blank | page |   each word XOR its blank value
//! ```
//! The *blank value* of a word is 0. In the heap of a tagged run (see [`super::memory`]) it is a
//! number of the word's own. Both are stored as 0, so the host commits no memory for a blank page.
//!
//! Invariants:
//! - Each word of a page that is not used has its blank value.

use std::ops::Range;

use super::memory::LineWords;

/// Words of a page, which is a page of the host.
pub const PAGE_WORDS: usize = 512;

/// An array of at least so many words is always fresh memory of the host, which commits a page when
/// it is written. The allocator of glibc may take a smaller array from memory that was freed, and
/// then clears all of it: the maximum of its `M_MMAP_THRESHOLD` is 32 MiB.
const FRESH_WORDS: usize = (32 << 20) / 8 + PAGE_WORDS;

/// Set in the blank values of a numbered array, so that they differ from most values.
pub const NUMBERED: u64 = 1 << 63;

/// A set of pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    bits: Vec<u64>,
}

impl Pages {
    fn none(words: usize) -> Pages {
        Pages { bits: vec![0; words.div_ceil(PAGE_WORDS).div_ceil(64)] }
    }

    /// Adds the page of a word.
    #[inline]
    pub fn add_word(&mut self, word: usize) {
        let page = word / PAGE_WORDS;
        if page / 64 >= self.bits.len() {
            self.bits.resize(page / 64 + 1, 0);
        }
        self.bits[page / 64] |= 1 << (page % 64);
    }

    /// Whether the set has the page of a word.
    #[inline]
    pub fn has_word(&self, word: usize) -> bool {
        let page = word / PAGE_WORDS;
        self.bits.get(page / 64).is_some_and(|bits| bits >> (page % 64) & 1 != 0)
    }

    /// Adds all pages of another set.
    pub fn add_all(&mut self, other: &Pages) {
        self.bits.resize(self.bits.len().max(other.bits.len()), 0);
        self.bits.iter_mut().zip(&other.bits).for_each(|(bits, other)| *bits |= other);
    }

    /// Iterates over the words of each page, up to a number of words.
    pub fn ranges(&self, words: usize) -> impl Iterator<Item = Range<usize>> {
        let bits = self.bits.iter().enumerate().filter(|(_, bits)| **bits != 0);
        let pages = bits.flat_map(|(at, bits)| {
            (0..64).filter(move |bit| bits >> bit & 1 != 0).map(move |bit| at * 64 + bit)
        });
        let ranges = pages.map(move |page| page * PAGE_WORDS..words.min((page + 1) * PAGE_WORDS));
        ranges.take_while(|range| !range.is_empty())
    }
}

/// The array.
#[derive(Debug, Default)]
pub struct Sparse {
    words: Vec<u64>,
    used: Pages,
    /// Words before this one have numbers as blank values.
    numbered: usize,
}

impl Sparse {
    /// Returns an array of zeros.
    pub fn zeros(length: usize) -> Sparse {
        let mut words = vec![0; length.max(FRESH_WORDS)];
        words.truncate(length);
        Sparse { words, used: Pages::none(length), numbered: 0 }
    }

    /// Returns the number of words.
    pub fn length(&self) -> usize {
        self.words.len()
    }

    /// Returns the pages that may have words other than the blank ones.
    pub fn used(&self) -> &Pages {
        &self.used
    }

    #[inline]
    fn blank(&self, word: usize) -> u64 {
        if word < self.numbered { NUMBERED | word as u64 } else { 0 }
    }

    /// Returns a word.
    #[inline]
    pub fn word(&self, word: usize) -> u64 {
        self.words[word] ^ self.blank(word)
    }

    /// Sets a word and returns its old value.
    #[inline]
    pub fn replace(&mut self, word: usize, value: u64) -> u64 {
        let blank = self.blank(word);
        self.used.add_word(word);
        std::mem::replace(&mut self.words[word], value ^ blank) ^ blank
    }

    /// Returns a line, if the array has it.
    #[inline]
    pub fn line(&self, line: u32) -> Option<LineWords> {
        let first = line as usize * 8;
        let words = self.words.get(first..first + 8)?;
        let words: LineWords = words.try_into().expect("a line has eight words");
        Some(self.with_blanks(first, words))
    }

    /// Sets a line. Does nothing if the array does not have it.
    #[inline]
    pub fn set_line(&mut self, line: u32, value: &LineWords) {
        let first = line as usize * 8;
        let value = self.with_blanks(first, *value);
        if let Some(words) = self.words.get_mut(first..first + 8) {
            words.copy_from_slice(&value);
            self.used.add_word(first);
        }
    }

    #[inline]
    fn with_blanks(&self, first: usize, mut words: LineWords) -> LineWords {
        if first < self.numbered {
            (first..).zip(&mut words).for_each(|(at, word)| *word ^= self.blank(at));
        }
        words
    }

    /// Returns a copy with this length: cut, or extended with zeros.
    pub fn copy(&self, length: usize) -> Sparse {
        let mut copy = Sparse::zeros(length);
        copy.numbered = self.numbered.min(length);
        copy.take_pages(self);
        copy
    }

    /// Makes `copy` equal to this array. A copy of the same length keeps its memory: new memory
    /// would cost more, because the host clears each of its pages.
    pub fn copy_over(&self, copy: &mut Sparse) {
        if copy.length() != self.length() {
            *copy = self.copy(self.length());
            return;
        }
        copy.numbered = self.numbered;
        for range in copy.used.ranges(copy.words.len()) {
            // Pages that are used here are copied below.
            if !self.used.has_word(range.start) {
                copy.words[range].fill(0);
            }
        }
        copy.used = Pages::none(copy.words.len());
        copy.take_pages(self);
    }

    fn take_pages(&mut self, from: &Sparse) {
        for range in from.used.ranges(self.words.len().min(from.words.len())) {
            self.words[range.clone()].copy_from_slice(&from.words[range.clone()]);
            self.used.add_word(range.start);
        }
    }

    /// Returns a copy in which each of the first `numbered` words has a number of its own.
    pub fn with_numbers(&self, numbered: usize) -> Sparse {
        let mut copy = Sparse::zeros(self.length());
        copy.numbered = numbered;
        for word in self.used.ranges(self.length()).flatten().filter(|word| *word >= numbered) {
            copy.replace(word, self.word(word));
        }
        copy
    }

    /// Iterates over the words of used pages and their indices.
    pub fn used_words(&self) -> impl Iterator<Item = (usize, u64)> {
        self.used.ranges(self.length()).flatten().map(|word| (word, self.word(word)))
    }
}

impl From<Vec<u64>> for Sparse {
    fn from(words: Vec<u64>) -> Sparse {
        let mut used = Pages::none(words.len());
        for (page, words) in words.chunks(PAGE_WORDS).enumerate() {
            if words.iter().any(|word| *word != 0) {
                used.add_word(page * PAGE_WORDS);
            }
        }
        Sparse { words, used, numbered: 0 }
    }
}

impl Clone for Sparse {
    fn clone(&self) -> Sparse {
        self.copy(self.length())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: usize = 130 * PAGE_WORDS + 8;

    fn some(at: &[usize]) -> Sparse {
        let mut words = Sparse::zeros(LENGTH);
        for at in at {
            words.replace(*at, *at as u64 + 1);
        }
        words
    }

    fn all(words: &Sparse) -> Vec<u64> {
        (0..words.length()).map(|word| words.word(word)).collect()
    }

    #[test]
    fn copies_equal_their_original() {
        let (one, other) = (some(&[1, PAGE_WORDS, LENGTH - 1]), some(&[0, 70 * PAGE_WORDS]));
        let numbered = one.with_numbers(PAGE_WORDS + 8);
        for from in [&one, &other, &numbered, &Sparse::zeros(PAGE_WORDS)] {
            assert_eq!(all(&from.clone()), all(from));
            for older in [&one, &other, &numbered] {
                let mut copy = older.clone();
                from.copy_over(&mut copy);
                assert_eq!((all(&copy), &copy.used), (all(from), &from.used));
            }
        }
        assert_eq!(all(&one.copy(8)), all(&one)[..8]);
        assert_eq!(all(&one.copy(LENGTH + 8))[..LENGTH], all(&one));
        assert_eq!(all(&Sparse::from(all(&one))), all(&one));
    }

    #[test]
    fn numbered_words_are_numbers_until_written() {
        let mut words = some(&[3, PAGE_WORDS, LENGTH - 1]).with_numbers(PAGE_WORDS);
        assert_eq!(words.word(3), NUMBERED | 3);
        assert_eq!(words.line(1).unwrap(), [8, 9, 10, 11, 12, 13, 14, 15].map(|it| NUMBERED | it));
        assert_eq!(words.word(PAGE_WORDS), PAGE_WORDS as u64 + 1);
        assert_eq!(words.replace(3, 7), NUMBERED | 3);
        words.set_line(1, &[5; 8]);
        assert_eq!((words.word(3), words.word(8), words.line(1)), (7, 5, Some([5; 8])));
        let used: Vec<usize> = words.used().ranges(LENGTH).map(|range| range.start).collect();
        assert_eq!(used, [0, PAGE_WORDS, 130 * PAGE_WORDS]);
        assert_eq!(words.line(LENGTH as u32 / 8), None);
    }
}
