//! Designs and workloads whose types are forgotten: what is not timed is compiled once for each of
//! them, or once for all, and not for every pair.
//!
//! | | compiled for each |
//! |---|---|
//! | [`AnyPool`], [`lastword::AnyWorker`], [`Timed`] | design |
//! | [`workloads::AnyWorkload`] | workload |
//! | the loop that is timed, of the workloads of papers on software | pair |

use std::path::Path;

use lastword::{AnyPool, Design, Error, Options, Pool, Worker};
use words::AnyError;
use workloads::AnyClient;

use crate::driver::{Shared, Task, TimedLoop, run_client};
use crate::typed::ByType;

/// A design: what it is like, and how to make or open a pool on which workloads are timed.
pub(crate) struct AnyDesign {
    pub(crate) is_durable: bool,
    /// Whether what was durable is there when the pool is opened again.
    pub(crate) reopens: bool,
    pub(crate) workers_max: usize,
    pub(crate) rolls_back: bool,
    pub(crate) create: Begin,
    pub(crate) open: Begin,
}

type Begin = fn(&Path, Options) -> Result<Box<dyn Timed>, Error>;

impl AnyDesign {
    pub(crate) fn of<D: Design>() -> AnyDesign {
        AnyDesign {
            is_durable: D::DURABLE,
            reopens: D::DURABLE,
            workers_max: D::WORKERS_MAX,
            rolls_back: D::ROLLS_BACK,
            create: |path, options| Ok(Box::new(Pool::<D>::create_as(path, options)?)),
            open: |path, options| Ok(Box::new(Pool::<D>::open_as(path, options)?)),
        }
    }
}

/// A pool on which a workload is timed.
pub(crate) trait Timed: AnyPool {
    /// A worker, ready to run a client.
    fn timed_loop(&self) -> Result<TimedLoop<'_>, Error>;
}

impl<D: Design> Timed for Pool<D> {
    fn timed_loop(&self) -> Result<TimedLoop<'_>, Error> {
        let mut worker = self.worker()?;
        Ok(Box::new(move |task| timed(self, &mut worker, task)))
    }
}

/// Runs a client with the workload's type where rates are those of a program that knows it. The
/// workloads of papers on hardware are there to be simulated: here they are run, and an access of
/// theirs is a call through a table. So it is in builds for tests, which run for moments.
fn timed<'p, D: Design>(
    pool: &'p Pool<D>,
    worker: &mut Worker<'p, D>,
    task: Task<'_>,
) -> Shared<AnyClient> {
    let name = task.workload.kind().name;
    if cfg!(debug_assertions) || !workloads::is_timed(name) {
        return run_client(pool, worker, task);
    }
    let by_type = ByType { pool, worker, task };
    workloads::timed_by_name(name, by_type).expect("it is one of them")
}

/// The error of a pool's worker, whose type was forgotten.
pub(crate) fn own(error: AnyError) -> Error {
    error.downcast().expect("a worker's own error")
}
