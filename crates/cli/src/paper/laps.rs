//! Laps by the command that makes them: made in interleaved rounds, kept on disk as they are done.
//!
//! ```text
//!   DIR/laps.jsonl    {"program": ..., "machine": ...}           what made them
//!                     {"command": ..., "round": 0, "lap": {...}} one line for each
//! ```
//!
//! A line is written whole when its lap is done, so an interrupted run goes on where it was. What
//! another build or another machine has made is no part of this one's results and is begun anew.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Parser;
use serde::{Deserialize, Serialize};

use super::Budget;
use crate::args::{Command, CommandLine, Run};
use crate::driver::Limit;
use crate::failure::Failure;
pub(super) use crate::lap::Lap;
use crate::lap::{How, lap};
use crate::machine::Machine;
use crate::report::progress;
use crate::setup::Place;

/// A lap that is to be made in every round.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    /// As behind `lastword run`.
    pub(super) command: String,
    /// What makes the pool that it runs on, which stays for the other laps on it; nothing: a fresh
    /// pool for each lap.
    pub(super) pool: Option<String>,
    /// Rounds at most.
    pub(super) rounds: u64,
}

impl Spec {
    pub(super) fn new(command: String) -> Spec {
        Spec { command, pool: None, rounds: u64::MAX }
    }
}

/// All laps that were made.
#[derive(Debug, Default)]
pub(super) struct Laps(HashMap<String, Vec<Lap>>);

impl Laps {
    /// Those of a command, a round each.
    ///
    /// # Panics
    /// It is in no plan.
    pub(super) fn of(&self, command: &str) -> &[Lap] {
        self.0.get(command).unwrap_or_else(|| panic!("no plan has `{command}`"))
    }

    #[cfg(test)]
    pub(super) fn all_like(plan: Vec<Spec>, rounds: u64, lap: Lap) -> Laps {
        let laps = |spec: Spec| (spec.command, vec![lap; rounds.min(spec.rounds) as usize]);
        Laps(plan.into_iter().map(laps).collect())
    }
}

/// The first line of the file.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Made {
    /// Length and time of the program's file: another build has others.
    program: (u64, u64),
    machine: String,
    seed: u64,
}

/// Another line.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    command: String,
    round: u64,
    lap: Lap,
}

