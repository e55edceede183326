//! The checksums of the heap image's pages, computed and compared between two steps.

use std::ops::Range;

use medium::Scrubbed;

use super::{PAGE_BYTES, Reproduce};
use crate::Error;
use crate::persist::Persist;

impl Reproduce {
    /// Returns the number of pages of the heap.
    pub(crate) fn heap_pages(&self) -> usize {
        (self.heap_bytes() / PAGE_BYTES) as usize
    }

    /// Whether the pages of the heap image have checksums.
    pub(crate) fn has_checksums(&self) -> bool {
        self.sums
    }

    /// Computes the unknown checksums of a range of pages, between two steps. Returns whether any
    /// was unknown. All batches taken in are durable in the heap image, or gathered.
    ///
    /// # Errors
    /// The medium's; the pool is poisoned then.
    pub(crate) fn seal(&self, persist: &Persist, pages: Range<usize>) -> Result<bool, Error> {
        let sealed = self.between_steps(persist, |_, _| {
            persist.progress.check()?;
            Ok::<_, Error>(self.shards.seal(pages))
        })?;
        sealed.map_err(|error| persist.progress.fail(error.into()))
    }

    /// Compares pages with their checksums, between two steps.
    ///
    /// # Errors
    /// The medium's; the pool is poisoned then.
    pub(crate) fn scrub(
        &self,
        persist: &Persist,
        pages: Range<usize>,
        scrubbed: &mut Scrubbed,
    ) -> Result<(), Error> {
        let mut done = Ok(());
        self.between_steps(persist, |_, _| {
            self.shards.for_each(|part| {
                done = part.scrub(pages.clone(), scrubbed);
                done.is_ok()
            })
        });
        done.map_err(|error| persist.progress.fail(error.into()))
    }
}
