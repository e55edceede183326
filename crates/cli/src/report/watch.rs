//! Lines of `lastword run --watch`: the state of the pool, once a second.
//!
//! ```text
//!     s       tx/s   log MiB      used    log MiB/s  image MiB/s  image/log  wait ms  undurable ms
//!     1     226014     32.00    12.4 %         16.2          0.0       0.00      0.0           1.2
//! ```
//!
//! Rates and times are of the second that has passed. A line comes up to a quarter of a second late
//! and its rates take that into account.

use std::io::{self, Write};
use std::time::Duration;

use lastword::Metrics;

use crate::driver::since;

/// Time between two lines.
const EVERY: Duration = Duration::from_secs(1);

/// The lines of one run.
pub(crate) struct Watch {
    /// The state at the last line.
    before: Metrics,
    committed: u64,
    at: Duration,
    next: Duration,
}

impl Watch {
    /// Begins with the state before the run, and prints the heads of the columns.
    pub(crate) fn new(before: Metrics, committed: u64) -> Watch {
        print(&format!(
            "{:>5} {:>10} {:>9} {:>9} {:>12} {:>12} {:>10} {:>8} {:>13}",
            "s",
            "tx/s",
            "log MiB",
            "used",
            "log MiB/s",
            "image MiB/s",
            "image/log",
            "wait ms",
            "undurable ms"
        ));
        Watch { before, committed, at: Duration::ZERO, next: EVERY }
    }

    /// Prints a line if one is due. `state` returns the metrics and the last committed ID.
    pub(crate) fn at(&mut self, elapsed: Duration, state: impl FnOnce() -> (Metrics, u64)) {
        if elapsed < self.next {
            return;
        }
        let (metrics, committed) = state();
        let seconds = (elapsed - self.at).as_secs_f64();
        let done = committed.saturating_sub(self.committed);
        print(&line(elapsed, seconds, done, &metrics, &since(&metrics, &self.before)));
        (self.before, self.committed, self.at) = (metrics, committed, elapsed);
        while self.next <= elapsed {
            self.next += EVERY;
        }
    }
}

/// Formats a line. `spent` is the difference to the line before, `seconds` earlier.
fn line(
    elapsed: Duration,
    seconds: f64,
    transactions: u64,
    now: &Metrics,
    spent: &Metrics,
) -> String {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let per_second = |number: f64| number / seconds;
    let ratio = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    format!(
        "{:>5} {:>10.0} {:>9.2} {:>7.1} % {:>12.1} {:>12.1} {:>10.2} {:>8.1} {:>13.1}",
        elapsed.as_secs(),
        per_second(transactions as f64),
        mib(now.log_used_bytes),
        100.0 * ratio(now.log_used_bytes, now.log_capacity_bytes),
        per_second(mib(spent.log_bytes)),
        per_second(mib(spent.heap_image_bytes)),
        ratio(spent.heap_image_bytes, spent.log_bytes),
        spent.room_wait_ns as f64 / 1e6,
        now.undurable_ns as f64 / 1e6,
    )
}

fn print(line: &str) {
    // A failed write to stderr cannot be reported anywhere.
    let _ = writeln!(io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watch_line_has_a_value_for_each_column() {
        let mut now = Metrics::default();
        (now.log_used_bytes, now.log_capacity_bytes) = (8 << 20, 64 << 20);
        (now.log_bytes, now.heap_image_bytes, now.undurable_ns) = (4 << 20, 20 << 20, 1_500_000);
        let line = line(Duration::from_millis(3100), 2.0, 1000, &now, &now);
        let values: Vec<&str> = line.split_whitespace().collect();
        let expected = ["3", "500", "8.00", "12.5", "%", "2.0", "10.0", "5.00", "0.0", "1.5"];
        assert_eq!(values, expected);
    }
}
