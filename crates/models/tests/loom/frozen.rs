//! Frozen images as `medium` has them, of one page of one word, and without a file.

use std::ops::Range;

use crate::around::Error;
use crate::sync::{Arc, Mutex, lock};

/// Words of a page.
pub(crate) const PAGE_WORDS: usize = 1;

/// A frozen image.
#[derive(Debug, Default)]
pub(crate) struct FrozenImage {
    page: Mutex<Option<u64>>,
}

impl FrozenImage {
    /// Returns the page, if it is copied.
    pub(crate) fn copied(&self) -> Option<u64> {
        *lock(&self.page)
    }

    /// Copies the page, unless it is copied. As in `medium`, no lock spans the check, the read and
    /// the store: [`FrozenMemory`](crate::frozen_memory::FrozenMemory) calls this within a visit of
    /// the page, or as the page's watch ends, and the watch lets one thread at a time do either.
    pub(crate) fn copy(
        &self,
        pages: Range<usize>,
        _wanted: impl Fn(usize) -> bool,
        now: impl Fn(usize, &mut [u64]) -> Result<(), Error>,
    ) {
        let mut words = [0];
        if self.copied().is_none() && now(pages.start, &mut words).is_ok() {
            *lock(&self.page) = Some(words[0]);
        }
    }
}

/// The frozen images of one memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct FrozenImages(Vec<Arc<FrozenImage>>);

impl FrozenImages {
    pub(crate) fn add(&mut self, image: &Arc<FrozenImage>) {
        self.0.push(Arc::clone(image));
    }

    pub(crate) fn remove(&mut self, image: &Arc<FrozenImage>) {
        self.0.retain(|other| !Arc::ptr_eq(other, image));
    }

    /// Copies a page that is about to change.
    pub(crate) fn before_change(
        &self,
        page: usize,
        now: impl Fn(usize, &mut [u64]) -> Result<(), Error>,
    ) {
        for image in &self.0 {
            image.copy(page..page + 1, |_| true, &now);
        }
    }
}
