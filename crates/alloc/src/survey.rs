//! The results of a heap check: usage and damage.

use thiserror::Error;

use crate::layout::CHUNK_BYTES;

/// The objects and the free memory of a heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Chunks of the heap.
    pub chunks: u64,
    /// Chunks that were never used or are free again.
    pub chunks_free: u64,
    /// Live objects, without blocks.
    pub objects: u64,
    /// Requested bytes of live objects; in a line-isolated heap, bytes of their slots.
    pub object_bytes: u64,
    /// Slots on free lists.
    pub slots_free: u64,
    /// Runs of blocks.
    pub runs: u64,
    /// Blocks in runs, prepared or not.
    pub blocks: u64,
    /// Prepared blocks.
    pub blocks_prepared: u64,
}

/// The kind of damage that a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Wrong {
    /// The heap is smaller than [`HEAP_BYTES_MIN`](crate::HEAP_BYTES_MIN), or the smallest of its
    /// layout.
    #[error("the heap is smaller than the minimum")]
    Size,
    /// No heap starts here.
    #[error("no heap starts here (magic)")]
    Magic,
    /// A format version that this program does not support.
    #[error("unknown format version of the heap")]
    Version,
    /// A wrong header of one of the allocator's own objects.
    #[error("wrong header of an allocator object")]
    OwnHeader,
    /// A reserved word that is not zero.
    #[error("a reserved word is not zero")]
    Reserved,
    /// More used chunks than the heap has, or none.
    #[error("impossible number of used chunks")]
    Frontier,
    /// An impossible word in the head of a chunk.
    #[error("impossible word in the head of a chunk")]
    ChunkHead,
    /// A link of the list of free runs that misses the next free run.
    #[error("the list of free runs misses the next free run")]
    FreeRuns,
    /// An arena's cursor that points to no slab, or to a slab of another cursor.
    #[error("an arena's cursor points to no slab of its own")]
    Cursor,
    /// A wrong header of a slot.
    #[error("wrong header of an object")]
    Object,
    /// A wrong header of a prepared block.
    #[error("wrong header of a block")]
    Block,
    /// A free list that leads to no free slot, or to a slot that a list has already reached.
    #[error("a free list leads to no free object")]
    FreeList,
    /// A free slot that no free list reaches.
    #[error("a free object on no free list")]
    Lost,
}

/// Damage that a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{wrong}: heap offset {offset:#x}, expected {expected:#x}, found {found:#x}")]
pub struct Damage {
    /// Its kind.
    pub wrong: Wrong,
    /// The wrong word, in bytes from the heap's start.
    pub offset: u64,
    /// Its expected value; of several possible values, one or a bound.
    pub expected: u64,
    /// Its value.
    pub found: u64,
}

impl Damage {
    /// Returns the number of the chunk that holds the wrong word.
    pub fn chunk(&self) -> u64 {
        self.offset / CHUNK_BYTES
    }

    /// Returns the object or block with the wrong header, in bytes from the heap's start.
    pub fn object(&self) -> Option<u64> {
        matches!(self.wrong, Wrong::Object | Wrong::Block).then_some(self.offset + 8)
    }
}

/// The full result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Survey {
    /// The content of the heap, as far as it is known.
    pub usage: Usage,
    /// The damage, in the order of the walk; at most [`Survey::DAMAGE_MAX`].
    pub damage: Vec<Damage>,
    /// Whether the whole heap was checked. Damage may hide other damage after it.
    pub complete: bool,
}

impl Survey {
    /// Number of findings that ends the walk; so much damage cannot be interpreted.
    pub const DAMAGE_MAX: usize = 256;
}
