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

    /// Migrates a pool whose layout has this name and version `from` to version `from + 1`, before
    /// it is opened. Several of them are run one after another, up to the version of
    /// [`layout`](Options::layout).
    ///
    /// `step` is the body of a transaction. It gets a number, 0 at first, and returns the number
    /// that the next transaction gets, or `None` at the end of the migration. So a migration may be
    /// larger than a transaction. The number is part of the pool: after a crash, or an error, the
    /// next opening with this migration goes on where the last durable step ended. Meanwhile no
    /// program without it opens the pool.
    ///
    /// A step that ends by a [`Stop`] ends the opening with its error.
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
