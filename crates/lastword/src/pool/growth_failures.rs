//! The pauses after growths that fail, such as on a full disk.

use std::time::{Duration, Instant};

use medium::mutants::{Mutant, injected};

/// The first pause after a failed growth. Each is twice the one before.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// The failed growths since the last success.
#[derive(Debug, Default)]
pub(super) struct Failures {
    pause: Duration,
    last: Option<Instant>,
}

impl Failures {
    /// Whether the pause after the last failure is not over.
    pub(super) fn are_recent(&self, now: Instant) -> bool {
        let is_recent = self.next_attempt().is_some_and(|at| now < at);
        is_recent && !injected(Mutant::FailedGrowthRepeated)
    }

    /// Returns the end of the pause after the last failure.
    pub(super) fn next_attempt(&self) -> Option<Instant> {
        self.last.map(|last| last + self.pause)
    }

    /// Notes a growth that failed.
    pub(super) fn add(&mut self, now: Instant) {
        self.pause = (2 * self.pause).clamp(PAUSE_MIN, PAUSE_MAX);
        self.last = Some(now);
    }

    /// Notes a growth that succeeded.
    pub(super) fn end(&mut self) {
        (self.pause, self.last) = (Duration::ZERO, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_after_failures_double_up_to_a_minute() {
        let mut failures = Failures::default();
        let mut now = Instant::now();
        for expected in
            [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200, 60_000, 60_000]
        {
            assert!(!failures.are_recent(now));
            failures.add(now);
            let pause = Duration::from_millis(expected);
            assert_eq!(failures.next_attempt(), Some(now + pause));
            assert!(failures.are_recent(now + pause - Duration::from_nanos(1)));
            now += pause;
        }
        failures.end();
        assert!(!failures.are_recent(now) && failures.next_attempt().is_none());
        failures.add(now);
        assert_eq!(failures.next_attempt(), Some(now + PAUSE_MIN));
    }
}
