//! Detection of a forked child, which may not use the pools of its parent.
//!
//! The engine detects a child in every call but the accesses of an open transaction. Python calls
//! [`after_fork`] in the child, and pools compare the number of forks.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::pyfunction;

use crate::current;

/// The number of forks between the first process and this one.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Returns the number of forks between the first process and this one.
pub(crate) fn forks() -> u64 {
    // Relaxed: a child begins with one thread, which has called `after_fork`.
    FORKS.load(Ordering::Relaxed)
}

/// Notes that this process is a forked child.
#[pyfunction]
pub(crate) fn after_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    // The parent continues the open transaction of this thread.
    current::leave_to_parent();
}
