//! Progress of loading, on standard error.

use std::time::{Duration, Instant};

/// Time between two lines.
const EVERY: Duration = Duration::from_secs(5);

/// Prints how much of a store is loaded, every few seconds.
#[derive(Debug)]
pub(crate) struct Progress {
    total: u64,
    begun: Instant,
    printed: Instant,
}

impl Progress {
    /// Returns the progress towards so many records.
    pub(crate) fn new(total: u64) -> Progress {
        let now = Instant::now();
        Progress { total, begun: now, printed: now }
    }

    /// Reports the records loaded so far.
    pub(crate) fn reached(&mut self, records: u64) {
        if self.printed.elapsed() >= EVERY {
            self.printed = Instant::now();
            eprintln!("  loading: {:.0} %", 100.0 * records as f64 / self.total as f64);
        }
    }

    /// Reports the end of loading, after everything was synced.
    pub(crate) fn done(&self) {
        let (records, seconds) = (self.total, self.begun.elapsed().as_secs_f64());
        eprintln!("  loaded {records} records in {seconds:.1} s");
    }
}
