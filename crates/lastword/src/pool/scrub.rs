//! The verification of an open pool's page checksums.

use medium::Scrubbed;

use super::Pool;
use crate::design::Design;
use crate::shadow::PAGE_BYTES;
use crate::{Error, Scrub};

impl<D: Design> Pool<D> {
    /// Verifies every page of the heap image against its checksum while transactions run. Reads the
    /// whole heap image, from the disk instead of the page cache where the file system supports it.
    /// Reproduction waits while a slice of 32 MiB is read. Under the other designs, commits that
    /// write pages of a file, and first stores to mapped pages with a checksum, wait while 1 MiB is
    /// read. On mapped media these designs leave checksums of changed pages to the shutdown, so
    /// such pages are not verified.
    ///
    /// A damaged page is marked in the checksum table, durably, so the next opening fails. A page
    /// that the disk cannot read counts as damaged and is not marked. The pool stays usable until a
    /// transaction changes a damaged page: its shadow may be intact. If pages are damaged, close
    /// the pool and restore it from a backup.
    ///
    /// ```
    /// use lastword::{Options, Pool};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let options = Options::new().bytes(1 << 20).log_bytes(1 << 20);
    /// let pool = Pool::create(dir.path().join("bank.pool"), options)?;
    /// let scrub = pool.scrub()?;
    /// assert_eq!((scrub.pages, scrub.compared), (256, 256));
    /// assert!(scrub.damaged.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NotDurable`]. A failed sync of the marks; it poisons the pool.
    pub fn scrub(&self) -> Result<Scrub, Error> {
        let _call = self.call("scrub")?;
        self.has_heap_image()?;
        self.compare_pages()
    }

    /// Compares all pages of the heap image, as [`scrub`](Pool::scrub) does.
    pub(super) fn compare_pages(&self) -> Result<Scrub, Error> {
        let pages = (self.shape.heap_bytes() / PAGE_BYTES) as usize;
        let mut scrubbed = Scrubbed::default();
        self.design().scrub(0..pages, &mut scrubbed)?;
        scrubbed.damaged.sort_unstable();
        let Scrubbed { compared, damaged } = scrubbed;
        let heap_offset = self.shape.heap_offset();
        let damaged = damaged.into_iter().map(|page| heap_offset + page as u64 * PAGE_BYTES);
        let path = self.shape.info().path.clone();
        let damaged = damaged.collect();
        Ok(Scrub { path, pages, compared, lost_checksums: 0, damaged })
    }
}
