//! Pools: the base of the class `Pool`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lastword::collections::catalog;
use lastword::{Durability, Medium, Options, TxId};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::engine::{self, Mode};
use crate::failure::Failure;
use crate::info;
use crate::shared::Shared;
use crate::source::{Place, Source};
use crate::ticket::Ticket;
use crate::transaction::Transaction;
use crate::view::View;

/// The default limit of the heap's growth: enough to begin with. It takes 64 KiB of memory for
/// tables.
const MAX_BYTES: u64 = 1 << 30;

/// The options of a program.
pub(crate) struct Given {
    pub(crate) options: Options,
    design: String,
    mode: Mode,
}

impl Given {
    /// Returns the options that a program has given by name, of those in `allowed`; all if that is
    /// empty.
    pub(crate) fn of(given: Option<&Bound<'_, PyDict>>, allowed: &[&str]) -> PyResult<Given> {
        let mut options = Options::new().durability(Durability::Sync).max_bytes(MAX_BYTES);
        let (mut design, mut mode) = ("decoupled".to_owned(), Mode::Either);
        let (mut layout, mut layout_version) = (String::new(), 0);
        for (name, value) in given.into_iter().flatten() {
            let name = name.extract::<String>()?;
            if !allowed.is_empty() && !allowed.contains(&&*name) {
                return Err(PyTypeError::new_err(format!("no option `{name}` with `read_only`")));
            }
            if value.is_none() {
                continue;
            }
            options = match &*name {
                "bytes" => options.bytes(value.extract()?),
                "log_bytes" => options.log_bytes(value.extract()?),
                "max_bytes" => options.max_bytes(value.extract()?),
                "grow_step" => options.grow_step(value.extract()?),
                "view_bytes" => options.view_bytes(value.extract()?),
                "ring_entries" => options.ring_entries(value.extract()?),
                "medium" => options.medium(medium(&value.extract::<String>()?)?),
                "relaxed" => options.durability(match value.is_truthy()? {
                    true => Durability::Async,
                    false => Durability::Sync,
                }),
                "patience" => options.patience(seconds(&value)?),
                "pause" => options.pause(seconds(&value)?),
                "group" => options.group(value.extract()?),
                "compress" => options.compress(value.is_truthy()?),
                "without_log" => options.without_log(value.is_truthy()?),
                "design" => {
                    design = value.extract()?;
                    options
                }
                "layout" => {
                    layout = value.extract()?;
                    options
                }
                "layout_version" => {
                    layout_version = value.extract()?;
                    options
                }
                "create" => {
                    mode = if value.is_truthy()? { Mode::Create } else { Mode::Open };
                    options
                }
                _ => return Err(PyTypeError::new_err(format!("no option is called `{name}`"))),
            };
        }
        if !layout.is_empty() || layout_version > 0 {
            options = options.layout(&layout, layout_version);
        }
        Ok(Given { options, design, mode })
    }
}

fn seconds(value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value.extract()?)
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

fn medium(name: &str) -> PyResult<Medium> {
    Ok(match name {
        "file" => Medium::File,
        "dax" => Medium::Dax,
        "persistent_cache" => Medium::PersistentCache,
        "emulated" => Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 },
        _ => {
            let media = "`file`, `dax`, `persistent_cache` or `emulated`";
            return Err(PyValueError::new_err(format!("medium `{name}`: use {media}")));
        }
    })
}

/// A pool that this process has opened.
#[pyclass(frozen, subclass, weakref, module = "lastword")]
pub(crate) struct Pool(Arc<Shared>);

impl Pool {
    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.0)
    }
}

#[pymethods]
impl Pool {
    /// Opens or creates a pool.
    #[new]
    #[pyo3(signature = (path, **options))]
    fn new(py: Python<'_>, path: PathBuf, options: Option<&Bound<'_, PyDict>>) -> PyResult<Pool> {
        let Given { options, design, mode } = Given::of(options, &[])?;
        let started = py.detach(|| engine::start(&design, mode, &path, options));
        let started = started.ok_or_else(|| {
            let designs = "`decoupled`, `snapshot`, `undo` or `redo`";
            PyValueError::new_err(format!("design `{design}`: use {designs}"))
        })?;
        Ok(Pool(Arc::new(Shared::new(started.map_err(Failure::from)?))))
    }

    /// Makes a transaction, for a `with` block.
    #[pyo3(signature = (*, read_only = false))]
    fn transaction(&self, read_only: bool) -> Transaction {
        Transaction::new(Arc::clone(&self.0), read_only)
    }

    /// Copies the pool to a new pool while transactions go on. Returns the last transaction's ID.
    fn backup(&self, py: Python<'_>, path: PathBuf) -> PyResult<u64> {
        let copied = py.detach(|| Ok::<_, Failure>(self.0.engine("backup")?.backup(&path)?));
        let TxId(id) = copied?;
        Ok(id)
    }

    /// Makes everything committed durable.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        Ok(py.detach(|| Ok::<_, Failure>(self.0.engine("flush")?.flush()?))?)
    }

    /// Makes the heap at least as large. Returns its size.
    fn grow(&self, py: Python<'_>, bytes: u64) -> PyResult<u64> {
        Ok(py.detach(|| Ok::<_, Failure>(self.0.engine("grow")?.grow(bytes)?))?)
    }

    /// Counts and costs since the pool was opened.
    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        info::metrics(py, &self.0.engine("metrics")?.metrics())
    }

    /// The pool's description.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        info::info(py, &self.0.engine("info")?.info())
    }

    /// Checks the heap and all collections of a view. Returns counts.
    fn check<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let pool = self.shared();
        let view = Bound::new(py, py.detach(|| View::of_pool(pool))?)?;
        let checked = view.call_method0("check");
        view.call_method0("close")?;
        Ok(checked?.cast_into::<PyDict>()?)
    }

    /// The names of the collections, with their types.
    fn collections<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let listed = py.detach(|| self.0.run(true, |tx| catalog::list(tx)))?.0;
        let dict = PyDict::new(py);
        for (name, types) in listed {
            dict.set_item(name, types.to_string())?;
        }
        Ok(dict)
    }

    /// A ticket of the last committed transaction, which covers all before it.
    #[getter]
    fn ticket(&self) -> PyResult<Ticket> {
        let engine = self.0.engine("ticket")?;
        let id = engine.committed_id();
        Ok(Ticket::new(engine, id))
    }

    /// Whether this thread has an open transaction of the pool.
    #[getter]
    fn in_transaction(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(Source::Pool(self.shared()).place(py)? == Place::Inside)
    }

    /// Whether the pool is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.0.own_process("closed").is_err() || self.0.engine("closed").is_err()
    }

    /// Makes everything durable and closes the pool. A second call does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        Ok(py.detach(|| self.0.close())?)
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}
