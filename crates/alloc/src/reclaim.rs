//! Reclaim: free slots and slabs return from arenas when the heap is full.
//!
//! Arenas keep free slots and own slabs, and their workers may be gone. After a transaction has
//! ended with [`Stop::Full`], [`Heap::reclaim`] therefore takes both from all arenas, in
//! transactions of its own. Then the transaction runs again. A bitmap names the arenas to visit.
//!
//! [`Plan`] has the order of these transactions, for the workers of a pool and for tools.
//!
//! Two reasons keep this out of the allocation. Where a design isolates objects, the memory of an
//! empty slab must not serve other objects in the transaction that frees it. And every allocation
//! that fails would repeat the search.

use std::ops::Range;

use system::mutants::{Mutant, injected};
use words::{Stop, Words};

use crate::header::Slot;
use crate::slabs::Slab;
use crate::state::{Cache, OwnSlab, State, Status};
use crate::{ARENAS, Heap};

/// The result of one transaction of a reclaim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Reclaimed {
    /// Whether memory became free.
    pub gained: bool,
    /// Free slots that the arena still keeps in these classes.
    pub left: u64,
    /// The first class that has such slots.
    pub next: usize,
}

/// Free slots that one transaction returns at first. A design with smaller transactions refuses
/// them, and each step that it refuses costs an attempt.
const SLOTS: u64 = 512;

/// Slabs of a list that are looked at.
const LISTED_MAX: usize = 1000;

/// One transaction of a reclaim: the arguments of [`Heap::reclaim`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The arena, or [`ARENAS`] for the lists.
    pub arena: usize,
    /// The size classes.
    pub classes: Range<usize>,
    /// Number of free slots that it may return.
    pub slots_max: u64,
}

/// The transactions of a reclaim, in order: all classes of an arena, the rest of them while slots
/// are left, then the next arena, and the lists at the end. A transaction that exceeds a size limit
/// of its design is tried again with fewer classes, and then with fewer slots. A step of one class
/// and one slot is skipped.
///
/// It ends although others allocate and free meanwhile: each arena is visited once, and again only
/// while the number of its slots decreases.
#[derive(Debug)]
pub struct Plan {
    /// Bitmap of the arenas to visit.
    owners: u64,
    classes: usize,
    step: Option<Step>,
    /// Slots that the last transaction of this step left.
    left: u64,
    gained: bool,
}

impl Plan {
    /// Plans the visit of these [`owners`](Heap::owners).
    pub fn new(heap: Heap, owners: u64) -> Plan {
        let mut plan =
            Plan { owners, classes: heap.classes(), step: None, left: u64::MAX, gained: false };
        plan.step = Some(plan.next_arena());
        plan
    }

    /// Returns the next transaction, or `None` at the end.
    pub fn step(&self) -> Option<Step> {
        self.step.clone()
    }

    /// Returns whether memory became free.
    pub fn gained(&self) -> bool {
        self.gained
    }

    /// Takes the result of the transaction. `None`: it lost too many conflicts, and the rest of its
    /// arena is skipped.
    pub fn done(&mut self, result: Option<Reclaimed>) {
        let Reclaimed { gained, left, next } = result.unwrap_or_default();
        self.gained |= gained;
        match &mut self.step {
            Some(step) if result.is_none() => step.classes.end = self.classes,
            Some(step) if left != 0 && left < self.left && step.classes.contains(&next) => {
                step.classes.start = next;
                self.left = left;
                return;
            }
            _ => {}
        }
        self.advance();
    }

    /// Makes the transaction smaller, because it exceeded a size limit.
    pub fn too_large(&mut self) {
        match &mut self.step {
            Some(Step { classes, .. }) if classes.len() > 1 => {
                classes.end = classes.start + classes.len() / 2;
            }
            Some(Step { arena, slots_max, .. }) if *arena < ARENAS && *slots_max > 1 => {
                *slots_max /= 2;
            }
            _ => self.advance(),
        }
        self.left = u64::MAX;
    }

    /// Advances to the next classes, of the same number, or to the next arena.
    fn advance(&mut self) {
        self.left = u64::MAX;
        self.step = match self.step.take() {
            Some(Step { arena, classes, slots_max }) if classes.end < self.classes => {
                let end = (classes.end + classes.len()).min(self.classes);
                Some(Step { arena, classes: classes.end..end, slots_max })
            }
            Some(step) if step.arena < ARENAS => Some(self.next_arena()),
            _ => None,
        };
    }

    fn next_arena(&mut self) -> Step {
        let arena = (self.owners.trailing_zeros() as usize).min(ARENAS);
        self.owners &= self.owners.wrapping_sub(1);
        Step { arena, classes: 0..self.classes, slots_max: SLOTS }
    }
}

impl Heap {
    /// Returns a bitmap of the arenas that may own a slab or have free slots, for
    /// [`reclaim`](Heap::reclaim).
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

