//! Loading under the eyes of the oracle.

use lastword::{Design, Error, Pool, Stop, Transact, Tx, Worker};

use super::Execution;

/// A worker whose every commit is noted.
pub(super) struct Noting<'n, 'e, 'p, D: Design> {
    pub(super) worker: &'n mut Worker<'p, D>,
    pub(super) pool: &'n Pool<D>,
    pub(super) execution: &'n mut Execution<'e>,
}

impl<D: Design> Transact for Noting<'_, '_, '_, D> {
    type Tx<'t>
        = Tx<'t, D>
    where
        Self: 't;
    type Error = Error;

    fn transact<R>(
        &mut self,
        body: impl FnMut(&mut Tx<'_, D>) -> Result<R, Stop>,
    ) -> Result<R, Error> {
        let done = self.worker.run(body).map(|done| done.value);
        self.execution.note_commit(self.pool);
        done
    }
}
