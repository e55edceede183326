//! `lastword reproduce`: a paper's tables and figures, ours beside theirs.
//!
//! ```text
//!   marks (papers/*.toml)  what the paper reports, what is to be shown here
//!   recipes (dudetm/ ..)   which of these an experiment needs, and its rows made of them
//!   laps                   made in interleaved rounds, kept in --out as they are done
//!   sims                   simulations: each made once, kept in --out/points
//!   rows                   which simulations a row is made of, and what it makes of them
//!   results                rows held against their marks, and curves
//!   chart csv page table   what is shown of them
//! ```
//!
//! A lap that several experiments need is made once. Ratios are taken within a round: what is
//! compared is made within a minute. What the last round has left is checked. Whether a row holds
//! follows from its mark and the median over rounds, and nobody sets it by hand.

mod chart;
mod csv;
mod cuts;
mod dudetm;
mod lad;
mod laps;
mod marks;
mod number;
mod page;
mod peers;
mod pisces;
mod redu;
mod results;
mod rows;
#[cfg(test)]
mod sample;
mod scale;
mod section;
mod sheet;
mod sims;
mod ssp;
mod standing;
mod store;
mod table;
mod whole;

use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::args::{Format, Reproduce};
use crate::failure::{Failure, Verdict};
use crate::machine::{self, Machine};
use crate::report::{self, json};

use ::sim::sweep::Asked;
use laps::{Laps, Spec};
use marks::{Marked, Paper};
use peers::Peers;
use results::{Experiment, Results, Row};
use rows::Rows;
use sheet::{Sheet, Value};
use sims::Sims;
use store::Store;

/// The papers that there are.
pub(crate) const NAMES: [&str; 5] = ["dudetm", "pisces", "lad", "redu", "ssp"];

/// How much is measured.
#[derive(Clone, Debug)]
struct Budget {
    quick: bool,
    rounds: u64,
    seed: u64,
    /// What foreign systems did, if it was given.
    peers: Option<Peers>,
}

impl Budget {
    /// Workers of laps that a chart shows by workers, as [`crews`].
    fn crews(&self) -> Vec<u32> {
        crews(crate::machine::Machine::this().cores, self.quick)
    }
}

/// One and two workers, which rows are about on every machine; then, in a full run, powers of two
/// up to the machine's cores.
fn crews(cores: usize, quick: bool) -> Vec<u32> {
    let more =
        (2..=6).map(|power| 1 << power).filter(|workers| !quick && *workers as usize <= cores);
    [1, 2].into_iter().chain(more).collect()
}

/// One experiment: what it needs, and what becomes of that.
struct Recipe {
    id: &'static str,
    measure: Measure,
    /// It takes so long that it is left out where nobody names it.
    is_long: bool,
}

/// What an experiment is made of.
enum Measure {
    /// Laps on this machine, in rounds.
    Laps { plan: fn(&Budget) -> Vec<Spec>, judge: fn(&Budget, &Laps, &mut Sheet) },
    /// Simulations, each made once: no machine here changes them.
    Sims { fill: fn(&mut Rows<'_>) },
}

impl Recipe {
    const fn laps(
        id: &'static str,
        plan: fn(&Budget) -> Vec<Spec>,
        judge: fn(&Budget, &Laps, &mut Sheet),
    ) -> Recipe {
        Recipe { id, measure: Measure::Laps { plan, judge }, is_long: false }
    }

    const fn sims(id: &'static str, fill: fn(&mut Rows<'_>)) -> Recipe {
        Recipe { id, measure: Measure::Sims { fill }, is_long: false }
    }

    const fn only_when_named(self) -> Recipe {
        Recipe { is_long: true, ..self }
    }

    /// The laps that it needs.
    fn plan_laps(&self, budget: &Budget) -> Vec<Spec> {
        match self.measure {
            Measure::Laps { plan, .. } => plan(budget),
            Measure::Sims { .. } => Vec::new(),
        }
    }

    /// The simulations that it needs.
    fn plan_sims(&self, budget: &Budget) -> Vec<Asked> {
        match self.measure {
            Measure::Laps { .. } => Vec::new(),
            Measure::Sims { fill } => {
                let (sims, mut sheet) = (Sims::to_plan(), Sheet::new(self.id));
                fill(&mut Rows::new(budget, &sims, &mut sheet));
                sims.planned()
            }
        }
    }

    fn judge(&self, budget: &Budget, made: &Made, sheet: &mut Sheet) {
        match self.measure {
            Measure::Laps { judge, .. } => judge(budget, &made.laps, sheet),
            Measure::Sims { fill } => fill(&mut Rows::new(budget, &made.sims, sheet)),
        }
    }
}

/// All that was measured.
#[derive(Default)]
struct Made {
    laps: Laps,
    sims: Sims,
}

fn recipes(paper: &str) -> &'static [Recipe] {
    match paper {
        "dudetm" => dudetm::RECIPES,
        "pisces" => pisces::RECIPES,
        "lad" => lad::RECIPES,
        "redu" => redu::RECIPES,
        "ssp" => ssp::RECIPES,
        _ => &[],
    }
}

