//! The damage of a collection with a name.

use collections::encoded;
use thiserror::Error;
use words::Stop;

use crate::error::Error;

/// The damage of a collection with a name, or of the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CollectionDamage {
    /// A violated invariant.
    #[error("{0}")]
    Invariant(encoded::Damage),
    /// Its pointers or its types cannot be followed.
    #[error("{0}")]
    Stopped(Stop),
    /// A part of it is on a page that differs from its checksum.
    #[error("a part of it is on a damaged page")]
    Page,
}

impl CollectionDamage {
    /// Returns the damage that ended a read.
    ///
    /// # Errors
    /// The error, if it is no damage: a failed read of the file.
    pub(crate) fn of(error: Error) -> Result<CollectionDamage, Error> {
        Ok(CollectionDamage::Stopped(match error {
            Error::BadPointer { .. } => Stop::BadPointer,
            Error::BadValue => Stop::BadValue,
            Error::BadSize => Stop::BadSize,
            Error::Stopped { stop } => stop,
            Error::Medium(medium::Error::DamagedPages { .. }) => return Ok(CollectionDamage::Page),
            error => return Err(error),
        }))
    }
}
