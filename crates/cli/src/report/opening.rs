//! A line about an opening that takes long.
//!
//! ```text
//!   opening the pool: reads the log, 41 of 1024 MiB, about 6 s left
//! ```

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use lastword::{Opening, OpeningStep};

/// Time left for which nothing is printed.
const SHORT: Duration = Duration::from_secs(2);

/// Time between two lines.
const INTERVAL: Duration = Duration::from_secs(5);

/// Returns a function for [`lastword::Options::on_opening`] that prints lines to stderr.
pub(crate) fn printer() -> impl Fn(Opening) + Send + Sync + 'static {
    let last: Mutex<Option<Instant>> = Mutex::new(None);
    move |opening| {
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| last.elapsed() >= INTERVAL);
        let Opening { step, done_bytes, total_bytes, remaining, .. } = opening;
        if let Some(left) = remaining.filter(|left| is_due && *left > SHORT) {
            *last = Some(Instant::now());
            let _ = writeln!(io::stderr(), "{}", line(step, (done_bytes, total_bytes), left));
        }
    }
}

fn line(step: OpeningStep, (done, all): (u64, u64), left: Duration) -> String {
    let doing = match step {
        OpeningStep::Verify => "compares the heap with its checksums",
        OpeningStep::ReadLog => "reads the log",
        OpeningStep::WritePages => "writes the pages that the log has changed",
        OpeningStep::ReadHeap => "reads the heap",
        _ => "works",
    };
    let (done, all, left) = (done >> 20, all >> 20, left.as_secs_f64().ceil());
    format!("opening the pool: {doing}, {done} of {all} MiB, about {left} s left")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_has_step_and_time_left() {
        let line = line(OpeningStep::ReadLog, (41 << 20, 1 << 30), Duration::from_millis(5_001));
        assert_eq!(line, "opening the pool: reads the log, 41 of 1024 MiB, about 6 s left");
    }
}
