//! The workloads of the `workloads` crate at their smallest size, compiled once for all designs.

use words::{Allocate, Erased, ErasedTx, Stop, Transact};
use workloads::{Options, Workload};

use super::Scenario;

/// A workload in a heap of `KIB` KiB.
#[derive(Clone, Debug)]
pub struct Of<W, const KIB: u64>(W);

impl<W: Workload, const KIB: u64> Scenario for Of<W, KIB> {
    const NAME: &'static str = W::NAME;
    const HEAP_BYTES: u64 = KIB << 10;
    const LOG_BYTES: u64 = Self::HEAP_BYTES / 4;
    type Client = W::Client;

    fn load<T: Transact>(worker: &mut T) -> Result<(), T::Error> {
        // The scale is clamped to the smallest size.
        W::load(&mut Erased::new(worker), &Options { scale: 1e-9, ..Options::default() }).map(drop)
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Self>, T::Error> {
        Ok(W::open(&mut Erased::new(worker))?.map(Of))
    }

    fn client(&self, worker: usize, seed: u64) -> W::Client {
        self.0.client(worker, seed)
    }

    /// Skips transactions that abort themselves: the explorer has its own aborts.
    fn next(&self, client: &mut W::Client) {
        self.0.next(client);
        while self.0.gives_up(client) {
            self.0.next(client);
        }
    }

    fn run<T: Allocate>(&self, client: &W::Client, tx: &mut T) -> Result<(), Stop> {
        self.0.run(client, &mut ErasedTx::new(tx))
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<String>, T::Error> {
        Ok(self.0.check(&mut Erased::new(worker))?.iter().map(ToString::to_string).collect())
    }
}
