//! Errors of a reproduction, each in one line.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error as ThisError;

/// Why a reproduction, or a sweep of simulations, could not run.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The paper is not built in.
    #[error("no paper `{name}` is built in")]
    NoPaper {
        /// As given.
        name: String,
    },

    /// The paper has no experiment of this ID.
    #[error("{paper} has no experiment {id}: it has {known}")]
    NoExperiment {
        /// The paper's short name.
        paper: String,
        /// As given.
        id: String,
        /// The experiments of the paper.
        known: String,
    },

    /// The file is not a report of `comparison durable`.
    #[error("{path}: {problem}; give the output of `comparison durable --format json`")]
    NotComparison {
        /// The file.
        path: PathBuf,
        /// The parser's message.
        problem: String,
    },

    /// Another process writes the same directory of results.
    #[error(
        "another `lastword reproduce` writes {path}: wait for it, or name another directory with \
         --out"
    )]
    InUse {
        /// The file of trials.
        path: PathBuf,
    },

    /// The workload does not support an option that is set.
    #[error(
        "{option} is not supported by workload `{workload}`: leave it out, or run a workload that \
         supports it"
    )]
    Unsupported {
        /// The workload's name.
        workload: &'static str,
        /// The option, as on the command line.
        option: &'static str,
    },

    /// A sweep's `data` is not a data set.
    #[error("data: {problem}")]
    BadData {
        /// The parser's message.
        problem: String,
    },

    /// No workload has this name.
    #[error("there is no workload `{name}`; there are: {known}")]
    NoWorkload {
        /// As given.
        name: String,
        /// All workloads.
        known: String,
    },

    /// The simulation was refused or failed.
    #[error(transparent)]
    Simulation(#[from] sim::Error),

    /// A sweep's file or its results.
    #[error(transparent)]
    Sweep(#[from] sim::sweep::SweepError),

    /// An operation on a file failed.
    #[error("{doing} {path}: {source}")]
    File {
        /// The operation, as in "reading".
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

impl Error {
    /// Returns a function for `map_err` that names the operation and the file.
    pub(crate) fn file<E: Into<io::Error>>(
        doing: &'static str,
        path: &Path,
    ) -> impl FnOnce(E) -> Error {
        move |source| Error::File { doing, path: path.into(), source: source.into() }
    }
}
