//! P1 to P4: throughput of `snapshot` against `decoupled`, by the share of updates and by workers
//! (sections 5.2 and 5.3).

use super::{ALL_ROUNDS, CREWS, UPDATES, Work, cpu, seldom};
use crate::budget::Budget;
use crate::results::Series;
use crate::sheet::{Sheet, curve, each, linear, log, pairs, ratio, theirs};
use crate::trial::Trial;
use crate::trials::{Spec, Trials};

const BOTH: [&str; 2] = ["snapshot", "decoupled"];
const WITH_IDEAL: [&str; 3] = ["snapshot", "decoupled", "decoupled-ideal"];

const CHAINS: [&str; 2] = ["chains", "chains-sparse"];

/// Highest share of updates with targets in P1.
const WITH_TARGETS: u32 = 2;

/// Plans every design on one workload, for each number of workers.
fn plan(
    work: impl Fn(u32) -> Work,
    designs: &'static [&'static str],
    budget: &Budget,
) -> Vec<Spec> {
    let of = |workers: u32| {
        let work = work(workers);
        let spec = move |design: &&str| work.spec(design, workers, budget);
        designs.iter().map(spec).collect::<Vec<_>>()
    };
    budget.crews().into_iter().flat_map(of).collect()
}

pub(super) fn plan_chains(budget: &Budget) -> Vec<Spec> {
    let mut specs = Vec::new();
    for workload in CHAINS {
        for updates in UPDATES {
            let of = plan(|_| Work::with_updates(workload, updates), &BOTH, budget);
            let has_targets = updates <= WITH_TARGETS;
            specs.extend(if has_targets { of } else { seldom(of, ALL_ROUNDS, budget) });
        }
    }
    specs
}

pub(super) fn plan_tree(budget: &Budget) -> Vec<Spec> {
    let of = |&updates: &u32| {
        plan(move |_| Work::with_updates("btree-16", updates), &WITH_IDEAL, budget)
    };
    seldom(UPDATES.iter().flat_map(of), ALL_ROUNDS, budget)
}

pub(super) fn plan_tpcc(budget: &Budget) -> Vec<Spec> {
    // A warehouse takes seconds to load.
    seldom(plan(Work::tpcc, &BOTH, budget), 3, budget)
}

fn work_tatp(_workers: u32) -> Work {
    Work::new("tatp-mix", 400_000)
}

pub(super) fn plan_tatp(budget: &Budget) -> Vec<Spec> {
    seldom(plan(work_tatp, &BOTH, budget), ALL_ROUNDS, budget)
}

/// Trials of one workload with one number of workers.
struct Of<'a> {
    work: Work,
    workers: u32,
    /// Suffix of its rows' names.
    name: String,
    budget: &'a Budget,
    trials: &'a Trials,
}

impl<'a> Of<'a> {
    fn command(&self, design: &str) -> String {
        self.work.on(design, self.workers, self.budget)
    }

    fn at(&self, design: &str) -> &'a [Trial] {
        self.trials.of(&self.command(design))
    }

    fn rates(&self, designs: &[&str], sheet: &mut Sheet) {
        for design in designs {
            let row = format!("rate/{design}/{}", self.name);
            sheet.row(row, each(self.at(design), Trial::rate)).command(&self.command(design));
        }
    }

    /// Fills a row with the rate of one design by that of another.
    fn beside(&self, row: &str, (ours, base): (&str, &str), sheet: &mut Sheet) {
        let (trials, theirs) = (self.at(ours), self.at(base));
        sheet
            .row(format!("{row}/{}", self.name), pairs(trials, theirs, ratio))
            .note(format!(
                "CPU of a transaction, ns: {}; {}.",
                cpu(ours, trials),
                cpu(base, theirs)
            ))
            .command(&self.command(ours));
    }

    fn aborts(&self, designs: &[&str], sheet: &mut Sheet) {
        for design in designs {
            let row = format!("aborts/{design}/{}", self.name);
            sheet
                .row(row, each(self.at(design), Trial::aborts_percent))
                .command(&self.command(design));
        }
    }
}

/// Returns the trials of a workload for each share of updates and number of workers.
fn all<'a>(workload: &'static str, budget: &'a Budget, trials: &'a Trials) -> Vec<Of<'a>> {
    let of = |updates: u32| {
        CREWS.map(|(workers, crew)| {
            let work = Work::with_updates(workload, updates);
            Of { work, workers, name: format!("{workload}/{updates}/{crew}"), budget, trials }
        })
    };
    UPDATES.into_iter().flat_map(of).collect()
}

