//! Writes: an object is locked and copied, and its copy is written.
//!
//! Source: Pisces, section 3.1, algorithm 1, lines 20 to 30.

use words::Stop;

use super::attempt::Blocked;
use super::copy_memory::{COPY_HEAD_WORDS, COPY_WORDS_MAX, Copy};
use super::end::RUNNING;
use super::link::EMPTY;
use super::owned::{Entry, MASKS, Owned};
use super::{Attempt, ObjectHeap, Versions, header_of, link_of};
use crate::design::At;
use crate::perform::{Heap, Obstacle};
use crate::sync::{AtomicU64, Ordering, fence};

impl<M: AsRef<[AtomicU64]>> Versions<M> {
    /// Writes a word.
    #[inline(always)]
    pub(crate) fn write(
        &self,
        heap_image: &impl ObjectHeap,
        attempt: &mut Attempt,
        at: At,
        value: u64,
    ) -> Result<(), Stop> {
        self.write_run(heap_image, attempt, at, &[value])
    }

    /// Writes neighbouring words of one object.
    #[inline(always)]
    pub(crate) fn write_run(
        &self,
        heap_image: &impl ObjectHeap,
        attempt: &mut Attempt,
        at: At,
        values: &[u64],
    ) -> Result<(), Stop> {
        let first = at.index.wrapping_sub(header_of(at.object));
        let header = if first == 0 { values.first().copied() } else { None };
        let entry = self.own(heap_image, attempt, at.object, header)?;
        self.save(attempt, entry);
        let memory = self.memory(attempt.owned.number);
        let entry = &mut attempt.owned.entries[entry];
        // The transaction has checked the range against the object, but the index in `at` may be
        // forged.
        let end = first.checked_add(values.len()).filter(|end| *end <= entry.words);
        let Some(end) = end else { return Err(Stop::BadPointer) };
        for (word, value) in memory[entry.at + first..entry.at + end].iter().zip(values) {
            word.store(*value, Ordering::Relaxed);
        }
        attempt.words += entry.note(first, values.len());
        Ok(())
    }

    /// Locks the object as a write would, without changing it.
    #[inline]
    pub(crate) fn protect(
        &self,
        heap_image: &impl ObjectHeap,
        attempt: &mut Attempt,
        object: usize,
    ) -> Result<(), Stop> {
        self.own(heap_image, attempt, object, None).map(drop)
    }

    /// Returns the entry of an object, which it locks first if needed. `header` is the header word
    /// if that is about to be written.
    #[inline(always)]
    fn own(
        &self,
        heap_image: &impl ObjectHeap,
        attempt: &mut Attempt,
        object: usize,
        header: Option<u64>,
    ) -> Result<usize, Stop> {
        let last = attempt.last;
        let is_last = |last: &Entry| last.object == object;
        if header.is_none() && attempt.owned.entries.get(last).is_some_and(is_last) {
            return Ok(last);
        }
        let entry = self.find_or_take(heap_image, attempt, object, header)?;
        attempt.last = entry;
        Ok(entry)
    }

