//! The entry to shuttle. Half of the schedules are random. The other half have random priorities
//! with few changes (PCT), which finds bugs that need few switches, far apart.

use shuttle::rand::{RngCore, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, Runner};

/// The number of priority changes.
const PCT_DEPTH: usize = 4;

/// Returns the number of schedules, multiplied by the variable `SCHEDULES` for longer runs.
fn scaled(schedules: usize) -> usize {
    let times = std::env::var("SCHEDULES").ok().and_then(|times| times.parse().ok());
    schedules * times.unwrap_or(1)
}

/// Explores so many schedules, each with a seed for the model's own choices. Equal values of the
/// variable `SEED` (default 0) give equal schedules.
///
/// # Panics
/// When the model panics in a schedule; the message says how to repeat it.
pub(crate) fn explore(schedules: usize, model: impl Fn(u64) + Clone + Send + Sync + 'static) {
    let schedules = scaled(schedules);
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    run(RandomScheduler::new_from_seed(seed, schedules / 2), model.clone());
    run(PctScheduler::new_from_seed(seed, PCT_DEPTH, schedules / 2), model);
}

fn run(scheduler: impl Scheduler + 'static, model: impl Fn(u64) + Send + Sync + 'static) {
    let mut config = Config::new();
    config.silence_warnings = true;
    config.failure_persistence = FailurePersistence::None;
    config.stack_size = 1 << 18;
    Runner::new(scheduler, config).run(move || {
        models::trials::execution();
        model(thread_rng().next_u64());
    });
}

/// A generator of small random numbers, reproducible from its seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed | 1)
    }

    pub(crate) fn below(&mut self, sides: u64) -> u64 {
        // xorshift64; its upper bits are better.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) % sides
    }
}
