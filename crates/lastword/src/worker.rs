//! Workers: handles, one for each thread, that run transactions.
//!
//! A worker runs a body as a loop of attempts. Each attempt begins, executes the body and commits;
//! a conflict rolls it back, and the worker backs off and tries again. The loop is the same for all
//! designs.

use std::fmt;
use std::time::Duration;

use medium::Patience;
use medium::mutants::{Mutant, injected};
use words::{Stop, Transact, TxId};

use crate::design::{Decoupled, Design, Ending};
use crate::inside::{Inside, Mark};
use crate::options::Durability;
use crate::perform::{Backoff, GaveUp, QueuePlace, Wait};
use crate::registry::{DesignInfo, Promise};
use crate::tx::{Ended, Known, MetFull};
use crate::{Error, Pool, Ticket, Tx};

/// A thread's handle to a pool, with its log ring and its statistics.
///
/// Dropping it loses nothing: its commits become durable like all others.
pub struct Worker<'p, D: Design = Decoupled> {
    pool: &'p Pool<D>,
    state: Option<WorkerState<D>>,
}

/// The phase of a transaction between [`Worker::begin`] and its end. It outlives
/// [`Open`](crate::Open), which a program may forget. The worker rolls a forgotten transaction back
/// before it begins another one or leaves. A transaction under [`Worker::run`] cannot be forgotten
/// and only reaches `Ending`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No transaction is open.
    Over,
    /// A transaction has begun.
    Open,
    /// The transaction is ending. If this phase remains, the commit or the roll-back panicked, and
    /// the state of its locks and writes is unknown.
    Ending,
}

/// The state of one worker. The pool keeps some of them for [`Pool::run`].
pub(crate) struct WorkerState<D: Design> {
    pub(crate) local: D::Local,
    pub(crate) number: usize,
    pub(crate) backoff: Backoff,
    /// Bounds the wait for another worker's transaction.
    pub(crate) patience: Clocks,
    pub(crate) known: Known,
    pub(crate) phase: Phase,
    pub(crate) mark: Mark,
    pub(crate) conflicts: u64,
    pub(crate) writes: u64,
    /// The end of the last open transaction, if it met a full heap.
    pub(crate) met_full: Option<MetFull>,
}

impl<D: Design> WorkerState<D> {
    pub(crate) fn new(local: D::Local, number: usize) -> WorkerState<D> {
        let (backoff, known) = (Backoff::new(number), Known::NOTHING);
        let (patience, phase, mark) = (Clocks::default(), Phase::Over, Mark::new());
        let (conflicts, writes, met_full) = (0, 0, None);
        WorkerState {
            local,
            number,
            backoff,
            patience,
            known,
            phase,
            mark,
            conflicts,
            writes,
            met_full,
        }
    }

    /// Waits for the last obstacle, and for the starvation lock, before an attempt.
    ///
    /// # Errors
    /// [`Error::StarvationLockHeld`] and [`Error::Blocked`].
    #[inline]
    pub(crate) fn pass<'p>(
        &mut self,
        pool: &'p Pool<D>,
        place: &mut Option<QueuePlace<'p>>,
    ) -> Result<(), Error> {
        // A reservation of a reader would make the applier's attempt fail. See `replication`.
        if pool.shape.is_following() {
            return Ok(());
        }
        let design = pool.design();
        let WorkerState { local, backoff, patience, .. } = self;
        let met = || design.obstacle(local);
        let holder = |key, seen| design.holder(key, seen);
        let waited = pool.patience;
        let gives_up = |wait, is_another| patience.gives_up(waited, wait, is_another);
        let passed = design.starvation_lock().pass(backoff, place, met, holder, gives_up);
        passed.map_err(|gave_up| match gave_up {
            GaveUp::Closed { worker } => Error::StarvationLockHeld { worker, waited },
            GaveUp::Blocked { worker } => Error::Blocked { worker, waited },
        })
    }

    /// Rolls back a forgotten transaction, whose writes would otherwise become part of the next
    /// one.
    ///
    /// # Errors
    /// [`Error::StepPanicked`] if its end panicked before.
    #[cold]
    #[inline(never)]
    pub(crate) fn roll_back_left(&mut self, pool: &Pool<D>) -> Result<(), Error> {
        if self.phase == Phase::Ending {
            return Err(Error::StepPanicked { step: "commit or roll-back" });
        }
        self.phase = Phase::Ending;
        // Release the starvation lock first: a panic below must not leave it closed for all
        // workers.
        pool.design().starvation_lock().leave(self.number);
        Ending::run(pool.design(), &mut self.local, "roll-back", D::roll_back);
        self.phase = Phase::Over;
        self.backoff.reset();
        self.mark.ended();
        Ok(())
    }
}

