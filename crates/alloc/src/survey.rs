//! The results of looking at a heap: its use, the reason why it is full, and its damage.

use thiserror::Error;

/// The objects and the free memory of a heap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Size of the heap.
    pub heap_bytes: u64,
    /// Free runs and memory that was never used. It serves objects, strings and arrays of every
    /// size. Free slots of slabs are not in it.
    pub free_bytes: u64,
    /// The longest free run: an array or a long byte string needs one.
    pub largest_free_bytes: u64,
    /// Live objects and byte strings, without arrays.
    pub objects: u64,
    /// Requested bytes of live objects and byte strings, which only a check counts; in a
    /// line-isolated heap, bytes of an object's slot.
    pub object_bytes: u64,
    /// Live byte strings in runs of their own, which count as objects too.
    pub long_strings: u64,
    /// Memory of their runs.
    pub long_string_bytes: u64,
    /// Arrays.
    pub arrays: u64,
    /// Memory of their runs.
    pub array_bytes: u64,
    /// Blocks of arrays, prepared or not.
    pub blocks: u64,
    /// Prepared blocks.
    pub blocks_prepared: u64,
    /// The longest run of an array or a byte string.
    pub largest_live_bytes: u64,
    /// Memory of runs that the estimate could not read, because they were changing or because the
    /// heap is damaged.
    pub unknown_bytes: u64,
    /// Size classes that have a slab, in ascending order.
    pub classes: Vec<ClassUsage>,
}

/// The slabs of one size class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassUsage {
    /// Size of a slot, headers included.
    pub slot_bytes: u64,
    /// Slabs of the class, of whatever length.
    pub slabs: u64,
    /// Their slots.
    pub slots: u64,
    /// Slots with a live object or byte string.
    pub live: u64,
    /// The longest slab: a run of this length becomes free when its objects are freed.
    pub largest_slab_bytes: u64,
}

impl ClassUsage {
    /// Returns the memory of live slots.
    pub fn live_bytes(&self) -> u64 {
        self.live * self.slot_bytes
    }

    /// Returns the memory of free slots, which serve this class until their slab is empty.
    pub fn free_bytes(&self) -> u64 {
        self.slots.saturating_sub(self.live) * self.slot_bytes
    }
}

impl Usage {
    /// Returns the memory that live objects, byte strings and arrays occupy, headers and rounding
    /// included.
    pub fn live_bytes(&self) -> u64 {
        let slots: u64 = self.classes.iter().map(ClassUsage::live_bytes).sum();
        slots + self.long_string_bytes + self.array_bytes
    }

    /// Returns the memory of free slots, which serve their own class until their slab is empty.
    pub fn free_slot_bytes(&self) -> u64 {
        self.classes.iter().map(ClassUsage::free_bytes).sum()
    }

    /// Returns the share of the free memory that is not in the longest free run, from 0 to 1:
    /// `1 - largest_free_bytes / (free_bytes + free_slot_bytes)`; 0 when no memory is free.
    pub fn fragmentation(&self) -> f64 {
        let free = self.free_bytes + self.free_slot_bytes();
        if free == 0 { 0.0 } else { 1.0 - self.largest_free_bytes as f64 / free as f64 }
    }

    /// Counts a slab of `bytes` bytes with `slots` slots, of which `live` are live.
    pub(crate) fn add_slab(&mut self, bytes: u64, slot_bytes: u64, slots: u64, live: u64) {
        let at = self.classes.partition_point(|class| class.slot_bytes < slot_bytes);
        if self.classes.get(at).is_none_or(|class| class.slot_bytes != slot_bytes) {
            self.classes.insert(at, ClassUsage { slot_bytes, ..ClassUsage::default() });
        }
        let class = &mut self.classes[at];
        class.slabs += 1;
        class.slots += slots;
        class.live += live;
        class.largest_slab_bytes = class.largest_slab_bytes.max(bytes);
    }

    /// Counts the cached slots of a class as free; their slabs count them as used.
    pub(crate) fn remove_cached(&mut self, slot_bytes: u64, cached: u64) {
        // While transactions run, the words were read at different times.
        if let Ok(at) = self.classes.binary_search_by_key(&slot_bytes, |class| class.slot_bytes) {
            let cached = cached.min(self.classes[at].live);
            self.classes[at].live -= cached;
            self.objects -= cached;
        }
    }

    /// Counts a free run, or the memory behind the frontier.
    pub(crate) fn add_free(&mut self, bytes: u64) {
        self.free_bytes += bytes;
        self.largest_free_bytes = self.largest_free_bytes.max(bytes);
    }

    /// Counts an array in a run of `bytes` bytes.
    pub(crate) fn add_array(&mut self, bytes: u64, blocks: u64, prepared: u64) {
        self.arrays += 1;
        self.array_bytes += bytes;
        self.largest_live_bytes = self.largest_live_bytes.max(bytes);
        self.blocks += blocks;
        self.blocks_prepared += prepared;
    }

    /// Counts a byte string in a run of `bytes` bytes.
    pub(crate) fn add_long_string(&mut self, bytes: u64) {
        self.objects += 1;
        self.long_strings += 1;
        self.long_string_bytes += bytes;
        self.largest_live_bytes = self.largest_live_bytes.max(bytes);
    }
}

/// A request for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// An object or a byte string of this many bytes.
    Bytes(u64),
    /// An array of this many blocks.
    Blocks(u64),
}

/// The reason why a heap has no room for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shortage {
    /// Length of the free run that would serve the request, rounded to units and with all headers;
    /// `u64::MAX` when no heap has one.
    pub needed_bytes: u64,
    /// Size of the smallest heap with such a run.
    pub heap_bytes_min: u64,
    /// Whether the request would be served now: other requests took the memory, and it is free
    /// again.
    pub fits: bool,
    /// Live objects and byte strings, each of which makes room when it is freed. 0 for a request
    /// that needs a run of its own.
    pub equal_live: u64,
    /// Whether an array or byte string in a run of `needed_bytes` or more is live.
    pub long_run_live: bool,
    /// The class with the fewest live objects among those that make room when all of their objects
    /// are freed: the size of its slots, and the number of those objects.
    pub class: Option<(u64, u64)>,
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
    /// An arena that owns a slab or keeps free slots, and is not in the bitmap of owners.
    #[error("wrong bitmap of the arenas that own slabs or keep free slots")]
    Owners,
    /// A slab that belongs to an arena by its state, and to none by the arenas.
    #[error("a slab without its owner")]
    Ownerless,
    /// Impossible numbers of used or free slots of a slab, or of free slots of an arena.
    #[error("impossible numbers of slots in a slab or an arena")]
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
