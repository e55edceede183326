//! An open pool, which maps, transactions and tickets share.
//!
//! A thread borrows a worker for each transaction. Idle workers stay for the next one, since a
//! worker has a ring of its own. A transaction that may run again keeps its worker here and not in
//! its object: Python may keep that object for as long as it likes, and a registered worker holds
//! up a close.
//!
//! Invariants:
//! - A forked child takes no lock here: another thread of the parent may have held it.
//! - After a successful close there is no engine, and no worker is idle or kept.
//! - After a close that failed since the pool was in use, no transaction begins. Those that are
//!   open go on and end.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use lastword::{ErasedTx, Error, Stop, TxId};

use crate::engine::{Engine, Worker};
use crate::failure::Failure;
use crate::fork::Process;

/// Maximum number of idle workers. More threads than these rarely run transactions at the same
/// moment.
const IDLE_MAX: usize = 16;

/// The pools of this process and of its parents. Locked only with the interpreter's lock held, and
/// for a moment, so a forked child finds it unlocked.
static POOLS: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// An open pool.
pub(crate) struct Shared {
    process: Process,
    /// As [`Engine::access_may_wait`].
    pub(crate) access_may_wait: bool,
    state: Mutex<State>,
}

struct State {
    /// `None` after a close.
    engine: Option<Arc<dyn Engine>>,
    idle: Vec<Box<dyn Worker>>,
    /// The workers of transactions that may run again, by the transaction's number. They know the
    /// conflicts so far.
    kept: HashMap<u64, Box<dyn Worker>>,
    /// Set by a close. It stays set if the close has failed since the pool was in use.
    is_closing: bool,
}

impl Shared {
    /// Makes an open pool, which [`all`](Shared::all) finds.
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Arc<Shared> {
        let access_may_wait = engine.access_may_wait();
        let (idle, kept) = (Vec::new(), HashMap::new());
        let state = State { engine: Some(engine), idle, kept, is_closing: false };
        let shared = Shared { process: Process::this(), access_may_wait, state: state.into() };
        let shared = Arc::new(shared);
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(&shared));
        shared
    }

    /// Returns the open pools of this process.
    pub(crate) fn all() -> Vec<Arc<Shared>> {
        let pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        pools.iter().filter_map(Weak::upgrade).filter(|pool| pool.process.is_this()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses a call in a forked child.
    pub(crate) fn own_process(&self, call: &'static str) -> Result<(), Failure> {
        self.process.must_be_this(call)
    }

    /// Returns the pool for a call.
    pub(crate) fn engine(&self, call: &'static str) -> Result<Arc<dyn Engine>, Failure> {
        self.own_process(call)?;
        self.lock().engine(call)
    }

    /// Returns the pool for the end of an open transaction, which a close waits for.
    pub(crate) fn engine_of_open(&self) -> Option<Arc<dyn Engine>> {
        self.lock().engine.clone()
    }

    /// Borrows a worker. [`return_worker`](Shared::return_worker) ends the loan.
    pub(crate) fn worker(&self, call: &'static str) -> Result<Box<dyn Worker>, Failure> {
        self.own_process(call)?;
        let engine = {
            let mut state = self.lock();
            let engine = state.engine(call)?;
            if let Some(worker) = state.idle.pop() {
                return Ok(worker);
            }
            engine
        };
        Ok(engine.worker()?)
    }

    /// Keeps a worker for the next transaction.
    pub(crate) fn return_worker(&self, worker: Box<dyn Worker>) {
        if self.own_process("run").is_err() {
            return mem::forget(worker);
        }
        let mut state = self.lock();
        if state.is_open() && state.idle.len() < IDLE_MAX {
            state.idle.push(worker);
        } else {
            drop(state);
            drop(worker);
        }
    }

    /// Keeps the worker of a transaction that may run again.
    pub(crate) fn keep_worker(&self, transaction: u64, worker: Box<dyn Worker>) {
        let mut state = self.lock();
        if state.is_open() {
            state.kept.insert(transaction, worker);
        } else {
            drop(state);
            drop(worker);
        }
    }

    /// Returns the worker of a transaction. `None` if it has none, or a close has dropped it.
    pub(crate) fn kept_worker(&self, transaction: u64) -> Option<Box<dyn Worker>> {
        self.own_process("run").ok()?;
        self.lock().kept.remove(&transaction)
    }

    /// Runs a transaction until it commits or ends, and returns its ID.
    pub(crate) fn run<R>(
        &self,
        reads_only: bool,
        mut body: impl FnMut(&mut ErasedTx<'_>) -> Result<R, Stop>,
    ) -> Result<(R, TxId), Failure> {
        let mut worker = self.worker("run")?;
        let mut result = None;
        let done = worker.attempt(reads_only, &mut |tx| {
            result = Some(body(&mut ErasedTx::new(tx))?);
            Ok(())
        });
        self.return_worker(worker);
        let id = done?;
        Ok((result.expect("a body that committed has returned its result"), id))
    }

    /// Closes the pool. After [`Error::StillUsed`] no transaction begins, and another call may
    /// close the pool.
    pub(crate) fn close(&self) -> Result<(), Failure> {
        self.own_process("close")?;
        let (engine, was_closing, workers) = {
            let mut state = self.lock();
            let Some(engine) = state.engine.clone() else { return Ok(()) };
            let was_closing = mem::replace(&mut state.is_closing, true);
            (engine, was_closing, (mem::take(&mut state.idle), mem::take(&mut state.kept)))
        };
        drop(workers);
        let closed = engine.close_shared();
        let mut state = self.lock();
        let ended = match &closed {
            Err(Error::StillUsed(_)) => None,
            Err(Error::InsideTransaction { .. }) => {
                state.is_closing = was_closing;
                None
            }
            _ => state.engine.take(),
        };
        drop(state);
        drop(ended);
        closed.map_err(|error| match error {
            Error::StillUsed(used) => Failure::still_used(used.waited),
            error => error.into(),
        })
    }

    /// Closes the pool at the end of the program. A pool that is in use is made durable instead.
    pub(crate) fn close_at_exit(&self) {
        if self.close().is_err()
            && let Some(engine) = self.engine_of_open()
        {
            // A disk that has failed. The program ends, so no caller gets the error.
            let _ = engine.flush();
        }
    }
}

impl State {
    fn is_open(&self) -> bool {
        self.engine.is_some() && !self.is_closing
    }

    fn engine(&self, call: &'static str) -> Result<Arc<dyn Engine>, Failure> {
        let engine = self.engine.as_ref().ok_or_else(|| Failure::closed(call))?;
        if self.is_closing { Err(Failure::closing(call)) } else { Ok(Arc::clone(engine)) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The files belong to the parent, whose threads this process does not have.
        if self.own_process("drop").is_err() {
            let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            let workers = (mem::take(&mut state.idle), mem::take(&mut state.kept));
            mem::forget((state.engine.take(), workers));
        }
    }
}
