//! Views: a pool as of one transaction, and pools that are only read.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use lastword::collections::catalog;
use lastword::{Allocate, ErasedTx, Error, PoolReader, Stop, TxId};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::cells::ViewCell;
use crate::engine::Still;
use crate::failure::{Failure, raise};
use crate::info;
use crate::map::MapBase;
use crate::pool::{Given, Pool};
use crate::shared::Shared;

/// A state that does not change.
enum State {
    View(ViewCell),
    Reader(Box<PoolReader>),
}

/// A state that does not change, until it is closed.
pub(crate) struct Frozen {
    state: RwLock<Option<State>>,
    /// The pool of a view.
    pub(crate) pool: Option<Arc<Shared>>,
}

impl Frozen {
    /// Calls `with` on the state.
    fn with<R>(&self, with: impl FnOnce(&dyn Still) -> Result<R, Error>) -> Result<R, Failure> {
        self.pool.as_ref().map_or(Ok(()), |pool| pool.own_process("read"))?;
        match &*self.state.read().unwrap_or_else(PoisonError::into_inner) {
            Some(State::View(cell)) => Ok(cell.with_dependent(|_, view| with(&**view))?),
            Some(State::Reader(reader)) => Ok(with(&**reader)?),
            None => Err(Failure::Class("Closed", "the view is closed".to_owned())),
        }
    }

    /// Reads from the state. The body runs once.
    pub(crate) fn read<R>(
        &self,
        mut body: impl FnMut(&mut ErasedTx<'_>) -> Result<R, Stop>,
    ) -> Result<R, Failure> {
        let mut result = None;
        self.with(|still| {
            still.read(&mut |tx: &mut dyn Allocate| {
                result = Some(body(&mut ErasedTx::new(tx))?);
                Ok(())
            })
        })?;
        Ok(result.expect("a body that succeeded has returned its result"))
    }
}

/// A pool as of one transaction: `pool.view()`, or a pool opened with `read_only=True`.
#[pyclass(frozen, subclass, module = "lastword")]
pub(crate) struct View(Arc<Frozen>);

impl View {
    pub(crate) fn of_pool(pool: Arc<Shared>) -> Result<View, Failure> {
        let cell = ViewCell::try_new(pool.engine("view")?, |engine| engine.freeze())?;
        Ok(View::new(State::View(cell), Some(pool)))
    }

    fn new(state: State, pool: Option<Arc<Shared>>) -> View {
        View(Arc::new(Frozen { state: RwLock::new(Some(state)), pool }))
    }

    pub(crate) fn frozen(&self) -> Arc<Frozen> {
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
        let given = Given::of(options, &["layout", "layout_version"])?;
        if let Ok(pool) = source.cast::<Pool>() {
            let shared = pool.get().shared();
            return Ok(py.detach(|| View::of_pool(shared))?);
        }
        let path = source.extract::<PathBuf>()?;
        let opened = py.detach(|| PoolReader::open(path, given.options)).map_err(Failure::from)?;
        Ok(View::new(State::Reader(Box::new(opened)), None))
    }

    /// The ID of the last transaction in the view.
    #[getter]
    fn id(&self) -> PyResult<u64> {
        let TxId(id) = self.0.with(|still| Ok(still.id()))?;
        Ok(id)
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
            let objects = self.0.with(|still| still.check())?;
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

    /// Returns the description of a pool that is only read; an empty one for a view.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        match &*self.0.state.read().unwrap_or_else(PoisonError::into_inner) {
            Some(State::Reader(reader)) => info::info(py, reader.info()),
            Some(State::View(cell)) => info::info(py, &cell.borrow_owner().info()),
            None => Err(Failure::Class("Closed", "the view is closed".to_owned()).into()),
        }
    }

    /// Ends the view, and frees its disk space.
    fn close(&self, py: Python<'_>) {
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
