//! Pools: the base of the class `Pool`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lastword::collections::catalog;
use lastword::{Durability, Medium, Options, TxId};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::current;
use crate::engine::{self, Mode};
use crate::failure::{Failure, raise};
use crate::info;
use crate::shared::Shared;
use crate::ticket::Ticket;
use crate::transaction::Transaction;
use crate::view::View;

/// The default limit of the heap's growth: enough to begin with. It takes 64 KiB of memory for
/// tables.
const MAX_BYTES: u64 = 1 << 30;

/// The options of a program.
pub(crate) struct OpenOptions {
    pub(crate) options: Options,
    design: String,
    mode: Mode,
    /// The layout's name and version.
    layout: (String, u64),
}

impl OpenOptions {
    /// Returns the options that a program has given by name, of those in `allowed`; all if that is
    /// empty.
    pub(crate) fn of(given: Option<&Bound<'_, PyDict>>, allowed: &[&str]) -> PyResult<OpenOptions> {
        let options = Options::new().durability(Durability::Sync).max_bytes(MAX_BYTES);
        let (design, layout) = ("decoupled".to_owned(), (String::new(), 0));
        let mut all = OpenOptions { options, design, mode: Mode::Either, layout };
        for (name, value) in given.into_iter().flatten() {
            let name = name.extract::<String>()?;
            if !allowed.is_empty() && !allowed.contains(&&*name) {
                return Err(PyTypeError::new_err(format!("no option `{name}` with `read_only`")));
            }
            if !value.is_none() {
                all = all.with(&name, &value).map_err(|error| wrong(value.py(), &name, &error))?;
            }
        }
        let (layout, version) = &all.layout;
        if !layout.is_empty() || *version > 0 {
            all.options = all.options.layout(layout, *version);
        }
        Ok(all)
    }

    /// Sets an option by its name.
    fn with(self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<OpenOptions> {
        let OpenOptions { options, mut design, mut mode, mut layout } = self;
        let options = match name {
            "bytes" => options.bytes(value.extract()?),
            "log_bytes" => options.log_bytes(value.extract()?),
            "max_bytes" => options.max_bytes(value.extract()?),
            "grow_step" => options.grow_step(value.extract()?),
            "max_log_bytes" => options.max_log_bytes(value.extract()?),
            "view_bytes" => options.view_bytes(value.extract()?),
            "ring_entries" => options.ring_entries(value.extract()?),
            "medium" => options.medium(medium(&value.extract::<String>()?)?),
            "relaxed" => options.durability(match value.is_truthy()? {
                true => Durability::Async,
                false => Durability::Sync,
            }),
            "patience" => options.patience(seconds(value)?),
            "pause" => options.pause(seconds(value)?),
            "group" => options.group(value.extract()?),
            "compress" => options.compress(value.is_truthy()?),
            "without_log" => options.without_log(value.is_truthy()?),
            "design" => {
                design = value.extract()?;
                options
            }
            "layout" => {
                layout.0 = value.extract()?;
                options
            }
            "layout_version" => {
                layout.1 = value.extract()?;
                options
            }
            "create" => {
                mode = if value.is_truthy()? { Mode::Create } else { Mode::Open };
                options
            }
            _ => return Err(PyTypeError::new_err("there is no such option")),
        };
        Ok(OpenOptions { options, design, mode, layout })
    }
}

/// Returns the error of an option: `TypeError` or [`BadOption`](raise).
fn wrong(py: Python<'_>, name: &str, error: &PyErr) -> PyErr {
    let message = format!("option `{name}`: {}", error.value(py));
    match error.is_instance_of::<PyTypeError>(py) {
        true => PyTypeError::new_err(message),
        false => raise("BadOption", message),
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
            return Err(PyValueError::new_err(format!("`{name}`: use {media}")));
        }
    })
}

/// Closes the pools of this process at the end of the program, so that no relaxed commit is lost.
#[pyfunction]
pub(crate) fn close_all(py: Python<'_>) {
    for pool in Shared::all() {
        py.detach(|| {
            // The program has ended inside of a block.
            current::roll_back_current();
            pool.close_at_exit();
        });
    }
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
        let OpenOptions { options, design, mode, .. } = OpenOptions::of(options, &[])?;
        let started = py.detach(|| engine::start(&design, mode, &path, options));
        let started = started.ok_or_else(|| {
            let designs = "`decoupled`, `snapshot`, `undo` or `redo`";
            raise("BadOption", format!("option `design`: `{design}`: use {designs}"))
        })?;
        let engine = started.map_err(|error| Failure::from(error).at(&path))?;
        Ok(Pool(Shared::new(engine)))
    }

    /// Makes a transaction, for a `with` block.
    #[pyo3(signature = (*, read_only = false))]
    fn transaction(&self, read_only: bool) -> Transaction {
        Transaction::new(Arc::clone(&self.0), read_only)
    }

    /// Copies the pool to a new pool while transactions go on. Returns the last transaction's ID.
    fn backup(&self, py: Python<'_>, path: PathBuf) -> PyResult<u64> {
        current::settle(py);
        let copied = py.detach(|| Ok::<_, Failure>(self.0.engine("backup")?.backup(&path)?));
        let TxId(id) = copied?;
        Ok(id)
    }

    /// Makes everything committed durable.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        current::settle(py);
        Ok(py.detach(|| Ok::<_, Failure>(self.0.engine("flush")?.flush()?))?)
    }

    /// Makes the heap at least as large. Returns its size.
    fn grow(&self, py: Python<'_>, bytes: u64) -> PyResult<u64> {
        current::settle(py);
        Ok(py.detach(|| Ok::<_, Failure>(self.0.engine("grow")?.grow(bytes)?))?)
    }

    /// Doubles the log, so that it has more than half of the bytes. Returns its size.
    fn grow_log(&self, py: Python<'_>, bytes: u64) -> PyResult<u64> {
        current::settle(py);
        Ok(py.detach(|| Ok::<_, Failure>(self.0.engine("grow_log")?.grow_log(bytes)?))?)
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
        current::settle(py);
        let pool = self.shared();
        let view = Bound::new(py, py.detach(|| View::of_pool(pool))?)?;
        let checked = view.call_method0("check");
        view.call_method0("close")?;
        Ok(checked?.cast_into::<PyDict>()?)
    }

    /// The names of the collections, with their types.
    fn collections<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        current::settle(py);
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

    /// Whether this thread and task have an open transaction of the pool.
    #[getter]
    fn in_transaction(&self, py: Python<'_>) -> PyResult<bool> {
        current::settle(py);
        let task = current::peek(|state, task| {
            Arc::ptr_eq(&state.pool, &self.0).then(|| task.clone_ref(py))
        });
        task.flatten().map_or(Ok(false), |task| task.is_running(py))
    }

    /// Whether a call has closed the pool, or has found it in use, so that no transaction begins.
    #[getter]
    fn closed(&self) -> bool {
        self.0.own_process("closed").is_err() || self.0.engine("closed").is_err()
    }

    /// Makes everything durable and closes the pool. A second call does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        current::settle(py);
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
