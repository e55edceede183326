//! One worker's running transaction: begin, read, write, take back. (Pisces, section 3.1,
//! algorithm 1, lines 1 to 30.)

use std::collections::VecDeque;

use medium::writes::run;
use rustc_hash::FxHashMap;
use words::Stop;

use super::copies::{COPY_HEAD_WORDS, COPY_WORDS_MAX, Copy, Space};
use super::end::{RUNNING, when};
use super::link::EMPTY;
use super::{Home, Versions, header_of, link_of};
use crate::design::At;
use crate::sync::{AtomicU64, Ordering, fence};

/// Words of a set of a copy's words.
const MASKS: usize = COPY_WORDS_MAX.div_ceil(64);

/// What one worker keeps of its transactions.
pub(crate) struct Attempt {
    pub(super) number: usize,
    /// Attempts of this worker that have written, this one included once it does.
    pub(super) attempt: u64,
    pub(super) start: u64,
    /// The place of its end, once it writes.
    pub(super) end: Option<usize>,
    pub(super) entries: Vec<Entry>,
    /// The entry that was written last.
    last: usize,
    /// New objects, which have no link yet: the entry of each.
    fresh: FxHashMap<usize, usize>,
    /// Different words written.
    pub(super) words: usize,
    pub(super) space: Space,
    /// Attempts up to the first number are over and have no link since before this time: their
    /// space is free when no transaction runs that began before it.
    pub(super) unlinked: VecDeque<(u64, u64)>,
    /// The last attempt that is known to have no link.
    pub(super) home_up_to: u64,
    /// The last attempt in `unlinked`.
    pub(super) timed_up_to: u64,
    /// What it could not have.
    pub(super) blocked: Option<Blocked>,
    pub(super) gives_chunks_back: bool,
    /// It has read a copy of this worker's that is not home.
    pub(super) met: Option<usize>,
}

/// Why an attempt could not go on, where waiting helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocked {
    /// There was no room for copies.
    Space,
    /// This object is written, and its copy is not home.
    Link { object: usize, link: u64 },
}

/// An object that the attempt has to itself.
pub(super) struct Entry {
    pub(super) object: usize,
    /// The place of its copy's header word.
    pub(super) at: usize,
    pub(super) words: usize,
    /// It has no link yet.
    pub(super) fresh: bool,
    /// Bit i: word i of the copy was written.
    mask: [u64; MASKS],
}

impl Entry {
    /// Calls `take` with each run of neighbouring words that were written: the first, counted from
    /// the header, and how many.
    #[inline]
    fn runs(&self, mut take: impl FnMut(usize, usize)) {
        let mut at = 0;
        while let Some(first) = self.next(at, true) {
            at = self.next(first, false).unwrap_or(self.words);
            take(first, at - first);
        }
    }

    /// The first word from `at` on that was written, or was not.
    #[inline]
    fn next(&self, at: usize, written: bool) -> Option<usize> {
        let mut word = at / 64;
        let mut from = u64::MAX << (at % 64);
        while word < MASKS {
            let found = if written { self.mask[word] } else { !self.mask[word] } & from;
            if found != 0 {
                let at = 64 * word + found.trailing_zeros() as usize;
                return Some(at).filter(|at| *at < self.words);
            }
            (word, from) = (word + 1, u64::MAX);
        }
        None
    }

    /// Notes that words were written; answers how many were not before.
    #[inline(always)]
    fn note(&mut self, first: usize, words: usize) -> usize {
        if words == 1 {
            let (mask, bit) = (&mut self.mask[first / 64], 1 << (first % 64));
            let new = usize::from(*mask & bit == 0);
            *mask |= bit;
            return new;
        }
        self.note_run(first, words)
    }

