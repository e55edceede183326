//! Objects: slots of the arena's cache or of its own slab, freed to the cache of the worker that
//! frees them.
//!
//! While the cache is full, a freed slot returns to its slab.
//!
//! The steps are the same in both layouts. `with` fixes the layout once, at the entrance, so that
//! the compiler folds every question about it into a constant.

use system::mutants::{Mutant, injected};
use words::{Addr, Stop, Words, work};

use crate::allocations::{Allocation, Size};
use crate::head::{HEAD_UNITS, Run, class_in};
use crate::header::{Description, Kind, Slot, decode};
use crate::layout::{HEAD_LINE, Layout};
use crate::pages::{PAGES_LOCK, arena_lock};
use crate::state::{CACHED_MAX, Cache, OwnSlab, SLOTS_MAX};
use crate::{ARENAS, Heap};

/// Divisor of the heap size: a freed slot joins a cache whose slots take less than the quotient.
const CACHE_SHARE: u64 = 256;

/// A run without live objects that is not free yet: an array, a long string, or a slab whose last
/// object was freed.
#[derive(Debug)]
#[must_use = "a detached run that is not given back is leaked"]
pub struct Detached {
    pub(crate) unit: u64,
    pub(crate) units: u64,
}

/// A slot that was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    /// Heap offset of its object.
    pub(crate) object: u64,
    /// Its number in its slab.
    pub(crate) number: u64,
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

    /// Allocates an object, a string or an array of this size, and prepares its blocks. The content
    /// of an object or a string is undefined.
    ///
    /// # Errors
    /// As [`allocate`](Heap::allocate), [`allocate_pieces`](Heap::allocate_pieces) and
    /// [`reserve_blocks`](Heap::reserve_blocks).
    ///
    /// # Panics
    /// When `arena` is not less than [`ARENAS`].
    pub fn allocate_like<W: Words>(
        &self,
        tx: &mut W,
        arena: usize,
        size: Size,
    ) -> Result<Allocation, Stop> {
        let object = match size {
            Size::Object(bytes) => self.allocate(tx, arena, bytes as usize)?,
            Size::String(bytes) => self.allocate_pieces(tx, arena, bytes)?,
            Size::Array { blocks, prepared } => {
                let first = self.reserve_blocks(tx, blocks)?;
                self.prepare_blocks(tx, first, prepared)?;
                first
            }
        };
        Ok(Allocation { offset: self.untag(object)?, size })
    }

    /// Frees an object, a byte string or an array. `bytes` is the size requested at allocation.
    /// Returns whether a run became free, so that later objects in it may begin at other offsets.
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

    /// Retires as [`retire`](Heap::retire) does, except that a run without live objects is not free
    /// yet. The transaction must [`give it back`](Heap::give_back) later, for instance at its end.
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
        self.give_units(tx, run.unit, run.units)
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
        let (Taken { object, number }, class) = match self.take_slot(tx, arena, class)? {
            Some(taken) => (taken, class),
            None => self.refill(tx, arena, class)?,
        };
        tx.write(self.label_at(object), self.layout.live_label(object, class, number, bytes))?;
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
        match self.slot_at(tx, object, bytes)? {
            Some(slot) => self.push(tx, arena, object, slot),
            None => self.detach_long(tx, arena, object, bytes),
        }
    }

    /// Retires an array or a byte string.
    #[cold]
    fn detach_long<W: Words>(
        self,
        tx: &mut W,
        arena: usize,
        object: u64,
        bytes: u64,
    ) -> Result<Option<Detached>, Stop> {
        let unit = object / self.layout.unit_bytes();
        if self.layout.has_headers() {
            let found = decode(tx.read(self.header_at(object))?, object);
            return match found.map(|found| found.kind) {
                Some(Kind::Reserved | Kind::Block) => {
                    self.detach_array(tx, object, bytes).map(Some)
                }
                Some(Kind::SlotString) => self.detach_slot_string(tx, arena, object, bytes),
                Some(Kind::RunString) => self.detach_run_string(tx, object, bytes).map(Some),
                _ => Err(Stop::BadPointer),
            };
        }
        tx.lock(PAGES_LOCK)?;
        match self.read_head(tx, unit, self.units())?.kind {
            Run::Array { .. } => self.detach_array(tx, object, bytes).map(Some),
            Run::String { .. } => self.detach_run_string(tx, object, bytes).map(Some),
            _ => Err(Stop::BadPointer),
        }
    }

    /// Returns the slot of a live object of `bytes` bytes, or `None` when it may be an array or a
    /// byte string.
    #[inline(always)]
    pub(crate) fn slot_at<W: Words>(
        self,
        tx: &mut W,
        object: u64,
        bytes: u64,
    ) -> Result<Option<Slot>, Stop> {
        match self.layout {
            Layout::Ordinary => match decode(tx.read(self.header_at(object))?, object) {
                Some(Description { kind: Kind::Object, bytes: live, position })
                    if live == bytes =>
                {
                    let slot = Slot::decode(position);
                    let known = slot.class < self.layout.classes();
                    if known { Ok(Some(slot)) } else { Err(Stop::BadPointer) }
                }
                Some(Description {
                    kind: Kind::Block | Kind::Reserved | Kind::SlotString | Kind::RunString,
                    ..
                }) => Ok(None),
                _ => Err(Stop::BadPointer),
            },
            Layout::LineIsolated => self.slot_by_head(tx, object, bytes),
        }
    }

    /// The same without a header: the slab's head gives the class, the slot's label its state.
    #[inline(always)]
    fn slot_by_head<W: Words>(
        self,
        tx: &mut W,
        object: u64,
        bytes: u64,
    ) -> Result<Option<Slot>, Stop> {
        let layout = self.layout;
        let unit = object / layout.unit_bytes();
        let head = self.head(unit);
        let header = tx.read(self.header_at(head))?;
        let Some(class) = class_in(header, head).filter(|&class| class < layout.classes()) else {
            return Ok(None);
        };
        let first = layout.offset(unit) + layout.first_object();
        let from_first = object.checked_sub(first).ok_or(Stop::BadPointer)?;
        let number = from_first / layout.slot_bytes(class);
        // Any size up to the slot's, because a full heap allocates from larger classes too.
        let live = from_first.is_multiple_of(layout.slot_bytes(class))
            && number < layout.slots(1, class)
            && (1..=layout.payload_bytes(class)).contains(&bytes)
            && tx.read(self.label_at(object))? != layout.free_label(object, class, number);
        if live { Ok(Some(Slot { class, number, pieces: 0 })) } else { Err(Stop::BadPointer) }
    }

    /// Takes a slot of the arena's cache, or a slot of its slab that was never used.
    #[inline(always)]
    pub(crate) fn take_slot<W: Words>(
        self,
        tx: &mut W,
        arena: usize,
        class: usize,
    ) -> Result<Option<Taken>, Stop> {
        let pair = self.pair(tx, arena, class)?;
        let cache = Cache::decode(tx.read(pair)?);
        if cache.first == 0 {
            return self.carve(tx, pair.plus(8), class);
        }
        let object = cache.first;
        let number = self.free_slot(tx, object, class)?;
        let next = tx.read(self.addr(object, 0))?;
        let cache = self.without_first(cache, next)?;
        tx.write(pair, cache.encode())?;
        Ok(Some(Taken { object, number }))
    }

    /// Returns the cache without its first slot, whose link is `next`.
    #[inline(always)]
    pub(crate) fn without_first(self, cache: Cache, next: u64) -> Result<Cache, Stop> {
        let left = cache.count.wrapping_sub(1);
        // A list that is longer or shorter than its count is damaged.
        let ends = (next == 0) == (left == 0);
        if cache.count == 0 || !ends || next >= self.bytes || !next.is_multiple_of(16) {
            return Err(Stop::BadPointer);
        }
        let count = if injected(Mutant::TakenSlotCounted) { cache.count } else { left };
        Ok(Cache { first: next, count, ..cache })
    }

    /// Returns the number of a free slot in its slab. No link of the heap is trusted: the slot's
    /// own label must confirm that it is free, and its class.
    #[inline(always)]
    pub(crate) fn free_slot<W: Words>(
        self,
        tx: &mut W,
        object: u64,
        class: usize,
    ) -> Result<u64, Stop> {
        let end = object.saturating_add(self.layout.slot_bytes(class));
        let inside = object >= self.layout.offset(self.layout.own_units())
            && end <= self.bytes + self.layout.header_bytes();
        if !inside {
            return Err(Stop::BadPointer);
        }
        match decode(tx.read(self.label_at(object))?, object) {
            Some(Description { kind: Kind::Free, position, .. }) => match Slot::decode(position) {
                Slot { class: found, number, .. } if found == class => Ok(number),
                _ => Err(Stop::BadPointer),
            },
            _ => Err(Stop::BadPointer),
        }
    }

    /// Takes a slot that was never used, if the slab named at `own_at` has one.
    #[inline(always)]
    fn carve<W: Words>(
        self,
        tx: &mut W,
        own_at: Addr,
        class: usize,
    ) -> Result<Option<Taken>, Stop> {
        let own = OwnSlab::decode(tx.read(own_at)?).ok_or(Stop::BadPointer)?;
        if own.unit == 0 {
            return Ok(None);
        }
        // A wrong unit would hand out another object's memory: the slab's head must confirm it.
        if !self.is_slab(tx, own.unit, class)? {
            return Err(Stop::BadPointer);
        }
        let units = tx.read(self.addr(self.head(own.unit), HEAD_UNITS))?;
        if units == 0 || units > self.units() - own.unit {
            return Err(Stop::BadPointer);
        }
        let number = own.carved;
        let end = HEAD_LINE + (number + 1) * self.layout.slot_bytes(class);
        if number >= SLOTS_MAX || end > self.layout.offset(units) {
            return Ok(None);
        }
        let object = self.layout.slot(own.unit, class, number);
        tx.write(own_at, OwnSlab { carved: number + 1, ..own }.encode())?;
        // The memory may have been another run's before: clear the link that its last use left.
        if self.layout.has_headers() {
            tx.write(self.link_at(object), 0)?;
        }
        Ok(Some(Taken { object, number }))
    }

    /// Frees a live slot to the arena's cache, or to its slab when the cache is full. Returns the
    /// slab if it is now empty and on no list.
    #[inline(always)]
    pub(crate) fn push<W: Words>(
        self,
        tx: &mut W,
        arena: usize,
        object: u64,
        slot: Slot,
    ) -> Result<Option<Detached>, Stop> {
        let Slot { class, number, .. } = slot;
        let pair = self.pair(tx, arena, class)?;
        let mut cache = Cache::decode(tx.read(pair)?);
        tx.write(self.label_at(object), self.layout.free_label(object, class, number))?;
        if !self.has_room_in(cache, class) {
            return self.return_slot(tx, object, slot, true);
        }
        if !cache.listed && self.layout.has_headers() && !injected(Mutant::ArenaNotListed) {
            self.list_arena(tx, arena)?;
            cache.listed = true;
        }
        tx.write(self.addr(object, 0), cache.first)?;
        let first = if injected(Mutant::CachedSlotForgotten) { cache.first } else { object };
        tx.write(pair, Cache { first, count: cache.count + 1, ..cache }.encode())?;
        Ok(None)
    }

    /// Returns whether a freed slot joins the cache. The cache may already exceed the limit,
    /// because a refill takes all free slots of a slab.
    #[inline(always)]
    const fn has_room_in(self, cache: Cache, class: usize) -> bool {
        cache.count < CACHED_MAX
            && cache.count * self.layout.slot_bytes(class) < self.bytes / CACHE_SHARE
    }

    /// Returns the address of the arena's pair of words for a class: its cache, and its slab.
    #[inline(always)]
    pub(crate) fn pair<W: Words>(
        self,
        tx: &mut W,
        arena: usize,
        class: usize,
    ) -> Result<Addr, Stop> {
        assert!(arena < ARENAS, "a heap has {ARENAS} arenas");
        tx.lock(arena_lock(arena))?;
        let (object, offset) = self.layout.pair(arena, class);
        Ok(self.addr(object, offset))
    }
}
