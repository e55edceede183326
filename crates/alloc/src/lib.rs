//! The transactional allocator: which bytes of the heap are objects.
//!
//! Its metadata are words of the heap, read and written through the caller's transaction. So it
//! needs no log and no recovery of its own: what an aborted or lost transaction allocated was never
//! allocated, and no crash leaks.
//!
//! ```text
//!   allocate ->  arena's free list -> arena's cursor -> a free or new chunk -> another arena
//!   retire   ->  arena's free list (of whoever frees)
//! ```
//!
//! * An *arena* belongs to one worker at a time. In the common case an allocation touches the arena
//!   and the object, nothing that two workers share: two or three words written, no loop.
//! * The heap is cut into *chunks* of 64 KiB. A *slab* is a chunk of objects of one size class; a
//!   *run* is one or more chunks of blocks (see [`words::Array`]). A slab stays a slab of its class
//!   for good; the chunks of a freed run become anything.
//!
//! A heap has one of two layouts, with the same steps and the same methods: the ordinary one, a
//! pool's, and the [line-isolated](Heap::line_isolated) one of simulated machines.
//!
//! Invariants:
//! - Every chunk below the frontier is the allocator's own, a slab, or part of one run or free run.
//! - A slot of a slab is live, or on exactly one free list, or not yet reached by the one cursor
//!   that points into its slab.
//! - Every offset read from the heap is checked before it is used: a damaged heap gives
//!   [`Stop::BadPointer`], or wrong objects at worst, never a panic or an endless loop.
//!
//! The design below gives the allocator a view of the transaction that skips [`header::permits`]:
//! header words and the allocator's own objects are not the program's to write.
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

mod blocks;
mod check;
mod chunks;
mod classes;
mod head;
pub mod header;
mod layout;
mod objects;
mod permits;
mod runs;
mod survey;
#[cfg(test)]
mod test_heap;
#[cfg(test)]
mod tests;
mod walk;

pub use layout::{CHUNK_BYTES, HEAP_BYTES_MIN, LINE_ISOLATED_BYTES_MIN};
pub use objects::Detached;
pub use runs::{Prepared, Runs};
pub use survey::{Damage, Survey, Usage, Wrong};
pub use walk::{Live, Walk};

/// Arenas of a heap; workers lease them.
pub const ARENAS: usize = 128;

/// The geometry of a heap: what the allocator must know that is not in the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heap {
    /// The pool's tag, at its place in an address.
    tag: u64,
    /// A multiple of [`CHUNK_BYTES`].
    bytes: u64,
    layout: Layout,
}

impl Heap {
    /// A heap whose pointers carry `tag`, of so many bytes, rounded down to a multiple of
    /// [`CHUNK_BYTES`]. Below [`HEAP_BYTES_MIN`] there is room for nothing: formatting it is
    /// [`Stop::Full`].
    ///
    /// # Panics
    /// When `tag` is 0, or `bytes` more than 2^48: an address could not name them.
    pub const fn new(tag: u16, bytes: u64) -> Heap {
        Heap::laid_out(Layout::Ordinary, tag, bytes)
    }

    /// The same for a simulated machine that isolates whole cache lines: objects and blocks start
    /// at multiples of 64 bytes, have no header, and share no line with anything; each arena has a
    /// page of its own. Below [`LINE_ISOLATED_BYTES_MIN`] there is room for nothing.
    ///
    /// Objects take at most twice the memory that they take in an ordinary heap. What cannot be
    /// told without headers: an object may be given back with any size that fits its slot, and the
    /// slots of a slab that were not given out yet pass for live ones until a
    /// [`check`](Heap::check). [`Runs`] are not for these heaps. No pool is laid out so.
    ///
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

    /// The object from which the program reaches everything else; 0 in a new heap.
    ///
    /// # Errors
    /// As [`Words::read`].
    pub fn root<W: Words>(&self, tx: &mut W) -> Result<u64, Stop> {
        tx.read(self.addr(self.layout.root(), layout::ROOT_USER))
    }

    /// Makes `object` the root. It is the program's word: not followed, not checked.
    ///
    /// # Errors
    /// As [`Words::write`].
    pub fn set_root<W: Words>(&self, tx: &mut W, object: u64) -> Result<(), Stop> {
        tx.write(self.addr(self.layout.root(), layout::ROOT_USER), object)
    }

    /// The word `offset` bytes into the object at heap offset `object`.
    #[inline]
    const fn addr(&self, object: u64, offset: u64) -> Addr {
        Addr::new(self.tag | object, offset)
    }

    /// The word that says what a slot is.
    #[inline(always)]
    const fn label_at(&self, object: u64) -> Addr {
        self.addr(object, self.layout.label())
    }

    /// The word that describes an object that has a header.
    #[inline]
    const fn header_at(&self, object: u64) -> Addr {
        self.addr(object, (-8_i64) as u64)
    }

    /// The word before it, which designs with versioned objects use.
    #[inline]
    const fn link_at(&self, object: u64) -> Addr {
        self.addr(object, (-16_i64) as u64)
    }

    /// The offset in the heap of an object that a program named.
    #[inline]
    fn untag(&self, object: u64) -> Result<u64, Stop> {
        let offset = object.wrapping_sub(self.tag);
        // No object starts below its own header, so what is subtracted later cannot wrap.
        let inside =
            offset >= words::HEADER_BYTES && offset < self.bytes && offset.is_multiple_of(16);
        if inside { Ok(offset) } else { Err(Stop::BadPointer) }
    }

    const fn chunks(&self) -> u64 {
        self.bytes / CHUNK_BYTES
    }

    /// Whether it is as large as the smallest that holds anything.
    const fn has_room(&self) -> bool {
        self.chunks() > self.layout.own_chunks()
    }
}
