//! The task of asyncio that uses a transaction.
//!
//! All tasks of a loop share one thread, and so the transaction that one of them has left open
//! across an `await`. An operation of another task must not become part of it. Greenlets are not
//! distinguished.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyWeakrefMethods, PyWeakrefReference};

use crate::failure::Failure;

static MODULES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
static RUNNING_LOOP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static CURRENT_TASK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// A task, or the code of a thread that runs no task.
///
/// The reference is weak. A task that is abandoned with its transaction must be collected, since
/// that rolls the transaction back. An address alone may belong to a later task.
pub(crate) struct Task(Option<Py<PyWeakrefReference>>);

impl Task {
    /// Returns the running task.
    pub(crate) fn running(py: Python<'_>) -> PyResult<Task> {
        let task = running(py)?;
        let task = task.map(|task| PyWeakrefReference::new(&task)).transpose()?;
        Ok(Task(task.map(Bound::unbind)))
    }

    pub(crate) fn clone_ref(&self, py: Python<'_>) -> Task {
        Task(self.0.as_ref().map(|task| task.clone_ref(py)))
    }

    /// Whether this is the running task.
    pub(crate) fn is_running(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(match (&self.0, running(py)?) {
            (None, None) => true,
            (Some(own), Some(running)) => {
                own.bind(py).upgrade().is_some_and(|own| own.is(&running))
            }
            _ => false,
        })
    }

    /// Refuses an operation unless this task, which has begun the transaction, runs.
    pub(crate) fn must_be_running(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_running(py)? {
            return Ok(());
        }
        let message = match self.0 {
            Some(_) => {
                "another task of this thread has an open transaction: do not `await` inside of a \
                 transaction"
            }
            None => {
                "this thread has an open transaction, which began outside of its tasks: start the \
                 event loop after it"
            }
        };
        Err(Failure::Class("Nested", message.to_owned()).into())
    }
}

/// Returns the running task; `None` outside of a task.
fn running(py: Python<'_>) -> PyResult<Option<Bound<'_, PyAny>>> {
    if RUNNING_LOOP.get(py).is_none() {
        // A program without asyncio does not pay for its import, and little for this look.
        let modules = MODULES.get_or_try_init(py, || {
            let modules = py.import("sys")?.getattr("modules")?;
            PyResult::Ok(modules.cast_into::<PyDict>()?.unbind())
        })?;
        let Some(asyncio) = modules.bind(py).get_item(intern!(py, "asyncio"))? else {
            return Ok(None);
        };
        // The module may be in the middle of its own import.
        let (Ok(running), Ok(task)) =
            (asyncio.getattr("_get_running_loop"), asyncio.getattr("current_task"))
        else {
            return Ok(None);
        };
        let _ = CURRENT_TASK.set(py, task.unbind());
        let _ = RUNNING_LOOP.set(py, running.unbind());
    }
    let (Some(running), Some(task)) = (RUNNING_LOOP.get(py), CURRENT_TASK.get(py)) else {
        return Ok(None);
    };
    let running = running.bind(py).call0()?;
    if running.is_none() {
        return Ok(None);
    }
    let task = task.bind(py).call1((running,))?;
    Ok(if task.is_none() { None } else { Some(task) })
}
