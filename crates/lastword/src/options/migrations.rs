//! Migrations of the program's data.

use std::collections::BTreeMap;
use std::fmt;

use words::{ErasedTx, Stop};

use crate::sync::Arc;

/// A step of a migration; see [`Options::migrate`].
pub(crate) type Migration =
    dyn Fn(&mut ErasedTx<'_>, u64) -> Result<Option<u64>, Stop> + Send + Sync;

/// The migrations of a program, by the version that each begins with.
#[derive(Clone, Default)]
pub(crate) struct Migrations(BTreeMap<u64, Arc<Migration>>);

impl Migrations {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn insert(&mut self, from: u64, step: Arc<Migration>) {
        self.0.insert(from, step);
    }

    /// Returns the migration that begins with this version.
    pub(crate) fn of(&self, version: u64) -> Option<Arc<Migration>> {
        self.0.get(&version).map(Arc::clone)
    }
}

impl fmt::Debug for Migrations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
