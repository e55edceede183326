//! `mvcc`: snapshot isolation by the textbook method, a list of versions per object.
//!
//! The design is not durable. It exists for comparison with `snapshot`, as in figure 9b of the
//! Pisces paper.
//!
//! ```text
//!   heads    by object ID      version             version
//!            | v, lock | --->  | time | before | ---> | time | before |
//!                              | header, words |      | header, words |
//! ```
//!
//! | operation | steps |
//! |---|---|
//! | read | follows the list from its head to the newest version not newer than the start |
//! | first write to an object | copies the whole object |
//! | commit | locks the written objects, validates, takes a timestamp, links, unlocks |
//!
//! A read costs two memory accesses more than the word itself. A commit conflicts if another
//! transaction has committed a version of a written object since its start. A reader waits at a
//! locked object, because the writer's timestamp is not known yet. Objects without a version are
//! read from the heap, which only [`settle`](Design::settle) writes.
//!
//! An object's ID is the address of its first word divided by 16 bytes. Its header word gives its
//! extent and is part of each version.
//!
//! Invariants:
//! - An object is locked only between a commit's first lock and its last unlock. A transaction that
//!   holds locks never waits.
//! - A version stays until no transaction can read it: see [`versions`] and [`running`].
//!
//! Source: Pisces, section 2.2.

mod running;
#[cfg(test)]
mod tests;
mod versions;
mod writes;

use std::path::Path;

use lw_alloc::header::extent_bytes;
use words::{Stop, TxId};

use crate::design::{At, Design};
use crate::perform::StarvationLock;
use crate::poison::Poison;
use crate::pool::Shape;
use crate::shadow::ShadowHeap;
use crate::sync::{Mutex, Ordering, lock, spin_loop, thread};
#[cfg(test)]
use crate::worker::panic_injection::{Point, point};
use crate::{Error, Options};
use running::Running;
use versions::{Store, Version, Versions, WORDS_MAX};
use writes::{Write, Writes};

/// Words between the IDs of two objects.
const ID_WORDS: usize = 2;

/// The bit of a head that is set while a commit holds its object.
const LOCKED: u64 = 1;

/// Polls before a thread that waits for a lock yields its core.
const SPINS: u32 = 100;

/// Multi-version concurrency control in memory.
pub struct Mvcc {
    heap: ShadowHeap,
    /// For each ID the newest version of its object, and a lock bit.
    heads: ShadowHeap,
    versions: Versions,
    running: Running,
    /// Version stores that departed workers have left for reuse.
    stores: Mutex<Vec<Store>>,
    starvation_lock: StarvationLock,
    poison: Poison,
}

/// State of one worker.
pub struct Local {
    worker: usize,
    start: u64,
    writes: Writes,
    store: Store,
}

/// Returns the ID of an object.
#[inline(always)]
fn id_of(at: At) -> usize {
    at.object / ID_WORDS
}

/// Returns the position of a word in the object's versions; out of range if the object has no such
/// word.
#[inline(always)]
fn within(id: usize, index: usize) -> usize {
    index.wrapping_sub(header_at(id))
}

/// Returns the position of an object's header word, the first word of its versions.
#[inline(always)]
fn header_at(id: usize) -> usize {
    ID_WORDS * id - 1
}

impl Mvcc {
    /// Returns the newest version of an object, after any commit that holds it.
    #[inline(always)]
    fn newest(&self, id: usize) -> Version {
        // Acquire: pairs with the Release in `publish`, so that the version's words are seen.
        let head = self.heads.heap()[id].load(Ordering::Acquire);
        Version::of_head(if head & LOCKED == 0 { head } else { self.unlocked(id) })
    }

    #[cold]
    fn unlocked(&self, id: usize) -> u64 {
        for spin in 0.. {
            let head = self.heads.heap()[id].load(Ordering::Acquire);
            if head & LOCKED == 0 {
                return head;
            }
            if spin < SPINS { spin_loop() } else { thread::yield_now() }
        }
        unreachable!("a commit ends")
    }

    /// Returns the version that a transaction started at `start` reads.
    #[inline(always)]
    fn visible(&self, id: usize, start: u64) -> Version {
        let mut version = self.newest(id);
        while version.is_some() && self.versions.time(version) > start {
            version = self.versions.before(version);
        }
        version
    }

    /// Returns the version that a transaction reads: its own copy, if it has one.
    #[inline(always)]
    fn seen(&self, local: &Local, id: usize) -> Version {
        match local.writes.find(id) {
            Some(at) => local.writes.all()[at].copy,
            None => self.visible(id, local.start),
        }
    }

