//! Persist: from the volatile rings to the log; advances the durable ID.
//!
//! ```text
//!   rings --merge up to the frontier--> group --send--> under way --acknowledge--> durable
//!                                                                                    |
//!                                          queue, to be reproduced from memory  <----+
//! ```
//!
//! [`Persist::send`] and [`Persist::acknowledge`] are plain functions that any thread may call:
//! background threads do nothing but call them, and whoever waits helps by calling them too. One
//! thread at a time is in each; one that finds the second taken waits for its end and looks again.
//! So one thread sleeps until the device has written a group while others send the next.
//!
//! Invariants:
//! - Groups are sent, and acknowledged, in ID order.
//! - `flights` holds what the medium has under way and nobody has acknowledged, in that order.
//! - The durable ID grows only after the barrier behind every record up to it.
//!
//! (DudeTM, section 3.3. The paper writes each thread's log by itself and lets the reproduce step
//! put them in order; merging here costs one pass over the record heads, and makes a flush shared
//! by all workers, recovery a straight scan, and reproduction free of any merge.)

pub(crate) mod background;
pub(crate) mod frontier;
pub(crate) mod help;
pub(crate) mod merge;
pub(crate) mod progress;
pub(crate) mod queue;
pub(crate) mod redo;
pub(crate) mod wake;

use std::collections::VecDeque;

use lw_log::{GROUP_HEADER_WORDS, Group, Identity, PersistentRing, Ring};
use medium::mutants::{Mutant, planted};
use medium::{Buffer, LogMedium, Memory};
use words::TxId;

use crate::Error;
use crate::metrics::{Meter, StepTimer};
use crate::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, lock};
pub(crate) use background::{Background, Bells, Steps};
use frontier::frontier;
pub(crate) use help::{Step, Turn, help_until, take_turn};
use merge::Merge;
pub use progress::Listener;
pub(crate) use progress::Progress;
use queue::Flight;
pub(crate) use queue::{Queue, Queued};
pub(crate) use wake::Event;

/// A worker's slot, over real memory.
pub(crate) type Slot = frontier::Slot<Memory>;

/// A worker's redo log, over real memory.
pub(crate) type RingRedo = redo::RingRedo<Memory>;

/// The persist step of one pool.
pub(crate) struct Persist {
    pub(crate) progress: Progress,
    slots: Mutex<Vec<Arc<Slot>>>,
    /// Living workers.
    workers: AtomicUsize,
    cores: usize,
    medium: Arc<dyn LogMedium>,
    sending: Mutex<Sending>,
    /// Sent and not acknowledged.
    flights: Mutex<VecDeque<Flight>>,
    /// Held while groups are acknowledged.
    acknowledging: Mutex<()>,
    pub(crate) queue: Queue,
    /// The last group found no room in the log.
    log_full: AtomicBool,
    /// Words that a group is closed at.
    group_words: usize,
    pub(crate) meter: Meter,
}

/// What only the thread that sends touches.
struct Sending {
    log: PersistentRing,
    /// The last transaction that is in `pending` or was sent.
    merged: u64,
    /// Merged and not yet sent: not empty only when the log or the medium had no room.
    pending: Group,
    merge: Merge,
}

/// Words of a group that is not closed for another reason: 256 KiB, where the device's time a byte
/// is nearly that of 1 MiB (PERFORMANCE, disk) and the group is still in the L2 cache when it is
/// reproduced.
const GROUP_WORDS: usize = 256 * 1024 / 8;

/// Transactions under way up to which another small group is sent beside them. Two threads that
/// wait for each commit are not held up by each other; of more, the later ones share a write,
/// because a write of its own costs the processor more than it saves in time. Measured with
/// `lastword run tatp-hash --durability sync` (disk at 0.14 ms), 2, 16 and 64 threads: 7.8, 52 and
/// 153 k/s with one group at a time, 8.7, 49 and 148 with 2, 9.0, 45 and 139 with 8.
const EAGER_TRANSACTIONS: u64 = 2;

