//! Persist: from the volatile rings to the log; advances the durable ID.
//!
//! ```text
//!   rings --merge up to the frontier--> gathered --pack--> ready --place, send--> under way
//!                                                                                    |
//!         reproduced from memory  <-- queue  <-- durable ID  <-------acknowledge------+
//! ```
//!
//! | stage | threads | order |
//! |---|---|---|
//! | merge | one: holds `sending` | by ID |
//! | pack: combine, compress, checksum | as many as are asked for | any |
//! | place in the log | one: holds `sending` | by ID |
//! | send to a device | one: holds `sending` | by ID |
//! | store to memory | as pack | any |
//! | acknowledge | one | by ID |
//!
//! With one persist thread a group goes through all of it while `sending` is held. With more, who
//! has taken a group off leaves the lock to pack it, and comes back to place it and what others
//! have packed behind it: nobody waits for anybody, but groups get their places in order.
//!
//! [`Persist::send`] and [`Persist::acknowledge`] are plain functions that any thread may call:
//! background threads do nothing but call them, and whoever waits helps by calling them too. One
//! thread at a time is in each; one that finds the second taken waits for its end and looks again.
//! So one thread sleeps until the device has written a group while others send the next.
//!
//! Invariants:
//! - Groups get their places in the log, and are acknowledged, in ID order.
//! - `flights` holds what has a place and nobody has acknowledged, in that order.
//! - The durable ID grows only after the barrier behind every record up to it.
//!
//! (DudeTM, section 3.3. The paper writes each thread's log by itself and lets the reproduce step
//! put them in order; merging here costs one pass over the record heads, and makes a flush shared
//! by all workers, recovery a straight scan, and reproduction free of any merge.)

pub(crate) mod background;
pub(crate) mod due;
pub(crate) mod flights;
pub(crate) mod frontier;
pub(crate) mod grouping;
pub(crate) mod help;
pub(crate) mod line;
pub(crate) mod listeners;
pub(crate) mod merge;
pub(crate) mod progress;
pub(crate) mod queue;
pub(crate) mod redo;
pub(crate) mod wake;

use std::collections::VecDeque;

use lw_log::{GROUP_HEADER_WORDS, Group, Identity, Packed, PersistentRing, Ring};
use medium::mutants::{Mutant, planted};
use medium::{Buffer, LogMedium, Memory};
use words::TxId;

use crate::Error;
use crate::metrics::{Meter, StepTimer};
use crate::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, lock};
pub(crate) use background::{Background, Bells, NAP, Others, Steps, Waiting};
use flights::Flights;
use frontier::frontier;
use grouping::{Fit, GATHERED_WORDS, Opened, Packer};
pub(crate) use grouping::{Grouping, UNPAUSED_BYTES};
pub(crate) use help::{Step, Turn, help_until, in_turn, take_turn};
use line::{Job, Line};
pub(crate) use listeners::Listeners;
pub use listeners::{Listener, Registration};
use merge::Merge;
pub(crate) use progress::{InTurn, Progress};
use queue::Flight;
pub(crate) use queue::{Queue, Queued};
pub(crate) use redo::UNBOUNDED_WORDS;
use redo::given_back;
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
    flights: Flights,
    /// Held while groups are acknowledged.
    acknowledging: Mutex<()>,
    pub(crate) queue: Queue,
    /// The last group found no room in the log.
    log_full: AtomicBool,
    /// Words that a group is closed at, before it is combined.
    gathered_words: usize,
    fit: Fit,
    grouping: Grouping,
    /// Somebody waits for this ID: groups up to it are not held back to grow.
    hurried: AtomicU64,
    /// There is a group for another persist thread.
    pub(crate) more: Event,
    pub(crate) meter: Meter,
}

/// What only the thread that sends touches.
struct Sending {
    log: PersistentRing,
    /// The last transaction that is in `pending` or was sent.
    merged: u64,
    /// Merged and not yet taken off: not empty only while it may grow, or when the log or the
    /// medium had no room.
    pending: Group,
    /// Whether more is published than `pending` took.
    closed: bool,
    opened: Opened,
    merge: Merge,
    /// Taken off and without a place yet.
    line: Line,
    /// Bytes of writes that have got a place.
    plain: u64,
}

