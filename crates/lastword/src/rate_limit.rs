//! The rate limit of writers: back-pressure before the log is full.
//!
//! A full log stops every writer until page writes free some of it. So writers are slowed before:
//! each pays for the bytes that it has logged with time, at a price that rises as free log runs
//! out (`WritePace::rate_max`). While little log is in use nothing is paid.
//!
//! ```text
//!   paid until  ---- bytes * price ---->  next      a worker sleeps if this is in the future
//! ```
//!
//! One time stands for all workers, so their rates together keep to the limit (a token bucket whose
//! tokens are time). A worker pays before an attempt, when it holds nothing that others wait for.
//! The words here guard no data. A price that a worker reads late costs a little log.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time by which a worker may be ahead. Sleeps shorter than this cost more than they slow down.
const AHEAD: Duration = Duration::from_millis(1);

/// Longest sleep before one attempt.
const SLEEP_MAX: Duration = Duration::from_millis(10);

/// The limit of one pool.
#[derive(Debug)]
pub(crate) struct RateLimit {
    /// Price of a byte in picoseconds; 0: no limit.
    price: AtomicU64,
    /// The time until which the logged bytes are paid, in nanoseconds after `begun`.
    paid: AtomicU64,
    begun: Instant,
}

impl RateLimit {
    pub(crate) fn new() -> RateLimit {
        RateLimit { price: AtomicU64::new(0), paid: AtomicU64::new(0), begun: Instant::now() }
    }

    /// Sets the limit in bytes a second.
    pub(crate) fn set(&self, bytes_per_second: Option<f64>) {
        let price = bytes_per_second.map_or(0, |rate| (1e12 / rate.max(1.0)) as u64);
        self.price.store(price, Ordering::Relaxed);
    }

    /// Whether there is a limit.
    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.price.load(Ordering::Relaxed) > 0
    }

    /// Pays for logged bytes. Returns how long the worker sleeps.
    pub(crate) fn pay(&self, bytes: u64) -> Option<Duration> {
        self.pay_at(bytes, self.begun.elapsed())
    }

    fn pay_at(&self, bytes: u64, now: Duration) -> Option<Duration> {
        let price = self.price.load(Ordering::Relaxed);
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let cost = u64::try_from(u128::from(price) * u128::from(bytes) / 1000).unwrap_or(u64::MAX);
        // Time that no worker used is lost: otherwise a pause would be followed by a burst.
        let next = |paid: u64| paid.max(now).saturating_add(cost);
        let paid =
            self.paid.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |paid| Some(next(paid)));
        let ahead = Duration::from_nanos(next(paid.unwrap_or(now)) - now);
        (ahead > AHEAD).then_some(ahead.min(SLEEP_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn workers_together_keep_to_the_limit() {
        let limit = RateLimit::new();
        assert_eq!((limit.is_set(), limit.pay_at(1 << 30, MS)), (false, None));
        limit.set(Some(1e6));
        // 1000 bytes a millisecond, of two workers in turn, each after its sleep.
        let (mut times, mut bytes) = ([MS; 2], 0);
        while times[0].max(times[1]) < 1000 * MS {
            let next = usize::from(times[1] < times[0]);
            bytes += 200;
            times[next] += limit.pay_at(200, times[next]).unwrap_or(Duration::from_micros(10));
        }
        assert!((950_000..1_050_000).contains(&bytes), "{bytes}");
        // A pause is no credit.
        assert_eq!(limit.pay_at(500, 5000 * MS), None);
        assert_eq!(limit.pay_at(1000, 5000 * MS), Some(Duration::from_micros(1500)));
        assert_eq!(limit.pay_at(1 << 40, 5000 * MS), Some(SLEEP_MAX));
        limit.set(None);
        assert!(!limit.is_set());
    }
}
