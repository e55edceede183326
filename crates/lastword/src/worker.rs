//! Workers: one per thread, they run transactions.

use std::fmt;

use medium::Patience;
use medium::mutants::{Mutant, planted};
use words::{Stop, Transact, TxId};

use crate::design::{Decoupled, Design};
use crate::inside::{Inside, Mark};
use crate::options::Durability;
use crate::perform::{Closed, Fortune, Turn};
use crate::tx::Known;
use crate::{Error, Pool, Ticket, Tx};

/// One thread's handle to a pool: its log ring and its statistics.
///
/// Dropping it loses nothing: what it has committed is made durable like everything else.
pub struct Worker<'p, D: Design = Decoupled> {
    pool: &'p Pool<D>,
    seat: Option<Seat<D>>,
}

/// The phase of a transaction that a worker has begun in parts. It outlives [`Open`](crate::Open),
/// which a program may forget. The worker rolls back a forgotten transaction before it begins
/// another, or leaves. A transaction that is run cannot be forgotten; it only reaches `Ending`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It has ended, or there was none.
    Over,
    /// It has begun.
    Open,
    /// It ends. If it stays so, the commit or the roll-back panicked, and nothing is known of what
    /// it has locked and written.
    Ending,
}

/// What a worker owns; the pool keeps some for [`Pool::run`].
pub(crate) struct Seat<D: Design> {
    pub(crate) local: D::Local,
    pub(crate) number: usize,
    pub(crate) fortune: Fortune,
    pub(crate) known: Known,
    pub(crate) phase: Phase,
    pub(crate) mark: Mark,
    pub(crate) conflicts: u64,
    pub(crate) writes: u64,
}

impl<D: Design> Seat<D> {
    pub(crate) fn new(local: D::Local, number: usize) -> Seat<D> {
        let (fortune, known) = (Fortune::new(number), Known::NOTHING);
        let (phase, mark) = (Phase::Over, Mark::new());
        Seat { local, number, fortune, known, phase, mark, conflicts: 0, writes: 0 }
    }

    /// Rolls back a transaction that was forgotten: its writes would be the next one's.
    ///
    /// # Errors
    /// [`Error::StepPanicked`]: its end has panicked before.
    #[cold]
    #[inline(never)]
    pub(crate) fn roll_back_left(&mut self, pool: &Pool<D>) -> Result<(), Error> {
        if self.phase == Phase::Ending {
            return Err(Error::StepPanicked { step: "commit or roll-back" });
        }
        self.phase = Phase::Ending;
        // The starvation lock first: a panic below must not leave it closed for all workers.
        pool.design().gate().leave(self.number);
        pool.design().roll_back(&mut self.local);
        self.phase = Phase::Over;
        self.fortune.reset();
        self.mark.ended();
        Ok(())
    }
}

