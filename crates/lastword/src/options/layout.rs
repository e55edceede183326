//! Options of the layout of the program's data.

use words::{ErasedTx, Stop};

use super::Options;
use crate::Error;
use crate::superblock::{LAYOUT_BYTES, padded};
use crate::sync::Arc;

impl Options {
    /// Sets the name (up to 32 bytes) and version of the program's data layout. The superblock
    /// stores both, and opening a pool with another layout is an error. Default: "" and 0.
    pub fn layout(mut self, name: &str, version: u64) -> Options {
        self.layout = name.into();
        self.layout_version = version;
        self
    }

    /// Adds a migration from version `from` of the layout to version `from + 1`. Opening the pool
    /// runs the migrations from its version to that of [`layout`](Options::layout), in ascending
    /// order. If one is missing, none runs, and the opening returns [`Error::Layout`].
    ///
    /// `step` is the body of a transaction, and may be repeated as any body. Its argument is 0 in
    /// the first transaction, and then the number that the previous one returned. `None` ends the
    /// migration. The pool stores the number in the same transaction. So a migration may be larger
    /// than a transaction, and after a crash or an error the next opening continues after the last
    /// durable step. Until the migration ends, the pool opens only with this migration.
    ///
    /// If a step fails, the opening returns [`Error::Migration`]. Each version costs two updates of
    /// the superblock, and the pool is opened and closed twice more.
    ///
    /// ```
    /// use lastword::{Array, Objects, Options, Pool};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("prices.pool");
    /// # let small = || Options::new().bytes(1 << 20).log_bytes(1 << 20);
    /// // Version 1 has prices in euros.
    /// let pool = Pool::create(&path, small().layout("prices", 1))?;
    /// let prices = pool.run(|tx| Array::<u64>::create(tx, 100))?.value;
    /// pool.run(|tx| tx.set(prices.at(7)?, 12))?;
    /// pool.close()?;
    /// // Version 2 has them in cents. Each transaction changes ten.
    /// let options = small().layout("prices", 2).migrate(1, move |tx, first| {
    ///     for number in first..first + 10 {
    ///         tx.update(prices.at(number)?, |price| 100 * price)?;
    ///     }
    ///     Ok(Some(first + 10).filter(|next| *next < 100))
    /// });
    /// let pool = Pool::open(&path, options)?;
    /// assert_eq!(pool.run(|tx| tx.get(prices.at(7)?))?.value, 1200);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn migrate(
        mut self,
        from: u64,
        step: impl Fn(&mut ErasedTx<'_>, u64) -> Result<Option<u64>, Stop> + Send + Sync + 'static,
    ) -> Options {
        self.migrations.insert(from, Arc::new(step));
        self
    }

    /// Returns the layout's name as the superblock stores it.
    pub(crate) fn layout_padded(&self) -> Result<[u8; LAYOUT_BYTES], Error> {
        padded(&self.layout).filter(|_| !self.layout.contains('\0')).ok_or(Error::BadOption {
            option: "the layout name's length",
            value: self.layout.len() as u64,
            must: "a name has at most 32 bytes, none of them zero",
        })
    }
}
