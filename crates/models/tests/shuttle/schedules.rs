//! Runs shuttle: half of the schedules random, half with random priorities that change seldom
//! (PCT), which finds bugs that need few but far-apart switches.

use shuttle::rand::{RngCore, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, Runner};

/// Places where priorities change.
const PCT_DEPTH: usize = 4;

/// So many schedules, or `SCHEDULES` times as many: for longer runs.
fn scaled(schedules: usize) -> usize {
    let times = std::env::var("SCHEDULES").ok().and_then(|times| times.parse().ok());
    schedules * times.unwrap_or(1)
}

/// Explores so many schedules, with a seed for the model's own choices in each; always the same
/// ones for a `SEED` (0 when it is not set).
///
/// # Panics
/// When the model panics in one; the message says how to repeat it.
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

/// Small random numbers, the same for every run of one seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed | 1)
    }

    pub(crate) fn below(&mut self, sides: u64) -> u64 {
        // xorshift64, and its better bits.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) % sides
    }
}
