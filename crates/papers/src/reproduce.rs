//! One reproduction: from a request to results, held against the targets of the paper.

use std::fs;
use std::path::{Path, PathBuf};

use sim::sweep::Asked;

use crate::budget::Budget;
use crate::comparison::Comparison;
use crate::error::Error;
use crate::machine::{self, Machine};
use crate::output;
use crate::recipe::{Made, Measure, Recipe};
use crate::registry::recipes;
use crate::results::{Experiment, Listed, Results, Row};
use crate::runner::Runner;
use crate::sheet::{Sheet, Value};
use crate::simulations;
use crate::store::Store;
use crate::targets::{Paper, TargetRow};
use crate::trials::{self, Spec};

/// Request for a reproduction.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Short name of the paper, one of [`NAMES`](crate::NAMES).
    pub paper: String,
    /// IDs of experiments in either case; empty for all that are not long.
    pub ids: Vec<String>,
    /// Shorter trials, fewer rounds and sizes; the same targets.
    pub quick: bool,
    /// Directory of results, created if missing. Trials and simulations are kept there as they
    /// complete, so that a later request resumes an interrupted one.
    pub out: Option<PathBuf>,
    /// JSON report of `comparison durable`, for the rows that need libpmemobj.
    pub comparison: Option<PathBuf>,
    /// Seed of the first round's clients.
    pub seed: u64,
}

/// A completed reproduction.
pub struct Reproduction {
    /// The experiments of the request.
    pub results: Results,
    /// Whether every row with a target holds and every check and simulation succeeded.
    pub held: bool,
    paper: Paper,
    recipes: Vec<&'static Recipe>,
    budget: Budget,
    made: Made,
    out: Option<(PathBuf, Option<Store>)>,
}

/// Runs the experiments of a request.
///
/// # Errors
/// The request names an unknown paper or experiment, a file cannot be read or written, or a trial
/// cannot run.
pub fn reproduce<R: Runner>(request: &Request, runner: &mut R) -> Result<Reproduction, R::Error> {
    let paper = Paper::by_name(&request.paper)?;
    let recipes = chosen(&paper, &request.ids)?;
    let comparison = request.comparison.as_deref().map(Comparison::read).transpose()?;
    let (quick, seed) = (request.quick, request.seed);
    let is_simulated = recipes.iter().all(|recipe| recipe.is_simulated());
    let rounds = match (is_simulated, quick) {
        (true, _) => 1,
        (false, true) => 3,
        (false, false) => 5,
    };
    let budget = Budget { quick, rounds, seed, comparison };
    let out = request.out.as_deref();
    if let Some(directory) = out {
        fs::create_dir_all(directory).map_err(Error::file("making", directory))?;
    }
    let planned = recipes.iter().flat_map(|recipe| recipe.plan_simulations(&budget));
    let plan: Vec<Asked> = planned.collect();
    let simulations = simulations::all(plan, out, |length| runner.progress("points", length))?;
    let plan: Vec<Spec> = recipes.iter().flat_map(|recipe| recipe.plan_trials(&budget)).collect();
    let open = |directory| Store::open(directory, seed);
    let mut store = out.filter(|_| !is_simulated).map(open).transpose()?;
    let trials = trials::all(plan, &budget, store.as_mut(), runner)?;
    let made = Made { trials, simulations };
    let results = judge(&paper, &recipes, &budget, &made);
    let all_hold = results.rows.iter().all(|row| row.held != Some(false));
    let held = all_hold && !made.trials.broken && !made.simulations.broken;
    let out = out.map(|directory| (directory.to_owned(), store));
    Ok(Reproduction { results, held, paper, recipes, budget, made, out })
}

impl Reproduction {
    /// Returns the results as a table, as wide as the terminal.
    pub fn table(&self) -> String {
        output::table::table(&self.results)
    }

    /// Writes the page, the charts and the tables to the directory of results, if the request has
    /// one. They show also the experiments that earlier requests have completed there.
    ///
    /// # Errors
    /// A file cannot be written; it then keeps its earlier content.
    pub fn write(&mut self) -> Result<(), Error> {
        let Reproduction { paper, recipes, budget, made, out, .. } = self;
        let Some((directory, store)) = out else { return Ok(()) };
        let known = with_earlier(paper, recipes, budget, made, (directory, store.as_ref()));
        output::write(&judge(paper, &known, budget, made), directory)
    }
}

