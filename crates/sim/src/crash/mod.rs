//! Power cuts: at any cycle of a run, is what recovery makes of the persistent state the state
//! after some transaction?
//!
//! ```text
//!   trace of the run --prefix--> persistent state --batteries, recover--> heap
//!   what programs did ---------> transactions over | ending | running       |  compared
//! ```
//! At a cut, with `ends` the moment when a body was over:
//! - what was acknowledged before the cut is there;
//! - a transaction that was ending (over, not acknowledged) is there whole, or not at all;
//! - of a transaction that was running nothing is there.
//!
//! Recovery itself is cut at a random step of most cuts, and once more when it has begun again; at
//! some cuts it is cut at each of its steps. And what is recovered is *clean*: another recovery
//! finds nothing to do there. The moment after which recovery had the most to do is where another
//! run begins, of a design that says how it does: it goes on with what is there, and is cut, too.
//!
//! Compared are, at every cut, the lines of all transactions since the last whole comparison, of
//! those that were ending or running, and those that recovery wrote; the whole heap, and what the
//! program itself checks, at every hundredth. A run is cut in two forms, half of the times each: as
//! it is, and tagged (see [`crate::machine::memory`]). So a word that has the right value, but was
//! written by another store than the one that must have, is found.
//!
//! Cuts are drawn: half of them anywhere, the others while a transaction ends, and some inside of
//! each path that the design takes rarely.

mod oracle;

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::design::Design;
use crate::error::Error;
use crate::image::Image;
use crate::machine::Machine;
use crate::machine::memory::copy_of;
use crate::machine::when::Time;
use crate::persist::{Done, History, Persistent, Powered, Trace};
use crate::program::Loaded;
use oracle::{Heap, Oracle};
use words::Erased;

/// At every so many cuts all is compared.
const WHOLE: u64 = 100;

/// At every so many cuts recovery is cut at each of its steps, of which there may be so many.
const EVERY_STEP: (u64, u64) = (20, 64);

/// At every so many cuts what is recovered is recovered again.
const AGAIN: u64 = 4;

/// Cuts inside of each rare path, at least, when it was taken so often.
const RARE: usize = 64;

/// What the cuts have shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many there were.
    pub cuts: u64,
    /// Cuts of recoveries.
    pub recovery_cuts: u64,
    /// What must not be, in words: at most [`Report::SHOWN`] of them.
    pub violations: Vec<String>,
    /// All of them.
    pub violations_total: u64,
    /// Cuts inside of each path that the design takes rarely.
    pub rare_paths: BTreeMap<&'static str, u64>,
    /// Cuts after which a transaction that was ending was there, and was not.
    pub ending_there: u64,
    /// See `ending_there`.
    pub ending_gone: u64,
}

impl Report {
    /// Violations that are told in words.
    pub const SHOWN: usize = 10;

    /// Adds what cuts of the same run in another form have shown.
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

    fn violation(&mut self, at: Time, what: String) {
        self.violations_total += 1;
        if self.violations.len() < Self::SHOWN {
            self.violations.push(format!("power cut at cycle {at}: {what}"));
        }
    }
}

/// What a run has left for its cuts.
pub struct Run<'m, D> {
    /// The machine, at rest, with its trace and history.
    pub machine: &'m Machine<D>,
    /// What was persistent in the beginning.
    pub before: Persistent,
    /// The first line behind the heap.
    pub extra: u32,
    /// The program, if it can check what recovery leaves: not of a tagged run.
    pub loaded: Option<&'m dyn Loaded>,
}