    #[inline]
    fn note_run(&mut self, mut first: usize, mut words: usize) -> usize {
        let mut new = 0;
        while words > 0 {
            let here = words.min(64 - first % 64);
            let bits = u64::MAX >> (64 - here) << (first % 64);
            let mask = &mut self.mask[first / 64];
            new += (bits & !*mask).count_ones() as usize;
            *mask |= bits;
            (first, words) = (first + here, words - here);
        }
        new
    }
}

impl Attempt {
    pub(super) fn new(number: usize, space: Space) -> Attempt {
        Attempt {
            number,
            attempt: 0,
            start: 0,
            end: None,
            entries: Vec::new(),
            last: 0,
            fresh: FxHashMap::default(),
            words: 0,
            space,
            unlinked: VecDeque::new(),
            home_up_to: 0,
            timed_up_to: 0,
            blocked: None,
            gives_chunks_back: false,
            met: None,
        }
    }

    /// The last transaction that it may have seen.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// How many different words it has written.
    #[inline(always)]
    pub(crate) fn words_written(&self) -> usize {
        self.words
    }

    /// Whether it has nothing to itself.
    #[inline(always)]
    pub(crate) fn is_read_only(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether it could not go on for something that has to be waited for.
    #[inline(always)]
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    /// Memory will come back in which objects may begin elsewhere.
    pub(crate) fn gives_chunks_back(&mut self) {
        self.gives_chunks_back = true;
    }

    /// Forgets what it has done.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.fresh.clear();
        (self.end, self.last, self.words) = (None, 0, 0);
        (self.gives_chunks_back, self.met) = (false, None);
    }
}

impl<M: AsRef<[AtomicU64]>> Versions<M> {
    /// Begins an attempt. Waits for nobody.
    #[inline(always)]
    pub(crate) fn begin(&self, attempt: &mut Attempt) {
        attempt.start = self.seats.seat(attempt.number).begin(&self.clock);
    }

    /// Reads a word of the snapshot.
    #[inline(always)]
    pub(crate) fn read(&self, home: &impl Home, attempt: &mut Attempt, at: At) -> u64 {
        let words = home.words();
        // Acquire: no link since a copy came home shows the words that came.
        let link = words[link_of(at.object)].load(Ordering::Acquire);
        if link != EMPTY || !attempt.fresh.is_empty() {
            let mut word = 0;
            if self.read_copy(attempt, at, link, std::slice::from_mut(&mut word)) {
                return word;
            }
        }
        words[at.index].load(Ordering::Relaxed)
    }

    /// Reads neighbouring words of the snapshot.
    #[inline(always)]
    pub(crate) fn read_run(
        &self,
        home: &impl Home,
        attempt: &mut Attempt,
        at: At,
        out: &mut [u64],
    ) {
        let words = home.words();
        let link = words[link_of(at.object)].load(Ordering::Acquire);
        if (link != EMPTY || !attempt.fresh.is_empty()) && self.read_copy(attempt, at, link, out) {
            return;
        }
        for (value, word) in out.iter_mut().zip(&words[at.index..]) {
            *value = word.load(Ordering::Relaxed);
        }
    }

    /// Which version of the object the attempt reads, until it writes it: 0 for the one at home.
    #[inline(always)]
    pub(crate) fn look(&self, home: &impl Home, attempt: &mut Attempt, object: usize) -> u64 {
        let link = home.words()[link_of(object)].load(Ordering::Acquire);
        if link == EMPTY && attempt.fresh.is_empty() {
            return 0;
        }
        self.look_at_copy(attempt, object, link)
    }

    #[inline(never)]
    fn look_at_copy(&self, attempt: &mut Attempt, object: usize, link: u64) -> u64 {
        let Some((worker, copy)) = self.visible(attempt, object, link) else { return 0 };
        self.links.to(worker, copy.at - COPY_HEAD_WORDS)
    }

    /// Reads a word of the version.
    #[inline(always)]
    pub(crate) fn read_seen(&self, home: &impl Home, version: u64, at: At) -> u64 {
        if version != 0
            && let Some(word) = self.read_copied(version, at)
        {
            return word;
        }
        home.words()[at.index].load(Ordering::Relaxed)
    }

