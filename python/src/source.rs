//! The source of a map's pairs: a pool, a transaction or a view. The scope of one operation: a
//! transaction of its own, the thread's transaction, or a view.
//!
//! The interpreter's lock is released where an operation may wait: for the disk, for another
//! transaction, or for a page of a view. An access inside a transaction only works on memory, and
//! keeps the lock, since its release costs more than the access.

use std::sync::Arc;

use lastword::{ErasedTx, Stop};
use pyo3::prelude::*;

use crate::current::{self, TxState};
use crate::failure::Failure;
use crate::shared::Shared;
use crate::view::ViewState;

/// The source of a map's pairs.
#[derive(Clone)]
pub(crate) enum Source {
    /// The pool: inside the thread's transaction if it has one, else in transactions of their own.
    Pool(Arc<Shared>),
    /// One transaction.
    Within(Arc<TxState>),
    /// A view, or a pool that is only read.
    ReadOnly(Arc<ViewState>),
}

/// The scope of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// A transaction of its own.
    Own,
    /// The open transaction of this thread.
    Inside,
    /// A state that does not change.
    ReadOnly,
}

impl Source {
    /// Whether both are of one pool, so that a map of one is a map of the other.
    pub(crate) fn shares_pool(&self, other: &Source) -> bool {
        match (self.pool(), other.pool()) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            _ => match (self, other) {
                (Source::ReadOnly(own), Source::ReadOnly(other)) => Arc::ptr_eq(own, other),
                _ => false,
            },
        }
    }

    fn pool(&self) -> Option<&Arc<Shared>> {
        match self {
            Source::Pool(pool) => Some(pool),
            Source::Within(own) => Some(&own.pool),
            Source::ReadOnly(state) => state.pool.as_ref(),
        }
    }

    /// Returns the scope of the next operation.
    pub(crate) fn scope(&self, py: Python<'_>) -> PyResult<Scope> {
        if let Source::ReadOnly(_) = self {
            return Ok(Scope::ReadOnly);
        }
        current::settle(py);
        let found = current::peek(|state, task| {
            let is_own = match self {
                Source::Pool(pool) => Arc::ptr_eq(&state.pool, pool),
                Source::Within(own) => Arc::ptr_eq(state, own),
                Source::ReadOnly(_) => false,
            };
            (is_own, task.clone_ref(py))
        });
        match (self, found) {
            (_, Some((true, task))) => {
                task.must_be_running(py)?;
                Ok(Scope::Inside)
            }
            (Source::Within(own), _) => Err(own.refusal().into()),
            (_, None) => Ok(Scope::Own),
            (_, Some(_)) => {
                let message = "this thread has an open transaction of another pool";
                Err(Failure::Class("Nested", message.to_owned()).into())
            }
        }
    }

    /// Reads. The body runs again after a conflict, if the read is a transaction of its own.
    pub(crate) fn read<R: Send>(
        &self,
        py: Python<'_>,
        body: impl FnMut(&mut ErasedTx<'_>) -> Result<R, Stop> + Send,
    ) -> PyResult<R> {
        self.run(py, true, body)
    }

    /// Writes, as [`read`](Source::read).
    pub(crate) fn write<R: Send>(
        &self,
        py: Python<'_>,
        body: impl FnMut(&mut ErasedTx<'_>) -> Result<R, Stop> + Send,
    ) -> PyResult<R> {
        self.run(py, false, body)
    }

    fn run<R: Send>(
        &self,
        py: Python<'_>,
        reads_only: bool,
        mut body: impl FnMut(&mut ErasedTx<'_>) -> Result<R, Stop> + Send,
    ) -> PyResult<R> {
        let done = match (self.scope(py)?, self) {
            (Scope::Inside, source) if source.pool().is_some_and(|pool| pool.access_may_wait) => {
                py.detach(|| current::access(!reads_only, body))
            }
            (Scope::Inside, _) => current::access(!reads_only, body),
            (_, Source::Pool(pool)) => {
                py.detach(|| pool.run(reads_only, body)).map(|(done, _)| done)
            }
            (_, Source::ReadOnly(state)) if reads_only => py.detach(|| state.read(&mut body)),
            (_, Source::ReadOnly(_)) => {
                let message = "cannot change a map of a view, or of a pool opened with `read_only`";
                Err(Failure::Class("ReadOnly", message.to_owned()))
            }
            (_, Source::Within(own)) => Err(own.refusal()),
        };
        match (done, current::peek(|state, _| Arc::clone(state))) {
            (Err(failure), Some(state)) => Err(py.detach(|| current::grow(&state, failure)).into()),
            (done, _) => Ok(done?),
        }
    }
}