/// The result of a committed transaction.
#[must_use = "a commit is not durable yet: keep the ticket, or take `.value` to ignore durability"]
pub struct Committed<'p, R, D: Design = Decoupled> {
    /// The value that the body returned.
    pub value: R,
    /// The ticket, which reports durability.
    pub ticket: Ticket<'p, D>,
}

impl<R: fmt::Debug, D: Design> fmt::Debug for Committed<'_, R, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Committed")
            .field("value", &self.value)
            .field("ticket", &self.ticket)
            .finish()
    }
}

impl<'p, D: Design> Worker<'p, D> {
    pub(crate) fn new(pool: &'p Pool<D>, state: WorkerState<D>) -> Worker<'p, D> {
        Worker { pool, state: Some(state) }
    }

    /// Whether the end of a transaction panicked, so that the worker can run no other.
    pub(crate) fn is_lost(&self) -> bool {
        self.state.as_ref().is_none_or(|state| state.phase == Phase::Ending)
    }

    /// Returns the state without unregistering the worker.
    pub(crate) fn into_state(mut self) -> WorkerState<D> {
        self.state.take().expect("a worker has its state until it is dropped")
    }

    #[cfg(test)]
    pub(crate) fn state(&mut self) -> &mut WorkerState<D> {
        self.state.as_mut().expect("a worker has its state until it is dropped")
    }

    /// Returns the pool and the state.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&'p Pool<D>, &mut Option<WorkerState<D>>) {
        (self.pool, &mut self.state)
    }

    /// Runs `body` as one transaction, atomically and in isolation. Isolation is serializable, with
    /// two exceptions: [`Snapshot`](crate::Snapshot) provides snapshot isolation (with groups
    /// *parallel* snapshot isolation), and [`Plain`](crate::Plain) none. On a conflict the body
    /// runs again, so it should have no side effects outside the pool.
    ///
    /// With [`Durability::Async`] the transaction is visible on return, and the ticket reports its
    /// durability. With [`Durability::Sync`] it is durable on return. [`Undo`](crate::Undo),
    /// [`Redo`](crate::Redo) and [`Snapshot`](crate::Snapshot) without
    /// [groups](crate::Options::group) persist in the worker, so they are durable on return in both
    /// modes.
    ///
    /// A panic in the body rolls the transaction back and continues to unwind.
    ///
    /// # Errors
    /// - The body's error ([`Error::Aborted`], [`Error::Full`], [`Error::BadPointer`], ...): the
    ///   transaction had no effect.
    /// - [`Error::InsideTransaction`]: the call is inside another body.
    /// - [`Error::Poisoned`]: the medium has failed. In sync mode the transaction may be committed
    ///   but could not be made durable.
    /// - [`Error::NameLost`]: a file of the pool was removed or replaced, and a check has found it.
    ///   The transaction had no effect. In sync mode, and with designs that are durable on return,
    ///   the call that finds it has committed the transaction, which is durable in a file without
    ///   a name.
    /// - [`Error::HeldUp`], under [`Snapshot`](crate::Snapshot): a long-running transaction retains
    ///   resources that this one needs.
    /// - [`Error::StarvationLockHeld`]: a starving transaction runs alone and does not end.
    /// - [`Error::Blocked`]: a transaction that holds a word which this one needs does not end.
    #[inline]
    pub fn run<R>(
        &mut self,
        body: impl FnMut(&mut Tx<'_, D>) -> Result<R, Stop>,
    ) -> Result<Committed<'p, R, D>, Error> {
        attempts(self.pool, &mut self.state, body, false)
    }

    /// Runs `body` as a read-only transaction. It reads one consistent snapshot under every design
    /// but [`Plain`](crate::Plain). The ticket covers that snapshot: wait for it before you report
    /// what the body read.
    ///
    /// # Errors
    /// As [`run`](Worker::run); [`Error::ReadOnly`] when the body writes.
    #[inline]
    pub fn read<R>(
        &mut self,
        body: impl FnMut(&mut Tx<'_, D>) -> Result<R, Stop>,
    ) -> Result<Committed<'p, R, D>, Error> {
        attempts(self.pool, &mut self.state, body, true)
    }