/// A group that has its place and is not in it yet.
struct Placed {
    at: u64,
    packed: Packed,
    flight: Flight,
}

/// Words that wait for the persist step when its thread has a core: what the fastest worker writes
/// in a few naps. More of them mean that the thread does not get it.
const USUAL_WORDS: u64 = 512 * 1024 / 8;

/// Words that wait when there are as many workers as cores. Then the thread runs at the cost of a
/// worker, so workers persist inline, and early: the work is the same, and commits are durable
/// sooner. Measured with two workers on two cores, `lastword run tatp-hash --threads 2 --medium
/// emulated`, three runs each, with 16, 64, 512 and 4096 KiB: 5.5, 5.5, 6.1 and 5.9 M/s, durable in
/// p50 0.09, 0.37, 0.72 and 0.73 ms, p99 1.7, 2.9, 5.7 and 7.1 ms; hashtable 5.2, 5.3, 5.4, 5.4
/// M/s.
const CROWDED_WORDS: u64 = 64 * 1024 / 8;

impl Persist {
    pub(crate) fn new(
        medium: Arc<dyn LogMedium>,
        identity: Identity,
        durable: TxId,
        grouping: Grouping,
    ) -> Persist {
        // Half the log at most, so that a group always fits; see `words_max`.
        let words_max = (medium.bytes() / 2) as usize / 8;
        let group_words = grouping.words().min(words_max);
        // As much as half a log of full groups takes: the queue is usually no longer.
        let spare_max = words_max / group_words + medium.depth() + 2;
        let queue = Queue::new(group_words, spare_max);
        let payload_words_max = words_max - GROUP_HEADER_WORDS;
        let fit = Fit { block_words: medium.block_bytes() / 8, payload_words_max };
        let sending = Sending {
            log: PersistentRing::new(Arc::clone(&medium), identity),
            merged: durable.0,
            pending: Group::new(queue.memory()),
            closed: false,
            opened: Opened::default(),
            merge: Merge::default(),
            line: Line::default(),
            plain: 0,
        };
        Persist {
            progress: Progress::new(durable.0),
            slots: Mutex::default(),
            workers: AtomicUsize::new(0),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            medium,
            sending: Mutex::new(sending),
            flights: Flights::default(),
            acknowledging: Mutex::default(),
            queue,
            log_full: AtomicBool::new(false),
            gathered_words: if grouping.combines() { GATHERED_WORDS } else { group_words },
            fit,
            grouping,
            hurried: AtomicU64::new(0),
            more: Event::default(),
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
        let bytes = 8 * ring_words as u64;
        let memory = match ring_words {
            UNBOUNDED_WORDS => Memory::unreserved(bytes)?,
            _ => Memory::anonymous(bytes)?,
        };
        let slot = Arc::new(Slot::new(Ring::new(memory)));
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

    /// Words of a worker's that may wait for the persist step: when there are more, it helps.
    pub(crate) fn usual_words(&self) -> u64 {
        let is_crowded = self.workers.load(Ordering::Relaxed) >= self.cores;
        match self.grouping.unpaused {
            // That thread is reproducing, or does not keep up. What this worker sends itself is
            // durable at once, and the other can go on.
            true => self.grouping.words() as u64,
            false if is_crowded => CROWDED_WORDS,
            false => USUAL_WORDS,
        }
    }

    /// Whether the thread behind does not pause, and reproduces as well.
    pub(crate) fn is_unpaused(&self) -> bool {
        self.grouping.unpaused
    }

    /// The largest ID such that it and all before it survive a crash.
    #[inline]
    pub(crate) fn durable(&self) -> TxId {
        TxId(self.progress.durable())
    }

    /// Somebody waits for `id`: the group that it is in is closed by the next step, and not held
    /// back to grow.
    pub(crate) fn hurry(&self, id: TxId) {
        if self.grouping.combines() {
            // Release: the step that sees it finds the record of that ID published. Pairs with the
            // load in `is_due`.
            self.hurried.fetch_max(id.0, Ordering::Release);
        }
    }

    /// Whether groups are combined.
    pub(crate) fn combines(&self) -> bool {
        self.grouping.combines()
    }

    /// Threads that make groups ready at a time.
    pub(crate) fn threads(&self) -> usize {
        self.grouping.threads
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
        self.progress.check()?;
        let turn = self.turn();
        let (mut job, mut placed) = (None, Vec::new());
        let step = take_turn(&self.sending, &self.progress, turn, |sending, turn| {
            self.metered(timer, turn, || {
                self.gather(sending, clock);
                self.take_off(sending, &mut job, &mut placed)
            })
        })?;
        if job.is_none() && placed.is_empty() {
            return Ok(step);
        }
        // Its end wakes who has found nothing to do because this thread is at it.
        in_turn(&self.progress, Turn::Awaited, |turn| {
            self.metered(timer, turn, || self.finish(job, placed))
        })?;
        Ok(step)
    }

    /// Whether anybody sleeps until another thread's look for something to send is over.
    pub(crate) fn turn(&self) -> Turn {
        // Where groups are under way, whoever finds `sending` taken goes on to acknowledge them;
        // where other threads pack or store them, it tries again, for the lock is held to take off
        // and to place alone, and sleeps only when it has seen them at it, until their `in_turn` is
        // over. Were it woken whenever somebody has looked in vain for something to send, it would
        // look itself, and wake the next: a storm, while the device or the others take their time,
        // and where the look has itself moved the epoch, nobody would sleep at all.
        match self.is_memory() && self.grouping.threads == 1 {
            true => Turn::Awaited,
            false => Turn::Passing,
        }
    }

    /// Runs a part of a step: takes its time, and poisons the pool when it fails or panics.
    fn metered<R>(
        &self,
        timer: StepTimer,
        turn: &InTurn<'_>,
        part: impl FnOnce() -> Result<R, medium::Error>,
    ) -> Result<R, Error> {
        let panic = turn.on_panic("persist");
        let started = timer.start();
        let done = part();
        self.meter.persist.add(&started);
        panic.disarm();
        done.map_err(|error| turn.fail(error.into()))
    }

    /// Merges what is published into the pending group.
    fn gather(&self, sending: &mut Sending, clock: &AtomicU64) {
        // The clock before the slots: see `frontier`. Acquire: pairs with the addition that drew.
        let now = clock.load(Ordering::Acquire);
        if now == sending.merged {
            return;
        }
        let mut slots = lock(&self.slots);
        let Sending { merge, merged, pending, closed, opened, .. } = sending;
        let frontier = frontier(clock, &slots, now, &mut merge.cursors);
        let unbounded = without_bound(&slots);
        // A group that waits for room takes more until it is full.
        if frontier > *merged && pending.words() < self.gathered_words {
            let last = self.last_of(pending, *merged).min(frontier);
            if pending.is_empty() && self.grouping.combines() {
                opened.begin(&self.grouping);
            }
            if last > *merged {
                merge.run(&slots, *merged, last, pending, self.gathered_words);
            }
            if !pending.is_empty() {
                *merged = pending.last().0;
            }
            *closed = *merged < frontier;
        }
        for (slot, before) in unbounded {
            // Behind the cursor: nobody reads it any more, and the worker is a lap away.
            let words = given_back(before, slot.ring.taken());
            words.for_each(|words| slot.ring.storage().release(words));
        }
        // The space of a dead worker's ring is needed no longer once it is drained.
        slots.retain(|slot| !slot.is_done());
    }

    /// Takes the pending group off, if it is due and there is room for it, and sends it; with
    /// several threads, hands it out to be packed when the lock is free.
    fn take_off(
        &self,
        sending: &mut Sending,
        job: &mut Option<Job>,
        placed: &mut Vec<Placed>,
    ) -> Result<Step, medium::Error> {
        if let Some(step) = self.place_all(sending, placed)? {
            return Ok(step);
        }
        if sending.pending.is_empty() {
            // In memory, what is under way is stored by others; who has a device acknowledges it.
            let stored = self.is_memory() && !self.flights.is_empty();
            let others = stored || !sending.line.is_empty();
            return Ok(if others { Step::Working } else { Step::Nothing });
        }
        let (full, due) = self.is_due(sending);
        if !due {
            return Ok(Step::Nothing);
        }
        if !self.may_fly(sending, full) {
            return Ok(Step::Deep);
        }
        let apart = self.grouping.threads > 1;
        if apart && sending.line.working() >= self.grouping.threads {
            return Ok(Step::Working);
        }
        // Of a combined group the size is known only when it is packed.
        let has_room = self.grouping.combines()
            || sending.log.has_room(sending.pending.words(), &self.queue.tail);
        // Relaxed: only tells that a reproduce step is wanted; see `Pipeline::is_due`.
        self.log_full.store(!has_room, Ordering::Relaxed);
        if !has_room {
            return Ok(Step::LogFull);
        }
        let Sending { line, pending, closed, .. } = sending;
        let mut packer = line.packer();
        let memory = if self.grouping.combines() { packer.memory() } else { self.queue.memory() };
        let gathered = std::mem::replace(pending, Group::new(memory));
        *closed = false;
        self.meter.gathered(8 * gathered.words() as u64);
        if apart {
            *job = Some(line.hand_out(gathered, packer));
            if full {
                self.more.notify();
            }
            return Ok(if full { Step::More } else { Step::Done });
        }
        self.pack(gathered, &mut packer, &mut line.ready);
        line.put_back(packer);
        let stopped = self.place_all(sending, placed)?;
        Ok(stopped.unwrap_or(if full { Step::More } else { Step::Done }))
    }

    fn pack(&self, gathered: Group, packer: &mut Packer, out: &mut VecDeque<Packed>) {
        packer.pack(gathered, &self.grouping, self.fit, || self.queue.memory(), out);
    }

    /// What is done without the lock when there are several threads: packs a group, and stores
    /// what has got its place.
    fn finish(&self, job: Option<Job>, mut placed: Vec<Placed>) -> Result<(), medium::Error> {
        if let Some(Job { number, gathered, mut packer }) = job {
            let mut ready = VecDeque::new();
            self.pack(gathered, &mut packer, &mut ready);
            let mut sending = lock(&self.sending);
            sending.line.hand_in(number, ready);
            sending.line.put_back(packer);
            self.place_all(&mut sending, &mut placed)?;
        }
        placed.into_iter().try_for_each(|placed| self.store(placed))
    }

    /// Gives all groups that are ready their places, as far as there is room; answers what there
    /// was no room in. Sends them, or hands them out to be stored when the lock is free.
    fn place_all(
        &self,
        sending: &mut Sending,
        placed: &mut Vec<Placed>,
    ) -> Result<Option<Step>, medium::Error> {
        let Sending { log, line, plain, .. } = sending;
        while let Some(front) = line.ready.front() {
            let behind = *plain + 8 * (front.plain_words() - GROUP_HEADER_WORDS) as u64;
            let has_room = log.has_room(front.words(), &self.queue.tail) && self.has_memory(behind);
            // Relaxed: as in `take_off`.
            self.log_full.store(!has_room, Ordering::Relaxed);
            if !has_room {
                return Ok(Some(Step::LogFull));
            }
            if !self.is_memory() && self.flights.oldest().0 >= self.medium.depth() {
                return Ok(Some(Step::Deep));
            }
            let mut packed = line.ready.pop_front().expect("it is there");
            let (first, last, words) = (packed.first(), packed.last(), packed.plain_words());
            *plain = behind;
            let place = log.place(&mut packed, self.queue.end());
            self.meter.placed(8 * words as u64, 8 * packed.words_used() as u64);
            let flight = Flight { first, last, words, end: place.end };
            if planted(Mutant::HomeBeforeLog) {
                self.queue.push(copy_of(&packed), flight);
            }
            let next = Placed { at: place.at, packed, flight };
            match self.grouping.threads > 1 && self.is_memory() {
                true => {
                    // In order, while the lock is held: they land in any.
                    self.flights.begin(flight, None);
                    placed.push(next);
                }
                false => self.send_in_order(next)?,
            }
        }
        Ok(None)
    }

    /// Sends a group while `sending` is held: whoever sends next comes behind it.
    fn send_in_order(&self, placed: Placed) -> Result<(), medium::Error> {
        let Placed { at, packed, flight } = placed;
        let words = packed.words();
        let (image, plain) = packed.into_image();
        if self.is_memory() {
            let memory = self.medium.append(at, image, words)?;
            self.acknowledged(memory.expect("memory is durable at once"), plain, flight);
            return Ok(());
        }
        self.flights.begin(flight, plain);
        let durable = self.medium.append(at, image, words)?;
        debug_assert!(durable.is_none(), "a device acknowledges");
        Ok(())
    }

    /// Stores a group to memory beside others, and acknowledges what is durable up to there.
    fn store(&self, placed: Placed) -> Result<(), medium::Error> {
        let Placed { at, packed, flight } = placed;
        let words = packed.words();
        let (image, plain) = packed.into_image();
        let memory = self.medium.append(at, image, words)?;
        let memory = memory.expect("memory is durable at once");
        self.flights.land(flight.end, (memory, plain), |(memory, plain), flight| {
            self.acknowledged(memory, plain, flight);
        });
        Ok(())
    }

    /// Acknowledges what the medium has made durable. `wait`: at least one group, if any is under
    /// way.
    ///
    /// # Errors
    /// The medium's; the pool is poisoned then.
    pub(crate) fn acknowledge(&self, wait: bool, timer: StepTimer) -> Result<Step, Error> {
        self.progress.check()?;
        if self.is_memory() || self.flights.is_empty() {
            return Ok(Step::Nothing);
        }
        take_turn(&self.acknowledging, &self.progress, Turn::Awaited, |(), turn| {
            self.metered(timer, turn, || self.acknowledge_flights(wait))
        })
    }

    fn acknowledge_flights(&self, mut wait: bool) -> Result<Step, medium::Error> {
        let mut step = Step::Nothing;
        loop {
            if self.flights.is_empty() {
                return Ok(step);
            }
            let Some(memory) = self.medium.acknowledge(wait)? else { return Ok(step) };
            let (plain, flight) = self.flights.end_oldest();
            self.acknowledged(memory, plain, flight);
            (step, wait) = (Step::Done, false);
        }
    }

    /// A group is durable, and all before it are. `plain`: what is reproduced, when that is not
    /// what was sent.
    fn acknowledged(&self, memory: Buffer, plain: Option<Buffer>, flight: Flight) {
        // Queued before it is acknowledged: whoever drains the queue after a flush finds it there.
        if !planted(Mutant::HomeBeforeLog) {
            match plain {
                Some(plain) => {
                    self.queue.push(plain, flight);
                    self.queue.keep([memory]);
                }
                None => self.queue.push(memory, flight),
            }
        }
        if planted(Mutant::RecycledFirst) {
            self.queue.tail.store(flight.end, Ordering::Release);
        }
        self.progress.advance(flight.last);
    }

    /// What the log has cost so far, bytes of padding, laps, and words of combined groups.
    pub(crate) fn log_counts(&self) -> (medium::Counts, u64, f64, u64) {
        let sending = lock(&self.sending);
        let laps = sending.log.head() as f64 / self.medium.bytes() as f64;
        let words = sending.line.combined_words;
        (self.medium.counts(), sending.log.padding_bytes(), laps, words)
    }
}

/// The rings without bound, and where each is taken up to.
fn without_bound(slots: &[Arc<Slot>]) -> Vec<(Arc<Slot>, u64)> {
    let unbounded = slots.iter().filter(|slot| slot.ring.capacity() == UNBOUNDED_WORDS);
    unbounded.map(|slot| (Arc::clone(slot), slot.ring.taken())).collect()
}

/// For a mutant: a group's writes, as the queue takes them.
fn copy_of(packed: &Packed) -> Buffer {
    let mut copy = Buffer::new(packed.plain_words());
    copy.words_mut()[GROUP_HEADER_WORDS..packed.plain_words()]
        .copy_from_slice(packed.plain_payload());
    copy
}
