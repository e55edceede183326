//! Errors that prevent a comparison.

use std::io;
use std::path::PathBuf;

/// Why there are no figures, or none to be believed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Lastword refused.
    #[error("lastword: {0}")]
    Lastword(#[from] lastword::Error),
    /// LMDB refused.
    #[error("LMDB: {0}")]
    Lmdb(#[from] heed::Error),
    /// RocksDB refused.
    #[error("RocksDB: {text}")]
    #[cfg_attr(not(rocksdb), allow(dead_code, reason = "a build without RocksDB"))]
    Rocksdb {
        /// Its message.
        text: String,
    },
    /// SQLite refused.
    #[error("SQLite: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// A system that this program was built without.
    #[error("cannot run {system}: built without its header; install its library and build again")]
    NotBuilt {
        /// Its name.
        system: &'static str,
    },
    /// The file system has no room for a store.
    #[error(
        "cannot load {gib} GiB of records in {}: {free_mib} MiB are free, a run needs {needed_mib} \
         MiB; free some space, or give a smaller --gib or another --dir", dir.display()
    )]
    NoRoom {
        /// The directory of the stores.
        dir: PathBuf,
        /// Size of the records.
        gib: f64,
        /// Free space that a run needs.
        needed_mib: u64,
        /// Free space.
        free_mib: u64,
    },
    /// A file has no rates of a run.
    #[error("{} has no rates of {run}; its rows come from `heap --rates`", path.display())]
    NoRates {
        /// The file.
        path: PathBuf,
        /// The run.
        run: String,
    },
    /// A graph could not be written.
    #[error("cannot draw {}: {error}", path.display())]
    Graph {
        /// The file.
        path: PathBuf,
        /// The error.
        error: String,
    },
    /// A run in a child process failed.
    #[error("the child process of a run failed: {what}")]
    Child {
        /// The error.
        what: String,
    },
    /// The C side has no memory.
    #[error("no memory for the structures of the C side")]
    NoMemory,
    /// libpmemobj refused.
    #[error("libpmemobj: {text}")]
    Pmem {
        /// Its message.
        text: String,
    },
    /// A work that this comparison has no other side for.
    #[error("{work} is not compared here: hash and tatp are")]
    Unsupported {
        /// Its name.
        work: &'static str,
    },
    /// A file of the comparison itself.
    #[error("{what}: {error}")]
    Io {
        /// The attempted operation.
        what: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// The final contents differ from those written.
    #[error("{system}: {what}")]
    Wrong {
        /// The system with wrong data.
        system: &'static str,
        /// The error.
        what: String,
    },
    /// The run is too short to include the cost of log wraps.
    #[error("the log wrapped {wraps:.1} times, at least 3 are needed: give more --seconds")]
    ShortRun {
        /// Log wraps.
        wraps: f64,
    },
    /// The report cannot be written.
    #[error("writing the report: {0}")]
    Report(#[from] serde_json::Error),
}

impl Failure {
    /// For `map_err`.
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Failure {
        move |error| Failure::Io { what, error }
    }
}