/// Plots rates over workers: a curve for each design and share of updates.
fn curves(
    workload: &'static str,
    designs: &[&str],
    paper: Vec<Series>,
    (budget, trials): (&Budget, &Trials),
    sheet: &mut Sheet,
) {
    let mut series = Vec::new();
    for design in designs {
        for updates in UPDATES {
            let point = |workers| {
                let command = Work::with_updates(workload, updates).on(design, workers, budget);
                (f64::from(workers), each(trials.of(&command), Trial::rate))
            };
            let points = budget.crews().into_iter().map(point).collect();
            series.push(curve(format!("{design}, {updates} %"), points));
        }
    }
    series.extend(paper);
    let axes = (log("workers"), log("transactions/s until durable"));
    sheet.figure(workload, &format!("Throughput of {workload}"), axes, series);
}

/// P1: the hash table.
pub(super) fn chains(budget: &Budget, trials: &Trials, sheet: &mut Sheet) {
    for workload in CHAINS {
        for of in all(workload, budget, trials) {
            of.rates(&BOTH, sheet);
            of.beside("ratio", ("snapshot", "decoupled"), sheet);
            if of.workers > 1 {
                of.aborts(&BOTH, sheet);
            }
        }
        let paper = match workload {
            "chains" => vec![
                theirs("Pisces, 20 % (paper)", &[(1.0, 1.9e6), (20.0, 26e6)]),
                theirs("DudeTM, 20 % (paper)", &[(1.0, 1.5e6), (16.0, 15e6)]),
            ],
            _ => vec![
                theirs("Pisces, 20 % (paper)", &[(1.0, 2.7e6), (20.0, 35.9e6)]),
                theirs("DudeTM, 20 % (paper)", &[(1.0, 3.3e6), (16.0, 15.9e6)]),
            ],
        };
        curves(workload, &BOTH, paper, (budget, trials), sheet);
    }
}

/// P2: the B+-tree. `decoupled-ideal` leaves out the reproduce step, so the row `ideal` is its
/// cost.
pub(super) fn tree(budget: &Budget, trials: &Trials, sheet: &mut Sheet) {
    for of in all("btree-16", budget, trials) {
        of.rates(&WITH_IDEAL, sheet);
        of.beside("ratio", ("snapshot", "decoupled"), sheet);
        of.beside("ideal", ("decoupled-ideal", "decoupled"), sheet);
        if of.workers > 1 {
            of.aborts(&BOTH, sheet);
        }
    }
    let paper = vec![theirs("DudeTM, 40 % (paper)", &[(1.0, 763e3), (40.0, 1.37e6)])];
    curves("btree-16", &WITH_IDEAL, paper, (budget, trials), sheet);
}

/// Fills the rows of both designs on one workload, and returns their curves.
fn beside_each_other(
    work: fn(u32) -> Work,
    budget: &Budget,
    trials: &Trials,
    sheet: &mut Sheet,
) -> Vec<Series> {
    for (workers, crew) in CREWS {
        let of = Of { work: work(workers), workers, name: crew.to_owned(), budget, trials };
        of.rates(&BOTH, sheet);
        of.beside("ratio", ("snapshot", "decoupled"), sheet);
        of.aborts(&BOTH, sheet);
    }
    let curve_of = |design: &str| {
        let point = |workers| {
            let command = work(workers).on(design, workers, budget);
            (f64::from(workers), each(trials.of(&command), Trial::rate))
        };
        curve(design, budget.crews().into_iter().map(point).collect())
    };
    BOTH.map(curve_of).to_vec()
}

/// P3: TPC-C New Order, a warehouse for each worker.
pub(super) fn tpcc(budget: &Budget, trials: &Trials, sheet: &mut Sheet) {
    let mut series = beside_each_other(Work::tpcc, budget, trials, sheet);
    series.push(theirs("Pisces (paper)", &[(1.0, 28e3), (40.0, 252e3)]));
    let axes = (log("workers"), log("transactions/s until durable"));
    sheet.figure("tpcc", "TPC-C New Order on B+-trees", axes, series);
}

/// P4: TATP.
pub(super) fn tatp(budget: &Budget, trials: &Trials, sheet: &mut Sheet) {
    let mut series = beside_each_other(work_tatp, budget, trials, sheet);
    series.push(theirs("Pisces (paper)", &[(1.0, 0.7e6), (40.0, 14e6)]));
    let axes = (linear("workers"), log("transactions/s until durable"));
    sheet.figure("tatp", "TATP on B+-trees", axes, series);
}
