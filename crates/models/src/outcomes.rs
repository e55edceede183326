//! The outcomes that a model has reached, so that it cannot pass by seeing nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A set of outcomes (small numbers) over all executions of a model; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Outcomes(Arc<AtomicU64>);

impl Outcomes {
    /// Records that an execution has reached an outcome.
    pub fn saw(&self, outcome: u64) {
        self.0.fetch_or(1 << outcome, Ordering::Relaxed);
    }

    /// Asserts that the reached outcomes are exactly these.
    ///
    /// # Panics
    /// When the two sets differ.
    pub fn are(&self, expected: impl IntoIterator<Item = u64>) {
        let met = self.0.load(Ordering::Relaxed);
        let expected = expected.into_iter().fold(0, |set, outcome| set | 1 << outcome);
        assert_eq!(met, expected, "outcomes reached and expected: {met:#b} {expected:#b}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_outcomes() {
        let met = Outcomes::default();
        met.clone().saw(0);
        met.saw(2);
        met.are([0, 2]);
    }

    #[test]
    #[should_panic(expected = "outcomes reached and expected")]
    fn missing_outcome_is_detected() {
        Outcomes::default().are([1]);
    }
}
