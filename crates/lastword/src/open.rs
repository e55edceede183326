//! Transactions in parts: separate calls begin, continue and end them.
//!
//! Prefer a body ([`Worker::run`]): it cannot be left open, and it retries on a conflict.
//! Transactions in parts serve bindings to languages in which a body is not a function.

use words::{Stop, TxId};

use crate::design::{Decoupled, Design};
use crate::inside::Inside;
use crate::options::Durability;
use crate::perform::{Backoff, QueuePlace};
use crate::tx::MetFull;
use crate::worker::{Phase, WorkerState, acknowledge, arena, conclude, ready, reclaim};
use crate::{Error, Pool, Ticket, Tx, Worker};

/// A transaction that has begun. Dropping it rolls it back.
///
/// End it soon. While it is open, its thread can begin no other transaction, and transactions that
/// need its writes retry. A starving transaction reserves the records that it needs until it ends.
/// A body keeps its reservations across its retries, but this type gives them up at each conflict,
/// so it may lose again.
///
/// A forgotten transaction ([`forget`](std::mem::forget)) stays open until its worker begins
/// another one or is dropped, which rolls it back. Until then it keeps its locks and reservations,
/// and the thread that began it can begin no other. If the worker is forgotten, too, this state
/// lasts until the pool is closed:
/// - Its writes are never committed. Transactions that need the same objects end with
///   [`Error::Blocked`] after [`Options::patience`](crate::Options::patience).
/// - Under [`Snapshot`](crate::Snapshot) the log cannot be truncated.
/// - If it was starving and runs alone, every other transaction ends with
///   [`Error::StarvationLockHeld`] after the same time.
///
/// ```
/// use lastword::{Objects, Options, Pool};
///
/// # let dir = tempfile::tempdir()?;
/// # let options = Options::new().bytes(1 << 20).log_bytes(1 << 20);
/// # let pool = Pool::create(dir.path().join("open.pool"), options)?;
/// # let mut worker = pool.worker()?;
/// # let count = worker.run(|tx| tx.alloc(0_u64))?.value;
/// let ticket = loop {
///     let mut open = worker.begin(false)?;
///     let added = open.tx().update(count, |count| count + 1);
///     match added {
///         Ok(()) => {
///             if let Some(ticket) = open.commit()? {
///                 break ticket;
///             }
///         }
///         // A conflict: begin again.
///         Err(_) => drop(open.abort()?),
///     }
/// };
/// ticket.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Open<'w, 'p, D: Design = Decoupled> {
    guard: TxGuard<'w, D>,
    pool: &'p Pool<D>,
    conflicts: &'w mut u64,
    writes: &'w mut u64,
    _place: Option<QueuePlace<'p>>,
    _inside: Inside,
}

/// A transaction, and the phase that its worker sees.
struct TxGuard<'w, D: Design> {
    tx: Tx<'w, D>,
    phase: &'w mut Phase,
    backoff: &'w mut Backoff,
    /// Set when the heap was full: the next `begin` of a transaction that writes then reclaims
    /// memory, or lets the heap grow.
    met_full: &'w mut Option<MetFull>,
}

impl<'w, D: Design> TxGuard<'w, D> {
    #[inline]
    fn new(
        tx: Tx<'w, D>,
        phase: &'w mut Phase,
        backoff: &'w mut Backoff,
        met_full: &'w mut Option<MetFull>,
    ) -> TxGuard<'w, D> {
        *phase = Phase::Open;
        TxGuard { tx, phase, backoff, met_full }
    }

    /// Ends the transaction, by a roll-back if `end` leaves it open. If that panics, the worker can
    /// begin no other one.
    #[inline(always)]
    fn end<R>(&mut self, end: impl FnOnce(&mut Tx<'w, D>) -> R) -> R {
        *self.phase = Phase::Ending;
        let done = end(&mut self.tx);
        if let Some(met) = self.tx.met_full() {
            *self.met_full = Some(met);
        }
        self.tx.roll_back_if_open();
        *self.phase = Phase::Over;
        done
    }
}

