//! D1 to D4: throughput of the six benchmarks, by bandwidth and against undo and redo logging
//! (section 5.2).
//!
//! The experiments share trials: `volatile`, `decoupled` with bounded and unbounded rings, and
//! `decoupled-sync` at each bandwidth; `undo` and `redo` at the lowest. A full run repeats them
//! with two workers. On two cores the background threads then have no core of their own.

use super::{BENCHMARKS, Benchmark, On};
use crate::budget::Budget;
use crate::sheet::{Sheet, curve, each, linear, log, middle, pairs, ratio};
use crate::trial::Trial;
use crate::trials::{Spec, Trials};

/// GB/s.
const BANDWIDTHS: [u32; 5] = [1, 2, 4, 8, 16];
/// The highest and the lowest, which targets refer to. They come first in a block, so that they run
/// next to `volatile`, which has no bandwidth.
const ENDS: [u32; 2] = [16, 1];

/// Cycles of a persist barrier.
const FAST: u32 = 1000;
const SLOW: u32 = 3500;
/// Bandwidths that compare both latencies. Only `decoupled-sync` does: its workers wait for
/// barriers.
const WITH_SLOW: [u32; 3] = [1, 4, 16];

fn bandwidths(budget: &Budget) -> &'static [u32] {
    if budget.quick { &[1, 16] } else { &BANDWIDTHS }
}

/// Numbers of workers, each with the prefix of its rows.
fn crews(budget: &Budget) -> &'static [(u32, &'static str)] {
    if budget.quick { &[(1, "")] } else { &[(1, ""), (2, "two/")] }
}

/// Returns one worker on memory of a bandwidth.
fn one(gbps: u32) -> On {
    On { gbps, cycles: FAST, workers: 1 }
}

/// Trials of one benchmark.
struct Of<'a> {
    benchmark: &'a Benchmark,
    budget: &'a Budget,
    trials: &'a Trials,
}

impl<'a> Of<'a> {
    fn all(budget: &'a Budget, trials: &'a Trials) -> impl Iterator<Item = Of<'a>> {
        BENCHMARKS.iter().map(move |benchmark| Of { benchmark, budget, trials })
    }

    fn command(&self, design: &str, on: On) -> String {
        self.benchmark.on(design, on, self.budget)
    }

    /// Returns the trials of a design.
    fn at(&self, design: &str, on: On) -> &'a [Trial] {
        self.trials.of(&self.command(design, on))
    }
}

/// Plans every design on every medium, for each benchmark.
fn plan(designs: &[&str], on: &[On], budget: &Budget) -> Vec<Spec> {
    let mut specs = Vec::new();
    for benchmark in &BENCHMARKS {
        for on in on {
            for design in designs {
                specs.push(Spec::new(benchmark.name, benchmark.on(design, *on, budget)));
            }
        }
    }
    specs
}

/// Plans every design at the given bandwidths, for each number of workers.
fn plan_ends(designs: &[&str], ends: &[u32], budget: &Budget) -> Vec<Spec> {
    let on = |&(workers, _): &(u32, &str)| {
        ends.iter().map(move |&gbps| On { workers, ..one(gbps) }).collect::<Vec<_>>()
    };
    let all: Vec<On> = crews(budget).iter().flat_map(on).collect();
    plan(designs, &all, budget)
}

/// Rows compare `decoupled` with both of its neighbours, so that compared trials run in succession.
const BESIDE: [&str; 4] = ["decoupled-unbounded", "decoupled", "volatile", "decoupled-sync"];

pub(super) fn plan_bandwidth(budget: &Budget) -> Vec<Spec> {
    let mut specs = plan_ends(&BESIDE, &ENDS, budget);
    if !budget.quick {
        specs.extend(plan(&BESIDE, &BANDWIDTHS.map(one), budget));
        let slow = WITH_SLOW.map(|gbps| On { cycles: SLOW, ..one(gbps) });
        specs.extend(plan(&["decoupled-sync"], &slow, budget));
    }
    specs
}

/// D1: the cost of durability.
pub(super) fn bandwidth(budget: &Budget, trials: &Trials, sheet: &mut Sheet) {
    for of in Of::all(budget, trials) {
        for &(workers, crew) in crews(budget) {
            added(&of, workers, crew, sheet);
        }
        let name = of.benchmark.name;
        let volatile = of.at("volatile", one(1));
        for &gbps in bandwidths(budget) {
            by_volatile(&of, one(gbps), format!("ratio/{name}/{gbps}"), sheet);
        }
        let mut sync = |row: String, on: On| {
            let command = of.command("decoupled-sync", on);
            sheet.row(row, pairs(trials.of(&command), volatile, ratio)).command(&command);
        };
        for gbps in ENDS {
            sync(format!("sync/{name}/{gbps}"), one(gbps));
        }
        for gbps in WITH_SLOW.into_iter().filter(|_| !budget.quick) {
            sync(format!("sync-slow/{name}/{gbps}"), On { cycles: SLOW, ..one(gbps) });
        }
        curves(&of, sheet);
    }
}

