//! The slots of slabs: their labels, the lists of free ones, and the caches and slabs of arenas.

use words::PIECE_STRIDE;

use super::{Check, Enough, contains};
use crate::ARENAS;
use crate::head::HEAD_STATE;
use crate::state::{Cache, OwnSlab, State, Status};
use crate::strings::string_length;
use crate::survey::{Damage, Wrong};

/// A slab that an arena owns: the class, the place of the word that names it, and the number of its
/// slots that were used.
#[derive(Clone, Copy)]
pub(super) struct Owned {
    class: usize,
    pub(super) at: u64,
    carved: u64,
}

/// The cache of an arena: the class, the place of its word, and its content.
pub(super) struct Cached {
    class: usize,
    at: u64,
    cache: Cache,
}

impl<F: FnMut(u64) -> u64> Check<F> {
    /// Reads the cache and the slab of each arena.
    pub(super) fn arenas(&mut self, frontier: u64) -> Result<(), Enough> {
        let offset = self.layout.owners();
        let owners = self.read(offset);
        // The line-isolated layout has no bitmap: workers do not reclaim in it.
        let possible = if self.layout.has_headers() { (1 << ARENAS) - 1 } else { 0 };
        if owners & !possible != 0 {
            let (wrong, expected, found) = (Wrong::Owners, owners & possible, owners);
            self.found(Damage { wrong, offset, expected, found })?;
        }
        for arena in 0..ARENAS {
            let mut owns = false;
            for class in 0..self.layout.classes() {
                let (object, offset_in) = self.layout.pair(arena, class);
                let at = object + offset_in;
                if self.read(at) == 0 && self.read(at + 8) == 0 {
                    continue; // no cache and no slab, as most of them
                }
                owns = true;
                let cache = Cache::decode(self.read(at));
                if cache.first != 0 || cache.count != 0 {
                    self.cached.push(Cached { class, at, cache });
                }
                self.own_slab(class, at + 8, frontier)?;
            }
            if self.layout.has_headers() && owns && owners & 1 << arena == 0 {
                let (wrong, expected) = (Wrong::Owners, owners | 1 << arena);
                self.found(Damage { wrong, offset, expected, found: owners })?;
            }
        }
        Ok(())
    }

    /// Reads the word that names an arena's slab.
    fn own_slab(&mut self, class: usize, at: u64, frontier: u64) -> Result<(), Enough> {
        let word = self.read(at);
        match OwnSlab::decode(word) {
            _ if word == 0 => Ok(()),
            Some(own)
                if (self.layout.own_units()..frontier).contains(&own.unit)
                    && !self.owned.contains_key(&own.unit) =>
            {
                self.owned.insert(own.unit, Owned { class, at, carved: own.carved });
                Ok(())
            }
            _ => self.lose_owner(at, word),
        }
    }

    pub(super) fn lose_owner(&mut self, offset: u64, found: u64) -> Result<(), Enough> {
        (self.lost_owners, self.hidden) = (self.lost_owners + 1, true);
        self.found(Damage { wrong: Wrong::Owner, offset, expected: 0, found })
    }

    pub(super) fn slab(
        &mut self,
        unit: u64,
        units: u64,
        class: usize,
        head: State,
    ) -> Result<(), Enough> {
        let slots = self.layout.slots(units, class);
        let state_at = self.heap.head(unit) + HEAD_STATE;
        let owned = self.owned.remove(&unit);
        let (state, offset) = match (head.status, owned) {
            (Status::Owned, Some(owned)) if owned.class == class => {
                (State { carved: owned.carved, ..head }, owned.at)
            }
            (Status::Owned, None) => {
                self.unread.insert(unit, unit + units);
                self.hidden = true;
                let (wrong, found) = (Wrong::Ownerless, head.encode());
                self.ownerless.push(Damage { wrong, offset: state_at, expected: 0, found });
                return Ok(());
            }
            (_, Some(owned)) => {
                self.unread.insert(unit, unit + units);
                let found = self.read(owned.at);
                return self.lose_owner(owned.at, found);
            }
            (status, None) => {
                if status != Status::Full {
                    self.listed.insert(unit, (class, status));
                }
                (head, state_at)
            }
        };
        // The partial list may keep an empty slab.
        let is_empty = head.status == Status::Sparse && state.count == state.carved;
        if state.count > state.carved || state.carved > slots || is_empty {
            self.unread.insert(unit, unit + units);
            self.hidden = true;
            let (wrong, found) = (Wrong::State, self.read(offset));
            return self.found(Damage { wrong, offset, expected: slots, found });
        }
        let mut slab = Slab { unit, class, free: vec![false; state.carved as usize], wrong: false };
        let mut live = 0;
        for number in 0..state.carved {
            live += u64::from(self.slot(&mut slab, number)?);
        }
        let bytes = units * self.layout.unit_bytes();
        self.usage.add_slab(bytes, self.layout.slot_bytes(class), slots, live);
        self.free_list(&mut slab, state_at, state)
    }

