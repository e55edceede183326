//! Designs whose type is forgotten: what is not timed is compiled once for each design or each
//! workload, and not for every pair of them.
//!
//! | | compiled for each |
//! |---|---|
//! | [`AnyPool`], [`AnyWorker`] | design |
//! | [`Timed`] | pair |
//! | whoever uses them | workload |

use std::path::Path;

use lastword::{AnyPool, Design, Error, Options, Pool};
use workloads::Workload;

use crate::driver::{TimedLoop, run_client};

/// A design: what it is like, and how to make or open a pool on which `W` is timed.
pub(crate) struct AnyDesign<W> {
    pub(crate) is_durable: bool,
    /// Whether what was durable is there when the pool is opened again.
    pub(crate) reopens: bool,
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
            reopens: D::DURABLE,
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
