//! The volatile ring, which holds one worker's records until the persist step takes them.
//!
//! ```text
//!   word 0   transaction ID          }
//!   word 1   words of the record     }  RECORD_HEAD_WORDS
//!   word 2.. runs, as in medium::writes
//! ```
//!
//! The cursors count words since the ring was made and never wrap. A large ring has *regions*, of
//! which the worker fills one at a time. The memory of an unused region costs nothing, so a ring
//! takes the memory of its largest recent backlog and not that of its largest transaction.
//!
//! ```text
//!   least | 2 least | 4 least | ... | capacity/16 |            capacity
//! ```
//!
//! - A word's place is its cursor modulo the region's size, from the region's first word on.
//! - A region that is full, or too small for a record, is left for a larger one. After
//!   [`QUIET_WRAPS`] wraps whose backlog fits in half of the next smaller region, the worker moves
//!   to that region.
//! - The worker leaves a region with a *move*: a head with the ID [`MOVE`] and the words of the
//!   next region. The next record follows it, in that region, and both are published together.
//! - The persist step that meets a move releases the region's memory, and then returns its space.
//! - An idle worker makes no move. The persist thread releases the memory of its region instead,
//!   without the words of the worker's *claim*. The worker returns to the least region later, when
//!   it writes past its claim.
//!
//! Invariants:
//! - `taken <= written`; each only grows. Within a region, `written <= taken + its size`.
//! - Only the worker moves `written`, after the words before it are in place.
//! - Only the holder of the persist step's lock moves `taken`, after it has copied the words before
//!   it.
//! - The worker enters a region only when `taken` is past the move with which it last left it.
//! - The worker writes only before the end of its claim. It moves that end with the claim's lock,
//!   and the persist thread holds the lock while it releases the memory of other words.
//!
//! (DudeTM, section 3.2: a fixed-length circular buffer for each thread. The regions are ours.)

use std::ops::Range;

use crossbeam_utils::CachePadded;
use medium::mutants::{Mutant, injected, relax};

use crate::sync::{AtomicU64, Mutex, Ordering, lock, prefetch_write};

/// Words before the runs of a record: its transaction ID and its length.
pub const RECORD_HEAD_WORDS: usize = 2;

/// Most words of a record's runs, the limit of the mark in a group.
pub const RECORD_WORDS_MAX: usize = (1 << 24) - 1;

/// Distance of the line prefetched for writing, ahead of the cursor. A ring is larger than a cache,
/// and another core read its lines last. A store that waits for its line would hold up the locked
/// instruction of the next commit. Measured on TATP, one worker: 10 to 15 ns of 190 a transaction;
/// 32, 64 and 128 words are alike.
const PREFETCH_WORDS: u64 = 128;

/// Words of the least region of a ring: 64 KiB. A worker that waits for its commits stays in it.
pub const REGION_WORDS: usize = 8 << 10;

/// The ID of a move; no transaction has it.
const MOVE: u64 = u64::MAX;

/// Ratio of the largest region to the next smaller one. Records reach the largest region only when
/// the medium does not keep up, or through a large transaction.
const LARGEST: u64 = 16;

/// Wraps with a small backlog until the worker leaves a region for a smaller one. A wrap looks at
/// the backlog once. The backlog of a busy worker rises and falls with the persist thread's pauses,
/// so a few looks prove little. A wrong move costs page faults. In a model each wrap takes many
/// steps.
const QUIET_WRAPS: u32 = if cfg!(test) { 1 } else { 16 };

/// Words of a page of 4 KiB, the unit of released memory. A model has smaller regions.
const PAGE_WORDS: u64 = if cfg!(test) { 4 } else { 512 };

/// Memory of a ring.
pub trait RingMemory: AsRef<[AtomicU64]> {
    /// Gives the memory of these words back to the system, where that is possible. They may be zero
    /// afterwards, or keep their values.
    fn release(&self, words: Range<usize>);
}

impl RingMemory for Box<[AtomicU64]> {
    fn release(&self, _: Range<usize>) {}
}