/// What a committed transaction answers.
#[must_use = "committed is not durable: keep the ticket, or say `.value` if you need not know"]
pub struct Committed<'p, R, D: Design = Decoupled> {
    /// What the body answered.
    pub value: R,
    /// Tells when the transaction is durable.
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
    pub(crate) fn new(pool: &'p Pool<D>, seat: Seat<D>) -> Worker<'p, D> {
        Worker { pool, seat: Some(seat) }
    }

    /// Whether the end of a transaction has panicked, so that the worker runs no other.
    pub(crate) fn is_lost(&self) -> bool {
        self.seat.as_ref().is_none_or(|seat| seat.phase == Phase::Ending)
    }

    /// Gives the seat back without closing it.
    pub(crate) fn into_seat(mut self) -> Seat<D> {
        self.seat.take().expect("a worker has its seat until it is dropped")
    }

    pub(crate) fn pool(&self) -> &'p Pool<D> {
        self.pool
    }

    pub(crate) fn seat(&mut self) -> &mut Seat<D> {
        self.seat.as_mut().expect("a worker has its seat until it is dropped")
    }

    /// The worker's state, in which no transaction is open.
    ///
    /// # Errors
    /// As [`Seat::roll_back_left`].
    #[inline]
    pub(crate) fn ready(&mut self) -> Result<&mut Seat<D>, Error> {
        let pool = self.pool;
        pool.own_process("run")?;
        let seat = self.seat();
        if seat.phase != Phase::Over {
            seat.roll_back_left(pool)?;
        }
        Ok(seat)
    }

    /// Runs `body` as one transaction: all of it or nothing, isolated from every other as the
    /// design promises: serializable, under [`Snapshot`](crate::Snapshot) snapshot isolation, under
    /// [`Plain`](crate::Plain) not at all. When another transaction is in the way the body is run
    /// again, so it should change nothing but the pool.
    ///
    /// With [`Durability::Async`] the transaction is visible on return, and durable when the ticket
    /// says so; with [`Durability::Sync`] it is durable on return. Designs whose workers make their
    /// own transactions durable ([`Undo`](crate::Undo), [`Redo`](crate::Redo),
    /// [`Snapshot`](crate::Snapshot) without [groups](crate::Options::group)) do so before they
    /// return in either case.
    ///
    /// A panic in the body takes the transaction back and goes on unwinding.
    ///
    /// # Errors
    /// What the body ended with ([`Error::Aborted`], [`Error::Full`], [`Error::BadPointer`], ...):
    /// then the transaction had no effect. [`Error::InsideTransaction`] in another body.
    /// [`Error::Poisoned`] when the medium has failed: in sync mode also when the transaction is
    /// committed but could not be made durable. [`Error::HeldUp`] under
    /// [`Snapshot`](crate::Snapshot), when a transaction that does not end keeps what this one
    /// needs. [`Error::GateClosed`] when one that has to run alone does not end.
    #[inline]
    pub fn run<R>(
        &mut self,
        body: impl FnMut(&mut Tx<'_, D>) -> Result<R, Stop>,
    ) -> Result<Committed<'p, R, D>, Error> {
        self.attempts(body, false)
    }

    /// Runs `body` as one transaction that only reads: what it sees is the state of one moment,
    /// under every design but [`Plain`](crate::Plain). The ticket is that of this moment: wait for
    /// it before you show the world what you have read.
    ///
    /// # Errors
    /// As [`run`](Worker::run); [`Error::ReadOnly`] when the body writes.
    #[inline]
    pub fn read<R>(
        &mut self,
        body: impl FnMut(&mut Tx<'_, D>) -> Result<R, Stop>,
    ) -> Result<Committed<'p, R, D>, Error> {
        self.attempts(body, true)
    }

    /// How often a transaction of this worker was run again: because another was in the way, or its
    /// ring had no room.
    pub fn conflicts(&self) -> u64 {
        self.seat.as_ref().map_or(0, |seat| seat.conflicts)
    }

    /// Different words that this worker's committed transactions have written.
    pub fn words_written(&self) -> u64 {
        self.seat.as_ref().map_or(0, |seat| seat.writes)
    }

    #[inline]
    fn attempts<R>(
        &mut self,
        mut body: impl FnMut(&mut Tx<'_, D>) -> Result<R, Stop>,
        read_only: bool,
    ) -> Result<Committed<'p, R, D>, Error> {
        let pool = self.pool;
        let seat = self.ready()?;
        let inside = Inside::enter(if read_only { "read" } else { "run" }, &seat.mark)?;
        // A transaction that starves keeps its turn until it ends, retries included.
        let waits = !(read_only && D::READS_PASS);
        let mut turn = None;
        if waits {
            pass(pool, &mut seat.local, &mut seat.fortune, &mut turn)?;
        }
        let (value, id) = loop {
            match attempt(pool, seat, &mut body, read_only) {
                Ok(done) => break done,
                Err(Some(error)) => {
                    seat.fortune.reset();
                    drop((turn, inside));
                    return Err(pool.settle(error));
                }
                Err(None) => {
                    seat.conflicts += 1;
                    seat.fortune.give_way();
                    if let Err(error) = pass(pool, &mut seat.local, &mut seat.fortune, &mut turn) {
                        seat.fortune.reset();
                        return Err(error);
                    }
                }
            }
        };
        seat.fortune.reset();
        drop(turn);
        drop(inside);
        let covers_reads = !read_only || !planted(Mutant::ReadNotCovered);
        let ticket = Ticket::new(pool, if covers_reads { id } else { TxId::NONE });
        if pool.durability == Durability::Sync && D::DURABLE {
            ticket.wait()?;
        }
        Ok(Committed { value, ticket })
    }
}

/// The arena of a worker: its number with the bits in reverse, so that the first workers' arenas
/// lie far apart. Two neighbours share a stripe of the transactional memory, sixteen of them a
/// cache line of its records (two workers that allocate and free: 290 ns where they share one,
/// 130 ns where they do not).
#[inline]
pub(crate) fn arena(number: usize) -> usize {
    (number % lw_alloc::ARENAS).reverse_bits() >> (usize::BITS - lw_alloc::ARENAS.trailing_zeros())
}