    /// Returns a word of the version, or of the heap if the version has no such word.
    #[inline(always)]
    fn word(&self, version: Version, id: usize, index: usize) -> u64 {
        if version.is_some()
            && let Some(word) = self.versions.object(version).get(within(id, index))
        {
            return word.load(Ordering::Relaxed);
        }
        self.peek(index)
    }

    /// Returns the place of the object's copy in the write set, which it makes if absent. `header`
    /// is the header word about to be written.
    #[inline]
    fn own(&self, local: &mut Local, at: At, header: Option<u64>) -> Result<usize, Stop> {
        let id = id_of(at);
        let Local { start, ref mut writes, ref mut store, .. } = *local;
        let found = writes.find(id);
        let (seen, from) = match found {
            Some(at) if header.is_none() => return Ok(at),
            Some(at) => (writes.all()[at].copy, Version::NONE),
            None => {
                let newest = self.newest(id);
                if newest.is_some() && self.versions.time(newest) > start {
                    return Err(Stop::Conflict); // the first committer wins
                }
                (newest, newest)
            }
        };
        let extent = |header: u64| self.words_of(id, header);
        let words = header.and_then(extent);
        let words = words.or_else(|| extent(self.word(seen, id, header_at(id))));
        let words = match found {
            // The header's write may resize the object or free it. An unchanged length keeps the
            // copy.
            Some(at) if words.is_none_or(|words| words == self.versions.words(seen)) => {
                return Ok(at);
            }
            _ => words.ok_or(Stop::BadPointer)?,
        };
        let before = found.map_or(from, |at| writes.all()[at].from);
        let copy = store.make(&self.versions, words, before).ok_or(Stop::Full)?;
        for (word, to) in self.versions.object(copy).iter().enumerate() {
            to.store(self.word(seen, id, header_at(id) + word), Ordering::Relaxed);
        }
        Ok(match found {
            Some(at) => {
                store.discard(&self.versions, seen);
                writes.replace(at, copy);
                at
            }
            None => writes.add(id, copy, from),
        })
    }

    /// Returns the words of an object with this header, header word included. `None` if the header
    /// is invalid, or the object is too long or exceeds the heap.
    fn words_of(&self, id: usize, header: u64) -> Option<usize> {
        let bytes = extent_bytes(header, 8 * (ID_WORDS * id) as u64)?;
        let words = 1 + bytes.div_ceil(8) as usize;
        let fits = words <= WORDS_MAX && header_at(id) + words <= self.words();
        fits.then_some(words)
    }