    #[inline(never)]
    fn read_copied(&self, version: u64, at: At) -> Option<u64> {
        let (_, copy) = self.linked(at.object, version)?;
        let words = copy.words_from(at.index.wrapping_sub(header_of(at.object)))?;
        Some(words[0].load(Ordering::Relaxed))
    }

    /// Reads from the object's copy, if the snapshot has one. Words beyond the object are not
    /// there: they are left as they are.
    #[inline(never)]
    fn read_copy(&self, attempt: &mut Attempt, at: At, link: u64, out: &mut [u64]) -> bool {
        let Some((_, copy)) = self.visible(attempt, at.object, link) else { return false };
        let from = at.index.wrapping_sub(header_of(at.object));
        let Some(words) = copy.words_from(from) else { return false };
        for (value, word) in out.iter_mut().zip(words) {
            *value = word.load(Ordering::Relaxed);
        }
        true
    }

    /// The copy of the object that the attempt sees, and whose it is.
    #[inline]
    fn visible(
        &self,
        attempt: &mut Attempt,
        object: usize,
        link: u64,
    ) -> Option<(usize, Copy<'_>)> {
        if let Some(&entry) = attempt.fresh.get(&object) {
            let place = attempt.entries[entry].at - COPY_HEAD_WORDS;
            let copy = Copy::find(self.memory(attempt.number), place, object)?;
            return Some((attempt.number, copy));
        }
        let (worker, copy) = self.linked(object, link)?;
        if worker == attempt.number && Some(copy.end) == attempt.end {
            return Some((worker, copy));
        }
        if when(copy.end_word()) > attempt.start {
            return None;
        }
        attempt.met = Some(worker);
        Some((worker, copy))
    }

    /// The copy that a link leads to, and whose it is. Nothing for a void link: of another
    /// generation, or a word that was never one.
    #[inline]
    pub(super) fn linked(&self, object: usize, link: u64) -> Option<(usize, Copy<'_>)> {
        let (worker, place) = self.links.follow(link)?;
        let memory = self.seats.get(worker)?.copies.get()?.as_ref();
        Some((worker, Copy::find(memory, place, object)?))
    }

    /// Writes a word.
    #[inline(always)]
    pub(crate) fn write(
        &self,
        home: &impl Home,
        attempt: &mut Attempt,
        at: At,
        value: u64,
    ) -> Result<(), Stop> {
        self.write_run(home, attempt, at, &[value])
    }

    /// Writes neighbouring words of one object.
    #[inline(always)]
    pub(crate) fn write_run(
        &self,
        home: &impl Home,
        attempt: &mut Attempt,
        at: At,
        values: &[u64],
    ) -> Result<(), Stop> {
        let first = at.index.wrapping_sub(header_of(at.object));
        let header = if first == 0 { values.first().copied() } else { None };
        let entry = self.own(home, attempt, at.object, header)?;
        let memory = self.memory(attempt.number);
        let entry = &mut attempt.entries[entry];
        // The transaction has checked that it is inside the object; what it names may be more.
        let end = first.checked_add(values.len()).filter(|end| *end <= entry.words);
        let Some(end) = end else { return Err(Stop::BadPointer) };
        for (word, value) in memory[entry.at + first..entry.at + end].iter().zip(values) {
            word.store(*value, Ordering::Relaxed);
        }
        attempt.words += entry.note(first, values.len());
        Ok(())
    }

    /// Takes the object to itself, as if it was written.
    #[inline]
    pub(crate) fn protect(
        &self,
        home: &impl Home,
        attempt: &mut Attempt,
        object: usize,
    ) -> Result<(), Stop> {
        self.own(home, attempt, object, None).map(drop)
    }