/// Returns the experiments of a request without running them; without IDs all of the paper, long
/// ones included.
///
/// # Errors
/// The paper or an experiment is unknown.
pub fn list(request: &Request) -> Result<Vec<Listed>, Error> {
    let paper = Paper::by_name(&request.paper)?;
    let chosen = chosen(&paper, &request.ids)?;
    let recipe = |id: &str| recipes(&paper.paper).iter().find(|recipe| recipe.id == id);
    let are_named = !request.ids.is_empty();
    let is_meant = |id: &str| !are_named || chosen.iter().any(|recipe| recipe.id == id);
    let meant = paper.experiment.iter().filter(|experiment| is_meant(&experiment.id));
    let listed = meant.map(|experiment| Listed {
        id: experiment.id.clone(),
        title: experiment.title.clone(),
        source: experiment.source.clone(),
        rows: experiment.rows().len(),
        named_only: recipe(&experiment.id).is_some_and(|recipe| recipe.is_long),
    });
    Ok(listed.collect())
}

/// Returns a list of experiments as a table.
pub fn list_table(listed: &[Listed]) -> String {
    output::table::list(listed)
}

/// Returns the recipes of the IDs; without IDs those of all experiments that are not long.
fn chosen(paper: &Paper, ids: &[String]) -> Result<Vec<&'static Recipe>, Error> {
    let all = recipes(&paper.paper);
    if ids.is_empty() {
        return Ok(all.iter().filter(|recipe| !recipe.is_long).collect());
    }
    ids.iter()
        .map(|id| {
            let known = || all.iter().map(|recipe| recipe.id).collect::<Vec<_>>().join(", ");
            all.iter().find(|recipe| recipe.id.eq_ignore_ascii_case(id)).ok_or_else(|| {
                let paper = paper.paper.clone();
                Error::NoExperiment { paper, id: id.clone(), known: known() }
            })
        })
        .collect()
}

/// Returns these recipes and those whose results are all stored, so that the written page shows
/// them too.
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

/// Adds the stored results of an experiment and returns true, if all of them are stored.
fn add_stored(
    recipe: &Recipe,
    budget: &Budget,
    made: &mut Made,
    (out, store): (&Path, Option<&Store>),
) -> bool {
    match recipe.measure {
        Measure::Simulations { .. } => {
            made.simulations.add_stored(recipe.plan_simulations(budget), out)
        }
        Measure::Trials { plan, .. } => {
            let plan = plan(budget);
            let store = store.filter(|_| !plan.is_empty());
            store.is_some_and(|store| made.trials.add_stored(plan, budget, store))
        }
    }
}

/// Compares the results of these recipes with their targets.
pub(crate) fn judge(paper: &Paper, recipes: &[&Recipe], budget: &Budget, made: &Made) -> Results {
    let mut results = Results {
        paper: paper.paper.clone(),
        title: paper.title.clone(),
        setup: paper.setup.clone(),
        machine: Machine::this(),
        commit: machine::commit(),
        quick: budget.quick,
        seconds: made.trials.seconds + made.simulations.seconds,
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
            .filter_map(|target_row| {
                let value = sheet.take(&target_row.name);
                value.map(|value| row(recipe.id, target_row, value, budget.seed))
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

/// Returns a row. Its target and its median alone decide whether it holds.
fn row(id: &str, target_row: TargetRow, value: Value, seed: u64) -> Row {
    let TargetRow { name, what, unit, paper, target, missed } = target_row;
    let Value { over: ours, rounds, note, missed: computed, seed: theirs, command } = value;
    let text = target.text();
    let held = ours.filter(|_| text.is_some()).map(|ours| target.holds(ours.median));
    let unknown = || "The reason is not known yet.".to_owned();
    let missed = (held == Some(false)).then(|| computed.or(missed).unwrap_or_else(unknown));
    let why = [note, missed].into_iter().flatten().collect::<Vec<_>>().join(" ");
    Row {
        id: id.into(),
        name,
        what,
        paper,
        ours,
        unit,
        target: text,
        held,
        why: (!why.is_empty()).then_some(why),
        rounds,
        seed: theirs.unwrap_or(seed),
        command: command.map(|command| format!("lastword {command}")),
    }
}

/// Returns whether all rows with a verdict hold; `None` without any.
fn all_hold(rows: &[Row]) -> Option<bool> {
    let mut judged = rows.iter().filter_map(|row| row.held).peekable();
    judged.peek()?;
    Some(judged.all(|held| held))
}