    /// Locks the object for its commit, if the copied version is still the newest.
    #[inline]
    fn lock(&self, write: &Write) -> bool {
        let (open, head) = (write.from.as_head(), &self.heads.heap()[write.id]);
        // No ABA problem: this transaction's start keeps the version from reuse. Acquire: pairs
        // with the last unlock.
        head.compare_exchange(open, open | LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Links the copies into the lists and unlocks their objects.
    fn publish(&self, local: &mut Local, time: u64) {
        for write in local.writes.all() {
            self.versions.set_time(write.copy, time);
            // Release: a reader that finds the copy sees its words.
            self.heads.heap()[write.id].store(write.copy.as_head(), Ordering::Release);
            if write.from.is_some() {
                local.store.supersede(write.from, time);
            }
        }
    }

    fn end(&self, local: &mut Local) {
        local.writes.clear();
        self.running.end(local.worker);
    }
}

impl Design for Mvcc {
    const NAME: &'static str = "mvcc";
    const DURABLE: bool = false;
    const WORKERS_MAX: usize = running::WORKERS_MAX;
    const BY_OBJECT: bool = true;
    type Local = Local;

    fn create(_path: &Path, options: &Options) -> Result<(Self, Shape), Error> {
        let (heap, shape) = Shape::in_memory(options)?;
        let bytes = 8 * heap.heap().len() as u64;
        let heads = ShadowHeap::zeros(0, bytes / ID_WORDS as u64)?;
        let (versions, running) = (Versions::new(bytes)?, Running::new());
        let (stores, starvation_lock) = (Mutex::default(), StarvationLock::default());
        let poison = Poison::default();
        Ok((Mvcc { heap, heads, versions, running, stores, starvation_lock, poison }, shape))
    }

    fn open(_path: &Path, _options: &Options) -> Result<(Self, Shape), Error> {
        Err(Error::NotDurable { design: Self::NAME })
    }

    #[inline]
    fn words(&self) -> usize {
        self.heap.heap().len()
    }

    #[inline]
    fn peek(&self, index: usize) -> u64 {
        self.heap.heap()[index].load(Ordering::Relaxed)
    }

    fn poke(&self, index: usize, value: u64) {
        self.heap.heap()[index].store(value, Ordering::Relaxed);
    }

    fn local(&self, number: usize) -> Result<Local, Error> {
        self.running.enter(number);
        let store = lock(&self.stores).pop().unwrap_or_else(Store::new);
        Ok(Local { worker: number, start: 0, writes: Writes::new(), store })
    }

    fn close_local(&self, local: &mut Local) {
        lock(&self.stores).push(std::mem::replace(&mut local.store, Store::new()));
    }

    #[inline]
    fn check(&self) -> Result<(), Error> {
        self.poison.check()
    }

    #[inline]
    fn begin(&self, local: &mut Local, _read_only: bool) -> Result<(), Error> {
        self.poison.check()?;
        local.start = self.running.start(local.worker);
        Ok(())
    }

    fn starvation_lock(&self) -> &StarvationLock {
        &self.starvation_lock
    }

    #[inline(always)]
    fn read(&self, local: &mut Local, at: At) -> Result<u64, Stop> {
        let id = id_of(at);
        Ok(self.word(self.seen(local, id), id, at.index))
    }

    #[inline]
    fn read_run(&self, local: &mut Local, at: At, out: &mut [u64]) -> Result<(), Stop> {
        let id = id_of(at);
        let version = self.seen(local, id);
        for (word, value) in out.iter_mut().enumerate() {
            *value = self.word(version, id, at.index + word);
        }
        Ok(())
    }

    #[inline]
    fn write(&self, local: &mut Local, at: At, value: u64) -> Result<(), Stop> {
        self.write_run(local, at, &[value])
    }

    #[inline]
    fn write_run(&self, local: &mut Local, at: At, values: &[u64]) -> Result<(), Stop> {
        let first = within(id_of(at), at.index);
        let header = values.first().copied().filter(|_| first == 0);
        let place = self.own(local, at, header)?;
        let object = self.versions.object(local.writes.all()[place].copy);
        for (word, value) in (first..).zip(values) {
            object.get(word).ok_or(Stop::BadPointer)?.store(*value, Ordering::Relaxed);
            local.writes.mark(place, word);
        }
        Ok(())
    }

    fn protect(&self, local: &mut Local, at: At) -> Result<(), Stop> {
        self.own(local, at, None).map(drop)
    }

    #[inline]
    fn will_read(&self, index: usize, words: usize) {
        // Usually the first word of an object, whose list head is read first.
        medium::cpu::prefetch_read(self.heads.heap(), index / ID_WORDS);
        let _ = words;
    }

    #[inline]
    fn will_write(&self, index: usize, words: usize) {
        self.will_read(index, words);
    }

    #[inline]
    fn words_written(&self, local: &Local) -> usize {
        local.writes.words()
    }

    #[inline]
    fn commit(&self, local: &mut Local) -> Result<TxId, Stop> {
        #[cfg(test)]
        point(Point::Begun);
        let all = local.writes.all();
        if all.is_empty() {
            self.end(local);
            return Ok(TxId(local.start));
        }
        if let Some(refused) = all.iter().position(|write| !self.lock(write)) {
            // Releases the locks taken so far. `roll_back` frees the copies.
            for write in &all[..refused] {
                let head = &self.heads.heap()[write.id];
                head.store(write.from.as_head(), Ordering::Release);
            }
            return Err(Stop::Conflict);
        }
        let time = self.running.next_time();
        #[cfg(test)]
        point(Point::Assigned);
        self.publish(local, time);
        #[cfg(test)]
        point(Point::Recorded);
        // Ended before the search, so that its own start does not hold versions back.
        self.end(local);
        if local.store.is_due() {
            local.store.reclaim(&self.versions, self.running.oldest());
        }
        Ok(TxId(time))
    }

    fn roll_back(&self, local: &mut Local) -> TxId {
        #[cfg(test)]
        [Point::Begun, Point::Assigned, Point::Recorded].into_iter().for_each(point);
        for write in local.writes.all() {
            local.store.discard(&self.versions, write.copy);
        }
        self.end(local);
        TxId(local.start)
    }

    fn end_panicked(&self, _local: &mut Local, step: &'static str) {
        self.poison.put(Error::StepPanicked { step });
    }

    fn committed_id(&self) -> TxId {
        TxId(self.running.now())
    }

    fn settle(&self) {
        let newest = (1..self.heads.heap().len()).map(|id| (id, self.newest(id)));
        let mut all: Vec<(usize, Version)> =
            newest.filter(|(_, version)| version.is_some()).collect();
        // Memory may have held other objects before. Its present object has the newest version.
        all.sort_unstable_by_key(|(_, version)| self.versions.time(*version));
        for (id, version) in all {
            self.poke(header_at(id) - 1, 0); // the link before the header belongs to no version
            for (word, value) in self.versions.object(version).iter().enumerate() {
                self.poke(header_at(id) + word, value.load(Ordering::Relaxed));
            }
        }
    }
}
