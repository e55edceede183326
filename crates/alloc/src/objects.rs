//! Objects, allocated from an arena's free list or slab, and freed to the freeing worker's arena.
//!
//! The steps are the same in both layouts. `with` fixes the layout once, at the entrance, so that
//! the compiler folds every question about it into a constant.

use words::{Addr, Stop, Words, work};

use crate::chunks::arena_lock;
use crate::classes::CLASSES;
use crate::head::{Head, slab_header};
use crate::header::{Description, Kind, decode};
use crate::layout::{CHUNK_BYTES, HEAD, Layout};
use crate::{ARENAS, Heap};

/// A run that is unlinked and not yet free.
#[derive(Debug)]
#[must_use = "a detached run that is not given back is leaked"]
pub struct Detached {
    pub(crate) chunk: u64,
    pub(crate) chunks: u64,
}

impl Heap {
    /// Allocates an object of `bytes` (1 to [`words::OBJECT_BYTES_MAX`]); returns its first byte,
    /// tagged. Its content is undefined. Writes two words for a slot that was free and three for a
    /// new one (two in a line-isolated heap, both on the arena's line or the object's).
    ///
    /// # Errors
    /// [`Stop::Full`]; [`Stop::BadSize`] when no object has this size; [`Stop::BadPointer`] when
    /// the heap is damaged. Otherwise as [`Words::write`].
    ///
    /// # Panics
    /// When `arena` is not less than [`ARENAS`].
    #[inline]
    pub fn allocate<W: Words>(&self, tx: &mut W, arena: usize, bytes: usize) -> Result<u64, Stop> {
        tx.compute(work::ALLOCATE);
        match self.layout {
            Layout::Ordinary => self.with(Layout::Ordinary).allocate_laid_out(tx, arena, bytes),
            Layout::LineIsolated => self.allocate_line_isolated(tx, arena, bytes),
        }
    }

    /// Frees an object, or a whole run of blocks. `bytes` is the size requested at allocation.
    /// Returns whether it was a run, because objects may later lie there that begin elsewhere.
    ///
    /// A later allocation may reuse the memory, even one of the same transaction. A design that
    /// defers the reuse of runs retires in two steps ([`detach`](Heap::detach)).
    ///
    /// # Errors
    /// [`Stop::BadPointer`] when no live object of this size is at `at` (freed before, never
    /// allocated, an address inside an object). Otherwise as [`Words::write`].
    ///
    /// # Panics
    /// When `arena` is not less than [`ARENAS`].
    #[inline]
    pub fn retire<W: Words>(
        &self,
        tx: &mut W,
        arena: usize,
        at: Addr,
        bytes: u64,
    ) -> Result<bool, Stop> {
        match self.detach(tx, arena, at, bytes)? {
            Some(run) => self.give_back(tx, run).map(|()| true),
            None => Ok(false),
        }
    }

    /// Retires as [`retire`](Heap::retire) does, except that a run is unlinked and not free yet:
    /// the transaction must [`give it back`](Heap::give_back) later, at its end for instance.
    ///
    /// # Errors
    /// As [`retire`](Heap::retire).
    ///
    /// # Panics
    /// As [`retire`](Heap::retire).
    #[inline]
    pub fn detach<W: Words>(
        &self,
        tx: &mut W,
        arena: usize,
        at: Addr,
        bytes: u64,
    ) -> Result<Option<Detached>, Stop> {
        tx.compute(work::RETIRE);
        match self.layout {
            Layout::Ordinary => self.with(Layout::Ordinary).detach_laid_out(tx, arena, at, bytes),
            Layout::LineIsolated => self.detach_line_isolated(tx, arena, at, bytes),
        }
    }

    /// Frees a run that [`detach`](Heap::detach) has detached in this transaction.
    ///
    /// # Errors
    /// As [`retire`](Heap::retire).
    #[cold]
    pub fn give_back<W: Words>(&self, tx: &mut W, run: Detached) -> Result<(), Stop> {
        self.give_chunks(tx, run.chunk, run.chunks)
    }

