//! The open transaction of each thread.
//!
//! A `with` block begins a transaction and ends it in another call, so something must hold it in
//! between. The engine binds a transaction to its thread. A thread-local holds it, and operations
//! of maps find it there: those of the block's thread belong to it, and those of other threads do
//! not.
//!
//! Invariants:
//! - A transaction that an error has ended stays here, without its cell, until its block ends. So a
//!   block that swallows the error cannot go on outside of its transaction.
//! - A transaction whose object was dropped in another thread, as by the garbage collector, stays
//!   here until its own thread calls [`settle`], which every operation does first.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lastword::{ErasedTx, Error, Stop, TxId};
use pyo3::{PyResult, Python};
use self_cell::MutBorrow;

use crate::cells::OpenCell;
use crate::engine::{Engine, OpenTx, Worker};
use crate::failure::Failure;
use crate::shared::Shared;
use crate::task::Task;

thread_local! {
    static CURRENT: RefCell<Option<Running>> = const { RefCell::new(None) };
}

/// The number of the next transaction.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The transaction of a thread.
struct Running {
    state: Arc<TxState>,
    /// `None` once the transaction has ended.
    cell: Option<OpenCell>,
    /// The number of changes of maps. Cursors forget the pairs that they have read ahead when it
    /// differs.
    changes: u64,
    /// The task of asyncio that began it.
    task: Task,
}

/// The state of a transaction, which its object in Python shares.
pub(crate) struct TxState {
    pub(crate) pool: Arc<Shared>,
    pub(crate) reads_only: bool,
    /// No other transaction of the process has this number.
    number: u64,
    /// Whether its object was dropped in another thread than the transaction's.
    is_abandoned: AtomicBool,
    inner: Mutex<Inner>,
}

struct Inner {
    phase: Phase,
    /// The pool of a committed transaction, for its ticket. The pool itself may be closed.
    engine: Option<Arc<dyn Engine>>,
}

/// The phase of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It has not begun.
    Fresh,
    Open,
    Committed(TxId),
    /// The program has rolled it back, or an exception in its block has.
    RolledBack,
    /// It met a conflict, or the heap has grown for it.
    Conflict,
    /// The heap was full.
    Full,
    /// Another error has ended it.
    Failed,
}

impl TxState {
    pub(crate) fn new(pool: Arc<Shared>, reads_only: bool) -> TxState {
        let inner = Mutex::new(Inner { phase: Phase::Fresh, engine: None });
        // Relaxed: only the numbers must differ.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        TxState { pool, reads_only, number, is_abandoned: AtomicBool::new(false), inner }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn phase(&self) -> Phase {
        self.lock().phase
    }

    /// Returns the pool of a committed transaction, and the transaction's ID.
    pub(crate) fn committed(&self) -> Option<(Arc<dyn Engine>, TxId)> {
        let inner = self.lock();
        match (inner.phase, &inner.engine) {
            (Phase::Committed(id), Some(engine)) => Some((Arc::clone(engine), id)),
            _ => None,
        }
    }

    fn end(&self, phase: Phase, worker: Box<dyn Worker>) {
        // The worker keeps the pool from closing, so there is an engine.
        let engine = match phase {
            Phase::Committed(_) => self.pool.engine_of_open(),
            _ => None,
        };
        *self.lock() = Inner { phase, engine };
        if matches!(phase, Phase::Conflict | Phase::Full) {
            self.pool.keep_worker(self.number, worker);
        } else {
            self.pool.return_worker(worker);
        }
    }

    /// Ends an open transaction whose object is dropped. Its own thread rolls it back: this one, or
    /// another one before its next operation.
    pub(crate) fn abandon(self: &Arc<Self>) {
        // Release: pairs with `settle`, although the flag alone would do.
        self.is_abandoned.store(true, Ordering::Release);
        roll_back_abandoned();
    }

    /// The error of an access that this transaction does not serve.
    pub(crate) fn refusal(&self) -> Failure {
        let (class, message) = match self.phase() {
            Phase::Open => ("WrongThread", "the transaction belongs to another thread or task"),
            Phase::Fresh => ("Ended", "the transaction has not begun: use it in a `with` block"),
            _ => ("Ended", "the transaction has ended"),
        };
        Failure::Class(class, message.to_owned())
    }
}

