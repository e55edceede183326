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
//! Before 5, the path has no pool. A crash during 5 leaves no pool or the whole one.
//!
//! The copy has its own pool ID. With a common ID, recovery would accept the log of the other pool.
//! A pointer's tag derives from the pool ID, so the new ID is chosen with the same tag. The copy
//! continues the pool's generations, because a frozen heap of `snapshot` may have links of the
//! current one.

use std::path::Path;

use medium::mutants::{Mutant, injected};
use medium::{Domain, FrozenImage};
use words::TxId;

use super::Pool;
use crate::design::Design;
use crate::storage::{Created, plan};
use crate::superblock::{Superblock, Superblocks};
use crate::sync::Arc;
use crate::{Error, Medium, Options, Scrub};

impl<D: Design> Pool<D> {
    /// Copies the pool to a new pool at `to` while transactions go on. Returns the last transaction
    /// in the copy: the last one committed at the call, or a later one. The copy is durable on
    /// return and opens without recovery. It has the sizes, layout, medium and design of this pool.
    /// Its transaction IDs continue after the returned one. With
    /// [groups](crate::Options::group) under [`Snapshot`](crate::Snapshot), the copy has all
    /// transactions up to that ID, and may have later ones, whose IDs it then assigns again.
    ///
    /// Transactions wait as beside a [view](Pool::view): under [`Decoupled`](crate::Decoupled) only
    /// for reproduction, which waits while a slice of 32 MiB is copied, and copies each page that
    /// changes before its slice. The copy has its own pool ID, so opening refuses the log of the
    /// other pool. All pointers stay valid in the copy.
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
    /// [`Error::NotDurable`]. [`Error::NoView`] under ideal reproduction. As
    /// [`create`](Pool::create) for the new pool, and as [`flush`](Pool::flush) for this one. An
    /// error removes the copy, and leaves a file that was at `to` before.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<TxId, Error> {
        let _call = self.call("backup")?;
        self.has_heap_image()?;
        self.verify_source()?;
        // Ends: a heap grows a finite number of times.
        let (first, created, frozen) = loop {
            let first = self.plan_of_copy()?;
            let created = Created::unnamed(&self.system, to.as_ref(), &first)?;
            if self.shape.info().medium == Some(Medium::Dax) {
                Domain::dax(&created.file)?;
            }
            let Superblock { heap_offset, heap_bytes, .. } = first;
            let image = FrozenImage::new(Arc::clone(&created.file), heap_offset, heap_bytes)?;
            let image = if first.page_checksums { image.with_checksums() } else { image };
            if injected(Mutant::BackupNamedFirst) {
                created.publish()?;
            }
            if let Some(frozen) = self.freeze(Arc::new(image))? {
                break (first, created, frozen);
            }
        };
        frozen.copy_all()?;
        if let Some(area) = first.checksum_area() {
            frozen.write_checksums(area)?;
        }
        let id = frozen.id();
        drop(frozen);
        self.design().check()?;
        Superblocks::create(&created.file, Superblock { reproduced: id.0, ..first })?;
        created.publish()?;
        Ok(id)
    }

    /// Compares the pages of a file from which the copied memory was loaded. Opening may not have
    /// compared them, and a damaged page would get a valid checksum in the copy. `decoupled` copies
    /// the heap image, and compares each page.
    fn verify_source(&self) -> Result<(), Error> {
        let is_file = self.shape.info().medium == Some(Medium::File);
        if !is_file || self.design().pipeline().is_some() {
            return Ok(());
        }
        let Scrub { path, damaged, .. } = self.compare_pages()?;
        let Some(at) = damaged.first().copied() else { return Ok(()) };
        Err(medium::Error::DamagedPages { path, at, pages: damaged.len() }.into())
    }

    /// Returns the superblock of a new pool with this pool's content.
    pub(super) fn plan_of_copy(&self) -> Result<Superblock, Error> {
        let info = self.shape.info();
        let medium = info.medium.ok_or(Error::NotDurable { design: D::NAME })?;
        let (layout, version) = &info.layout;
        let options =
            Options::new().bytes(self.shape.heap_bytes()).log_bytes(self.shape.log_bytes());
        let options = options.layout(layout, *version).system(self.system.clone());
        let options = options.page_checksums(info.checksummed_bytes > 0);
        let options = options.max_bytes(self.shape.max_bytes());
        let generation = self.shape.generation();
        Ok(plan(&options, D::NAME, medium)?.for_copy_of(info.pool_id, generation))
    }
}