/// One worker's records: one thread writes, and one thread at a time takes.
#[derive(Debug)]
pub struct Ring<S> {
    words: S,
    capacity: u64,
    /// Words of the least region; the capacity where the ring is one region.
    least: u64,
    /// End of the published records. Its cache line is written by the worker alone.
    written: CachePadded<AtomicU64>,
    /// Its cache line belongs to the persist step.
    taken: CachePadded<Taken>,
    claim: CachePadded<Mutex<Claim>>,
}

/// The words that the worker may write without another look at shared memory.
#[derive(Debug)]
struct Claim {
    /// The cursor at their end. They begin at `written`.
    end: u64,
    /// Whether memory of the region was released since the claim was made: the worker was idle.
    is_released: bool,
}

/// The persist step's end of a ring.
#[derive(Debug)]
struct Taken {
    /// End of the records that may be overwritten.
    cursor: AtomicU64,
    /// Words of the region of the next record. Only the holder of the step's lock uses it, so it is
    /// no part of the protocol between the threads, and the models do not explore it.
    region: std::sync::atomic::AtomicU64,
}

/// A region of a ring: its words, and how a cursor becomes a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Region {
    first: u64,
    mask: u64,
}

impl Region {
    #[inline]
    fn place(self, at: u64) -> usize {
        ((at & self.mask) + self.first) as usize
    }

    fn words(self) -> u64 {
        self.mask + 1
    }
}

impl<S: RingMemory> Ring<S> {
    /// Makes a ring of one region over these words.
    ///
    /// # Panics
    /// When their number is not a power of two.
    pub fn new(words: S) -> Ring<S> {
        let capacity = words.as_ref().len();
        Ring::with_regions(words, capacity, capacity)
    }

    /// Makes a ring of `capacity` words that begins with a region of `least` words. The storage has
    /// [`words_of`](Ring::words_of) words.
    ///
    /// # Panics
    /// When a number is not a power of two, or the storage is too small.
    pub fn with_regions(words: S, capacity: usize, least: usize) -> Ring<S> {
        assert!(capacity.is_power_of_two(), "a ring's size is a power of two, not {capacity}");
        assert!(least.is_power_of_two() && least <= capacity, "{least} words of {capacity}");
        assert!(
            words.as_ref().len() >= Ring::<S>::words_of(capacity, least),
            "the words of a ring"
        );
        let (capacity, least) = (capacity as u64, least as u64);
        let taken = Taken { cursor: AtomicU64::new(0), region: least.into() };
        let claim = Mutex::new(Claim { end: least, is_released: false });
        Ring {
            words,
            capacity,
            least,
            written: CachePadded::new(AtomicU64::new(0)),
            taken: CachePadded::new(taken),
            claim: CachePadded::new(claim),
        }
    }

    /// Returns the words of storage for a ring of `capacity` words with a least region.
    pub fn words_of(capacity: usize, least: usize) -> usize {
        if least == capacity { capacity } else { capacity + 2 * capacity / LARGEST as usize }
    }

    /// Returns the size of the largest region in words; records use it with their heads.
    pub fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// Returns the region of `words` words.
    fn region(&self, words: u64) -> Region {
        let first = match words == self.capacity && self.least < words {
            true => 2 * self.capacity / LARGEST,
            false => words - self.least,
        };
        Region { first, mask: words - 1 }
    }

    /// Returns the sizes of all regions above `words`, in ascending order.
    fn larger(&self, words: u64) -> impl Iterator<Item = u64> {
        let next = |words: &u64| match *words < self.capacity / LARGEST {
            true => Some(2 * words),
            false => Some(self.capacity).filter(|capacity| words < capacity),
        };
        std::iter::successors(next(&words), next)
    }

    /// Returns the size of the next smaller region.
    fn smaller(&self, words: u64) -> Option<u64> {
        let by = if words == self.capacity { LARGEST } else { 2 };
        Some(words / by).filter(|_| words > self.least)
    }

    /// Returns the words under the ring.
    pub fn storage(&self) -> &S {
        &self.words
    }

    /// Returns the number of words published and not yet taken.
    pub fn pending(&self) -> u64 {
        self.written().saturating_sub(self.taken())
    }