    /// Returns the same heap with a layout that the compiler knows. The methods called on it are
    /// inlined and take the heap by value, so that it need not be in memory.
    #[inline(always)]
    const fn with(self, layout: Layout) -> Heap {
        Heap { layout, ..self }
    }

    /// Allocates in a line-isolated heap. It is out of line, because pools never do that.
    #[cold]
    fn allocate_line_isolated<W: Words>(
        self,
        tx: &mut W,
        arena: usize,
        bytes: usize,
    ) -> Result<u64, Stop> {
        self.with(Layout::LineIsolated).allocate_laid_out(tx, arena, bytes)
    }

    #[cold]
    fn detach_line_isolated<W: Words>(
        self,
        tx: &mut W,
        arena: usize,
        at: Addr,
        bytes: u64,
    ) -> Result<Option<Detached>, Stop> {
        self.with(Layout::LineIsolated).detach_laid_out(tx, arena, at, bytes)
    }

    #[inline(always)]
    fn allocate_laid_out<W: Words>(
        self,
        tx: &mut W,
        arena: usize,
        bytes: usize,
    ) -> Result<u64, Stop> {
        let class = self.layout.class_of(bytes).ok_or(Stop::BadSize)?;
        let (object, class) = match self.take_slot(tx, arena, class)? {
            Some(object) => (object, class),
            None => self.take_slot_elsewhere(tx, arena, class)?,
        };
        tx.write(self.label_at(object), self.layout.live_label(object, class, bytes))?;
        Ok(self.tag | object)
    }

    #[inline(always)]
    fn detach_laid_out<W: Words>(
        self,
        tx: &mut W,
        arena: usize,
        at: Addr,
        bytes: u64,
    ) -> Result<Option<Detached>, Stop> {
        let object = self.untag(at.object)?;
        if at.offset != 0 {
            return Err(Stop::BadPointer);
        }
        match self.class_at(tx, object, bytes)? {
            Some(class) => self.push(tx, arena, object, class).map(|()| None),
            None => self.detach_blocks(tx, object, bytes).map(Some),
        }
    }

    /// Returns the class of a live object of `bytes` bytes, or `None` when it may be a run.
    #[inline(always)]
    fn class_at<W: Words>(
        self,
        tx: &mut W,
        object: u64,
        bytes: u64,
    ) -> Result<Option<usize>, Stop> {
        match self.layout {
            Layout::Ordinary => match decode(tx.read(self.header_at(object))?, object) {
                Some(Description { kind: Kind::Object, class, bytes: live })
                    if live == bytes && (class as usize) < CLASSES =>
                {
                    Ok(Some(class as usize))
                }
                Some(Description { kind: Kind::Block | Kind::Reserved, .. }) => Ok(None),
                _ => Err(Stop::BadPointer),
            },
            Layout::LineIsolated => self.class_by_head(tx, object, bytes),
        }
    }

    /// The same without a header: the chunk's head gives the class, the slot's label its state.
    #[inline(always)]
    fn class_by_head<W: Words>(
        self,
        tx: &mut W,
        object: u64,
        bytes: u64,
    ) -> Result<Option<usize>, Stop> {
        let head = object / CHUNK_BYTES * CHUNK_BYTES + HEAD;
        let class = match decode(tx.read(self.header_at(head))?, head) {
            Some(Description { kind: Kind::Slab, class, .. }) => class as usize,
            Some(Description { kind: Kind::Own, .. }) => return Ok(None),
            _ => return Err(Stop::BadPointer),
        };
        // Any size up to the slot's, because a full heap allocates from larger classes too.
        let fits = (1..=self.layout.payload_bytes(class)).contains(&bytes);
        let live = fits
            && self.layout.is_slot(object, class)
            && tx.read(self.label_at(object))? != self.layout.free_label(object, class);
        if live { Ok(Some(class)) } else { Err(Stop::BadPointer) }
    }

