//! Slabs: the memory of slots, owned by arenas one at a time for each class.
//!
//! ```text
//!                   refill: its free slots become the arena's cache
//!   partial list  ----------.------>  owned by an arena: its unused slots serve the arena
//!     ^     |               |             |  no slot is unused
//!     |     | the last slot |             v
//!     |     | returns       '---------> full
//!     |     v                             |  cache full: a slot is freed; or reclaimed
//!     |   free run                        v
//!     '-------------------------------- sparse list
//!        a sixteenth is free
//! ```
//!
//! A slot returns to its slab when it is freed while the cache is full, or reclaimed from a cache.
//! The slab's head has the list and the count of returned slots, even while an arena owns the
//! slab. An arena whose cache is empty and whose slab has no unused slot first collects the slots
//! that returned to that slab.
//!
//! A slab with fewer free slots than a sixteenth would serve an arena for only a few allocations,
//! and all workers see each change of a list. Such slabs wait on a list of their own, which serves
//! when there is no free run for a new slab.
//!
//! *Empty slabs.* A slab whose last slot returns stays on the partial list if that list is empty
//! otherwise, and serves its class again without a new run. Any other empty slab becomes a free
//! run. A reclaim frees every slab that it empties.

use system::mutants::{Mutant, injected};
use words::{Addr, Stop, Words};

use crate::Heap;
use crate::head::{HEAD_NEXT, HEAD_PREVIOUS, HEAD_STATE, Head, Run, is_slab};
use crate::header::Slot;
use crate::layout::{LIST_PARTIAL, LIST_SPARSE, Layout};
use crate::objects::{Detached, Taken};
use crate::pages::PAGES_LOCK;
use crate::state::{Cache, OwnSlab, State, Status};

/// A slab is on the partial list when this share of its slots is free.
const PARTIAL_SHARE: u64 = 16;

/// Returns the list of a slab with so many free slots of all.
pub(crate) const fn list_of(free: u64, slots: u64) -> Status {
    if PARTIAL_SHARE * free >= slots { Status::Partial } else { Status::Sparse }
}

/// A slab whose head was read.
#[derive(Clone, Copy)]
pub(crate) struct Slab {
    pub(crate) unit: u64,
    pub(crate) units: u64,
    pub(crate) class: usize,
    pub(crate) state: State,
    pub(crate) next: u64,
    pub(crate) previous: u64,
}

impl Slab {
    pub(crate) fn slots(&self, layout: Layout) -> u64 {
        layout.slots(self.units, self.class)
    }
}

impl Heap {
    /// Takes a slot when the arena's slab has none. Returns it with its class, which is a larger
    /// one if the heap is nearly full.
    #[cold]
    pub(crate) fn refill<W: Words>(
        self,
        tx: &mut W,
        arena: usize,
        class: usize,
    ) -> Result<(Taken, usize), Stop> {
        if let Some(taken) = self.take_more(tx, arena, class)? {
            return Ok((taken, class));
        }
        for larger in class + 1..self.layout.classes() {
            if !self.may_serve(class, larger) {
                break;
            }
            let mut taken = self.take_slot(tx, arena, larger)?;
            for list in [Status::Partial, Status::Sparse] {
                taken = match taken {
                    None => self.take_used(tx, arena, larger, list)?,
                    taken => taken,
                };
            }
            if let Some(taken) = taken {
                return Ok((taken, larger));
            }
        }
        Err(Stop::Full)
    }

    /// Returns whether a full heap serves requests for a class with slots of this larger one too.
    pub(crate) const fn may_serve(&self, class: usize, larger: usize) -> bool {
        let layout = self.layout;
        layout.is_string_class(larger) == layout.is_string_class(class)
            && layout.slot_bytes(larger) <= 2 * layout.slot_bytes(class)
    }

    /// Takes a slot of the class that the arena's slab does not have.
    fn take_more<W: Words>(
        self,
        tx: &mut W,
        arena: usize,
        class: usize,
    ) -> Result<Option<Taken>, Stop> {
        if let Some(taken) = self.take_used(tx, arena, class, Status::Partial)? {
            return Ok(Some(taken));
        }
        match self.new_slab(tx, arena, class) {
            Ok(taken) => Ok(Some(taken)),
            Err(Stop::Full) => self.take_used(tx, arena, class, Status::Sparse),
            Err(stop) => Err(stop),
        }
    }

