//! The task of asyncio that uses a transaction.
//!
//! All tasks of a loop share one thread, and so the transaction that one of them has left open
//! across an `await`. An operation of another task must not become part of it.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::failure::Failure;

static RUNNING_LOOP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static CURRENT_TASK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Returns the address of the running task; 0 outside of a task.
pub(crate) fn current(py: Python<'_>) -> PyResult<usize> {
    if RUNNING_LOOP.get(py).is_none() {
        // A program without asyncio does not pay for its import.
        let modules = py.import("sys")?.getattr("modules")?;
        let Ok(asyncio) = modules.get_item("asyncio") else { return Ok(0) };
        // The module may be in the middle of its own import.
        let (Ok(running), Ok(task)) =
            (asyncio.getattr("_get_running_loop"), asyncio.getattr("current_task"))
        else {
            return Ok(0);
        };
        let _ = CURRENT_TASK.set(py, task.unbind());
        let _ = RUNNING_LOOP.set(py, running.unbind());
    }
    let (Some(running), Some(task)) = (RUNNING_LOOP.get(py), CURRENT_TASK.get(py)) else {
        return Ok(0);
    };
    let running = running.bind(py).call0()?;
    if running.is_none() {
        return Ok(0);
    }
    let task = task.bind(py).call1((running,))?;
    Ok(if task.is_none() { 0 } else { task.as_ptr() as usize })
}

/// Refuses an operation unless its task has begun the transaction.
pub(crate) fn must_be(py: Python<'_>, begun_by: usize) -> PyResult<()> {
    if begun_by == 0 || current(py)? == begun_by {
        return Ok(());
    }
    let message = "another task of this thread has an open transaction: do not `await` inside of a \
                   transaction";
    Err(Failure::Class("Nested", message.to_owned()).into())
}
