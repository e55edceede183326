//! The whole heap in anonymous memory, with large pages where the system gives them.
//!
//! It is filled at open by reading, so that a bad sector is an error there and not a signal in the
//! middle of a transaction. Costs as much memory as the heap has bytes.

use medium::{Memory, PoolFile};

use super::ShadowHeap;

impl ShadowHeap {
    /// A heap of zeros.
    pub(crate) fn zeros(bytes: u64) -> Result<ShadowHeap, medium::Error> {
        Ok(ShadowHeap { memory: Memory::anonymous(bytes)? })
    }

    /// A copy of the heap at `offset` in a file.
    pub(crate) fn load(
        file: &PoolFile,
        offset: u64,
        bytes: u64,
    ) -> Result<ShadowHeap, medium::Error> {
        let mut memory = Memory::anonymous(bytes)?;
        memory.fill_from(file, offset, bytes)?;
        Ok(ShadowHeap { memory })
    }
}