/// Passes the starvation lock before an attempt, and waits for the last obstacle.
///
/// # Errors
/// [`Error::GateClosed`].
#[inline]
pub(crate) fn pass<'p, D: Design>(
    pool: &'p Pool<D>,
    local: &mut D::Local,
    fortune: &mut Fortune,
    turn: &mut Option<Turn<'p>>,
) -> Result<(), Error> {
    let design = pool.design();
    let met = || design.obstacle(local);
    let is_held = |key, seen| design.is_held(key, seen);
    // Of the worker that has closed the gate: one after the other may have to run alone.
    let mut waited: Option<(usize, Patience)> = None;
    let gives_up = |worker| match &mut waited {
        Some((same, patience)) if *same == worker => patience.is_over(),
        other => {
            *other = Some((worker, Patience::new(pool.patience)));
            false
        }
    };
    let passed = design.gate().pass(fortune, turn, met, is_held, gives_up);
    passed.map_err(|Closed { worker }| Error::GateClosed { worker, waited: pool.patience })
}

/// One attempt. `Err(None)`: another transaction was in the way.
#[inline]
fn attempt<R, D: Design>(
    pool: &Pool<D>,
    seat: &mut Seat<D>,
    body: &mut impl FnMut(&mut Tx<'_, D>) -> Result<R, Stop>,
    read_only: bool,
) -> Result<(R, TxId), Option<Error>> {
    let design = pool.design();
    design.begin(&mut seat.local, read_only && seat.fortune.is_good())?;
    let arena = arena(seat.number);
    let tx = Tx::new(design, &mut seat.local, &mut seat.known, &pool.shape, arena, read_only);
    let mut running = Running { tx, phase: &mut seat.phase };
    let value = body(&mut running.tx);
    let (value, id, words) = conclude(&mut running.tx, value)?;
    std::mem::forget(running); // nothing to take back, and no reason to drop
    seat.writes += words as u64;
    Ok((value, id))
}

/// A transaction that is run. Dropped when it has not committed: it stops, or it unwinds.
struct Running<'t, D: Design> {
    tx: Tx<'t, D>,
    phase: &'t mut Phase,
}

impl<D: Design> Drop for Running<'_, D> {
    /// Rolls back. If that panics, or the end of the transaction has panicked before, the worker
    /// stays in its last phase and runs no other: nothing is known of what it has locked and
    /// written. The phase is written here alone, so a commit that returns does not pay for it.
    #[inline]
    fn drop(&mut self) {
        *self.phase = Phase::Ending;
        let has_panicked = self.tx.is_ending();
        self.tx.take_back_if_open();
        if !has_panicked {
            *self.phase = Phase::Over;
        }
    }
}

/// Ends an attempt: commits it with this value. Returns the value, its ID, and how many words it
/// has written. After an error the caller drops `tx`, which rolls back what is open. `Err(None)`:
/// another transaction was in the way.
#[inline(always)]
pub(crate) fn conclude<R, D: Design>(
    tx: &mut Tx<'_, D>,
    value: Result<R, Stop>,
) -> Result<(R, TxId, usize), Option<Error>> {
    let done = value.and_then(|value| tx.give_back().map(|()| value));
    let stop = match (done, tx.stopped()) {
        (Ok(value), None) => {
            let words = tx.words_written();
            let id = tx.commit().map_err(|_| None)?;
            return Ok((value, id, words));
        }
        // Sticky: also when the body has swallowed it.
        (_, Some(stop)) | (Err(stop), None) => stop,
    };
    if stop == Stop::Conflict { Err(None) } else { Err(Some(tx.fail(stop))) }
}

impl<D: Design> Drop for Worker<'_, D> {
    fn drop(&mut self) {
        if let Some(mut seat) = self.seat.take() {
            self.pool.leave(&mut seat);
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
mod panics;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_worker_has_an_arena_of_its_own_and_the_first_ones_no_neighbour() {
        let arenas: Vec<usize> = (0..lw_alloc::ARENAS).map(arena).collect();
        assert!(arenas[..64].iter().all(|arena| arena % 2 == 0), "{arenas:?}");
        assert!(arenas[..8].iter().all(|arena| arena % 16 == 0), "{arenas:?}");
        let mut sorted = arenas.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..lw_alloc::ARENAS), "{arenas:?}");
    }
}
