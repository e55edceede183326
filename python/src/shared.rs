//! An open pool, which maps, transactions and tickets share.
//!
//! A thread borrows a worker for each transaction. Idle workers stay for the next one, since a
//! worker has a ring of its own.
//!
//! Invariants:
//! - A forked child takes no lock here: another thread of the parent may have held it.
//! - After a successful close there is no engine, and no worker is idle.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lastword::{ErasedTx, Error, Stop, TxId};

use crate::engine::{Engine, Hand};
use crate::failure::Failure;
use crate::fork;

/// Most idle workers. More threads than these rarely run transactions at the same moment.
const IDLE_MAX: usize = 16;

/// An open pool.
pub(crate) struct Shared {
    /// The number of forks when the pool was opened.
    born: u64,
    /// As [`Engine::access_may_wait`].
    pub(crate) access_may_wait: bool,
    state: Mutex<State>,
}

struct State {
    /// `None` after a close.
    engine: Option<Arc<dyn Engine>>,
    idle: Vec<Box<dyn Hand>>,
    is_closing: bool,
}

impl Shared {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Shared {
        let (born, access_may_wait) = (fork::forks(), engine.access_may_wait());
        let state = State { engine: Some(engine), idle: Vec::new(), is_closing: false };
        Shared { born, access_may_wait, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses a call in a forked child.
    pub(crate) fn own_process(&self, call: &'static str) -> Result<(), Failure> {
        if fork::forks() == self.born { Ok(()) } else { Err(Failure::forked(call)) }
    }

    /// Returns the pool for a call.
    pub(crate) fn engine(&self, call: &'static str) -> Result<Arc<dyn Engine>, Failure> {
        self.own_process(call)?;
        self.lock().engine.clone().ok_or_else(|| Failure::closed(call))
    }

    /// Borrows a worker. [`give_back`](Shared::give_back) ends the loan.
    pub(crate) fn hand(&self, call: &'static str) -> Result<Box<dyn Hand>, Failure> {
        self.own_process(call)?;
        let engine = {
            let mut state = self.lock();
            if let Some(hand) = state.idle.pop() {
                return Ok(hand);
            }
            state.engine.clone().ok_or_else(|| Failure::closed(call))?
        };
        Ok(engine.hire()?)
    }

    /// Keeps a worker for the next transaction.
    pub(crate) fn give_back(&self, hand: Box<dyn Hand>) {
        if self.own_process("run").is_err() {
            return mem::forget(hand);
        }
        let mut state = self.lock();
        let stays = state.engine.is_some() && !state.is_closing && state.idle.len() < IDLE_MAX;
        if stays {
            state.idle.push(hand);
        } else {
            drop(state);
            drop(hand);
        }
    }

    /// Runs a transaction until it commits or ends, and returns its ID.
    pub(crate) fn run<R>(
        &self,
        reads_only: bool,
        mut body: impl FnMut(&mut ErasedTx<'_>) -> Result<R, Stop>,
    ) -> Result<(R, TxId), Failure> {
        let mut hand = self.hand("run")?;
        let mut result = None;
        let done = hand.attempt(reads_only, &mut |tx| {
            result = Some(body(&mut ErasedTx::new(tx))?);
            Ok(())
        });
        self.give_back(hand);
        let id = done?;
        Ok((result.expect("a body that committed has returned its result"), id))
    }

    /// Closes the pool. After [`Error::StillUsed`] it is open as before.
    pub(crate) fn close(&self) -> Result<(), Failure> {
        self.own_process("close")?;
        let (engine, idle) = {
            let mut state = self.lock();
            let Some(engine) = state.engine.clone() else { return Ok(()) };
            state.is_closing = true;
            (engine, mem::take(&mut state.idle))
        };
        drop(idle);
        let closed = engine.close_shared();
        let mut state = self.lock();
        state.is_closing = false;
        let stays = matches!(closed, Err(Error::StillUsed(_) | Error::InsideTransaction { .. }));
        let ended = if stays { None } else { state.engine.take() };
        drop(state);
        drop(ended);
        Ok(closed?)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The files belong to the parent, whose threads this process does not have.
        if self.own_process("drop").is_err() {
            let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            mem::forget((state.engine.take(), mem::take(&mut state.idle)));
        }
    }
}
