//! The errors of a collection that is opened by its name.

use std::path::PathBuf;

use thiserror::Error;

/// The reason why a collection cannot be opened by its name. Nothing was changed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NamedError {
    /// The name belongs to a collection of other types.
    #[error(
        "`{name}` in {path} is a {stored}, not a {wanted}: open it with its types, or use another \
         name"
    )]
    OtherTypes {
        /// The pool's file.
        path: PathBuf,
        /// The name.
        name: Box<str>,
        /// The types of the collection in the pool.
        stored: Box<str>,
        /// The types that the program asked for.
        wanted: Box<str>,
    },

    /// The root of the pool is an object of the program.
    #[error(
        "{path} has no named collections, because its root is an object of the program: store the \
         collection in that object, or use a pool of its own for named ones"
    )]
    OwnRoot {
        /// The pool's file.
        path: PathBuf,
    },
}
