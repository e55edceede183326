//! Memory for copies: each worker writes its own, and every worker reads all of it.
//!
//! ```text
//!   segment of 4 KiB   | end | object, shape, header, payload | object, ... | end | ...
//!                        |     '-- one copy of an object ---'
//!                        when its transaction ended: one word for all of its copies
//! ```
//!
//! Only the owning worker allocates. It frees segments in the order of its attempts, when no
//! transaction can hold a link into them. The last freed segment is allocated first, so a worker
//! stays in memory that its cache holds, however much it may use.

use std::collections::VecDeque;

use super::link::PLACES_MAX;
use crate::sync::{AtomicU64, MODELED, Ordering};

/// Words of a segment, which holds several of the largest copies.
const SEGMENT_WORDS: usize = if MODELED { 8 } else { 512 };
/// Words before an object's header in its copy.
pub(super) const COPY_HEAD_WORDS: usize = 2;
/// Words of the largest copy: that of an object of 1 KiB with its header.
pub(super) const COPY_WORDS_MAX: usize = COPY_HEAD_WORDS + 1 + OBJECT_WORDS_MAX;
const OBJECT_WORDS_MAX: usize = if MODELED { 4 } else { words::OBJECT_BYTES_MAX / 8 };

const _: () = assert!(COPY_WORDS_MAX < SEGMENT_WORDS && PLACES_MAX.is_multiple_of(SEGMENT_WORDS));

/// Bits of a copy's length in its shape.
const WORDS_BITS: u32 = 8;
/// Bits of a place.
const PLACE_BITS: u32 = PLACES_MAX.trailing_zeros();

const _: () = assert!(COPY_WORDS_MAX < 1 << WORDS_BITS && 2 * PLACE_BITS + WORDS_BITS <= 64);

/// A copy that was found: of the requested object, and inside the memory.
#[derive(Clone, Copy)]
pub(super) struct Copy<'m> {
    memory: &'m [AtomicU64],
    /// Place of its header word.
    pub(super) at: usize,
    /// Length of header and payload.
    pub(super) words: usize,
    /// Place of its transaction's end word.
    pub(super) end: usize,
    /// Its number among the copies of its attempt.
    pub(super) entry: usize,
}

impl<'m> Copy<'m> {
    /// Returns the copy of this object at the place in a link. The link may be any number.
    #[inline]
    pub(super) fn find(memory: &'m [AtomicU64], place: usize, object: usize) -> Option<Copy<'m>> {
        let [source, shape] = [memory.get(place)?, memory.get(place + 1)?];
        // Relaxed: both words were stored before the link, which the caller has acquired.
        if source.load(Ordering::Relaxed) != object as u64 {
            return None;
        }
        let shape = shape.load(Ordering::Relaxed);
        let words = (shape & ((1 << WORDS_BITS) - 1)) as usize;
        let end = (shape >> WORDS_BITS) as usize & (PLACES_MAX - 1);
        let entry = (shape >> (WORDS_BITS + PLACE_BITS)) as usize;
        let at = place + COPY_HEAD_WORDS;
        let inside = end < memory.len() && at + words <= memory.len();
        inside.then_some(Copy { memory, at, words, end, entry })
    }

    /// Writes the head of a copy whose link is not stored yet.
    #[inline]
    pub(super) fn begin(
        memory: &[AtomicU64],
        place: usize,
        object: usize,
        (words, end, entry): (usize, usize, usize),
    ) {
        let (words, end, entry) = (words as u64, end as u64, entry as u64);
        let shape = entry << (WORDS_BITS + PLACE_BITS) | end << WORDS_BITS | words;
        memory[place].store(object as u64, Ordering::Relaxed);
        memory[place + 1].store(shape, Ordering::Relaxed);
    }

    /// Returns the word that holds its transaction's end.
    #[inline]
    pub(super) fn end_word(self) -> &'m AtomicU64 {
        &self.memory[self.end]
    }

    /// Returns the words of the copy from `from` on, counted from the header. `None` if there are
    /// none.
    #[inline]
    pub(super) fn words_from(self, from: usize) -> Option<&'m [AtomicU64]> {
        self.memory[self.at..self.at + self.words].get(from..).filter(|words| !words.is_empty())
    }
}

