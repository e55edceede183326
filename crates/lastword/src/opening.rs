//! Progress of an opening.

use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};

use crate::sync::Arc;

/// A step of an opening that reads or writes much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpeningStep {
    /// The pages of the heap are compared with their checksums.
    Verify,
    /// After a crash: the transactions in the log are read.
    ReadLog,
    /// After a crash, on [`Medium::File`](crate::Medium::File): the pages that they changed are
    /// written.
    WritePages,
    /// The heap is read into a [`Shadow::Full`](crate::Shadow::Full).
    ReadHeap,
}

/// Progress of an opening; see [`Options::on_opening`](crate::Options::on_opening).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Opening {
    /// The step.
    pub step: OpeningStep,
    /// Bytes of the step that are done.
    pub done_bytes: u64,
    /// The most bytes that the step may have. It ends earlier if the log has fewer transactions, or
    /// the file has holes.
    pub total_bytes: u64,
    /// The time that the step will take at most, at its speed so far. `None` when it begins.
    pub remaining: Option<Duration>,
}

/// Time between two reports of one step.
const INTERVAL: Duration = Duration::from_millis(100);

type Observer = dyn Fn(Opening) + Send + Sync;

/// The function that an opening calls.
#[derive(Clone, Default)]
pub(crate) struct OnOpening(Option<Arc<Observer>>);

impl fmt::Debug for OnOpening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Some(..)" } else { "None" })
    }
}

impl OnOpening {
    pub(crate) fn new(observer: impl Fn(Opening) + Send + Sync + 'static) -> OnOpening {
        OnOpening(Some(Arc::new(observer)))
    }

    /// Reports the begin of a step.
    pub(crate) fn begin(&self, step: OpeningStep, total_bytes: u64) -> StepProgress<'_> {
        let watched = self.0.as_deref().map(|observer| {
            observer(Opening { step, done_bytes: 0, total_bytes, remaining: None });
            let begun = Instant::now();
            Watched { observer, begun, reported: Cell::new(begun) }
        });
        StepProgress { watched, step, total_bytes, done_bytes: Cell::new(0) }
    }

    /// Whether there is such a function.
    pub(crate) fn is_set(&self) -> bool {
        self.0.is_some()
    }
}

/// The progress of one step.
pub(crate) struct StepProgress<'o> {
    /// `None`: no function observes it.
    watched: Option<Watched<'o>>,
    step: OpeningStep,
    total_bytes: u64,
    done_bytes: Cell<u64>,
}

struct Watched<'o> {
    observer: &'o Observer,
    begun: Instant,
    reported: Cell<Instant>,
}

impl StepProgress<'_> {
    /// Adds bytes, and reports them if the last report is old.
    pub(crate) fn add(&self, bytes: u64) {
        let Some(watched) = &self.watched else { return };
        let done_bytes = self.done_bytes.get() + bytes;
        self.done_bytes.set(done_bytes);
        let now = Instant::now();
        if now - watched.reported.get() < INTERVAL || done_bytes == 0 {
            return;
        }
        watched.reported.set(now);
        let (step, total_bytes) = (self.step, self.total_bytes.max(done_bytes));
        let left = (total_bytes - done_bytes) as f64 / done_bytes as f64;
        let remaining = Some((now - watched.begun).mul_f64(left));
        (watched.observer)(Opening { step, done_bytes, total_bytes, remaining });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{Mutex, lock};

    #[test]
    fn remaining_time_follows_from_the_speed() {
        let reports = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&reports);
        let on_opening = OnOpening::new(move |opening| lock(&noted).push(opening));
        let progress = on_opening.begin(OpeningStep::ReadHeap, 100);
        std::thread::sleep(INTERVAL);
        progress.add(0);
        progress.add(25);
        progress.add(25);
        let reports = lock(&reports);
        let done: Vec<u64> = reports.iter().map(|opening| opening.done_bytes).collect();
        // The last bytes come before a report is due, unless the machine is slow.
        assert!(done == [0, 25] || done == [0, 25, 50], "{done:?}");
        assert_eq!(reports[0].remaining, None);
        assert!(reports[1].remaining >= Some(3 * INTERVAL), "three quarters are left");
    }
}
