//! The checker of line isolation: no two open transactions write one line.
//!
//! All hardware designs here rest on it. ReDU could otherwise make durable a word of another
//! transaction that has no undo; SSP flips back to the committed line, with the other one's word
//! lost; LAD commits a foreign word. So it is checked, and not hoped for.

use rustc_hash::FxHashMap;

/// Which core's open transaction has written which line.
#[derive(Clone, Debug, Default)]
pub struct Isolation {
    writers: FxHashMap<u32, usize>,
    violations: u64,
}

impl Isolation {
    /// A core's transaction writes a line.
    pub fn writes(&mut self, core: usize, line: u32) {
        let writer = *self.writers.entry(line).or_insert(core);
        self.violations += u64::from(writer != core);
    }

    /// A core's transaction is over, and wrote these lines.
    pub fn ends(&mut self, core: usize, lines: &[u32]) {
        for line in lines {
            if self.writers.get(line) == Some(&core) {
                self.writers.remove(line);
            }
        }
    }

    /// How often a transaction has written a line that another open one had written.
    pub fn violations(&self) -> u64 {
        self.violations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_open_transactions_in_one_line_are_seen_and_one_after_the_other_is_not() {
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