impl Drop for TxState {
    fn drop(&mut self) {
        if let Some(worker) = self.pool.kept_worker(self.number) {
            self.pool.return_worker(worker);
        }
    }
}

/// Begins a transaction in this thread, also again after a conflict.
pub(crate) fn begin(state: &Arc<TxState>, task: Task) -> Result<(), Failure> {
    state.pool.own_process("begin")?;
    // Also an ended transaction, since its block would go on outside of it.
    if peek(|_, _| ()).is_some() {
        let message = "this thread has a transaction: end its block first";
        return Err(Failure::Class("Nested", message.to_owned()));
    }
    match state.phase() {
        Phase::Fresh | Phase::Conflict | Phase::Full => {}
        _ => return Err(Failure::Class("Ended", AGAIN.to_owned())),
    }
    let worker = match state.pool.kept_worker(state.number) {
        Some(worker) => worker,
        None => state.pool.worker("begin")?,
    };
    let begun = OpenCell::try_new_or_recover(MutBorrow::new(worker), |worker| {
        worker.borrow_mut().begin(state.reads_only).map(Some)
    });
    let cell = match begun {
        Ok(cell) => cell,
        Err((worker, error)) => {
            state.pool.return_worker(worker.into_inner());
            return Err(error.into());
        }
    };
    state.lock().phase = Phase::Open;
    let running = Running { state: Arc::clone(state), cell: Some(cell), changes: 0, task };
    CURRENT.set(Some(running));
    Ok(())
}

const AGAIN: &str = "a transaction runs once: make another one with `pool.transaction()`";

/// Rolls this thread's transaction back if its object was dropped in another thread. Each operation
/// calls this first.
pub(crate) fn settle(py: Python<'_>) {
    // Acquire: pairs with `abandon`.
    if peek(|state, _| state.is_abandoned.load(Ordering::Acquire)) == Some(true) {
        py.detach(roll_back_abandoned);
    }
}

fn roll_back_abandoned() {
    if peek(|state, _| state.is_abandoned.load(Ordering::Acquire)) == Some(true) {
        roll_back_current();
    }
}

/// Rolls this thread's transaction back, at the end of the program.
pub(crate) fn roll_back_current() {
    // Taken out first, as in `end`.
    if let Some(mut running) = CURRENT.take() {
        running.roll_back();
    }
}

/// Returns the transaction of this thread: its state, and the task that began it.
///
/// `look` runs no code of Python: the garbage collector may drop a transaction there.
pub(crate) fn peek<R>(look: impl FnOnce(&Arc<TxState>, &Task) -> R) -> Option<R> {
    CURRENT
        .with_borrow(|current| current.as_ref().map(|running| look(&running.state, &running.task)))
}

/// Refuses to end a transaction of this thread in another task than its own.
pub(crate) fn must_be_own_task(py: Python<'_>, state: &Arc<TxState>) -> PyResult<()> {
    let task = peek(|current, task| Arc::ptr_eq(current, state).then(|| task.clone_ref(py)));
    task.flatten().map_or(Ok(()), |task| task.must_be_running(py))
}

/// A state of this thread's transaction: the transaction's number, and the number of its changes of
/// maps. Zeros outside of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Version {
    transaction: u64,
    changes: u64,
}

/// Returns the state of this thread's transaction.
pub(crate) fn version() -> Version {
    CURRENT.with_borrow(|current| {
        current.as_ref().map_or(Version::default(), |running| Version {
            transaction: running.state.number,
            changes: running.changes,
        })
    })
}