    /// Checks and counts a slot; returns whether it is live.
    fn slot(&mut self, slab: &mut Slab, number: u64) -> Result<bool, Enough> {
        let (layout, class) = (self.layout, slab.class);
        let object = layout.slot(slab.unit, class, number);
        let offset = object.wrapping_add(layout.label());
        let label = self.read(offset);
        let free_label = layout.free_label(object, class, number);
        if label == free_label {
            slab.free[number as usize] = true;
            return Ok(false);
        }
        let bytes = match layout.live_bytes(label, object, class, number) {
            Some(_) if layout.is_string_class(class) => {
                let length = string_length(label, object, class, &mut self.word);
                if length.is_none() {
                    let (wrong, offset) = (Wrong::Piece, object + PIECE_STRIDE - 8);
                    let found = self.read(offset);
                    self.found(Damage { wrong, offset, expected: 0, found })?;
                }
                length
            }
            Some(bytes) => Some(bytes),
            None => {
                slab.wrong = true;
                self.wrong_slots.insert(object);
                let (wrong, expected) = (Wrong::Object, free_label);
                self.found(Damage { wrong, offset, expected, found: label })?;
                return Ok(false);
            }
        };
        self.usage.objects += 1;
        self.usage.object_bytes += bytes.unwrap_or(0);
        if let Some(bytes) = bytes.filter(|_| layout.is_string_class(class)) {
            self.pieces(object, bytes)?;
        }
        Ok(true)
    }

    /// Walks the list of free slots of a slab. Each step clears an entry or ends the walk. Free
    /// slots that the walk does not reach must be in caches.
    fn free_list(&mut self, slab: &mut Slab, state_at: u64, state: State) -> Result<(), Enough> {
        let (layout, class) = (self.layout, slab.class);
        let first = state.first.checked_sub(1);
        let (mut at, mut next) =
            (state_at, first.map_or(0, |number| layout.slot(slab.unit, class, number)));
        let mut count = 0;
        while next != 0 {
            let from_first = next.wrapping_sub(layout.slot(slab.unit, class, 0));
            let number = (from_first / layout.slot_bytes(class)) as usize;
            let is_slot = from_first.is_multiple_of(layout.slot_bytes(class));
            let free = slab.free.get_mut(number).filter(|_| is_slot).map(std::mem::take);
            if free != Some(true) {
                (self.lists_cut, self.hidden) = (true, true);
                if slab.wrong {
                    break;
                }
                let (wrong, found) = (Wrong::FreeList, self.read(at));
                self.found(Damage { wrong, offset: at, expected: 0, found })?;
                break;
            }
            count += 1;
            (at, next) = (next, self.read(next));
        }
        if next == 0 && !slab.wrong && count != state.count {
            // This finding already covers the slots that the list misses.
            (self.lists_cut, self.hidden) = (true, true);
            let (wrong, offset, found) = (Wrong::State, state_at, self.read(state_at));
            let carved = if state.status == Status::Owned { 0 } else { state.carved };
            let expected = State { count, carved, ..state }.encode();
            self.found(Damage { wrong, offset, expected, found })?;
        }
        for number in (0..slab.free.len()).filter(|&number| slab.free[number]) {
            self.loose.insert(layout.slot(slab.unit, class, number as u64), class);
        }
        Ok(())
    }

    /// Walks the caches of the arenas. Each step removes a slot or ends the walk.
    pub(super) fn caches(&mut self) -> Result<(), Enough> {
        let mut complete = !self.lists_cut && self.unknown.is_empty() && self.unread.is_empty();
        for Cached { class, at, cache } in std::mem::take(&mut self.cached) {
            let (mut from, mut next, mut count) = (at, cache.first, 0);
            while next != 0 {
                if self.loose.get(&next) != Some(&class) {
                    (complete, self.hidden) = (false, true);
                    if !self.is_unread(next) {
                        let (wrong, found) = (Wrong::FreeList, self.read(from));
                        self.found(Damage { wrong, offset: from, expected: 0, found })?;
                    }
                    break;
                }
                self.loose.remove(&next);
                count += 1;
                (from, next) = (next, self.read(next));
            }
            if next == 0 && count != cache.count {
                (complete, self.hidden) = (false, true);
                let (wrong, offset, found) = (Wrong::State, at, self.read(at));
                let expected = Cache { count, ..cache }.encode();
                self.found(Damage { wrong, offset, expected, found })?;
            }
        }
        for object in std::mem::take(&mut self.loose).into_keys() {
            if complete {
                let offset = object.wrapping_add(self.layout.label());
                let (wrong, found) = (Wrong::Lost, self.read(offset));
                self.found(Damage { wrong, offset, expected: 0, found })?;
            }
        }
        Ok(())
    }

    /// Returns whether the object is in memory that the check could not interpret.
    fn is_unread(&self, object: u64) -> bool {
        let unit = object / self.layout.unit_bytes();
        self.is_unknown(unit) || contains(&self.unread, unit) || self.wrong_slots.contains(&object)
    }
}

/// A slab whose slots are being checked.
struct Slab {
    unit: u64,
    class: usize,
    /// The free slots that no list has reached yet.
    free: Vec<bool>,
    /// Whether a slot has a wrong label: the list may lead to it.
    wrong: bool,
}
