//! The errors of `ideal_reproduce`.

use std::path::PathBuf;

use thiserror::Error;

/// The reason why a pool cannot be used with `ideal_reproduce`, or after it.
#[doc(hidden)]
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum IdealError {
    /// The pool needs its heap image.
    #[error(
        "`ideal_reproduce` does not support {found}: it never writes the heap image, so closing \
         the pool loses its content; use it for experiments on medium `emulated`, with the whole \
         heap in memory"
    )]
    Unsupported {
        /// The medium or shadow that rules it out.
        found: &'static str,
    },

    /// The pool was last run with `ideal_reproduce`.
    #[error(
        "{path} was last run with `ideal_reproduce`, which never writes the heap image: its \
         content is lost; create a new pool"
    )]
    NoContent {
        /// The file.
        path: PathBuf,
    },
}
