//! Workers and tickets that own a reference to their pool, for spawned threads and tasks.
//!
//! [`Worker`] and [`Ticket`] borrow the pool, so the compiler ends them before it. A spawned thread
//! or a task outlives its caller's frame and cannot borrow from it. The types of this module keep
//! the pool in an [`Arc`] instead. They run the same functions as the borrowed types.
//!
//! ```text
//!   OwnedWorker --> Shared --> Arc<Pool>      one allocation for each worker
//!   OwnedTicket --------^
//! ```
//!
//! A ticket counts its reference in the allocation of its worker and not in that of the pool: all
//! workers would otherwise write to one counter at each commit, and its cache line would move from
//! core to core.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};

use words::{Stop, Transact, TxId};

use crate::design::{Decoupled, Design};
use crate::open::{self, Open};
use crate::persist::Registration;
use crate::sync::Arc;
use crate::worker::{WorkerState, attempts};
use crate::{Committed, Error, Pool, Ticket, Tx};

/// A pool, shared by one worker and its tickets.
type Shared<D> = Arc<Arc<Pool<D>>>;

/// A [`Worker`](crate::Worker) that shares ownership of its pool, for a spawned thread or a task.
/// Made by [`Pool::owned_worker`].
///
/// It has the operations of a worker. Each transaction with a ticket costs two atomic additions
/// more, on a counter that only this worker and its tickets use. The pool stays open as long as the
/// worker or one of its tickets lives.
///
/// The last owner of a pool that drops its handle shuts the pool down as [`Pool`]'s drop does,
/// which waits for the device and reports no error. That owner may be a ticket or a future of any
/// thread.
///
/// ```
/// use std::sync::Arc;
///
/// use lastword::{Objects, Options, Pool};
///
/// # let dir = tempfile::tempdir()?;
/// # let options = Options::new().bytes(1 << 20).log_bytes(1 << 20);
/// let pool = Arc::new(Pool::create(dir.path().join("owned.pool"), options)?);
/// let count = pool.run(|tx| tx.alloc(0_u64))?.value;
/// let mut worker = pool.owned_worker()?;
/// let thread = std::thread::spawn(move || worker.run(|tx| tx.set(count, 1)));
/// let done = thread.join().expect("the thread ends")?; // its worker is gone
/// done.ticket.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct OwnedWorker<D: Design = Decoupled> {
    pool: Shared<D>,
    state: Option<WorkerState<D>>,
}

/// The result of a committed transaction of an [`OwnedWorker`].
#[must_use = "a commit is not durable yet: keep the ticket, or take `.value` to ignore durability"]
#[derive(Debug)]
pub struct OwnedCommitted<R, D: Design = Decoupled> {
    /// The value that the body returned.
    pub value: R,
    /// The ticket, which reports durability.
    pub ticket: OwnedTicket<D>,
}

/// A [`Ticket`] that shares ownership of its pool. It may outlive the worker that made it, and move
/// to other threads and tasks.
pub struct OwnedTicket<D: Design = Decoupled> {
    pool: Shared<D>,
    id: TxId,
}

/// The future of an [`OwnedTicket`]; see [`Durable`](crate::Durable).
#[must_use = "futures do nothing unless they are awaited"]
pub struct OwnedDurable<D: Design = Decoupled> {
    ticket: OwnedTicket<D>,
    registration: Registration,
}

impl<D: Design> Pool<D> {
    /// Registers a worker that shares ownership of the pool; see [`worker`](Pool::worker).
    ///
    /// # Errors
    /// As [`worker`](Pool::worker).
    pub fn owned_worker(self: &Arc<Self>) -> Result<OwnedWorker<D>, Error> {
        let state = Some(self.enroll()?);
        Ok(OwnedWorker { pool: Arc::new(Arc::clone(self)), state })
    }

    /// Returns a ticket of the transaction `id` that shares ownership of the pool; see
    /// [`ticket`](Pool::ticket).
    ///
    /// # Errors
    /// As [`ticket`](Pool::ticket).
    pub fn owned_ticket(self: &Arc<Self>, id: TxId) -> Result<OwnedTicket<D>, Error> {
        let id = self.ticket(id)?.id();
        Ok(OwnedTicket { pool: Arc::new(Arc::clone(self)), id })
    }
}

impl<D: Design> OwnedWorker<D> {
    /// Returns the pool.
    pub fn pool(&self) -> &Arc<Pool<D>> {
        &self.pool
    }