/// Runs a part of this thread's transaction. A [`Stop`] ends the transaction.
pub(crate) fn access<R>(
    writes: bool,
    body: impl FnOnce(&mut ErasedTx<'_>) -> Result<R, Stop>,
) -> Result<R, Failure> {
    CURRENT.with_borrow_mut(|current| {
        let running = current.as_mut().expect("the caller has seen the transaction");
        let Some(cell) = &mut running.cell else {
            let message = "the transaction has ended: leave its block";
            return Err(Failure::Class("Ended", message.to_owned()));
        };
        running.state.pool.own_process("access")?;
        running.changes += u64::from(writes);
        let done = cell.with_dependent_mut(|_, open| {
            let open = open.as_mut().expect("a transaction stays in its cell until it ends");
            body(&mut ErasedTx::new(open.tx()))
        });
        done.map_err(|stop| running.stop(stop))
    })
}

impl Running {
    /// Ends the transaction after an access was stopped.
    fn stop(&mut self, stop: Stop) -> Failure {
        self.finish(|open| match open.stop(stop) {
            Some(error) => Err(error),
            None => Ok(None),
        })
        .expect_err("a stopped transaction does not commit")
    }

    /// Ends the transaction with a commit (an ID), a conflict (`None`) or an error.
    fn finish(
        &mut self,
        end: impl FnOnce(Box<dyn OpenTx + '_>) -> Result<Option<TxId>, Error>,
    ) -> Result<TxId, Failure> {
        let Some(mut cell) = self.cell.take() else {
            return Err(self.state.refusal());
        };
        let done = cell.with_dependent_mut(|_, open| {
            end(open.take().expect("a transaction stays in its cell until it ends"))
        });
        let worker = cell.into_owner().into_inner();
        let (phase, done) = match done {
            Ok(Some(id)) => (Phase::Committed(id), Ok(id)),
            Ok(None) => (Phase::Conflict, Err(Failure::conflict())),
            Err(error @ Error::Full { .. }) => (Phase::Full, Err(error.into())),
            Err(error) => (Phase::Failed, Err(error.into())),
        };
        self.state.end(phase, worker);
        done
    }
}

/// Lets a full heap grow, unless it was another error that ended the transaction. If it has grown,
/// the transaction may run again. Waits as `begin` does, so without the interpreter's lock.
pub(crate) fn grow(state: &TxState, failure: Failure) -> Failure {
    let Failure::Engine(Error::Full { heap_bytes, .. }) = failure else { return failure };
    let Some(mut worker) = state.pool.kept_worker(state.number) else { return failure };
    // The next `begin` of the worker reclaims memory, and makes the heap larger.
    if let Ok(open) = worker.begin(false) {
        // Poisoned at the worst, and then the heap has not grown.
        let _ = open.abort();
    }
    let has_grown =
        state.pool.engine("begin").is_ok_and(|engine| engine.info().heap_bytes > heap_bytes);
    state.pool.keep_worker(state.number, worker);
    if !has_grown {
        return failure;
    }
    state.lock().phase = Phase::Conflict;
    let message = "the heap was full and has grown: run the transaction again, or use `pool.run`, \
                   which does";
    Failure::Class("Conflict", message.to_owned())
}

/// The end of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Commit,
    /// An exception leaves the block.
    Exception,
    /// The program rolls back inside of the block, which goes on.
    RollBack,
}

/// Ends the transaction of this thread.
pub(crate) fn end(state: &Arc<TxState>, end: End) -> Result<(), Failure> {
    let is_current = peek(|current, _| Arc::ptr_eq(current, state)) == Some(true);
    if !is_current {
        return Err(state.refusal());
    }
    state.pool.own_process("commit")?;
    // Taken out first: a callback that runs after the transaction may begin another one.
    let mut running = CURRENT.take().expect("this thread has a transaction");
    let done = match end {
        _ if running.cell.is_none() => match (end, state.phase()) {
            (End::Commit, Phase::Conflict) => Err(Failure::conflict()),
            (End::Commit, Phase::Full | Phase::Failed) => {
                let message = "an error has ended the transaction, and its block has swallowed it";
                Err(Failure::Class("Ended", message.to_owned()))
            }
            _ => Ok(()),
        },
        End::Commit => {
            let done = running.finish(|open| open.commit()).map(drop);
            done.map_err(|failure| grow(state, failure))
        }
        End::Exception | End::RollBack => {
            running.roll_back();
            Ok(())
        }
    };
    if end == End::RollBack {
        CURRENT.set(Some(running));
    }
    done
}

impl Running {
    fn roll_back(&mut self) {
        let Some(mut cell) = self.cell.take() else { return };
        // An error says that the pool is poisoned, which the next transaction reports.
        cell.with_dependent_mut(|_, open| drop(open.take().map(|open| open.abort())));
        self.state.end(Phase::RolledBack, cell.into_owner().into_inner());
    }
}

/// Leaves the transaction of this thread to the parent of this process. In a child the engine rolls
/// nothing back, and the thread may use other pools.
pub(crate) fn leave_to_parent() {
    let running = CURRENT.try_with(|current| current.take());
    drop(running);
}