    /// Returns the cursor at the end of the last published record.
    #[inline]
    pub fn written(&self) -> u64 {
        // Acquire: a reader that sees the cursor sees the words before it. Pairs with `publish`.
        self.written.load(relax(Ordering::Acquire, Mutant::RingCursorReadRelaxed))
    }

    /// Returns the cursor of the next record to take.
    pub fn taken(&self) -> u64 {
        self.taken.cursor.load(Ordering::Relaxed)
    }

    /// Returns the region of the next record to take.
    #[inline]
    fn taken_region(&self) -> Region {
        // Relaxed: the lock of the persist step orders its holders.
        self.region(self.taken.region.load(Ordering::Relaxed))
    }

    /// Returns the cursor, ID and length of the record at a cursor before
    /// [`written`](Ring::written). All records before it have been copied.
    #[inline]
    pub fn head(&self, at: u64) -> (u64, u64, usize) {
        let region = self.taken_region();
        let words = self.words.as_ref();
        // Relaxed: the Acquire load of `written` came before.
        let id = words[region.place(at)].load(Ordering::Relaxed);
        let length = words[region.place(at + 1)].load(Ordering::Relaxed);
        if id == MOVE {
            return self.follow(at, region, length);
        }
        (at, id, length as usize)
    }

    /// Follows a move out of a region, whose records have all been copied.
    #[cold]
    fn follow(&self, at: u64, left: Region, next: u64) -> (u64, u64, usize) {
        // Before `take`: once `taken` is past the move, the worker may enter the region again.
        let first = left.first as usize;
        self.words.release(first..first + left.words() as usize);
        self.taken.region.store(next, Ordering::Relaxed);
        // A move is published with the record after it.
        self.head(at + RECORD_HEAD_WORDS as u64)
    }

    /// Copies the runs of the record at `at`; `out` has the length that its head gives.
    #[inline]
    pub fn copy(&self, at: u64, out: &mut [u64]) {
        let region = self.taken_region();
        let first = region.place(at + RECORD_HEAD_WORDS as u64);
        let start = region.first as usize;
        let end = start + region.words() as usize;
        let words = &self.words.as_ref()[..end];
        // A record may wrap round the end of the region, so copy it in two parts.
        let before_end = out.len().min(end - first);
        let (left, right) = out.split_at_mut(before_end);
        for (to, from) in left.iter_mut().zip(&words[first..]) {
            *to = from.load(Ordering::Relaxed);
        }
        for (to, from) in right.iter_mut().zip(&words[start..]) {
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
        debug_assert!(to >= self.taken() && to <= self.written());
        // Release: the copies out of this space happen before the worker overwrites it. Pairs with
        // `Writer::refresh`.
        self.taken.cursor.store(to, relax(Ordering::Release, Mutant::RingSpaceReturnedRelaxed));
    }

    /// Releases the memory of a region that is not the least one, without the worker's claim. The
    /// claim has at most the words of the least region, or of a large transaction. The holder of
    /// the persist step's lock calls it for a worker that seems idle.
    pub fn release_unclaimed(&self) {
        let region = self.taken_region();
        if region.words() == self.least {
            return;
        }
        let mut claim = lock(&self.claim);
        let taken = self.taken();
        let end = if injected(Mutant::ClaimReleased) { self.written() } else { claim.end };
        // All words that hold a record or may hold one soon are at these cursors, in this region or
        // in the next one. More words than the region's leave none to release.
        if end - taken < region.words() {
            claim.is_released = true;
            // Held during the release: a worker that wants other words than its claim waits for
            // it, instead of writing words that are then lost.
            let held = (!injected(Mutant::ClaimUnlockedEarly)).then_some(claim);
            let (start, first) = (region.place(taken), region.first as usize);
            let end = region.place(end);
            if start <= end {
                self.release_pages(first..start);
                self.release_pages(end..first + region.words() as usize);
            } else {
                self.release_pages(end..start);
            }
            drop(held);
        }
    }

    /// Releases the whole pages among these words.
    fn release_pages(&self, words: Range<usize>) {
        let page = PAGE_WORDS as usize;
        let whole = words.start.next_multiple_of(page)..words.end / page * page;
        if !whole.is_empty() {
            self.words.release(whole);
        }
    }
}

/// The worker's end of a [`Ring`], which knows its cursor without reading shared memory.
#[derive(Debug)]
pub struct Writer {
    written: u64,
    /// `taken` as last read; the true value only grows, so this is a safe bound.
    taken: u64,
    /// A record that ends here or before has room.
    limit: u64,
    region: Region,
    /// Words of the region for the next record.
    next: u64,
    /// Cursor at which the worker entered its region.
    entered: u64,
    /// Cursor behind which the next wrap begins, with a look at the backlog.
    wrap_end: u64,
    /// Cursor behind the move with which the worker last left each region, by the size's logarithm.
    left: [u64; u64::BITS as usize],
    /// Successive looks that found a backlog for a smaller region.
    quiet: u32,
}

impl Writer {
    /// Returns the worker's end of a ring that nothing was written to.
    pub fn new<S: RingMemory>(ring: &Ring<S>) -> Writer {
        Writer {
            written: 0,
            taken: 0,
            limit: ring.least - room_to_leave(ring, ring.least),
            region: ring.region(ring.least),
            next: ring.least,
            entered: 0,
            wrap_end: 0,
            left: [0; u64::BITS as usize],
            quiet: 0,
        }
    }