    /// Runs `body` as one transaction, as [`Worker::run`](crate::Worker::run).
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn run<R>(
        &mut self,
        body: impl FnMut(&mut Tx<'_, D>) -> Result<R, Stop>,
    ) -> Result<OwnedCommitted<R, D>, Error> {
        let done = attempts(&self.pool, &mut self.state, body, false)?;
        Ok(OwnedCommitted::new(done, &self.pool))
    }

    /// Runs `body` as a read-only transaction, as [`Worker::read`](crate::Worker::read).
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn read<R>(
        &mut self,
        body: impl FnMut(&mut Tx<'_, D>) -> Result<R, Stop>,
    ) -> Result<OwnedCommitted<R, D>, Error> {
        let done = attempts(&self.pool, &mut self.state, body, true)?;
        Ok(OwnedCommitted::new(done, &self.pool))
    }

    /// Begins a transaction in parts, as [`Worker::begin`](crate::Worker::begin). Its ticket
    /// borrows the worker; [`Pool::owned_ticket`] makes an owned one from the ID.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn begin(&mut self, read_only: bool) -> Result<Open<'_, '_, D>, Error> {
        open::begin(&self.pool, &mut self.state, read_only)
    }

    /// As [`Worker::conflicts`](crate::Worker::conflicts).
    pub fn conflicts(&self) -> u64 {
        self.state.as_ref().map_or(0, |state| state.conflicts)
    }

    /// As [`Worker::words_written`](crate::Worker::words_written).
    pub fn words_written(&self) -> u64 {
        self.state.as_ref().map_or(0, |state| state.writes)
    }
}

impl<D: Design> Drop for OwnedWorker<D> {
    fn drop(&mut self) {
        if let Some(mut state) = self.state.take() {
            self.pool.leave(&mut state);
        }
    }
}

impl<D: Design> Transact for OwnedWorker<D> {
    type Tx<'t> = Tx<'t, D>;
    type Error = Error;

    #[inline]
    fn transact<R>(
        &mut self,
        body: impl FnMut(&mut Tx<'_, D>) -> Result<R, Stop>,
    ) -> Result<R, Error> {
        // Without a ticket, so that no reference is counted.
        Ok(attempts(&self.pool, &mut self.state, body, false)?.value)
    }
}

impl<R, D: Design> OwnedCommitted<R, D> {
    #[inline]
    fn new(done: Committed<'_, R, D>, pool: &Shared<D>) -> OwnedCommitted<R, D> {
        let ticket = OwnedTicket { pool: Arc::clone(pool), id: done.ticket.id() };
        OwnedCommitted { value: done.value, ticket }
    }
}

impl<D: Design> OwnedTicket<D> {
    /// Returns the ticket that borrows the pool from this one.
    #[inline]
    fn ticket(&self) -> Ticket<'_, D> {
        Ticket::new(&self.pool, self.id)
    }

    /// Returns the pool.
    pub fn pool(&self) -> &Arc<Pool<D>> {
        &self.pool
    }

    /// As [`Ticket::id`].
    #[inline]
    pub fn id(&self) -> TxId {
        self.id
    }

    /// As [`Ticket::is_durable`].
    #[inline]
    pub fn is_durable(&self) -> bool {
        self.ticket().is_durable()
    }

    /// As [`Ticket::wait`].
    ///
    /// # Errors
    /// As there.
    pub fn wait(&self) -> Result<(), Error> {
        self.ticket().wait()
    }

    /// As [`Ticket::on_durable`].
    ///
    /// # Errors
    /// As there.
    pub fn on_durable(
        &self,
        callback: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Result<(), Error> {
        self.ticket().on_durable(callback)
    }
}

impl<D: Design> IntoFuture for OwnedTicket<D> {
    type Output = Result<(), Error>;
    type IntoFuture = OwnedDurable<D>;

    fn into_future(self) -> OwnedDurable<D> {
        OwnedDurable { ticket: self, registration: Registration::default() }
    }
}

impl<D: Design> Future for OwnedDurable<D> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let OwnedDurable { ticket, registration } = &mut *self;
        ticket.ticket().poll(registration, context)
    }
}

impl<D: Design> Drop for OwnedDurable<D> {
    fn drop(&mut self) {
        self.ticket.ticket().forget(&self.registration);
    }
}

impl<D: Design> Clone for OwnedTicket<D> {
    fn clone(&self) -> Self {
        OwnedTicket { pool: Arc::clone(&self.pool), id: self.id }
    }
}

impl<D: Design> fmt::Debug for OwnedWorker<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedWorker").field("pool", &self.pool).finish_non_exhaustive()
    }
}

impl<D: Design> fmt::Debug for OwnedTicket<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ticket().fmt(f)
    }
}

impl<D: Design> fmt::Debug for OwnedDurable<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnedDurable").field(&self.ticket).finish()
    }
}
