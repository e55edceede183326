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
        "cannot read {path}: it is in use, and a pool of design `{design}` can be read only while \
         it is closed; close it first"
    )]
    Design {
        /// The pool's file.
        path: PathBuf,
        /// The design that runs.
        design: &'static str,
    },

    /// In each attempt the owner reused log that was not read yet.
    #[error(
        "cannot read {path}: it is in use, and its log of {log_bytes} bytes was reused before it \
         was read, in all {attempts} attempts; try again under less load, or call `Pool::backup` \
         in its process"
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
    #[error("cannot read {path}: it was opened, closed or resized in every attempt; try again")]
    Changing {
        /// The pool's file.
        path: PathBuf,
    },
}
