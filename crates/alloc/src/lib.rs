//! The transactional allocator, which divides the heap into objects.
//!
//! Its metadata are words of the heap, read and written through the caller's transaction. It
//! therefore needs no log and no recovery of its own. An aborted or lost transaction has allocated
//! nothing, and no crash leaks memory.
//!
//! ```text
//!   allocate ->  the arena's cache -> its own slab -> slots that returned to that slab
//!                -> a partly used slab -> a new slab -> a sparse slab -> a larger class
//!                -> the heap is full
//!   retire   ->  the arena's cache -> when full: the object's slab
//!                -> when empty: a free run, merged with its neighbors
//!   reclaim  ->  slots that arenas keep -> their slabs; slabs that arenas own -> their lists
//! ```
//!
//! * The heap is divided into *units*. A *run* is a number of neighboring units: a *slab* with
//!   slots of one size class, an array (see [`words::Array`]), a long byte string, or free.
//! * An *arena* belongs to one worker at a time. For each size class it has a *cache* of free slots
//!   and owns one slab, whose unused slots it takes. In the common case an allocation or a free
//!   writes two or three words of the arena and the object. It runs no loop and writes no word
//!   that two workers share.
//! * A freed slot stays in the cache of the worker that frees it, or returns to its slab when the
//!   cache is full. A slab with enough free slots is on the list of its class, where every arena
//!   finds it. An empty slab becomes a free run, which serves any purpose.
//! * Free runs are in *bins* by their length. Taking and freeing one take constant time.
//!
//! A heap has one of two layouts, with the same steps and the same methods: the ordinary one, a
//! pool's, and the [line-isolated](Heap::line_isolated) one of simulated machines.
//!
//! Invariants:
//! - Every unit below the frontier belongs to exactly one run. No two free runs are neighbors.
//! - A slot of a slab is live, or on the slab's list, or in one arena's cache, or was never used.
//! - An arena owns at most one slab of each class, and a slab has at most one owner.
//! - Every offset read from the heap is checked before it is used. A damaged heap gives
//!   [`Stop::BadPointer`], or wrong objects at worst, never a panic or an endless loop.
//!
//! A design gives the allocator a view of the transaction that skips [`header::permits`], because a
//! program may not write header words and the allocator's own objects.
//!
//! ```
//! use lw_alloc::{HEAP_BYTES_MIN, Heap};
//! # use words::{Addr, Stop, Words};
//! # struct Plain { words: Vec<u64>, heap: Heap }
//! # impl Plain {
//! #     fn word(&mut self, at: Addr) -> Result<&mut u64, Stop> {
//! #         let index = (at.byte() & 0xffff_ffff_ffff) as usize / 8;
//! #         self.words.get_mut(index).ok_or(Stop::BadPointer)
//! #     }
//! # }
//! # impl Words for Plain {
//! #     fn read(&mut self, at: Addr) -> Result<u64, Stop> { self.word(at).copied() }
//! #     fn write(&mut self, at: Addr, value: u64) -> Result<(), Stop> {
//! #         *self.word(at)? = value;
//! #         Ok(())
//! #     }
//! #     fn retire(&mut self, at: Addr, bytes: u64) -> Result<(), Stop> {
//! #         let heap = self.heap;
//! #         heap.retire(self, 0, at, bytes).map(drop)
//! #     }
//! # }
//!
//! let heap = Heap::new(0x1234, HEAP_BYTES_MIN);
//! let arena = 0; // each worker's own
//! # let mut tx = Plain { words: vec![0; HEAP_BYTES_MIN as usize / 8], heap };
//! # let tx = &mut tx;
//! heap.format(tx)?; // once, in a transaction `tx`
//! let object = heap.allocate(tx, arena, 100)?;
//! assert_eq!(heap.check(|offset| tx.words[offset as usize / 8]).unwrap().objects, 1);
//! heap.retire(tx, arena, Addr::new(object, 0), 100)?;
//! assert_eq!(heap.retire(tx, arena, Addr::new(object, 0), 100), Err(Stop::BadPointer));
//! # Ok::<(), Stop>(())
//! ```

use words::{ADDRESS_BITS, Addr, Stop, Words};

use crate::layout::Layout;

mod allocations;
mod blocks;
mod check;
mod classes;
mod convert;
mod head;
pub mod header;
mod layout;
mod objects;
mod pages;
mod permits;
mod reclaim;
mod reclaim_plan;
mod runs;
mod shortage;
mod slabs;
mod state;
mod strings;
mod survey;
#[cfg(test)]
mod test_heap;
#[cfg(test)]
mod tests;
mod usage;
mod walk;

pub use allocations::{Allocation, Size};
pub use layout::{CHUNK_BYTES, HEAP_BYTES_MIN, LINE_ISOLATED_BYTES_MIN, PAGE_OBJECT};
pub use objects::Detached;
pub use reclaim_plan::{Plan, Reclaimed, Step};
pub use runs::{Prepared, Runs};
pub use state::ARENAS;
pub use survey::{ClassUsage, Damage, Request, Shortage, Survey, Usage, Wrong};
pub use walk::{Allocations, Live, Walk};

/// The geometry of a heap, which is not stored in the heap itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heap {
    /// The pool's tag, at its place in an address.
    tag: u64,
    /// A multiple of [`CHUNK_BYTES`].
    bytes: u64,
    layout: Layout,
}