/// Makes all laps of a plan, those apart that are in `out` already.
///
/// # Errors
/// What kept one from being made.
pub(super) fn all(plan: Vec<Spec>, budget: &Budget, out: Option<&Path>) -> Result<Laps, Failure> {
    let plan = without_doubles(plan);
    let mut store = out.map(|out| Store::open(&out.join("laps.jsonl"), budget.seed)).transpose()?;
    let is_done = |spec: &Spec, round: u64| {
        let done = |store: &Store| store.done.contains_key(&(spec.command.clone(), round));
        store.as_ref().is_some_and(done)
    };
    let all = plan.iter().map(|spec| spec.rounds.min(budget.rounds)).sum();
    let bar = progress::bar("laps", all);
    let mut laps = Laps::default();
    let mut pools = Pools::default();
    let mut todo = Vec::new();
    for round in 0..budget.rounds {
        for step in 0..plan.len() {
            let spec = &plan[(round as usize + step) % plan.len()];
            if round < spec.rounds {
                todo.push((spec, round, is_done(spec, round)));
            }
        }
    }
    for (spec, round, is_done) in todo {
        let Spec { command, .. } = spec;
        let lap = match (is_done, &mut store) {
            (true, Some(store)) => store.done[&(command.clone(), round)],
            (_, store) => {
                bar.set_message(command.clone());
                let lap = make(spec, budget.seed + round, &mut pools)?;
                if let Some(store) = store {
                    store.add(&Line { command: command.clone(), round, lap })?;
                }
                lap
            }
        };
        laps.0.entry(command.clone()).or_default().push(lap);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(laps)
}

/// Each command once.
fn without_doubles(plan: Vec<Spec>) -> Vec<Spec> {
    let mut seen = HashSet::new();
    plan.into_iter().filter(|spec| seen.insert(spec.command.clone())).collect()
}

/// Pools that several laps run on, by the command that has made them.
#[derive(Default)]
struct Pools(HashMap<String, Place>);

impl Pools {
    /// The pool of this command, made if it is not there.
    fn get(&mut self, command: &str, seed: u64) -> Result<PathBuf, Failure> {
        if !self.0.contains_key(command) {
            let mut run = parse(command)?;
            let place = Place::temporary(&run.load);
            run.load.pool = Some(place.path().to_owned());
            measure(&run, seed, true)?;
            self.0.insert(command.to_owned(), place);
        }
        Ok(self.0[command].path().to_owned())
    }
}

fn make(spec: &Spec, seed: u64, pools: &mut Pools) -> Result<Lap, Failure> {
    let mut run = parse(&spec.command)?;
    if let Some(command) = &spec.pool {
        run.load.pool = Some(pools.get(command, seed)?);
        run.load.scale = None; // the pool has its own
    }
    measure(&run, seed, spec.pool.is_some())
}

fn measure(run: &Run, seed: u64, stays: bool) -> Result<Lap, Failure> {
    let mut load = run.design.adjust(&run.load);
    load.seed = seed;
    let limit = match (load.transactions, load.seconds) {
        (Some(transactions), _) => Limit::Transactions(transactions),
        (None, seconds) => Limit::Seconds(seconds.unwrap_or(1.0)),
    };
    let how = How { limit, sampling: load.sampling(), check: false, stays };
    Ok(lap(&run.workload.name, run.design, &load, how)?.lap)
}

/// The arguments of a command of a plan.
fn parse(command: &str) -> Result<Run, Failure> {
    let words = ["lastword", "run"].into_iter().chain(command.split_whitespace());
    match CommandLine::try_parse_from(words).map(|line| line.command) {
        Ok(Command::Run(run)) => Ok(run),
        Ok(_) => unreachable!("it begins with `run`"),
        Err(error) => panic!("a plan has a command that is none: {error}"),
    }
}

/// Laps on disk.
struct Store {
    path: PathBuf,
    file: File,
    done: HashMap<(String, u64), Lap>,
}

impl Store {
    fn open(path: &Path, seed: u64) -> Result<Store, Failure> {
        let made = Made { program: program(), machine: Machine::this().cpu, seed };
        let text = fs::read_to_string(path).unwrap_or_default();
        let mut lines = text.lines();
        let first = lines.next().and_then(|line| serde_json::from_str::<Made>(line).ok());
        let is_ours = first.as_ref() == Some(&made);
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.map_err(Failure::file("writing", path))?;
        let mut store = Store { path: path.to_owned(), file, done: HashMap::new() };
        if is_ours {
            // A line that was cut short is a lap that was not done.
            let whole = lines.filter_map(|line| serde_json::from_str::<Line>(line).ok());
            store.done.extend(whole.map(|line| ((line.command, line.round), line.lap)));
            if !text.ends_with('\n') {
                store.put("\n")?;
            }
        } else {
            store.file.set_len(0).map_err(Failure::file("writing", path))?;
            store.line(&made)?;
        }
        Ok(store)
    }

    fn add(&mut self, line: &Line) -> Result<(), Failure> {
        self.line(line)?;
        self.done.insert((line.command.clone(), line.round), line.lap);
        Ok(())
    }

    fn line(&mut self, line: &impl Serialize) -> Result<(), Failure> {
        let mut text = crate::report::json::line(line);
        text.push('\n');
        self.put(&text)
    }

    fn put(&mut self, text: &str) -> Result<(), Failure> {
        self.file.write_all(text.as_bytes()).map_err(Failure::file("writing", &self.path))
    }
}

/// Length of this program's file, and when it was written.
fn program() -> (u64, u64) {
    let about = || {
        let about = std::env::current_exe().ok()?.metadata().ok()?;
        let time = about.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some((about.len(), time.as_nanos() as u64))
    };
    about().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_run_goes_on_and_another_build_begins_anew() {
        let directory = tempfile::tempdir().unwrap();
        let spec = |workload: &str| Spec::new(format!("{workload} --transactions 100"));
        let plan = || vec![spec("empty"), spec("bank"), spec("empty")];
        let budget = Budget { quick: true, rounds: 2, seed: 1, peers: None };
        let out = Some(directory.path());
        let laps = all(plan(), &budget, out).unwrap();
        assert_eq!(laps.of("empty --transactions 100").len(), 2);
        assert_eq!(laps.of("bank --transactions 100")[0].transactions, 100);

        // Cut in the last line: that lap is made again, and no other.
        let path = directory.path().join("laps.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 5);
        let other = text.replacen("\"transactions\":100", "\"transactions\":77", 4);
        fs::write(&path, &other[..other.len() - 9]).unwrap();
        let laps = all(plan(), &budget, out).unwrap();
        let found = laps.0.values().flatten().map(|lap| lap.transactions);
        let mut found: Vec<u64> = found.collect();
        found.sort_unstable();
        assert_eq!(found, [77, 77, 77, 100]);

        let foreign = other.replacen("\"machine\":\"", "\"machine\":\"another ", 1);
        fs::write(&path, foreign).unwrap();
        let laps = all(plan(), &budget, out).unwrap();
        assert!(laps.0.values().flatten().all(|lap| lap.transactions == 100));
    }

    #[test]
    fn laps_on_one_pool_find_it_there() {
        let made = "btree-update --medium emulated --scale 0.001 --transactions 1";
        let spec = |shadow: &str| Spec {
            command: format!(
                "btree-update --medium emulated --shadow {shadow} --warm-up 0.01 --transactions 50"
            ),
            pool: Some(made.into()),
            rounds: 1,
        };
        let budget = Budget { quick: true, rounds: 2, seed: 1, peers: None };
        let laps = all(vec![spec("software"), spec("cow")], &budget, None).unwrap();
        assert!(laps.0.values().all(|laps| laps.len() == 1 && laps[0].transactions == 50));
    }
}