/// Runs it, writes what was asked for, and prints the table.
///
/// # Errors
/// What kept it from being run.
pub(crate) fn run(arguments: &Reproduce) -> Result<Verdict, Failure> {
    let paper = Paper::by_name(&arguments.paper)?;
    let recipes = chosen(&paper, &arguments.ids)?;
    if arguments.list {
        return list(&paper, &recipes, !arguments.ids.is_empty(), arguments.output.format);
    }
    let peers = arguments.peers.as_deref().map(Peers::read).transpose()?;
    let (quick, seed) = (arguments.quick, arguments.seed);
    let is_simulated = recipes.iter().all(|recipe| matches!(recipe.measure, Measure::Sims { .. }));
    let rounds = match (is_simulated, quick) {
        (true, _) => 1,
        (false, true) => 3,
        (false, false) => 5,
    };
    let budget = Budget { quick, rounds, seed, peers };
    let out = arguments.out.as_deref();
    if let Some(directory) = out {
        fs::create_dir_all(directory).map_err(Failure::file("making", directory))?;
    }
    let plan: Vec<Asked> = recipes.iter().flat_map(|recipe| recipe.plan_sims(&budget)).collect();
    let sims = sims::all(plan, out)?;
    let plan: Vec<Spec> = recipes.iter().flat_map(|recipe| recipe.plan_laps(&budget)).collect();
    let open = |directory| Store::open(directory, seed);
    let mut store = out.filter(|_| !is_simulated).map(open).transpose()?;
    let laps = laps::all(plan, &budget, store.as_mut())?;
    let mut made = Made { laps, sims };
    let results = judge(&paper, &recipes, &budget, &made);
    report::print(&match arguments.output.format {
        Format::Json => json::object(&results),
        Format::Table => table::table(&results),
    })?;
    if let Some(directory) = out {
        let kept = (directory, store.as_ref());
        let known = with_earlier(&paper, &recipes, &budget, &mut made, kept);
        write(&judge(&paper, &known, &budget, &made), directory)?;
    }
    let all_held = results.rows.iter().all(|row| row.held != Some(false));
    Ok(Verdict::of(all_held && !made.laps.broken && !made.sims.broken))
}

/// One experiment, for who looks which there are.
#[derive(Serialize)]
struct Listed<'p> {
    id: &'p str,
    title: &'p str,
    source: &'p str,
    rows: usize,
    /// Only when it is named: it takes long.
    named_only: bool,
}

/// Prints which experiments there are, those too that take long; or these.
fn list(
    paper: &Paper,
    chosen: &[&Recipe],
    are_named: bool,
    format: Format,
) -> Result<Verdict, Failure> {
    let recipe = |id: &str| recipes(&paper.paper).iter().find(|recipe| recipe.id == id);
    let is_meant = |id: &str| !are_named || chosen.iter().any(|recipe| recipe.id == id);
    let meant = paper.experiment.iter().filter(|experiment| is_meant(&experiment.id));
    let listed = meant.map(|experiment| Listed {
        id: &experiment.id,
        title: &experiment.title,
        source: &experiment.source,
        rows: experiment.rows().len(),
        named_only: recipe(&experiment.id).is_some_and(|recipe| recipe.is_long),
    });
    let listed: Vec<Listed<'_>> = listed.collect();
    report::print(&match format {
        Format::Json => json::object(&listed),
        Format::Table => table::list(&listed),
    })?;
    Ok(Verdict::Held)
}

/// The recipes of these experiments; when none is named of all that do not take long.
fn chosen(paper: &Paper, ids: &[String]) -> Result<Vec<&'static Recipe>, Failure> {
    let all = recipes(&paper.paper);
    if ids.is_empty() {
        return Ok(all.iter().filter(|recipe| !recipe.is_long).collect());
    }
    ids.iter()
        .map(|id| {
            let known = || all.iter().map(|recipe| recipe.id).collect::<Vec<_>>().join(", ");
            all.iter().find(|recipe| recipe.id.eq_ignore_ascii_case(id)).ok_or_else(|| {
                let paper = paper.paper.clone();
                Failure::NoExperiment { paper, id: id.clone(), known: known() }
            })
        })
        .collect()
}

/// These, and those of which earlier runs have left everything: what is written shows all that is
/// known.
fn with_earlier(
    paper: &Paper,
    now: &[&'static Recipe],
    budget: &Budget,
    made: &mut Made,
    kept: (&Path, Option<&Store>),
) -> Vec<&'static Recipe> {
    let mut known = now.to_vec();
    for recipe in recipes(&paper.paper) {
        let is_new = now.iter().all(|recipe_now| recipe_now.id != recipe.id);
        if is_new && add_stored(recipe, budget, made, kept) {
            known.push(recipe);
        }
    }
    known
}

