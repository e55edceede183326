//! Detection of a forked child, which may not use the pools of its parent.
//!
//! The engine detects a child in every call but the accesses of an open transaction. Python calls
//! [`after_fork`] in the child. Pools, views and tickets compare the number of forks.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::pyfunction;

use crate::current;
use crate::failure::Failure;

/// The number of forks between the first process and this one.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// The process that has made an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    forks: u64,
}

impl Process {
    /// Returns the running process.
    pub(crate) fn this() -> Process {
        // Relaxed: a child begins with one thread, which has called `after_fork`.
        Process { forks: FORKS.load(Ordering::Relaxed) }
    }

    /// Whether this is the running process, and not a parent of it.
    pub(crate) fn is_this(self) -> bool {
        self == Process::this()
    }

    /// Refuses a call in a forked child.
    pub(crate) fn must_be_this(self, call: &'static str) -> Result<(), Failure> {
        if self.is_this() { Ok(()) } else { Err(Failure::forked(call)) }
    }
}

/// Notes that this process is a forked child.
#[pyfunction]
pub(crate) fn after_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    // The parent continues the open transaction of this thread.
    current::leave_to_parent();
}
