//! Views: a pool as of one transaction, and pools that are only read.

use std::mem;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use lastword::collections::catalog;
use lastword::{Allocate, ErasedTx, Error, Info, PoolReader, Stop, TxId};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::cells::ViewCell;
use crate::current;
use crate::engine::ReadState;
use crate::failure::{Failure, raise};
use crate::fork::Process;
use crate::info;
use crate::map::MapBase;
use crate::pool::{OpenOptions, Pool};
use crate::shared::Shared;

/// A state that does not change.
enum State {
    View(ViewCell),
    Reader(Box<PoolReader>),
}

/// A state that does not change, until it is closed. A forked child takes no lock here.
pub(crate) struct ViewState {
    process: Process,
    id: TxId,
    state: RwLock<Option<State>>,
    /// The pool of a view.
    pub(crate) pool: Option<Arc<Shared>>,
}

impl ViewState {
    /// Calls `with` on the state.
    fn with<R>(&self, with: impl FnOnce(&dyn ReadState) -> Result<R, Error>) -> Result<R, Failure> {
        self.process.must_be_this("read")?;
        match &*self.state.read().unwrap_or_else(PoisonError::into_inner) {
            Some(State::View(cell)) => Ok(cell.with_dependent(|_, view| with(&**view))?),
            Some(State::Reader(reader)) => Ok(with(&**reader)?),
            None => Err(Failure::view_closed()),
        }
    }

    /// Returns the description of the pool.
    fn info(&self) -> Result<Info, Failure> {
        self.process.must_be_this("info")?;
        match &*self.state.read().unwrap_or_else(PoisonError::into_inner) {
            Some(State::View(cell)) => Ok(cell.borrow_owner().info()),
            Some(State::Reader(reader)) => Ok(reader.info().clone()),
            None => Err(Failure::view_closed()),
        }
    }

    /// Reads from the state. The body runs once.
    pub(crate) fn read<R>(
        &self,
        mut body: impl FnMut(&mut ErasedTx<'_>) -> Result<R, Stop>,
    ) -> Result<R, Failure> {
        let mut result = None;
        self.with(|state| {
            state.read(&mut |tx: &mut dyn Allocate| {
                result = Some(body(&mut ErasedTx::new(tx))?);
                Ok(())
            })
        })?;
        Ok(result.expect("a body that succeeded has returned its result"))
    }
}

impl Drop for ViewState {
    fn drop(&mut self) {
        // The files belong to the parent.
        if !self.process.is_this() {
            mem::forget(self.state.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}

/// A pool as of one transaction: `pool.view()`, or a pool opened with `read_only=True`.
#[pyclass(frozen, subclass, module = "lastword")]
pub(crate) struct View(Arc<ViewState>);

impl View {
    pub(crate) fn of_pool(pool: Arc<Shared>) -> Result<View, Failure> {
        let cell = ViewCell::try_new(pool.engine("view")?, |engine| engine.read_state())?;
        let id = cell.with_dependent(|_, view| view.id());
        Ok(View::new(State::View(cell), id, Some(pool)))
    }

    fn new(state: State, id: TxId, pool: Option<Arc<Shared>>) -> View {
        let process = Process::this();
        View(Arc::new(ViewState { process, id, state: RwLock::new(Some(state)), pool }))
    }

    pub(crate) fn state(&self) -> Arc<ViewState> {
        Arc::clone(&self.0)
    }
}

#[pymethods]
impl View {
    /// Makes a view of a pool, or opens the pool at a path to read it.
    #[new]
    #[pyo3(signature = (source, **options))]
    fn open(source: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<View> {
        let py = source.py();
        if let Ok(pool) = source.cast::<Pool>() {
            if options.is_some_and(|options| !options.is_empty()) {
                return Err(PyTypeError::new_err("a view of an open pool has no options"));
            }
            let shared = pool.get().shared();
            current::settle(py);
            return Ok(py.detach(|| View::of_pool(shared))?);
        }
        let given = OpenOptions::of(options, &["layout", "layout_version"])?;
        let path = source.extract::<PathBuf>()?;
        let opened = py.detach(|| PoolReader::open(&path, given.options));
        let opened = opened.map_err(|error| Failure::from(error).at(&path))?;
        let id = opened.id();
        Ok(View::new(State::Reader(Box::new(opened)), id, None))
    }

    /// The ID of the last transaction in the view.
    #[getter]
    fn id(&self) -> u64 {
        let TxId(id) = self.0.id;
        id
    }

    /// Returns a map as of the view.
    fn __getitem__<'py>(
        slf: &Bound<'py, View>,
        map: &Bound<'py, MapBase>,
    ) -> PyResult<Bound<'py, PyAny>> {
        map.get_type().call1((slf, map))
    }

    /// Checks the heap and all collections, as of the view. Returns counts.
    fn check<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (objects, maps) = py.detach(|| {
            let objects = self.0.with(|state| state.check())?;
            Ok::<_, Failure>((objects, self.0.read(entries)?))
        })?;
        let counts = PyDict::new(py);
        for (name, entries, damage) in maps {
            if let Some(damage) = damage {
                return Err(raise("Damaged", format!("collection `{name}`: {damage}")));
            }
            counts.set_item(name, entries)?;
        }
        let found = PyDict::new(py);
        found.set_item("objects", objects)?;
        found.set_item("collections", counts)?;
        Ok(found)
    }

    /// Returns the description of the pool.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        // The guard ends before Python's objects are made: a finalizer may close the view.
        let found = py.detach(|| self.0.info())?;
        info::info(py, &found)
    }

    /// Ends the view, and frees its disk space. In a forked child it does nothing.
    fn close(&self, py: Python<'_>) {
        if !self.0.process.is_this() {
            return;
        }
        py.detach(|| drop(self.0.state.write().unwrap_or_else(PoisonError::into_inner).take()));
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, pyo3::types::PyTuple>) {
        self.close(py);
    }
}

/// A collection's name, its number of entries, and its first damage.
type Entries = (String, u64, Option<String>);

/// Checks all collections.
fn entries(tx: &mut ErasedTx<'_>) -> Result<Vec<Entries>, Stop> {
    let mut all = Vec::new();
    for listed in catalog::collections(tx)?.unwrap_or_default() {
        if let Some(collection) = listed.open(tx)? {
            let checked = collection.check(tx)?;
            let damage = checked.damage.first().map(ToString::to_string);
            all.push((listed.name().to_owned(), checked.entries, damage));
        }
    }
    Ok(all)
}
