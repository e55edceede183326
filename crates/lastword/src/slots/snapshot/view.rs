//! Views, and the heap that the versions see.

use std::ops::Range;

use medium::{FrozenImage, Scrubbed};
use words::TxId;

use super::super::store::SlotStore;
use super::Core;
use crate::dual_version::ObjectHeap;
use crate::error::Error;
use crate::perform::Heap;
use crate::sync::Arc;

impl ObjectHeap for SlotStore {
    #[inline(always)]
    fn words(&self) -> &Heap {
        self.heap()
    }

    #[inline(always)]
    fn store(&self, index: usize, value: u64) {
        SlotStore::store(self, index, value);
    }

    #[inline(always)]
    fn exchange(&self, index: usize, current: u64, new: u64) -> Result<u64, u64> {
        SlotStore::exchange(self, index, current, new)
    }
}

impl Core {
    /// Begins a frozen image as of now; see `dual_version::view`.
    pub(super) fn freeze(&self, image: &Arc<FrozenImage>) -> Result<TxId, Error> {
        self.check()?;
        let id = self.versions.freeze(|words| {
            image.lay_over(words);
            self.store.freeze(image);
        });
        Ok(TxId(id))
    }

    /// Compares pages with their checksums.
    pub(super) fn scrub(&self, pages: Range<usize>, scrubbed: &mut Scrubbed) -> Result<(), Error> {
        let _notify = self.notify_on_drop(); // a failure poisons the pool
        let done = self.store.scrub(pages, scrubbed).and_then(|()| self.check());
        done.map_err(|error| self.workers.poison.put(error))
    }
}
