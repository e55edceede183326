//! The log and the heap image of a recovery whose progress is reported.

use medium::{Counts, HeapMedium, ReadLog, Witness};

use crate::opening::{OnOpening, OpeningStep, StepProgress};

/// Pages that are written between two reports: 32 MiB.
const PAGES: usize = 8 << 10;

/// Bytes of a page.
const PAGE_BYTES: u64 = 4096;

/// A log that reports how much of it was read.
pub(super) struct WatchedLog<'a> {
    pub(super) log: &'a dyn ReadLog,
    pub(super) progress: StepProgress<'a>,
}

impl ReadLog for WatchedLog<'_> {
    fn bytes(&self) -> u64 {
        self.log.bytes()
    }

    fn block_bytes(&self) -> usize {
        self.log.block_bytes()
    }

    fn read(&self, at: u64, out: &mut [u64]) -> Result<(), medium::Error> {
        let read = self.log.read(at, out);
        self.progress.add(8 * out.len() as u64);
        read
    }

    fn witnesses(&self) -> Result<Vec<Witness>, medium::Error> {
        self.log.witnesses()
    }
}

/// A heap image that reports how many of its gathered pages are written. For a recovery, which
/// calls nothing else.
pub(super) struct WatchedHeap<'a> {
    pub(super) heap_image: &'a mut dyn HeapMedium,
    pub(super) on_opening: &'a OnOpening,
}

impl HeapMedium for WatchedHeap<'_> {
    fn write_back(&mut self, writes: &[u64]) -> Result<(), medium::Error> {
        self.heap_image.write_back(writes)
    }

    fn barrier(&mut self) -> Result<(), medium::Error> {
        let pages = |heap_image: &dyn HeapMedium| heap_image.unwritten().pages as u64;
        let mut left = pages(self.heap_image);
        if self.on_opening.is_set() && left > 0 {
            let progress = self.on_opening.begin(OpeningStep::WritePages, left * PAGE_BYTES);
            while left > 0 {
                self.heap_image.write_next(PAGES)?;
                let now = pages(self.heap_image);
                progress.add((left - now) * PAGE_BYTES);
                left = now;
            }
        }
        self.heap_image.barrier()
    }

    fn counts(&self) -> Counts {
        self.heap_image.counts()
    }
}
