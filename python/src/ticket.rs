//! Tickets: wait for a transaction to become durable, in a thread or in a task of asyncio.
//!
//! A task needs no thread, and no thread of the pool ever takes the interpreter's lock. A waker
//! notes its token and writes a byte to a pipe, which the event loop watches.
//!
//! ```text
//!   await ticket -> start: polls the future, with a waker          loop's thread
//!   durable      -> wake: notes the token, writes to the pipe      pool's thread
//!   pipe         -> tokens: the loop polls those futures again     loop's thread
//! ```

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use lastword::{AnyDurable, Error, TxId};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::current;
use crate::engine::Engine;
use crate::failure::{Failure, raise};
use crate::fork::Process;

/// A handle to a transaction's durability.
#[pyclass(frozen, module = "lastword")]
pub(crate) struct Ticket {
    process: Process,
    engine: Arc<dyn Engine>,
    id: TxId,
}

impl Ticket {
    pub(crate) fn new(engine: Arc<dyn Engine>, id: TxId) -> Ticket {
        Ticket { process: Process::this(), engine, id }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        leave_to_parent(self.process, &self.engine);
    }
}

/// Keeps a forked child from closing a pool of its parent.
fn leave_to_parent(process: Process, engine: &Arc<dyn Engine>) {
    if !process.is_this() {
        std::mem::forget(Arc::clone(engine));
    }
}

/// Waits at most until a time. Returns whether the transaction is durable.
fn wait_until(future: &mut AnyDurable, signal: &Arc<Signal>, end: Instant) -> Result<bool, Error> {
    let waker = Waker::from(Arc::clone(signal));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(outcome) => return outcome.map(|()| true),
            Poll::Pending if signal.wait(end) => {}
            Poll::Pending => return Ok(false),
        }
    }
}

/// Time between two looks for a signal, such as Ctrl-C.
const LOOK: Duration = Duration::from_millis(100);

/// Wakes a thread.
#[derive(Default)]
struct Signal {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    /// Waits until it is set, and resets it. Returns false at the given time.
    fn wait(&self, end: Instant) -> bool {
        let mut is_set = self.is_set.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_set {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.changed.wait_timeout(is_set, left);
            is_set = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *is_set = false;
        true
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        *self.is_set.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }
}

#[pymethods]
impl Ticket {
    /// The transaction's ID. IDs are durable in their order.
    #[getter]
    fn id(&self) -> u64 {
        let TxId(id) = self.id;
        id
    }

    /// Whether the transaction is durable.
    #[getter]
    fn is_durable(&self) -> PyResult<bool> {
        self.process.must_be_this("is_durable")?;
        Ok(self.engine.durable_id() >= self.id)
    }

    /// Waits until the transaction is durable. `timeout` is in seconds.
    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        self.process.must_be_this("wait")?;
        current::settle(py);
        let end = timeout.and_then(|seconds| {
            Instant::now().checked_add(Duration::try_from_secs_f64(seconds.max(0.0)).ok()?)
        });
        let engine = Arc::clone(&self.engine);
        let mut future = engine.any_durable(self.id).map_err(Failure::from)?;
        let signal = Arc::new(Signal::default());
        loop {
            let look = Instant::now() + LOOK;
            let until = end.map_or(look, |end| end.min(look));
            let done = py.detach(|| wait_until(&mut future, &signal, until));
            if done.map_err(Failure::from)? {
                return Ok(());
            }
            py.check_signals()?;
            if end.is_some_and(|end| Instant::now() >= end) {
                let seconds = timeout.unwrap_or_default();
                return Err(raise("Timeout", format!("not durable after {seconds} s")));
            }
        }
    }

    fn __await__<'py>(slf: &Bound<'py, Ticket>) -> PyResult<Bound<'py, PyAny>> {
        let wait = slf.py().import("lastword._asyncio")?.getattr("wait")?;
        wait.call1((slf,))?.call_method0("__await__")
    }

    /// Begins to wait for an event loop, which polls the result.
    fn start(&self, py: Python<'_>, wakes: &Wakes, token: u64) -> PyResult<Waiting> {
        self.process.must_be_this("await")?;
        current::settle(py);
        if current::peek(|_, task| task.clone_ref(py)).is_some_and(|task| {
            // Another task's transaction only delays this one.
            task.is_running(py).unwrap_or(true)
        }) {
            return Err(Failure::from(Error::InsideTransaction { call: "await" }).into());
        }
        let engine = Arc::clone(&self.engine);
        let future = Arc::clone(&engine).any_durable(self.id).map_err(Failure::from)?;
        let shared = Arc::clone(&wakes.shared);
        let waker = Waker::from(Arc::new(TokenWaker { shared, token }));
        let (process, id) = (self.process, self.id);
        Ok(Waiting { process, engine, id, future: Mutex::new(Some(future)), waker })
    }

    fn __repr__(&self) -> String {
        let state = match self.is_durable() {
            Ok(true) => "durable",
            Ok(false) => "not durable yet",
            Err(_) => "of another process",
        };
        format!("<lastword ticket {}: {state}>", self.id())
    }
}