/// Free space in a worker's memory for copies.
#[derive(Debug)]
pub(super) struct Space {
    segments: usize,
    /// Segments from this one on were never taken.
    fresh: usize,
    free: Vec<usize>,
    /// Full segments, each with the last attempt that has copies in it.
    full: VecDeque<(usize, u64)>,
    /// The free words of the segment that is being filled.
    at: usize,
    end: usize,
    /// The last attempt with copies in that segment.
    last: u64,
}

impl Space {
    pub(super) fn new(words: usize) -> Space {
        let segments = words.min(PLACES_MAX) / SEGMENT_WORDS;
        let (free, full) = (Vec::new(), VecDeque::new());
        Space { segments, fresh: 0, free, full, at: 0, end: 0, last: 0 }
    }

    /// Allocates neighbouring words for this attempt. Attempt numbers ascend.
    #[inline]
    pub(super) fn take(&mut self, words: usize, attempt: u64) -> Option<usize> {
        debug_assert!(words <= COPY_WORDS_MAX);
        if self.end - self.at < words {
            self.next_segment()?;
        }
        let at = self.at;
        self.at += words;
        self.last = attempt;
        Some(at)
    }

    fn next_segment(&mut self) -> Option<()> {
        let segment = match self.free.pop() {
            Some(segment) => segment,
            None if self.fresh < self.segments => {
                self.fresh += 1;
                self.fresh - 1
            }
            None => return None,
        };
        if self.end > 0 {
            self.full.push_back((self.end / SEGMENT_WORDS - 1, self.last));
        }
        (self.at, self.end) = (segment * SEGMENT_WORDS, (segment + 1) * SEGMENT_WORDS);
        Some(())
    }

    /// Whether a segment is free.
    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty() || self.fresh < self.segments
    }

    /// Frees the segments of attempts up to this one. No transaction may hold a link into them.
    #[inline]
    pub(super) fn give_back(&mut self, attempt: u64) {
        while let Some(&(segment, last)) = self.full.front()
            && last <= attempt
        {
            self.full.pop_front();
            self.free.push(segment);
        }
    }

    /// Whether all taken space belongs to this attempt, so that waiting frees none.
    pub(super) fn is_all_of(&self, attempt: u64) -> bool {
        self.full.front().is_none_or(|(_, last)| *last >= attempt)
    }

    /// Returns the words of all segments that were ever taken.
    #[cfg(test)]
    fn touched(&self) -> usize {
        self.fresh * SEGMENT_WORDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_segment_is_reused_first() {
        let mut space = Space::new(1 << 20);
        for attempt in 1..10_000 {
            for _ in 0..3 {
                space.take(100, attempt).unwrap();
            }
            space.give_back(attempt.saturating_sub(2));
        }
        assert!(space.touched() <= 4 * SEGMENT_WORDS, "{}", space.touched());
    }

    #[test]
    fn taken_space_is_disjoint_until_freed() {
        let mut space = Space::new(4 * SEGMENT_WORDS);
        let taken: Vec<usize> = (1..).map_while(|attempt| space.take(100, attempt)).collect();
        assert_eq!(taken.len(), 20, "five allocations per segment");
        for (n, at) in taken.iter().enumerate() {
            assert!(taken[..n].iter().all(|other| other.abs_diff(*at) >= 100));
        }
        assert!(!space.is_all_of(20) && space.is_all_of(1));
        space.give_back(4);
        assert_eq!(space.take(100, 21), None, "the fifth attempt uses a part of the first segment");
        space.give_back(5);
        assert_eq!(space.take(100, 21), Some(taken[0]));
    }

    #[test]
    fn forged_link_finds_no_copy() {
        let memory: Vec<AtomicU64> = (0..64).map(AtomicU64::new).collect();
        Copy::begin(&memory, 8, 500, (6, 3, 2));
        let copy = Copy::find(&memory, 8, 500).unwrap();
        assert_eq!((copy.at, copy.words, copy.end, copy.entry), (10, 6, 3, 2));
        assert_eq!(copy.words_from(5).unwrap().len(), 1);
        assert!(copy.words_from(6).is_none());
        assert!(Copy::find(&memory, 8, 501).is_none());
        assert!(Copy::find(&memory, 63, 63).is_none() && Copy::find(&memory, 64, 0).is_none());
        Copy::begin(&memory, 8, 500, (60, 3, 0));
        assert!(Copy::find(&memory, 8, 500).is_none(), "the copy exceeds the memory");
    }
}
