//! Made-up results for tests: a small set of odd cases, and a large one of a paper's size.

use std::collections::BTreeMap;

use sim::report::Outcome;
use sim::sweep::Asked;

use crate::budget::Budget;
use crate::error::Error;
use crate::machine::Machine;
use crate::recipe::{Made, Recipe};
use crate::registry::recipes;
use crate::reproduce::judge;
use crate::results::{Axis, Experiment, Figure, Point, Results, Row, Series};
use crate::runner::{Progress, Runner, TrialRequest, TrialResult};
use crate::simulations::Simulations;
use crate::statistics::OverRounds;
use crate::targets::Paper;
use crate::trial::Trial;
use crate::trials::Trials;

/// A runner that runs nothing: a trial has as many transactions as its command says.
pub(crate) struct Fake;

impl Runner for Fake {
    type Error = Error;

    fn run(&mut self, request: TrialRequest<'_>) -> Result<TrialResult, Error> {
        let count = request.command.rsplit(' ').next().and_then(|count| count.parse().ok());
        let transactions = count.expect("the command ends with a number of transactions");
        Ok(TrialResult { trial: Trial { transactions, ..Trial::SAMPLE }, held: true })
    }

    fn progress(&self, _doing: &'static str, _length: u64) -> Box<dyn Progress> {
        silent(0)
    }
}

struct Silent;

impl Progress for Silent {
    fn begins(&self, _step: &str) {}
    fn inc(&self) {}
    fn alive(&self) {}
    fn finish(&self) {}
}

/// Progress that shows nothing.
pub(crate) fn silent(_length: u64) -> Box<dyn Progress> {
    Box::new(Silent)
}

/// Returns the budget of a test.
pub(super) fn budget(quick: bool) -> Budget {
    Budget { quick, rounds: 3, seed: 1, comparison: None }
}

/// Returns the results of a paper for made-up trials.
pub(super) fn judged(paper: &str, quick: bool, trial: fn(&str) -> Trial) -> Results {
    let budget = budget(quick);
    let recipes: Vec<&Recipe> = recipes(paper).iter().collect();
    let plan = recipes.iter().flat_map(|recipe| recipe.plan_trials(&budget)).collect();
    let trials = Trials::invented(plan, budget.rounds, trial);
    let made = Made { trials, ..Made::default() };
    judge(&Paper::by_name(paper).unwrap(), &recipes, &budget, &made)
}

/// Returns the results of a paper for made-up simulations.
pub(super) fn simulated(paper: &str, quick: bool, outcome: fn(&Asked) -> Outcome) -> Results {
    judged_with(paper, quick, |asked| Ok(outcome(asked)))
}

/// Returns the results of a paper for made-up simulations, some of which fail.
pub(super) fn judged_with(
    paper: &str,
    quick: bool,
    outcome: impl Fn(&Asked) -> Result<Outcome, String>,
) -> Results {
    let budget = Budget { rounds: 1, ..budget(quick) };
    let recipes: Vec<&Recipe> = recipes(paper).iter().collect();
    let plan = recipes.iter().flat_map(|recipe| recipe.plan_simulations(&budget)).collect();
    let made = Made { simulations: Simulations::invented(plan, outcome), ..Made::default() };
    judge(&Paper::by_name(paper).unwrap(), &recipes, &budget, &made)
}

/// Returns the results of a paper for real simulations of minimal size. Their numbers mean nothing.
fn shrunk(paper: &str) -> Results {
    let budget = Budget { rounds: 1, ..budget(true) };
    let recipes: Vec<&Recipe> = recipes(paper).iter().filter(|recipe| !recipe.is_long).collect();
    let plan = recipes.iter().flat_map(|recipe| recipe.plan_simulations(&budget)).collect();
    let small = |asked: Asked| {
        let cores = Some(asked.cores.unwrap_or(2).min(2));
        let scale = asked.scale / 100.0;
        Asked { transactions: 10, scale, cores, ..asked.with("llc.bytes", 1 << 19) }
    };
    let made = Made { simulations: Simulations::shrunk(plan, small), ..Made::default() };
    judge(&Paper::by_name(paper).unwrap(), &recipes, &budget, &made)
}

