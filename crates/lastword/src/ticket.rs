//! Tickets: when is a transaction durable?
//!
//! | | costs whoever asks | the log is written |
//! |---|---|---|
//! | [`is_durable`](Ticket::is_durable) | a load | behind |
//! | [`wait`](Ticket::wait) | the thread, which helps | at once |
//! | `ticket.await` | a registration | at once, by the pool's thread |
//! | [`on_durable`](Ticket::on_durable) | an allocation | behind |

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};

use words::TxId;

use crate::design::{Decoupled, Design};
use crate::inside::Inside;
use crate::persist::{Listener, Registration};
use crate::sync::Arc;
use crate::{Error, Pool};

/// Tells when a transaction can no longer be lost.
///
/// A transaction that wrote nothing has one too: it is durable when everything that it may have
/// seen is, so that a program never shows the world what a crash could still take back.
pub struct Ticket<'p, D: Design = Decoupled> {
    pool: &'p Pool<D>,
    id: TxId,
}

impl<'p, D: Design> Ticket<'p, D> {
    pub(crate) fn new(pool: &'p Pool<D>, id: TxId) -> Ticket<'p, D> {
        Ticket { pool, id }
    }

    /// The transaction's ID; for one that wrote nothing, that of the last one it may have seen.
    #[inline]
    pub fn id(self) -> TxId {
        self.id
    }

    /// Whether it is durable. Costs a load.
    #[inline]
    pub fn is_durable(self) -> bool {
        self.pool.durable_id() >= self.id
    }

    /// Waits until it is durable. Whoever waits helps: with nobody else at it, the caller writes
    /// the log itself, and all that is committed by then shares its one persist barrier.
    ///
    /// # Errors
    /// [`Error::Poisoned`] when the medium failed, in this thread or another;
    /// [`Error::NameLost`] when a file of the pool is seen to have been removed or replaced;
    /// [`Error::InsideTransaction`] in a body; [`Error::NotDurable`] for designs that keep nothing.
    pub fn wait(self) -> Result<(), Error> {
        Inside::refuse("wait")?;
        self.pool.wait_for(self.id)
    }

    /// Calls `callback` once: when it is durable, at once if it is, or with what keeps it from ever
    /// being known to be. It runs in the thread that has made it durable or has met the failure:
    /// the pool's own, or a worker's that waits. So it should be short, and must not wait.
    ///
    /// It never runs in a transaction's body, where calls into the pool are refused. With a bound
    /// on the shadow ([`Options::shadow_bytes`](crate::Options::shadow_bytes)) an access in a body
    /// may wait for a page and help to persist meanwhile, or find that the page cannot be read: the
    /// callback then runs when that body has ended, before [`Pool::run`] returns. So it must take
    /// no lock that is held around a body, and a body must not wait for a callback. A pool that is
    /// [abandoned](Pool::abandon) drops it without a call.
    ///
    /// ```
    /// # use lastword::{Objects, Options, Pool};
    /// # let dir = tempfile::tempdir()?;
    /// # let options = Options::new().bytes(1 << 20).log_bytes(1 << 20);
    /// # let pool = Pool::create(dir.path().join("callback.pool"), options)?;
    /// let (told, ear) = std::sync::mpsc::channel();
    /// let done = pool.run(|tx| tx.alloc(7_u64))?;
    /// done.ticket.on_durable(move |outcome| drop(told.send(outcome.is_ok())))?;
    /// pool.flush()?;
    /// assert_eq!(ear.recv(), Ok(true));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NotDurable`] for designs that keep nothing.
    pub fn on_durable(
        self,
        callback: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Result<(), Error> {
        self.pool.own_process("on_durable")?;
        let (id, names) = (self.id, Arc::clone(self.pool.names()));
        let told = move |outcome: Result<(), Error>| {
            callback(outcome.and_then(|()| names.check_sometimes(id)));
        };
        self.pool.design().tell(id, Listener::Callback(Box::new(told)))
    }
}

/// A ticket that is awaited: ready when the transaction is durable, or when the pool has failed.
///
/// The first poll has the pool's thread write the log at once. A pool without threads of its own
/// ([`Options::background`](crate::Options::background)) writes it in the poll, which then takes as
/// long as [`Ticket::wait`]; so does `snapshot`, whose groups are ended by who asks.
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
        if let Err(error) = Inside::refuse("await") {
            return Poll::Ready(Err(error));
        }
        let Ticket { pool, id } = self.ticket;
        if let Err(error) = pool.own_process("await") {
            return Poll::Ready(Err(error));
        }
        let design = pool.design();
        let outcome = || {
            let outcome = design.outcome(id)?;
            Some(outcome.and_then(|()| pool.names().check_sometimes(id)))
        };
        if let Some(outcome) = outcome() {
            return Poll::Ready(outcome);
        }
        if let Err(error) = design.listen(id, context.waker(), &mut self.registration) {
            return Poll::Ready(Err(error));
        }
        design.hurry(id);
        // After the registration: a turn that was over before did not see this task, or has taken
        // its waker already. Then the outcome is known.
        outcome().map_or(Poll::Pending, Poll::Ready)
    }
}

impl<D: Design> Drop for Durable<'_, D> {
    fn drop(&mut self) {
        let Ticket { pool, id } = self.ticket;
        if pool.own_process("drop").is_ok() {
            pool.design().forget(id, &self.registration);
        }
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
