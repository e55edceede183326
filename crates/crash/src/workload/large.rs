//! The workloads of the `workloads` crate, as small as they get.

use words::{Allocate, Stop, Transact};
use workloads::{Options, Workload};

use super::Scenario;

/// A workload.
#[derive(Clone, Debug)]
pub struct Of<W>(W);

impl<W: Workload> Scenario for Of<W> {
    const NAME: &'static str = W::NAME;
    const HEAP_BYTES: u64 = 512 << 10;
    type Client = W::Client;

    fn load<T: Transact>(worker: &mut T) -> Result<(), T::Error> {
        // The smallest that there is.
        W::load(worker, &Options { scale: 1e-9, ..Options::default() }).map(drop)
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Of<W>>, T::Error> {
        Ok(W::open(worker)?.map(Of))
    }

    fn client(&self, worker: usize, seed: u64) -> W::Client {
        self.0.client(worker, seed)
    }

    fn next(&self, client: &mut W::Client) {
        self.0.next(client);
    }

    fn run<T: Allocate>(&self, client: &W::Client, tx: &mut T) -> Result<(), Stop> {
        self.0.run(client, tx)
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<String>, T::Error> {
        Ok(self.0.check(worker)?.iter().map(ToString::to_string).collect())
    }
}