    /// The entry of an object that the attempt has to itself; `header`, if that is about to be
    /// written.
    #[inline(always)]
    fn own(
        &self,
        home: &impl Home,
        attempt: &mut Attempt,
        object: usize,
        header: Option<u64>,
    ) -> Result<usize, Stop> {
        let last = attempt.last;
        if header.is_none() && attempt.entries.get(last).is_some_and(|last| last.object == object) {
            return Ok(last);
        }
        let entry = self.find_or_take(home, attempt, object, header)?;
        attempt.last = entry;
        Ok(entry)
    }

    #[inline]
    fn find_or_take(
        &self,
        home: &impl Home,
        attempt: &mut Attempt,
        object: usize,
        header: Option<u64>,
    ) -> Result<usize, Stop> {
        let mine = match attempt.fresh.get(&object) {
            Some(&entry) => Some(entry),
            None => {
                let link = home.words()[link_of(object)].load(Ordering::Acquire);
                match self.linked(object, link) {
                    Some((worker, copy))
                        if worker == attempt.number && Some(copy.end) == attempt.end =>
                    {
                        Some(copy.entry)
                    }
                    _ => None,
                }
            }
        };
        let extent = header.and_then(|header| extent(header, object)).unwrap_or(0);
        match mine {
            Some(entry) if attempt.entries[entry].words >= extent => Ok(entry),
            Some(entry) => self.enlarge(home, attempt, entry, extent),
            None => self.take(home, attempt, object, extent),
        }
    }

    /// Locks an object and copies it. `extent`: words that it will have at least.
    fn take(
        &self,
        home: &impl Home,
        attempt: &mut Attempt,
        object: usize,
        extent: usize,
    ) -> Result<usize, Stop> {
        let words = home.words();
        let link = loop {
            let link = words[link_of(object)].load(Ordering::Acquire);
            match self.linked(object, link) {
                None => break link,
                Some((worker, copy)) => {
                    self.give_way_or_help(home, attempt, object, link, worker, copy)?;
                }
            }
        };
        let found = extent_at_home(home, object);
        let fresh = found.is_none();
        let size = found.unwrap_or(0).max(extent);
        if size == 0 || header_of(object) + size > words.len() {
            return Err(Stop::BadPointer);
        }
        let end = self.end(attempt)?;
        let place = self.room(attempt, COPY_HEAD_WORDS + size)?;
        let (memory, entry) = (self.memory(attempt.number), attempt.entries.len());
        Copy::begin(memory, place, object, (size, end, entry));
        if !fresh {
            let mine = self.links.to(attempt.number, place);
            if home.exchange(link_of(object), link, mine).is_err() {
                return Err(Stop::Conflict);
            }
            if extent_at_home(home, object) != found {
                // It became another one while it was nobody's.
                fence(Ordering::Release);
                home.store(link_of(object), EMPTY);
                return Err(Stop::Conflict);
            }
        } else {
            attempt.fresh.insert(object, entry);
        }
        let at = place + COPY_HEAD_WORDS;
        // Who holds the lock is the only one that home may change by.
        for (to, from) in memory[at..at + size].iter().zip(&words[header_of(object)..]) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        attempt.entries.push(Entry { object, at, words: size, fresh, mask: [0; MASKS] });
        Ok(entry)
    }

    /// The object becomes a larger one: it moves to a larger copy.
    #[cold]
    fn enlarge(
        &self,
        home: &impl Home,
        attempt: &mut Attempt,
        number: usize,
        size: usize,
    ) -> Result<usize, Stop> {
        let words = home.words();
        let end = self.end(attempt)?;
        let place = self.room(attempt, COPY_HEAD_WORDS + size)?;
        let memory = self.memory(attempt.number);
        let entry = &mut attempt.entries[number];
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
        if !entry.fresh {
            // An exchange for its Release: whoever follows the link finds the copy's head.
            let link = words[link_of(object)].load(Ordering::Relaxed);
            let done = home.exchange(link_of(object), link, self.links.to(attempt.number, place));
            done.expect("nobody else changes the link of an object that is locked");
        }
        Ok(number)
    }

