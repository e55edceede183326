//! What a check of a heap answers: what is in it, and the damage.

use thiserror::Error;

use crate::layout::CHUNK_BYTES;

/// What is in a heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Chunks of the heap.
    pub chunks: u64,
    /// Chunks that were never used or are free again.
    pub chunks_free: u64,
    /// Live objects; blocks are counted apart.
    pub objects: u64,
    /// Bytes that were asked for in live objects; in a line-isolated heap, bytes of their slots.
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

/// What kind of damage a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Wrong {
    /// The heap is smaller than [`HEAP_BYTES_MIN`](crate::HEAP_BYTES_MIN), or the smallest of its
    /// layout.
    #[error("the heap is too small to be one")]
    Size,
    /// No heap starts here.
    #[error("no heap starts here (magic)")]
    Magic,
    /// A format that this program does not know.
    #[error("unknown format version of the heap")]
    Version,
    /// A header of one of the allocator's own objects.
    #[error("wrong header of an allocator object")]
    OwnHeader,
    /// A word that is reserved and not zero.
    #[error("a reserved word is not zero")]
    Reserved,
    /// More chunks in use than there are, or none.
    #[error("impossible number of used chunks")]
    Frontier,
    /// The head of a chunk says something impossible.
    #[error("impossible word in the head of a chunk")]
    ChunkHead,
    /// The list of free runs does not lead to the next free run.
    #[error("the list of free runs leads elsewhere")]
    FreeRuns,
    /// An arena's cursor does not point to a slot of a slab that only it points to.
    #[error("an arena's cursor points to no slab of its own")]
    Cursor,
    /// A slot's header.
    #[error("wrong header of an object")]
    Object,
    /// A prepared block's header.
    #[error("wrong header of a block")]
    Block,
    /// A free list leads to something that is no free slot, or was met before.
    #[error("a free list leads to no free object")]
    FreeList,
    /// A free slot that no free list leads to.
    #[error("a free object on no free list")]
    Lost,
}

/// Damage that a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{wrong}: heap offset {offset:#x}, expected {expected:#x}, found {found:#x}")]
pub struct Damage {
    /// What is wrong.
    pub wrong: Wrong,
    /// The word that is wrong, in bytes from the heap's start.
    pub offset: u64,
    /// What it should be; of several possibilities, one or a bound.
    pub expected: u64,
    /// What it is.
    pub found: u64,
}

impl Damage {
    /// The chunk that it is in.
    pub fn chunk(&self) -> u64 {
        self.offset / CHUNK_BYTES
    }

    /// The program's object or block whose header is wrong, in bytes from the heap's start.
    pub fn object(&self) -> Option<u64> {
        matches!(self.wrong, Wrong::Object | Wrong::Block).then_some(self.offset + 8)
    }
}

/// All that a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Survey {
    /// What is in the heap, as far as it is known.
    pub usage: Usage,
    /// The damage, in the order of the walk; at most [`Survey::DAMAGE_MAX`].
    pub damage: Vec<Damage>,
    /// Whether everything was looked at. Damage may hide what lies behind it.
    pub complete: bool,
}

impl Survey {
    /// The walk ends when it has found so much damage: there is no sense left to be made of it.
    pub const DAMAGE_MAX: usize = 256;
}