    /// Returns how often this worker ran a transaction again, after a conflict or for lack of room
    /// in its ring.
    pub fn conflicts(&self) -> u64 {
        self.state.as_ref().map_or(0, |state| state.conflicts)
    }

    /// Returns the number of different words that this worker's committed transactions wrote.
    pub fn words_written(&self) -> u64 {
        self.state.as_ref().map_or(0, |state| state.writes)
    }
}

/// Returns the state of a worker after rolling back a forgotten transaction.
///
/// # Errors
/// As [`WorkerState::roll_back_left`].
#[inline]
pub(crate) fn ready<'s, D: Design>(
    pool: &Pool<D>,
    state: &'s mut Option<WorkerState<D>>,
) -> Result<&'s mut WorkerState<D>, Error> {
    pool.own_process("run")?;
    let state = state.as_mut().expect("a worker has its state until it is dropped");
    if state.phase != Phase::Over {
        state.roll_back_left(pool)?;
    }
    Ok(state)
}

/// Runs a body until it commits or ends, as [`Worker::run`] or [`Worker::read`]. In a pool that
/// follows another one, every body is read-only.
#[inline]
pub(crate) fn attempts<'p, R, D: Design>(
    pool: &'p Pool<D>,
    state: &mut Option<WorkerState<D>>,
    body: impl FnMut(&mut Tx<'_, D>) -> Result<R, Stop>,
    read_only: bool,
) -> Result<Committed<'p, R, D>, Error> {
    let read_only = read_only || pool.shape.is_following();
    let (value, ticket) = attempts_of(pool, state, body, read_only)?;
    acknowledge(pool, ticket, read_only)?;
    Ok(Committed { value, ticket })
}

/// Runs a body until it commits or ends, also in a pool that follows another one. Waits for no
/// durability.
#[inline]
pub(crate) fn attempts_of<'p, R, D: Design>(
    pool: &'p Pool<D>,
    state: &mut Option<WorkerState<D>>,
    mut body: impl FnMut(&mut Tx<'_, D>) -> Result<R, Stop>,
    read_only: bool,
) -> Result<(R, Ticket<'p, D>), Error> {
    let state = ready(pool, state)?;
    if !read_only {
        pool.file_check().may_write()?;
    }
    let inside = Inside::enter(if read_only { "read" } else { "run" }, &state.mark)?;
    let waits = !(read_only && D::READS_PASS);
    let run = Run(state);
    let state = &mut *run.0;
    // Outside the loop: a starving transaction keeps its place in the queue across retries.
    let mut place = None;
    if waits {
        state.pass(pool, &mut place)?;
    }
    let (mut reclaimed, mut growths) = (false, 0);
    let grows = |ended: &Ended, growths: &mut u32| match *ended {
        Ended::Full(met) if !read_only => pool.grow_for(met, growths),
        _ => Ok(false),
    };
    let done = loop {
        match attempt(pool, state, &mut body, read_only) {
            Err(None) => {
                state.conflicts += 1;
                state.backoff.give_way();
                state.pass(pool, &mut place)?;
            }
            // Other arenas may own free memory. The body runs again if that was so.
            Err(Some(ended @ Ended::Full(_)))
                if !reclaimed && !read_only && !injected(Mutant::FullHeapNotReclaimed) =>
            {
                reclaimed = true;
                if !reclaim(pool, state, &mut place)? && !grows(&ended, &mut growths)? {
                    break Err(ended);
                }
            }
            Err(Some(ended @ Ended::Full(_))) => {
                if !grows(&ended, &mut growths)? {
                    break Err(ended);
                }
            }
            Err(Some(ended)) => break Err(ended),
            Ok(done) => break Ok(done),
        }
    };
    // Before the waits below, which are refused inside a transaction and would keep the
    // starvation lock for as long as the device takes.
    drop((run, place, inside));
    let (value, id) = done.map_err(|ended| pool.error_of(ended))?;
    let covers_reads = !read_only || !injected(Mutant::ReadNotCovered);
    Ok((value, Ticket::new(pool, if covers_reads { id } else { TxId::NONE })))
}

/// Waits until a transaction that has committed is durable, if its worker's mode asks for that. A
/// transaction of a design that is durable on return is acknowledged by the return, so the names of
/// the pool's files are checked at times, as by a ticket.
///
/// # Errors
/// As [`Ticket::wait`].
#[inline]
pub(crate) fn acknowledge<D: Design>(
    pool: &Pool<D>,
    ticket: Ticket<'_, D>,
    read_only: bool,
) -> Result<(), Error> {
    let on_return = const { matches!(DesignInfo::of::<D>().durability, Promise::OnReturn) };
    if pool.durability == Durability::Sync && D::DURABLE {
        Inside::refuse("wait")?;
        pool.settled(ticket.id())
    } else if on_return && !read_only {
        pool.file_check().check_sometimes(ticket.id())
    } else {
        Ok(())
    }
}