    /// Takes a slot that returned to the arena's slab, or one of a slab on the list. The arena's
    /// cache is empty, and its slab has no unused slot.
    fn take_used<W: Words>(
        self,
        tx: &mut W,
        arena: usize,
        class: usize,
        list: Status,
    ) -> Result<Option<Taken>, Stop> {
        let pair = self.pair(tx, arena, class)?;
        let own = OwnSlab::decode(tx.read(pair.plus(8))?).ok_or(Stop::BadPointer)?;
        if own.unit != 0 {
            let slab = self.read_own(tx, own, class)?;
            if own.carved != slab.slots(self.layout) {
                return Err(Stop::BadPointer);
            }
            self.adopt(tx, arena, &slab)?;
            if slab.state.first != 0 {
                return self.take_slot(tx, arena, class);
            }
        }
        tx.lock(PAGES_LOCK)?;
        let first = tx.read(self.list_at(class, list))?;
        if first == 0 {
            return Ok(None);
        }
        let slab = self.read_slab(tx, first, class)?;
        if slab.state.status != list {
            return Err(Stop::BadPointer);
        }
        self.unlink_slab(tx, &slab)?;
        self.adopt(tx, arena, &slab)?;
        self.take_slot(tx, arena, class)
    }

    /// Takes the first slot of a new slab, which the arena owns.
    fn new_slab<W: Words>(self, tx: &mut W, arena: usize, class: usize) -> Result<Taken, Stop> {
        let layout = self.layout;
        let (most, least) = (layout.slab_units(class, self.units()), layout.slab_units_min(class));
        let (unit, units) = self.take_longest(tx, most, least)?;
        let kind = Run::Slab { class, state: State::OWNED, next: 0, previous: 0 };
        self.write_head(tx, unit, Head { units, before: 0, kind })?;
        let slab = Slab { unit, units, class, state: State::OWNED, next: 0, previous: 0 };
        self.adopt(tx, arena, &slab)?;
        self.take_slot(tx, arena, class)?.ok_or(Stop::BadPointer)
    }

    /// Fills the arena's empty cache with the free slots of a slab that is on no list. The arena
    /// becomes the slab's owner if the slab has unused slots.
    fn adopt<W: Words>(self, tx: &mut W, arena: usize, slab: &Slab) -> Result<(), Stop> {
        let State { count, carved, .. } = slab.state;
        let slots = slab.slots(self.layout);
        let (own, head) = if carved < slots {
            (OwnSlab { unit: slab.unit, carved }.encode(), State::OWNED)
        } else {
            (0, State { first: 0, count: 0, carved: slots, status: Status::Full })
        };
        // A new slab has this state already.
        if head != slab.state && !injected(Mutant::CollectedSlotsStay) {
            tx.write(self.state_at(slab.unit), head.encode())?;
        }
        let first = self.first_free(slab);
        if (first == 0) != (count == 0) {
            return Err(Stop::BadPointer);
        }
        let listed = self.layout.has_headers();
        if listed {
            self.list_arena(tx, arena)?;
        }
        let pair = self.pair(tx, arena, slab.class)?;
        tx.write_words(pair, &[Cache { first, count, listed }.encode(), own])
    }

    /// Reads the head of the slab that an arena owns. The returned state has `carved` from the
    /// arena's word.
    pub(crate) fn read_own<W: Words>(
        self,
        tx: &mut W,
        own: OwnSlab,
        class: usize,
    ) -> Result<Slab, Stop> {
        tx.lock(PAGES_LOCK)?;
        let slab = self.read_slab(tx, own.unit, class)?;
        let state = State { carved: own.carved, ..slab.state };
        let possible = state.status == Status::Owned
            && state.count <= state.carved
            && state.carved <= slab.slots(self.layout);
        if possible { Ok(Slab { state, ..slab }) } else { Err(Stop::BadPointer) }
    }

    /// Returns the object in the first free slot of a slab, or 0.
    const fn first_free(self, slab: &Slab) -> u64 {
        match slab.state.first {
            0 => 0,
            first => self.layout.slot(slab.unit, slab.class, first - 1),
        }
    }

    /// Adds the arena to the bitmap of arenas that own a slab or have free slots.
    #[cold]
    pub(crate) fn list_arena<W: Words>(self, tx: &mut W, arena: usize) -> Result<(), Stop> {
        tx.lock(PAGES_LOCK)?;
        let owners = tx.read(self.owners_at())?;
        if owners & 1 << arena != 0 {
            return Ok(());
        }
        tx.write(self.owners_at(), owners | 1 << arena)
    }

    /// Puts a free slot on its slab's list. Returns the slab if it is now empty and on no list.
    /// With `keeps_empty` an empty slab stays on an otherwise empty partial list. The caller has
    /// labelled the slot.
    #[cold]
    pub(crate) fn return_slot<W: Words>(
        self,
        tx: &mut W,
        object: u64,
        Slot { class, number, .. }: Slot,
        keeps_empty: bool,
    ) -> Result<Option<Detached>, Stop> {
        let unit = self.layout.slab_of(object, class, number).ok_or(Stop::BadPointer)?;
        tx.lock(PAGES_LOCK)?;
        let slab = self.read_slab(tx, unit, class)?;
        tx.write(self.addr(object, 0), self.first_free(&slab))?;
        let is_counted = !injected(Mutant::RemoteFreeNotCounted);
        let is_listed = !injected(Mutant::RemoteFreeNotListed);
        let first = if is_listed { number + 1 } else { slab.state.first };
        let count = slab.state.count + u64::from(is_counted);
        let slots = slab.slots(self.layout);
        if number >= slots || count > slots {
            return Err(Stop::BadPointer);
        }
        let state = State { first, count, ..slab.state };
        let slab = Slab { state, ..slab };
        match state.status {
            Status::Owned => {}
            _ if count > state.carved => return Err(Stop::BadPointer),
            _ if count + u64::from(injected(Mutant::SlabGivenTooEarly)) >= state.carved => {
                self.unlink_slab(tx, &slab)?;
                tx.lock(PAGES_LOCK)?;
                if keeps_empty && tx.read(self.list_at(class, Status::Partial))? == 0 {
                    return self.link_slab(tx, &slab).map(|()| None);
                }
                return self.detach_run(tx, unit, slab.units).map(Some);
            }
            status if status != self.list_of(&slab) => {
                self.unlink_slab(tx, &slab)?;
                return self.link_slab(tx, &slab).map(|()| None);
            }
            _ => {}
        }
        tx.write(self.state_at(unit), state.encode()).map(|()| None)
    }

