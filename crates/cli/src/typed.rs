//! The timed loop with the workload's static type: its bodies are compiled for each design, as in
//! an application that uses one design.

use lastword::{Design, Pool, Stop, Worker};
use words::Allocate;
use workloads::{AnyClient, Visitor, Workload};

use crate::driver::{Body, Shared, Task, run_client};

/// A workload of known type.
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

/// A task to run with its workload's static type.
pub(crate) struct ByType<'a, 'p, D: Design> {
    pub(crate) pool: &'p Pool<D>,
    pub(crate) worker: &'a mut Worker<'p, D>,
    pub(crate) task: Task<'a>,
}

impl<D: Design> Visitor for ByType<'_, '_, D> {
    type Out = Shared<AnyClient>;

    fn visit<W: Workload>(self) -> Shared<AnyClient> {
        let ByType { pool, worker, task } = self;
        let workload = &Typed(task.workload.downcast::<W>().expect("the workload has this name"));
        let position = task.position.map(|at| at.downcast::<W>().expect("its client").clone());
        let share = run_client(pool, worker, task.with(workload, position))?;
        Ok(share.map(|client| AnyClient::new::<W>(client.clone())))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use lastword::{Erased, Options, Volatile};
    use words::ErasedTx;
    use workloads::{Bank, Kind};

    use super::*;
    use crate::driver::{Manner, Position};
    use crate::latency::Sampling;

    #[test]
    fn client_returns_from_typed_loop_in_place() {
        let options = workloads::Options { scale: 0.001, ..workloads::Options::default() };
        let kind = Kind::by_name(Bank::NAME).unwrap();
        let bytes = kind.heap_bytes(&options);
        let pool = Pool::<Volatile>::create_as("", Options::new().bytes(bytes)).unwrap();
        let mut worker = pool.worker().unwrap();
        let workload = kind.load(&mut Erased::any(&mut worker), &options).unwrap();
        let (position, stop) = (Position::new(workload.client(0, 1)), AtomicBool::new(false));
        let manner = Manner { sampling: Sampling::Off, outstanding: None, readers: 0 };
        let task = Task { workload: &workload, position, manner, stop: &stop, quota: 100 };
        let by_type = ByType { pool: &pool, worker: &mut worker, task };
        let mut position = by_type.visit::<Bank>().unwrap().position;
        assert_eq!(position.count, 100);
        let mut is_there = |client: &AnyClient| {
            let done = worker.run(|tx| workload.is_present(client, &mut ErasedTx::new(tx)));
            done.unwrap().value
        };
        assert!(is_there(&position.client));
        workload.next(&mut position.client);
        assert!(!is_there(&position.client), "the client is at its hundredth transaction");
    }
}
