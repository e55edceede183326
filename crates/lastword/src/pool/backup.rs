//! Backup of an open pool: a second pool with the content as of one transaction.
//!
//! ```text
//!   1  files of the new pool, without names; their blocks reserved
//!   2  the heap is frozen: from here on the ID of the backup is fixed
//!   3  all pages are copied, slice by slice; transactions go on
//!   4  superblock with that ID, as after a clean shutdown
//!   5  sync, names: the log's first, then the pool's
//! ```
//!
//! A crash before 5 leaves no pool at the new path.
//!
//! The copy has an ID of its own. With the same ID, the log of one pool would pass for that of
//! the other after a mix-up of files. The tag of pointers is a function of the ID, so the new ID
//! has the same tag.

use std::path::Path;

use medium::FrozenImage;
use medium::mutants::{Mutant, injected};
use words::TxId;

use super::Pool;
use crate::design::Design;
use crate::storage::{Created, plan};
use crate::superblock::{Superblock, Superblocks};
use crate::sync::Arc;
use crate::{Error, Options};

impl<D: Design> Pool<D> {
    /// Copies the pool to a new pool at `to`, while transactions go on. Returns the last
    /// transaction in the copy, which is at least the last one committed at the call. The copy is
    /// durable on return, opens as a pool that was closed cleanly, and has the sizes, layout,
    /// medium and design of this pool. Its IDs continue with the next one.
    ///
    /// Workers do not wait for the copy. Reproduction stands still while a slice of 32 MiB is
    /// copied, and copies each page that changes meanwhile. The pool's ID differs, so that the
    /// files of both cannot be mixed up. All pointers stay valid in the copy.
    ///
    /// ```
    /// use lastword::{Objects, Options, Pool};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let options = Options::new().bytes(1 << 20).log_bytes(1 << 20);
    /// # let pool = Pool::create(dir.path().join("bank.pool"), options)?;
    /// let count = pool.run(|tx| tx.alloc(42_u64))?.value;
    /// let copy = dir.path().join("backup.pool");
    /// pool.backup(&copy)?;
    /// assert_eq!(Pool::open(&copy, Options::new())?.run(|tx| tx.get(count))?.value, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoView`] for designs other than [`Decoupled`](crate::Decoupled): close the pool and
    /// use [`copy`](crate::copy). As [`create`](Pool::create) for the new pool, and as
    /// [`flush`](Pool::flush) for this one. After an error there is no pool at `to`.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<TxId, Error> {
        self.may_call("backup")?;
        self.has_views()?;
        let first = self.plan_of_copy()?;
        let created = Created::unnamed(&self.system, to.as_ref(), &first)?;
        let Superblock { heap_offset, heap_bytes, .. } = first;
        let image = FrozenImage::new(Arc::clone(&created.file), heap_offset, heap_bytes)?;
        if injected(Mutant::BackupNamedFirst) {
            created.publish()?;
        }
        let frozen = self.freeze(Arc::new(image))?;
        frozen.copy_all()?;
        let id = frozen.id();
        drop(frozen);
        Superblocks::create(&created.file, Superblock { reproduced: id.0, ..first })?;
        created.publish()?;
        Ok(id)
    }

    /// Returns the superblock of a new pool with this pool's content.
    fn plan_of_copy(&self) -> Result<Superblock, Error> {
        let info = self.shape.info();
        let medium = info.medium.ok_or(Error::NotDurable { design: D::NAME })?;
        let (layout, version) = &info.layout;
        let options = Options::new().bytes(info.heap_bytes).log_bytes(info.log_bytes);
        let options = options.layout(layout, *version).system(self.system.clone());
        Ok(plan(&options, D::NAME, medium)?.with_tag_of(info.pool_id))
    }
}
