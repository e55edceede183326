//! What a transaction has written, and what was there before.
//!
//! A *stripe* is 512 bytes of heap. Its entry says which words were written, so the old value of a
//! word written many times is kept once, and neighbouring words become one run of the redo record.
//!
//! The final values are read from the heap itself at commit, while the transaction still holds
//! its locks: nothing is logged while it runs. (DudeTM appends an entry at every write; deriving
//! the record at commit from the undo log that a write-through memory has anyway saves those
//! stores and the duplicates.)

use super::{Heap, Space};
use medium::cpu::LINE_WORDS;
use medium::writes::run;
use words::Stop;

/// Words in a stripe: eight cache lines.
///
/// Measured with lines of 64 bytes (`btree`, one worker / two; ns a transaction): stripes of 64
/// bytes 799 / 471, of 256 bytes 806 / 475, of 512 bytes 749 / 442, since a node of the tree is one
/// stripe, taken and remembered once. `hashtable` and `tatp-hash` do not care.
pub(crate) const STRIPE_WORDS: usize = 8 * LINE_WORDS;
/// Bits of a word index below the stripe's.
pub(crate) const STRIPE_SHIFT: u32 = STRIPE_WORDS.trailing_zeros();

const _: () = assert!(STRIPE_WORDS.is_power_of_two() && STRIPE_WORDS <= u64::BITS as usize);

/// What one transaction did to one stripe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The stripe: index of its first word >> `STRIPE_SHIFT`.
    pub(crate) stripe: usize,
    /// What the ownership record held before, for the transactional memory.
    pub(crate) version: u64,
    /// Bit i: word i was written.
    pub(crate) mask: u64,
    /// The ownership record.
    pub(crate) owner: u32,
    /// The next entry under the same ownership record, or `u32::MAX`.
    pub(crate) next: u32,
}

/// What a word was before the transaction wrote it.
#[derive(Clone, Copy, Debug)]
struct Old {
    index: usize,
    value: u64,
}

/// The stripes that a transaction has written, in the order of their first write.
#[derive(Debug, Default)]
pub(crate) struct WriteSet {
    pub(crate) entries: Vec<Entry>,
    /// One for each different word written.
    old: Vec<Old>,
}

impl WriteSet {
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.old.clear();
    }

    /// Different words written.
    #[inline]
    pub(crate) fn words(&self) -> usize {
        self.old.len()
    }

    /// Writes a word of the stripe of `entry`, keeping what it was.
    #[inline(always)]
    pub(crate) fn write(
        &mut self,
        entry: usize,
        space: &mut impl Space,
        index: usize,
        value: u64,
    ) -> Result<(), Stop> {
        let mask = &mut self.entries[entry].mask;
        let bit = 1 << (index % STRIPE_WORDS);
        if *mask & bit == 0 {
            space.first_write(index, 1)?;
            *mask |= bit;
            self.old.push(Old { index, value: space.peek(index) });
        }
        space.store(index, value);
        Ok(())
    }

    /// Writes neighbouring words of the stripe of `entry`, at least one, keeping what they were.
    #[inline(always)]
    pub(crate) fn write_run(
        &mut self,
        entry: usize,
        space: &mut impl Space,
        index: usize,
        values: &[u64],
    ) -> Result<(), Stop> {
        let mask = &mut self.entries[entry].mask;
        let bits = u64::MAX >> (64 - values.len()) << (index % STRIPE_WORDS);
        if *mask & bits == 0 {
            space.first_write(index, values.len())?;
            *mask |= bits;
            // One look for room, not one for each word.
            self.old.extend(values.iter().zip(index..).map(|(value, index)| {
                let old = Old { index, value: space.peek(index) };
                space.store(index, *value);
                old
            }));
        } else {
            for (value, index) in values.iter().zip(index..) {
                self.write(entry, space, index, *value)?;
            }
        }
        Ok(())
    }

    /// Puts back what was there before, everywhere.
    pub(crate) fn restore(&self, space: &mut impl Space) {
        for old in &self.old {
            space.store(old.index, old.value);
        }
    }
}

/// Words that the record of so many written words takes at most: each one a run of its own.
pub(crate) const fn record_words_max(words: usize) -> usize {
    2 * words
}

/// How many of some neighbouring words, of which the first has this index, are in its stripe.
#[inline]
pub(crate) fn in_stripe(index: usize, words: usize) -> usize {
    words.min(STRIPE_WORDS - index % STRIPE_WORDS)
}

/// What a committed transaction wrote, to be read while nobody else can write it.
pub struct Written<'a, S> {
    entries: &'a [Entry],
    words: usize,
    /// Where they are; nowhere, when there are none.
    space: Option<&'a S>,
}

impl Written<'_, &Heap> {
    /// Nothing at all: the ID is a hole.
    pub fn nothing() -> Self {
        Written { entries: &[], words: 0, space: None }
    }
}

impl<'a, S: Space> Written<'a, S> {
    pub(crate) fn new(set: &'a WriteSet, space: &'a S) -> Written<'a, S> {
        Written { entries: &set.entries, words: set.words(), space: Some(space) }
    }

    /// Different words written.
    pub fn words(&self) -> usize {
        self.words
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
        let Some(space) = self.space else { return };
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
                value(sink, space.peek(index));
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
    use crate::sync::{AtomicU64, Ordering};
    use medium::writes::{Piece, Pieces};

    fn heap(words: u64) -> Vec<AtomicU64> {
        (0..words).map(AtomicU64::new).collect()
    }

    fn open(set: &mut WriteSet, stripe: usize) -> usize {
        let (owner, next, version) = (0, u32::MAX, 0);
        set.entries.push(Entry { stripe, version, mask: 0, owner, next });
        set.entries.len() - 1
    }

    #[test]
    fn neighbouring_words_become_one_run_across_stripes() {
        let heap = heap(4 * STRIPE_WORDS as u64);
        let edge = 2 * STRIPE_WORDS;
        let mut set = WriteSet::default();
        let first = open(&mut set, 1);
        let second = open(&mut set, 2);
        for index in [edge - 1, edge - 2, edge - 2] {
            set.write(first, &mut &heap, index, 100 + index as u64).unwrap();
        }
        for index in [edge, edge + 2] {
            set.write(second, &mut &heap, index, 100 + index as u64).unwrap();
        }
        let mut out: Vec<u64> = Vec::new();
        let space = &heap;
        let written = Written::new(&set, &space);
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
        let first = edge as u64 - 2;
        let values = [100 + first, 101 + first, 102 + first];
        assert_eq!(pieces, [Piece::Run(first, &values), Piece::Run(first + 4, &[104 + first])]);
        assert!(out.len() <= record_words_max(4));
        set.restore(&mut &heap);
        assert!(heap.iter().zip(0..).all(|(word, i)| word.load(Ordering::Relaxed) == i));
    }
}