/// Asserts that a paper has exactly these targets, by experiment and row.
pub(super) fn assert_targets(paper: &str, expected: &[(&str, String, &str)]) {
    let paper = Paper::by_name(paper).unwrap();
    let found: BTreeMap<_, _> = paper
        .experiment
        .iter()
        .flat_map(|experiment| experiment.rows().into_iter().map(|row| (&experiment.id, row)))
        .filter_map(|(id, row)| Some(((id.as_str(), row.name), row.target.text()?)))
        .collect();
    for (id, name, target) in expected {
        let found = found.get(&(*id, name.clone())).map(String::as_str);
        assert_eq!(found, Some(*target), "{id} {name}");
    }
    assert_eq!(found.len(), expected.len());
}

/// Targets of every design under power cuts.
pub(super) const TARGETS_OF_CUTS: [(&str, &str); 3] =
    [("cuts/*", ">= 10000"), ("violations/*", "<= 0"), ("checked/*", ">= 100")];

/// Asserts that every row of a quick run gets a number, except rows that stand for tests.
pub(super) fn assert_simulated(paper: &str) {
    for row in shrunk(paper).rows {
        let why = row.why.as_deref().unwrap_or_default();
        let is_for_tests = why.starts_with("Nothing is run here: tests ");
        let is_known = !why.contains("there is no design") && !why.contains("there is no workload");
        assert!(row.ours.is_some() || is_for_tests || !is_known, "{} {}: {why}", row.id, row.name);
    }
}

/// Returns the median of a row in thousandths, and whether it holds.
pub(super) fn held(results: &Results, id: &str, name: &str) -> (Option<f64>, Option<bool>) {
    let row = results.rows.iter().find(|row| row.id == id && row.name == name);
    let row = row.unwrap_or_else(|| panic!("{id} {name}"));
    let rounded = |ours: f64| (1000.0 * ours).round() / 1000.0;
    (row.ours.map(|ours| rounded(ours.median)), row.held)
}

/// Asserts that a full run has every row of a paper, and a quick one all except those that
/// `may_lack` accepts, by experiment and target.
pub(super) fn assert_rows(
    paper: &str,
    trial: fn(&str) -> Trial,
    may_lack: fn(&str, Option<String>) -> bool,
) {
    let of = |quick| judged(paper, quick, trial);
    assert_rows_of(paper, (&of(false), &of(true)), may_lack);
}

/// Asserts the same of the results of a full and a quick run.
pub(super) fn assert_rows_of(
    paper: &str,
    (full, quick): (&Results, &Results),
    may_lack: fn(&str, Option<String>) -> bool,
) {
    for experiment in &Paper::by_name(paper).unwrap().experiment {
        for target_row in experiment.rows() {
            let has = |results: &Results| {
                let mut rows = results.rows.iter();
                rows.any(|row| row.id == experiment.id && row.name == target_row.name)
            };
            let name = &target_row.name;
            assert!(has(full), "{} {name}", experiment.id);
            assert!(has(quick) || may_lack(&experiment.id, target_row.target.text()), "{name}");
        }
    }
}

/// Returns every kind of row and figure, with characters that HTML and CSV must escape.
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
        Row { target: None, unit: "tx/s".into(), ..row("D3", "rate", "the rate", 5.7e6, None) },
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

/// Returns ten experiments, some with many rows.
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
            "The copy of the paper's machine has 12 cores; here the background steps take cores \
             from the workers, which costs more than log combination saves."
                .into(),
        ),
        None => Some("This machine has 2 cores, the experiment needs 16.".into()),
        _ => None,
    };
    if held.is_none() {
        row.ours = None;
        row.target = (number != 2).then(|| ">= 0.85".into());
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
        target: Some(">= 0.85".into()),
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
