//! D1 to D4: rates of the six benchmarks, by bandwidth and beside other ways to log (section 5.2).
//!
//! They share laps: `volatile`, `decoupled` with rings of two kinds, and `decoupled-sync`, at each
//! bandwidth; `undo` and `redo` at the lowest. A full run has them with two workers as well, whom
//! the threads behind leave no core.

use super::super::Budget;
use super::super::laps::{Lap, Laps, Spec};
use super::super::sheet::{Sheet, curve, each, linear, log, middle, pairs, ratio};
use super::{BENCHMARKS, Benchmark, On};

/// GB/s.
const BANDWIDTHS: [u32; 5] = [1, 2, 4, 8, 16];
/// The most and the least, which marks are about: first, beside `volatile`, which has none.
const ENDS: [u32; 2] = [16, 1];

/// Cycles of a persist barrier.
const FAST: u32 = 1000;
const SLOW: u32 = 3500;
/// Where barriers of both kinds are compared: only who waits for them sees them.
const WITH_SLOW: [u32; 3] = [1, 4, 16];

fn bandwidths(budget: &Budget) -> &'static [u32] {
    if budget.quick { &[1, 16] } else { &BANDWIDTHS }
}

/// Workers of laps, and what the names of rows about so many begin with.
fn crews(budget: &Budget) -> &'static [(u32, &'static str)] {
    if budget.quick { &[(1, "")] } else { &[(1, ""), (2, "two/")] }
}

/// One worker on memory of such a bandwidth.
fn one(gbps: u32) -> On {
    On { gbps, cycles: FAST, workers: 1 }
}

/// What came of one benchmark.
struct Of<'a> {
    benchmark: &'a Benchmark,
    budget: &'a Budget,
    laps: &'a Laps,
}

impl<'a> Of<'a> {
    fn all(budget: &'a Budget, laps: &'a Laps) -> impl Iterator<Item = Of<'a>> {
        BENCHMARKS.iter().map(move |benchmark| Of { benchmark, budget, laps })
    }

    fn command(&self, design: &str, on: On) -> String {
        self.benchmark.on(design, on, self.budget)
    }

    /// What a design's laps are.
    fn at(&self, design: &str, on: On) -> &'a [Lap] {
        self.laps.of(&self.command(design, on))
    }
}

/// Laps of these designs on each of these, for each benchmark.
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

/// The same for each crew at the ends of the bandwidths.
fn plan_ends(designs: &[&str], ends: &[u32], budget: &Budget) -> Vec<Spec> {
    let on = |&(workers, _): &(u32, &str)| {
        ends.iter().map(move |&gbps| On { workers, ..one(gbps) }).collect::<Vec<_>>()
    };
    let all: Vec<On> = crews(budget).iter().flat_map(on).collect();
    plan(designs, &all, budget)
}

/// Neighbours are compared: `decoupled` with both beside it.
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

