//! Statistics of one worker: transactions by the second, and the longest call.

use std::time::{Duration, Instant};

/// Seconds at the beginning of a run that the least second leaves out.
const WARM_UP: usize = 10;

/// Counts of one worker.
#[derive(Debug)]
pub(crate) struct Tally {
    start: Instant,
    last: Instant,
    longest: Duration,
    by_second: Vec<u64>,
}

impl Tally {
    /// Returns an empty tally whose seconds count from `start`; the first call begins at `now`.
    pub(crate) fn new(start: Instant, now: Instant) -> Tally {
        // The room covers most runs, so that the timed loop seldom allocates.
        let by_second = Vec::with_capacity(1 << 10);
        Tally { start, last: now, longest: Duration::ZERO, by_second }
    }

    /// Counts a transaction that ended at `now`, where the next one begins.
    #[inline]
    pub(crate) fn ended(&mut self, now: Instant) {
        self.longest = self.longest.max(now - self.last);
        self.last = now;
        let second = (now - self.start).as_secs() as usize;
        if second >= self.by_second.len() {
            self.by_second.resize(second + 1, 0);
        }
        self.by_second[second] += 1;
    }

    /// Begins the next call at `now`: the time since the last one is not a part of it.
    #[inline]
    pub(crate) fn begins(&mut self, now: Instant) {
        self.last = now;
    }

    /// Returns the number of transactions.
    pub(crate) fn count(&self) -> u64 {
        self.by_second.iter().sum()
    }
}

/// Statistics of all workers of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Total {
    pub(crate) transactions: u64,
    /// From the start until the last worker's last transaction ended.
    pub(crate) seconds: f64,
    /// Transactions of each whole second.
    pub(crate) by_second: Vec<u64>,
    pub(crate) longest_ms: f64,
}

impl Total {
    /// Adds up the workers of a run of so many seconds.
    pub(crate) fn of(workers: &[Tally], seconds: f64) -> Total {
        let mut by_second = vec![0; seconds as usize];
        for tally in workers {
            by_second.iter_mut().zip(&tally.by_second).for_each(|(sum, count)| *sum += count);
        }
        let most = |of: fn(&Tally) -> Duration| workers.iter().map(of).max().unwrap_or_default();
        Total {
            transactions: workers.iter().map(Tally::count).sum(),
            seconds: most(|tally| tally.last - tally.start).as_secs_f64(),
            by_second,
            longest_ms: most(|tally| tally.longest).as_secs_f64() * 1e3,
        }
    }
}

/// Returns the fewest transactions in a second after the warm-up; a shorter run has none.
pub(crate) fn least_second(by_second: &[u64]) -> Option<u64> {
    by_second.get(WARM_UP..)?.iter().copied().min()
}

/// Returns the least value that this share of the values does not exceed.
pub(crate) fn percentile(values: &mut [f64], share: f64) -> Option<f64> {
    let rank = (share * values.len() as f64).ceil() as usize;
    let place = rank.clamp(1, values.len().max(1)) - 1;
    (place < values.len()).then(|| *values.select_nth_unstable_by(place, f64::total_cmp).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker with one transaction at each of these milliseconds.
    fn tally(start: Instant, ms: impl IntoIterator<Item = u64>) -> Tally {
        let mut tally = Tally::new(start, start);
        ms.into_iter().for_each(|ms| tally.ended(start + Duration::from_millis(ms)));
        tally
    }

    #[test]
    fn stall_shows_in_its_seconds_and_as_longest_call() {
        let start = Instant::now();
        let one = tally(start, (100..=13_900).step_by(100).filter(|ms| !(2500..6100).contains(ms)));
        let other = tally(start, (500..=13_500).step_by(1000));
        let total = Total::of(&[one, other], 13.5);
        assert_eq!(total.by_second, [10, 11, 6, 1, 1, 1, 10, 11, 11, 11, 11, 11, 11]);
        assert_eq!(total.transactions, 103 + 14);
        assert!((total.seconds - 13.9).abs() < 1e-9);
        assert!((total.longest_ms - 3700.0).abs() < 1e-6, "{}", total.longest_ms);
    }

    #[test]
    fn worker_that_stops_early_leaves_empty_seconds() {
        let total = Total::of(&[tally(Instant::now(), [10, 20])], 3.0);
        assert_eq!(total.by_second, [2, 0, 0]);
    }

    #[test]
    fn least_second_leaves_the_warm_up_out() {
        let mut by_second = vec![1; WARM_UP];
        assert_eq!(least_second(&by_second), None);
        assert_eq!(least_second(&by_second[..3]), None);
        by_second.extend([9, 7, 8]);
        assert_eq!(least_second(&by_second), Some(7));
    }

    #[test]
    fn percentile_is_a_value_of_that_rank() {
        let values = || (1..=1000).rev().map(f64::from).collect::<Vec<f64>>();
        assert_eq!(percentile(&mut values(), 0.999), Some(999.0));
        assert_eq!(percentile(&mut values(), 0.9991), Some(1000.0));
        assert_eq!(percentile(&mut values(), 1.0), Some(1000.0));
        assert_eq!(percentile(&mut values(), 0.0), Some(1.0));
        assert_eq!(percentile(&mut [3.0], 0.5), Some(3.0));
        assert_eq!(percentile(&mut [], 0.5), None);
    }
}
