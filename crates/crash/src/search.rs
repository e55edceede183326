//! The search: it selects the executions of a case to explore.
//!
//! | tier | executions | for |
//! |---|---|---|
//! | A | all of them | the smallest cases |
//! | B | those that differ in few contents from a policy; every crash and order | more |
//! | C | random ones, from a seed | anything |
//!
//! Tiers A and B are one search. An execution follows a prefix of given choices and then a policy.
//! For each choice that the policy made, every other option gives a new prefix to explore. Each
//! vector of choices is therefore explored once, and only vectors are stored. In tier B a content
//! other than the policy's is a deviation, and a prefix has a limited number of them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use faults::recording::Ask;
use medium::KeptMemory;
use rustc_hash::FxHashSet;

use crate::{Case, Chance, Made, Outcome, Picker, Policy, Prepared, Report, Trace, Violation};

/// The selection of executions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// All.
    A,
    /// At most so many contents other than the policy's.
    B {
        /// The limit.
        deviations: u32,
    },
    /// Random.
    C {
        /// The first execution's seed; each next one adds one.
        seed: u64,
    },
}

/// The limits of a search, which also ends at the first violation.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Limit of executions.
    pub executions: u64,
    /// Limit of time.
    pub time: Option<Duration>,
    /// Number of threads.
    pub threads: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { executions: u64::MAX, time: None, threads: 1 }
    }
}

/// The counts of a search.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Executions.
    pub executions: u64,
    /// Distinct images at the end of recoveries.
    pub distinct_images: u64,
    /// Successful openings after a crash.
    pub recoveries: u64,
    /// Crashes while the pool was being opened.
    pub nested_crashes: u64,
    /// Calls that failed.
    pub faults: u64,
    /// Transactions that met a full heap.
    pub met_full: u64,
    /// Those of them that committed after the pool had reclaimed memory.
    pub served: u64,
    /// The outcomes of crashes for transactions that were not acknowledged.
    pub outcome: Outcome,
    /// Whether every execution was explored (tiers A and B).
    pub complete: bool,
}

/// The result of a search.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its counts.
    pub statistics: Statistics,
    /// The first violation, and its trace.
    pub violation: Option<(Violation, Trace)>,
}

/// The state of a search: prefixes to explore, and results.
struct Search<'a> {
    case: &'a Case,
    prepared: &'a Prepared,
    tier: Tier,
    limits: Limits,
    started: Instant,
    begun: AtomicU64,
    stop: AtomicBool,
    prefixes: Mutex<Prefixes>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Prefixes {
    ahead: VecDeque<Prefix>,
    /// Threads that run an execution, and may add prefixes.
    busy: usize,
}

/// A prefix of choices, and how many of them are deviations.
struct Prefix {
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

/// Explores executions of a case until all are done, a limit is reached, or a violation is found.
pub fn explore(case: &Case, prepared: &Prepared, tier: Tier, limits: Limits) -> Found {
    let policies = match tier {
        Tier::A => vec![Policy::AllOld],
        Tier::B { .. } => {
            vec![Policy::AllOld, Policy::AllNew, Policy::OnlyNewest, Policy::AllButNewest]
        }
        Tier::C { .. } => Vec::new(),
    };
    let first = |policy| Prefix { policy, laid_down: Vec::new(), deviations: 0 };
    let ahead = policies.into_iter().map(first).collect();
    let search = Search {
        case,
        prepared,
        tier,
        limits,
        started: Instant::now(),
        begun: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        prefixes: Mutex::new(Prefixes { ahead, busy: 0 }),
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
    let ahead = search.prefixes.into_inner().unwrap_or_else(PoisonError::into_inner).ahead;
    let stopped = search.stop.into_inner();
    seen.statistics.complete = !stopped && ahead.is_empty() && !matches!(tier, Tier::C { .. });
    Found { statistics: seen.statistics, violation: seen.violation }
}

impl Search<'_> {
    fn go(&self) {
        // Each execution opens pools of the same few sizes.
        let _kept = KeptMemory::on_this_thread();
        while let Some(prefix) = self.next() {
            let laid_down = prefix.laid_down.len();
            let picker = Picker::new(prefix.laid_down.clone(), prefix.policy.clone());
            // After a panic of the explorer itself, wake the other threads: they wait for prefixes.
            let run = || self.prepared.run(self.case, picker);
            let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            let (report, picker) = run.unwrap_or_else(|panic| {
                self.stop.store(true, Ordering::Relaxed);
                std::panic::resume_unwind(panic)
            });
            self.add(report, picker.made());
            self.branch(&prefix, laid_down, picker.made());
        }
    }

    /// Returns the next prefix; `None` when the search ends.
    fn next(&self) -> Option<Prefix> {
        loop {
            // Relaxed: flags and counters that publish no other data.
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
                    (Some(prefix), _) => Some(prefix),
                    (None, Tier::C { seed }) => {
                        let chance = Chance::new(seed.wrapping_add(number));
                        let policy = Policy::Chance(Box::new(chance));
                        Some(Prefix { policy, laid_down: Vec::new(), deviations: 0 })
                    }
                    (None, _) => None,
                };
            }
            std::thread::yield_now();
        }
    }

    /// Takes a prefix from the queue: `Some(None)` at the end, `None` while another thread may
    /// still add some.
    fn take(&self) -> Option<Option<Prefix>> {
        if matches!(self.tier, Tier::C { .. }) {
            return Some(None);
        }
        let mut prefixes = lock(&self.prefixes);
        let prefix = match self.tier {
            // Those nearest to the policies first, each policy in turn.
            Tier::B { .. } => prefixes.ahead.pop_front(),
            _ => prefixes.ahead.pop_back(),
        };
        match prefix {
            Some(prefix) => {
                prefixes.busy += 1;
                Some(Some(prefix))
            }
            None if prefixes.busy == 0 => Some(None),
            None => None,
        }
    }

    /// Adds a prefix for every other option of the choices that the policy made.
    fn branch(&self, prefix: &Prefix, laid_down: usize, made: &[Made]) {
        if matches!(self.tier, Tier::C { .. }) {
            return;
        }
        let mut prefixes = lock(&self.prefixes);
        prefixes.busy -= 1;
        let most = match self.tier {
            Tier::B { deviations } => deviations,
            _ => u32::MAX,
        };
        for (at, choice) in made.iter().enumerate().skip(laid_down) {
            let costs = matches!(choice.ask, Ask::Content | Ask::Word | Ask::Name);
            let deviations = prefix.deviations + u32::from(costs);
            if deviations > most {
                continue;
            }
            for other in (0..choice.options).filter(|other| *other != choice.chosen) {
                let before = made[..at].iter().map(|made| made.chosen);
                let laid_down = before.chain([other]).collect();
                prefixes.ahead.push_back(Prefix {
                    policy: prefix.policy.clone(),
                    laid_down,
                    deviations,
                });
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
        statistics.met_full += report.met_full;
        statistics.served += report.served;
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
