//! Invented results: a few odd ones for tests, and as many as a paper has to look at.

use std::collections::BTreeMap;
use std::path::Path;

use ::sim::Setup;
use ::sim::report::Outcome;
use ::sim::sweep::Asked;
use clap::Parser;

use super::laps::{Lap, Laps};
use super::marks::Paper;
use super::results::{Axis, Experiment, Figure, Point, Results, Row, Series};
use super::sims::Sims;
use super::{Budget, Made, Recipe, recipes};
use crate::args::{Command, CommandLine, SimCommand};
use crate::machine::Machine;
use crate::report::OverRounds;
use crate::sim::setup;
use crate::sim::sweep::{command, own_settings};

/// A run of so many.
pub(super) fn budget(quick: bool) -> Budget {
    Budget { quick, rounds: 3, seed: 1, peers: None }
}

/// What follows for a paper from laps that were never made.
pub(super) fn judged(paper: &str, quick: bool, lap: fn(&str) -> Lap) -> Results {
    let budget = budget(quick);
    let recipes: Vec<&Recipe> = recipes(paper).iter().collect();
    let plan = recipes.iter().flat_map(|recipe| recipe.plan_laps(&budget)).collect();
    let laps = Laps::invented(plan, budget.rounds, lap);
    let made = Made { laps, ..Made::default() };
    super::judge(&Paper::by_name(paper).unwrap(), &recipes, &budget, &made)
}

/// The same of simulations.
pub(super) fn simulated(paper: &str, quick: bool, outcome: fn(&Asked) -> Outcome) -> Results {
    judged_with(paper, quick, |asked| Ok(outcome(asked)))
}

/// The same where some could not be made.
pub(super) fn judged_with(
    paper: &str,
    quick: bool,
    outcome: impl Fn(&Asked) -> Result<Outcome, String>,
) -> Results {
    let budget = Budget { rounds: 1, ..budget(quick) };
    let recipes: Vec<&Recipe> = recipes(paper).iter().collect();
    let plan = recipes.iter().flat_map(|recipe| recipe.plan_sims(&budget)).collect();
    let made = Made { sims: Sims::invented(plan, outcome), ..Made::default() };
    super::judge(&Paper::by_name(paper).unwrap(), &recipes, &budget, &made)
}

/// The same of simulations that are made, each as small as it can be: their numbers mean nothing.
fn shrunk(paper: &str) -> Results {
    let budget = Budget { rounds: 1, ..budget(true) };
    let recipes: Vec<&Recipe> = recipes(paper).iter().filter(|recipe| !recipe.is_long).collect();
    let plan = recipes.iter().flat_map(|recipe| recipe.plan_sims(&budget)).collect();
    let small = |asked: Asked| {
        let cores = Some(asked.cores.unwrap_or(2).min(2));
        let scale = asked.scale / 100.0;
        Asked { transactions: 10, scale, cores, ..asked.with("llc.bytes", 1 << 19) }
    };
    let made = Made { sims: Sims::shrunk(plan, small), ..Made::default() };
    super::judge(&Paper::by_name(paper).unwrap(), &recipes, &budget, &made)
}

/// A paper has these marks and no others: by experiment and row.
pub(super) fn assert_marks(paper: &str, expected: &[(&str, String, &str)]) {
    let paper = Paper::by_name(paper).unwrap();
    let found: BTreeMap<_, _> = paper
        .experiment
        .iter()
        .flat_map(|experiment| experiment.rows().into_iter().map(|row| (&experiment.id, row)))
        .filter_map(|(id, row)| Some(((id.as_str(), row.name), row.mark.text()?)))
        .collect();
    for (id, name, mark) in expected {
        let found = found.get(&(*id, name.clone())).map(String::as_str);
        assert_eq!(found, Some(*mark), "{id} {name}");
    }
    assert_eq!(found.len(), expected.len());
}

