//! Power failures: at any cycle of a run, recovery must make the state after some prefix of the
//! transactions from the persistent state.
//!
//! ```text
//!   trace of the run --prefix--> persistent state --batteries, recover--> heap
//!   what programs did ---------> transactions over | ending | running       |  compared
//! ```
//! The check of a cut, with `ends` the time at which a transaction's body ended:
//! - A transaction acknowledged before the cut is present.
//! - A transaction that was ending (its body over, not yet acknowledged) is present as a whole or
//!   absent.
//! - A transaction that was running is absent.
//!
//! At most cuts, recovery itself is cut at a random step, and again after it has restarted. At some
//! cuts it is cut at each of its steps. A recovered state must be *clean*: another recovery finds
//! nothing to do. The cut whose recovery had the most steps is the start of another run, for
//! designs that support it; that run continues from the recovered state and is cut too.
//!
//! Each cut compares the lines of all transactions since the last whole comparison, those of ending
//! and running transactions, and the lines that recovery wrote. Every hundredth cut compares the
//! whole heap and runs the allocator's check and the program's own. A run is cut in two forms, half
//! of the cuts each: with values, and tagged (see [`crate::machine::memory`]). The tagged form
//! detects a word with the right value from the wrong store.
//!
//! Half of the cuts are at random times, and the others during the end of a transaction. Some cuts
//! are inside each of the design's rare paths.

mod oracle;

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::design::Design;
use crate::error::Error;
use crate::image::Image;
use crate::machine::Machine;
use crate::machine::sparse::Sparse;
use crate::machine::when::Time;
use crate::persist::{Done, History, Persistent, Powered, Trace};
use crate::program::Loaded;
use oracle::{Found, Heap, Oracle};
use words::Erased;

/// The interval of cuts with a whole comparison.
const WHOLE: u64 = 100;

/// The interval of cuts that cut recovery at each step, and the largest number of steps for that.
const EVERY_STEP: (u64, u64) = (20, 64);

/// The interval of cuts after which recovery runs again.
const AGAIN: u64 = 4;

/// The least number of cuts inside each rare path, if the run took it.
const RARE: usize = 64;

/// The result of the cuts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The number of cuts.
    pub cuts: u64,
    /// The number of cuts of recoveries.
    pub recovery_cuts: u64,
    /// Descriptions of violations, at most [`Report::SHOWN`] of them.
    pub violations: Vec<String>,
    /// The number of all violations.
    pub violations_total: u64,
    /// The number of cuts inside each rare path of the design.
    pub rare_paths: BTreeMap<&'static str, u64>,
    /// The number of ending transactions that were present after a cut; `ending_gone` counts the
    /// absent ones.
    pub ending_there: u64,
    /// See `ending_there`.
    pub ending_gone: u64,
}

impl Report {
    /// The largest number of described violations.
    pub const SHOWN: usize = 10;

    /// Adds the result of cuts of the same run in another form.
    pub fn add(&mut self, other: Report) {
        self.cuts += other.cuts;
        self.recovery_cuts += other.recovery_cuts;
        self.violations.extend(other.violations);
        self.violations.truncate(Self::SHOWN);
        self.violations_total += other.violations_total;
        self.ending_there += other.ending_there;
        self.ending_gone += other.ending_gone;
        for (name, cuts) in other.rare_paths {
            *self.rare_paths.entry(name).or_default() += cuts;
        }
    }

    /// Counts what a comparison has found after a power failure at this time.
    fn note(&mut self, at: Time, found: Found) {
        self.ending_there += found.there;
        self.ending_gone += found.gone;
        if let Some(message) = found.violation {
            self.violation(at, message);
        }
    }

    fn violation(&mut self, at: Time, message: String) {
        self.violations_total += 1;
        if self.violations.len() < Self::SHOWN {
            self.violations.push(format!("power cut at cycle {at}: {message}"));
        }
    }
}

/// A finished run, ready to be cut.
pub struct Run<'m, D> {
    /// The idle machine, with its trace and history.
    pub machine: &'m Machine<D>,
    /// The persistent state before the run.
    pub before: Persistent,
    /// The first line after the heap.
    pub extra: u32,
    /// The program, if it can check a recovered heap; absent in a tagged run.
    pub loaded: Option<&'m dyn Loaded>,
    /// Violations after which the power is not cut any more.
    pub violations_max: u64,
}

