//! The errors of a collection that is opened by its name.

use std::path::{Path, PathBuf};

use collections::catalog::Opened;
use thiserror::Error;

/// The reason why a collection cannot be opened by its name. Nothing was changed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NamedError {
    /// The name belongs to a collection of other types.
    #[error(
        "cannot open `{name}` in {path}: its type is {stored}, not {wanted}; open it with its \
         type, or use another name"
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

    /// The conversion of the collection is unfinished. It cannot be opened until
    /// [`Pool::convert`](crate::Pool::convert) has finished.
    #[error(
        "cannot open `{name}` in {path}: its conversion from {from} to {to} is unfinished; run \
         `Pool::convert` with these types to its end"
    )]
    Converting {
        /// The pool's file.
        path: PathBuf,
        /// The name.
        name: Box<str>,
        /// The old types.
        from: Box<str>,
        /// The new types.
        to: Box<str>,
    },

    /// The types of a conversion agree, so the pool could not distinguish converted values from old
    /// ones.
    #[error(
        "cannot convert `{name}` in {path} from {from} to {to}: the pool cannot distinguish \
         these types; rename one of them, or put `#[lastword::persist]` on \
         both; a type that only adds variants needs no conversion"
    )]
    Alike {
        /// The pool's file.
        path: PathBuf,
        /// The name.
        name: Box<str>,
        /// The old types.
        from: Box<str>,
        /// The new types.
        to: Box<str>,
    },

    /// The root of the pool is an object of the program.
    #[error(
        "cannot open a collection by name in {path}: the pool's root is an object of the program; \
         store the collection in that object, or use another pool"
    )]
    OwnRoot {
        /// The pool's file.
        path: PathBuf,
    },
}

impl NamedError {
    /// Returns the collection that the catalog of a pool has under a name.
    pub(crate) fn of<C>(
        opened: Opened<C>,
        path: &Path,
        name: &str,
        wanted: impl FnOnce() -> String,
    ) -> Result<C, NamedError> {
        match opened {
            Opened::Found(collection) | Opened::Created(collection) => Ok(collection),
            Opened::OwnRoot => Err(NamedError::OwnRoot { path: path.into() }),
            Opened::Converting { from, to } => {
                let (from, to) = (from.to_string().into(), to.to_string().into());
                Err(NamedError::Converting { path: path.into(), name: name.into(), from, to })
            }
            Opened::Other(stored) => {
                let (stored, wanted) = (stored.to_string().into(), wanted().into());
                Err(NamedError::OtherTypes { path: path.into(), name: name.into(), stored, wanted })
            }
        }
    }
}
