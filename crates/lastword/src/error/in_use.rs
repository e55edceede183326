//! The reasons why a pool that a process has open cannot be read beside it.

use std::path::PathBuf;

use thiserror::Error;

/// The reason why a pool that a process has open cannot be read beside it. The process is not
/// affected.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InUse {
    /// The heap image and the log of this design do not show one transaction while it runs.
    #[error(
        "{path} is in use, and a pool of design `{design}` can be read only while it is closed: \
         close it first"
    )]
    Design {
        /// The pool's file.
        path: PathBuf,
        /// The design that runs.
        design: &'static str,
    },

    /// In each attempt the owner reused log that was not read yet.
    #[error(
        "{path} is in use, and its log of {log_bytes} bytes was reused before it was read, in \
         {attempts} attempts: try again when fewer transactions run, or copy the pool in its own \
         process (`Pool::backup`)"
    )]
    Overtaken {
        /// The pool's file.
        path: PathBuf,
        /// Size of the log.
        log_bytes: u64,
        /// How often the pool was read.
        attempts: u32,
    },

    /// In each attempt the pool was opened, closed or changed in size.
    #[error("{path} was opened or closed in every attempt to read it: try again")]
    Changing {
        /// The pool's file.
        path: PathBuf,
    },
}
