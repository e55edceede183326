//! Slabs: the memory of slots, owned by arenas one at a time for each class.
//!
//! ```text
//!                   refill
//!   partial list  ---------->  owned by an arena: others free slots in the slab's head
//!     ^     |                      |  the arena finds no free slot, and none that others freed
//!     |     | the last object      v
//!     |     | is freed            full
//!     |     v                      |  a slot is freed
//!     |   free run                 v
//!     '-------------------------- sparse list
//!        a sixteenth is free
//! ```
//!
//! An arena alone allocates from the slab that it owns, so the common case needs no shared word. A
//! worker frees a slot of another arena's slab, or of a slab without owner, in the slab's own head.
//! When an arena has no free slot, it first collects the slots that others freed in its slab.
//!
//! A slab with fewer free slots than a sixteenth would serve an arena for only a few allocations,
//! and all workers see each change of a list. Such slabs wait on a list of their own, which serves
//! when there is no free run for a new slab.
//!
//! *Empty slabs.* A slab whose last object is freed stays on the partial list if that list is empty
//! otherwise, and serves its class again without a new run. Any other becomes a free run.
//!
//! *Shortage.* Arenas own slabs that may be empty, and their workers may be gone. After a
//! transaction has ended with [`Stop::Full`], [`Heap::reclaim`] therefore takes the slabs from all
//! arenas, in transactions of its own. Then the transaction runs again. A bitmap names the arenas
//! that own a slab. Two reasons keep this out of the allocation. Where a design isolates objects,
//! the memory of an empty slab must not serve other objects in the transaction that frees it. And
//! every allocation that fails would repeat the search.

use std::ops::Range;

use system::mutants::{Mutant, injected};
use words::{Addr, Stop, Words};

use crate::head::{HEAD_NEXT, HEAD_PREVIOUS, HEAD_STATE, Head, Run, is_slab};
use crate::layout::{LIST_PARTIAL, LIST_SPARSE, Layout};
use crate::objects::{Detached, Taken};
use crate::pages::PAGES_LOCK;
use crate::state::{SLOTS_MAX, State, Status};
use crate::{ARENAS, Heap};

/// A slab is on the partial list when this share of its slots is free.
const PARTIAL_SHARE: u64 = 16;

/// Returns the list of a slab with so many free slots of all.
pub(crate) const fn list_of(free: u64, slots: u64) -> Status {
    if PARTIAL_SHARE * free >= slots { Status::Partial } else { Status::Sparse }
}

/// A slab whose head was read.
#[derive(Clone, Copy)]
struct Slab {
    unit: u64,
    units: u64,
    class: usize,
    state: State,
    next: u64,
    previous: u64,
}

