//! Pools that are only read, and their workers.
//!
//! A [`PoolReader`] shows one state of a pool, which never changes. So a transaction of its worker
//! takes nothing, each access reads on its own, and transactions of any number of threads never
//! conflict. A write ends the transaction with [`status::READ_ONLY`].

use std::cell::Cell;
use std::ffi::c_int;

use lastword::collections::catalog;
use lastword::{Addr, Allocate, Error, PoolReader, Stop, ViewTx, Words};

use crate::worker::lw_worker;
use crate::{Status, guard, message, pool, status};

/// A worker of a reader, with the calls of a [`worker::State`](crate::worker::State).
pub(crate) struct State {
    reader: &'static PoolReader,
    /// Whether a transaction was begun in parts.
    is_open: Cell<bool>,
    /// Whether a body runs.
    runs: Cell<bool>,
    /// The status that ended the transaction, or 0.
    failed: Cell<c_int>,
    pool: &'static pool::Open,
}

impl State {
    pub(crate) fn new(reader: &'static PoolReader, pool: &'static pool::Open) -> State {
        let (is_open, runs) = (Cell::new(false), Cell::new(false));
        State { reader, is_open, runs, failed: Cell::new(status::OK), pool }
    }

    pub(crate) fn runs(&self) -> bool {
        self.runs.get()
    }

    pub(crate) fn has_transaction(&self) -> bool {
        self.is_open.get() || self.runs.get()
    }

    /// Fails unless a transaction may begin.
    fn is_free(&self) -> Result<(), Status> {
        if self.has_transaction() { Err(status::NESTED) } else { Ok(()) }
    }

    /// Begins a transaction.
    pub(crate) fn begin(&self) -> Result<(), Status> {
        self.is_free()?;
        self.is_open.set(true);
        Ok(())
    }

    /// Commits, and returns the last transaction that the reader shows.
    pub(crate) fn commit(&self) -> Result<u64, Status> {
        if self.runs.get() {
            return Err(status::NESTED); // a body commits by its return value
        }
        match (self.is_open.get(), self.failed.get()) {
            (false, _) => Err(status::IDLE),
            (true, status::OK) => {
                self.is_open.set(false);
                Ok(self.reader.id().0)
            }
            (true, failed) => Err(failed),
        }
    }

    /// Ends a transaction that was begun in parts.
    pub(crate) fn abort(&self) -> Result<(), Status> {
        if self.runs.get() {
            return Err(status::NESTED); // a body aborts by its return value
        }
        self.failed.set(status::OK);
        if self.is_open.replace(false) { Ok(()) } else { Err(status::IDLE) }
    }

    /// Runs a body as a transaction.
    pub(crate) fn run(&self, body: impl FnOnce() -> c_int) -> Result<u64, Status> {
        self.is_free()?;
        self.runs.set(true);
        let returned = body();
        self.runs.set(false);
        let failed = self.failed.replace(status::OK);
        match (returned, failed) {
            (status::OK, status::OK) => Ok(self.reader.id().0),
            // The body swallowed an error.
            (status::OK, failed) => Err(failed),
            (returned, _) => Err(returned),
        }
    }

    /// Runs an access in the open transaction.
    pub(crate) fn access(&self, work: impl FnOnce(&mut ViewTx<'_>) -> Result<(), Stop>) -> c_int {
        let done = guard(|| match self.failed.get() {
            status::OK if !self.has_transaction() => Err(status::IDLE),
            status::OK => self.reader.read(work).map_err(|error| message::of(&error)),
            failed => Err(failed),
        });
        if done != status::OK && self.has_transaction() {
            self.failed.set(done);
        }
        done
    }

    /// Forgets the worker.
    pub(crate) fn end(self, shell: &'static lw_worker) {
        self.pool.forget(shell);
    }
}

/// Returns the root of a pool, if it is an object of the program with that many bytes.
pub(crate) fn root(reader: &PoolReader, bytes: u64) -> Result<u64, Status> {
    let root = reader.read(|tx| {
        let root = tx.root()?;
        if root == 0 {
            return Err(Stop::ReadOnly); // the first call allocates it
        }
        tx.read(Addr::new(root, (bytes - 1) & !7))?;
        if catalog::has_root(tx)? { Ok(None) } else { Ok(Some(root)) }
    });
    match root {
        Ok(Some(root)) => Ok(root),
        Ok(None) => Err(message::set(status::MISMATCH, pool::HAS_CATALOG)),
        Err(Error::BadPointer { .. }) => Err(status::MISMATCH),
        Err(error) => Err(message::of(&error)),
    }
}
