//! Options of the checksums of pages.

use super::{Options, Shadow};

/// The options of the checksums of pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageOptions {
    /// Whether a new pool has them.
    pub(crate) keeps: bool,
    /// Whether opening compares them; `None`: by the shadow.
    pub(crate) verifies: Option<bool>,
    /// Whether a reader goes on beside damaged pages.
    pub(crate) salvages: bool,
}

impl Default for PageOptions {
    fn default() -> PageOptions {
        PageOptions { keeps: true, verifies: None, salvages: false }
    }
}

impl Options {
    /// Sets whether a new pool gets a checksum for each page of its heap image. Default true. An
    /// existing pool keeps its choice.
    ///
    /// The checksums detect a page that the disk or another program has changed. They take 4.3
    /// bytes of disk for each page of 4 KiB, and on [`Medium::File`](crate::Medium::File) 4 bytes
    /// of memory. The table has room for a heap of [`max_bytes`](Options::max_bytes), and of at
    /// least 1.86 GiB. Later pages have no checksum. When a checksum is current depends on the
    /// medium:
    /// - `file`: always. A page that changes in part is read first.
    /// - Mapped media: from a clean shutdown, or a [`checkpoint`](crate::Pool::checkpoint) under
    ///   `decoupled`, until the page changes. That change reads the page and costs a persist
    ///   barrier: one a batch under `decoupled`, else one a page.
    ///
    /// Versions of Lastword without page checksums refuse such a pool.
    ///
    /// ```
    /// use lastword::{Options, Pool};
    /// use std::os::unix::fs::FileExt;
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("bank.pool");
    /// let options = Options::new().bytes(1 << 20).log_bytes(1 << 20);
    /// Pool::create(&path, options.clone())?.close()?;
    /// let file = std::fs::File::options().write(true).open(&path)?;
    /// file.write_all_at(b"oops", (2 << 20) + 500_000)?; // no word of the allocator
    /// let damaged = Pool::open(&path, options).unwrap_err();
    /// assert!(damaged.to_string().contains("1 page of the heap"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn page_checksums(mut self, page_checksums: bool) -> Options {
        self.page_checksums.keeps = page_checksums;
        self
    }

    /// Sets whether opening a pool reads and verifies all pages, and fails if one is damaged.
    /// Default: true with [`Shadow::Full`](crate::Shadow::Full) and for
    /// [`PoolReader`](crate::PoolReader); false with the other shadows, which open a pool without
    /// reading its heap.
    ///
    /// If false, transactions may read damaged values. Damage is then found when its page changes,
    /// when a backup copies it, or by [`Pool::scrub`](crate::Pool::scrub).
    pub fn verify_at_open(mut self, verify: bool) -> Options {
        self.page_checksums.verifies = Some(verify);
        self
    }

    /// Whether opening compares the pages.
    pub(crate) fn verifies_pages(&self) -> bool {
        self.page_checksums.verifies.unwrap_or(self.shadow == Shadow::Full)
    }

    /// Lets [`PoolReader::open`](crate::PoolReader::open) open a pool with damaged pages. It reads
    /// all other pages; a read of a damaged page returns an error. Default false. A pool with
    /// damaged pages cannot be opened for transactions: these pages would get valid checksums.
    pub fn salvage(mut self, salvage: bool) -> Options {
        self.page_checksums.salvages = salvage;
        self
    }
}
