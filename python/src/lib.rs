//! The Python package `lastword`: its compiled half.
//!
//! ```text
//!   lastword/*.py       classes of the package, codecs, asyncio
//!        |
//!   pool, map, scan, transaction, view, ticket      objects of Python
//!        |
//!   source -> current: the open transaction of each thread
//!        |
//!   shared -> engine: a pool without its design
//! ```
//!
//! Keys and values are encoded before a transaction and decoded after it, so code of the program
//! never runs inside of the engine.

mod cells;
mod current;
mod engine;
mod failure;
mod fork;
mod info;
mod key;
mod map;
mod number;
mod pool;
mod scan;
mod shared;
mod source;
mod task;
mod ticket;
mod transaction;
mod value;
mod view;

use pyo3::prelude::*;

/// The compiled half of `lastword`.
// No build without the interpreter's lock has run the tests: importing the module takes the lock.
#[pymodule(gil_used = true)]
mod _lastword {
    #[pymodule_export]
    use super::fork::after_fork;
    #[pymodule_export]
    use super::map::MapBase;
    #[pymodule_export]
    use super::pool::{Pool, close_all};
    #[pymodule_export]
    use super::scan::Scan;
    #[pymodule_export]
    use super::ticket::{Ticket, Waiting, Wakes};
    #[pymodule_export]
    use super::transaction::Transaction;
    #[pymodule_export]
    use super::view::View;

    /// The version of the package.
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
