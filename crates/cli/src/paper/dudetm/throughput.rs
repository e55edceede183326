//! D1 to D4: rates of the six benchmarks, by bandwidth and beside other ways to log (section 5.2).
//!
//! They share laps: `volatile`, `decoupled` with rings of two kinds, and `decoupled-sync`, at each
//! bandwidth; `undo` and `redo` at the lowest.

use super::super::Budget;
use super::super::laps::{Lap, Laps, Spec};
use super::super::sheet::{Sheet, curve, each, linear, log, pairs};
use super::{BENCHMARKS, Benchmark};

/// GB/s.
const BANDWIDTHS: [u32; 5] = [1, 2, 4, 8, 16];
/// The least and the most, which marks are about.
const ENDS: [u32; 2] = [1, 16];

/// Cycles of a persist barrier.
const FAST: u32 = 1000;
const SLOW: u32 = 3500;

fn bandwidths(budget: &Budget) -> &'static [u32] {
    if budget.quick { &ENDS } else { &BANDWIDTHS }
}

/// What a design's laps at one bandwidth and latency are.
fn at<'l>(
    laps: &'l Laps,
    benchmark: &Benchmark,
    design: &str,
    (gbps, cycles): (u32, u32),
    budget: &Budget,
) -> &'l [Lap] {
    laps.of(&benchmark.on(design, gbps, cycles, budget))
}

/// Laps of these designs at these bandwidths, for each benchmark.
fn plan(designs: &[&str], bandwidths: &[u32], cycles: u32, budget: &Budget) -> Vec<Spec> {
    let mut specs = Vec::new();
    for benchmark in &BENCHMARKS {
        for gbps in bandwidths {
            for design in designs {
                specs.push(Spec::new(benchmark.name, benchmark.on(design, *gbps, cycles, budget)));
            }
        }
    }
    specs
}

pub(super) fn plan_bandwidth(budget: &Budget) -> Vec<Spec> {
    let designs = ["volatile", "decoupled-unbounded", "decoupled", "decoupled-sync"];
    let mut specs = plan(&designs, bandwidths(budget), FAST, budget);
    if !budget.quick {
        specs.extend(plan(&["decoupled-sync"], &BANDWIDTHS, SLOW, budget));
    }
    specs
}

/// D1: what durability costs.
pub(super) fn bandwidth(budget: &Budget, laps: &Laps, sheet: &mut Sheet) {
    for benchmark in &BENCHMARKS {
        let name = benchmark.name;
        let volatile = at(laps, benchmark, "volatile", (16, FAST), budget);
        let decoupled = |gbps| at(laps, benchmark, "decoupled", (gbps, FAST), budget);
        let fastest = decoupled(16);
        let added = |lap: &Lap, base: &Lap| 1e9 / lap.rate() - 1e9 / base.rate();
        let command = benchmark.on("decoupled", 16, FAST, budget);
        sheet.row(format!("added/{name}"), pairs(fastest, volatile, added)).command(&command);
        sheet.row(format!("front/{name}"), each(fastest, |lap| lap.each(lap.workers_cpu_ns)));
        let behind = |lap: &Lap| lap.each(lap.cpu_ns.saturating_sub(lap.workers_cpu_ns));
        sheet.row(format!("behind/{name}"), each(fastest, behind));
        let by_front = |lap: &Lap| behind(lap) / lap.each(lap.workers_cpu_ns);
        sheet.row(format!("behind-by-front/{name}"), each(fastest, by_front)).command(&command);
        let ratio = |lap: &Lap, base: &Lap| lap.rate() / base.rate();
        for &gbps in bandwidths(budget) {
            let command = benchmark.on("decoupled", gbps, FAST, budget);
            let bound = middle(each(decoupled(gbps), |lap| bound(lap, gbps)));
            let base = middle(each(volatile, Lap::rate));
            sheet
                .row(format!("ratio/{name}/{gbps}"), pairs(decoupled(gbps), volatile, ratio))
                .note(format!("The bandwidth's bound is {:.2}.", bound / base))
                .command(&command);
        }
        for gbps in ENDS {
            let sync = at(laps, benchmark, "decoupled-sync", (gbps, FAST), budget);
            let command = benchmark.on("decoupled-sync", gbps, FAST, budget);
            let row = sheet.row(format!("sync/{name}/{gbps}"), pairs(sync, volatile, ratio));
            row.command(&command);
        }
        curves(benchmark, budget, laps, sheet);
    }
}

