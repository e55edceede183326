//! `mvcc`: what comes to mind first for snapshot isolation, a list of versions for each object.
//! Nothing is durable: it is here to be compared with, as in figure 9b of the Pisces paper.
//!
//! ```text
//!   heads    by object ID      version             version
//!            | v, lock | --->  | time | before | ---> | time | before |
//!                              | header, words |      | header, words |
//! ```
//!
//! A read takes the newest version that is not newer than its transaction's start, by way of the
//! list's head: two memory accesses more than the word itself. The first write to an object copies
//! all of it. A commit locks the objects that it has copied, refuses where somebody else has
//! committed a version since its start, draws its time, puts the copies into the lists, and
//! unlocks. A reader waits at an object that is locked, for it cannot know which time its writer
//! will draw. What no version is of is read from the heap, which only [`settle`](Design::settle)
//! writes.
//!
//! Isolation is snapshot isolation. An object's ID is the place of its first word by 16 bytes; how
//! far it extends says its header, which is in its versions like every other word of it.
//!
//! Invariants:
//! - An object has a lock and a time drawn for it only between a commit's first lock and its last
//!   unlock; who holds locks waits for nobody.
//! - A version stays until no transaction can read it: see [`versions`] and [`running`].
//!
//! (Pisces, section 2.2.)

mod running;
#[cfg(test)]
mod tests;
mod versions;
mod writes;

use std::path::Path;

use lw_alloc::header::extent_bytes;
use words::{Stop, TxId};

use crate::design::{At, Design};
use crate::perform::Gate;
use crate::pool::Shape;
use crate::shadow::ShadowHeap;
use crate::sync::{Mutex, Ordering, lock, spin_loop, thread};
use crate::{Error, Options};
use running::Running;
use versions::{Store, Version, Versions, WORDS_MAX};
use writes::{Write, Writes};

/// Words between two objects' IDs.
const ID_WORDS: usize = 2;

/// The bit of a head that says that its object is being committed.
const LOCKED: u64 = 1;

/// How often who waits for a lock looks before it leaves its core to others.
const SPINS: u32 = 100;

/// Multi-version concurrency control in memory.
pub struct Mvcc {
    home: ShadowHeap,
    /// For each ID the newest version of its object, and a lock.
    heads: ShadowHeap,
    versions: Versions,
    running: Running,
    /// Of workers that have left.
    stores: Mutex<Vec<Store>>,
    gate: Gate,
}

/// What one worker owns.
pub struct Local {
    worker: usize,
    start: u64,
    writes: Writes,
    store: Store,
}

/// The ID of an object.
#[inline(always)]
fn id_of(at: At) -> usize {
    at.object / ID_WORDS
}

/// Where a word is in a version of the object: far away if it is none of its words.
#[inline(always)]
fn within(id: usize, index: usize) -> usize {
    index.wrapping_sub(header_at(id))
}

/// Where the header word of an object is: the first word of its versions.
#[inline(always)]
fn header_at(id: usize) -> usize {
    ID_WORDS * id - 1
}

