//! Combining and helping, with a miniature persist step.

use super::persist::waiters::{StepEnd, help_until, try_step};
use super::persist::{Progress, Step};
use crate::explore::explore;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, thread};
use models::outcomes::Outcomes;

/// A pipeline whose log is a number: bit i is the record of worker i.
struct Pipeline {
    published: AtomicU64,
    persisted: Mutex<u64>,
    progress: Progress,
}

impl Pipeline {
    fn new() -> Arc<Pipeline> {
        Arc::new(Pipeline {
            published: AtomicU64::new(0),
            persisted: Mutex::new(0),
            progress: Progress::new(0),
        })
    }

    fn step(&self) -> Result<Step, ()> {
        try_step(&self.persisted, &self.progress, StepEnd::Awaited, |persisted, _| {
            let published = self.published.load(Ordering::Acquire);
            if published == *persisted {
                return Ok(Step::Nothing);
            }
            *persisted = published;
            self.progress.advance(published);
            Ok(Step::Done)
        })
    }

    fn commit(&self, record: u64) {
        self.published.fetch_or(record, Ordering::Release);
        // `done` tests the record's bit, because the number of another record may be larger.
        let done = || (self.progress.durable() & record != 0).then_some(());
        help_until(&self.progress, record, done, || self.step()).expect("a step cannot fail");
    }
}

/// A background thread runs one step and never returns. A record that it has missed is left to the
/// worker that found the step busy.
pub(crate) fn helper_that_finds_step_busy_is_woken() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(5), move || {
        let pipeline = Pipeline::new();
        let theirs = Arc::clone(&pipeline);
        let background = thread::spawn(move || theirs.step());
        pipeline.commit(1);
        let step = background.join().expect("the thread ends").expect("a step cannot fail");
        seen.saw(step as u64);
    });
    met.are([Step::Done, Step::Nothing, Step::Busy].map(|step| step as u64));
}

pub(crate) fn concurrent_helpers_terminate() {
    explore(Some(4), || {
        let pipeline = Pipeline::new();
        let theirs = Arc::clone(&pipeline);
        let other = thread::spawn(move || theirs.commit(2));
        pipeline.commit(1);
        other.join().expect("the other ends");
        assert_eq!(pipeline.progress.durable(), 3);
    });
}
