//! Persist: moves records from the volatile rings to the log and advances the durable ID.
//!
//! ```text
//!   rings --merge up to the frontier--> gathered --pack--> ready --place, send--> in flight
//!                                                                                    |
//!         reproduced from memory  <-- queue  <-- durable ID  <-------acknowledge-----+
//! ```
//!
//! | stage | threads | order |
//! |---|---|---|
//! | merge | one: holds `sending` | by ID |
//! | pack: combine, compress, checksum | as many as configured | any |
//! | place in the log | one: holds `sending` | by ID |
//! | send to a device | one: holds `sending` | by ID |
//! | store to memory | as pack | any |
//! | acknowledge | one | by ID |
//!
//! With one persist thread, a group passes all stages while `sending` is held. On memory it then
//! needs no packing, if it is neither combined nor compressed (`in_place`). With more, a thread
//! takes a group off, packs it without the lock, and then places it together with the packed groups
//! after it. No thread waits for another, but groups get their places in order.
//!
//! [`Persist::send`] and [`Persist::acknowledge`] are plain functions that any thread may call.
//! Background threads only call them, and waiting threads help by calling them too. Each has a lock
//! of its own, which is tried and never waited for. So one thread sleeps in `acknowledge` until the
//! device has written a group, while others send the next.
//!
//! A waiting thread that finds `acknowledge` taken sleeps until it ends, and checks again. A thread
//! that finds `send` taken tries again. Only with one persist thread on memory does it sleep, since
//! a group is durable there when `send` ends; see [`Persist::send_end`].
//!
//! Invariants:
//! - Groups get their places in the log, and are acknowledged, in ID order.
//! - `in_flight` holds the groups that are placed and not acknowledged, in that order.
//! - The durable ID grows only after the barrier for every record up to it.
//!
//! (DudeTM, section 3.3. In the paper, each thread's log is written by itself, and the reproduce
//! step orders the logs. Merging here costs one pass over the record heads. In return all workers
//! share a flush, recovery scans the log once, and reproduction needs no merge.)

pub(crate) mod background;
pub(crate) mod combiner;
pub(crate) mod event;
pub(crate) mod group_commit;
pub(crate) mod in_flight;
pub(crate) mod in_place;
pub(crate) mod known_slots;
pub(crate) mod listeners;
pub(crate) mod merge;
pub(crate) mod queue;
pub(crate) mod registration;
pub(crate) mod replicated;
pub(crate) mod rings;
pub(crate) mod slot;
pub(crate) mod waiters;

use std::collections::VecDeque;

use lw_log::{CircularLog, GROUP_HEADER_WORDS, Group, Identity, Packed, WitnessKey};
use medium::mutants::{Mutant, injected};
use medium::{Buffer, LogMedium, Memory};
use words::TxId;

use crate::Error;
use crate::metrics::{Meter, StepTimer};
use crate::rate_limit::RateLimit;
use crate::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, cores, lock};
pub(crate) use background::{Background, IDLE, NAP, Notifiers, Others, Steps, Waiting};
use combiner::Combiner;
pub(crate) use event::Event;
use group_commit::{Fit, GATHERED_WORDS, Opened, Packer, Packers, Wraps};
pub(crate) use group_commit::{Grouping, UNPAUSED_BYTES};
use in_flight::{InFlight, Job, Packing, copy_of};
use known_slots::KnownSlots;
pub(crate) use listeners::Listeners;
pub use listeners::{Listener, Registration};
use merge::Merge;
use queue::LogGroup;
pub(crate) use queue::{Queue, Queued};
use slot::frontier;
pub(crate) use waiters::{Progress, RunningStep, Step, StepEnd, help_until, run_part, try_step};
pub(crate) use {replicated::Replicated, rings::UNBOUNDED_WORDS};

/// A worker's slot, over real memory.
pub(crate) type Slot = slot::Slot<Memory>;

/// A worker's redo log, over real memory.
pub(crate) type RingRedo = slot::RingRedo<Memory>;

