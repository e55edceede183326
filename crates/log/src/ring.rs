//! The volatile ring, which holds one worker's records until the persist step takes them.
//!
//! ```text
//!   word 0   transaction ID          }
//!   word 1   words of the record     }  RECORD_HEAD_WORDS
//!   word 2.. runs, as in medium::writes
//! ```
//!
//! The cursors count words since the ring was made and never wrap. A word's place is its cursor
//! modulo the ring's size.
//!
//! Invariants:
//! - `taken <= written <= taken + capacity`; each only grows.
//! - Only the worker moves `written`, after the words before it are in place.
//! - Only the holder of the persist step's lock moves `taken`, after it has copied the words before
//!   it.
//!
//! (DudeTM, section 3.2: a fixed-length circular buffer for each thread.)

use crossbeam_utils::CachePadded;
use medium::mutants::{Mutant, relax};

use crate::sync::{AtomicU64, Ordering, prefetch_write};

/// Words before the runs of a record: its transaction ID and its length.
pub const RECORD_HEAD_WORDS: usize = 2;

/// Most words of a record's runs, the limit of the mark in a group.
pub const RECORD_WORDS_MAX: usize = (1 << 24) - 1;

/// Distance of the line prefetched for writing, ahead of the cursor. A ring is larger than a cache,
/// and another core read its lines last. A store that waits for its line would hold up the locked
/// instruction of the next commit. Measured on TATP, one worker: 10 to 15 ns of 190 a transaction;
/// 32, 64 and 128 words are alike.
const PREFETCH_WORDS: u64 = 128;

/// One worker's records: one thread writes, and one thread at a time takes.
#[derive(Debug)]
pub struct Ring<S> {
    words: S,
    mask: u64,
    /// End of the published records. Its cache line is written by the worker alone.
    written: CachePadded<AtomicU64>,
    /// End of the records that may be overwritten. Its cache line belongs to the persist step.
    taken: CachePadded<AtomicU64>,
}

impl<S: AsRef<[AtomicU64]>> Ring<S> {
    /// Makes a ring over these words.
    ///
    /// # Panics
    /// When their number is not a power of two.
    pub fn new(words: S) -> Ring<S> {
        let capacity = words.as_ref().len();
        assert!(capacity.is_power_of_two(), "a ring's size is a power of two, not {capacity}");
        Ring {
            mask: capacity as u64 - 1,
            words,
            written: CachePadded::new(AtomicU64::new(0)),
            taken: CachePadded::new(AtomicU64::new(0)),
        }
    }

    /// Returns the size of the ring in words; records use it with their heads.
    pub fn capacity(&self) -> usize {
        self.words.as_ref().len()
    }

    /// Returns the words under the ring.
    pub fn storage(&self) -> &S {
        &self.words
    }

    /// Returns the number of words published and not yet taken.
    pub fn pending(&self) -> u64 {
        self.written().saturating_sub(self.taken.load(Ordering::Relaxed))
    }

    #[inline]
    fn word(&self, at: u64) -> &AtomicU64 {
        &self.words.as_ref()[(at & self.mask) as usize]
    }

    /// Returns the cursor at the end of the last published record.
    #[inline]
    pub fn written(&self) -> u64 {
        // Acquire: a reader that sees the cursor sees the words before it. Pairs with `publish`.
        self.written.load(relax(Ordering::Acquire, Mutant::RingCursorReadRelaxed))
    }

    /// Returns the cursor of the next record to take.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Returns the ID and length of the record at a cursor before [`written`](Ring::written).
    #[inline]
    pub fn head(&self, at: u64) -> (u64, usize) {
        // Relaxed: the Acquire load of `written` came before.
        let id = self.word(at).load(Ordering::Relaxed);
        let words = self.word(at + 1).load(Ordering::Relaxed);
        (id, words as usize)
    }

    /// Copies the runs of the record at `at`; `out` has the length that its head gives.
    #[inline]
    pub fn copy(&self, at: u64, out: &mut [u64]) {
        let first = ((at + RECORD_HEAD_WORDS as u64) & self.mask) as usize;
        let words = self.words.as_ref();
        // A record may wrap round the end of the ring, so copy it in two parts.
        let before_end = out.len().min(words.len() - first);
        let (left, right) = out.split_at_mut(before_end);
        for (to, from) in left.iter_mut().zip(&words[first..]) {
            *to = from.load(Ordering::Relaxed);
        }
        for (to, from) in right.iter_mut().zip(words) {
            *to = from.load(Ordering::Relaxed);
        }
    }

    /// Returns the cursor at the end of a record of `words` words.
    #[inline]
    pub fn behind(at: u64, words: usize) -> u64 {
        at + (RECORD_HEAD_WORDS + words) as u64
    }

    /// Returns the space before `to` to the worker.
    pub fn take(&self, to: u64) {
        debug_assert!(to >= self.taken.load(Ordering::Relaxed) && to <= self.written());
        // Release: the copies out of this space happen before the worker overwrites it. Pairs with
        // `Writer::refresh`.
        self.taken.store(to, relax(Ordering::Release, Mutant::RingSpaceReturnedRelaxed));
    }
}

