//! The state of a slab in one word: its free slots, in the slab's head or in the arena that owns
//! it.
//!
//! ```text
//!   63        50 49  48 47     36 35      24 23       12 11        0
//!   | 0         | status | count | carved    | second    | first     |
//! ```
//! `first` and `second` begin two lists of free slots: a slot's number plus 1, or 0. There are two
//! because an arena gives a slab back with its own list and with the list of slots that other
//! workers freed. Joining them would take a walk. `count` is the number of slots on both. Slots
//! from `carved` on were never used.

/// Number of slots that a slab has at most.
pub(crate) const SLOTS_MAX: u64 = FIELD - 1;

const FIELD: u64 = (1 << 12) - 1;
const SECOND: u32 = 12;
const CARVED: u32 = 24;
const COUNT: u32 = 36;
const STATUS: u32 = 48;

/// The place of a slab among the slabs of its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Status {
    /// No arena owns it, and it has no free slot.
    Full = 0,
    /// On the list of partly used slabs of its class.
    Partial = 1,
    /// An arena owns it and allocates from it. The head then holds only slots that other workers
    /// freed.
    Owned = 2,
    /// On the list of slabs of its class with few free slots, which serves when memory is short.
    Sparse = 3,
}

/// The state of a slab. In an arena its status is [`Status::Owned`] too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) first: u64,
    pub(crate) second: u64,
    pub(crate) carved: u64,
    pub(crate) count: u64,
    pub(crate) status: Status,
}

impl State {
    /// The state, in its arena, of a slab of which no slot was ever used. Also the state in the
    /// head of a slab that an arena has just taken.
    pub(crate) const OWNED: State =
        State { first: 0, second: 0, carved: 0, count: 0, status: Status::Owned };

    #[inline(always)]
    pub(crate) const fn encode(self) -> u64 {
        self.first
            | self.second << SECOND
            | self.carved << CARVED
            | self.count << COUNT
            | (self.status as u64) << STATUS
    }

    /// Decodes a word. Every word below 2^50 has a state; its numbers are checked where
    /// they are used.
    #[inline(always)]
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
            second: word >> SECOND & FIELD,
            carved: word >> CARVED & FIELD,
            count: word >> COUNT & FIELD,
            status,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_round_trips() {
        for status in [Status::Full, Status::Partial, Status::Owned, Status::Sparse] {
            let state = State { first: 1, second: SLOTS_MAX, carved: 77, count: 12, status };
            assert_eq!(State::decode(state.encode()), Some(state));
        }
        assert_eq!(State::decode(1 << 50), None);
    }
}