/// The marks of every design whose power is cut.
pub(super) const MARKS_OF_CUTS: [(&str, &str); 3] =
    [("cuts/*", ">= 10000"), ("violations/*", "<= 0"), ("checked/*", ">= 100")];

/// Every row of a quick run gets a number from simulations, but for what tests show.
pub(super) fn assert_simulated(paper: &str) {
    for row in shrunk(paper).rows {
        let why = row.why.as_deref().unwrap_or_default();
        let is_for_tests = why.starts_with("Nothing is run here: tests ");
        let is_known = !why.contains("there is no design") && !why.contains("there is no workload");
        assert!(row.ours.is_some() || is_for_tests || !is_known, "{} {}: {why}", row.id, row.name);
    }
}

/// Every simulation of a paper can be run by the command that its row shows.
pub(super) fn assert_commands(paper: &str) {
    for budget in [false, true].map(budget) {
        for asked in recipes(paper).iter().flat_map(|recipe| recipe.plan_sims(&budget)) {
            let has_design = ::sim::design::ALL.iter().any(|about| about.name == asked.design);
            if has_design && workloads::NAMES.contains(&asked.workload.as_str()) {
                assert_command(asked);
            }
        }
    }
}

/// The command is not refused, and simulates what is asked for.
fn assert_command(asked: Asked) {
    let text = command(&asked);
    let words = ["lastword"].into_iter().chain(text.split_whitespace());
    let parsed = CommandLine::try_parse_from(words).unwrap();
    let Command::Sim(SimCommand::Run(arguments)) = parsed.command else { panic!("{text}") };
    let setup = setup(&arguments).unwrap_or_else(|failure| panic!("{text}: {failure}"));
    let own = own_settings(&asked).map(|(key, value)| (key.clone(), value.clone())).collect();
    let point = Asked { settings: own, ..asked }.resolve(Path::new("."), "1.0").unwrap();
    assert_eq!(setup.description, point.setup.description, "{text}");
    let of = |setup: &Setup| (setup.transactions, setup.seed, setup.check, setup.power_cuts);
    assert_eq!(of(&setup), of(&point.setup), "{text}");
}

/// The median of a row, to thousandths, and whether it holds.
pub(super) fn held(results: &Results, id: &str, name: &str) -> (Option<f64>, Option<bool>) {
    let row = results.rows.iter().find(|row| row.id == id && row.name == name);
    let row = row.unwrap_or_else(|| panic!("{id} {name}"));
    let rounded = |ours: f64| (1000.0 * ours).round() / 1000.0;
    (row.ours.map(|ours| rounded(ours.median)), row.held)
}

/// A full run has every row of a paper, and a quick one all but those that `may_lack` says, by
/// experiment and mark.
pub(super) fn assert_rows(
    paper: &str,
    lap: fn(&str) -> Lap,
    may_lack: fn(&str, Option<String>) -> bool,
) {
    let of = |quick| judged(paper, quick, lap);
    assert_rows_of(paper, (&of(false), &of(true)), may_lack);
}

/// The same of what a full and a quick run have found.
pub(super) fn assert_rows_of(
    paper: &str,
    (full, quick): (&Results, &Results),
    may_lack: fn(&str, Option<String>) -> bool,
) {
    for experiment in &Paper::by_name(paper).unwrap().experiment {
        for marked in experiment.rows() {
            let has = |results: &Results| {
                let mut rows = results.rows.iter();
                rows.any(|row| row.id == experiment.id && row.name == marked.name)
            };
            let name = &marked.name;
            assert!(has(full), "{} {name}", experiment.id);
            assert!(has(quick) || may_lack(&experiment.id, marked.mark.text()), "{name}");
        }
    }
}