/// The worker's end of a [`Ring`], which knows its cursor without reading shared memory.
#[derive(Debug, Default)]
pub struct Writer {
    written: u64,
    /// `taken` as last read; the true value only grows, so this is a safe bound.
    taken: u64,
}

impl Writer {
    /// Returns whether a record of `words` words fits. It stays so until this worker writes.
    #[inline]
    pub fn has_room<S: AsRef<[AtomicU64]>>(&mut self, ring: &Ring<S>, words: usize) -> bool {
        let behind = Ring::<S>::behind(self.written, words);
        if behind - self.taken <= ring.mask + 1 {
            return true;
        }
        // Read the shared cursor only now: its line belongs to the persist step.
        self.refresh(ring);
        behind - self.taken <= ring.mask + 1
    }

    /// Reads `taken` again.
    pub fn refresh<S: AsRef<[AtomicU64]>>(&mut self, ring: &Ring<S>) {
        // Acquire: pairs with `Ring::take`.
        self.taken = ring.taken.load(relax(Ordering::Acquire, Mutant::RingSpaceReadRelaxed));
    }

    /// Returns the words in use, as far as this worker knows.
    #[inline]
    pub fn used(&self) -> u64 {
        self.written - self.taken
    }

    /// Begins a record whose words [`has_room`](Writer::has_room) has confirmed.
    #[inline]
    pub fn record<'r, S: AsRef<[AtomicU64]>>(&'r mut self, ring: &'r Ring<S>) -> Record<'r, S> {
        let at = self.written + RECORD_HEAD_WORDS as u64;
        Record { ring, writer: self, at }
    }
}

/// A record in progress, invisible to the persist step until [`publish`](Record::publish).
#[derive(Debug)]
pub struct Record<'r, S> {
    ring: &'r Ring<S>,
    writer: &'r mut Writer,
    at: u64,
}

impl<S: AsRef<[AtomicU64]>> Record<'_, S> {
    /// Appends a word.
    #[inline]
    pub fn push(&mut self, word: u64) {
        self.ring.word(self.at).store(word, Ordering::Relaxed);
        self.at += 1;
    }

    /// Returns the place of the next word, for [`set`](Record::set), and skips it.
    #[inline]
    pub fn skip(&mut self) -> u64 {
        self.at += 1;
        self.at - 1
    }

    /// Writes a word that was skipped.
    #[inline]
    pub fn set(&mut self, at: u64, word: u64) {
        self.ring.word(at).store(word, Ordering::Relaxed);
    }

    /// Publishes the record to the persist step.
    #[inline]
    pub fn publish(self, id: u64) {
        let head = self.writer.written;
        let words = self.at - head - RECORD_HEAD_WORDS as u64;
        debug_assert!(self.at - self.writer.taken <= self.ring.mask + 1, "the record has no room");
        // Relaxed: the Release store of `written` below publishes the head and the runs together.
        self.ring.word(head).store(id, Ordering::Relaxed);
        self.ring.word(head + 1).store(words, Ordering::Relaxed);
        self.writer.written = self.at;
        let ahead = (self.at + PREFETCH_WORDS) & self.ring.mask;
        prefetch_write(self.ring.words.as_ref(), ahead as usize);
        // Release: a reader that sees the cursor sees the record. Pairs with `Ring::written`.
        self.ring.written.store(self.at, relax(Ordering::Release, Mutant::RecordPublishedRelaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(words: usize) -> Ring<Box<[AtomicU64]>> {
        Ring::new((0..words).map(|_| AtomicU64::new(0)).collect())
    }

    #[test]
    fn records_survive_many_ring_wraps() {
        let ring = ring(64);
        let mut writer = Writer::default();
        let (mut taken, mut expected) = (0, 1);
        for id in 1..=1000_u64 {
            let words = (id % 29) as usize;
            while !writer.has_room(&ring, words) {
                let (found, length) = ring.head(taken);
                assert_eq!((found, length), (expected, (expected % 29) as usize));
                let mut out = vec![0; length];
                ring.copy(taken, &mut out);
                assert!(out.iter().enumerate().all(|(i, &word)| word == expected * 100 + i as u64));
                taken = Ring::<Box<[AtomicU64]>>::behind(taken, length);
                ring.take(taken);
                expected += 1;
            }
            let mut record = writer.record(&ring);
            for i in 0..words as u64 {
                record.push(id * 100 + i);
            }
            record.publish(id);
        }
        assert!(expected > 900, "only {expected} records were taken");
    }

    #[test]
    fn unpublished_record_is_invisible() {
        let ring = ring(16);
        let mut writer = Writer::default();
        let mut record = writer.record(&ring);
        record.push(7);
        assert_eq!(ring.written(), 0);
        record.publish(1);
        assert_eq!((ring.written(), ring.pending()), (3, 3));
    }

    #[test]
    fn full_ring_has_no_room_until_taken() {
        let ring = ring(8);
        let mut writer = Writer::default();
        assert!(writer.has_room(&ring, 6) && !writer.has_room(&ring, 7));
        writer.record(&ring).publish(1);
        assert!(writer.has_room(&ring, 4) && !writer.has_room(&ring, 5));
        ring.take(2);
        assert!(writer.has_room(&ring, 6));
    }
}