    #[inline]
    fn find_or_take(
        &self,
        heap_image: &impl ObjectHeap,
        attempt: &mut Attempt,
        object: usize,
        header: Option<u64>,
    ) -> Result<usize, Stop> {
        let mine = match attempt.fresh.get(&object) {
            Some(&(entry, _)) => Some(entry),
            None => {
                let link = heap_image.words()[link_of(object)].load(Ordering::Acquire);
                let Owned { number, end, .. } = attempt.owned;
                let linked = self.linked(object, link);
                let is_mine =
                    |(worker, copy): &(_, Copy<'_>)| *worker == number && Some(copy.end) == end;
                linked.filter(is_mine).map(|(_, copy)| copy.entry)
            }
        };
        let extent = header.and_then(|header| extent(header, object)).unwrap_or(0);
        match mine {
            Some(entry) if attempt.owned.entries[entry].words >= extent => Ok(entry),
            Some(entry) => self.enlarge(heap_image, attempt, entry, extent),
            None => self.take(heap_image, attempt, object, extent),
        }
    }

    /// Locks an object and copies it. `extent` is the minimum length of the copy.
    fn take(
        &self,
        heap_image: &impl ObjectHeap,
        attempt: &mut Attempt,
        object: usize,
        extent: usize,
    ) -> Result<usize, Stop> {
        let words = heap_image.words();
        let link = loop {
            let link = words[link_of(object)].load(Ordering::Acquire);
            match self.linked(object, link) {
                None => break link,
                Some((worker, copy)) => {
                    self.give_way_or_help(heap_image, attempt, object, link, worker, copy)?;
                }
            }
        };
        let found = extent_in_heap(words, object);
        let fresh = found.is_none();
        let size = found.unwrap_or(0).max(extent);
        if size == 0 || header_of(object) + size > words.len() {
            return Err(Stop::BadPointer);
        }
        let key = object as u64;
        if self.starvation_lock.is_reserved(key, attempt.owned.number) {
            attempt.obstacle = Obstacle::Reserved { key };
            return Err(Stop::Conflict);
        }
        let end = self.end(attempt)?;
        let place = self.room(attempt, COPY_HEAD_WORDS + size)?;
        let (number, entry) = (attempt.owned.number, attempt.owned.entries.len());
        let memory = self.memory(number);
        // The copy's head before the link, which the exchange below publishes.
        Copy::begin(memory, place, object, (size, end, entry));
        if !fresh {
            let mine = self.links.to(number, place);
            if let Err(seen) = heap_image.exchange(link_of(object), link, mine) {
                attempt.obstacle = Obstacle::Held { key, seen };
                return Err(Stop::Conflict);
            }
            if extent_in_heap(words, object) != found {
                // Another transaction replaced the object between the first look and the lock.
                fence(Ordering::Release);
                heap_image.store(link_of(object), EMPTY);
                attempt.obstacle = Obstacle::Changed { key };
                return Err(Stop::Conflict);
            }
        } else {
            attempt.fresh.insert(object, (entry, place + COPY_HEAD_WORDS));
        }
        let at = place + COPY_HEAD_WORDS;
        // After the link: no reader looks into a copy before its end is set. The lock protects the
        // words in the heap, which only its owner's write-back changes.
        for (to, from) in memory[at..at + size].iter().zip(&words[header_of(object)..]) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let (is_saved, mask) = (false, [0; MASKS]);
        attempt.owned.entries.push(Entry { object, at, words: size, fresh, is_saved, mask });
        Ok(entry)
    }

    /// Moves an object that grows to a larger copy.
    #[cold]
    fn enlarge(
        &self,
        heap_image: &impl ObjectHeap,
        attempt: &mut Attempt,
        number: usize,
        size: usize,
    ) -> Result<usize, Stop> {
        self.save(attempt, number);
        let words = heap_image.words();
        let end = self.end(attempt)?;
        let place = self.room(attempt, COPY_HEAD_WORDS + size)?;
        let worker = attempt.owned.number;
        let memory = self.memory(worker);
        let entry = &mut attempt.owned.entries[number];
        let (object, at) = (entry.object, place + COPY_HEAD_WORDS);
        if header_of(object) + size > words.len() {
            return Err(Stop::BadPointer);
        }
        Copy::begin(memory, place, object, (size, end, number));
        for word in 0..size {
            let from = match word < entry.words {
                true => &memory[entry.at + word],
                false => &words[header_of(object) + word],
            };
            memory[at + word].store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        (entry.at, entry.words) = (at, size);
        match entry.fresh {
            true => drop(attempt.fresh.insert(object, (number, at))),
            false => self.relink(heap_image, entry, worker),
        }
        Ok(number)
    }

    /// Returns the place of the attempt's end, which the first write allocates.
    #[inline]
    fn end(&self, attempt: &mut Attempt) -> Result<usize, Stop> {
        if let Some(end) = attempt.owned.end {
            return Ok(end);
        }
        attempt.owned.attempt += 1;
        let end = self.room(attempt, 1).inspect_err(|_| attempt.owned.attempt -= 1)?;
        self.memory(attempt.owned.number)[end].store(RUNNING, Ordering::Relaxed);
        (attempt.owned.end, attempt.owned.start) = (Some(end), attempt.start);
        Ok(end)
    }

    /// Allocates space for a copy.
    #[inline]
    fn room(&self, attempt: &mut Attempt, words: usize) -> Result<usize, Stop> {
        let number = attempt.owned.attempt;
        if let Some(place) = attempt.space.take(words, number) {
            return Ok(place);
        }
        self.reclaim(attempt);
        if let Some(place) = attempt.space.take(words, number) {
            return Ok(place);
        }
        if attempt.space.is_all_of(number) && !attempt.joins() {
            return Err(Stop::TooLarge);
        }
        (attempt.blocked, attempt.obstacle) = (Some(Blocked::Space), Obstacle::Room);
        Err(Stop::Conflict)
    }
}

/// Returns the length of the object's copy by the header in the heap: header and payload.
#[inline]
pub(super) fn extent_in_heap(words: &Heap, object: usize) -> Option<usize> {
    extent(words[header_of(object)].load(Ordering::Relaxed), object)
}

#[inline]
fn extent(header: u64, object: usize) -> Option<usize> {
    let bytes = lw_alloc::header::extent_bytes(header, 8 * object as u64)?;
    let words = 1 + bytes.div_ceil(8) as usize;
    (words <= COPY_WORDS_MAX - COPY_HEAD_WORDS).then_some(words)
}
