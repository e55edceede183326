//! Which ways through a case are gone.
//!
//! | tier | ways | for |
//! |---|---|---|
//! | A | all of them | the smallest cases |
//! | B | those that differ in few contents from a policy; every crash and order | more |
//! | C | random ones, from a seed | anything |
//!
//! Tiers A and B are one search: an execution makes its choices by its policy from where the laid
//! down ones end, and each choice that it made there could have been another one, which is laid
//! down next. So every vector of choices is gone once, and nothing but vectors is kept. In tier B a
//! content other than the policy's counts, and only so many of them are laid down.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use medium::recording::Ask;
use rustc_hash::FxHashSet;

use crate::{Case, Chance, Made, Outcome, Picker, Policy, Prepared, Report, Trace, Violation};

/// How ways are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// All.
    A,
    /// At most so many contents other than the policy's.
    B {
        /// How many.
        deviations: u32,
    },
    /// By chance.
    C {
        /// The first execution's seed; each takes the one that follows.
        seed: u64,
    },
}

/// When to stop, at the latest with the first violation.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Executions at most.
    pub executions: u64,
    /// Time at most.
    pub time: Option<Duration>,
    /// Threads.
    pub threads: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { executions: u64::MAX, time: None, threads: 1 }
    }
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Executions.
    pub executions: u64,
    /// Images that recoveries have ended with, each counted once.
    pub distinct_images: u64,
    /// Openings after a crash that went through.
    pub recoveries: u64,
    /// Crashes while the pool was being opened.
    pub nested_crashes: u64,
    /// Calls that failed.
    pub faults: u64,
    /// How crashes turned out for what was not acknowledged.
    pub outcome: Outcome,
    /// Whether every way was gone (tiers A and B).
    pub complete: bool,
}

/// What came of a search.
#[derive(Clone, Debug)]
pub struct Found {
    /// What was seen.
    pub statistics: Statistics,
    /// The first violation, and how to get there again.
    pub violation: Option<(Violation, Trace)>,
}

/// Ways to go, and what came of those that were gone.
struct Search<'a> {
    case: &'a Case,
    prepared: &'a Prepared,
    tier: Tier,
    limits: Limits,
    started: Instant,
    begun: AtomicU64,
    stop: AtomicBool,
    ways: Mutex<Ways>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Ways {
    ahead: VecDeque<Way>,
    /// Threads that are on a way, and may find more.
    busy: usize,
}

/// Choices that are laid down, and how many of them count as deviations.
struct Way {
    policy: Policy,
    laid_down: Vec<u16>,
    deviations: u32,
}

#[derive(Default)]
struct Seen {
    statistics: Statistics,
    images: FxHashSet<u64>,
    violation: Option<(Violation, Trace)>,
}

/// Goes ways through a case until there are no more, a limit is reached, or a promise is broken.
pub fn explore(case: &Case, prepared: &Prepared, tier: Tier, limits: Limits) -> Found {
    let policies = match tier {
        Tier::A => vec![Policy::AllOld],
        Tier::B { .. } => {
            vec![Policy::AllOld, Policy::AllNew, Policy::OnlyNewest, Policy::AllButNewest]
        }
        Tier::C { .. } => Vec::new(),
    };
    let first = |policy| Way { policy, laid_down: Vec::new(), deviations: 0 };
    let ahead = policies.into_iter().map(first).collect();
    let search = Search {
        case,
        prepared,
        tier,
        limits,
        started: Instant::now(),
        begun: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        ways: Mutex::new(Ways { ahead, busy: 0 }),
        seen: Mutex::default(),
    };
    std::thread::scope(|scope| {
        for _ in 1..limits.threads {
            scope.spawn(|| search.go());
        }
        search.go();
    });
    let mut seen = search.seen.into_inner().unwrap_or_else(PoisonError::into_inner);
    seen.statistics.distinct_images = seen.images.len() as u64;
    let ahead = search.ways.into_inner().unwrap_or_else(PoisonError::into_inner).ahead;
    let stopped = search.stop.into_inner();
    seen.statistics.complete = !stopped && ahead.is_empty() && !matches!(tier, Tier::C { .. });
    Found { statistics: seen.statistics, violation: seen.violation }
}

