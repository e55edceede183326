//! Transactions in parts: begun, gone on with and ended by separate calls.
//!
//! A body that is run ([`Worker::run`]) is the better way: it cannot be left open, and conflicts
//! are met there. This is for bindings to languages in which a body is not a function.

use words::{Stop, TxId};

use crate::design::{Decoupled, Design};
use crate::inside::Inside;
use crate::options::Durability;
use crate::perform::{Fortune, Turn};
use crate::worker::{Seat, arena, conclude};
use crate::{Error, Pool, Ticket, Tx, Worker};

/// A transaction that has begun. Dropping it takes it back.
///
/// While it is open this thread can begin no other, and whoever needs what it has written runs
/// again and again: end it soon. One that has met many conflicts keeps others from beginning until
/// it ends, as a body does that is run again; but where a body goes on doing so, this gives them
/// their turn at each conflict, so that it may meet some again. Forgotten
/// ([`forget`](std::mem::forget)), it keeps what it has locked.
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
    tx: Tx<'w, D>,
    pool: &'p Pool<D>,
    fortune: &'w mut Fortune,
    conflicts: &'w mut u64,
    writes: &'w mut u64,
    _turn: Option<Turn<'p>>,
    _inside: Inside,
}

impl<'p, D: Design> Worker<'p, D> {
    /// Begins a transaction; see [`Open`]. `read_only`: as [`Worker::read`]. Waits where another
    /// transaction has met so many conflicts that it has to be alone.
    ///
    /// # Errors
    /// [`Error::InsideTransaction`] when this thread has one; [`Error::Poisoned`] and
    /// [`Error::HeldUp`] as [`Worker::run`].
    #[inline]
    pub fn begin(&mut self, read_only: bool) -> Result<Open<'_, 'p, D>, Error> {
        let inside = Inside::enter("begin")?;
        let pool = self.pool();
        let Seat { local, number, fortune, known, conflicts, writes } = self.seat();
        let waits = !(read_only && D::READS_PASS);
        let turn = if waits { pool.gate.pass(fortune) } else { None };
        let design = pool.design();
        if let Err(error) = design.begin(local, read_only && fortune.is_good()) {
            fortune.reset();
            return Err(error);
        }
        let tx = Tx::new(design, local, known, &pool.shape, arena(*number), read_only);
        Ok(Open { tx, pool, fortune, conflicts, writes, _turn: turn, _inside: inside })
    }
}

impl<'w, 'p, D: Design> Open<'w, 'p, D> {
    /// The transaction, to read and write in.
    #[inline]
    pub fn tx(&mut self) -> &mut Tx<'w, D> {
        &mut self.tx
    }

    /// Commits. `None`: another transaction was in the way; this one has had no effect, and is to
    /// be begun again.
    ///
    /// # Errors
    /// As [`Worker::run`]: what an access was stopped by; or [`Error::Poisoned`], and then the
    /// transaction may be committed all the same, and could not be made durable.
    #[inline]
    pub fn commit(self) -> Result<Option<Ticket<'p, D>>, Error> {
        let Open { tx, pool, fortune, conflicts, writes, _turn: turn, _inside: inside } = self;
        let done = conclude(tx, Ok(()));
        match done {
            Ok(((), id, words)) => {
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
                pool.design().check()?;
                *conflicts += 1;
                fortune.give_way();
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
        let Open { mut tx, pool, fortune, conflicts, _turn: turn, _inside: inside, .. } = self;
        if tx.stopped() == Some(Stop::Conflict) {
            *conflicts += 1;
            drop(tx);
            fortune.give_way();
            return Ok(TxId::NONE);
        }
        let seen = tx.take_back();
        fortune.reset();
        drop((tx, turn, inside));
        if pool.durability == Durability::Sync && D::DURABLE {
            pool.design().wait(seen)?;
        }
        Ok(seen)
    }
}
