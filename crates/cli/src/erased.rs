//! Type-erased designs and workloads: code outside the timed loop is compiled once, or once for
//! each design or workload, and not for every pair.
//!
//! | | compiled for each |
//! |---|---|
//! | [`AnyPool`], [`lastword::AnyWorker`], [`Timed`] | design |
//! | [`workloads::AnyWorkload`] | workload |
//! | the timed loop, with a workload of a paper on software | pair |

use std::path::Path;

use lastword::{AnyPool, Design, Error, Options, Pool, Worker};
use words::AnyError;
use workloads::AnyClient;

use crate::driver::{Shared, Task, TimedLoop, run_client};
use crate::typed::ByType;

/// A type-erased design: its properties, and how to create or open its pools.
pub(crate) struct AnyDesign {
    pub(crate) is_durable: bool,
    /// Durable transactions survive reopening the pool.
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

/// A pool for measurements.
pub(crate) trait Timed: AnyPool {
    /// Returns a worker that is ready to run a client.
    fn timed_loop(&self) -> Result<TimedLoop<'_>, Error>;
}

impl<D: Design> Timed for Pool<D> {
    fn timed_loop(&self) -> Result<TimedLoop<'_>, Error> {
        let mut worker = self.worker()?;
        Ok(Box::new(move |task| timed(self, &mut worker, task)))
    }
}

/// Runs a client with the workload's static type where a program's throughput is measured.
/// Workloads of papers on hardware exist for the simulator: here each access is a call through a
/// table. Test builds use the table for all workloads, since their runs are short.
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
    workloads::timed_by_name(name, by_type).expect("the workload's name is known")
}

/// Returns the error of a pool's worker with its static type.
pub(crate) fn own(error: AnyError) -> Error {
    error.downcast().expect("a worker returns its pool's error type")
}