/// Takes the slabs and the free slots of all arenas, so that a full heap serves other sizes and
/// workers. Returns whether that freed memory.
///
/// A class is skipped if its smallest transaction is too large, and the rest of an arena if a
/// transaction loses too many conflicts. The other classes and arenas may have the memory that the
/// body needs.
#[cold]
pub(crate) fn reclaim<'p, D: Design>(
    pool: &'p Pool<D>,
    state: &mut WorkerState<D>,
    place: &mut Option<QueuePlace<'p>>,
) -> Result<bool, Error> {
    let Some(owners) = pass(pool, state, place, |tx| tx.owners())? else {
        return Ok(false);
    };
    let mut plan = lw_alloc::Plan::new(pool.shape.heap().classes(), owners);
    while let Some(step) = plan.step() {
        match pass(pool, state, place, |tx| tx.reclaim(step.clone())) {
            Err(error) if is_size_limit(&error) => plan.too_large(),
            Err(error) => return Err(error),
            Ok(done) => plan.done(done),
        }
    }
    Ok(plan.gained())
}

/// Conflicts of one pass of [`reclaim`] before it gives up. The worker closes the starvation lock
/// after about a quarter of them, and then loses none to a transaction that begins later.
const PASS_CONFLICTS_MAX: u32 = 256;

/// Runs one transaction of [`reclaim`]. `None`: it lost too many conflicts.
fn pass<'p, R, D: Design>(
    pool: &'p Pool<D>,
    state: &mut WorkerState<D>,
    place: &mut Option<QueuePlace<'p>>,
    mut body: impl FnMut(&mut Tx<'_, D>) -> Result<R, Stop>,
) -> Result<Option<R>, Error> {
    for _ in 0..PASS_CONFLICTS_MAX {
        match attempt(pool, state, &mut body, false) {
            Ok((value, _)) => {
                // The next transaction of the reclaim has lost no conflict yet. If it kept the
                // place in the starvation lock's queue, the reclaim would stop other workers until
                // its end.
                *place = None;
                state.backoff.reset();
                state.pass(pool, place)?;
                return Ok(Some(value));
            }
            Err(Some(ended)) => return Err(pool.error_of(ended)),
            Err(None) => {
                state.conflicts += 1;
                state.backoff.give_way();
                state.pass(pool, place)?;
            }
        }
    }
    Ok(None)
}

/// Whether the transaction was larger than its design permits.
pub(crate) fn is_size_limit(error: &Error) -> bool {
    matches!(
        error,
        Error::TransactionTooLarge { .. }
            | Error::SlotTooSmall { .. }
            | Error::CopiesTooSmall { .. }
            | Error::ShadowTooSmall { .. }
    )
}

/// A run of one body, over all of its attempts. Its end resets the counts of conflicts, also by an
/// error or a panic of the body: the worker's next transaction has not lost any.
struct Run<'w, D: Design>(&'w mut WorkerState<D>);

impl<D: Design> Drop for Run<'_, D> {
    #[inline]
    fn drop(&mut self) {
        self.0.backoff.reset();
    }
}

/// Returns the allocator arena of a worker. The bits of its number are reversed, so that the arenas
/// of the first workers lie far apart. The ownership records of two or three neighboring arenas
/// share a cache line. (Two workers that allocate and free: 290 ns with a shared line, 130 ns
/// without.)
#[inline]
pub(crate) fn arena(number: usize) -> usize {
    (number % lw_alloc::ARENAS).reverse_bits() >> (usize::BITS - lw_alloc::ARENAS.trailing_zeros())
}

/// The waits of a worker for other workers' transactions: a clock for each kind.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    starving: Option<Patience>,
    record: Option<Patience>,
}

impl Clocks {
    /// Whether a wait is over. `is_another`: it is for another transaction than at the last look,
    /// so it begins anew.
    #[cold]
    fn gives_up(&mut self, limit: Duration, wait: Wait, is_another: bool) -> bool {
        let clock = match wait {
            Wait::Starving => &mut self.starving,
            Wait::Record => &mut self.record,
        };
        match clock {
            Some(patience) if !is_another => patience.is_over(),
            other => {
                *other = Some(Patience::new(limit));
                false
            }
        }
    }
}

