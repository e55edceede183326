//! The disk space of a pool's open views.

use crate::error::Error;
use crate::sync::{AtomicU64, Ordering};

/// The disk space of open views, and its limit.
#[derive(Debug)]
pub(super) struct ViewSpace {
    limit: u64,
    /// Bytes of open views. Relaxed: the counter publishes no other data.
    used: AtomicU64,
}

/// The disk space of one view. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct Reserved<'p> {
    space: &'p ViewSpace,
    bytes: u64,
}

impl ViewSpace {
    /// Returns the space with the limit of the options.
    pub(super) fn new(limit: Option<u64>) -> ViewSpace {
        ViewSpace { limit: limit.unwrap_or(u64::MAX), used: AtomicU64::new(0) }
    }

    /// Returns the bytes of open views.
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Reserves space for a view.
    ///
    /// # Errors
    /// [`Error::ViewLimit`].
    pub(super) fn reserve(&self, bytes: u64) -> Result<Reserved<'_>, Error> {
        let add = |used: u64| used.checked_add(bytes).filter(|used| *used <= self.limit);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add) {
            Ok(_) => Ok(Reserved { space: self, bytes }),
            Err(used) => Err(Error::ViewLimit { wanted: bytes, used, limit: self.limit }),
        }
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.space.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
