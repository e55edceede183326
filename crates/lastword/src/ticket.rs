//! Tickets: wait for a transaction to become durable.
//!
//! A transaction commits before it is durable. Its ticket lets the program choose how to wait:
//!
//! | | cost to the caller | the log is written |
//! |---|---|---|
//! | [`is_durable`](Ticket::is_durable) | a load | in the background |
//! | [`wait`](Ticket::wait) | the thread, which helps | at once |
//! | `ticket.await` | a registration | at once, by the pool's thread |
//! | [`on_durable`](Ticket::on_durable) | an allocation | in the background |

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use medium::mutants::{Mutant, injected};
use words::TxId;

use crate::design::{Decoupled, Design};
use crate::inside::Inside;
use crate::persist::{Listener, Registration};
use crate::sync::Arc;
use crate::{Error, Pool};

/// A handle to a transaction's durability.
///
/// A read-only transaction has one too: it is durable when every transaction that it may have read
/// from is. So a program never shows results that a crash could still undo.
pub struct Ticket<'p, D: Design = Decoupled> {
    pool: &'p Pool<D>,
    id: TxId,
}

impl<'p, D: Design> Ticket<'p, D> {
    pub(crate) fn new(pool: &'p Pool<D>, id: TxId) -> Ticket<'p, D> {
        Ticket { pool, id }
    }

    /// Returns the transaction's ID. A read-only transaction returns the ID of the last transaction
    /// that it may have read from.
    #[inline]
    pub fn id(self) -> TxId {
        self.id
    }

    pub(crate) fn pool(self) -> &'p Pool<D> {
        self.pool
    }

    /// Returns whether the transaction is durable. Costs a load.
    #[inline]
    pub fn is_durable(self) -> bool {
        self.pool.durable_id() >= self.id
    }

    /// Waits until the transaction is durable, and helps. If no other thread is persisting, the
    /// caller writes the log itself. All transactions committed by then share its one persist
    /// barrier.
    ///
    /// # Errors
    /// [`Error::Poisoned`] when the medium failed, in this thread or another;
    /// [`Error::NameLost`] when a file of the pool is seen to have been removed or replaced;
    /// [`Error::InsideTransaction`] in a body; [`Error::NotDurable`] for designs without
    /// durability.
    pub fn wait(self) -> Result<(), Error> {
        Inside::refuse("wait")?;
        self.pool.wait_for(self.id)
    }

    /// Calls `callback` once with the outcome: when the transaction is durable (at once if it is),
    /// or when a failure keeps that from ever being known. It runs in the thread that made the
    /// transaction durable or met the failure: the pool's own, or a waiting worker's. So it should
    /// be short, and must not wait.
    ///
    /// It never runs in a transaction's body, where calls into the pool are refused. With a bound
    /// on the shadow ([`Options::shadow_bytes`](crate::Options::shadow_bytes)), an access in a body
    /// may wait for a page and help to persist meanwhile, or find that the page cannot be read. The
    /// callback then runs when that body has ended, before [`Pool::run`] returns. So it must take
    /// no lock that is held around a body, and a body must not wait for a callback. A pool that is
    /// [abandoned](Pool::abandon) drops it without a call.
    ///
    /// ```
    /// # use lastword::{Objects, Options, Pool};
    /// # let dir = tempfile::tempdir()?;
    /// # let options = Options::new().bytes(1 << 20).log_bytes(1 << 20);
    /// # let pool = Pool::create(dir.path().join("callback.pool"), options)?;
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// let done = pool.run(|tx| tx.alloc(7_u64))?;
    /// done.ticket.on_durable(move |outcome| drop(sender.send(outcome.is_ok())))?;
    /// pool.flush()?;
    /// assert_eq!(receiver.recv(), Ok(true));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The callback may close the pool, also on a thread of the pool: that thread then ends after
    /// the callback. After a clean shutdown the files are unlocked when the close returns, else
    /// when the callback and the thread have ended.
    ///
    /// # Errors
    /// [`Error::NotDurable`] for designs without durability.
    pub fn on_durable(
        self,
        callback: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Result<(), Error> {
        self.pool.own_process("on_durable")?;
        let (id, file_check) = (self.id, Arc::clone(self.pool.file_check()));
        let notify = move |outcome: Result<(), Error>| {
            callback(outcome.and_then(|()| file_check.check_sometimes(id)));
        };
        self.pool.design().notify(id, Listener::Callback(Box::new(notify)))
    }

    /// Polls for the outcome; see [`Durable`].
    pub(crate) fn poll(
        self,
        registration: &mut Registration,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        if let Err(error) = Inside::refuse("await") {
            return Poll::Ready(Err(error));
        }
        let Ticket { pool, id } = self;
        if let Err(error) = pool.own_process("await") {
            return Poll::Ready(Err(error));
        }
        let design = pool.design();
        let outcome = || {
            let outcome = design.outcome(id)?;
            Some(outcome.and_then(|()| pool.file_check().check_sometimes(id)))
        };
        if let Some(outcome) = outcome() {
            return Poll::Ready(outcome);
        }
        let waker = match injected(Mutant::TaskNotRegistered) {
            true => Waker::noop(),
            false => context.waker(),
        };
        if let Err(error) = design.listen(id, waker, registration) {
            return Poll::Ready(Err(error));
        }
        pool.expedite(id);
        // No step may come that wakes this task.
        if let Some(error) = design.pipeline().and_then(|pipeline| pipeline.stall(id)) {
            return Poll::Ready(Err(error));
        }
        // Check after the registration: a step that ended earlier did not see this task. A step
        // that ended since has taken the waker. Either way the outcome may be known by now.
        let looks = !injected(Mutant::PollLooksOnce);
        outcome().filter(|_| looks).map_or(Poll::Pending, Poll::Ready)
    }

    /// Ends the polls of a future.
    pub(crate) fn forget(self, registration: &Registration) {
        if self.pool.own_process("drop").is_ok() {
            self.pool.design().forget(self.id, registration);
        }
    }
}

/// A future that is ready when the transaction is durable, or when the pool has failed.
///
/// The first poll requests an immediate log write from the pool's thread. A pool without threads of
/// its own ([`Options::background`](crate::Options::background)) writes in the poll, which then
/// takes as long as [`Ticket::wait`]. So does `snapshot`, where the waiting thread closes the
/// group.
#[must_use = "futures do nothing unless they are awaited"]
pub struct Durable<'p, D: Design = Decoupled> {
    ticket: Ticket<'p, D>,
    /// The one waker that the pool holds for this future.
    registration: Registration,
}

impl<'p, D: Design> IntoFuture for Ticket<'p, D> {
    type Output = Result<(), Error>;
    type IntoFuture = Durable<'p, D>;

    fn into_future(self) -> Durable<'p, D> {
        Durable { ticket: self, registration: Registration::default() }
    }
}

impl<D: Design> Future for Durable<'_, D> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.ticket.poll(&mut self.registration, context)
    }
}

impl<D: Design> Drop for Durable<'_, D> {
    fn drop(&mut self) {
        self.ticket.forget(&self.registration);
    }
}

impl<D: Design> fmt::Debug for Durable<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Durable").field(&self.ticket).finish()
    }
}

impl<D: Design> Clone for Ticket<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<D: Design> Copy for Ticket<'_, D> {}

impl<D: Design> fmt::Debug for Ticket<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("id", &self.id).field("durable", &self.is_durable()).finish()
    }
}
