//! A shadow of the whole heap in anonymous memory, with large pages where the system provides them.
//!
//! Opening fills it by reading, so that a bad sector is an error there and not a signal in the
//! middle of a transaction. It takes as much memory as the heap has bytes.

use medium::{Memory, PoolFile};

use super::ShadowHeap;

impl ShadowHeap {
    /// Creates a heap of zeros.
    pub(crate) fn zeros(bytes: u64) -> Result<ShadowHeap, medium::Error> {
        Ok(ShadowHeap { memory: Memory::anonymous(bytes)? })
    }

    /// Returns a heap whose words were read.
    pub(crate) fn of(memory: Memory) -> ShadowHeap {
        ShadowHeap { memory }
    }

    /// Copies the heap image at `offset` in a file.
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
