//! The damage that a heap check finds, and the result of a check.

use thiserror::Error;

use crate::Usage;

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
    /// A frontier, or an end of the memory that was used, which the heap cannot have.
    #[error("impossible end of the used memory")]
    Frontier,
    /// An impossible word in the head of a run.
    #[error("impossible word in the head of a run")]
    RunHead,
    /// A run with a wrong length of the free run before it.
    #[error("wrong length of the free run before a run")]
    Before,
    /// Two free runs side by side, or one at the frontier.
    #[error("a free run was not merged with its neighbor")]
    Unmerged,
    /// A bin with a run of another length, or a link that leads to no free run of the bin.
    #[error("a bin of free runs leads to a wrong run")]
    Bin,
    /// A bin's bit that does not say whether the bin holds a run.
    #[error("wrong bitmap of the bins")]
    BinMap,
    /// A free run that no bin reaches.
    #[error("a free run in no bin")]
    LostRun,
    /// An arena that owns no slab of the class, or one with another owner.
    #[error("an arena owns no slab of its own")]
    Owner,
    /// An arena that owns a slab and is not in the bitmap of owners.
    #[error("wrong bitmap of the arenas that own a slab")]
    Owners,
    /// A slab that belongs to an arena by its state, and to none by the arenas.
    #[error("a slab without its owner")]
    Ownerless,
    /// Impossible numbers of used or free slots of a slab.
    #[error("impossible state of a slab")]
    State,
    /// A list of partly used slabs that leads to no such slab of its class.
    #[error("a list of partly used slabs leads to a wrong slab")]
    SlabList,
    /// A partly used slab that the list of its class does not reach.
    #[error("a partly used slab on no list")]
    LostSlab,
    /// A wrong header of an object or of a string's first piece.
    #[error("wrong header of an object")]
    Object,
    /// A wrong header of a later piece of a byte string.
    #[error("wrong header of a piece of a byte string")]
    Piece,
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
    /// Returns the object, block or piece with the wrong header, in bytes from the heap's start.
    pub fn object(&self) -> Option<u64> {
        matches!(self.wrong, Wrong::Object | Wrong::Block | Wrong::Piece).then_some(self.offset + 8)
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