/// The persist step of one pool.
pub(crate) struct Persist {
    pub(crate) progress: Progress,
    slots: Mutex<Vec<Arc<Slot>>>,
    /// Raised when a worker comes or leaves.
    slots_version: AtomicU64,
    /// Number of living workers.
    workers: AtomicUsize,
    cores: usize,
    medium: Arc<dyn LogMedium>,
    witness_key: WitnessKey,
    sending: Mutex<Sending>,
    /// Groups in flight.
    in_flight: InFlight,
    /// Held while groups are acknowledged.
    acknowledging: Mutex<()>,
    pub(crate) queue: Queue,
    wraps: Wraps,
    /// Whether the last group found no room in the log.
    log_full: AtomicBool,
    /// Words at which a group is closed, before it is combined.
    gathered_words: usize,
    fit: Fit,
    grouping: Grouping,
    /// Whether groups are durable as soon as they are sent.
    is_memory: bool,
    combiner: Combiner,
    /// Greatest ID that a thread waits for: groups up to it are not held back to grow.
    requested: AtomicU64,
    /// Notifies the other persist threads of a group to pack.
    pub(crate) more: Event,
    pub(crate) meter: Meter,
    pub(crate) limit: RateLimit,
}

/// The state of the thread that sends.
struct Sending {
    log: CircularLog,
    /// The last transaction in `pending`, or sent.
    merged: u64,
    /// Merged and not yet taken off. Stays non-empty only while it may grow, or while the log or
    /// the medium has no room.
    pending: Group,
    /// Whether `pending` left published records behind.
    closed: bool,
    opened: Opened,
    merge: Merge,
    slots: KnownSlots<Slot>,
    /// Groups taken off that have no place yet.
    packing: Packing,
    packers: Packers,
    /// Bytes of writes that have a place.
    plain: u64,
}