impl<D: Design> Drop for TxGuard<'_, D> {
    /// Rolls back what the program has dropped, or a panic. Only a conflict counts for the next
    /// transaction: it would otherwise starve, and stop the pool, for losses of this one.
    fn drop(&mut self) {
        if *self.phase == Phase::Open {
            let is_conflict = self.tx.stopped() == Some(Stop::Conflict);
            self.end(|_| ());
            match is_conflict {
                true => self.backoff.give_way(),
                false => self.backoff.reset(),
            }
        }
    }
}

impl<'p, D: Design> Worker<'p, D> {
    /// Begins a transaction; see [`Open`]. `read_only`: as [`Worker::read`]. Waits while a starving
    /// transaction runs alone, and after a conflict up to 2 ms for the obstacle.
    ///
    /// After a transaction that met a full heap ([`Stop::Full`]), begin the transaction once more:
    /// this call first reclaims memory that other workers and sizes own, and lets the heap grow.
    /// The heap is full if the second one fails, too. [`Worker::run`] does both.
    ///
    /// # Errors
    /// [`Error::InsideTransaction`] if this thread has an open transaction. [`Error::NameLost`],
    /// [`Error::Poisoned`], [`Error::HeldUp`], [`Error::StarvationLockHeld`] and
    /// [`Error::Blocked`] as [`Worker::run`].
    #[inline]
    pub fn begin(&mut self, read_only: bool) -> Result<Open<'_, 'p, D>, Error> {
        let (pool, state) = self.parts();
        begin(pool, state, read_only)
    }
}

/// Begins a transaction of a worker; see [`Worker::begin`].
#[inline]
pub(crate) fn begin<'w, 'p: 'w, D: Design>(
    pool: &'p Pool<D>,
    state: &'w mut Option<WorkerState<D>>,
    read_only: bool,
) -> Result<Open<'w, 'p, D>, Error> {
    let state = ready(pool, state)?;
    let read_only = read_only || pool.shape.is_following();
    if !read_only {
        pool.file_check().may_write()?;
    }
    let inside = Inside::enter("begin", &state.mark)?;
    let waits = !(read_only && D::READS_PASS);
    let (design, mut place) = (pool.design(), None);
    let passed = if waits { state.pass(pool, &mut place) } else { Ok(()) };
    let passed = match passed {
        // Only a transaction that may allocate uses up the request: a read-only one can begin
        // between the full one and its repetition.
        Ok(()) if !read_only && state.met_full.is_some() => begin_again(pool, state, &mut place),
        passed => passed,
    };
    let WorkerState { local, number, backoff, known, phase, conflicts, writes, met_full, .. } =
        state;
    let begun = passed.and_then(|()| design.begin(local, read_only && backoff.has_few_conflicts()));
    if let Err(error) = begun {
        backoff.reset();
        return Err(error);
    }
    let arena = arena(*number);
    let tx = Tx::new(design, local, known, &pool.shape, arena, read_only);
    let guard = TxGuard::new(tx, phase, backoff, met_full);
    Ok(Open { guard, pool, conflicts, writes, _place: place, _inside: inside })
}

/// Reclaims memory after a full heap, and makes the heap larger if it may grow.
///
/// # Errors
/// Those of `pass` and [`Error::Poisoned`], which the transaction would meet, too. The reclaim is
/// an attempt to help, so it keeps no transaction from beginning that needs no memory.
#[cold]
fn begin_again<'p, D: Design>(
    pool: &'p Pool<D>,
    state: &mut WorkerState<D>,
    place: &mut Option<QueuePlace<'p>>,
) -> Result<(), Error> {
    let met = state.met_full.take();
    let done = reclaim(pool, state, place).map(drop);
    // Also if that was enough for another request: the caller repeats the transaction only once.
    let done = done.and_then(|()| met.map_or(Ok(()), |met| pool.grow_for(met, &mut 0).map(drop)));
    match done {
        Err(
            error @ (Error::Poisoned { .. }
            | Error::Blocked { .. }
            | Error::StarvationLockHeld { .. }),
        ) => Err(error),
        _ => Ok(()),
    }
}