/// D1: what durability costs.
pub(super) fn bandwidth(budget: &Budget, laps: &Laps, sheet: &mut Sheet) {
    for of in Of::all(budget, laps) {
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
            sheet.row(row, pairs(laps.of(&command), volatile, ratio)).command(&command);
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

/// What durability adds at the highest bandwidth, and where.
fn added(of: &Of<'_>, workers: u32, crew: &str, sheet: &mut Sheet) {
    let name = of.benchmark.name;
    let on = On { workers, ..one(16) };
    let (decoupled, volatile) = (of.at("decoupled", on), of.at("volatile", on));
    // Of each worker's time.
    let added = |lap: &Lap, base: &Lap| f64::from(workers) * (1e9 / lap.rate() - 1e9 / base.rate());
    let command = of.command("decoupled", on);
    let mut row = |what: &str, values: Vec<f64>| {
        sheet.row(format!("{crew}{what}/{name}"), values).command(&command);
    };
    row("added", pairs(decoupled, volatile, added));
    row("front", each(decoupled, Lap::front));
    row("behind", each(decoupled, Lap::behind));
    row("behind-by-front", each(decoupled, |lap| lap.behind() / lap.front()));
    if workers > 1 {
        for gbps in ENDS {
            by_volatile(of, On { gbps, ..on }, format!("{crew}ratio/{name}/{gbps}"), sheet);
        }
    }
}

/// The rate of `decoupled` by that of `volatile`, beside what the bandwidth lets through.
fn by_volatile(of: &Of<'_>, on: On, row: String, sheet: &mut Sheet) {
    let (decoupled, volatile) = (of.at("decoupled", on), of.at("volatile", on));
    let bound = middle(each(decoupled, |lap| bound(lap, on.gbps)));
    let base = middle(each(volatile, Lap::rate));
    sheet
        .row(row, pairs(decoupled, volatile, ratio))
        .note(format!("The bandwidth's bound is {:.2}.", bound / base))
        .command(&of.command("decoupled", on));
}

fn curves(of: &Of<'_>, sheet: &mut Sheet) {
    let (name, budget) = (of.benchmark.name, of.budget);
    let rates = |design: &str, cycles: u32| {
        let point = |&gbps: &u32| {
            let on = On { cycles, ..one(gbps) };
            (f64::from(gbps), each(of.at(design, on), Lap::rate))
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

/// Transactions a second that a bandwidth lets through.
fn bound(lap: &Lap, gbps: u32) -> f64 {
    f64::from(gbps) * 1e9 / lap.each(lap.log_bytes + lap.home_bytes)
}

pub(super) fn plan_unbounded(budget: &Budget) -> Vec<Spec> {
    plan_ends(&["decoupled-unbounded", "decoupled"], &ENDS, budget)
}

/// D2: whether a worker waits for room in its ring.
pub(super) fn unbounded(budget: &Budget, laps: &Laps, sheet: &mut Sheet) {
    for of in Of::all(budget, laps) {
        for &(workers, crew) in crews(budget) {
            for gbps in ENDS {
                let on = On { workers, ..one(gbps) };
                let (decoupled, unbounded) =
                    (of.at("decoupled", on), of.at("decoupled-unbounded", on));
                let values = pairs(decoupled, unbounded, |lap, base| {
                    let reachable = if gbps == 1 { bound(lap, gbps) } else { f64::INFINITY };
                    lap.rate() / base.rate().min(reachable)
                });
                let waits = middle(each(decoupled, |lap| lap.ring_full_waits as f64));
                let cpu = |laps: &[Lap]| middle(each(laps, Lap::front));
                sheet
                    .row(format!("{crew}inf/{}/{gbps}", of.benchmark.name), values)
                    .note(format!(
                        "Waits for room: {waits:.0} in a lap. CPU in front: {:.0} ns, unbounded \
                         {:.0} ns.",
                        cpu(decoupled),
                        cpu(unbounded)
                    ))
                    .missed((waits == 0.0).then(|| {
                        "No worker has waited for room, so the ring is no bottleneck: both ran the \
                         same code, and what differs is the memory of the rings and the machine \
                         from lap to lap (see the least and the greatest)."
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

/// D3: what transactions write.
pub(super) fn writes(budget: &Budget, laps: &Laps, sheet: &mut Sheet) {
    let cycles_per_ns = medium::cpu::cycles_per_second() as f64 / 1e9;
    for of in Of::all(budget, laps) {
        let name = of.benchmark.name;
        for &(workers, crew) in crews(budget) {
            let on = On { workers, ..one(1) };
            let (laps, command) = (of.at("decoupled", on), of.command("decoupled", on));
            let writes = |lap: &Lap| lap.each(lap.words_written);
            let mut row = |what: &str, values: Vec<f64>| {
                sheet.row(format!("{crew}{what}/{name}"), values).command(&command);
            };
            if workers == 1 {
                row("writes", each(laps, writes));
            }
            row("words", each(laps, |lap| writes(lap) * lap.rate()));
            row("cycles", each(laps, |lap| lap.front() * cycles_per_ns));
        }
    }
}

pub(super) fn plan_logging(budget: &Budget) -> Vec<Spec> {
    plan_ends(&["decoupled", "decoupled-sync", "undo", "redo"], &[1], budget)
}

/// D4: beside undo and redo logging.
pub(super) fn logging(budget: &Budget, laps: &Laps, sheet: &mut Sheet) {
    for of in Of::all(budget, laps) {
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

/// One design beside another.
fn beside(of: &Of<'_>, (ours, base): (&str, &str), on: On, row: String, sheet: &mut Sheet) {
    let (laps, theirs) = (of.at(ours, on), of.at(base, on));
    let cpu = |laps: &[Lap]| {
        let [front, behind, delay] = [
            middle(each(laps, Lap::front)),
            middle(each(laps, Lap::behind)),
            middle(each(laps, |lap| lap.each(lap.delay_ns))),
        ];
        format!("{front:.0} in front, {behind:.0} behind, up to {delay:.0} for the medium")
    };
    sheet
        .row(format!("{row}/{}", of.benchmark.name), pairs(laps, theirs, ratio))
        .note(format!("CPU of a transaction, ns: {}; `{base}` {}.", cpu(laps), cpu(theirs)))
        .command(&of.command(ours, on));
}

/// Works of `peers durable` by the benchmarks that they are.
const WORKS: [(&str, &str); 2] = [("hashtable", "hash"), ("tatp-hash", "tatp")];

fn libpmemobj(budget: &Budget, sheet: &mut Sheet) {
    let missing = || {
        "libpmemobj is a foreign library: run `cargo run --release -- durable --format json` in \
         `peers`, and give what it prints with --peers"
            .to_owned()
    };
    for (name, work) in WORKS {
        for (system, row) in [("decoupled", ""), ("undo", "undo-"), ("redo", "redo-")] {
            let row = format!("{row}libpmemobj/{name}");
            let peers = budget.peers.as_ref().ok_or_else(missing);
            let peers = peers.and_then(|peers| peers.foreign().map_or(Ok(peers), Err));
            match peers.map(|peers| (peers, peers.by_libpmemobj(work, system))) {
                Ok((peers, Some(over))) => {
                    let note = "From `peers durable`, as --peers says.".to_owned();
                    sheet.over(row, over, peers.rounds_and_seed()).note(note);
                }
                Ok((_, None)) => sheet.none(row, "it is not in what --peers names"),
                Err(why) => sheet.none(row, &why),
            }
        }
    }
}