fn curves(benchmark: &Benchmark, budget: &Budget, laps: &Laps, sheet: &mut Sheet) {
    let name = benchmark.name;
    let rates = |design: &str, cycles: u32| {
        let point = |&gbps: &u32| {
            let laps = at(laps, benchmark, design, (gbps, cycles), budget);
            (f64::from(gbps), each(laps, Lap::rate))
        };
        bandwidths(budget).iter().map(point).collect()
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

/// Transactions a second that a bandwidth lets through.
fn bound(lap: &Lap, gbps: u32) -> f64 {
    f64::from(gbps) * 1e9 / lap.each(lap.log_bytes + lap.home_bytes)
}

fn middle(rounds: Vec<f64>) -> f64 {
    crate::report::OverRounds::of(rounds).median
}

pub(super) fn plan_unbounded(budget: &Budget) -> Vec<Spec> {
    plan(&["decoupled-unbounded", "decoupled"], &ENDS, FAST, budget)
}

/// D2: whether a worker waits for room in its ring.
pub(super) fn unbounded(budget: &Budget, laps: &Laps, sheet: &mut Sheet) {
    for benchmark in &BENCHMARKS {
        for gbps in ENDS {
            let decoupled = at(laps, benchmark, "decoupled", (gbps, FAST), budget);
            let unbounded = at(laps, benchmark, "decoupled-unbounded", (gbps, FAST), budget);
            let values = pairs(decoupled, unbounded, |lap, base| {
                let reachable = if gbps == 1 { bound(lap, gbps) } else { f64::INFINITY };
                lap.rate() / base.rate().min(reachable)
            });
            let command = benchmark.on("decoupled", gbps, FAST, budget);
            sheet.row(format!("inf/{}/{gbps}", benchmark.name), values).command(&command);
        }
    }
}

pub(super) fn plan_writes(budget: &Budget) -> Vec<Spec> {
    plan(&["decoupled"], &[1], FAST, budget)
}

/// D3: what transactions write.
pub(super) fn writes(budget: &Budget, laps: &Laps, sheet: &mut Sheet) {
    let cycles_per_ns = medium::cpu::cycles_per_second() as f64 / 1e9;
    for benchmark in &BENCHMARKS {
        let name = benchmark.name;
        let laps = at(laps, benchmark, "decoupled", (1, FAST), budget);
        let command = benchmark.on("decoupled", 1, FAST, budget);
        let writes = |lap: &Lap| lap.each(lap.words_written);
        sheet.row(format!("writes/{name}"), each(laps, writes)).command(&command);
        sheet.row(format!("words/{name}"), each(laps, |lap| writes(lap) * lap.rate()));
        let cycles = |lap: &Lap| lap.each(lap.workers_cpu_ns) * cycles_per_ns;
        sheet.row(format!("cycles/{name}"), each(laps, cycles));
    }
}

pub(super) fn plan_logging(budget: &Budget) -> Vec<Spec> {
    plan(&["decoupled", "decoupled-sync", "undo", "redo"], &[1], FAST, budget)
}

/// D4: beside undo and redo logging.
pub(super) fn logging(budget: &Budget, laps: &Laps, sheet: &mut Sheet) {
    for benchmark in &BENCHMARKS {
        let name = benchmark.name;
        for base in ["undo", "redo"] {
            let theirs = at(laps, benchmark, base, (1, FAST), budget);
            let command = benchmark.on(base, 1, FAST, budget);
            for (ours, row) in
                [("decoupled", base.into()), ("decoupled-sync", format!("sync-{base}"))]
            {
                let laps = at(laps, benchmark, ours, (1, FAST), budget);
                let values = pairs(laps, theirs, |lap, base| lap.rate() / base.rate());
                sheet.row(format!("{row}/{name}"), values).command(&command);
            }
        }
    }
    for (name, work) in [("hashtable", "hash"), ("tatp-hash", "tatp")] {
        let peers = budget.peers.as_ref().and_then(|peers| peers.by_libpmemobj(work, "decoupled"));
        let row = format!("libpmemobj/{name}");
        match peers {
            Some(values) => {
                sheet.row(row, values).note("From `peers durable`: least, median, most.".into());
            }
            None => sheet.none(
                row,
                "libpmemobj is a foreign library: run `cargo run --release -- durable --format \
                 json` in `peers`, and give what it prints with --peers",
            ),
        }
    }
}