impl Persist {
    pub(crate) fn new(medium: Arc<dyn LogMedium>, identity: Identity, durable: TxId) -> Persist {
        // Half the log at most, so that a group always fits; see `words_max`.
        let group_words = GROUP_WORDS.min((medium.bytes() / 2) as usize / 8);
        // As much as half a log of full groups takes: the queue is usually no longer.
        let spare_max = (medium.bytes() / 2) as usize / 8 / group_words + medium.depth() + 2;
        let queue = Queue::new(group_words, spare_max);
        let sending = Sending {
            log: PersistentRing::new(Arc::clone(&medium), identity),
            merged: durable.0,
            pending: Group::new(queue.memory()),
            merge: Merge::default(),
        };
        Persist {
            progress: Progress::new(durable.0),
            slots: Mutex::default(),
            workers: AtomicUsize::new(0),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            medium,
            sending: Mutex::new(sending),
            flights: Mutex::default(),
            acknowledging: Mutex::default(),
            queue,
            log_full: AtomicBool::new(false),
            group_words,
            meter: Meter::default(),
        }
    }

    /// Most words that a transaction may write so that its group can always be sent: half the log,
    /// because a lap's rest that is too short is skipped.
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
        self.workers.fetch_add(1, Ordering::Relaxed);
        Ok(slot)
    }

    /// A worker is gone; what it has published will still be taken.
    pub(crate) fn leave(&self, slot: &Slot) {
        slot.close();
        self.workers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether no core is free for a thread beside the workers.
    pub(crate) fn is_crowded(&self) -> bool {
        self.workers.load(Ordering::Relaxed) >= self.cores
    }

    /// The largest ID such that it and all before it survive a crash.
    #[inline]
    pub(crate) fn durable(&self) -> TxId {
        TxId(self.progress.durable())
    }

    /// Whether a group waits for room in the log.
    pub(crate) fn is_log_full(&self) -> bool {
        self.log_full.load(Ordering::Relaxed)
    }

    /// Whether groups are durable as soon as they are sent.
    pub(crate) fn is_memory(&self) -> bool {
        self.medium.depth() == 0
    }

    /// Sends one group of whatever is committed. Waits for no device.
    ///
    /// # Errors
    /// The medium's; the pool is poisoned then.
    pub(crate) fn send(&self, clock: &AtomicU64, timer: StepTimer) -> Result<Step, Error> {
        self.progress.poison.check()?;
        // Where groups are under way, whoever finds this taken goes on to acknowledge them. Were it
        // woken whenever somebody has looked in vain for something to send, it would look itself,
        // and wake the next: a storm, while the device takes its time.
        let turn = if self.is_memory() { Turn::Awaited } else { Turn::Passing };
        take_turn(&self.sending, &self.progress, turn, |sending| {
            let panic = self.progress.poison.on_panic("persist");
            let started = timer.start();
            self.gather(sending, clock);
            let step = self.send_pending(sending);
            self.meter.persist.add(&started);
            panic.disarm();
            step.map_err(|error| self.progress.poison.put(error.into()))
        })
    }

    /// Merges what is published into the pending group.
    fn gather(&self, sending: &mut Sending, clock: &AtomicU64) {
        // The clock before the slots: see `frontier`. Acquire: pairs with the addition that drew.
        let now = clock.load(Ordering::Acquire);
        if now == sending.merged {
            return;
        }
        let mut slots = lock(&self.slots);
        let Sending { merge, merged, pending, .. } = sending;
        let frontier = frontier(clock, &slots, now, &mut merge.cursors);
        // A group that waits for room takes more until it is full.
        if frontier > *merged && pending.words() < self.group_words {
            merge.run(&slots, *merged, frontier, pending, self.group_words);
            if !pending.is_empty() {
                *merged = pending.last().0;
            }
        }
        // The space of a dead worker's ring is needed no longer once it is drained.
        slots.retain(|slot| !slot.is_done());
    }

    /// Sends the pending group, if there is room for it in the medium and the log.
    fn send_pending(&self, sending: &mut Sending) -> Result<Step, medium::Error> {
        let Sending { log, pending, .. } = sending;
        if pending.is_empty() {
            return Ok(Step::Nothing);
        }
        // A group that is closed for its size is nearly full.
        let full = pending.words() > self.group_words / 4 * 3;
        if !self.is_memory() && !self.may_fly(pending, full) {
            return Ok(Step::Deep);
        }
        let has_room = log.has_room(pending, &self.queue.tail);
        // Relaxed: only tells that a reproduce step is wanted; see `Pipeline::is_due`.
        self.log_full.store(!has_room, Ordering::Relaxed);
        if !has_room {
            return Ok(Step::LogFull);
        }
        let group = std::mem::replace(pending, Group::new(self.queue.memory()));
        let (first, last, words) = (group.first().0, group.last().0, group.words());
        let before = log.head();
        let early = planted(Mutant::HomeBeforeLog).then(|| copy_of(&group));
        let sent = log.append(group, self.queue.end())?;
        self.meter.logged(8 * words as u64, sent.end - before);
        let flight = Flight { first, last, words, end: sent.end };
        if let Some(early) = early {
            self.queue.push(early, flight);
        }
        match sent.durable {
            Some(buffer) => self.acknowledged(buffer, flight),
            // Before the lock of `sending` is free: whoever sends next comes behind it.
            None => lock(&self.flights).push_back(flight),
        }
        Ok(if full { Step::More } else { Step::Done })
    }

    /// Whether the medium has room for a group, and the group is worth a write of its own.
    fn may_fly(&self, group: &Group, full: bool) -> bool {
        let flights = lock(&self.flights);
        let Some(oldest) = flights.front() else { return true };
        let few = group.last().0 + 1 - oldest.first <= EAGER_TRANSACTIONS;
        (full || few) && flights.len() < self.medium.depth()
    }

    /// Acknowledges what the medium has made durable. `wait`: at least one group, if any is under
    /// way.
    ///
    /// # Errors
    /// The medium's; the pool is poisoned then.
    pub(crate) fn acknowledge(&self, wait: bool, timer: StepTimer) -> Result<Step, Error> {
        self.progress.poison.check()?;
        if self.is_memory() || lock(&self.flights).is_empty() {
            return Ok(Step::Nothing);
        }
        take_turn(&self.acknowledging, &self.progress, Turn::Awaited, |()| {
            let panic = self.progress.poison.on_panic("persist");
            let started = timer.start();
            let step = self.acknowledge_flights(wait);
            self.meter.persist.add(&started);
            panic.disarm();
            step.map_err(|error| self.progress.poison.put(error.into()))
        })
    }

    fn acknowledge_flights(&self, mut wait: bool) -> Result<Step, medium::Error> {
        let mut step = Step::Nothing;
        loop {
            let Some(flight) = lock(&self.flights).front().copied() else { return Ok(step) };
            let Some(buffer) = self.medium.acknowledge(wait)? else { return Ok(step) };
            lock(&self.flights).pop_front();
            self.acknowledged(buffer, flight);
            (step, wait) = (Step::Done, false);
        }
    }

    /// A group is durable.
    fn acknowledged(&self, buffer: Buffer, flight: Flight) {
        // Queued before it is acknowledged: whoever drains the queue after a flush finds it there.
        if !planted(Mutant::HomeBeforeLog) {
            self.queue.push(buffer, flight);
        }
        if planted(Mutant::RecycledFirst) {
            self.queue.tail.store(flight.end, Ordering::Release);
        }
        self.progress.advance(flight.last);
    }

    /// What the log has cost so far.
    pub(crate) fn log_counts(&self) -> (medium::Counts, u64, f64) {
        let sending = lock(&self.sending);
        let laps = sending.log.head() as f64 / self.medium.bytes() as f64;
        (self.medium.counts(), sending.log.padding_bytes(), laps)
    }
}

/// For a mutant: a group's writes, as the queue takes them.
fn copy_of(group: &Group) -> Buffer {
    let mut copy = Buffer::new(group.words());
    copy.words_mut()[GROUP_HEADER_WORDS..group.words()].copy_from_slice(group.payload());
    copy
}
