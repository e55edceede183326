//! The second and third stage of commit, and who helps whom. (Pisces, section 3.1, algorithm 1,
//! lines 42 to 59; section 3.2.)

use crossbeam_utils::CachePadded;
use words::Stop;

use super::attempt::{Attempt, Blocked};
use super::copies::{Copy, Space};
use super::end::{self, when};
use super::link::Links;
use super::owned::Owned;
use super::seats::{IDLE, Seat, Seats};
use super::write_back::Waiting;
use super::{Home, link_of};
use crate::Error;
use crate::perform::{Gate, Obstacle};
use crate::sync::{AtomicU64, Ordering, lock, spin_loop, thread, try_lock};

/// How often a worker looks for the end of a grace period before it goes on without: some
/// microseconds, which most transactions take less than. Chosen, not measured.
pub(crate) const LOOKS: u32 = if cfg!(test) { 2 } else { 1 << 8 };
/// The same for a worker that needs its objects again at once: else its next transaction runs in
/// vain while another's is longer than that. (With TPC-C and two workers a third of all attempts
/// did.) From `LOOKS` on it gives its core away at each.
pub(super) const LOOKS_MAX: u32 = 4 * LOOKS;
/// Commits of such a worker that look so often. At first each does.
pub(super) const PATIENT: u32 = 1 << 14;
/// How often it waits for one and the same transaction: beside a long one each commit would.
const IN_VAIN_MAX: u32 = 16;

/// All versions of a heap's objects, and their order.
pub(crate) struct Versions<M> {
    /// The time of the last transaction that ended or is about to.
    pub(super) clock: CachePadded<AtomicU64>,
    pub(super) links: Links,
    pub(super) seats: Seats<M>,
    /// Alone on its line: it is read at each begin and seldom written.
    pub(super) gate: CachePadded<Gate>,
}

/// How far a worker's transactions are home.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished {
    /// The last attempt that has no link, nor one before it.
    home_up_to: u64,
    /// Where the oldest running transaction began.
    oldest: u64,
    /// When that was known, or was given up; by the caller's clock.
    pub(crate) known: u64,
}

/// What has to be waited for before an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    /// Nothing.
    Yes,
    /// Who has the object that it needs, or who needs its old version.
    Locked,
    /// Who may have links to the copies that fill its memory.
    NoRoom,
}

fn is_running(copy: Copy<'_>) -> bool {
    when(copy.end_word()) == end::RUNNING
}

impl<M: AsRef<[AtomicU64]>> Versions<M> {
    /// Versions of a heap whose last transaction was `last`, for so many workers.
    pub(crate) fn new(workers: usize, last: u64, generation: u64) -> Versions<M> {
        Versions {
            clock: CachePadded::new(AtomicU64::new(last)),
            links: Links::new(generation),
            seats: Seats::new(workers),
            gate: CachePadded::new(Gate::default()),
        }
    }

    /// A worker comes; `memory` is where its copies will be, all of them in so many words.
    pub(crate) fn enter(
        &self,
        number: usize,
        memory: impl FnOnce() -> Result<M, Error>,
    ) -> Result<(), Error> {
        self.seats.enter(number, memory)
    }

    /// What the worker keeps; `kept` is what the last one of this number has left.
    pub(crate) fn attempt(&self, number: usize, kept: Option<Attempt>) -> Attempt {
        kept.unwrap_or_else(|| Attempt::new(number, Space::new(self.memory(number).len())))
    }

    /// What is left to a worker that has gone.
    pub(crate) fn attempt_without_space(&self, number: usize) -> Attempt {
        Attempt::new(number, Space::new(0))
    }

    /// Numbers from this one on were never a worker's.
    pub(crate) fn workers(&self) -> usize {
        self.seats.used().count()
    }