    /// Returns the list that a slab with a free slot belongs on.
    fn list_of(&self, slab: &Slab) -> Status {
        let slots = slab.slots(self.layout);
        list_of(slots - slab.state.carved + slab.state.count, slots)
    }

    /// Puts a slab with a free slot on a list of its class, first.
    pub(crate) fn link_slab<W: Words>(self, tx: &mut W, slab: &Slab) -> Result<(), Stop> {
        tx.lock(PAGES_LOCK)?;
        let status = self.list_of(slab);
        let at = self.list_at(slab.class, status);
        let next = tx.read(at)?;
        if next != 0 {
            let neighbor = self.slab_word(tx, next, slab.class, HEAD_PREVIOUS)?;
            tx.write(neighbor, slab.unit)?;
        }
        let words = [State { status, ..slab.state }.encode(), next, 0];
        tx.write_words(self.state_at(slab.unit), &words)?;
        tx.write(at, slab.unit)
    }

    /// Takes a slab off the list that its status names, if it names one. Its state stays, for the
    /// caller to change.
    pub(crate) fn unlink_slab<W: Words>(self, tx: &mut W, slab: &Slab) -> Result<(), Stop> {
        let Slab { unit, class, state, next, previous, .. } = *slab;
        if !matches!(state.status, Status::Partial | Status::Sparse) {
            return Ok(());
        }
        tx.lock(PAGES_LOCK)?;
        if next != 0 && !injected(Mutant::UnlinkedSlabKeepsNeighbor) {
            let neighbor = self.slab_word(tx, next, class, HEAD_PREVIOUS)?;
            tx.write(neighbor, previous)?;
        }
        let at = match previous {
            0 => self.list_at(class, state.status),
            previous => self.slab_word(tx, previous, class, HEAD_NEXT)?,
        };
        tx.write(at, next)?;
        tx.write_words(self.addr(self.head(unit), HEAD_NEXT), &[0, 0])
    }

    /// Returns the address of a word in the head of a slab of this class.
    fn slab_word<W: Words>(
        self,
        tx: &mut W,
        unit: u64,
        class: usize,
        word: u64,
    ) -> Result<Addr, Stop> {
        // A wrong link would change other memory: the head must confirm it.
        if !self.is_slab(tx, unit, class)? {
            return Err(Stop::BadPointer);
        }
        Ok(self.addr(self.head(unit), word))
    }

    /// Returns whether a slab of this class begins with the unit.
    #[inline(always)]
    pub(crate) fn is_slab<W: Words>(
        self,
        tx: &mut W,
        unit: u64,
        class: usize,
    ) -> Result<bool, Stop> {
        if unit < self.layout.own_units() || unit >= self.units() {
            return Ok(false);
        }
        let object = self.head(unit);
        Ok(is_slab(tx.read(self.header_at(object))?, object, class))
    }

    /// Reads the head of a slab of this class.
    pub(crate) fn read_slab<W: Words>(
        self,
        tx: &mut W,
        unit: u64,
        class: usize,
    ) -> Result<Slab, Stop> {
        // The bound is the heap's size, not the frontier: reading the frontier would conflict with
        // every transaction that takes a run.
        let head = self.read_head(tx, unit, self.units())?;
        match head.kind {
            Run::Slab { class: found, state, next, previous } if found == class => {
                Ok(Slab { unit, units: head.units, class, state, next, previous })
            }
            _ => Err(Stop::BadPointer),
        }
    }

    /// Returns the address of a slab's state.
    pub(crate) const fn state_at(&self, unit: u64) -> Addr {
        self.addr(self.head(unit), HEAD_STATE)
    }

    pub(crate) const fn list_at(&self, class: usize, list: Status) -> Addr {
        let offset = if matches!(list, Status::Sparse) { LIST_SPARSE } else { LIST_PARTIAL };
        self.addr(self.layout.list(class), offset)
    }

    pub(crate) const fn owners_at(&self) -> Addr {
        self.addr(self.layout.owners(), 0)
    }
}