impl Slab {
    fn slots(&self, layout: Layout) -> u64 {
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

    /// Takes a slot that others freed in the arena's slab, or one of a slab on the list, which the
    /// arena then owns. The arena's slab has no free slot.
    fn take_used<W: Words>(
        self,
        tx: &mut W,
        arena: usize,
        class: usize,
        list: Status,
    ) -> Result<Option<Taken>, Stop> {
        let pair = self.pair(tx, arena, class)?;
        let unit = tx.read(pair)?;
        if unit != 0 {
            tx.lock(PAGES_LOCK)?;
            let slab = self.read_slab(tx, unit, class)?;
            let mine = State::decode(tx.read(pair.plus(8))?).ok_or(Stop::BadPointer)?;
            let count = mine.count + slab.state.count;
            if slab.state.status != Status::Owned
                || mine.carved != slab.slots(self.layout)
                || count > mine.carved
            {
                return Err(Stop::BadPointer);
            }
            if slab.state.first != 0 {
                let state = State { first: slab.state.first, count, ..mine };
                tx.write(pair.plus(8), state.encode())?;
                if !injected(Mutant::CollectedSlotsStay) {
                    tx.write(self.state_at(unit), State::OWNED.encode())?;
                }
                return self.take_slot(tx, arena, class);
            }
            let full = State { status: Status::Full, ..mine };
            tx.write(self.state_at(unit), full.encode())?;
            tx.write_words(pair, &[0, 0])?;
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
        let state = State { status: Status::Owned, ..slab.state };
        self.own(tx, arena, class, first, state)?;
        self.take_slot(tx, arena, class)
    }

    /// Takes the first slot of a new slab, which the arena owns.
    fn new_slab<W: Words>(self, tx: &mut W, arena: usize, class: usize) -> Result<Taken, Stop> {
        let layout = self.layout;
        let (most, least) = (layout.slab_units(class, self.units()), layout.slab_units_min(class));
        let (unit, units) = self.take_longest(tx, most, least)?;
        let kind = Run::Slab { class, state: State::OWNED, next: 0, previous: 0 };
        self.write_head(tx, unit, Head { units, before: 0, kind })?;
        self.own(tx, arena, class, unit, State::OWNED)?;
        self.take_slot(tx, arena, class)?.ok_or(Stop::BadPointer)
    }

    /// Makes the arena the owner of a slab.
    fn own<W: Words>(
        self,
        tx: &mut W,
        arena: usize,
        class: usize,
        unit: u64,
        state: State,
    ) -> Result<(), Stop> {
        let pair = self.pair(tx, arena, class)?;
        tx.write_words(pair, &[unit, state.encode()])?;
        tx.write(self.state_at(unit), State::OWNED.encode())?;
        tx.lock(PAGES_LOCK)?;
        let owners = tx.read(self.owners_at())?;
        if owners & 1 << arena != 0 {
            return Ok(());
        }
        tx.write(self.owners_at(), owners | 1 << arena)
    }

    /// Returns a bitmap of the arenas that may own a slab, for [`reclaim`](Heap::reclaim).
    ///
    /// # Errors
    /// As [`retire`](Heap::retire).
    pub fn owners<W: Words>(&self, tx: &mut W) -> Result<u64, Stop> {
        match self.layout.has_headers() {
            true => tx.read(self.owners_at()),
            false => Ok(0),
        }
    }

    /// Returns the number of size classes: the end of the range for [`reclaim`](Heap::reclaim).
    pub const fn classes(&self) -> usize {
        self.layout.classes()
    }

    /// Takes the slabs of these classes from an arena, or with [`ARENAS`] as its number the empty
    /// slabs of the lists. A transaction that met a full heap runs again after these calls, each of
    /// which is a transaction of its own. A caller whose transactions are small passes fewer
    /// classes. Returns whether memory became free.
    ///
    /// Does nothing in a line-isolated heap: designs that isolate by named locks take those of
    /// arenas one at a time.
    ///
    /// # Errors
    /// As [`retire`](Heap::retire).
    pub fn reclaim<W: Words>(
        &self,
        tx: &mut W,
        arena: usize,
        classes: Range<usize>,
    ) -> Result<bool, Stop> {
        let mut gained = false;
        let classes = classes.start..classes.end.min(self.classes());
        if !self.layout.has_headers() || classes.is_empty() {
            return Ok(gained);
        }
        if arena >= ARENAS {
            for class in classes {
                gained |= self.release_empty(tx, class)?;
            }
            return Ok(gained);
        }
        if injected(Mutant::OwnerForgotten) {
            let owners = tx.read(self.owners_at())?;
            return tx.write(self.owners_at(), owners & !(1 << arena)).map(|()| false);
        }
        // Under snapshot isolation the arena's worker may acquire a slab beside this transaction.
        // It then writes one of these objects, so the two transactions conflict.
        for object in self.layout.arena_objects(arena) {
            tx.protect(self.addr(object, 0))?;
        }
        for class in classes {
            gained |= self.take_away(tx, arena, class)?;
        }
        // The bit stays while the arena owns a slab of another class. Its objects are protected, so
        // none of the pairs changes before this transaction has ended.
        for class in 0..self.classes() {
            let (object, offset) = self.layout.pair(arena, class);
            if tx.read(self.addr(object, offset))? != 0 {
                return Ok(gained);
            }
        }
        let owners = tx.read(self.owners_at())?;
        if owners & 1 << arena != 0 {
            tx.write(self.owners_at(), owners & !(1 << arena))?;
        }
        Ok(gained)
    }

    /// Frees the slab that an otherwise empty partial list keeps. Returns whether it did.
    fn release_empty<W: Words>(self, tx: &mut W, class: usize) -> Result<bool, Stop> {
        let first = tx.read(self.list_at(class, Status::Partial))?;
        if first == 0 {
            return Ok(false);
        }
        let slab = self.read_slab(tx, first, class)?;
        if slab.state.count != slab.state.carved {
            return Ok(false);
        }
        self.unlink_slab(tx, &slab)?;
        self.give_units(tx, slab.unit, slab.units)?;
        Ok(true)
    }

    /// Takes the slab of a class from an arena. Returns whether it has free slots.
    fn take_away<W: Words>(self, tx: &mut W, arena: usize, class: usize) -> Result<bool, Stop> {
        let (object, offset) = self.layout.pair(arena, class);
        let pair = self.addr(object, offset);
        let unit = tx.read(pair)?;
        if unit == 0 {
            return Ok(false);
        }
        let slab = self.read_slab(tx, unit, class)?;
        let mine = State::decode(tx.read(pair.plus(8))?).ok_or(Stop::BadPointer)?;
        tx.write_words(pair, &[0, 0])?;
        // Three lists at most, of which two remain. The arena has a second one only if its slab was
        // taken away from another arena before.
        let state = match (mine.first, mine.second, slab.state.first) {
            (first, second, 0) => State { first, second, ..mine },
            _ if injected(Mutant::RemoteFreesForgotten) => mine,
            (first, 0, freed) => State { first, second: freed, ..mine },
            (0, second, freed) => State { first: second, second: freed, ..mine },
            (_, second, freed) => {
                self.join(tx, &slab, second, freed)?;
                mine
            }
        };
        let count = mine.count + slab.state.count;
        let slots = slab.slots(self.layout);
        if slab.state.status != Status::Owned || count > state.carved || state.carved > slots {
            return Err(Stop::BadPointer);
        }
        let state = State { count, status: Status::Full, ..state };
        if count == state.carved {
            self.give_units(tx, unit, slab.units)?;
            return Ok(true);
        }
        if slots - state.carved + count == 0 {
            tx.write(self.state_at(unit), state.encode())?;
            return Ok(false);
        }
        self.link_slab(tx, &Slab { state, ..slab })?;
        Ok(true)
    }

    /// Appends a list of free slots to another one of the slab.
    fn join<W: Words>(self, tx: &mut W, slab: &Slab, first: u64, more: u64) -> Result<(), Stop> {
        let mut at = first;
        for _ in 0..SLOTS_MAX {
            let number = at.checked_sub(1).ok_or(Stop::BadPointer)?;
            let object = self.checked_slot(slab.unit, slab.class, number)?;
            if tx.read(self.label_at(object))? != self.layout.free_label(object, slab.class, number)
            {
                return Err(Stop::BadPointer);
            }
            match tx.read(self.addr(object, 0))? {
                0 => return tx.write(self.addr(object, 0), more),
                next => at = next,
            }
        }
        Err(Stop::BadPointer)
    }

    /// Frees a slot whose slab the worker's arena does not own. Returns the slab if it is empty
    /// now. The caller has labelled the slot, and stores the link that is returned in it.
    pub(crate) fn push_elsewhere<W: Words>(
        self,
        tx: &mut W,
        unit: u64,
        class: usize,
        number: u64,
    ) -> Result<(u64, Option<Detached>), Stop> {
        tx.lock(PAGES_LOCK)?;
        let slab = self.read_slab(tx, unit, class)?;
        let link = slab.state.first;
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
                if tx.read(self.list_at(class, Status::Partial))? == 0 {
                    return self.link_slab(tx, &slab).map(|()| (link, None));
                }
                return self.detach_run(tx, unit, slab.units).map(|run| (link, Some(run)));
            }
            status if status != self.list_of(&slab) => {
                self.unlink_slab(tx, &slab)?;
                return self.link_slab(tx, &slab).map(|()| (link, None));
            }
            _ => {}
        }
        tx.write(self.state_at(unit), state.encode()).map(|()| (link, None))
    }

    /// Returns the list that a slab with a free slot belongs on.
    fn list_of(&self, slab: &Slab) -> Status {
        let slots = slab.slots(self.layout);
        list_of(slots - slab.state.carved + slab.state.count, slots)
    }

    /// Puts a slab with a free slot on a list of its class, first.
    fn link_slab<W: Words>(self, tx: &mut W, slab: &Slab) -> Result<(), Stop> {
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
    fn unlink_slab<W: Words>(self, tx: &mut W, slab: &Slab) -> Result<(), Stop> {
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
    fn read_slab<W: Words>(self, tx: &mut W, unit: u64, class: usize) -> Result<Slab, Stop> {
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
    const fn state_at(&self, unit: u64) -> Addr {
        self.addr(self.head(unit), HEAD_STATE)
    }

    const fn list_at(&self, class: usize, list: Status) -> Addr {
        let offset = if matches!(list, Status::Sparse) { LIST_SPARSE } else { LIST_PARTIAL };
        self.addr(self.layout.list(class), offset)
    }

    const fn owners_at(&self) -> Addr {
        self.addr(self.layout.owners(), 0)
    }
}
