//! A private mapping of the heap image: the first write to a page copies it.
//!
//! An uncopied page may be the very page that reproduction writes. That is safe: no transaction has
//! written the page since the pool was opened, so no log record belongs to it. Reproduction does
//! not change its bytes; it may rewrite the whole page with the bytes that it has. Replay happens
//! before the mapping is made.

use medium::sync::Arc;
use medium::{Memory, PoolFile};

use super::ShadowHeap;

impl ShadowHeap {
    /// Maps the heap image at `offset` in a file. The heap may grow up to `room` bytes.
    pub(crate) fn copy_on_write(
        file: &Arc<PoolFile>,
        offset: u64,
        bytes: u64,
        room: u64,
    ) -> Result<ShadowHeap, medium::Error> {
        let memory = Memory::copy_on_write_growing(Arc::clone(file), offset, bytes, room)?;
        Ok(ShadowHeap { memory })
    }
}
