//! The place of the page checksums: between the superblocks and the first area.

use medium::ChecksumArea;

use super::{COPIES_BYTES, Superblock};

impl Superblock {
    /// Returns the place of the page checksums, if the pool has them.
    pub(crate) fn checksum_area(&self) -> Option<ChecksumArea> {
        let first = if self.log_inside { self.log_offset } else { self.heap_offset };
        let bytes = (first - COPIES_BYTES) / 4096 * 4096;
        self.page_checksums.then_some(ChecksumArea { offset: COPIES_BYTES, bytes })
    }

    /// Returns the bytes of the heap whose pages have a checksum.
    pub(crate) fn checksummed_bytes(&self) -> u64 {
        self.checksum_area().map_or(0, |area| area.covers(self.heap_bytes))
    }

    /// Returns the largest heap size that the checksum table covers; 0 without a table.
    pub(crate) fn checksums_reach(&self) -> u64 {
        self.checksum_area().map_or(0, |area| area.covers(u64::MAX))
    }
}
