//! A private mapping of the heap at home: a page is copied by its first write.
//!
//! Why pages that are not copied may be the very pages that reproduction writes: such a page has
//! not been written by any transaction since the pool was opened, so nothing in the log belongs to
//! it, and what comes home does not touch it; or only as part of a page that is written whole, with
//! the bytes that it has. Replay happens before the mapping is made.

use medium::sync::Arc;
use medium::{Memory, PoolFile};

use super::ShadowHeap;

impl ShadowHeap {
    /// The heap at `offset` in a file, mapped.
    pub(super) fn copy_on_write(
        file: &Arc<PoolFile>,
        offset: u64,
        bytes: u64,
    ) -> Result<ShadowHeap, medium::Error> {
        Ok(ShadowHeap { memory: Memory::copy_on_write(Arc::clone(file), offset, bytes)? })
    }
}