impl Search<'_> {
    fn go(&self) {
        while let Some(way) = self.next() {
            let laid_down = way.laid_down.len();
            let picker = Picker::new(way.laid_down.clone(), way.policy.clone());
            // A panic of ours must not leave the others waiting for more ways.
            let run = || self.prepared.run(self.case, picker);
            let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            let (report, picker) = run.unwrap_or_else(|panic| {
                self.stop.store(true, Ordering::Relaxed);
                std::panic::resume_unwind(panic)
            });
            self.add(report, picker.made());
            self.branch(&way, laid_down, picker.made());
        }
    }

    /// The next way; `None` when it is time to stop.
    fn next(&self) -> Option<Way> {
        loop {
            // Relaxed: flags and numbers that carry nothing with them.
            let late = self.limits.time.is_some_and(|time| self.started.elapsed() >= time);
            if late || self.stop.load(Ordering::Relaxed) {
                self.stop.store(true, Ordering::Relaxed);
                return None;
            }
            let taken = self.take();
            if let Some(taken) = taken {
                let number = self.begun.fetch_add(1, Ordering::Relaxed);
                if number >= self.limits.executions {
                    self.stop.store(true, Ordering::Relaxed);
                    return None;
                }
                return match (taken, self.tier) {
                    (Some(way), _) => Some(way),
                    (None, Tier::C { seed }) => {
                        let chance = Chance::new(seed.wrapping_add(number));
                        let policy = Policy::Chance(Box::new(chance));
                        Some(Way { policy, laid_down: Vec::new(), deviations: 0 })
                    }
                    (None, _) => None,
                };
            }
            std::thread::yield_now();
        }
    }

    /// A way from the heap: `Some(None)` when there is none and there will be none, `None` when
    /// another thread may find some.
    fn take(&self) -> Option<Option<Way>> {
        if matches!(self.tier, Tier::C { .. }) {
            return Some(None);
        }
        let mut ways = lock(&self.ways);
        let way = match self.tier {
            // What is nearest to the policies first, each of them in turn.
            Tier::B { .. } => ways.ahead.pop_front(),
            _ => ways.ahead.pop_back(),
        };
        match way {
            Some(way) => {
                ways.busy += 1;
                Some(Some(way))
            }
            None if ways.busy == 0 => Some(None),
            None => None,
        }
    }

    /// Lays down what could have been chosen instead.
    fn branch(&self, way: &Way, laid_down: usize, made: &[Made]) {
        if matches!(self.tier, Tier::C { .. }) {
            return;
        }
        let mut ways = lock(&self.ways);
        ways.busy -= 1;
        let most = match self.tier {
            Tier::B { deviations } => deviations,
            _ => u32::MAX,
        };
        for (at, choice) in made.iter().enumerate().skip(laid_down) {
            let costs = matches!(choice.ask, Ask::Content | Ask::Word | Ask::Name);
            let deviations = way.deviations + u32::from(costs);
            if deviations > most {
                continue;
            }
            for other in (0..choice.options).filter(|other| *other != choice.chosen) {
                let before = made[..at].iter().map(|made| made.chosen);
                let laid_down = before.chain([other]).collect();
                ways.ahead.push_back(Way { policy: way.policy.clone(), laid_down, deviations });
            }
        }
    }

    fn add(&self, report: Report, made: &[Made]) {
        let mut seen = lock(&self.seen);
        let Seen { statistics, images, violation } = &mut *seen;
        statistics.executions += 1;
        statistics.recoveries += report.recoveries;
        statistics.nested_crashes += report.nested_crashes;
        statistics.faults += report.faults;
        statistics.outcome.all_present += report.outcome.all_present;
        statistics.outcome.some_lost += report.outcome.some_lost;
        statistics.outcome.none += report.outcome.none;
        images.extend(report.images);
        if let Some(broken) = report.violation
            && violation.is_none()
        {
            let choices = made.iter().map(|made| made.chosen).collect();
            *violation = Some((broken, Trace { case: self.case.clone(), choices }));
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