    /// Returns whether a record of `words` words fits. It stays so until this worker writes.
    #[inline]
    pub fn has_room<S: RingMemory>(&mut self, ring: &Ring<S>, words: usize) -> bool {
        // The shared cursor is not read before it matters: its line belongs to the persist step.
        Ring::<S>::behind(self.written, words) <= self.limit || self.find_room(ring, words)
    }

    /// Reads `taken` again.
    pub fn refresh<S: RingMemory>(&mut self, ring: &Ring<S>) {
        // Acquire: pairs with `Ring::take`.
        let acquire = relax(Ordering::Acquire, Mutant::RingSpaceReadRelaxed);
        self.taken = ring.taken.cursor.load(acquire);
    }

    /// Looks for room in this region, or else in a larger one, and claims some of it.
    #[cold]
    fn find_room<S: RingMemory>(&mut self, ring: &Ring<S>, words: usize) -> bool {
        let needed = (RECORD_HEAD_WORDS + words) as u64;
        if ring.least == ring.capacity {
            // One region: the persist thread releases no memory of it.
            self.refresh(ring);
            self.limit = self.taken + ring.capacity;
            return self.written + needed <= self.limit;
        }
        let mut claim = lock(&ring.claim);
        self.refresh(ring);
        let was_idle = std::mem::take(&mut claim.is_released);
        let found = self.find_region(ring, needed, was_idle);
        // The claim is small, because an idle worker keeps its memory. It is not smaller, because
        // each claim takes the lock and reads the persist step's cache line.
        self.limit = self.limit.min(self.written + needed.max(ring.least));
        // A planned move is before the words of `limit`.
        claim.end = self.limit + RECORD_HEAD_WORDS as u64;
        found
    }

    /// Finds the region for a record of `needed` words, and the end of the room in it.
    fn find_region<S: RingMemory>(&mut self, ring: &Ring<S>, needed: u64, was_idle: bool) -> bool {
        let region = self.region.words();
        // No word was written since the last look that decided to move, if one did.
        self.next = region;
        self.limit = self.taken.max(self.entered) + region - room_to_leave(ring, region);
        if self.written + needed > self.limit {
            self.quiet = 0;
            return ring.larger(region).any(|larger| self.plan(ring, larger, needed));
        }
        if was_idle && region > ring.least && self.plan(ring, ring.least, needed) {
            self.quiet = 0;
        } else if self.written + needed > self.wrap_end
            && let Some(smaller) = ring.smaller(region)
        {
            self.wrap_end = self.limit;
            let is_quiet = self.used().max(needed) <= smaller / 2;
            self.quiet = if is_quiet { self.quiet + 1 } else { 0 };
            if self.quiet >= QUIET_WRAPS {
                self.quiet = 0;
                self.plan(ring, smaller, needed);
            }
        }
        true
    }

