//! Transactions in parts: begun, gone on with and ended by separate calls.
//!
//! A body that is run ([`Worker::run`]) is the better way: it cannot be left open, and conflicts
//! are met there. This is for bindings to languages in which a body is not a function.

use words::{Stop, TxId};

use crate::design::{Decoupled, Design};
use crate::inside::Inside;
use crate::options::Durability;
use crate::perform::{Fortune, Turn};
use crate::worker::{Phase, Seat, arena, conclude, pass};
use crate::{Error, Pool, Ticket, Tx, Worker};

/// A transaction that has begun. Dropping it takes it back.
///
/// While it is open this thread can begin no other, and whoever needs what it has written runs
/// again and again: end it soon. A transaction that has lost many times reserves what it needs
/// until it ends, as a body does that is run again; but where a body keeps its reservations, this
/// gives them up at each conflict, so that it may lose again.
///
/// A transaction that is forgotten ([`forget`](std::mem::forget)) stays open until its worker
/// begins another or is dropped, which rolls it back. Until then it keeps what it has locked and
/// reserved, and the thread that began it can begin no other. If the worker is forgotten, too, that
/// lasts until the pool is closed: what it has written is never committed, but transactions that
/// need the same objects run again and again, and under [`Snapshot`](crate::Snapshot) the log
/// cannot be emptied. If it has lost so often that it has to run alone, every other transaction
/// ends with [`Error::GateClosed`] after [`Options::patience`](crate::Options::patience).
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
///         // A conflict, or what `commit` says is wrong.
///         Err(_) => drop(open.abort()?),
///     }
/// };
/// ticket.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Open<'w, 'p, D: Design = Decoupled> {
    begun: Begun<'w, D>,
    pool: &'p Pool<D>,
    fortune: &'w mut Fortune,
    conflicts: &'w mut u64,
    writes: &'w mut u64,
    _turn: Option<Turn<'p>>,
    _inside: Inside,
}

/// The transaction, and where its worker sees how far it is.
struct Begun<'w, D: Design> {
    tx: Tx<'w, D>,
    phase: &'w mut Phase,
}

impl<'w, D: Design> Begun<'w, D> {
    #[inline]
    fn new(tx: Tx<'w, D>, phase: &'w mut Phase) -> Begun<'w, D> {
        *phase = Phase::Open;
        Begun { tx, phase }
    }

    /// Ends it, by a roll-back if `end` leaves it open. If that panics, the worker begins no other.
    #[inline(always)]
    fn end<R>(&mut self, end: impl FnOnce(&mut Tx<'w, D>) -> R) -> R {
        *self.phase = Phase::Ending;
        let done = end(&mut self.tx);
        self.tx.take_back_if_open();
        *self.phase = Phase::Over;
        done
    }
}

impl<D: Design> Drop for Begun<'_, D> {
    fn drop(&mut self) {
        if *self.phase == Phase::Open {
            self.end(|_| ());
        }
    }
}

impl<'p, D: Design> Worker<'p, D> {
    /// Begins a transaction; see [`Open`]. `read_only`: as [`Worker::read`]. Waits where another
    /// transaction has lost so often that it has to be alone, and after a conflict for up to 2 ms
    /// until what was in the way is free.
    ///
    /// # Errors
    /// [`Error::InsideTransaction`] when this thread has one; [`Error::Poisoned`] and
    /// [`Error::HeldUp`] and [`Error::GateClosed`] as [`Worker::run`].
    #[inline]
    pub fn begin(&mut self, read_only: bool) -> Result<Open<'_, 'p, D>, Error> {
        let pool = self.pool();
        let seat = self.ready()?;
        let inside = Inside::enter("begin", &seat.mark)?;
        let Seat { local, number, fortune, known, phase, conflicts, writes, .. } = seat;
        let waits = !(read_only && D::READS_PASS);
        let (design, mut turn) = (pool.design(), None);
        let passed = if waits { pass(pool, local, fortune, &mut turn) } else { Ok(()) };
        let begun = passed.and_then(|()| design.begin(local, read_only && fortune.is_good()));
        if let Err(error) = begun {
            fortune.reset();
            return Err(error);
        }
        let arena = arena(*number);
        let tx = Tx::new(design, local, known, &pool.shape, arena, read_only);
        let begun = Begun::new(tx, phase);
        Ok(Open { begun, pool, fortune, conflicts, writes, _turn: turn, _inside: inside })
    }
}

impl<'w, 'p, D: Design> Open<'w, 'p, D> {
    /// The transaction, to read and write in.
    #[inline]
    pub fn tx(&mut self) -> &mut Tx<'w, D> {
        &mut self.begun.tx
    }

    /// Commits. `None`: another transaction was in the way; this one has had no effect, and is to
    /// be begun again.
    ///
    /// # Errors
    /// As [`Worker::run`]: what an access was stopped by; or [`Error::Poisoned`], and then the
    /// transaction may be committed all the same, and could not be made durable.
    #[inline]
    pub fn commit(self) -> Result<Option<Ticket<'p, D>>, Error> {
        self.pool.own_process("commit")?;
        let Open { mut begun, pool, fortune, conflicts, writes, _turn: turn, _inside: inside } =
            self;
        let done = begun.end(|tx| conclude(tx, Ok(())));
        match done {
            Ok(((), id, words)) => {
                std::mem::forget(begun); // nothing is left in it to drop
                *writes += words as u64;
                fortune.reset();
                drop((turn, inside));
                let ticket = Ticket::new(pool, id);
                if pool.durability == Durability::Sync && D::DURABLE {
                    ticket.wait()?;
                }
                Ok(Some(ticket))
            }
            Err(None) => {
                // What could not be made durable ends so too, and is no conflict.
                if let Err(error) = pool.design().check() {
                    drop((turn, inside));
                    return Err(error);
                }
                *conflicts += 1;
                fortune.give_way();
                // The turn first: what has waited for the end of this body may begin another.
                drop((turn, inside));
                Ok(None)
            }
            Err(Some(error)) => {
                fortune.reset();
                drop((turn, inside));
                Err(pool.settle(error))
            }
        }
    }

    /// Takes it back. Answers the last transaction that it may have seen: to be durable before the
    /// world is told of what was read.
    ///
    /// # Errors
    /// [`Error::Poisoned`], in sync mode: what it has seen could not be made durable.
    pub fn abort(self) -> Result<TxId, Error> {
        let Open { mut begun, pool, fortune, conflicts, _turn: turn, _inside: inside, .. } = self;
        if begun.tx.stopped() == Some(Stop::Conflict) {
            *conflicts += 1;
            drop(begun);
            fortune.give_way();
            drop((turn, inside));
            return Ok(TxId::NONE);
        }
        let seen = begun.end(Tx::take_back);
        fortune.reset();
        drop((turn, inside));
        if pool.durability == Durability::Sync && D::DURABLE {
            pool.wait_for(seen)?;
        }
        Ok(seen)
    }
}
