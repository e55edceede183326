//! The timed loop with the workload's type: its bodies are compiled for each design, as those of a
//! program that uses one are.

use lastword::{Design, Pool, Stop, Worker};
use words::Allocate;
use workloads::{AnyClient, Visitor, Workload};

use crate::driver::{Body, Shared, Task, run_client};

/// A workload whose type is known.
pub(crate) struct Typed<'a, W>(&'a W);

impl<W: Workload> Body for Typed<'_, W> {
    type Client = W::Client;

    #[inline]
    fn next(&self, client: &mut W::Client) {
        self.0.next(client);
    }

    #[inline]
    fn reads_only(&self, client: &W::Client) -> bool {
        W::READS && self.0.reads_only(client)
    }

    #[inline]
    fn gives_up(&self, client: &W::Client) -> bool {
        self.0.gives_up(client)
    }

    #[inline]
    fn run<T: Allocate>(&self, client: &W::Client, tx: &mut T) -> Result<(), Stop> {
        self.0.run(client, tx)
    }
}

/// A task that is to be done so.
pub(crate) struct ByType<'a, 'p, D: Design> {
    pub(crate) pool: &'p Pool<D>,
    pub(crate) worker: &'a mut Worker<'p, D>,
    pub(crate) task: Task<'a>,
}

impl<D: Design> Visitor for ByType<'_, '_, D> {
    type Out = Shared<AnyClient>;

    fn visit<W: Workload>(self) -> Shared<AnyClient> {
        let ByType { pool, worker, task } = self;
        let workload = &Typed(task.workload.downcast::<W>().expect("the workload of this name"));
        let position = task.position.map(|at| at.downcast::<W>().expect("its client").clone());
        let share = run_client(pool, worker, task.with(workload, position))?;
        Ok(share.map(|client| AnyClient::new::<W>(client.clone())))
    }
}
