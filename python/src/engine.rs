//! Pools, workers and transactions without a design parameter.
//!
//! The design is a name at run time, so the code of maps is compiled once and not once for each
//! design. [`AnyPool`] has most calls of a binding. The traits here add transactions in parts, and
//! views.

use std::path::Path;
use std::sync::Arc;

use lastword::{
    Allocate, AnyBody, AnyPool, AnyWorker, Decoupled, Design, Error, Open, Options, OwnedWorker,
    Pool, PoolReader, PoolView, Redo, Snapshot, Stop, TxId, Undo,
};

/// The body of a read of a view.
pub(crate) type ReadBody<'b> = dyn FnMut(&mut dyn Allocate) -> Result<(), Stop> + 'b;

/// A [`Pool`] of any design.
pub(crate) trait Engine: AnyPool {
    /// As [`Pool::owned_worker`].
    fn worker(self: Arc<Self>) -> Result<Box<dyn Worker>, Error>;

    /// As [`Pool::view`].
    fn read_state(&self) -> Result<Box<dyn ReadState + '_>, Error>;

    /// Whether an access in a transaction may wait for another transaction's end. A thread that
    /// waits must not hold the interpreter's lock, since that end may need it.
    fn access_may_wait(&self) -> bool;
}

/// A worker of any design.
pub(crate) trait Worker: Send {
    /// As [`AnyWorker::run_any`].
    fn attempt(&mut self, reads_only: bool, body: &mut AnyBody<'_>) -> Result<TxId, Error>;

    /// As [`OwnedWorker::begin`].
    fn begin(&mut self, reads_only: bool) -> Result<Box<dyn OpenTx + '_>, Error>;
}

/// An open transaction of any design.
pub(crate) trait OpenTx {
    /// As [`Open::tx`].
    fn tx(&mut self) -> &mut dyn Allocate;

    /// As [`Open::commit`].
    fn commit(self: Box<Self>) -> Result<Option<TxId>, Error>;

    /// As [`Open::abort`].
    fn abort(self: Box<Self>) -> Result<TxId, Error>;

    /// As [`Open::stop`].
    fn stop(self: Box<Self>, stop: Stop) -> Option<Error>;
}

/// A state of a pool that does not change: a view, or a pool that is only read.
pub(crate) trait ReadState: Send + Sync {
    /// Returns the last transaction in the state.
    fn id(&self) -> TxId;

    /// Reads from the state.
    fn read(&self, body: &mut ReadBody<'_>) -> Result<(), Error>;

    /// Checks the heap. Returns the number of live objects.
    fn check(&self) -> Result<u64, Error>;
}

impl<D: Design> Engine for Pool<D> {
    fn worker(self: Arc<Self>) -> Result<Box<dyn Worker>, Error> {
        Ok(Box::new(self.owned_worker()?))
    }

    fn read_state(&self) -> Result<Box<dyn ReadState + '_>, Error> {
        Ok(Box::new(self.view()?))
    }

    fn access_may_wait(&self) -> bool {
        // A write joins a group there, and may wait until the group or its room is free. An attempt
        // of the others never waits for another one: it rolls back.
        D::NAME == Snapshot::NAME
    }
}

impl<D: Design> Worker for OwnedWorker<D> {
    fn attempt(&mut self, reads_only: bool, body: &mut AnyBody<'_>) -> Result<TxId, Error> {
        self.run_any(reads_only, body)
    }

    fn begin(&mut self, reads_only: bool) -> Result<Box<dyn OpenTx + '_>, Error> {
        Ok(Box::new(OwnedWorker::begin(self, reads_only)?))
    }
}

impl<D: Design> OpenTx for Open<'_, '_, D> {
    fn tx(&mut self) -> &mut dyn Allocate {
        Open::tx(self)
    }

    fn commit(self: Box<Self>) -> Result<Option<TxId>, Error> {
        Ok(Open::commit(*self)?.map(|ticket| ticket.id()))
    }

    fn abort(self: Box<Self>) -> Result<TxId, Error> {
        Open::abort(*self)
    }

    fn stop(self: Box<Self>, stop: Stop) -> Option<Error> {
        Open::stop(*self, stop)
    }
}

impl<D: Design> ReadState for PoolView<'_, D> {
    fn id(&self) -> TxId {
        PoolView::id(self)
    }

    fn read(&self, body: &mut ReadBody<'_>) -> Result<(), Error> {
        PoolView::read(self, |tx| body(tx))
    }

    fn check(&self) -> Result<u64, Error> {
        Ok(PoolView::check(self)?.objects)
    }
}

impl ReadState for PoolReader {
    fn id(&self) -> TxId {
        PoolReader::id(self)
    }

    fn read(&self, body: &mut ReadBody<'_>) -> Result<(), Error> {
        PoolReader::read(self, |tx| body(tx))
    }

    fn check(&self) -> Result<u64, Error> {
        Ok(PoolReader::check(self)?.objects)
    }
}

/// Opens or creates a pool of the design with this name. `None` if no design has it.
pub(crate) fn start(
    design: &str,
    mode: Mode,
    path: &Path,
    options: Options,
) -> Option<Result<Arc<dyn Engine>, Error>> {
    Some(match design {
        <Decoupled as Design>::NAME => begin::<Decoupled>(mode, path, options),
        <Snapshot as Design>::NAME => begin::<Snapshot>(mode, path, options),
        <Undo as Design>::NAME => begin::<Undo>(mode, path, options),
        <Redo as Design>::NAME => begin::<Redo>(mode, path, options),
        _ => return None,
    })
}

/// Whether a pool must exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Opens the pool, or creates it.
    Either,
    /// Opens the pool.
    Open,
    /// Creates the pool.
    Create,
}

fn begin<D: Design>(mode: Mode, path: &Path, options: Options) -> Result<Arc<dyn Engine>, Error> {
    let pool = match mode {
        Mode::Either => Pool::<D>::open_or_create_as(path, options)?,
        Mode::Open => Pool::<D>::open_as(path, options)?,
        Mode::Create => Pool::<D>::create_as(path, options)?,
    };
    Ok(Arc::new(pool))
}