    /// Plans a move to a region if that is free and large enough.
    fn plan<S: RingMemory>(&mut self, ring: &Ring<S>, region: u64, needed: u64) -> bool {
        let room = region - room_to_leave(ring, region);
        // Until `taken` is past the move, the persist step reads the region and releases it.
        let is_free = self.left[region.ilog2() as usize] <= self.taken
            || injected(Mutant::RegionEnteredEarly);
        let fits = is_free && needed <= room;
        if fits {
            (self.next, self.limit) = (region, self.written + room);
        }
        fits
    }

    /// Returns the words in use, as far as this worker knows.
    #[inline]
    pub fn used(&self) -> u64 {
        self.written - self.taken
    }

    /// Returns the cursor at the end of the last record.
    #[inline]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Begins a record whose words [`has_room`](Writer::has_room) has confirmed.
    #[inline]
    pub fn record<'r, S: RingMemory>(&'r mut self, ring: &'r Ring<S>) -> Record<'r, S> {
        // Only here, and not when `has_room` decided: until the worker owns an ID, the persist
        // step may release the memory of a ring whose records are all taken.
        if self.next != self.region.words() {
            self.follow_plan(ring);
        }
        let at = self.written + RECORD_HEAD_WORDS as u64;
        let Region { first, mask } = self.region;
        // Once for a record, so that each of its words costs a mask and a check of the bound.
        let words = &ring.words.as_ref()[first as usize..=(first + mask) as usize];
        Record { words, mask, ring, writer: self, at }
    }

    #[cold]
    fn follow_plan<S: RingMemory>(&mut self, ring: &Ring<S>) {
        let words = ring.words.as_ref();
        // Relaxed: the Release store of `Record::publish` publishes the move with the record.
        words[self.region.place(self.written)].store(MOVE, Ordering::Relaxed);
        words[self.region.place(self.written + 1)].store(self.next, Ordering::Relaxed);
        self.written += RECORD_HEAD_WORDS as u64;
        self.limit += RECORD_HEAD_WORDS as u64;
        self.left[self.region.words().ilog2() as usize] = self.written;
        (self.region, self.entered) = (ring.region(self.next), self.written);
        self.wrap_end = self.entered + self.region.words();
    }
}

/// Returns the words of a region that only a move may use. The largest region has none, so that the
/// largest record fits: the worker leaves it when it has room.
fn room_to_leave<S: RingMemory>(ring: &Ring<S>, region: u64) -> u64 {
    if region == ring.capacity { 0 } else { RECORD_HEAD_WORDS as u64 }
}

/// A record in progress, invisible to the persist step until [`publish`](Record::publish).
#[derive(Debug)]
pub struct Record<'r, S> {
    /// The region.
    words: &'r [AtomicU64],
    mask: u64,
    ring: &'r Ring<S>,
    writer: &'r mut Writer,
    at: u64,
}

impl<S: RingMemory> Record<'_, S> {
    #[inline]
    fn word(&self, at: u64) -> &AtomicU64 {
        &self.words[(at & self.mask) as usize]
    }

    /// Appends a word.
    #[inline]
    pub fn push(&mut self, word: u64) {
        self.word(self.at).store(word, Ordering::Relaxed);
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
        self.word(at).store(word, Ordering::Relaxed);
    }

    /// Publishes the record to the persist step.
    #[inline]
    pub fn publish(self, id: u64) {
        let head = self.writer.written;
        let words = self.at - head - RECORD_HEAD_WORDS as u64;
        debug_assert!(self.at <= self.writer.limit, "the record has no room");
        // Relaxed: the Release store of `written` below publishes the head and the runs together.
        self.word(head).store(id, Ordering::Relaxed);
        self.word(head + 1).store(words, Ordering::Relaxed);
        self.writer.written = self.at;
        prefetch_write(self.words, ((self.at + PREFETCH_WORDS) & self.mask) as usize);
        // Release: a reader that sees the cursor sees the record. Pairs with `Ring::written`.
        self.ring.written.store(self.at, relax(Ordering::Release, Mutant::RecordPublishedRelaxed));
    }
}

#[cfg(test)]
#[path = "ring/tests.rs"] // The models compile this file from another folder.
mod tests;
