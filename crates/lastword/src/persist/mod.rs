//! Persist: from the volatile rings to the log; advances the durable ID.
//!
//! ```text
//!   rings --merge up to the frontier--> group --append, one barrier--> log
//!                                         |
//!                                         +--> queue, to be reproduced from memory
//! ```
//!
//! [`Persist::step`] is a plain function that any thread may call: background threads do nothing
//! but call it, and whoever waits helps by calling it too. One thread at a time is in it; one that
//! finds it taken waits for its end and looks again, because its own record may have come too late.
//!
//! Invariants:
//! - The durable ID only grows, and only after the barrier behind every record up to it.
//! - Groups enter the queue in ID order, after they are durable.
//!
//! (DudeTM, section 3.3. The paper writes each thread's log by itself and lets the reproduce step
//! put them in order; merging here costs one pass over the record heads, and makes a flush shared
//! by all workers, recovery a straight scan, and reproduction free of any merge.)

mod background;
pub(crate) mod frontier;
mod help;
mod merge;
mod redo;
mod wake;

use std::collections::VecDeque;

use crossbeam_utils::CachePadded;
use lw_log::{Group, PersistentRing, Ring};
use medium::Memory;
use words::TxId;

use crate::Error;
use crate::metrics::{Meter, StepTimer};
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering, lock};
pub(crate) use background::{Background, Bells, Steps};
use frontier::frontier;
pub(crate) use help::{Step, help_until, take_turn};
use merge::Merge;
pub(crate) use wake::Event;

/// A worker's slot, over real memory.
pub(crate) type Slot = frontier::Slot<Memory>;

/// A worker's redo log, over real memory.
pub(crate) type RingRedo = redo::RingRedo<Memory>;

/// The writes of some neighbouring groups that are durable in the log and not yet at home.
pub(crate) struct Queued {
    /// Their payloads, one after the other, as [`medium::writes`].
    pub(crate) writes: Vec<u64>,
    /// The first transaction.
    pub(crate) first: u64,
    /// The last transaction.
    pub(crate) last: u64,
    /// The sequence of the log behind them.
    pub(crate) end: u64,
}

/// The persist step of one pool.
pub(crate) struct Persist {
    durable: CachePadded<AtomicU64>,
    slots: Mutex<Vec<Arc<Slot>>>,
    state: Mutex<State>,
    queue: Mutex<VecDeque<Queued>>,
    /// Bytes of log in the queue.
    queued_bytes: AtomicU64,
    /// The last group found no room in the log.
    log_full: AtomicBool,
    /// Words that a group is closed at.
    group_words: usize,
    /// Most pieces of memory that are kept.
    spare_max: usize,
    /// Memory of writes that have been reproduced, to be used again.
    spare: Mutex<Vec<Vec<u64>>>,
    /// The sequence up to which the log is recycled.
    pub(crate) tail: AtomicU64,
    /// Happens after every step, of persist and of reproduce.
    pub(crate) progress: Event,
    pub(crate) poison: crate::poison::Poison,
    pub(crate) meter: Meter,
}

/// What only one thread at a time touches.
struct State {
    log: PersistentRing,
    /// The last transaction that is in `pending` or durable.
    merged: u64,
    /// Merged and not yet appended: not empty only when the log was full.
    pending: Group,
    merge: Merge,
}

/// Words of a group that is not closed for another reason: 256 KiB, where the device's time a byte
/// is nearly that of 1 MiB (PERFORMANCE, disk) and the group is still in the L2 cache when it is
/// reproduced.
const GROUP_WORDS: usize = 256 * 1024 / 8;

impl Persist {
    pub(crate) fn new(log: PersistentRing, durable: TxId) -> Persist {
        // Half the log at most, so that a group always fits; see `words_max`.
        let group_words = GROUP_WORDS.min((log.bytes() / 2) as usize / 8);
        let spare_max = (log.bytes() / 2) as usize / 8 / group_words + 2;
        let pending = Group::new(group_words);
        let merge = Merge::default();
        Persist {
            durable: CachePadded::new(AtomicU64::new(durable.0)),
            slots: Mutex::default(),
            state: Mutex::new(State { log, merged: durable.0, pending, merge }),
            queue: Mutex::default(),
            queued_bytes: AtomicU64::new(0),
            log_full: AtomicBool::new(false),
            group_words,
            spare_max,
            spare: Mutex::default(),
            tail: AtomicU64::new(0),
            progress: Event::default(),
            poison: crate::poison::Poison::default(),
            meter: Meter::default(),
        }
    }

    /// Most words that a transaction may write so that its group can always be appended: half the
    /// log, because a lap's rest that is too short is skipped.
    pub(crate) fn words_max(log_bytes: u64, ring_words: usize) -> usize {
        let log_words = (log_bytes / 2).saturating_sub(4096) as usize / 8;
        let record_words = log_words.min(ring_words - 2 * lw_log::RECORD_HEAD_WORDS);
        record_words.min(lw_log::RECORD_WORDS_MAX) / 2
    }

    /// Registers a worker with a ring of so many words.
    pub(crate) fn register(&self, ring_words: usize) -> Result<Arc<Slot>, Error> {
        let slot = Arc::new(Slot::new(Ring::new(Memory::anonymous(8 * ring_words as u64)?)));
        let mut slots = lock(&self.slots);
        // Steps that find nothing to do look at no slots: without this, workers that come and go
        // between two commits would pile up.
        slots.retain(|slot| !slot.is_done());
        slots.push(Arc::clone(&slot));
        Ok(slot)
    }