/// Every kind of row and figure, with letters that mean something to a page or a sheet.
pub(crate) fn small() -> Results {
    let experiments = vec![
        experiment("D1", "Throughput <of> \"trees\" & tables", Some(true)),
        experiment("D2", "Latency", Some(false)),
        experiment("D3", "Nothing to judge", None),
    ];
    let rows = vec![
        Row {
            command: Some("lastword run 'tpcc' --threads 2 && echo \"<done>\"".into()),
            ..row("D1", "ratio/tree", "to volatile, <tree> & \"16\"", 0.97, Some(true))
        },
        Row {
            why: Some("a \"quoted\", long\nreason of <two> lines".into()),
            ..row("D2", "latency/<b>", "half of the <b> & more", 0.5, Some(false))
        },
        Row {
            ours: None,
            why: Some("this machine has 2 cores".into()),
            ..row("D2", "latency/16", "with 16 threads", 0.0, None)
        },
        Row { mark: None, unit: "tx/s".into(), ..row("D3", "rate", "the rate", 5.7e6, None) },
    ];
    let figures = vec![
        Figure {
            x: Axis { label: "threads".into(), log: true },
            y: Axis { label: "tx/s".into(), log: true },
            series: vec![
                series("dudetm", false, &[(1.0, 1e6), (2.0, 1.9e6), (4.0, 3e6)]),
                series("dudetm", true, &[(1.0, 0.9e6), (16.0, 9e6)]),
                series("a <b> & c", false, &[(1.0, 0.0), (2.0, 2e5), (4.0, f64::NAN)]),
            ],
            ..figure("D1", "curves", "Rate <by> threads")
        },
        figure("D2", "empty", "Nothing"),
        Figure {
            series: vec![series("one", false, &[(0.0, 0.0)])],
            ..figure("D3", "point", "One point")
        },
    ];
    results(experiments, rows, figures)
}

/// Ten experiments, some with many rows.
pub(crate) fn large() -> Results {
    let titles = [
        "Throughput of five benchmarks against volatile memory",
        "Cost of decoupling under four latencies",
        "Durable latency",
        "Log combination and write traffic",
        "Scalability",
        "Swapping of shadow memory",
        "Hardware transactional memory",
        "Sensitivity to bandwidth",
        "Recovery time by size of the log",
        "Vocabulary of TATP and TPC-C",
    ];
    let (mut experiments, mut rows, mut figures) = (vec![], vec![], vec![]);
    for (number, title) in titles.into_iter().enumerate() {
        let id = format!("D{}", number + 1);
        let held = [Some(true), Some(false), None][number % 3];
        experiments.push(experiment(&id, title, held));
        let count = if number == 1 { 32 } else { 3 + number };
        rows.extend((0..count).map(|which| large_row(&id, number, which)));
        figures.extend((0..[1, 2, 0, 3][number % 4]).map(|which| large_figure(&id, number, which)));
    }
    results(experiments, rows, figures)
}

fn large_row(id: &str, number: usize, which: usize) -> Row {
    let held = match (number % 3, which % 4) {
        (1, 1) => Some(false),
        (2, _) | (_, 3) => None,
        _ => Some(true),
    };
    let tables = ["hash table", "B+ tree", "TATP with a hash table", "TPC-C with a B+ tree"];
    let what = format!("{}, {} threads", tables[which % 4], 1 << (which % 5));
    let name = format!("ratio/{}/{which}", which % 4);
    let value = [0.97, 1.42e6, 23.4, 512.0][(number + which) % 4];
    let mut row = row(id, &name, &what, value, held);
    row.unit = ["ratio", "tx/s", "%", "ns/tx"][(number + which) % 4].into();
    row.command = Some(format!(
        "lastword run tpcc --design dude --medium emulated --latency-cycles 1000 \
         --bandwidth-gbps 1 --threads {} --seed 7 --seconds 2",
        1 << (which % 5)
    ));
    row.why = match held {
        Some(false) => Some(
            "The copy of the paper's machine has 12 cores; here the steps behind run on the cores \
             that the workers need, which costs more than what log combination saves."
                .into(),
        ),
        None => Some("This machine has 2 cores, the experiment needs 16.".into()),
        _ => None,
    };
    if held.is_none() {
        row.ours = None;
        row.mark = (number != 2).then(|| ">= 0.85".into());
    }
    row
}

