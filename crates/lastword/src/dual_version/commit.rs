//! The second and third stage of commit, and helping other workers with theirs.
//!
//! Source: Pisces, section 3.1, algorithm 1, lines 42 to 59, and section 3.2.

use crossbeam_utils::CachePadded;
use medium::mutants::{Mutant, injected};
use words::Stop;

use super::attempt::{Attempt, Blocked};
use super::copy_memory::{Copy, Space};
use super::end::{self, when};
use super::link::Links;
use super::owned::Owned;
use super::transaction_table::{IDLE, TransactionTable, WorkerState};
use super::write_back::{Waiting, lay_over};
use super::{ObjectHeap, link_of};
use crate::Error;
use crate::perform::{Obstacle, StarvationLock};
use crate::sync::{AtomicU64, MODELED, MutexGuard, Ordering, lock, spin_loop, thread, try_lock};

/// Polls for the end of a grace period before a worker continues without it: some microseconds,
/// longer than most transactions take. Chosen, not measured.
pub(crate) const LOOKS: u32 = if MODELED {
    1
} else if cfg!(test) {
    2
} else {
    1 << 8
};
/// As [`LOOKS`], for a worker that needs its objects again at once. After `LOOKS` polls it yields
/// its core at each further poll. With `LOOKS` alone, its next transaction would run in vain while
/// another worker's transaction is longer than that (a third of all attempts of TPC-C with two
/// workers).
pub(super) const LOOKS_MAX: u32 = 4 * LOOKS;
/// Commits of such a worker that poll longer. Initially each one does.
pub(super) const PATIENT: u32 = 1 << 14;
/// Limit on waits for the same transaction. Without it, each commit during a long transaction would
/// wait.
const IN_VAIN_MAX: u32 = 16;

/// All versions of a heap's objects, and their order.
pub(crate) struct Versions<M> {
    /// The timestamp of the last transaction that has ended or is about to.
    pub(super) clock: CachePadded<AtomicU64>,
    pub(super) links: Links,
    pub(super) table: TransactionTable<M>,
    /// On a line of its own: read at each begin and seldom written.
    pub(super) starvation_lock: CachePadded<StarvationLock>,
}

/// A transaction that has ended and is not in its worker's queue yet, which is locked.
pub(crate) struct Shown<'v> {
    /// Its timestamp.
    pub(crate) end: u64,
    queue: MutexGuard<'v, Waiting>,
}

/// Progress of a worker's write-back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished {
    /// The last attempt such that it and all before it have no link.
    applied_up_to: u64,
    /// Start of the oldest running transaction.
    oldest: u64,
    /// When the wait ended or was given up, by the caller's clock.
    pub(crate) known: u64,
}

/// The obstacle to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    /// No obstacle.
    Yes,
    /// A transaction has locked the object that the attempt needs, or still needs its old version.
    Locked,
    /// Transactions may have links to the copies that fill the worker's memory.
    NoRoom,
}

fn is_running(copy: Copy<'_>) -> bool {
    when(copy.end_word()) == end::RUNNING
}

impl<M: AsRef<[AtomicU64]>> Versions<M> {
    /// Creates the versions of a heap whose last transaction was `last`.
    pub(crate) fn new(workers: usize, last: u64, generation: u64) -> Versions<M> {
        Versions {
            clock: CachePadded::new(AtomicU64::new(last)),
            links: Links::new(generation),
            table: TransactionTable::new(workers),
            starvation_lock: CachePadded::new(StarvationLock::default()),
        }
    }

    /// Registers a worker; `memory` makes the memory for its copies.
    pub(crate) fn enter(
        &self,
        number: usize,
        memory: impl FnOnce() -> Result<M, Error>,
    ) -> Result<(), Error> {
        self.table.register(number, memory)
    }

    /// Returns the state for a worker's attempts; `kept` is that of the last worker with this
    /// number.
    pub(crate) fn attempt(&self, number: usize, kept: Option<Attempt>) -> Attempt {
        kept.unwrap_or_else(|| Attempt::new(number, Space::new(self.memory(number).len())))
    }

    /// Returns the placeholder state of a departed worker.
    pub(crate) fn attempt_without_space(&self, number: usize) -> Attempt {
        Attempt::new(number, Space::new(0))
    }

    /// Returns a bound on worker numbers: those from it on were never used.
    pub(crate) fn workers(&self) -> usize {
        self.table.used().count()
    }