/// Adds what earlier runs have left of an experiment, if all of it is there.
fn add_stored(
    recipe: &Recipe,
    budget: &Budget,
    made: &mut Made,
    (out, store): (&Path, Option<&Store>),
) -> bool {
    match recipe.measure {
        Measure::Sims { .. } => made.sims.add_stored(recipe.plan_sims(budget), out),
        Measure::Laps { plan, .. } => {
            let plan = plan(budget);
            let store = store.filter(|_| !plan.is_empty());
            store.is_some_and(|store| made.laps.add_stored(plan, budget, store))
        }
    }
}

/// Holds what was measured against the marks.
fn judge(paper: &Paper, recipes: &[&Recipe], budget: &Budget, made: &Made) -> Results {
    let mut results = Results {
        paper: paper.paper.clone(),
        title: paper.title.clone(),
        setup: paper.setup.clone(),
        machine: Machine::this(),
        commit: machine::commit(),
        quick: budget.quick,
        seconds: made.laps.seconds + made.sims.seconds,
        rounds: budget.rounds,
        seed: budget.seed,
        experiments: Vec::new(),
        rows: Vec::new(),
        figures: Vec::new(),
    };
    for experiment in &paper.experiment {
        let Some(recipe) = recipes.iter().find(|recipe| recipe.id == experiment.id) else {
            continue;
        };
        let mut sheet = Sheet::new(recipe.id);
        recipe.judge(budget, made, &mut sheet);
        let rows: Vec<Row> = experiment
            .rows()
            .into_iter()
            .filter_map(|marked| {
                let value = sheet.take(&marked.name);
                value.map(|value| row(recipe.id, marked, value, budget.seed))
            })
            .collect();
        sheet.assert_all_taken();
        results.experiments.push(Experiment {
            id: experiment.id.clone(),
            title: experiment.title.clone(),
            source: experiment.source.clone(),
            found: experiment.found.clone(),
            here: experiment.here.clone(),
            held: all_hold(&rows),
        });
        results.rows.extend(rows);
        results.figures.extend(sheet.figures);
    }
    results
}

/// One row: held is what its mark says of the median; without a mark nothing is.
fn row(id: &str, marked: Marked, value: Value, seed: u64) -> Row {
    let Marked { name, what, unit, paper, mark, missed } = marked;
    let Value { over: ours, rounds, note, missed: computed, seed: theirs, command } = value;
    let text = mark.text();
    let held = ours.filter(|_| text.is_some()).map(|ours| mark.holds(ours.median));
    let unknown = || "No reason is known yet.".to_owned();
    let missed = (held == Some(false)).then(|| computed.or(missed).unwrap_or_else(unknown));
    let why = [note, missed].into_iter().flatten().collect::<Vec<_>>().join(" ");
    Row {
        id: id.into(),
        name,
        what,
        paper,
        ours,
        unit,
        mark: text,
        held,
        why: (!why.is_empty()).then_some(why),
        rounds,
        seed: theirs.unwrap_or(seed),
        command: command.map(|command| format!("lastword {command}")),
    }
}

/// Whether all that were judged hold; nothing when none was.
fn all_hold(rows: &[Row]) -> Option<bool> {
    let mut judged = rows.iter().filter_map(|row| row.held).peekable();
    judged.peek()?;
    Some(judged.all(|held| held))
}

/// Writes the page, the charts and the tables.
fn write(results: &Results, directory: &Path) -> Result<(), Failure> {
    let name = &results.paper;
    let put = |file: String, text: String| whole::put(directory, &file, &text);
    put(format!("{name}.json"), json::object(results) + "\n")?;
    put(format!("{name}.csv"), csv::rows(results))?;
    put(format!("{name}.html"), page::html(results))?;
    for figure in &results.figures {
        put(format!("{name}-{}.svg", figure.name), chart::svg(figure))?;
        put(format!("{name}-{}.csv", figure.name), csv::figure(figure))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::CommandLine;

    #[test]
    fn every_command_of_a_plan_can_be_run() {
        for (paper, quick) in NAMES.into_iter().flat_map(|paper| [(paper, false), (paper, true)]) {
            let budget = sample::budget(quick);
            for spec in recipes(paper).iter().flat_map(|recipe| recipe.plan_laps(&budget)) {
                for command in [Some(spec.command), spec.pool].into_iter().flatten() {
                    let words = ["lastword", "run"].into_iter().chain(command.split_whitespace());
                    CommandLine::try_parse_from(words).unwrap();
                }
            }
        }
    }
}