    /// Runs one step of a [`Plan`]: takes the slabs and some free slots from an arena, or with
    /// [`ARENAS`] as its number the empty slabs of the lists. Each is a transaction of its own, and
    /// the transaction that met a full heap runs again after them.
    ///
    /// Does nothing in a line-isolated heap: designs that isolate by named locks take those of
    /// arenas one at a time.
    ///
    /// # Errors
    /// As [`retire`](Heap::retire).
    pub fn reclaim<W: Words>(&self, tx: &mut W, step: Step) -> Result<Reclaimed, Stop> {
        let mut done = Reclaimed::default();
        let Step { arena, classes, slots_max } = step;
        let classes = classes.start..classes.end.min(self.classes());
        if !self.layout.has_headers() || classes.is_empty() {
            return Ok(done);
        }
        if arena >= ARENAS {
            for class in classes {
                done.gained |= self.release_empty(tx, class)?;
            }
            return Ok(done);
        }
        if injected(Mutant::OwnerForgotten) {
            let owners = tx.read(self.owners_at())?;
            return tx.write(self.owners_at(), owners & !(1 << arena)).map(|()| done);
        }
        // Under snapshot isolation the arena's worker may acquire a slab or keep a slot beside this
        // transaction. It then writes one of these objects, so the two transactions conflict.
        for object in self.layout.arena_objects(arena) {
            tx.protect(self.addr(object, 0))?;
        }
        let mut most = slots_max;
        for class in classes {
            let left = self.return_slots(tx, arena, class, &mut most, &mut done.gained)?.count;
            if left != 0 {
                // A later step takes the slab of this class, too.
                done.next = if done.left == 0 { class } else { done.next };
                done.left += left;
                continue;
            }
            done.gained |= self.take_away(tx, arena, class)?;
        }
        self.strike_off(tx, arena)?;
        Ok(done)
    }

    /// Returns at most `most` slots of a class from an arena's cache to their slabs, and lowers
    /// `most` by their number. Returns the rest of the cache.
    fn return_slots<W: Words>(
        self,
        tx: &mut W,
        arena: usize,
        class: usize,
        most: &mut u64,
        gained: &mut bool,
    ) -> Result<Cache, Stop> {
        let (object, offset) = self.layout.pair(arena, class);
        let at = self.addr(object, offset);
        let word = tx.read(at)?;
        let mut cache = Cache::decode(word);
        while cache.count != 0 && *most != 0 {
            let object = cache.first;
            let number = self.free_slot(tx, object, class)?;
            let next = tx.read(self.addr(object, 0))?;
            cache = self.without_first(cache, next)?;
            let slot = Slot { class, number, pieces: 0 };
            if let Some(run) = self.push_home(tx, object, slot, false)? {
                self.give_back(tx, run)?;
            }
            (*gained, *most) = (true, *most - 1);
        }
        let left = if cache.count == 0 { 0 } else { cache.encode() };
        if left != word {
            tx.write(at, left)?;
        }
        Ok(cache)
    }

    /// Takes the slab of a class from an arena. Returns whether it has free slots.
    fn take_away<W: Words>(self, tx: &mut W, arena: usize, class: usize) -> Result<bool, Stop> {
        let (object, offset) = self.layout.pair(arena, class);
        let at = self.addr(object, offset + 8);
        let own = OwnSlab::decode(tx.read(at)?).ok_or(Stop::BadPointer)?;
        if own.unit == 0 {
            return Ok(false);
        }
        let slab = self.read_own(tx, own, class)?;
        tx.write(at, 0)?;
        let lost = injected(Mutant::RemoteFreesForgotten);
        let (first, count) = if lost { (0, 0) } else { (slab.state.first, slab.state.count) };
        let state = State { first, count, status: Status::Full, ..slab.state };
        if count == state.carved {
            self.give_units(tx, slab.unit, slab.units)?;
            return Ok(true);
        }
        if slab.slots(self.layout) - state.carved + count == 0 {
            tx.write(self.state_at(slab.unit), state.encode())?;
            return Ok(false);
        }
        self.link_slab(tx, &Slab { state, ..slab })?;
        Ok(true)
    }

    /// Removes the arena from the bitmap if it has neither slabs nor slots of any class. Its objects
    /// are protected, so none of their words changes before this transaction has ended.
    fn strike_off<W: Words>(self, tx: &mut W, arena: usize) -> Result<(), Stop> {
        for class in 0..self.classes() {
            let (object, offset) = self.layout.pair(arena, class);
            for word in [0, 8] {
                if tx.read(self.addr(object, offset + word))? != 0 {
                    return Ok(());
                }
            }
        }
        let owners = tx.read(self.owners_at())?;
        if owners & 1 << arena != 0 {
            tx.write(self.owners_at(), owners & !(1 << arena))?;
        }
        Ok(())
    }

    /// Frees empty slabs of a partial list, which keeps one of them. Slabs that arenas have lost may
    /// be before it. Returns whether it freed one.
    fn release_empty<W: Words>(self, tx: &mut W, class: usize) -> Result<bool, Stop> {
        let mut unit = tx.read(self.list_at(class, Status::Partial))?;
        let mut gained = false;
        for _ in 0..LISTED_MAX {
            if unit == 0 {
                break;
            }
            let slab = self.read_slab(tx, unit, class)?;
            unit = slab.next;
            if slab.state.count == slab.state.carved {
                self.unlink_slab(tx, &slab)?;
                self.give_units(tx, slab.unit, slab.units)?;
                gained = true;
            }
        }
        Ok(gained)
    }
}