impl Mvcc {
    /// The newest version of an object; waits until nobody commits it.
    #[inline(always)]
    fn newest(&self, id: usize) -> Version {
        // Acquire: pairs with the Release of whoever has put it there, so that its words are seen.
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

    /// The version that a transaction reads.
    #[inline(always)]
    fn visible(&self, id: usize, start: u64) -> Version {
        let mut version = self.newest(id);
        while version.is_some() && self.versions.time(version) > start {
            version = self.versions.before(version);
        }
        version
    }

    /// The version or copy that a transaction reads.
    #[inline(always)]
    fn seen(&self, local: &Local, id: usize) -> Version {
        match local.writes.find(id) {
            Some(at) => local.writes.all()[at].copy,
            None => self.visible(id, local.start),
        }
    }

    /// A word of the object, or where it has no version, of the heap.
    #[inline(always)]
    fn word(&self, version: Version, id: usize, index: usize) -> u64 {
        if version.is_some()
            && let Some(word) = self.versions.object(version).get(within(id, index))
        {
            return word.load(Ordering::Relaxed);
        }
        self.peek(index)
    }

    /// Where the object's copy is among those of the transaction: made if it is not there.
    /// `header`: the header that is about to be written.
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
                    return Err(Stop::Conflict); // the first one to commit has won
                }
                (newest, newest)
            }
        };
        let extent = |header: u64| self.words_of(id, header);
        let words = header.and_then(extent);
        let words = words.or_else(|| extent(self.word(seen, id, header_at(id))));
        let words = match found {
            // It becomes another object, maybe, or none.
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
                store.drop_unseen(&self.versions, seen);
                writes.replace(at, copy);
                at
            }
            None => writes.add(id, copy, from),
        })
    }

    /// Words of an object with this header, the header word included, if it is one that the heap
    /// has room for and no longer than any.
    fn words_of(&self, id: usize, header: u64) -> Option<usize> {
        let bytes = extent_bytes(header, 8 * (ID_WORDS * id) as u64)?;
        let words = 1 + bytes.div_ceil(8) as usize;
        let fits = words <= WORDS_MAX && header_at(id) + words <= self.words();
        fits.then_some(words)
    }

    /// Locks the object for its commit, if the version that was copied is still the newest.
    #[inline]
    fn lock(&self, write: &Write) -> bool {
        let (open, head) = (write.from.as_head(), &self.heads.heap()[write.id]);
        // The version cannot have gone and come again meanwhile: this transaction keeps it.
        // Acquire: pairs with who has unlocked it last.
        head.compare_exchange(open, open | LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Puts the copies, whose objects are locked, into the lists.
    fn publish(&self, local: &mut Local, time: u64) {
        for write in local.writes.all() {
            self.versions.set_time(write.copy, time);
            // Release: who finds the copy sees its words.
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
        let (home, shape) = Shape::in_memory(options)?;
        let bytes = 8 * home.heap().len() as u64;
        let heads = ShadowHeap::zeros(bytes / ID_WORDS as u64)?;
        let (versions, running) = (Versions::new(bytes)?, Running::new());
        let (stores, gate) = (Mutex::default(), Gate::default());
        Ok((Mvcc { home, heads, versions, running, stores, gate }, shape))
    }

    fn open(_path: &Path, _options: &Options) -> Result<(Self, Shape), Error> {
        Err(Error::NotDurable { design: Self::NAME })
    }

    #[inline]
    fn words(&self) -> usize {
        self.home.heap().len()
    }

    #[inline]
    fn peek(&self, index: usize) -> u64 {
        self.home.heap()[index].load(Ordering::Relaxed)
    }

    fn poke(&self, index: usize, value: u64) {
        self.home.heap()[index].store(value, Ordering::Relaxed);
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
    fn begin(&self, local: &mut Local, _read_only: bool) -> Result<(), Error> {
        local.start = self.running.start(local.worker);
        Ok(())
    }

    fn gate(&self) -> &Gate {
        &self.gate
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
        // The first word of an object, mostly: its list is what is read first.
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
        let all = local.writes.all();
        if all.is_empty() {
            self.end(local);
            return Ok(TxId(local.start));
        }
        if let Some(refused) = all.iter().position(|write| !self.lock(write)) {
            for write in &all[..refused] {
                let head = &self.heads.heap()[write.id];
                head.store(write.from.as_head(), Ordering::Release);
            }
            return Err(Stop::Conflict);
        }
        let time = self.running.draw();
        self.publish(local, time);
        self.end(local);
        if local.store.is_due() {
            local.store.reclaim(&self.versions, self.running.oldest());
        }
        Ok(TxId(time))
    }

    fn roll_back(&self, local: &mut Local) -> TxId {
        for write in local.writes.all() {
            local.store.drop_unseen(&self.versions, write.copy);
        }
        self.end(local);
        TxId(local.start)
    }

    fn committed_id(&self) -> TxId {
        TxId(self.running.now())
    }

    fn settle(&self) {
        let newest = (1..self.heads.heap().len()).map(|id| (id, self.newest(id)));
        let mut all: Vec<(usize, Version)> =
            newest.filter(|(_, version)| version.is_some()).collect();
        // Memory may have been of other objects before: who has it has written it last.
        all.sort_unstable_by_key(|(_, version)| self.versions.time(*version));
        for (id, version) in all {
            self.poke(header_at(id) - 1, 0); // the link before the header, which is in no version
            for (word, value) in self.versions.object(version).iter().enumerate() {
                self.poke(header_at(id) + word, value.load(Ordering::Relaxed));
            }
        }
    }
}
