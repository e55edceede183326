//! A shadow of the whole heap in anonymous memory, with large pages where the system provides them.
//!
//! Opening fills it by reading, so that a bad sector is an error there and not a signal in the
//! middle of a transaction. It takes as much memory as the heap has bytes.

use medium::{Memory, PoolFile};

use super::ShadowHeap;

impl ShadowHeap {
    /// Creates a heap of zeros that may grow up to `room` bytes.
    pub(crate) fn zeros(bytes: u64, room: u64) -> Result<ShadowHeap, medium::Error> {
        Ok(ShadowHeap { memory: memory(bytes, room)? })
    }

    /// Returns a heap whose words were read.
    pub(crate) fn of(memory: Memory) -> ShadowHeap {
        ShadowHeap { memory }
    }

    /// Copies the heap image at `offset` in a file. The heap may grow up to `room` bytes. Calls
    /// `done` with the bytes of each read.
    pub(crate) fn load(
        file: &PoolFile,
        offset: u64,
        bytes: u64,
        room: u64,
        done: &dyn Fn(u64),
    ) -> Result<ShadowHeap, medium::Error> {
        let mut memory = memory(bytes, room)?;
        memory.fill_from(file, offset, bytes, done)?;
        Ok(ShadowHeap { memory })
    }
}

/// Returns memory for `room` bytes. Of a heap that may grow, addresses alone are reserved.
fn memory(bytes: u64, room: u64) -> Result<Memory, medium::Error> {
    if room > bytes { Memory::unreserved(room) } else { Memory::anonymous(bytes) }
}
