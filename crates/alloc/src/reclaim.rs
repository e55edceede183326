//! Reclaim: free slots and slabs return from arenas when the heap is full.
//!
//! Arenas keep free slots and own slabs, and their workers may be gone. After a transaction has
//! ended with [`Stop::Full`], the worker therefore calls [`Heap::reclaim`] for every arena that
//! the bitmap of owners names, each call in a transaction of its own. Then it runs the body again.
//!
//! [`Plan`](crate::Plan) gives the order of the calls.
//!
//! The allocation itself does not reclaim, for two reasons. Where a design isolates objects, the
//! memory of an empty slab must not serve other objects in the transaction that frees it. And every
//! allocation that fails would repeat the search.

use system::mutants::{Mutant, injected};
use words::{Stop, Words};

use crate::header::Slot;
use crate::reclaim_plan::{Reclaimed, Step};
use crate::slabs::Slab;
use crate::state::{Cache, OwnSlab, State, Status};
use crate::{ARENAS, Heap};

/// Number of slabs of a list that a step visits at most.
const LISTED_MAX: usize = 1000;

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

    /// Runs one step of a [`Plan`](crate::Plan), in a transaction of its own. Takes slabs and free
    /// slots from the step's arena. If the arena is [`ARENAS`], frees the empty slabs of the
    /// lists.
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
        // Under snapshot isolation the arena's worker may acquire a slab or keep a slot
        // concurrently with this transaction. It then writes one of these objects, so the two
        // transactions conflict.
        for object in self.layout.arena_objects(arena) {
            if !injected(Mutant::ReclaimedArenaNotProtected) {
                tx.protect(self.addr(object, 0))?;
            }
        }
        let mut most = slots_max;
        for class in classes {
            let left = self.empty_cache(tx, arena, class, &mut most, &mut done.gained)?.count;
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

    /// Moves at most `most` slots of a class from an arena's cache to their slabs, and subtracts
    /// their number from `most`. Returns the rest of the cache.
    fn empty_cache<W: Words>(
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
            if let Some(run) = self.return_slot(tx, object, slot, false)? {
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

    /// Removes the arena from the bitmap if the arena has neither slabs nor slots of any class.
    /// The arena's objects are protected, so none of their words changes before this transaction
    /// has ended.
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

    /// Frees the empty slabs of a partial list. Slabs that joined the list later precede them.
    /// Visits at most [`LISTED_MAX`] slabs. Returns whether it freed a slab.
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
