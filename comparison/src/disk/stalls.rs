//! Evenness of a store's throughput: the worst 100 ms and the longest time without a commit.

use std::time::{Duration, Instant};

/// Milliseconds of the window that is looked for.
const WINDOW: usize = 100;

/// Commits by the millisecond.
#[derive(Debug)]
pub(crate) struct Stalls {
    start: Instant,
    last: Instant,
    longest: Duration,
    by_ms: Vec<u32>,
}

impl Stalls {
    pub(crate) fn begin() -> Stalls {
        let now = Instant::now();
        Stalls {
            start: now,
            last: now,
            longest: Duration::ZERO,
            by_ms: Vec::with_capacity(1 << 16),
        }
    }

    /// So many more transactions are committed.
    #[inline]
    pub(crate) fn committed(&mut self, count: u32) {
        self.committed_at(Instant::now(), count);
    }

    fn committed_at(&mut self, now: Instant, count: u32) {
        self.longest = self.longest.max(now - self.last);
        self.last = now;
        let ms = (now - self.start).as_millis() as usize;
        if ms >= self.by_ms.len() {
            self.by_ms.resize(ms + 1, 0);
        }
        self.by_ms[ms] += count;
    }

    /// Milliseconds without a commit, at most.
    pub(crate) fn longest_ms(&self) -> f64 {
        self.longest.as_secs_f64() * 1e3
    }

    /// Fewest commits in any 100 ms between the first and the last; a shorter run has none.
    pub(crate) fn worst_window(&self) -> Option<u64> {
        // The last millisecond is not whole.
        let whole = &self.by_ms[..self.by_ms.len().saturating_sub(1)];
        let sum = |window: &[u32]| window.iter().copied().map(u64::from).sum();
        whole.windows(WINDOW).map(sum).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_shows_in_the_window_that_holds_it() {
        let mut stalls = Stalls::begin();
        let start = stalls.start;
        for ms in (0..200).chain(250..400) {
            stalls.committed_at(start + Duration::from_micros(1000 * ms + 500), 3);
        }
        assert_eq!(stalls.worst_window(), Some(3 * 50));
        assert!((stalls.longest_ms() - 51.0).abs() < 0.01);
    }

    #[test]
    fn a_short_run_has_no_worst_window() {
        let mut stalls = Stalls::begin();
        stalls.committed(1);
        assert_eq!(stalls.worst_window(), None);
    }
}
