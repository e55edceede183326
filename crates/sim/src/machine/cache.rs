//! A cache: which lines are in it, in which state, and how long ago each was used.
//!
//! It holds no bytes: at any time a line has one coherent value, and [`Memory`](super::memory)
//! has it.

/// What a cache knows of a line.
pub type State = u8;

/// Not in it.
pub const INVALID: State = 0;
/// Others may have it too; it is what is below.
pub const SHARED: State = 1;
/// Nobody else has it; it is what is below.
pub const EXCLUSIVE: State = 2;
/// Nobody else has it; it is newer than what is below.
pub const MODIFIED: State = 3;
/// The three above.
pub const COHERENCE: State = 3;
/// Its bytes are on their way.
pub const PENDING: State = 4;
/// A design has marked it.
pub const MARKED: State = 8;
/// It may not leave.
pub const HELD: State = 16;
/// Added to a line's number: an older version of it, in the same set.
pub const OLDER: u32 = 1 << 31;

/// A set-associative cache; the line that was not used for longest leaves.
#[derive(Clone, Debug)]
pub struct Cache {
    ways: usize,
    sets: u32,
    /// Whether `sets` is a power of two.
    masks: bool,
    /// Whether `ways` is one, and then which.
    shift: Option<u32>,
    tags: Vec<u32>,
    states: Vec<State>,
    /// Rank in its set by last use, 0 for the youngest.
    ages: Vec<u8>,
}

/// Where a line is in a cache.
pub type Slot = usize;

impl Cache {
    /// An empty cache of so many bytes.
    ///
    /// # Panics
    /// When that is not a whole number of sets.
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

    /// Where a line is.
    #[inline]
    pub fn find(&self, line: u32) -> Option<Slot> {
        let first = self.set_of(line);
        let tags = &self.tags[first..first + self.ways];
        tags.iter().position(|tag| *tag == line).map(|way| first + way)
    }

    /// It was used.
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

    /// The state of what is in a slot.
    #[inline]
    pub fn state(&self, slot: Slot) -> State {
        self.states[slot]
    }

    /// Sets it.
    #[inline]
    pub fn set_state(&mut self, slot: Slot, state: State) {
        debug_assert!(state & COHERENCE != INVALID, "use `remove`");
        self.states[slot] = state;
    }

    /// The line in a slot.
    #[inline]
    pub fn line(&self, slot: Slot) -> u32 {
        self.tags[slot]
    }

    /// Where a line would go: a free slot, or the one whose line was not used for longest among
    /// those that may leave; `None` when none may.
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

    /// Puts a line into a slot whose line has left.
    pub fn put(&mut self, slot: Slot, line: u32, state: State) {
        self.tags[slot] = line;
        self.states[slot] = state;
        self.touch(slot);
    }

    /// A line is in it no longer.
    pub fn remove(&mut self, slot: Slot) {
        self.tags[slot] = u32::MAX;
        self.states[slot] = INVALID;
    }

    /// All lines in it, by slot.
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
    fn the_line_that_was_not_used_for_longest_leaves() {
        // 12 sets: not a power of two.
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
        assert_eq!(cache.place(48, |_, _| false), Some(leaves), "a free slot needs no leave");
        assert_eq!(cache.lines().count(), 3);
    }
}
