//! A set-associative cache: the lines it holds, their states, and the age of each.
//!
//! The cache holds no data. Every line has a single coherent value at any time, kept in
//! [`Memory`](super::memory).

/// The state of a line in a cache: a coherence state and flags.
pub type State = u8;

/// The line is not in the cache.
pub const INVALID: State = 0;
/// Other caches may hold the line. It equals the copy in the level below.
pub const SHARED: State = 1;
/// No other cache holds the line. It equals the copy in the level below.
pub const EXCLUSIVE: State = 2;
/// No other cache holds the line. It is newer than the copy in the level below.
pub const MODIFIED: State = 3;
/// Mask of the three coherence states.
pub const COHERENCE: State = 3;
/// Flag: the fill of the line is in flight.
pub const PENDING: State = 4;
/// Flag: marked by the design.
pub const MARKED: State = 8;
/// Flag: the line must not be evicted.
pub const HELD: State = 16;
/// Bit added to a line number: an older version of that line, in the same set.
pub const OLDER: u32 = 1 << 31;

/// A set-associative cache with least-recently-used replacement.
#[derive(Clone, Debug)]
pub struct Cache {
    ways: usize,
    sets: u32,
    /// `sets` is a power of two, so a mask selects the set.
    masks: bool,
    /// The logarithm of `ways`, if that is a power of two.
    shift: Option<u32>,
    tags: Vec<u32>,
    states: Vec<State>,
    /// Rank within the set by last use; 0 is the most recent.
    ages: Vec<u8>,
}

/// The index of a line's place in a cache.
pub type Slot = usize;

impl Cache {
    /// Returns an empty cache of this size and associativity.
    ///
    /// # Panics
    /// When the size is not a whole number of sets.
    pub fn new(bytes: u64, ways: u32) -> Cache {
        let lines = (bytes / 64) as usize;
        let ways = ways as usize;
        assert!(ways > 0 && ways < 64 && lines > 0 && lines.is_multiple_of(ways), "whole sets");
        let sets = (lines / ways) as u32;
        Cache {
            ways,
            sets,
            masks: sets.is_power_of_two(),
            shift: ways.is_power_of_two().then(|| ways.trailing_zeros()),
            tags: vec![u32::MAX; lines],
            states: vec![INVALID; lines],
            ages: (0..lines).map(|slot| (slot % ways) as u8).collect(),
        }
    }

    #[inline]
    fn set_of(&self, line: u32) -> usize {
        let set = if self.masks { line & (self.sets - 1) } else { line % self.sets };
        set as usize * self.ways
    }

    /// Returns the slot of a line.
    #[inline]
    pub fn find(&self, line: u32) -> Option<Slot> {
        let first = self.set_of(line);
        let tags = &self.tags[first..first + self.ways];
        tags.iter().position(|tag| *tag == line).map(|way| first + way)
    }

    /// Marks a slot as the most recently used of its set.
    #[inline]
    pub fn touch(&mut self, slot: Slot) {
        let age = self.ages[slot];
        if age == 0 {
            return;
        }
        let first = match self.shift {
            Some(shift) => slot >> shift << shift,
            None => slot - slot % self.ways,
        };
        for other in &mut self.ages[first..first + self.ways] {
            *other += u8::from(*other < age);
        }
        self.ages[slot] = 0;
    }

    /// Returns the state of a slot.
    #[inline]
    pub fn state(&self, slot: Slot) -> State {
        self.states[slot]
    }

    /// Sets the state of a slot.
    #[inline]
    pub fn set_state(&mut self, slot: Slot, state: State) {
        debug_assert!(state & COHERENCE != INVALID, "use `remove`");
        self.states[slot] = state;
    }

    /// Returns the line in a slot.
    #[inline]
    pub fn line(&self, slot: Slot) -> u32 {
        self.tags[slot]
    }

    /// Returns the slot for a new line: a free one, or the least recently used slot whose line
    /// `may_leave` allows to be evicted. Returns `None` when no line may be evicted.
    #[inline]
    pub fn place(&self, line: u32, may_leave: impl Fn(u32, State) -> bool) -> Option<Slot> {
        let first = self.set_of(line);
        let slots = first..first + self.ways;
        let is_free = |slot: &Slot| self.states[*slot] == INVALID;
        slots.clone().find(is_free).or_else(|| {
            let may = |slot: &Slot| may_leave(self.tags[*slot], self.states[*slot]);
            slots.filter(may).max_by_key(|slot| self.ages[*slot])
        })
    }

    /// Puts a line into a free slot or over an evicted line.
    pub fn put(&mut self, slot: Slot, line: u32, state: State) {
        self.tags[slot] = line;
        self.states[slot] = state;
        self.touch(slot);
    }

    /// Removes the line in a slot.
    pub fn remove(&mut self, slot: Slot) {
        self.tags[slot] = u32::MAX;
        self.states[slot] = INVALID;
    }

    /// Iterates over all lines in the cache, by slot.
    pub fn lines(&self) -> impl Iterator<Item = (Slot, u32, State)> {
        let all = self.tags.iter().zip(&self.states).enumerate();
        all.filter(|(_, (_, state))| **state != INVALID)
            .map(|(slot, (tag, state))| (slot, *tag, *state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_used_line_is_evicted() {
        // With 12 sets, the set index needs a division.
        let mut cache = Cache::new(12 * 4 * 64, 4);
        for line in [0, 12, 24, 36] {
            let slot = cache.place(line, |_, _| true).unwrap();
            cache.put(slot, line, SHARED);
        }
        cache.touch(cache.find(0).unwrap());
        cache.touch(cache.find(24).unwrap());
        let leaves = cache.place(48, |_, _| true).unwrap();
        assert_eq!(cache.line(leaves), 12);
        let other = cache.place(48, |line, _| line != 12).unwrap();
        assert_eq!(cache.line(other), 36);
        assert_eq!(cache.place(48, |_, _| false), None);
        cache.remove(leaves);
        assert_eq!(cache.find(12), None);
        assert_eq!(cache.place(48, |_, _| false), Some(leaves), "a free slot evicts no line");
        assert_eq!(cache.lines().count(), 3);
    }
}