    /// Takes a slot from the arena's free list, or from its slab.
    #[inline(always)]
    fn take_slot<W: Words>(
        self,
        tx: &mut W,
        index: usize,
        class: usize,
    ) -> Result<Option<u64>, Stop> {
        let list = self.list(tx, index, class)?;
        let first = tx.read(list)?;
        if first != 0 {
            self.pop(tx, list, first, class)?;
            return Ok(Some(first));
        }
        let cursor = tx.read(list.plus(8))?;
        if cursor == 0 {
            return Ok(None);
        }
        self.carve(tx, list.plus(8), cursor, class)?;
        Ok(Some(cursor))
    }

    /// Takes the first slot off a free list.
    #[inline(always)]
    fn pop<W: Words>(self, tx: &mut W, list: Addr, first: u64, class: usize) -> Result<(), Stop> {
        let object = self.untag(self.tag.wrapping_add(first))?;
        // No link of the heap is trusted: the slot's own label must confirm that it is free.
        if tx.read(self.label_at(object))? != self.layout.free_label(object, class) {
            return Err(Stop::BadPointer);
        }
        let next = tx.read(self.addr(object, 0))?;
        tx.write(list, next)
    }

    /// Takes the slot at the cursor, which has never been used.
    #[inline(always)]
    fn carve<W: Words>(
        self,
        tx: &mut W,
        cursor_at: Addr,
        cursor: u64,
        class: usize,
    ) -> Result<(), Stop> {
        let object = self.untag(self.tag.wrapping_add(cursor))?;
        // A wrong cursor would hand out another object's memory: the slab's head must confirm it.
        let head = object / CHUNK_BYTES * CHUNK_BYTES + HEAD;
        let slab = tx.read(self.header_at(head))? == slab_header(head, class as u64);
        if !slab || !self.layout.is_slot(object, class) {
            return Err(Stop::BadPointer);
        }
        tx.write(cursor_at, self.layout.next_slot(object, class))?;
        // The chunk may have been a run's before: clear the link that its last use left here.
        if self.layout.has_headers() { tx.write(self.link_at(object), 0) } else { Ok(()) }
    }

    /// Takes a slot when the arena has none of this class. It tries a new slab first, and then,
    /// before the heap counts as full, another arena or a larger class.
    #[cold]
    fn take_slot_elsewhere<W: Words>(
        self,
        tx: &mut W,
        index: usize,
        class: usize,
    ) -> Result<(u64, usize), Stop> {
        match self.take_chunks(tx, 1) {
            Ok((chunk, _)) => {
                self.write_head(tx, chunk, Head::Slab { class: class as u64 })?;
                let cursor_at = self.list(tx, index, class)?.plus(8);
                let object = chunk * CHUNK_BYTES + self.layout.first_slot();
                self.carve(tx, cursor_at, object, class)?;
                return Ok((object, class));
            }
            Err(Stop::Full) => {}
            Err(stop) => return Err(stop),
        }
        // Every arena before the next class, because a larger slot wastes memory.
        for larger in class..self.layout.classes() {
            for step in 0..ARENAS {
                let other = (index + step) % ARENAS;
                if let Some(object) = self.take_slot(tx, other, larger)? {
                    return Ok((object, larger));
                }
            }
        }
        Err(Stop::Full)
    }

    /// Puts a live object on the arena's free list.
    #[inline(always)]
    fn push<W: Words>(
        self,
        tx: &mut W,
        index: usize,
        object: u64,
        class: usize,
    ) -> Result<(), Stop> {
        let list = self.list(tx, index, class)?;
        let first = tx.read(list)?;
        tx.write(self.label_at(object), self.layout.free_label(object, class))?;
        tx.write(self.addr(object, 0), first)?;
        tx.write(list, object)
    }

    /// Returns the address of the arena's free list. The cursor is the word after it.
    #[inline(always)]
    fn list<W: Words>(self, tx: &mut W, index: usize, class: usize) -> Result<Addr, Stop> {
        assert!(index < ARENAS, "a heap has {ARENAS} arenas");
        tx.lock(arena_lock(index))?;
        Ok(self.addr(self.layout.arena(index), 16 * class as u64))
    }
}