/// Fills the rows of the time that durability adds at the highest bandwidth, by thread.
fn added(of: &Of<'_>, workers: u32, crew: &str, sheet: &mut Sheet) {
    let name = of.benchmark.name;
    let on = On { workers, ..one(16) };
    let (decoupled, volatile) = (of.at("decoupled", on), of.at("volatile", on));
    // In the time of each worker.
    let added =
        |trial: &Trial, base: &Trial| f64::from(workers) * (1e9 / trial.rate() - 1e9 / base.rate());
    let command = of.command("decoupled", on);
    let mut row = |what: &str, values: Vec<f64>| {
        sheet.row(format!("{crew}{what}/{name}"), values).command(&command);
    };
    row("added", pairs(decoupled, volatile, added));
    row("foreground", each(decoupled, Trial::foreground_ns));
    row("background", each(decoupled, Trial::background_ns));
    row(
        "background-by-foreground",
        each(decoupled, |trial| trial.background_ns() / trial.foreground_ns()),
    );
    if workers > 1 {
        for gbps in ENDS {
            by_volatile(of, On { gbps, ..on }, format!("{crew}ratio/{name}/{gbps}"), sheet);
        }
    }
}

/// Fills a row with the rate of `decoupled` by that of `volatile`, and notes the rate at which the
/// bandwidth is the bottleneck.
fn by_volatile(of: &Of<'_>, on: On, row: String, sheet: &mut Sheet) {
    let (decoupled, volatile) = (of.at("decoupled", on), of.at("volatile", on));
    let bound = middle(each(decoupled, |trial| bound(trial, on.gbps)));
    let base = middle(each(volatile, Trial::rate));
    sheet
        .row(row, pairs(decoupled, volatile, ratio))
        .note(format!("The bandwidth bounds the ratio at {:.2}.", bound / base))
        .command(&of.command("decoupled", on));
}

fn curves(of: &Of<'_>, sheet: &mut Sheet) {
    let (name, budget) = (of.benchmark.name, of.budget);
    let rates = |design: &str, cycles: u32| {
        let point = |&gbps: &u32| {
            let on = On { cycles, ..one(gbps) };
            (f64::from(gbps), each(of.at(design, on), Trial::rate))
        };
        let bandwidths = if cycles == SLOW { &WITH_SLOW } else { bandwidths(budget) };
        bandwidths.iter().map(point).collect()
    };
    let mut series = vec![
        curve("volatile", rates("volatile", FAST)),
        curve("decoupled-unbounded", rates("decoupled-unbounded", FAST)),
        curve("decoupled", rates("decoupled", FAST)),
        curve("decoupled-sync, 1000 cycles", rates("decoupled-sync", FAST)),
    ];
    if !budget.quick {
        series.push(curve("decoupled-sync, 3500 cycles", rates("decoupled-sync", SLOW)));
    }
    let axes = (log("bandwidth, GB/s"), linear("transactions/s until durable"));
    sheet.figure(name, &format!("Throughput of {name}"), axes, series);
}

/// Returns the transactions a second that fill a bandwidth.
fn bound(trial: &Trial, gbps: u32) -> f64 {
    f64::from(gbps) * 1e9 / trial.each(trial.log_bytes + trial.heap_image_bytes)
}

pub(super) fn plan_unbounded(budget: &Budget) -> Vec<Spec> {
    plan_ends(&["decoupled-unbounded", "decoupled"], &ENDS, budget)
}

/// D2: waits for room in a full ring, by comparison with unbounded rings.
pub(super) fn unbounded(budget: &Budget, trials: &Trials, sheet: &mut Sheet) {
    for of in Of::all(budget, trials) {
        for &(workers, crew) in crews(budget) {
            for gbps in ENDS {
                let on = On { workers, ..one(gbps) };
                let (decoupled, unbounded) =
                    (of.at("decoupled", on), of.at("decoupled-unbounded", on));
                let values = pairs(decoupled, unbounded, |trial, base| {
                    let reachable = if gbps == 1 { bound(trial, gbps) } else { f64::INFINITY };
                    trial.rate() / base.rate().min(reachable)
                });
                let waits = middle(each(decoupled, |trial| trial.ring_full_waits as f64));
                let cpu = |trials: &[Trial]| middle(each(trials, Trial::foreground_ns));
                sheet
                    .row(format!("{crew}inf/{}/{gbps}", of.benchmark.name), values)
                    .note(format!(
                        "Waits for room: {waits:.0} in a trial. Foreground CPU: {:.0} ns, \
                         unbounded {:.0} ns.",
                        cpu(decoupled),
                        cpu(unbounded)
                    ))
                    .missed((waits == 0.0).then(|| {
                        "No worker waited for room, so the ring is no bottleneck. Both ran the \
                         same code; only the memory of the rings and the machine's noise differ \
                         (see the minimum and the maximum)."
                            .into()
                    }))
                    .command(&of.command("decoupled", on));
            }
        }
    }
}