fn large_figure(id: &str, number: usize, which: usize) -> Figure {
    let names = ["volatile-stm", "dudetm", "dudetm-inf", "dudetm-sync", "mnemosyne", "nvml"];
    let xs = [[1.0, 2.0, 4.0, 8.0, 16.0], [1.0, 10.0, 100.0, 1000.0, 10_000.0]][which % 2];
    let curve = |place: usize, scale: f64| -> Vec<(f64, f64)> {
        let slow = 1.0 + place as f64 * 0.6;
        xs.iter()
            .enumerate()
            .map(|(i, x)| (*x, scale * (i as f64 + 1.5).powf(0.8) / slow))
            .collect()
    };
    let count = 2 + (number + which) % 5;
    let mut all: Vec<_> =
        (0..count).map(|place| series(names[place], false, &curve(place, 1e6))).collect();
    all.extend((0..count.min(3)).map(|place| series(names[place], true, &curve(place, 1.3e6))));
    let title =
        format!("Figure {}: rate of {} by threads", number + 2, ["TATP", "TPC-C"][which % 2]);
    Figure {
        x: Axis { label: ["threads", "transactions a group"][which % 2].into(), log: true },
        y: Axis { label: "transactions a second".into(), log: which == 1 },
        series: all,
        ..figure(id, &format!("{id}-{which}"), &title)
    }
}

fn results(experiments: Vec<Experiment>, rows: Vec<Row>, figures: Vec<Figure>) -> Results {
    Results {
        paper: "dudetm".into(),
        title: "DudeTM: Building Durable Transactions with Decoupling".into(),
        setup: "12 cores at 2.5 GHz, memory emulated with 1 GB/s and 1000 cycles".into(),
        machine: Machine { cpu: "A processor & <more>".into(), cores: 2 },
        commit: Some("e933717"),
        quick: true,
        seconds: 512.3,
        rounds: 5,
        seed: 7,
        experiments,
        rows,
        figures,
    }
}

fn experiment(id: &str, title: &str, held: Option<bool>) -> Experiment {
    Experiment {
        id: id.into(),
        title: title.into(),
        source: "Section 5.2, Table 1 & Figure 2".into(),
        found: "With <decoupling> the throughput stays within 7 to 25 % of volatile memory, and \
                grows with threads until the bandwidth is used up."
            .into(),
        here: "The same benchmarks on emulated memory with the \"same\" latency, with 1 and 2 \
               workers instead of 1 to 16; keys are drawn uniformly."
            .into(),
        held,
    }
}

fn row(id: &str, name: &str, what: &str, median: f64, held: Option<bool>) -> Row {
    Row {
        id: id.into(),
        name: name.into(),
        what: what.into(),
        paper: Some("0.93 <to> 0.98".into()),
        ours: Some(OverRounds { median, min: median - 0.02, max: median + 0.02 * median.max(1.0) }),
        unit: "ratio".into(),
        mark: Some(">= 0.85".into()),
        held,
        why: None,
        rounds: 5,
        seed: 7,
        command: None,
    }
}

fn figure(id: &str, name: &str, title: &str) -> Figure {
    let axis = || Axis { label: "x & <y>".into(), log: false };
    let (id, name, title) = (id.into(), name.into(), title.into());
    Figure { id, name, title, x: axis(), y: axis(), series: vec![] }
}

fn series(name: &str, theirs: bool, points: &[(f64, f64)]) -> Series {
    let point = |(x, y): &(f64, f64)| {
        let spread = if theirs { 0.0 } else { 0.07 * y };
        Point { x: *x, y: OverRounds { median: *y, min: y - spread, max: y + spread } }
    };
    Series { name: name.into(), theirs, points: points.iter().map(point).collect() }
}
