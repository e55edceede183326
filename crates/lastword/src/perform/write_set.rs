//! The write set of a transaction, with the old values.
//!
//! A *stripe* is 512 bytes of heap. Its entry has a mask of the written words. Each old value is
//! therefore kept once, however often the word is written, and neighboring words form one run of
//! the redo record.
//!
//! The final values are read from the heap at commit, while the transaction still holds its locks.
//! Nothing is logged while it runs. DudeTM appends a log entry at every write. Deriving the record
//! at commit, from the undo log that a write-through memory has anyway, saves those stores and the
//! duplicates.

use super::{Heap, Space};
use medium::cpu::LINE_WORDS;
use medium::writes::run;
use words::Stop;

/// Words in a stripe: eight cache lines.
///
/// Measured with lines of 64 bytes (`btree`, one worker / two; ns for each transaction): stripes of
/// 64 bytes 799 / 471, of 256 bytes 806 / 475, of 512 bytes 749 / 442. A node of the tree is one
/// stripe, and so is locked and remembered once. `hashtable` and `tatp-hash` show no difference.
pub(crate) const STRIPE_WORDS: usize = 8 * LINE_WORDS;
/// Bits of a word's index inside its stripe.
pub(crate) const STRIPE_SHIFT: u32 = STRIPE_WORDS.trailing_zeros();

const _: () = assert!(STRIPE_WORDS.is_power_of_two() && STRIPE_WORDS <= u64::BITS as usize);

/// The writes of a transaction to one stripe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The stripe: index of its first word >> `STRIPE_SHIFT`.
    pub(crate) stripe: usize,
    /// Value of the ownership record before it was taken.
    pub(crate) version: u64,
    /// Bit i is set if word i was written.
    pub(crate) mask: u64,
    /// Number of the ownership record.
    pub(crate) owner: u32,
    /// The next entry with the same ownership record, or `u32::MAX`.
    pub(crate) next: u32,
}

/// The value of a word before the transaction wrote it.
#[derive(Clone, Copy, Debug)]
struct Old {
    index: usize,
    value: u64,
}

/// The stripes that a transaction wrote, in the order of their first write.
#[derive(Debug, Default)]
pub(crate) struct WriteSet {
    pub(crate) entries: Vec<Entry>,
    /// The old value of each written word, once.
    old: Vec<Old>,
}

impl WriteSet {
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.old.clear();
    }

    /// Returns the number of different words written.
    #[inline]
    pub(crate) fn words(&self) -> usize {
        self.old.len()
    }

    /// Writes a word of the stripe of `entry`, and keeps its old value.
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

    /// Writes neighboring words of the stripe of `entry`, at least one, and keeps their old values.
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
            // `extend` checks the capacity once, not for each word.
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

    /// Restores all old values.
    pub(crate) fn restore(&self, space: &mut impl Space) {
        for old in &self.old {
            space.store(old.index, old.value);
        }
    }
}

/// Returns the greatest size of a record of this many words: each is a run of its own.
pub(crate) const fn record_words_max(words: usize) -> usize {
    2 * words
}

/// Returns how many of these neighboring words are in the stripe of the first one.
#[inline]
pub(crate) fn in_stripe(index: usize, words: usize) -> usize {
    words.min(STRIPE_WORDS - index % STRIPE_WORDS)
}

/// The writes of a committed transaction, readable while it still excludes other writers.
pub struct Written<'a, S> {
    entries: &'a [Entry],
    words: usize,
    /// The heap that holds the words; `None` without writes.
    space: Option<&'a S>,
}

impl Written<'_, &Heap> {
    /// Returns an empty write set: the ID becomes a no-op record.
    pub fn nothing() -> Self {
        Written { entries: &[], words: 0, space: None }
    }
}

impl<'a, S: Space> Written<'a, S> {
    pub(crate) fn new(set: &'a WriteSet, space: &'a S) -> Written<'a, S> {
        Written { entries: &set.entries, words: set.words(), space: Some(space) }
    }

    /// Returns the number of different words written.
    pub fn words(&self) -> usize {
        self.words
    }

    /// Passes on runs of neighboring words as [`medium::writes`] encodes them, head before values.
    ///
    /// `head` reserves a place for a head and returns its handle, `value` appends a value, and
    /// `fill` writes a head to its place.
    #[inline]
    pub fn runs<T>(
        &self,
        sink: &mut T,
        head: impl Fn(&mut T) -> u64,
        value: impl Fn(&mut T, u64),
        fill: impl Fn(&mut T, u64, u64),
    ) {
        // The current run: the place of its head, its first index, and the index that continues it.
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
    fn neighboring_words_form_one_run() {
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