/// Cuts power so many times, and tells now and then how often it has. Answers what that has shown,
/// and what was left where recovery had the most to do.
///
/// # Errors
/// When the program's own check cannot be made.
///
/// # Panics
/// When the machine has neither trace nor history.
pub(crate) fn cut_power<D: Design>(
    run: Run<'_, D>,
    cuts: u64,
    seed: u64,
    told: &mut dyn FnMut(u64),
) -> Result<(Report, Option<Persistent>), Error> {
    let Run { machine, before, extra, loaded } = run;
    let trace = machine.trace.as_ref().expect("a run that is cut has a trace");
    let history = machine.history.as_ref().expect("a run that is cut has a history");
    let mut report = Report::default();
    let times = draw(trace, history, D::RARE, cuts, seed, &mut report.rare_paths);
    let heap = heap_of::<D>(machine, &before, extra);
    let mut oracle = Oracle::new(heap, history);
    let mut state = Powered::new(before);
    let mut most = None;
    let mut random = SmallRng::seed_from_u64(seed);
    let mut changes = trace.changes().iter().peekable();
    for (number, at) in (1_u64..).zip(times) {
        while let Some((_, change)) = changes.next_if(|(time, _)| *time <= at) {
            state.apply(change);
        }
        oracle.goes_to(at);
        // Now and then, and at the last cut.
        let whole = number.is_multiple_of(WHOLE) || number == cuts;
        let one = Cutting { machine, extra, at, number, whole };
        one.cut(&mut state, &mut oracle, &mut random, &mut report, &mut most);
        if whole && let Some(loaded) = loaded {
            one.check_program(&mut state, loaded, &mut report)?;
        }
        report.cuts += 1;
        if whole {
            told(report.cuts);
        }
    }
    Ok((report, most.map(|(_, left)| left)))
}

/// The heap with which a run began, as a program saw it.
fn heap_of<D: Design>(machine: &Machine<D>, before: &Persistent, extra: u32) -> Vec<u64> {
    let mut heap = copy_of(before.first_lines(extra), extra as usize * 8);
    if D::MOVES {
        let finder = D::finder(&machine.description, extra);
        for (line, words) in (0..).zip(heap.chunks_exact_mut(8)) {
            let found = before.line(finder(before, line));
            // What is 0 takes no memory until it is written.
            if *words != found {
                words.copy_from_slice(&found);
            }
        }
    }
    heap
}

/// One cut.
struct Cutting<'m, D> {
    machine: &'m Machine<D>,
    extra: u32,
    at: Time,
    number: u64,
    /// All is compared.
    whole: bool,
}

impl<D: Design> Cutting<'_, D> {
    fn recover(&self, state: &mut Persistent) -> bool {
        D::recover(&self.machine.description, self.extra, state).is_ok()
    }

    /// Finds a line of the program in what recovery has left.
    fn finder(&self) -> impl Fn(&Persistent, u32) -> u32 + use<D> {
        D::finder(&self.machine.description, self.extra)
    }

    /// Recovers from this moment, cut again after each of these numbers of steps.
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
        assert!(whole, "nothing cuts a recovery that nobody cuts");
        cut
    }

    /// Recovery of what is recovered finds no entry of a log that counts, nothing that was put
    /// aside, and the registers as it would set them.
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
        self.compare(&cut, oracle, whole, report);
        if most.as_ref().is_none_or(|(most, _)| steps > *most) {
            *most = Some((steps, cut.with_lines(cut.words())));
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
            // What begins again has less to do, or as much: a step that it may not reach. Then it
            // is done, and once more: many recoveries may follow each other.
            let second = if all { u64::MAX } else { random.random_range(0..steps) };
            let cut = self.recovered(state, &[step, second]);
            self.compare(&cut, oracle, false, report);
            state.back(cut);
            report.recovery_cuts += 1;
        }
    }

    fn compare(&self, cut: &Persistent, oracle: &mut Oracle<'_>, whole: bool, report: &mut Report) {
        let finder = self.finder();
        let found_at = |line| finder(cut, line);
        let heap = Heap { state: cut, found_at: &found_at, moves: D::MOVES };
        let found = oracle.compare(&heap, whole);
        report.ending_there += found.there;
        report.ending_gone += found.gone;
        if let Some(what) = found.violation {
            report.violation(self.at, what);
        }
    }

    /// What the program itself says of the heap.
    fn check_program(
        &self,
        state: &mut Powered,
        loaded: &dyn Loaded,
        report: &mut Report,
    ) -> Result<(), Error> {
        let cut = self.recovered(state, &[]);
        let finder = self.finder();
        let mut words = vec![0; self.extra as usize * 8];
        for (line, words) in (0..).zip(words.chunks_exact_mut(8)) {
            let found = cut.line(finder(&cut, line));
            if found != [0; 8] {
                words.copy_from_slice(&found);
            }
        }
        let mut image = Image::of(words);
        match loaded.check(&mut Erased::new(&mut image)) {
            Ok(complaints) => {
                complaints.into_iter().for_each(|complaint| report.violation(self.at, complaint));
            }
            Err(ended) => report.violation(self.at, format!("its check ends: {ended}")),
        }
        state.back(cut);
        Ok(())
    }
}

/// When power is cut, in order; and how many of these times lie inside of each rare path.
fn draw(
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
