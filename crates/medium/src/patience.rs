//! Limit on waiting that counts only time in which the process ran.
//!
//! A clock goes on while a process is stopped by a signal or a debugger, while the machine is
//! suspended, or while a hypervisor moves it. A waiter that compares two readings of the clock
//! would count that time as waiting, and give up although nothing blocked it. Here each look adds
//! the time since the last one, but at most a share of the limit. A waiter looks repeatedly, so a
//! stop lies between two looks and counts as one share, whatever its length.

use std::time::{Duration, Instant};

use system::mutants::{Mutant, injected};

/// Shares of a limit: a stop counts as one. Chosen: a stop costs at most a 64th of the limit, and
/// a waiter that seldom gets a core gives up after 64 looks at the earliest, whatever the limit.
const SHARES: u32 = 64;

/// The least share. A waiter sleeps half a millisecond between two looks and may wait some more for
/// its core: that is waiting, not a stop.
const SHARE_MIN: Duration = Duration::from_millis(10);

/// How much longer to wait; begins with the first look.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// let mut patience = medium::Patience::new(Duration::from_secs(10));
/// let start = Instant::now();
/// assert!(!patience.is_over_at(start));
/// // The process was stopped for an hour.
/// assert!(!patience.is_over_at(start + Duration::from_secs(3600)));
/// assert!(patience.spent() < Duration::from_secs(1));
/// ```
#[derive(Clone, Debug)]
pub struct Patience {
    limit: Duration,
    spent: Duration,
    last: Option<Instant>,
}

impl Patience {
    /// Waits for so long.
    pub fn new(limit: Duration) -> Patience {
        Patience { limit, spent: Duration::ZERO, last: None }
    }

    /// Reads the clock; returns whether the limit is reached. Call it at each check of the awaited
    /// condition.
    pub fn is_over(&mut self) -> bool {
        self.is_over_at(Instant::now())
    }

    /// As [`is_over`](Patience::is_over), with the clock's reading.
    pub fn is_over_at(&mut self, now: Instant) -> bool {
        if let Some(last) = self.last.replace(now) {
            let share = (self.limit / SHARES).max(SHARE_MIN);
            let since = now.saturating_duration_since(last);
            let counted = if injected(Mutant::StopCounted) { since } else { since.min(share) };
            self.spent = self.spent.saturating_add(counted);
        }
        self.spent >= self.limit
    }

    /// The time that was waited, as it is counted.
    pub fn spent(&self) -> Duration {
        self.spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks until the limit is reached; returns when that is, after how many looks.
    fn looks(limit: Duration, mut jump: impl FnMut(u32) -> Duration) -> (Duration, u32) {
        let mut patience = Patience::new(limit);
        let start = Instant::now();
        let (mut now, mut looks) = (start, 1);
        while !patience.is_over_at(now) {
            now += jump(looks);
            looks += 1;
        }
        assert!(patience.spent() >= limit);
        (now - start, looks)
    }

    const MS: Duration = Duration::from_millis(1);
    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn steady_looks_take_the_limit() {
        assert_eq!(looks(1000 * MS, |_| MS), (1000 * MS, 1001));
        assert_eq!(looks(Duration::ZERO, |_| MS), (Duration::ZERO, 1));
        assert_eq!(looks(Duration::from_nanos(1), |_| MS).1, 2);
    }

    #[test]
    fn stop_of_any_length_counts_as_one_share() {
        for at in [1, 2, 500, 900] {
            let (took, looks) = looks(1000 * MS, |look| if look == at { HOUR } else { MS });
            // 15.625 ms of the limit went in one look.
            assert_eq!((took, looks), (HOUR + 985 * MS, 987), "stopped after look {at}");
        }
    }

    #[test]
    fn waiter_with_rare_looks_gives_up() {
        assert_eq!(looks(1000 * MS, |_| HOUR), (64 * HOUR, 65));
    }

    /// The system gives a thread its core back late: that is no stop, so it counts in full.
    #[test]
    fn late_looks_of_a_short_limit_count_in_full() {
        assert_eq!(looks(64 * MS, |_| 8 * MS), (64 * MS, 9));
        assert_eq!(looks(64 * MS, |_| 20 * MS), (140 * MS, 8));
    }

    #[test]
    fn patience_backward_clock_adds_nothing() {
        let mut patience = Patience::new(10 * MS);
        let start = Instant::now() + HOUR;
        assert!(!patience.is_over_at(start));
        assert!(!patience.is_over_at(start - HOUR / 2));
        assert_eq!(patience.spent(), Duration::ZERO);
    }
}