    pub(crate) fn clock(&self) -> &AtomicU64 {
        &self.clock
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Whether the object still has this link, of a transaction that has not ended.
    pub(crate) fn is_held(&self, home: &impl Home, object: u64, link: u64) -> bool {
        let object = object as usize;
        // Acquire: the link shows the copy that it leads to.
        home.words()[link_of(object)].load(Ordering::Acquire) == link
            && self.linked(object, link).is_some_and(|(_, copy)| is_running(copy))
    }

    /// Where the oldest running transaction began; the clock when there is none.
    pub(crate) fn oldest(&self) -> u64 {
        self.seats.oldest().min(self.clock.load(Ordering::Relaxed))
    }

    /// See `seats`. What the forgotten attempts have locked stays locked: their links are void in
    /// the next generation.
    pub(crate) fn forget_running(&self) {
        self.seats.forget_running();
    }

    /// See `seats`.
    pub(crate) fn frontier(&self) -> u64 {
        self.seats.frontier(&self.clock)
    }

    /// The attempt has read and changed nothing.
    #[inline(always)]
    pub(crate) fn leave(&self, home: &impl Home, attempt: &mut Attempt) {
        self.seats.seat(attempt.owned.number).over();
        if let Some(worker) = attempt.met.take() {
            self.clean_up(home, worker);
        }
    }

    /// What this reader has met may be left by a worker that does nothing any more: then everybody
    /// would go by its links for ever.
    #[cold]
    fn clean_up(&self, home: &impl Home, worker: usize) {
        let seat = self.seats.seat(worker);
        if seat.has_left() {
            self.help(home, seat, worker);
        }
    }

    /// The attempt reads no more.
    #[inline]
    pub(crate) fn over(&self, attempt: &Attempt) {
        self.seats.seat(attempt.owned.number).over();
    }

    /// The attempt reads no more. From here on it commits.
    #[inline]
    pub(crate) fn commits(&self, attempt: &Attempt) {
        self.seats.seat(attempt.owned.number).commit(attempt.start);
    }

    /// Second stage: shows all that was written; answers its time. It is durable by now.
    #[inline]
    pub(crate) fn show(&self, home: &impl Home, owned: &Owned) -> u64 {
        for entry in owned.entries.iter().filter(|entry| entry.fresh) {
            // Nobody knows of it, so nobody can have locked it: whatever is there is no link. Who
            // follows this one has seen the end that is told below, and with it the copy.
            home.store(link_of(entry.object), self.links.to(owned.number, entry.place()));
        }
        let place = owned.end.expect("an attempt that has written has an end");
        end::show(&self.memory(owned.number)[place], &self.clock)
    }

    /// At this time, which was just drawn for the worker, attempts up to `home_up_to` had no link.
    #[inline]
    fn time(&self, attempt: &mut Attempt, time: u64) {
        if attempt.home_up_to > attempt.timed_up_to {
            attempt.unlinked.push_back((attempt.home_up_to, time));
            attempt.timed_up_to = attempt.home_up_to;
        }
    }

    /// Third stage: brings home what was changed, now or later. `(end, most)`: when it ended, and
    /// how often this looks for the end of the grace period at most. Empties `batch`.
    #[inline]
    pub(crate) fn finish(
        &self,
        home: &impl Home,
        owned: &Owned,
        (end, most): (u64, u32),
        batch: &mut Vec<u64>,
        now: impl Fn() -> u64,
    ) -> Finished {
        let seat = self.seats.seat(owned.number);
        let mut queue = lock(&seat.queue);
        let mut done = queue.place();
        (done.attempt, done.start, done.end) = (owned.attempt, owned.start, end);
        done.gives_chunks_back = owned.gives_chunks_back;
        std::mem::swap(&mut done.batch, batch);
        done.objects.extend(owned.entries.iter().map(|entry| entry.object));
        queue.push(done);
        seat.waits_from(queue.start());
        seat.committed();
        let patience = if most > LOOKS { IN_VAIN_MAX } else { 1 };
        let mut looks = 0;
        loop {
            let oldest = self.seats.oldest();
            looks += 1;
            // Who was waited for in vain is not waited for again, unless there is a need.
            let in_vain = oldest == queue.waited_for && queue.in_vain >= patience;
            let is_last = oldest >= end || looks == most || in_vain;
            let known = if is_last { now() } else { 0 };
            self.write_back(home, owned.number, seat, &mut queue, oldest);
            if is_last || queue.is_empty() {
                let waited_for = if oldest < end { oldest } else { IDLE };
                let again = waited_for == queue.waited_for;
                queue.in_vain = if again { queue.in_vain.saturating_add(1) } else { 1 };
                queue.waited_for = waited_for;
                let home_up_to = queue.home_up_to(owned.attempt);
                return Finished { home_up_to, oldest, known };
            }
            if looks < LOOKS {
                spin_loop();
            } else {
                thread::yield_now();
            }
        }
    }

    /// How far the worker's queue is home, where another has worked on it.
    pub(super) fn look_at_queue(&self, owned: &Owned) -> Finished {
        let home_up_to = lock(&self.seats.seat(owned.number).queue).home_up_to(owned.attempt);
        Finished { home_up_to, oldest: self.seats.oldest(), known: 0 }
    }

    /// The worker's attempt is over, which ended at this time.
    #[inline]
    pub(crate) fn ended(&self, attempt: &mut Attempt, end: u64, finished: Finished) {
        self.time(attempt, end);
        attempt.home_up_to = finished.home_up_to;
        attempt.patient = attempt.patient.saturating_sub(1);
        attempt.clear();
        self.give_back(attempt, finished.oldest);
    }

    /// Brings home what may come of a queue.
    #[inline]
    fn write_back(
        &self,
        home: &impl Home,
        number: usize,
        seat: &Seat<M>,
        queue: &mut Waiting,
        oldest: u64,
    ) {
        queue.write_back(home, oldest, || self.seats.oldest_beside(number));
        seat.waits_from(queue.start());
    }

    /// Space that nobody can have a link into is free.
    #[inline]
    fn give_back(&self, attempt: &mut Attempt, oldest: u64) {
        while let Some(&(number, time)) = attempt.unlinked.front()
            && time <= oldest
        {
            attempt.unlinked.pop_front();
            attempt.space.give_back(number);
        }
    }

    /// Looks for space that is free by now.
    #[cold]
    pub(super) fn reclaim(&self, attempt: &mut Attempt) {
        let oldest = self.seats.oldest();
        self.give_back(attempt, oldest);
    }

    /// Works on a worker's queue, if nobody else does.
    fn help(&self, home: &impl Home, seat: &Seat<M>, number: usize) {
        if let Some(mut queue) = try_lock(&seat.queue) {
            let oldest = self.seats.oldest();
            self.write_back(home, number, seat, &mut queue, oldest);
        }
    }

    /// Works on all queues. Answers whether all are empty.
    pub(crate) fn help_all(&self, home: &impl Home) -> bool {
        let mut empty = true;
        for (number, seat) in self.seats.used().enumerate() {
            self.help(home, seat, number);
            empty &= lock(&seat.queue).is_empty();
        }
        empty
    }

    /// An object is locked by another transaction, or its copy is not home: goes on when that has
    /// changed.
    #[cold]
    pub(super) fn give_way_or_help(
        &self,
        home: &impl Home,
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
            // Looked at once: two that waited here could wait for each other's beginnings. (With
            // 256 looks 6 700 attempts of TPC-C were vain where without them 21 700 were, and 490
            // where the commit looks longer: `LOOKS_MAX`.)
            self.help(home, self.seats.seat(worker), worker);
            if home.words()[link_of(object)].load(Ordering::Acquire) != link {
                return Ok(());
            }
        }
        if worker == attempt.owned.number {
            attempt.patient = PATIENT;
        }
        // Who came first has committed; or somebody who began even before needs the old version.
        attempt.blocked = Some(Blocked::Link { object, link });
        attempt.obstacle = Obstacle::Changed { key: object as u64 };
        Err(Stop::Conflict)
    }