    /// The largest ID such that it and all before it survive a crash.
    #[inline]
    pub(crate) fn durable(&self) -> TxId {
        // Acquire: pairs with the Release in `append`.
        TxId(self.durable.load(Ordering::Acquire))
    }

    /// Whether a group waits for room in the log.
    pub(crate) fn is_log_full(&self) -> bool {
        self.log_full.load(Ordering::Relaxed)
    }

    /// Bytes of log that wait for reproduction.
    pub(crate) fn queued_bytes(&self) -> u64 {
        self.queued_bytes.load(Ordering::Relaxed)
    }

    /// Makes one group durable, of whatever is committed. `timer` books the time.
    ///
    /// # Errors
    /// The medium's; the pool is poisoned then.
    pub(crate) fn step(&self, clock: &AtomicU64, timer: StepTimer) -> Result<Step, Error> {
        self.poison.check()?;
        take_turn(&self.state, &self.progress, |state| {
            let _panic = self.poison.on_panic("persist");
            let started = timer.start();
            self.gather(state, clock);
            let step = if state.pending.is_empty() {
                Ok(Step::Nothing)
            } else {
                self.append(state).map_err(|error| self.poison.put(error.into()))
            };
            self.meter.persist.add(&started);
            step
        })
    }

    /// Merges what is published into the pending group.
    fn gather(&self, state: &mut State, clock: &AtomicU64) {
        // The clock before the slots: see `frontier`. Acquire: pairs with the addition that drew.
        let now = clock.load(Ordering::Acquire);
        if now == state.merged {
            return;
        }
        let mut slots = lock(&self.slots);
        let merge = &mut state.merge;
        let frontier = frontier(clock, &slots, now, &mut merge.cursors);
        // A group that waits for room in the log takes more until it is full.
        if frontier > state.merged && state.pending.words() < self.group_words {
            merge.run(&slots, state.merged, frontier, &mut state.pending, self.group_words);
            if !state.pending.is_empty() {
                state.merged = state.pending.last().0;
            }
        }
        // The space of a dead worker's ring is needed no longer once it is drained.
        slots.retain(|slot| !slot.is_done());
    }

    /// Appends the pending group and moves the durable ID.
    fn append(&self, state: &mut State) -> Result<Step, medium::Error> {
        let before = state.log.head();
        let appended = state.log.append(&mut state.pending, &self.tail)?;
        // Relaxed: only tells that a reproduce step is wanted; see `Pipeline::is_due`.
        self.log_full.store(appended.is_err(), Ordering::Relaxed);
        let Ok(end) = appended else { return Ok(Step::LogFull) };
        let (words, last) = (state.pending.words(), state.pending.last());
        self.meter.logged(8 * words as u64, end - before);
        // Queued before it is acknowledged: whoever drains the queue after a flush finds it there.
        self.enqueue(&state.pending, end);
        self.queued_bytes.fetch_add(end - before, Ordering::Relaxed);
        state.pending.clear();
        // Release: whoever sees `durable >= id` also sees everything that led to it (an error that
        // was set, the queue). Pairs with `durable`.
        self.durable.store(last.0, Ordering::Release);
        // A group that is closed for its size is nearly full.
        Ok(if words > self.group_words / 4 * 3 { Step::More } else { Step::Done })
    }

    /// Copies a group's writes to the end of the queue. Small groups share memory: when every
    /// commit is waited for there are thousands of them, each a block of the log and a few words of
    /// writes.
    fn enqueue(&self, group: &Group, end: u64) {
        let mut queue = lock(&self.queue);
        let (writes, last) = (group.payload(), group.last().0);
        if let Some(back) = queue.back_mut()
            && back.writes.len() + writes.len() <= back.writes.capacity()
        {
            back.writes.extend_from_slice(writes);
            (back.last, back.end) = (last, end);
            return;
        }
        let mut memory = lock(&self.spare).pop().unwrap_or_default();
        memory.reserve(writes.len().max(self.group_words));
        memory.extend_from_slice(writes);
        queue.push_back(Queued { writes: memory, first: group.first().0, last, end });
    }

    /// Takes groups off the queue, oldest first, up to so many bytes of log (at least one group).
    pub(crate) fn dequeue(&self, bytes: u64) -> Vec<Queued> {
        let mut queue = lock(&self.queue);
        let Some(first) = queue.front() else { return Vec::new() };
        let limit = first.end + bytes;
        let count = queue.iter().take_while(|queued| queued.end <= limit).count();
        queue.drain(..count).collect()
    }

    /// Gives reproduced groups back. `end` is the sequence behind the last.
    pub(crate) fn recycle(&self, groups: Vec<Queued>, end: u64) {
        // Release: the appender overwrites the log up to here once it sees this; everything that
        // made it safe comes before. Pairs with the Acquire in `PersistentRing::append`.
        let before = self.tail.swap(end, Ordering::Release);
        self.queued_bytes.fetch_sub(end - before, Ordering::Relaxed);
        let mut spare = lock(&self.spare);
        // Not what a giant transaction needed once.
        let usual = groups.into_iter().filter(|q| q.writes.capacity() <= 2 * self.group_words);
        spare.extend(usual.map(|mut queued| {
            queued.writes.clear();
            queued.writes
        }));
        // As much as half a log of full groups takes: the queue is usually no longer.
        spare.truncate(self.spare_max);
    }

    /// What the log has cost so far.
    pub(crate) fn log_counts(&self) -> (medium::Counts, u64, f64) {
        let state = lock(&self.state);
        let laps = state.log.head() as f64 / state.log.bytes() as f64;
        (state.log.counts(), state.log.padding_bytes(), laps)
    }
}