    pub(crate) fn clock(&self) -> &AtomicU64 {
        &self.clock
    }

    pub(crate) fn starvation_lock(&self) -> &StarvationLock {
        &self.starvation_lock
    }

    /// Returns the worker that holds the object, if it still has this link of a transaction that
    /// has not ended.
    pub(crate) fn holder(
        &self,
        heap_image: &impl ObjectHeap,
        object: u64,
        link: u64,
    ) -> Option<usize> {
        let object = object as usize;
        // Acquire: shows the copy that the link leads to.
        if heap_image.words()[link_of(object)].load(Ordering::Acquire) != link {
            return None;
        }
        let linked = self.linked(object, link).filter(|(_, copy)| is_running(*copy));
        linked.map(|(worker, _)| worker)
    }

    /// Returns the start of the oldest running transaction, or the clock if none runs.
    pub(crate) fn oldest(&self) -> u64 {
        self.table.oldest().min(self.clock.load(Ordering::Relaxed))
    }

    /// See `transaction_table`. Objects locked by leaked attempts stay locked. The next generation
    /// ignores their links.
    pub(crate) fn forget_running(&self) {
        self.table.forget_running();
    }

    /// See `transaction_table`.
    pub(crate) fn frontier(&self) -> u64 {
        self.table.frontier(&self.clock)
    }

    /// Ends an attempt that has changed nothing.
    #[inline(always)]
    pub(crate) fn leave(&self, heap_image: &impl ObjectHeap, attempt: &mut Attempt) {
        self.table.entry(attempt.owned.number).end_reads();
        if let Some(worker) = attempt.met.take() {
            self.clean_up(heap_image, worker);
        }
    }

    /// Helps a worker whose copy this reader has met, if the worker is idle. Otherwise every reader
    /// would follow its links for ever.
    #[cold]
    fn clean_up(&self, heap_image: &impl ObjectHeap, worker: usize) {
        let state = self.table.entry(worker);
        if state.has_unattended_queue() {
            self.help(heap_image, state, worker);
        }
    }

    /// Ends the attempt's reads.
    #[inline]
    pub(crate) fn over(&self, attempt: &Attempt) {
        self.table.entry(attempt.owned.number).end_reads();
    }

    /// Ends the attempt's reads and starts its commit.
    #[inline]
    pub(crate) fn commits(&self, attempt: &Attempt) {
        self.table.entry(attempt.owned.number).commit(attempt.start);
    }