/// How far a program's data are migrated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Migrated {
    /// The layout version that the last migration has reached; 0 before the first.
    pub version: u64,
    /// The number that the last step of the unfinished migration returned; 0 before its first step.
    pub progress: u64,
}

impl Heap {
    /// Describes a heap whose pointers carry `tag`, of `bytes` bytes, rounded down to a multiple of
    /// [`CHUNK_BYTES`]. A heap below [`HEAP_BYTES_MIN`] has no room: formatting it is
    /// [`Stop::Full`].
    ///
    /// # Panics
    /// When `tag` is 0, or `bytes` more than 2^48, the limit of an address.
    pub const fn new(tag: u16, bytes: u64) -> Heap {
        Heap::laid_out(Layout::Ordinary, tag, bytes)
    }

    /// Describes a heap for a simulated machine that isolates whole cache lines.
    ///
    /// Objects and blocks start at multiples of 64 bytes, have no header, and share no line; each
    /// arena has a page of its own. A heap below [`LINE_ISOLATED_BYTES_MIN`] has no room. Objects
    /// take at most twice the memory that they take in an ordinary heap.
    ///
    /// Without headers some errors stay undetected. An object may be freed with any size that fits
    /// its slot. Slots of a slab that were never allocated pass for live ones until a
    /// [`check`](Heap::check). [`Runs`] do not work with these heaps. No pool has this layout.
    /// # Panics
    /// As [`new`](Heap::new).
    pub const fn line_isolated(tag: u16, bytes: u64) -> Heap {
        Heap::laid_out(Layout::LineIsolated, tag, bytes)
    }

    const fn laid_out(layout: Layout, tag: u16, bytes: u64) -> Heap {
        assert!(tag != 0, "the tag of a pool is not 0");
        assert!(bytes <= 1 << ADDRESS_BITS, "an address has 48 bits");
        let tag = (tag as u64) << ADDRESS_BITS;
        Heap { tag, bytes: bytes / CHUNK_BYTES * CHUNK_BYTES, layout }
    }

    /// Describes the same heap with another size, after it has grown.
    ///
    /// # Panics
    /// As [`new`](Heap::new).
    #[must_use]
    pub const fn with_bytes(self, bytes: u64) -> Heap {
        assert!(bytes <= 1 << ADDRESS_BITS, "an address has 48 bits");
        Heap { bytes: bytes / CHUNK_BYTES * CHUNK_BYTES, ..self }
    }

    /// Returns the heap's size in bytes.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the object from which the program reaches all others, or 0 in a new heap.
    ///
    /// # Errors
    /// As [`Words::read`].
    pub fn root<W: Words>(&self, tx: &mut W) -> Result<u64, Stop> {
        tx.read(self.addr(self.layout.root(), layout::ROOT_USER))
    }

    /// Makes `object` the root. The heap does not follow or check it.
    ///
    /// # Errors
    /// As [`Words::write`].
    pub fn set_root<W: Words>(&self, tx: &mut W, object: u64) -> Result<(), Stop> {
        tx.write(self.addr(self.layout.root(), layout::ROOT_USER), object)
    }

    /// Returns how far the program's data are migrated.
    ///
    /// # Errors
    /// As [`Words::read`].
    pub fn migrated<W: Words>(&self, tx: &mut W) -> Result<Migrated, Stop> {
        let root = self.layout.root();
        let version = tx.read(self.addr(root, layout::ROOT_REACHED))?;
        let progress = tx.read(self.addr(root, layout::ROOT_PROGRESS))?;
        Ok(Migrated { version, progress })
    }

    /// Notes how far the program's data are migrated.
    ///
    /// # Errors
    /// As [`Words::write`].
    pub fn set_migrated<W: Words>(&self, tx: &mut W, now: Migrated) -> Result<(), Stop> {
        let root = self.layout.root();
        tx.write(self.addr(root, layout::ROOT_REACHED), now.version)?;
        tx.write(self.addr(root, layout::ROOT_PROGRESS), now.progress)
    }

    /// Returns the address of the word `offset` bytes into the object at heap offset `object`.
    #[inline]
    const fn addr(&self, object: u64, offset: u64) -> Addr {
        Addr::new(self.tag | object, offset)
    }

    /// Returns the address of a slot's label.
    #[inline(always)]
    const fn label_at(&self, object: u64) -> Addr {
        self.addr(object, self.layout.label())
    }

    /// Returns the address of the header word that describes an object.
    #[inline]
    const fn header_at(&self, object: u64) -> Addr {
        self.addr(object, (-8_i64) as u64)
    }

    /// Returns the address of the link before it, which designs with versioned objects use.
    #[inline]
    const fn link_at(&self, object: u64) -> Addr {
        self.addr(object, (-16_i64) as u64)
    }

    /// Returns the heap offset of an object from its pointer.
    #[inline]
    fn untag(&self, object: u64) -> Result<u64, Stop> {
        let offset = object.wrapping_sub(self.tag);
        // No object starts below its own header, so later subtractions cannot wrap.
        let inside =
            offset >= words::HEADER_BYTES && offset < self.bytes && offset.is_multiple_of(16);
        if inside { Ok(offset) } else { Err(Stop::BadPointer) }
    }

    const fn units(&self) -> u64 {
        self.bytes / self.layout.unit_bytes()
    }

    /// Returns whether the heap is at least the smallest usable one.
    const fn has_room(&self) -> bool {
        self.units() > self.layout.own_units()
    }
}
