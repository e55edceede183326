//! `lastword reproduce`: a paper's tables and figures, ours beside theirs.
//!
//! ```text
//!   marks (papers/*.toml)  what the paper reports, what is to be shown here
//!   recipes (dudetm/ ..)   which laps an experiment needs, and its rows made of them
//!   laps                   made in interleaved rounds, kept in --out as they are done
//!   results                rows held against their marks, and curves
//!   chart csv page table   what is shown of them
//! ```
//!
//! A lap that several experiments need is made once. Ratios are taken within a round: what is
//! compared is made within a minute. What the last round has left is checked. Whether a row holds
//! follows from its mark and the median over rounds, and nobody sets it by hand.

mod chart;
mod csv;
mod dudetm;
mod laps;
mod marks;
mod number;
mod page;
mod peers;
mod pisces;
mod results;
#[cfg(test)]
mod sample;
mod scale;
mod section;
mod sheet;
mod standing;
mod store;
mod table;

use std::fs;
use std::path::Path;

use crate::args::{Format, Reproduce};
use crate::failure::{Failure, Verdict};
use crate::machine::{self, Machine};
use crate::report::{self, json};

use laps::{Laps, Spec};
use marks::{Marked, Paper};
use peers::Peers;
use results::{Experiment, Results, Row};
use sheet::{Sheet, Value};
use store::Store;

/// The papers that there are.
pub(crate) const NAMES: [&str; 2] = ["dudetm", "pisces"];

/// How much is measured.
#[derive(Clone, Debug)]
struct Budget {
    quick: bool,
    rounds: u64,
    seed: u64,
    /// What foreign systems did, if it was given.
    peers: Option<Peers>,
}

/// One experiment: the laps that it needs, and what becomes of them.
struct Recipe {
    id: &'static str,
    plan: fn(&Budget) -> Vec<Spec>,
    judge: fn(&Budget, &Laps, &mut Sheet),
}

fn recipes(paper: &str) -> &'static [Recipe] {
    match paper {
        "dudetm" => dudetm::RECIPES,
        "pisces" => pisces::RECIPES,
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
    let peers = arguments.peers.as_deref().map(Peers::read).transpose()?;
    let (quick, seed) = (arguments.quick, arguments.seed);
    let budget = Budget { quick, rounds: if quick { 3 } else { 5 }, seed, peers };
    let out = arguments.out.as_deref();
    if let Some(directory) = out {
        fs::create_dir_all(directory).map_err(Failure::file("making", directory))?;
    }
    let plan: Vec<Spec> = recipes.iter().flat_map(|recipe| (recipe.plan)(&budget)).collect();
    let mut store = out.map(|directory| Store::open(directory, seed)).transpose()?;
    let mut laps = laps::all(plan, &budget, store.as_mut())?;
    let results = judge(&paper, &recipes, &budget, &laps);
    report::print(&match arguments.output.format {
        Format::Json => json::object(&results),
        Format::Table => table::table(&results),
    })?;
    if let (Some(directory), Some(store)) = (out, &store) {
        let known = with_earlier(&paper, &recipes, &budget, &mut laps, store);
        write(&judge(&paper, &known, &budget, &laps), directory)?;
    }
    let all_held = results.rows.iter().all(|row| row.held != Some(false));
    Ok(Verdict::of(all_held && !laps.broken))
}

/// The recipes of these experiments; of all when none is named.
fn chosen(paper: &Paper, ids: &[String]) -> Result<Vec<&'static Recipe>, Failure> {
    let all = recipes(&paper.paper);
    if ids.is_empty() {
        return Ok(all.iter().collect());
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

/// These, and those of which earlier runs have left all laps: what is written shows all that is
/// known.
fn with_earlier(
    paper: &Paper,
    now: &[&'static Recipe],
    budget: &Budget,
    laps: &mut Laps,
    store: &Store,
) -> Vec<&'static Recipe> {
    let mut known = now.to_vec();
    for recipe in recipes(&paper.paper) {
        let is_new = now.iter().all(|recipe_now| recipe_now.id != recipe.id);
        let plan = (recipe.plan)(budget);
        if is_new && !plan.is_empty() && laps.add_stored(plan, budget, store) {
            known.push(recipe);
        }
    }
    known
}

/// Holds what was measured against the marks.
fn judge(paper: &Paper, recipes: &[&Recipe], budget: &Budget, laps: &Laps) -> Results {
    let mut results = Results {
        paper: paper.paper.clone(),
        title: paper.title.clone(),
        setup: paper.setup.clone(),
        machine: Machine::this(),
        commit: machine::commit(),
        quick: budget.quick,
        seconds: laps.seconds,
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
        (recipe.judge)(budget, laps, &mut sheet);
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

/// One row: held is what its mark says of the median.
fn row(id: &str, marked: Marked, value: Value, seed: u64) -> Row {
    let Marked { name, what, unit, paper, mark, missed } = marked;
    let Value { over: ours, rounds, note, missed: computed, seed: theirs, command } = value;
    let held = ours.map(|ours| mark.holds(ours.median));
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
        mark: mark.text(),
        held,
        why: (!why.is_empty()).then_some(why),
        rounds,
        seed: theirs.unwrap_or(seed),
        command: command.map(|command| format!("lastword run {command}")),
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
    let put = |file: String, text: String| {
        let path = directory.join(file);
        fs::write(&path, text).map_err(Failure::file("writing", &path))
    };
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
            for spec in recipes(paper).iter().flat_map(|recipe| (recipe.plan)(&budget)) {
                for command in [Some(spec.command), spec.pool].into_iter().flatten() {
                    let words = ["lastword", "run"].into_iter().chain(command.split_whitespace());
                    CommandLine::try_parse_from(words).unwrap();
                }
            }
        }
    }
}
