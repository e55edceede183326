//! The event queue: a tournament tree over everything that can act.
//!
//! ```text
//!   controllers | engines | store buffers | cores       ties go to the left, so the order is total
//! ```

use super::when::{NEVER, Time};

/// The number of an event source. Among equal times, the smaller number is first.
pub type Source = usize;

const LEAVES: usize = 64;

/// The next event time of each source, and the earliest of them.
///
/// A heap-shaped tree: leaf i is at `LEAVES + i`, and each node is the smaller of its children. A
/// value is a time with the source in its low six bits.
#[derive(Clone, Debug)]
pub struct Sources {
    nodes: [u64; 2 * LEAVES],
}

impl Sources {
    /// The largest number of sources.
    pub const MAX: usize = LEAVES;

    /// Returns a queue in which no source acts.
    pub fn new() -> Sources {
        let mut nodes = [u64::MAX; 2 * LEAVES];
        for source in 0..LEAVES {
            nodes[LEAVES + source] = NEVER << 6 | source as u64;
        }
        for node in (1..LEAVES).rev() {
            nodes[node] = nodes[2 * node].min(nodes[2 * node + 1]);
        }
        Sources { nodes }
    }

    /// Sets the next event time of a source.
    #[inline]
    pub fn set(&mut self, source: Source, time: Time) {
        let mut node = LEAVES + source;
        self.nodes[node] = time << 6 | source as u64;
        while node > 1 {
            node /= 2;
            let first = self.nodes[2 * node].min(self.nodes[2 * node + 1]);
            if self.nodes[node] == first {
                return;
            }
            self.nodes[node] = first;
        }
    }

    /// Lowers the next event time of a source to `time` if it is later.
    #[inline]
    pub fn lower(&mut self, source: Source, time: Time) {
        if time < self.get(source) {
            self.set(source, time);
        }
    }

    /// Returns the next event time of a source.
    #[inline]
    pub fn get(&self, source: Source) -> Time {
        self.nodes[LEAVES + source] >> 6
    }

    /// Returns the earliest event time and its source.
    #[inline]
    pub fn first(&self) -> (Time, Source) {
        (self.nodes[1] >> 6, (self.nodes[1] & 63) as usize)
    }
}

impl Default for Sources {
    fn default() -> Sources {
        Sources::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earliest_source_wins_and_ties_go_to_smaller_number() {
        let mut sources = Sources::new();
        assert_eq!(sources.first().0, NEVER);
        sources.set(40, 7);
        sources.set(3, 7);
        sources.set(20, 9);
        assert_eq!(sources.first(), (7, 3));
        sources.set(3, NEVER);
        assert_eq!(sources.first(), (7, 40));
        sources.lower(20, 5);
        sources.lower(20, 6);
        assert_eq!(sources.first(), (5, 20));
    }
}