pub(super) fn plan_writes(budget: &Budget) -> Vec<Spec> {
    plan_ends(&["decoupled"], &[1], budget)
}

/// D3: words written.
pub(super) fn writes(budget: &Budget, trials: &Trials, sheet: &mut Sheet) {
    let cycles_per_ns = medium::cpu::cycles_per_second() as f64 / 1e9;
    for of in Of::all(budget, trials) {
        let name = of.benchmark.name;
        for &(workers, crew) in crews(budget) {
            let on = On { workers, ..one(1) };
            let (trials, command) = (of.at("decoupled", on), of.command("decoupled", on));
            let writes = |trial: &Trial| trial.each(trial.words_written);
            let mut row = |what: &str, values: Vec<f64>| {
                sheet.row(format!("{crew}{what}/{name}"), values).command(&command);
            };
            if workers == 1 {
                row("writes", each(trials, writes));
            }
            row("words", each(trials, |trial| writes(trial) * trial.rate()));
            row("cycles", each(trials, |trial| trial.foreground_ns() * cycles_per_ns));
        }
    }
}

pub(super) fn plan_logging(budget: &Budget) -> Vec<Spec> {
    plan_ends(&["decoupled", "decoupled-sync", "undo", "redo"], &[1], budget)
}

/// D4: `decoupled` against undo and redo logging.
pub(super) fn logging(budget: &Budget, trials: &Trials, sheet: &mut Sheet) {
    for of in Of::all(budget, trials) {
        for &(workers, crew) in crews(budget) {
            let on = On { workers, ..one(1) };
            for base in ["undo", "redo"] {
                for (ours, prefix) in [("decoupled", ""), ("decoupled-sync", "sync-")] {
                    beside(&of, (ours, base), on, format!("{crew}{prefix}{base}"), sheet);
                }
            }
        }
    }
    libpmemobj(budget, sheet);
}

/// Fills a row with the rate of one design by that of another.
fn beside(of: &Of<'_>, (ours, base): (&str, &str), on: On, row: String, sheet: &mut Sheet) {
    let (trials, theirs) = (of.at(ours, on), of.at(base, on));
    let cpu = |trials: &[Trial]| {
        let [foreground, background, delay] = [
            middle(each(trials, Trial::foreground_ns)),
            middle(each(trials, Trial::background_ns)),
            middle(each(trials, |trial| trial.each(trial.delay_ns))),
        ];
        format!(
            "{foreground:.0} foreground, {background:.0} background, up to {delay:.0} for the \
             medium"
        )
    };
    sheet
        .row(format!("{row}/{}", of.benchmark.name), pairs(trials, theirs, ratio))
        .note(format!("CPU of a transaction, ns: {}; `{base}` {}.", cpu(trials), cpu(theirs)))
        .command(&of.command(ours, on));
}

/// Benchmarks and their names in `comparison durable`.
const WORKS: [(&str, &str); 2] = [("hashtable", "hash"), ("tatp-hash", "tatp")];

fn libpmemobj(budget: &Budget, sheet: &mut Sheet) {
    let missing = || {
        "this program does not link libpmemobj: run `cargo run --release -- durable --format json` \
         in `comparison`, and give its output with --comparison"
            .to_owned()
    };
    for (name, work) in WORKS {
        for (system, row) in [("decoupled", ""), ("undo", "undo-"), ("redo", "redo-")] {
            let row = format!("{row}libpmemobj/{name}");
            let report = budget.comparison.as_ref().ok_or_else(missing);
            let report = report.and_then(|report| report.foreign().map_or(Ok(report), Err));
            match report.map(|report| (report, report.by_libpmemobj(work, system))) {
                Ok((report, Some(over))) => {
                    let note = "From `comparison durable` (--comparison).".to_owned();
                    sheet.over(row, over, report.rounds_and_seed()).note(note);
                }
                Ok((_, None)) => sheet.none(row, "the report of --comparison does not have it"),
                Err(why) => sheet.none(row, &why),
            }
        }
    }
}