/// Cuts power `cuts` times and reports progress through `progress`. Returns the result. If the run
/// can be continued, it also returns the recovered state of the cut whose recovery had the most
/// steps. Such a run has values, and its design supports continuation.
///
/// # Errors
/// When the program's own check fails to run.
///
/// # Panics
/// When the machine has no trace or no history.
pub(crate) fn cut_power<D: Design>(
    run: Run<'_, D>,
    cuts: u64,
    seed: u64,
    progress: &mut dyn FnMut(u64),
) -> Result<(Report, Option<Persistent>), Error> {
    let Run { machine, before, extra, loaded, violations_max } = run;
    let trace = machine.trace.as_ref().expect("a run to be cut has a trace");
    let history = machine.history.as_ref().expect("a run to be cut has a history");
    let mut report = Report::default();
    let times = choose_times(trace, history, D::RARE, cuts, seed, &mut report.rare_paths);
    let heap = heap_of::<D>(machine, &before, extra);
    let mut oracle = Oracle::new(heap, history);
    let may_continue =
        loaded.is_some() && D::resumes(&machine.description, extra, &before).is_some();
    let mut state = Powered::new(before);
    let mut most = None;
    let mut random = SmallRng::seed_from_u64(seed);
    let mut changes = trace.changes().iter().peekable();
    for (number, at) in (1_u64..).zip(times) {
        while let Some((_, change)) = changes.next_if(|(time, _)| *time <= at) {
            state.apply(change);
        }
        oracle.goes_to(at);
        // At a fixed interval, and at the last cut.
        let whole = number.is_multiple_of(WHOLE) || number == cuts;
        let one = Cutting { machine, extra, at, number, whole, may_continue };
        one.cut(&mut state, &mut oracle, &mut random, &mut report, &mut most);
        if whole && let Some(loaded) = loaded {
            one.check_program(&mut state, loaded, &mut report)?;
        }
        report.cuts += 1;
        if whole {
            progress(report.cuts);
        }
        if report.violations_total >= violations_max {
            break;
        }
    }
    Ok((report, most.map(|(_, left)| left)))
}

/// Returns the heap at the start of a run, as a program sees it.
fn heap_of<D: Design>(machine: &Machine<D>, before: &Persistent, extra: u32) -> Sparse {
    let mut heap = before.first_lines(extra);
    if D::MOVES {
        let line_map = D::line_map(&machine.description, extra);
        let found_at = |line| line_map(before, line);
        let moved = Heap { state: before, found_at: &found_at, moves: true };
        for line in moved.used_lines(&before.used(), extra) {
            heap.set_line(line, &moved.line(line));
        }
    }
    heap
}

/// A power failure during a run.
struct Cutting<'m, D> {
    machine: &'m Machine<D>,
    extra: u32,
    at: Time,
    number: u64,
    /// The cut compares the whole heap.
    whole: bool,
    /// Another run may start from the state that is recovered here.
    may_continue: bool,
}

/// Replaces the kept state by this one. The new lines are written over the old ones. New memory for
/// each copy would cost more than the rest of a cut, because the host clears each of its pages.
fn keep(most: &mut Option<(u64, Persistent)>, steps: u64, cut: &Persistent) {
    let mut lines = most.take().map(|(_, old)| old.into_lines()).unwrap_or_default();
    cut.words_into(&mut lines);
    *most = Some((steps, cut.with_lines(lines)));
}

