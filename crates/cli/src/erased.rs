//! Type-erased designs and workloads: code outside the timed loop is compiled once, or once for
//! each design or workload, and not for every pair.
//!
//! | | compiled for each |
//! |---|---|
//! | [`AnyPool`], [`lastword::AnyWorker`], [`Timed`] | design |
//! | [`workloads::AnyWorkload`] | workload |
//! | the timed loop, with a workload of a paper on software | pair |

use lastword::{AnyPool, Design, Erase, Error, Pool, Worker};
use words::AnyError;
use workloads::AnyClient;

use crate::driver::{Shared, Task, TimedLoop, run_client};
use crate::typed::ByType;

/// A design of the registry, with pools for measurements.
pub(crate) type AnyDesign = lastword::AnyDesign<ToTimed>;

/// Erases the design of a pool to [`Timed`].
#[derive(Debug)]
pub(crate) struct ToTimed;

impl Erase for ToTimed {
    type Pool = dyn Timed;

    fn erase<D: Design>(pool: Pool<D>) -> Box<dyn Timed> {
        Box::new(pool)
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