/// A ticket that a task waits for.
#[pyclass(frozen)]
pub(crate) struct Waiting {
    process: Process,
    engine: Arc<dyn Engine>,
    id: TxId,
    /// `None` once it has been ready, or the task has gone.
    future: Mutex<Option<AnyDurable>>,
    waker: Waker,
}

#[pymethods]
impl Waiting {
    /// Returns whether the transaction is durable. `None` if that is not known, since another task
    /// of this thread has an open transaction: poll again later.
    fn poll(&self, py: Python<'_>) -> PyResult<Option<bool>> {
        self.process.must_be_this("await")?;
        current::settle(py);
        if self.engine.durable_id() >= self.id {
            self.cancel(py);
            return Ok(Some(true));
        }
        // Some designs wait in the poll.
        let polled = py.detach(|| {
            let mut slot = self.future.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(future) = slot.as_mut() else { return Poll::Ready(Ok(())) };
            let polled = future.as_mut().poll(&mut Context::from_waker(&self.waker));
            if polled.is_ready() && !is_inside(&polled) {
                *slot = None;
            }
            polled
        });
        match polled {
            Poll::Pending => Ok(Some(false)),
            polled if is_inside(&polled) => Ok(None),
            Poll::Ready(outcome) => Ok(outcome.map(|()| Some(true)).map_err(Failure::from)?),
        }
    }

    /// Ends the wait.
    fn cancel(&self, py: Python<'_>) {
        if self.process.is_this() {
            py.detach(|| {
                drop(self.future.lock().unwrap_or_else(PoisonError::into_inner).take());
            });
        }
    }
}

fn is_inside(polled: &Poll<Result<(), Error>>) -> bool {
    matches!(polled, Poll::Ready(Err(Error::InsideTransaction { .. })))
}

impl Drop for Waiting {
    fn drop(&mut self) {
        leave_to_parent(self.process, &self.engine);
        if !self.process.is_this() {
            std::mem::forget(self.future.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}

/// The wakes for one event loop.
#[pyclass(frozen)]
pub(crate) struct Wakes {
    shared: Arc<SharedWakes>,
    reader: PipeReader,
}

struct SharedWakes {
    /// Tokens of futures to be polled. The pipe has one byte exactly if this is not empty.
    tokens: Mutex<Vec<u64>>,
    writer: PipeWriter,
}

struct TokenWaker {
    shared: Arc<SharedWakes>,
    token: u64,
}

impl Wake for TokenWaker {
    fn wake(self: Arc<Self>) {
        self.shared.push(self.token);
    }
}

impl SharedWakes {
    fn push(&self, token: u64) {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if tokens.is_empty() {
            // Fails only after the loop has dropped the reader, which then waits for nothing.
            let _ = (&self.writer).write_all(&[1]);
        }
        tokens.push(token);
    }
}

#[pymethods]
impl Wakes {
    #[new]
    fn new() -> PyResult<Wakes> {
        let (reader, writer) = std::io::pipe().map_err(PyOSError::new_err)?;
        let shared = Arc::new(SharedWakes { tokens: Mutex::new(Vec::new()), writer });
        Ok(Wakes { shared, reader })
    }

    /// The descriptor that the loop watches.
    fn fileno(&self) -> i32 {
        self.reader.as_raw_fd()
    }

    /// Returns the tokens of the futures to be polled.
    fn take(&self) -> PyResult<Vec<u64>> {
        let mut tokens = self.shared.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if !tokens.is_empty() {
            (&self.reader).read_exact(&mut [0]).map_err(PyOSError::new_err)?;
        }
        Ok(std::mem::take(&mut *tokens))
    }

    /// Puts tokens back that were not polled.
    fn put(&self, tokens: Vec<u64>) {
        tokens.into_iter().for_each(|token| self.shared.push(token));
    }
}