    /// Whether an attempt can begin, after one that could not go on. Called while none is under
    /// way; helps.
    #[cold]
    pub(crate) fn ready(&self, home: &impl Home, attempt: &mut Attempt) -> Ready {
        match attempt.blocked {
            None => return Ready::Yes,
            Some(Blocked::Link { object, link }) => {
                if let Some((worker, _)) = self.linked(object, link) {
                    self.help(home, self.seats.seat(worker), worker);
                }
                if home.words()[link_of(object)].load(Ordering::Acquire) == link {
                    return Ready::Locked;
                }
            }
            Some(Blocked::Space) => {
                let Owned { number, attempt: last, .. } = attempt.owned;
                let seat = self.seats.seat(number);
                self.help(home, seat, number);
                attempt.home_up_to = lock(&seat.queue).home_up_to(last);
                if attempt.home_up_to > attempt.timed_up_to {
                    // Without a commit the clock would stand, and readers that begin at the same
                    // time as those of before would keep the space for ever.
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

    /// Lets an attempt have committed that was unwound meanwhile, for who observes a test: for
    /// nobody else, as nobody knows whether it is durable. It never comes home.
    pub(crate) fn force(&self, owned: &Owned, batch: &[u64]) {
        let end = owned.end.map(|end| &self.memory(owned.number)[end]);
        if end.is_none_or(|end| when(end) != end::RUNNING) {
            return; // it stands in the queue
        }
        let seat = self.seats.seat(owned.number);
        let mut queue = lock(&seat.queue);
        let mut done = queue.place();
        (done.attempt, done.start) = (owned.attempt, owned.start);
        (done.end, done.stays) = (self.clock.fetch_add(1, Ordering::AcqRel) + 1, true);
        done.batch.extend_from_slice(batch);
        queue.push(done);
        seat.waits_from(queue.start());
    }

    /// A word as the next transaction would read it, for who observes a test.
    pub(crate) fn observe(&self, home: &impl Home, index: usize) -> u64 {
        let waits = |seat: &Seat<M>| match seat.is_empty() {
            true => None,
            false => lock(&seat.queue).will_be(index),
        };
        let newest = self.seats.used().filter_map(waits).max_by_key(|(end, _)| *end);
        newest.map_or_else(|| home.words()[index].load(Ordering::Relaxed), |(_, word)| word)
    }
}