impl<'w, 'p, D: Design> Open<'w, 'p, D> {
    /// Returns the transaction, for reads and writes.
    #[inline]
    pub fn tx(&mut self) -> &mut Tx<'w, D> {
        &mut self.guard.tx
    }

    /// Commits. `None` reports a conflict: this transaction had no effect; begin it again.
    ///
    /// # Errors
    /// As [`Worker::run`], including the error that stopped an access. With [`Error::Poisoned`] the
    /// transaction may be committed without being durable.
    #[inline]
    pub fn commit(self) -> Result<Option<Ticket<'p, D>>, Error> {
        self.pool.own_process("commit")?;
        self.end(Ok(()))
    }

    /// Rolls back after an access returned `stop`, and returns the error of [`Worker::run`] for it.
    /// `None` reports a conflict: begin the transaction again.
    ///
    /// ```
    /// use lastword::{Addr, Error, Options, Pool, Words};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let options = Options::new().bytes(1 << 20).log_bytes(1 << 20);
    /// # let pool = Pool::create(dir.path().join("stop.pool"), options)?;
    /// let mut worker = pool.worker()?;
    /// let mut open = worker.begin(true)?;
    /// let stop = open.tx().read(Addr::new(8, 0)).unwrap_err();
    /// assert!(matches!(open.stop(stop), Some(Error::BadPointer { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cold]
    pub fn stop(self, stop: Stop) -> Option<Error> {
        match self.pool.own_process("stop") {
            Ok(()) => self.end(Err(stop)).err(),
            Err(error) => Some(error),
        }
    }

    /// Ends the transaction by a commit, or by a roll-back if an access was stopped.
    #[inline(always)]
    fn end(self, body: Result<(), Stop>) -> Result<Option<Ticket<'p, D>>, Error> {
        let Open { mut guard, pool, conflicts, writes, _place: place, _inside: inside } = self;
        let done = guard.end(|tx| conclude(tx, body));
        match done {
            Ok(((), id, words)) => {
                guard.backoff.reset();
                std::mem::forget(guard); // committed: skip the roll-back in `drop`
                *writes += words as u64;
                drop((place, inside));
                let ticket = Ticket::new(pool, id);
                acknowledge(pool, ticket, words == 0)?;
                Ok(Some(ticket))
            }
            Err(None) => {
                // A poisoned pool ends an attempt as a conflict does. Report its error here.
                if let Err(error) = pool.design().check() {
                    drop((place, inside));
                    return Err(error);
                }
                *conflicts += 1;
                guard.backoff.give_way();
                // Drop `place` first: a callback that waits for the end of this body may begin a
                // transaction.
                drop((place, inside));
                Ok(None)
            }
            Err(Some(ended)) => {
                guard.backoff.reset();
                drop((place, inside));
                Err(pool.error_of(ended))
            }
        }
    }

    /// Rolls the transaction back. Returns the last ID that it may have seen. Wait for that ID
    /// before you report what the transaction read.
    ///
    /// # Errors
    /// [`Error::Poisoned`], in sync mode: that ID could not be made durable. [`Error::Forked`] in a
    /// [forked child](Pool::is_forked), where nothing is rolled back: the parent continues the
    /// transaction.
    pub fn abort(self) -> Result<TxId, Error> {
        self.pool.own_process("abort")?;
        let Open { mut guard, pool, conflicts, _place: place, _inside: inside, .. } = self;
        if guard.tx.stopped() == Some(Stop::Conflict) {
            *conflicts += 1;
            drop((guard, place, inside));
            return Ok(TxId::NONE);
        }
        let seen = guard.end(Tx::roll_back);
        guard.backoff.reset();
        drop((place, inside));
        if pool.durability == Durability::Sync && D::DURABLE {
            pool.wait_for(seen)?;
        }
        Ok(seen)
    }
}
