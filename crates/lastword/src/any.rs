//! Pools and workers without a design parameter, for programs that choose the design at run time.
//!
//! Code behind these traits is compiled once, not once for each design. An access of an erased
//! transaction is a virtual call and costs some nanoseconds more.

use words::{Allocate, Stop, TxId};

use crate::{Design, Erased, Error, Info, Metrics, Pool, Worker};

/// A [`Pool`] of any design.
///
/// # Example
/// ```
/// use lastword::{AnyPool, Objects, Options, Pool, Undo, Volatile};
///
/// fn pool_of(design: &str, path: &std::path::Path) -> Result<Box<dyn AnyPool>, lastword::Error> {
///     Ok(match design {
///         "undo" => Box::new(Pool::<Undo>::create_as(path, Options::new())?),
///         _ => Box::new(Pool::<Volatile>::create_as(path, Options::new())?),
///     })
/// }
///
/// let dir = tempfile::tempdir()?;
/// let pool = pool_of("undo", &dir.path().join("pool"))?;
/// pool.any_worker()?.run_any(false, &mut |tx| tx.set_root(0))?;
/// pool.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait AnyPool: Send + Sync {
    /// As [`Pool::worker`].
    ///
    /// # Errors
    /// As there.
    fn any_worker(&self) -> Result<Box<dyn AnyWorker + '_>, Error>;

    /// As [`Pool::committed_id`].
    fn committed_id(&self) -> TxId;

    /// As [`Pool::durable_id`].
    fn durable_id(&self) -> TxId;

    /// As [`Pool::reproduced_id`].
    fn reproduced_id(&self) -> TxId;

    /// As [`Pool::flush`].
    ///
    /// # Errors
    /// As there.
    fn flush(&self) -> Result<(), Error>;

    /// As [`Pool::bring_home`].
    ///
    /// # Errors
    /// As there.
    fn bring_home(&self) -> Result<(), Error>;

    /// As [`Pool::check_heap`].
    ///
    /// # Errors
    /// As there.
    fn check_heap(&self) -> Result<lw_alloc::Usage, lw_alloc::Damage>;

    /// As [`Pool::metrics`].
    fn metrics(&self) -> Metrics;

    /// As [`Pool::info`].
    fn info(&self) -> Info;

    /// Returns [`Design::STEPS`].
    fn steps(&self) -> &'static [&'static str];

    /// As [`Design::step`].
    ///
    /// # Errors
    /// As there.
    fn step(&self, step: usize) -> Result<bool, Error>;

    /// Returns all words of the heap as the next transaction would read them, with links as 0. No
    /// transaction may run during the call.
    fn heap_words(&self) -> Vec<u64>;

    /// As [`Pool::close`].
    ///
    /// # Errors
    /// As there.
    fn close(self: Box<Self>) -> Result<(), Error>;

    /// As [`Pool::abandon`].
    fn abandon(self: Box<Self>);
}

impl<D: Design> AnyPool for Pool<D> {
    fn any_worker(&self) -> Result<Box<dyn AnyWorker + '_>, Error> {
        Ok(Box::new(self.worker()?))
    }

    fn committed_id(&self) -> TxId {
        self.committed_id()
    }

    fn durable_id(&self) -> TxId {
        self.durable_id()
    }

    fn reproduced_id(&self) -> TxId {
        self.reproduced_id()
    }

    fn flush(&self) -> Result<(), Error> {
        self.flush()
    }

    fn bring_home(&self) -> Result<(), Error> {
        self.bring_home()
    }

    fn check_heap(&self) -> Result<lw_alloc::Usage, lw_alloc::Damage> {
        self.check_heap()
    }

    fn metrics(&self) -> Metrics {
        self.metrics()
    }

    fn info(&self) -> Info {
        self.info()
    }

    fn steps(&self) -> &'static [&'static str] {
        D::STEPS
    }

    fn step(&self, step: usize) -> Result<bool, Error> {
        self.design().step(step)
    }

    fn heap_words(&self) -> Vec<u64> {
        let design = self.design();
        let mut words: Vec<u64> = (0..design.words()).map(|index| design.observe(index)).collect();
        for link in 0..words.len().saturating_sub(2) {
            let is_link = || {
                let object = 8 * (link as u64 + 2);
                lw_alloc::header::extent_bytes(words[link + 1], object).is_some()
            };
            // Links are excluded: no transaction reads one, and a crash may leave any value there.
            if words[link] != 0 && is_link() {
                words[link] = 0;
            }
        }
        words
    }

    fn close(self: Box<Self>) -> Result<(), Error> {
        (*self).close()
    }

    fn abandon(self: Box<Self>) {
        (*self).abandon();
    }
}

/// The body of a transaction that an [`AnyWorker`] runs.
pub type AnyBody<'b> = dyn FnMut(&mut dyn Allocate) -> Result<(), Stop> + 'b;

/// A [`Worker`] of any design.
pub trait AnyWorker: Send {
    /// Returns the worker for code that is generic over the type of transaction and needs no IDs.
    fn erased(&mut self) -> Erased<'_, Error>;

    /// Runs `body` as one transaction and returns its ID: as [`Worker::read`] if `reads_only`, else
    /// as [`Worker::run`].
    ///
    /// # Errors
    /// As there.
    fn run_any(&mut self, reads_only: bool, body: &mut AnyBody<'_>) -> Result<TxId, Error>;

    /// Runs `body`, and then rolls it back with [`Tx::abort`](crate::Tx::abort).
    ///
    /// # Errors
    /// Always: [`Error::Aborted`], or the error that ended the transaction earlier.
    fn abort_any(
        &mut self,
        reason: &'static str,
        body: &mut AnyBody<'_>,
    ) -> Result<std::convert::Infallible, Error>;
}

impl<D: Design> AnyWorker for Worker<'_, D> {
    fn erased(&mut self) -> Erased<'_, Error> {
        Erased::new(self)
    }

    fn run_any(&mut self, reads_only: bool, body: &mut AnyBody<'_>) -> Result<TxId, Error> {
        let done = match reads_only {
            true => self.read(|tx| body(tx)),
            false => self.run(|tx| body(tx)),
        };
        Ok(done?.ticket.id())
    }

    fn abort_any(
        &mut self,
        reason: &'static str,
        body: &mut AnyBody<'_>,
    ) -> Result<std::convert::Infallible, Error> {
        let aborted = self.run(|tx| {
            body(tx)?;
            tx.abort(reason)
        });
        aborted.map(|done| done.value)
    }
}