    /// Second stage: shows all copies. The changes are durable by now. Locks the queue for the
    /// third stage: see [`view`](super::view).
    #[inline]
    pub(crate) fn show(&self, heap_image: &impl ObjectHeap, owned: &Owned) -> Shown<'_> {
        let state = self.table.entry(owned.number);
        let queue = (!injected(Mutant::ShownOutsideQueue)).then(|| lock(&state.queue));
        for entry in owned.entries.iter().filter(|entry| entry.fresh) {
            // No other transaction knows of a new object, so its link position is unlocked and
            // holds no link. A reader that follows this link has seen the end stored below, and
            // with it the copy.
            heap_image.store(link_of(entry.object), self.links.to(owned.number, entry.place()));
        }
        let place = owned.end.expect("an attempt that has written has an end");
        let end = end::show(&self.memory(owned.number)[place], &self.clock);
        Shown { end, queue: queue.unwrap_or_else(|| lock(&state.queue)) }
    }

    /// Notes that attempts up to `applied_up_to` had no link at this time, which was just assigned.
    #[inline]
    fn time(&self, attempt: &mut Attempt, time: u64) {
        if attempt.applied_up_to > attempt.timed_up_to {
            attempt.unlinked.push_back((attempt.applied_up_to, time));
            attempt.timed_up_to = attempt.applied_up_to;
        }
    }

    /// Third stage: applies the changes to the heap, now or later. `most` is the maximum of polls
    /// for the end of the grace period. Empties `batch`.
    #[inline]
    pub(crate) fn finish(
        &self,
        heap_image: &impl ObjectHeap,
        owned: &Owned,
        (shown, most): (Shown<'_>, u32),
        batch: &mut Vec<u64>,
        now: impl Fn() -> u64,
    ) -> Finished {
        let state = self.table.entry(owned.number);
        let Shown { end, mut queue } = shown;
        let mut done = queue.place();
        (done.attempt, done.start, done.end) = (owned.attempt, owned.start, end);
        done.gives_runs_back = owned.frees_runs();
        // Swapped, so that both vectors keep their memory for reuse.
        std::mem::swap(&mut done.batch, batch);
        done.objects.extend(owned.entries.iter().map(|entry| entry.object));
        // In this order, so that a search from left to right does not miss it: see
        // `transaction_table`.
        queue.push(done);
        if injected(Mutant::CommittingClearedBeforeWaiting) {
            state.committed();
        }
        state.publish_waiting(queue.start());
        state.committed();
        let patience = if most > LOOKS { IN_VAIN_MAX } else { 1 };
        let mut looks = 0;
        loop {
            let oldest = self.table.oldest();
            looks += 1;
            // A transaction that outlasted earlier waits is not waited for again.
            let in_vain = oldest == queue.waited_for && queue.in_vain >= patience;
            let is_last = oldest >= end || looks == most || in_vain;
            // Before the write-back, which is no part of the grace period.
            let known = if is_last { now() } else { 0 };
            self.write_back(heap_image, owned.number, state, &mut queue, oldest);
            if is_last || queue.is_empty() {
                let waited_for = if oldest < end { oldest } else { IDLE };
                let again = waited_for == queue.waited_for;
                queue.in_vain = if again { queue.in_vain.saturating_add(1) } else { 1 };
                queue.waited_for = waited_for;
                let applied_up_to = queue.applied_up_to(owned.attempt);
                return Finished { applied_up_to, oldest, known };
            }
            if looks < LOOKS {
                spin_loop();
            } else {
                thread::yield_now();
            }
        }
    }

    /// Returns the progress of a worker's queue, which another thread may have advanced.
    pub(super) fn look_at_queue(&self, owned: &Owned) -> Finished {
        let applied_up_to =
            lock(&self.table.entry(owned.number).queue).applied_up_to(owned.attempt);
        Finished { applied_up_to, oldest: self.table.oldest(), known: 0 }
    }

    /// Ends a worker's attempt with this timestamp, and frees its space when possible.
    #[inline]
    pub(crate) fn ended(&self, attempt: &mut Attempt, end: u64, finished: Finished) {
        // With the previous `applied_up_to`: only those links were removed before `end` was
        // assigned.
        self.time(attempt, end);
        attempt.applied_up_to = finished.applied_up_to;
        attempt.patient = attempt.patient.saturating_sub(1);
        attempt.clear();
        self.give_back(attempt, finished.oldest);
    }

    /// Applies the transactions of a queue whose grace period is over.
    #[inline]
    fn write_back(
        &self,
        heap_image: &impl ObjectHeap,
        number: usize,
        state: &WorkerState<M>,
        queue: &mut Waiting,
        oldest: u64,
    ) {
        queue.write_back(heap_image, oldest, || self.table.oldest_beside(number));
        state.publish_waiting(queue.start());
    }

    /// Frees space into which no transaction can have a link.
    #[inline]
    fn give_back(&self, attempt: &mut Attempt, oldest: u64) {
        while let Some(&(number, time)) = attempt.unlinked.front()
            && (time <= oldest || injected(Mutant::CopiesFreedAtOnce))
        {
            attempt.unlinked.pop_front();
            attempt.space.give_back(number);
        }
    }

    /// Frees the space that has become free meanwhile.
    #[cold]
    pub(super) fn reclaim(&self, attempt: &mut Attempt) {
        let oldest = self.table.oldest();
        self.give_back(attempt, oldest);
    }

    /// Works on a worker's queue, unless another thread does.
    fn help(&self, heap_image: &impl ObjectHeap, state: &WorkerState<M>, number: usize) {
        // A thread that holds the lock does the same work, so this one does not wait for it.
        if let Some(mut queue) = try_lock(&state.queue) {
            let oldest = self.table.oldest();
            self.write_back(heap_image, number, state, &mut queue, oldest);
        }
    }

    /// Works on all queues. Returns whether all are empty.
    pub(crate) fn help_all(&self, heap_image: &impl ObjectHeap) -> bool {
        let mut empty = true;
        for (number, state) in self.table.used().enumerate() {
            self.help(heap_image, state, number);
            empty &= lock(&state.queue).is_empty();
        }
        empty
    }

    /// Handles a lock found on an object. Returns if the lock has been released; otherwise
    /// conflicts and notes the obstacle.
    #[cold]
    pub(super) fn give_way_or_help(
        &self,
        heap_image: &impl ObjectHeap,
        attempt: &mut Attempt,
        object: usize,
        link: u64,
        worker: usize,
        copy: Copy<'_>,
    ) -> Result<(), Stop> {
        let end = when(copy.end_word());
        if end == end::RUNNING {
            attempt.held_by = Some(worker);
            attempt.obstacle = Obstacle::Held { key: object as u64, seen: link };
            return Err(Stop::Conflict);
        }
        if end <= attempt.start {
            // Tried once: two workers that waited here could each wait for the other's transaction
            // to end. (With 256 polls 6 700 attempts of TPC-C were in vain, without them 21 700,
            // and 490 if the commit polls longer: `LOOKS_MAX`.)
            self.help(heap_image, self.table.entry(worker), worker);
            if heap_image.words()[link_of(object)].load(Ordering::Acquire) != link {
                return Ok(());
            }
        }
        if worker == attempt.owned.number {
            attempt.patient = PATIENT;
        }
        // The lock's owner has committed after this attempt began, or an older transaction still
        // needs the old version.
        attempt.blocked = Some(Blocked::Link { object, link });
        attempt.obstacle = Obstacle::Changed { key: object as u64 };
        Err(Stop::Conflict)
    }

    /// Returns whether an attempt can begin after the last one met an obstacle, and helps to remove
    /// the obstacle. Called while no attempt runs.
    #[cold]
    pub(crate) fn ready(&self, heap_image: &impl ObjectHeap, attempt: &mut Attempt) -> Ready {
        match attempt.blocked {
            None => return Ready::Yes,
            Some(Blocked::Link { object, link }) => {
                if let Some((worker, _)) = self.linked(object, link) {
                    self.help(heap_image, self.table.entry(worker), worker);
                }
                if heap_image.words()[link_of(object)].load(Ordering::Acquire) == link {
                    return Ready::Locked;
                }
            }
            Some(Blocked::Space) => {
                let Owned { number, attempt: last, .. } = attempt.owned;
                let state = self.table.entry(number);
                self.help(heap_image, state, number);
                attempt.applied_up_to = lock(&state.queue).applied_up_to(last);
                if attempt.applied_up_to > attempt.timed_up_to {
                    // Without commits the clock would stand still. Readers that begin at the same
                    // time as earlier ones would then keep the space for ever.
                    let time = self.clock.fetch_add(1, Ordering::AcqRel) + 1;
                    self.time(attempt, time);
                }
                self.reclaim(attempt);
                if !attempt.space.has_room() {
                    return Ready::NoRoom;
                }
            }
        }
        attempt.blocked = None;
        Ready::Yes
    }

    /// Shows an attempt that was unwound during its commit, to observers in tests alone, because
    /// its durability is unknown. It is never applied to the heap.
    pub(crate) fn force(&self, owned: &Owned, batch: &[u64]) {
        let end = owned.end.map(|end| &self.memory(owned.number)[end]);
        if end.is_none_or(|end| when(end) != end::RUNNING) {
            return; // it is in the queue
        }
        let state = self.table.entry(owned.number);
        let mut queue = lock(&state.queue);
        let mut done = queue.place();
        (done.attempt, done.start) = (owned.attempt, owned.start);
        (done.end, done.stays) = (self.clock.fetch_add(1, Ordering::AcqRel) + 1, true);
        done.batch.extend_from_slice(batch);
        queue.push(done);
        state.publish_waiting(queue.start());
    }

    /// Reads words from `first` on as the next transaction would, for observers in tests.
    pub(crate) fn observe(&self, heap_image: &impl ObjectHeap, first: usize, out: &mut [u64]) {
        let words = &heap_image.words()[first..];
        out.iter_mut().zip(words).for_each(|(out, word)| *out = word.load(Ordering::Relaxed));
        let mut waiting = Vec::new();
        for state in self.table.used().filter(|state| !state.is_empty()) {
            lock(&state.queue).batches(|end, batch| waiting.push((end, batch.to_vec())));
        }
        waiting.sort_by_key(|(end, _)| *end);
        waiting.iter().for_each(|(_, batch)| lay_over(batch, first, out));
    }
}
