//! Loading with every commit recorded for the oracle.

use lastword::{AnyPool, AnyWorker, ErasedTx, Error, Stop, Transact};

use super::Execution;

/// A worker whose every commit is recorded.
pub(super) struct Noting<'n, 'e> {
    pub(super) worker: &'n mut dyn AnyWorker,
    pub(super) pool: &'n dyn AnyPool,
    pub(super) execution: &'n mut Execution<'e>,
}

impl Transact for Noting<'_, '_> {
    type Tx<'t>
        = ErasedTx<'t>
    where
        Self: 't;
    type Error = Error;

    fn transact<R>(
        &mut self,
        mut body: impl FnMut(&mut ErasedTx<'_>) -> Result<R, Stop>,
    ) -> Result<R, Error> {
        let mut result = None;
        let done = self.worker.run_any(false, &mut |tx| {
            result = Some(body(&mut ErasedTx::new(tx))?);
            Ok(())
        });
        self.execution.note_commit(self.pool);
        done.map(|_| result.expect("a transaction that commits has a result"))
    }
}