/// A group with a place that is not yet written to it.
struct Placed {
    at: u64,
    packed: Packed,
    group: LogGroup,
}

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
        // Enough for half a log of full groups: the queue is usually no longer.
        let spare_max = words_max / group_words + medium.depth() + 2;
        let queue = Queue::new(group_words, spare_max);
        let payload_words_max = words_max - GROUP_HEADER_WORDS;
        let fit = Fit { block_words: medium.block_bytes() / 8, payload_words_max };
        let is_memory = medium.depth() == 0;
        let progress = Progress::new(durable.0);
        let sending = Sending {
            log: CircularLog::new(Arc::clone(&medium), identity),
            merged: durable.0,
            pending: Group::new(queue.memory()),
            closed: false,
            opened: Opened::default(),
            merge: Merge::default(),
            slots: KnownSlots::default(),
            packing: Packing::default(),
            packers: Packers::default(),
            plain: 0,
        };
        Persist {
            progress: if is_memory { progress.spinning() } else { progress },
            slots: Mutex::default(),
            slots_version: AtomicU64::new(0),
            workers: AtomicUsize::new(0),
            cores: cores(),
            medium,
            witness_key: WitnessKey::new(identity),
            sending: Mutex::new(sending),
            in_flight: InFlight::default(),
            acknowledging: Mutex::default(),
            queue,
            wraps: Wraps::default(),
            log_full: AtomicBool::new(false),
            gathered_words: if grouping.combines() { GATHERED_WORDS } else { group_words },
            fit,
            grouping,
            is_memory,
            combiner: Combiner::new(),
            requested: AtomicU64::new(0),
            more: Event::default(),
            meter: Meter::default(),
            limit: RateLimit::new(),
        }
    }

    /// Whether the background thread does not pause, and reproduces as well.
    pub(crate) fn is_unpaused(&self) -> bool {
        self.grouping.unpaused
    }

    /// The largest ID such that it and all before it survive a crash.
    #[inline]
    pub(crate) fn durable(&self) -> TxId {
        TxId(self.progress.durable())
    }

    /// Requests a flush up to `id`: the next step closes the group of that ID and does not hold it
    /// back to grow.
    pub(crate) fn expedite(&self, id: TxId) {
        if self.grouping.combines() {
            // Release: the step that sees it finds the record of that ID published. Pairs with the
            // load in `is_due`.
            self.requested.fetch_max(id.0, Ordering::Release);
        }
    }

    /// Whether groups are combined.
    pub(crate) fn combines(&self) -> bool {
        self.grouping.combines()
    }

    /// Threads that pack groups at the same time.
    pub(crate) fn threads(&self) -> usize {
        self.grouping.threads
    }

    /// Whether a group waits for room in the log.
    pub(crate) fn is_log_full(&self) -> bool {
        self.log_full.load(Ordering::Relaxed)
    }

    /// Whether groups are durable as soon as they are sent.
    pub(crate) fn is_memory(&self) -> bool {
        self.is_memory
    }

    /// Sends one group of committed transactions. Waits for no device.
    ///
    /// # Errors
    /// The medium's; the pool is poisoned then.
    pub(crate) fn send(&self, clock: &AtomicU64, timer: StepTimer) -> Result<Step, Error> {
        self.progress.check()?;
        let end = self.send_end();
        let (mut job, mut placed) = (None, Vec::new());
        let step = try_step(&self.sending, &self.progress, end, |sending, running| {
            // A step may have failed since the look above. Its group is lost, and none may follow.
            if !injected(Mutant::SentAfterFailure) {
                self.progress.check()?;
            }
            self.metered(timer, running, || {
                self.gather(sending, clock);
                match self.appends_in_place() {
                    true => self.append_pending(sending),
                    false => self.take_off(sending, &mut job, &mut placed),
                }
            })
        })?;
        if job.is_none() && placed.is_empty() {
            return Ok(step);
        }
        // The end of this part wakes threads that found no work because this thread was doing it.
        run_part(&self.progress, StepEnd::Awaited, |running| {
            self.metered(timer, running, || self.finish(job, placed))
        })?;
        Ok(step)
    }

    /// Whether a thread that finds `sending` taken sleeps until that send ends.
    pub(crate) fn send_end(&self) -> StepEnd {
        // One persist thread on memory holds `sending` until its group is durable. In the other
        // cases the lock is free again soon, and the end of a send wakes no thread:
        // - On a device, the thread acknowledges the groups in flight instead, and sleeps there.
        // - Of several persist threads, each holds the lock only to take off and to place a group.
        //   A thread that sees others pack or store sleeps until their `run_part` ends.
        //
        // If every send woke a thread, that thread would try the step, find no work and wake the
        // next one, until the device or the others are done. No thread could sleep either, because
        // its own try would already have moved the epoch.
        match self.is_send_awaited() {
            true => StepEnd::Awaited,
            false => StepEnd::Unawaited,
        }
    }

    /// See [`send_end`](Persist::send_end).
    fn is_send_awaited(&self) -> bool {
        self.is_memory && self.grouping.threads == 1
    }

    /// Runs a part of a step, measures its time, and poisons the pool when it fails or panics.
    fn metered<R>(
        &self,
        timer: StepTimer,
        running: &RunningStep<'_>,
        part: impl FnOnce() -> Result<R, medium::Error>,
    ) -> Result<R, Error> {
        let panic = running.on_panic("persist");
        let started = match self.appends_in_place() {
            true => self.meter.persist.start(timer),
            false => Some(timer.start()),
        };
        let done = part();
        if let Some(started) = started {
            self.meter.persist.add(&started);
        }
        panic.disarm();
        done.map_err(|error| running.fail(error.into()))
    }

    /// Merges published records into the pending group.
    fn gather(&self, sending: &mut Sending, clock: &AtomicU64) {
        if injected(Mutant::SlotsKnownBeforeClock) {
            self.look_at_slots(&mut sending.slots);
        }
        // The clock before the slots: see `frontier` and `known_slots`. Acquire: pairs with the
        // addition that assigned the ID.
        let now = clock.load(Ordering::Acquire);
        if now == sending.merged {
            return self.forget_old_slots(&mut sending.slots);
        }
        let in_place = self.appends_in_place();
        if !in_place {
            self.meter.undurable.saw(now);
        }
        let Sending { merge, merged, pending, closed, opened, slots: known, .. } = sending;
        if !injected(Mutant::SlotsKnownBeforeClock) {
            self.look_at_slots(known);
        }
        let slots = &known.slots;
        let frontier = frontier(clock, slots, now, &mut merge.cursors);
        let unbounded = Persist::without_bound(slots);
        // A group that waits for room takes more until it is full.
        if frontier > *merged && pending.words() < self.gathered_words {
            let last = self.last_of(pending, *merged).min(frontier);
            if pending.is_empty() && self.grouping.combines() {
                opened.begin(&self.grouping);
            }
            if last > *merged {
                merge.run(slots, *merged, last, pending, self.gathered_words);
            }
            if !pending.is_empty() {
                *merged = pending.last().0;
            }
            *closed = *merged < frontier;
        }
        // A group that is sent in place is durable when this step ends, so its age is not noted.
        if in_place && *merged < now {
            self.meter.undurable.saw(now);
        }
        for (slot, before) in unbounded {
            rings::release_consumed(&slot.ring, before);
        }
        // A drained ring of a dead worker is no longer needed.
        if known.some_closed {
            self.drop_done(known);
        }
    }

    /// Takes the pending group off if it is due and has room, and sends it. With several threads,
    /// returns it as a job to pack after the unlock.
    fn take_off(
        &self,
        sending: &mut Sending,
        job: &mut Option<(Job, Packer)>,
        placed: &mut Vec<(u64, Placed)>,
    ) -> Result<Step, medium::Error> {
        // Groups that are packed already come first: the log holds groups in ID order.
        if let Some(step) = self.place_all(sending, placed)? {
            return Ok(step);
        }
        if sending.pending.is_empty() {
            // On memory, other threads store the groups in flight. On a device, this thread
            // acknowledges them.
            let stored = self.is_memory() && !self.in_flight.is_empty();
            let others = stored || !sending.packing.is_empty();
            return Ok(if others { Step::Working } else { Step::Nothing });
        }
        let (full, due) = self.is_due(sending);
        if !due {
            return Ok(Step::Nothing);
        }
        if !self.may_send(sending, full) {
            return Ok(Step::HeldBack);
        }
        let apart = self.grouping.threads > 1;
        if apart && sending.packing.working() >= self.grouping.threads {
            return Ok(Step::Working);
        }
        // The size of a combined group is known only after packing.
        let has_room = self.grouping.combines()
            || sending.log.has_room(sending.pending.words(), &self.queue.tail);
        // Relaxed: only a hint that a reproduce step is needed; see `Pipeline::is_due`.
        self.log_full.store(!has_room, Ordering::Relaxed);
        if !has_room {
            return Ok(Step::LogFull);
        }
        let Sending { packing, packers, pending, closed, .. } = sending;
        let mut packer = packers.take();
        let memory = if self.grouping.combines() { packer.memory() } else { self.queue.memory() };
        let gathered = std::mem::replace(pending, Group::new(memory));
        *closed = false;
        self.meter.gathered(8 * gathered.words() as u64);
        if apart {
            *job = Some((packing.begin(gathered), packer));
            if full {
                self.more.notify();
            }
            return Ok(if full { Step::More } else { Step::Done });
        }
        self.pack(gathered, &mut packer, &mut packing.ready);
        packers.put_back(packer);
        let stopped = self.place_all(sending, placed)?;
        Ok(stopped.unwrap_or(if full { Step::More } else { Step::Done }))
    }

    fn pack(&self, gathered: Group, packer: &mut Packer, out: &mut VecDeque<Packed>) {
        packer.pack(gathered, &self.grouping, self.fit, || self.queue.memory(), out);
    }

    /// Does the unlocked part of a send with several threads: packs a group, and stores placed
    /// groups.
    fn finish(
        &self,
        job: Option<(Job, Packer)>,
        mut placed: Vec<(u64, Placed)>,
    ) -> Result<(), medium::Error> {
        if let Some((Job { number, gathered }, mut packer)) = job {
            let mut ready = VecDeque::new();
            self.pack(gathered, &mut packer, &mut ready);
            // Other threads may have packed later groups first. `complete` restores the order.
            let mut sending = lock(&self.sending);
            sending.packing.complete(number, ready);
            sending.packers.put_back(packer);
            self.place_all(&mut sending, &mut placed)?;
        }
        placed.into_iter().try_for_each(|(number, placed)| self.store(number, placed))
    }

    /// Places ready groups as far as room allows; returns the step that ran out of room. Sends
    /// them, or collects them in `placed` to be stored after the unlock.
    fn place_all(
        &self,
        sending: &mut Sending,
        placed: &mut Vec<(u64, Placed)>,
    ) -> Result<Option<Step>, medium::Error> {
        let Sending { log, packing, packers, plain, .. } = sending;
        while let Some(front) = packing.ready.front() {
            let plain_end = *plain + 8 * (front.plain_words() - GROUP_HEADER_WORDS) as u64;
            let has_room =
                log.has_room(front.words(), &self.queue.tail) && self.has_memory(*plain, plain_end);
            // Relaxed: as in `take_off`.
            self.log_full.store(!has_room, Ordering::Relaxed);
            if !has_room {
                return Ok(Some(Step::LogFull));
            }
            if !self.is_memory() && self.in_flight.oldest().0 >= self.medium.depth() {
                return Ok(Some(Step::HeldBack));
            }
            let mut packed = packing.ready.pop_front().expect("`front` is in `ready`");
            let (first, last, words) = (packed.first(), packed.last(), packed.plain_words());
            *plain = plain_end;
            let place = log.place(&mut packed, self.queue.end());
            self.meter.placed(8 * words as u64, 8 * packed.words_used() as u64);
            self.meter.log_grew(log.head(), log.padding_bytes(), packers.combined_words);
            let group = LogGroup { first, last, words, end: place.end };
            if injected(Mutant::AppliedBeforeLog) {
                self.queue.keep(self.queue.push(copy_of(&packed), group));
            }
            let next = Placed { at: place.at, packed, group };
            match self.grouping.threads > 1 && self.is_memory() {
                true => {
                    // In ID order, while the lock is held. They become durable in any order.
                    placed.push((self.in_flight.place(group, None), next));
                }
                false => self.send_in_order(next)?,
            }
        }
        Ok(None)
    }

    /// Sends a group while `sending` is held, so that the next sender comes after it.
    fn send_in_order(&self, placed: Placed) -> Result<(), medium::Error> {
        let Placed { at, packed, group } = placed;
        let words = packed.words();
        let (image, plain) = packed.into_image();
        if self.is_memory() {
            if injected(Mutant::GroupWitnessFirst) {
                self.medium.leave_witness(group.end, &self.witness_key.line(group.last));
            }
            let memory = self.medium.append(at, image, words)?;
            let memory = memory.expect("memory is durable at once");
            self.queue.keep(self.acknowledged(memory, plain, group));
            return Ok(());
        }
        // Before the append: once the medium has the group, another thread may acknowledge it and
        // takes the oldest group from here.
        self.in_flight.place(group, plain);
        let durable = self.medium.append(at, image, words)?;
        if injected(Mutant::GroupAcknowledgedWhenSent) {
            self.progress.advance(group.last);
        }
        debug_assert!(durable.is_none(), "a device acknowledges");
        Ok(())
    }

    /// Stores a group to memory in parallel with other threads, and acknowledges the durable
    /// prefix.
    fn store(&self, number: u64, placed: Placed) -> Result<(), medium::Error> {
        let Placed { at, packed, .. } = placed;
        let words = packed.words();
        let (image, plain) = packed.into_image();
        let memory = self.medium.append(at, image, words)?;
        let memory = memory.expect("memory is durable at once");
        self.in_flight.complete(number, (memory, plain), |(memory, plain), group| {
            self.queue.keep(self.acknowledged(memory, plain, group));
        });
        Ok(())
    }

    /// Acknowledges the groups that the medium has made durable. With `wait`, waits for at least
    /// one if any is in flight.
    ///
    /// # Errors
    /// The medium's; the pool is poisoned then.
    pub(crate) fn acknowledge(&self, wait: bool, timer: StepTimer) -> Result<Step, Error> {
        self.progress.check()?;
        if self.is_memory() || self.in_flight.is_empty() {
            return Ok(Step::Nothing);
        }
        // The waiters of the group wake before the records that waited for it are sent. Tried: the
        // other order. With 64 threads that wait the rate fell from 12 to 9.5 k/s on a busy disk,
        // probably because the thread that had sent the group was away from io_uring while it woke
        // others.
        try_step(&self.acknowledging, &self.progress, StepEnd::Awaited, |(), running| {
            self.metered(timer, running, || self.acknowledge_all(wait))
        })
    }

    fn acknowledge_all(&self, mut wait: bool) -> Result<Step, medium::Error> {
        let mut step = Step::Nothing;
        loop {
            if self.in_flight.is_empty() {
                return Ok(step);
            }
            let Some(memory) = self.medium.acknowledge(wait)? else { return Ok(step) };
            let (group, plain) = self.in_flight.take_oldest();
            self.queue.keep(self.acknowledged(memory, plain, group));
            (step, wait) = (Step::Done, false);
        }
    }

    /// Acknowledges a durable group; all before it are durable. `plain`: the writes to reproduce,
    /// where they differ from the bytes sent. Returns memory that the queue did not keep.
    fn acknowledged(
        &self,
        memory: Buffer,
        plain: Option<Buffer>,
        group: LogGroup,
    ) -> Option<Buffer> {
        if injected(Mutant::AcknowledgedBeforeQueued) {
            self.progress.advance(group.last);
        }
        // Queued before it is acknowledged: the header of the next group says that all queued
        // groups were acknowledged, which proves their loss. And a thread that drains the queue
        // after a flush must find it there.
        let left = match plain {
            _ if injected(Mutant::AppliedBeforeLog) => None,
            Some(plain) => {
                self.queue.keep(self.queue.push(plain, group));
                Some(memory)
            }
            None => self.queue.push(memory, group),
        };
        // After the group's barrier: a crash may keep the witness and lose the group. Before a
        // thread sees that the group is durable: if the process ends then, the witness is there.
        if !injected(Mutant::GroupWitnessLeftOut) {
            self.medium.leave_witness(group.end, &self.witness_key.line(group.last));
        }
        if injected(Mutant::RecycledFirst) {
            self.queue.tail.store(group.end, Ordering::Release);
        }
        // A device's group was acknowledged before.
        if self.is_memory() || !injected(Mutant::GroupAcknowledgedWhenSent) {
            self.progress.advance(group.last);
            self.meter.undurable.durable(group.last);
        }
        left
    }
}
