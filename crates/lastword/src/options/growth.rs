//! Options that bound the disk space of an open pool: its heap's growth, and its views.

use lw_alloc::CHUNK_BYTES;

use super::Options;

/// The largest limit. The heap begins a few MiB, or a log, after the beginning of its file.
const MAX_BYTES: u64 = 15 << 40;

impl Options {
    /// Lets the heap grow while the pool is open, up to this size. Rounded down to 64 KiB, at most
    /// 15 TiB. Default 0: the heap keeps its size.
    ///
    /// A thread of the pool makes the heap larger by a [step](Options::grow_step) when less than
    /// half a step is free. Some transactions still find the heap full, and in a pool without
    /// [threads](Options::background) every growth begins so. Such a transaction reclaims memory of
    /// other workers. If that is not enough, it makes the heap larger and runs again.
    /// [`Pool::grow`](crate::Pool::grow) grows it on request. The pool keeps the size that it has
    /// reached. The limit does not persist: each opening sets its own.
    ///
    /// The limit reserves addresses, and takes memory only for tables: 4 bytes for each 64 KiB, and
    /// with a bounded shadow 8 or 24 bytes for each 4 KiB. If the pool is created
    /// with a limit, its file reserves a thousandth of it for
    /// [page checksums](Options::page_checksums). The number of ownership records is that
    /// of a heap of this size. A [`Shadow::Full`](crate::Shadow::Full) takes
    /// the memory that the heap has grown to.
    ///
    /// ```
    /// use lastword::{Array, Options, Pool};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("grown.pool");
    /// let options = Options::new().bytes(1 << 20).log_bytes(1 << 20).max_bytes(1 << 30);
    /// let pool = Pool::create(&path, options)?;
    /// for _ in 0..20 {
    ///     let _ = pool.run(|tx| Array::<u64>::create(tx, 12_000))?;
    /// }
    /// assert!(pool.info().heap_bytes > 2 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_bytes(mut self, bytes: u64) -> Options {
        self.max_bytes = bytes;
        self
    }

    /// Sets the bytes by which the heap grows at a time, up to
    /// [`max_bytes`](Options::max_bytes). Rounded up to 64 KiB. A request that needs more gets
    /// more. If a transaction makes the heap grow several times, each step is twice the one before.
    /// Default 0: an eighth of the heap, at least 1 MiB.
    pub fn grow_step(mut self, bytes: u64) -> Options {
        self.grow_step = bytes;
        self
    }

    /// Lets the log grow with the heap, up to this size: under `decoupled` on medium `file` it
    /// doubles when it has at most an eighth of the heap. A larger log makes fewer page writes
    /// of the same commits, and a longer recovery.
    ///
    /// Default: 1 GiB, if the heap may [grow](Options::max_bytes) and
    /// [`log_bytes`](Options::log_bytes) is not set for this opening. Otherwise the log keeps its
    /// size.
    pub fn max_log_bytes(mut self, bytes: u64) -> Options {
        self.max_log_bytes = Some(bytes);
        self
    }

    /// Limits the disk space that all open [views](crate::Pool::view) take together. Each takes as
    /// much as the heap. A view beyond it fails with [`Error::ViewLimit`](crate::Error::ViewLimit).
    /// Default: no limit. Backups are not limited: a backup makes a pool of that size in any case.
    pub fn view_bytes(mut self, bytes: u64) -> Options {
        self.view_bytes = Some(bytes);
        self
    }

    /// Returns the most bytes that a heap of this size may get.
    pub(crate) fn room(&self, heap_bytes: u64) -> u64 {
        heap_bytes.max(self.max_bytes.min(MAX_BYTES) / CHUNK_BYTES * CHUNK_BYTES)
    }
}