    /// The place of the attempt's end, which begins with its first write.
    #[inline]
    fn end(&self, attempt: &mut Attempt) -> Result<usize, Stop> {
        if let Some(end) = attempt.end {
            return Ok(end);
        }
        attempt.attempt += 1;
        let end = self.room(attempt, 1).inspect_err(|_| attempt.attempt -= 1)?;
        self.memory(attempt.number)[end].store(RUNNING, Ordering::Relaxed);
        attempt.end = Some(end);
        Ok(end)
    }

    /// Room for a copy.
    #[inline]
    fn room(&self, attempt: &mut Attempt, words: usize) -> Result<usize, Stop> {
        if let Some(place) = attempt.space.take(words, attempt.attempt) {
            return Ok(place);
        }
        self.reclaim(attempt);
        if let Some(place) = attempt.space.take(words, attempt.attempt) {
            return Ok(place);
        }
        if attempt.space.is_all_of(attempt.attempt) {
            return Err(Stop::TooLarge);
        }
        attempt.blocked = Some(Blocked::Space);
        Err(Stop::Conflict)
    }

    /// Takes the attempt back. Answers the last transaction that it may have seen.
    pub(crate) fn roll_back(&self, home: &impl Home, attempt: &mut Attempt) -> u64 {
        // Who finds no link finds what others have brought home, as this one did when it locked.
        fence(Ordering::Release);
        for entry in attempt.entries.iter().filter(|entry| !entry.fresh) {
            // Its space is not used again before nobody can have the link.
            home.store(link_of(entry.object), EMPTY);
        }
        attempt.clear();
        self.seats.seat(attempt.number).over();
        attempt.start
    }

    /// Appends what the attempt has changed, or with `whole` all of every object that it has to
    /// itself.
    #[inline]
    pub(crate) fn changes(&self, attempt: &Attempt, whole: bool, batch: &mut Vec<u64>) {
        let memory = self.memory(attempt.number);
        for entry in &attempt.entries {
            let mut take = |first: usize, words: usize| {
                batch.push(run((header_of(entry.object) + first) as u64, words));
                let copy = &memory[entry.at + first..entry.at + first + words];
                batch.extend(copy.iter().map(|word| word.load(Ordering::Relaxed)));
            };
            match whole {
                true => take(0, entry.words),
                false => entry.runs(take),
            }
        }
    }

    /// Where a worker's copies are.
    #[inline(always)]
    pub(super) fn memory(&self, number: usize) -> &[AtomicU64] {
        self.seats.seat(number).copies.get().map_or(&[], |memory| memory.as_ref())
    }
}

/// Words of the object's copy by its header at home: header and payload.
#[inline]
fn extent_at_home(home: &impl Home, object: usize) -> Option<usize> {
    extent(home.words()[header_of(object)].load(Ordering::Relaxed), object)
}

#[inline]
fn extent(header: u64, object: usize) -> Option<usize> {
    let bytes = lw_alloc::header::extent_bytes(header, 8 * object as u64)?;
    let words = 1 + bytes.div_ceil(8) as usize;
    (words <= COPY_WORDS_MAX - COPY_HEAD_WORDS).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_what_was_written() {
        let mut entry = Entry { object: 2, at: 0, words: 129, fresh: false, mask: [0; MASKS] };
        let runs = |entry: &Entry| {
            let mut found = Vec::new();
            entry.runs(|first, words| found.push((first, words)));
            found
        };
        assert_eq!(runs(&entry), []);
        assert_eq!(entry.note(3, 1), 1);
        assert_eq!(entry.note(3, 1), 0);
        assert_eq!(entry.note(60, 10), 10);
        assert_eq!(entry.note(58, 4), 2);
        assert_eq!(entry.note(128, 1), 1);
        assert_eq!(runs(&entry), [(3, 1), (58, 12), (128, 1)]);
        assert_eq!(entry.note(0, 129), 129 - 14);
        assert_eq!(runs(&entry), [(0, 129)]);
    }
}
