//! Descriptions and metrics as dictionaries.

use lastword::{Info, Metrics, TxId};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Returns the description of a pool.
pub(crate) fn info<'py>(py: Python<'py>, info: &Info) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let TxId(reproduced_id) = info.reproduced_id;
    dict.set_item("path", info.path.as_path())?;
    dict.set_item("medium", info.medium.map(lastword::Medium::name))?;
    dict.set_item("pool_id", info.pool_id)?;
    dict.set_item("generation", info.generation)?;
    dict.set_item("design", &info.design)?;
    dict.set_item("layout", &info.layout.0)?;
    dict.set_item("layout_version", info.layout.1)?;
    dict.set_item("heap_bytes", info.heap_bytes)?;
    dict.set_item("log_bytes", info.log_bytes)?;
    dict.set_item("file_bytes", info.file_bytes)?;
    dict.set_item("ring_bytes", info.ring_bytes)?;
    dict.set_item("reproduced_id", reproduced_id)?;
    dict.set_item("clean", info.clean)?;
    dict.set_item("file_system", info.file_system)?;
    dict.set_item("survives_power_loss", info.survives_power_loss)?;
    dict.set_item("page_cache", info.page_cache.as_deref())?;
    Ok(dict)
}

/// Defines [`metrics`] from the names of the fields.
macro_rules! metrics {
    ($($field:ident)*) => {
        /// Returns the metrics of a pool.
        pub(crate) fn metrics<'py>(
            py: Python<'py>,
            metrics: &Metrics,
        ) -> PyResult<Bound<'py, PyDict>> {
            let dict = PyDict::new(py);
            $(dict.set_item(stringify!($field), metrics.$field)?;)*
            Ok(dict)
        }
    };
}

metrics! {
    persist_cpu_ns
    reproduce_cpu_ns
    helped_cpu_ns
    emulated_delay_ns
    log_payload_bytes
    log_combined_bytes
    log_stored_bytes
    log_combined_words
    log_bytes
    padding_bytes
    log_wraps
    heap_image_bytes
    device_writes
    persist_barriers
    ring_full_waits
    room_wait_ns
    log_used_bytes
    log_capacity_bytes
    unreplicated_bytes
    view_bytes
    failed_growths
    undurable_ns
    grace_periods
    grace_cycles
    page_ins
    evictions
    page_waits
}
