//! Transactions: the object of a `with` block.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::current::{self, End, Phase, TxState};
use crate::failure::Failure;
use crate::map::MapBase;
use crate::shared::Shared;
use crate::task::Task;
use crate::ticket::Ticket;

/// A transaction, made by `pool.transaction()`.
#[pyclass(frozen, module = "lastword")]
pub(crate) struct Transaction(Arc<TxState>);

impl Transaction {
    pub(crate) fn new(pool: Arc<Shared>, reads_only: bool) -> Transaction {
        Transaction(Arc::new(TxState::new(pool, reads_only)))
    }

    pub(crate) fn state(&self) -> Arc<TxState> {
        Arc::clone(&self.0)
    }
}

#[pymethods]
impl Transaction {
    fn __enter__<'py>(slf: &Bound<'py, Transaction>) -> PyResult<Bound<'py, Transaction>> {
        let py = slf.py();
        let (state, task) = (&slf.get().0, Task::running(py)?);
        current::settle(py);
        py.detach(|| current::begin(state, task))?;
        Ok(slf.clone())
    }

    #[pyo3(signature = (kind, *_exception))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _exception: &Bound<'_, PyTuple>,
    ) -> PyResult<bool> {
        let end = if kind.is_none() { End::Commit } else { End::Exception };
        if end == End::Commit {
            current::must_be_own_task(py, &self.0)?;
        }
        py.detach(|| current::end(&self.0, end))?;
        Ok(false)
    }

    /// Returns a map whose operations belong to this transaction, and fail outside of it.
    fn __getitem__<'py>(
        slf: &Bound<'py, Transaction>,
        map: &Bound<'py, MapBase>,
    ) -> PyResult<Bound<'py, PyAny>> {
        map.get_type().call1((slf, map))
    }

    /// Rolls the transaction back. Later operations in its block fail, and the block ends quietly.
    fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        current::must_be_own_task(py, &self.0)?;
        Ok(py.detach(|| current::end(&self.0, End::RollBack))?)
    }

    /// The ticket of the committed transaction.
    #[getter]
    fn ticket(&self) -> PyResult<Ticket> {
        self.0.pool.own_process("ticket")?;
        if let Some((engine, id)) = self.0.committed() {
            return Ok(Ticket::new(engine, id));
        }
        let message = match self.0.phase() {
            Phase::Fresh | Phase::Open => "the transaction has no ticket before it commits",
            _ => "the transaction has not committed, so it has no ticket",
        };
        Err(Failure::Class("Ended", message.to_owned()).into())
    }

    /// Whether the transaction is open.
    #[getter]
    fn is_open(&self) -> bool {
        self.0.phase() == Phase::Open
    }

    /// The end of the transaction: "conflict" and "full" may run again.
    #[getter]
    fn state_name(&self) -> &'static str {
        match self.0.phase() {
            Phase::Fresh => "fresh",
            Phase::Open => "open",
            Phase::Committed(_) => "committed",
            Phase::RolledBack => "rolled back",
            Phase::Conflict => "conflict",
            Phase::Full => "full",
            Phase::Failed => "failed",
        }
    }

    fn __repr__(&self) -> String {
        format!("<lastword transaction: {}>", self.state_name())
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // Entered and never left, as by a call of `__enter__`, or dropped in another thread with
        // the generator whose block it is.
        if self.0.phase() == Phase::Open {
            // A roll-back may wait for the disk. No interpreter: it is shutting down.
            let done = Python::try_attach(|py| py.detach(|| self.0.abandon()));
            done.unwrap_or_else(|| self.0.abandon());
        }
    }
}