/// Runs one attempt. `Err(None)` reports a conflict.
#[inline]
fn attempt<R, D: Design>(
    pool: &Pool<D>,
    state: &mut WorkerState<D>,
    body: &mut impl FnMut(&mut Tx<'_, D>) -> Result<R, Stop>,
    read_only: bool,
) -> Result<(R, TxId), Option<Ended>> {
    let design = pool.design();
    // After repeated conflicts a read-only attempt tracks its reads, so that its snapshot extends.
    let begun = design.begin(&mut state.local, read_only && state.backoff.has_few_conflicts());
    begun.map_err(Ended::Error)?;
    let arena = arena(state.number);
    let tx = Tx::new(design, &mut state.local, &mut state.known, &pool.shape, arena, read_only);
    let mut running = Running { tx, phase: &mut state.phase };
    let value = body(&mut running.tx);
    let (value, id, words) = conclude(&mut running.tx, value)?;
    std::mem::forget(running); // committed: skip the roll-back in `drop`
    state.writes += words as u64;
    Ok((value, id))
}

/// A running attempt. Dropped only if it has not committed: by a stop or a panic.
struct Running<'t, D: Design> {
    tx: Tx<'t, D>,
    phase: &'t mut Phase,
}

impl<D: Design> Drop for Running<'_, D> {
    /// Rolls back. If that panics, or the commit panicked before, the worker stays in phase
    /// `Ending` and runs no other transaction, since the state of its locks and writes is unknown.
    /// Only `drop` writes the phase, so a commit that returns does not pay for it.
    #[inline]
    fn drop(&mut self) {
        *self.phase = Phase::Ending;
        let has_panicked = self.tx.is_ending();
        self.tx.roll_back_if_open();
        if !has_panicked {
            *self.phase = Phase::Over;
        }
    }
}

/// Ends an attempt by a commit with this value. Returns the value, the ID, and the number of words
/// written. On an error the caller drops `tx`, which rolls back. `Err(None)` reports a conflict.
#[inline(always)]
pub(crate) fn conclude<R, D: Design>(
    tx: &mut Tx<'_, D>,
    value: Result<R, Stop>,
) -> Result<(R, TxId, usize), Option<Ended>> {
    let done = value.and_then(|value| tx.give_back().map(|()| value));
    let stop = match (done, tx.stopped()) {
        (Ok(value), None) => {
            let words = tx.words_written(); // before `commit`, which clears the write set
            let id = tx.commit().map_err(|_| None)?;
            return Ok((value, id, words));
        }
        // The first stop is sticky: the body may have ignored it.
        (_, Some(stop)) | (Err(stop), None) => stop,
    };
    if stop == Stop::Conflict { Err(None) } else { Err(Some(tx.fail(stop))) }
}

impl<D: Design> Drop for Worker<'_, D> {
    fn drop(&mut self) {
        if let Some(mut state) = self.state.take() {
            self.pool.leave(&mut state);
        }
    }
}

impl<D: Design> Transact for Worker<'_, D> {
    type Tx<'t>
        = Tx<'t, D>
    where
        Self: 't;
    type Error = Error;

    #[inline]
    fn transact<R>(
        &mut self,
        body: impl FnMut(&mut Tx<'_, D>) -> Result<R, Stop>,
    ) -> Result<R, Error> {
        Ok(self.run(body)?.value)
    }
}

#[cfg(test)]
pub(crate) mod panic_injection;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_have_distinct_distant_arenas() {
        let arenas: Vec<usize> = (0..lw_alloc::ARENAS).map(arena).collect();
        assert!(arenas[..16].iter().all(|arena| arena % 2 == 0), "{arenas:?}");
        assert!(arenas[..8].iter().all(|arena| arena % 4 == 0), "{arenas:?}");
        let mut sorted = arenas.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..lw_alloc::ARENAS), "{arenas:?}");
    }

    #[test]
    fn wait_for_another_transaction_begins_anew() {
        let mut clocks = Clocks::default();
        for _ in 0..3 {
            assert!(!clocks.gives_up(Duration::ZERO, Wait::Record, true));
            // The clock of another kind, which never ends.
            assert!(!clocks.gives_up(Duration::MAX, Wait::Starving, true));
            assert!(clocks.gives_up(Duration::ZERO, Wait::Record, false));
            assert!(!clocks.gives_up(Duration::ZERO, Wait::Starving, false));
        }
    }
}
