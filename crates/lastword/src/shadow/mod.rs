//! Shadow memory: the DRAM that transactions work on, a copy of the heap at home plus everything
//! that is committed and not yet there.
//!
//! | [`Shadow`] | opening | a page that is only read | a page that is written |
//! |---|---|---|---|
//! | `Full` | reads the heap | memory | memory |
//! | `CopyOnWrite` | maps it | the page cache | copied by the first write |
//!
//! (DudeTM, section 3.1: one shadow shared by all transactions, not one of each.)

mod cow;
mod full;

use medium::sync::Arc;
use medium::{Memory, PoolFile};

use crate::Shadow;
use crate::perform::Heap;

/// The heap that transactions see.
#[derive(Debug)]
pub(crate) struct ShadowHeap {
    memory: Memory,
}

impl ShadowHeap {
    /// The heap at `offset` in a file; everything that was logged is at home there.
    pub(crate) fn open(
        shadow: Shadow,
        file: &Arc<PoolFile>,
        offset: u64,
        bytes: u64,
    ) -> Result<ShadowHeap, medium::Error> {
        match shadow {
            Shadow::Full => ShadowHeap::load(file, offset, bytes),
            Shadow::CopyOnWrite => ShadowHeap::copy_on_write(file, offset, bytes),
        }
    }

    /// The words.
    #[inline]
    pub(crate) fn heap(&self) -> &Heap {
        self.memory.words()
    }
}
