//! The words that describe slots: one in the head of each slab, and two for each size class of an
//! arena. The durable format of the heap shows their bits.
//!
//! *State of a slab.* `first` begins the list of its free slots, and `count` is their number. Slots
//! from `carved` on were never used, and are on no list. While an arena owns the slab, `carved` is
//! in the arena's word and 0 here.
//!
//! *Cache.* The free slots of a class that an arena keeps, from any slabs. A slab counts its cached
//! slots as used. If `listed` is set, the bitmap of owners has the arena.
//!
//! *Own slab.* The slab whose unused slots the arena takes.
//!
//! Every free slot begins with the heap offset of the next slot of its list, or 0. Lists of slabs
//! and caches have the same form, so a slab's whole list becomes a cache in one step.

/// Number of arenas of a heap, of which each worker leases one.
pub const ARENAS: usize = 32;

/// Number of slots that a slab has at most.
pub(crate) const SLOTS_MAX: u64 = FIELD - 1;

const FIELD: u64 = (1 << 12) - 1;
const CARVED: u32 = 12;
const COUNT: u32 = 24;
const STATUS: u32 = 36;

/// Number of slots that a cache has at most.
pub(crate) const CACHED_MAX: u64 = (1 << 19) - 1;

const PLACE_BITS: u32 = 44;
const LISTED: u64 = 1 << 63;

const UNIT_BITS: u32 = 38;
const OWN_BITS: u32 = UNIT_BITS + 12;

/// The place of a slab among the slabs of its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Status {
    /// No arena owns it, and it has no free slot.
    Full = 0,
    /// On the list of partly used slabs of its class.
    Partial = 1,
    /// An arena owns it and takes its unused slots.
    Owned = 2,
    /// On the list of slabs of its class with few free slots, which serves when memory is short.
    Sparse = 3,
}

/// The state of a slab, in its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) first: u64,
    pub(crate) carved: u64,
    pub(crate) count: u64,
    pub(crate) status: Status,
}

impl State {
    /// The state of a slab that an arena has just taken.
    pub(crate) const OWNED: State = State { first: 0, carved: 0, count: 0, status: Status::Owned };

    #[inline]
    pub(crate) const fn encode(self) -> u64 {
        self.first | self.carved << CARVED | self.count << COUNT | (self.status as u64) << STATUS
    }

    /// Decodes a word. Every word below 2^38 has a state; its numbers are checked where
    /// they are used.
    #[inline]
    pub(crate) const fn decode(word: u64) -> Option<State> {
        let status = match word >> STATUS {
            0 => Status::Full,
            1 => Status::Partial,
            2 => Status::Owned,
            3 => Status::Sparse,
            _ => return None,
        };
        Some(State {
            first: word & FIELD,
            carved: word >> CARVED & FIELD,
            count: word >> COUNT & FIELD,
            status,
        })
    }
}

/// The free slots of a class that an arena keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cache {
    /// Heap offset of the first slot's object, or 0.
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// Whether the bitmap of owners is known to have the arena.
    pub(crate) listed: bool,
}

impl Cache {
    #[inline(always)]
    pub(crate) const fn encode(self) -> u64 {
        let listed = if self.listed { LISTED } else { 0 };
        self.first >> 4 | self.count << PLACE_BITS | listed
    }

    /// Decodes a word. Every word is a valid encoding; the first slot is checked where it is
    /// taken.
    #[inline(always)]
    pub(crate) const fn decode(word: u64) -> Cache {
        Cache {
            first: (word & ((1 << PLACE_BITS) - 1)) << 4,
            count: word >> PLACE_BITS & CACHED_MAX,
            listed: word & LISTED != 0,
        }
    }
}

/// The slab of a class that an arena owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnSlab {
    /// Its first unit, or 0 when the arena owns no slab of the class.
    pub(crate) unit: u64,
    /// Number of slots that were used.
    pub(crate) carved: u64,
}

impl OwnSlab {
    #[inline(always)]
    pub(crate) const fn encode(self) -> u64 {
        self.unit | self.carved << UNIT_BITS
    }

    /// Decodes a word. Every word below 2^50 is a valid encoding; the slab is checked where it is
    /// used.
    #[inline(always)]
    pub(crate) const fn decode(word: u64) -> Option<OwnSlab> {
        if word >> OWN_BITS != 0 {
            return None;
        }
        Some(OwnSlab { unit: word & ((1 << UNIT_BITS) - 1), carved: word >> UNIT_BITS })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_round_trips() {
        for status in [Status::Full, Status::Partial, Status::Owned, Status::Sparse] {
            let state = State { first: SLOTS_MAX, carved: 77, count: 12, status };
            assert_eq!(State::decode(state.encode()), Some(state));
        }
        assert_eq!(State::decode(1 << 38), None);
    }

    #[test]
    fn arena_words_round_trip() {
        for listed in [false, true] {
            let cache = Cache { first: (1 << 48) - 16, count: CACHED_MAX, listed };
            assert_eq!(Cache::decode(cache.encode()), cache);
        }
        let own = OwnSlab { unit: (1 << 38) - 1, carved: SLOTS_MAX };
        assert_eq!(OwnSlab::decode(own.encode()), Some(own));
        assert_eq!(OwnSlab::decode(1 << 50), None);
    }
}
