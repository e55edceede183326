//! What a transaction has written: old values by stripe, from which the redo record is derived.
//!
//! A *stripe* is 64 bytes of heap. Its entry holds which words were written and what they were, so
//! a word written many times is kept once, and neighbouring words become one run of the record.
//!
//! The final values are read from the heap itself at commit, while the transaction still holds
//! its locks: nothing is logged while it runs. (DudeTM appends an entry at every write; deriving
//! the record at commit from the undo log that a write-through memory has anyway saves those
//! stores and the duplicates.)

use super::Heap;
use crate::sync::Ordering;
use medium::writes::run;

/// Words in a stripe.
pub(crate) const STRIPE_WORDS: usize = 8;
/// Bits of a word index below the stripe's.
pub(crate) const STRIPE_SHIFT: u32 = 3;

/// What one transaction did to one stripe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The stripe: index of its first word >> `STRIPE_SHIFT`.
    pub(crate) stripe: usize,
    /// The ownership record, for the transactional memory.
    pub(crate) owner: u32,
    /// The next entry under the same ownership record, or `u32::MAX`.
    pub(crate) next: u32,
    /// What the ownership record held before.
    pub(crate) version: u64,
    /// Bit i: word i was written, and `old[i]` is what it was.
    pub(crate) mask: u8,
    pub(crate) old: [u64; STRIPE_WORDS],
}

/// The stripes that a transaction has written, in the order of their first write.
#[derive(Debug, Default)]
pub(crate) struct WriteSet {
    pub(crate) entries: Vec<Entry>,
    /// Different words written.
    pub(crate) words: usize,
}

impl WriteSet {
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.words = 0;
    }

    /// Writes a word of the stripe of `entry`, keeping what it was.
    #[inline]
    pub(crate) fn write(&mut self, entry: usize, heap: &Heap, index: usize, value: u64) {
        let entry = &mut self.entries[entry];
        let word = index % STRIPE_WORDS;
        let bit = 1 << word;
        if entry.mask & bit == 0 {
            entry.mask |= bit;
            entry.old[word] = heap[index].load(Ordering::Relaxed);
            self.words += 1;
        }
        heap[index].store(value, Ordering::Relaxed);
    }

    /// Puts back what was there before, everywhere.
    pub(crate) fn restore(&self, heap: &Heap) {
        for entry in &self.entries {
            for word in 0..STRIPE_WORDS {
                if entry.mask & 1 << word != 0 {
                    let index = entry.stripe * STRIPE_WORDS + word;
                    heap[index].store(entry.old[word], Ordering::Relaxed);
                }
            }
        }
    }
}

/// What a committed transaction wrote, to be read while nobody else can write it.
#[derive(Clone, Copy)]
pub struct Written<'a> {
    entries: &'a [Entry],
    words: usize,
    heap: &'a Heap,
}

impl<'a> Written<'a> {
    pub(crate) fn new(set: &'a WriteSet, heap: &'a Heap) -> Written<'a> {
        Written { entries: &set.entries, words: set.words, heap }
    }

    /// Nothing at all: the ID is a hole.
    pub fn nothing() -> Written<'a> {
        Written { entries: &[], words: 0, heap: &[] }
    }

    /// Different words written.
    pub fn words(&self) -> usize {
        self.words
    }

    /// Words that the record of so many written words takes at most: each one a run of its own.
    pub const fn record_words_max(words: usize) -> usize {
        2 * words
    }

    /// Hands over runs of neighbouring words as [`medium::writes`] encodes them, head then values.
    ///
    /// `head` puts a place for a head and answers its handle, `value` appends a value, `fill`
    /// fills a head in.
    #[inline]
    pub fn runs<T>(
        &self,
        sink: &mut T,
        head: impl Fn(&mut T) -> u64,
        value: impl Fn(&mut T, u64),
        fill: impl Fn(&mut T, u64, u64),
    ) {
        // The run being built: where its head is, its first index, and the index that continues it.
        let (mut at, mut first, mut next) = (0, 0, usize::MAX);
        let mut count = 0_usize;
        for entry in self.entries {
            let base = entry.stripe * STRIPE_WORDS;
            let mut mask = entry.mask;
            while mask != 0 {
                let index = base + mask.trailing_zeros() as usize;
                mask &= mask - 1;
                if index != next || count == medium::writes::RUN_WORDS_MAX {
                    if count > 0 {
                        fill(sink, at, run(first as u64, count));
                    }
                    (at, first, count) = (head(sink), index, 0);
                }
                value(sink, self.heap[index].load(Ordering::Relaxed));
                count += 1;
                next = index + 1;
            }
        }
        if count > 0 {
            fill(sink, at, run(first as u64, count));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::AtomicU64;
    use medium::writes::{Piece, Pieces};

    fn heap(words: u64) -> Vec<AtomicU64> {
        (0..words).map(AtomicU64::new).collect()
    }

    fn open(set: &mut WriteSet, stripe: usize) -> usize {
        let (owner, next, version) = (0, u32::MAX, 0);
        set.entries.push(Entry { stripe, owner, next, version, mask: 0, old: [0; 8] });
        set.entries.len() - 1
    }

    #[test]
    fn neighbouring_words_become_one_run_across_stripes() {
        let heap = heap(64);
        let mut set = WriteSet::default();
        let first = open(&mut set, 1);
        let second = open(&mut set, 2);
        for index in [15, 14, 14] {
            set.write(first, &heap, index, 100 + index as u64);
        }
        for index in [16, 18] {
            set.write(second, &heap, index, 100 + index as u64);
        }
        let mut out: Vec<u64> = Vec::new();
        let written = Written::new(&set, &heap);
        assert_eq!(written.words(), 4);
        written.runs(
            &mut out,
            |out| {
                out.push(0);
                out.len() as u64 - 1
            },
            |out, value| out.push(value),
            |out, at, word| out[at as usize] = word,
        );
        let pieces: Vec<Piece> = Pieces::new(&out).collect();
        assert_eq!(pieces, [Piece::Run(14, &[114, 115, 116]), Piece::Run(18, &[118])]);
        assert!(out.len() <= Written::record_words_max(4));
        set.restore(&heap);
        assert!((0..64).all(|i| heap[i as usize].load(Ordering::Relaxed) == i));
    }
}