impl<D: Design> Cutting<'_, D> {
    fn recover(&self, state: &mut Persistent) -> bool {
        D::recover(&self.machine.description, self.extra, state).is_ok()
    }

    /// Returns the index of the program's lines in the recovered state.
    fn line_map(&self) -> impl Fn(&Persistent, u32) -> u32 + use<D> {
        D::line_map(&self.machine.description, self.extra)
    }

    /// Recovers from this cut, with recovery cut again after each of these numbers of steps.
    fn recovered(&self, state: &mut Powered, again: &[u64]) -> Persistent {
        let mut failing = state.cut(self.machine.description.persist.point);
        D::power_fails(&self.machine.description, &mut failing);
        let mut cut = failing.over();
        for steps in again {
            cut.cut_after(*steps);
            self.recover(&mut cut);
        }
        cut.cut_after(u64::MAX);
        let whole = self.recover(&mut cut);
        assert!(whole, "a recovery without a cut completes");
        cut
    }

    /// Checks that a second recovery finds no valid log entry and nothing put aside, and would
    /// leave the registers as they are.
    fn recover_again(&self, cut: &mut Persistent, report: &mut Report) {
        cut.cut_after(u64::MAX);
        self.recover(cut);
        let Done { wrote, set, forgot, .. } = cut.done();
        let found = match (wrote.first().filter(|line| **line < self.extra), set, forgot) {
            (Some(line), ..) => format!("writes line {line}"),
            (_, Some((bank, index)), _) => format!("sets register {index} of bank {bank}"),
            (.., true) => "finds something put aside".to_owned(),
            _ => return,
        };
        report.violation(self.at, format!("another recovery {found}"));
    }

    fn cut(
        &self,
        state: &mut Powered,
        oracle: &mut Oracle<'_>,
        random: &mut SmallRng,
        report: &mut Report,
        most: &mut Option<(u64, Persistent)>,
    ) {
        let whole = self.whole;
        let mut cut = self.recovered(state, &[]);
        let steps = cut.done().steps;
        let found = self.compare(&cut, oracle, whole);
        report.note(self.at, found.clone());
        let first = if steps > 0 { Some(cut.overlay()) } else { None };
        if self.may_continue && most.as_ref().is_none_or(|(most, _)| steps > *most) {
            keep(most, steps, &cut);
        }
        if self.number.is_multiple_of(AGAIN) {
            self.recover_again(&mut cut, report);
        }
        state.back(cut);
        let all = self.number.is_multiple_of(EVERY_STEP.0) && steps <= EVERY_STEP.1;
        let again = match steps {
            0 => 0..0,
            steps if all => 0..steps,
            steps => {
                let step = random.random_range(0..steps);
                step..step + 1
            }
        };
        for step in again {
            // The restarted recovery has at most as many steps left, so the second cut may not
            // happen. A limit of `u64::MAX` runs it to completion and then once more: recoveries
            // may follow each other.
            let second = if all { u64::MAX } else { random.random_range(0..steps) };
            let cut = self.recovered(state, &[step, second]);
            // Most recoveries that are cut end in the same state as a recovery without a cut.
            let is_same = first.as_ref().is_some_and(|first| cut.has_overlay(first));
            let found = if is_same { found.clone() } else { self.compare(&cut, oracle, false) };
            report.note(self.at, found);
            state.back(cut);
            report.recovery_cuts += 1;
        }
    }

    fn compare(&self, cut: &Persistent, oracle: &mut Oracle<'_>, whole: bool) -> Found {
        let line_map = self.line_map();
        let found_at = |line| line_map(cut, line);
        let heap = Heap { state: cut, found_at: &found_at, moves: D::MOVES };
        oracle.compare(&heap, whole)
    }

    /// Runs the program's own check of the recovered heap.
    fn check_program(
        &self,
        state: &mut Powered,
        loaded: &dyn Loaded,
        report: &mut Report,
    ) -> Result<(), Error> {
        let cut = self.recovered(state, &[]);
        let line_map = self.line_map();
        let found_at = |line| line_map(&cut, line);
        let heap = Heap { state: &cut, found_at: &found_at, moves: D::MOVES };
        let mut words = Sparse::zeros(self.extra as usize * 8);
        for line in heap.used_lines(&cut.used(), self.extra) {
            words.set_line(line, &heap.line(line));
        }
        let mut image = Image::of(words);
        if let Some(damage) = image.damage() {
            report.violation(self.at, damage);
        }
        match loaded.check(&mut Erased::new(&mut image)) {
            Ok(complaints) => {
                complaints.into_iter().for_each(|complaint| report.violation(self.at, complaint));
            }
            Err(ended) => report.violation(self.at, format!("the workload's check fails: {ended}")),
        }
        state.back(cut);
        Ok(())
    }
}

/// Chooses the sorted times of the cuts. Also counts those inside of each rare path.
fn choose_times(
    trace: &Trace,
    history: &History,
    rare: &[&'static str],
    cuts: u64,
    seed: u64,
    inside: &mut BTreeMap<&'static str, u64>,
) -> Vec<Time> {
    let mut random = SmallRng::seed_from_u64(seed ^ 0x00c0_ffee);
    let last = trace.changes().last().map_or(0, |(time, _)| *time);
    let transactions = history.transactions();
    let mut times: Vec<Time> = Vec::new();
    let taken = trace.rare_paths().iter().map(|path| path.0);
    let rare: BTreeSet<&str> = rare.iter().copied().chain(taken).collect();
    for name in &rare {
        let paths: Vec<_> = trace.rare_paths().iter().filter(|path| path.0 == *name).collect();
        for _ in 0..RARE.min(cuts as usize / 2 / rare.len()) {
            if let Some((_, from, until)) = pick(&paths, &mut random) {
                times.push(random.random_range(*from..=*until));
            }
        }
    }
    while times.len() < cuts as usize {
        let ending =
            if times.len().is_multiple_of(2) { pick(transactions, &mut random) } else { None };
        times.push(match ending {
            Some(it) => random.random_range(it.ends..=it.acknowledged.min(last).max(it.ends)),
            None => random.random_range(0..=last),
        });
    }
    times.sort_unstable();
    for name in rare {
        let is_inside = |time: &&Time| {
            let mut paths = trace.rare_paths().iter();
            paths.any(|path| path.0 == name && (path.1..=path.2).contains(time))
        };
        inside.insert(name, times.iter().filter(is_inside).count() as u64);
    }
    times
}

fn pick<'a, T>(all: &'a [T], random: &mut SmallRng) -> Option<&'a T> {
    if all.is_empty() { None } else { all.get(random.random_range(0..all.len())) }
}

#[cfg(test)]
mod tests;
