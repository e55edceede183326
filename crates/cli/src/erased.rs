//! Designs, pools and workers whose type is forgotten: what is not timed is compiled once for each
//! design or each workload, and not for every pair of them.
//!
//! | | compiled for each |
//! |---|---|
//! | [`AnyPool`], [`AnyWorker`] | design |
//! | [`Timed`] | pair |
//! | whoever uses them | workload |

use std::path::Path;

use lastword::{Allocate, Design, Erased, Error, Info, Metrics, Options, Pool, Stop, TxId, Worker};
use workloads::Workload;

use crate::driver::{TimedLoop, run_client};

/// A design: what it is like, and how to make or open a pool on which `W` is timed.
pub(crate) struct AnyDesign<W> {
    pub(crate) is_durable: bool,
    pub(crate) workers_max: usize,
    pub(crate) rolls_back: bool,
    pub(crate) create: Begin<W>,
    pub(crate) open: Begin<W>,
}

type Begin<W> = fn(&Path, Options) -> Result<Box<dyn Timed<W>>, Error>;

impl<W: Workload> AnyDesign<W> {
    pub(crate) fn of<D: Design>() -> AnyDesign<W> {
        AnyDesign {
            is_durable: D::DURABLE,
            workers_max: D::WORKERS_MAX,
            rolls_back: D::ROLLS_BACK,
            create: |path, options| Ok(Box::new(Pool::<D>::create_as(path, options)?)),
            open: |path, options| Ok(Box::new(Pool::<D>::open_as(path, options)?)),
        }
    }
}

/// A pool on which a workload is timed.
pub(crate) trait Timed<W: Workload>: AnyPool {
    /// A worker, ready to run a client.
    fn timed_loop(&self) -> Result<TimedLoop<'_, W>, Error>;
}

impl<D: Design, W: Workload> Timed<W> for Pool<D> {
    fn timed_loop(&self) -> Result<TimedLoop<'_, W>, Error> {
        let mut worker = self.worker()?;
        Ok(Box::new(move |task| run_client(self, &mut worker, task)))
    }
}

/// A pool: the methods of [`Pool`].
pub(crate) trait AnyPool {
    fn any_worker(&self) -> Result<Box<dyn AnyWorker + '_>, Error>;
    fn committed_id(&self) -> TxId;
    fn durable_id(&self) -> TxId;
    fn flush(&self) -> Result<(), Error>;
    fn bring_home(&self) -> Result<(), Error>;
    fn metrics(&self) -> Metrics;
    fn info(&self) -> &Info;
    fn close(self: Box<Self>) -> Result<(), Error>;
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

    fn flush(&self) -> Result<(), Error> {
        self.flush()
    }

    fn bring_home(&self) -> Result<(), Error> {
        self.bring_home()
    }

    fn metrics(&self) -> Metrics {
        self.metrics()
    }

    fn info(&self) -> &Info {
        self.info()
    }

    fn close(self: Box<Self>) -> Result<(), Error> {
        (*self).close()
    }

    fn abandon(self: Box<Self>) {
        (*self).abandon();
    }
}

/// A worker for what is not timed.
pub(crate) trait AnyWorker: Send {
    /// For who needs no IDs.
    fn erased(&mut self) -> Erased<'_, Error>;

    /// Runs `body` as one transaction and answers its ID; `reads_only`: one that cannot write.
    fn run_any(&mut self, reads_only: bool, body: &mut Body<'_>) -> Result<TxId, Error>;
}

/// What a transaction does.
pub(crate) type Body<'b> = dyn FnMut(&mut dyn Allocate) -> Result<(), Stop> + 'b;

impl<D: Design> AnyWorker for Worker<'_, D> {
    fn erased(&mut self) -> Erased<'_, Error> {
        Erased::new(self)
    }

    fn run_any(&mut self, reads_only: bool, body: &mut Body<'_>) -> Result<TxId, Error> {
        let done = match reads_only {
            true => self.read(|tx| body(tx)),
            false => self.run(|tx| body(tx)),
        };
        Ok(done?.ticket.id())
    }
}
