//! What happens next: a tournament among everything that can act.
//!
//! ```text
//!   controllers | engines | store buffers | cores       ties go to the left, so the order is total
//! ```

use super::when::{NEVER, Time};

/// Whoever acts, by number; the smaller number is first when times are equal.
pub type Source = usize;

const LEAVES: usize = 64;

/// When each source acts next, and which one is first.
///
/// A heap-shaped tree: leaf i at `LEAVES + i`, each node the smaller of its two children; a value
/// is a time and, in its low six bits, whose it is.
#[derive(Clone, Debug)]
pub struct Sources {
    nodes: [u64; 2 * LEAVES],
}

impl Sources {
    /// The most there can be.
    pub const MAX: usize = LEAVES;

    /// Nobody acts.
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

    /// Sets when a source acts.
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

    /// Makes a source act at this time, if it would act later.
    #[inline]
    pub fn hasten(&mut self, source: Source, time: Time) {
        if time < self.get(source) {
            self.set(source, time);
        }
    }

    /// When a source acts.
    #[inline]
    pub fn get(&self, source: Source) -> Time {
        self.nodes[LEAVES + source] >> 6
    }

    /// Who is first, and when.
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
    fn the_first_is_the_earliest_and_among_equals_the_one_with_the_smallest_number() {
        let mut sources = Sources::new();
        assert_eq!(sources.first().0, NEVER);
        sources.set(40, 7);
        sources.set(3, 7);
        sources.set(20, 9);
        assert_eq!(sources.first(), (7, 3));
        sources.set(3, NEVER);
        assert_eq!(sources.first(), (7, 40));
        sources.hasten(20, 5);
        sources.hasten(20, 6);
        assert_eq!(sources.first(), (5, 20));
    }
}
