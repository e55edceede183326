//! The checker of line isolation: no two open transactions write the same line.
//!
//! All hardware designs here depend on it. Without it, ReDU could make a word of another
//! transaction durable that has no undo record. SSP would lose the other transaction's word when it
//! flips back to the committed line. LAD would commit a foreign word.

use rustc_hash::FxHashMap;

/// The core whose open transaction has written each line.
#[derive(Clone, Debug, Default)]
pub struct Isolation {
    writers: FxHashMap<u32, usize>,
    violations: u64,
}

impl Isolation {
    /// Records that a core's transaction writes a line.
    pub fn writes(&mut self, core: usize, line: u32) {
        let writer = *self.writers.entry(line).or_insert(core);
        self.violations += u64::from(writer != core);
    }

    /// Ends a core's transaction, which wrote these lines.
    pub fn ends(&mut self, core: usize, lines: &[u32]) {
        for line in lines {
            if self.writers.get(line) == Some(&core) {
                self.writers.remove(line);
            }
        }
    }

    /// Returns how often a transaction has written a line of another open transaction.
    pub fn violations(&self) -> u64 {
        self.violations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrent_writers_of_one_line_are_violations() {
        let mut isolation = Isolation::default();
        isolation.writes(0, 7);
        isolation.writes(0, 7);
        isolation.ends(0, &[7]);
        isolation.writes(1, 7);
        assert_eq!(isolation.violations(), 0);
        isolation.writes(2, 7);
        assert_eq!(isolation.violations(), 1);
        isolation.ends(2, &[7]);
        isolation.writes(3, 7);
        assert_eq!(isolation.violations(), 2, "the first one is still open");
    }
}
