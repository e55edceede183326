//! Laps by the command that makes them: made in interleaved rounds, kept on disk as they are done.
//!
//! ```text
//!   DIR/laps.jsonl    {"program": ..., "machine": ...}           what made them
//!                     {"command": ..., "round": 0, "lap": {...}} one line for each
//! ```
//!
//! A line is written whole when its lap is done, so an interrupted run goes on where it was. What
//! another build or another machine has made, or with another seed, is no part of these results: it
//! is moved to `laps.jsonl.old`.

use std::collections::HashSet;
use std::collections::hash_map::{Entry, HashMap};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use serde::{Deserialize, Serialize};

use super::Budget;
use crate::args::{Command, CommandLine, Run};
use crate::driver::Limit;
use crate::failure::Failure;
pub(super) use crate::lap::Lap;
use crate::lap::{Done, How, lap};
use crate::machine::Machine;
use crate::report::{self, progress};
use crate::setup::Place;

/// A lap that is to be made in every round.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    /// Laps that are compared with each other: made one behind the other, in each round beginning
    /// with another one.
    pub(super) block: &'static str,
    /// As behind `lastword run`.
    pub(super) command: String,
    /// What makes the pool that it runs on, which stays for the other laps on it; nothing: a fresh
    /// pool for each lap.
    pub(super) pool: Option<String>,
    /// Rounds at most.
    pub(super) rounds: u64,
}

impl Spec {
    pub(super) fn new(block: &'static str, command: String) -> Spec {
        Spec { block, command, pool: None, rounds: u64::MAX }
    }
}

/// All laps that were made.
#[derive(Debug, Default)]
pub(super) struct Laps {
    by_command: HashMap<String, Vec<Lap>>,
    /// How long they took, loading included.
    pub(super) seconds: f64,
    /// What a lap left was found wrong, and said so.
    pub(super) broken: bool,
}

impl Laps {
    /// Those of a command, a round each.
    ///
    /// # Panics
    /// It is in no plan.
    pub(super) fn of(&self, command: &str) -> &[Lap] {
        self.by_command.get(command).unwrap_or_else(|| panic!("no plan has `{command}`"))
    }

    /// Adds those of a plan that are in `out`, if all of them are.
    ///
    /// # Errors
    /// What kept them from being read.
    pub(super) fn add_stored(
        &mut self,
        plan: Vec<Spec>,
        budget: &Budget,
        out: &Path,
    ) -> Result<bool, Failure> {
        let store = Store::open(&out.join("laps.jsonl"), budget.seed)?;
        let mut found = HashMap::new();
        for Spec { command, rounds, .. } in plan {
            let rounds = 0..rounds.min(budget.rounds);
            let laps = rounds.map(|round| store.done.get(&(command.clone(), round)).copied());
            match laps.collect::<Option<Vec<_>>>() {
                None => return Ok(false),
                Some(laps) => found.insert(command, laps),
            };
        }
        for (command, laps) in found {
            if let Entry::Vacant(vacant) = self.by_command.entry(command) {
                self.seconds += laps.iter().map(|(seconds, _)| seconds).sum::<f64>();
                vacant.insert(laps.into_iter().map(|(_, lap)| lap).collect());
            }
        }
        Ok(true)
    }

    #[cfg(test)]
    pub(super) fn all_like(plan: Vec<Spec>, rounds: u64, lap: Lap) -> Laps {
        let laps = |spec: Spec| (spec.command, vec![lap; rounds.min(spec.rounds) as usize]);
        let by_command = plan.into_iter().map(laps).collect();
        Laps { by_command, seconds: 1.0, broken: false }
    }
}

/// The first line of the file.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Maker {
    /// Length and time of the program's file: another build has others.
    program: (u64, u64),
    machine: String,
    cores: usize,
    seed: u64,
}

/// Another line.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    command: String,
    round: u64,
    /// How long it took, loading included.
    seconds: f64,
    lap: Lap,
}

/// Makes all laps of a plan, but for those that are in `out` already. A block of which a round was
/// interrupted makes that round again: its laps would not have been made one behind the other.
///
/// # Errors
/// What kept one from being made.
pub(super) fn all(plan: Vec<Spec>, budget: &Budget, out: Option<&Path>) -> Result<Laps, Failure> {
    let blocks = blocks(plan);
    let mut store = out.map(|out| Store::open(&out.join("laps.jsonl"), budget.seed)).transpose()?;
    let rounds = |spec: &Spec| spec.rounds.min(budget.rounds);
    let bar = progress::bar("laps", blocks.iter().flatten().map(rounds).sum());
    let (mut laps, mut pools) = (Laps::default(), Pools::default());
    for round in 0..budget.rounds {
        for block in &blocks {
            let block: Vec<&Spec> = block.iter().filter(|spec| round < spec.rounds).collect();
            let stored = |spec: &&Spec| store.as_ref()?.done.get(&(spec.command.clone(), round));
            let stored: Option<Vec<(f64, Lap)>> =
                block.iter().map(|s| stored(s).copied()).collect();
            for step in 0..block.len() {
                let at = (round as usize + step) % block.len();
                let command = &block[at].command;
                bar.set_message(command.clone());
                let (seconds, lap) = match &stored {
                    Some(stored) => stored[at],
                    None => {
                        let is_last = round + 1 == rounds(block[at]);
                        let made = make(block[at], budget, round, is_last, &mut pools)?;
                        report::complain(&made.violations);
                        laps.broken |= !made.violations.is_empty();
                        let Made { seconds, lap, .. } = made;
                        // One that left something wrong is made again, and found wrong again.
                        if let Some(store) = store.as_mut().filter(|_| made.violations.is_empty()) {
                            let command = command.clone();
                            store.line(&Line { command, round, seconds, lap })?;
                        }
                        (seconds, lap)
                    }
                };
                laps.seconds += seconds;
                laps.by_command.entry(command.clone()).or_default().push(lap);
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    Ok(laps)
}

/// The specs by block, each command once.
fn blocks(plan: Vec<Spec>) -> Vec<Vec<Spec>> {
    let mut seen = HashSet::new();
    let mut blocks: Vec<Vec<Spec>> = Vec::new();
    for spec in plan.into_iter().filter(|spec| seen.insert(spec.command.clone())) {
        match blocks.iter_mut().find(|block| block[0].block == spec.block) {
            Some(block) => block.push(spec),
            None => blocks.push(vec![spec]),
        }
    }
    blocks
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
            measure(&run, seed, false, true)?;
            self.0.insert(command.to_owned(), place);
        }
        Ok(self.0[command].path().to_owned())
    }
}

/// A lap, and what its check says.
struct Made {
    seconds: f64,
    lap: Lap,
    violations: Vec<String>,
}

fn make(
    spec: &Spec,
    budget: &Budget,
    round: u64,
    check: bool,
    pools: &mut Pools,
) -> Result<Made, Failure> {
    let mut run = parse(&spec.command)?;
    if let Some(command) = &spec.pool {
        run.load.pool = Some(pools.get(command, budget.seed)?);
        run.load.scale = None; // the pool has its own
    }
    let start = Instant::now();
    let Done { lap, violations, .. } =
        measure(&run, budget.seed.wrapping_add(round), check, spec.pool.is_some())?;
    Ok(Made { seconds: start.elapsed().as_secs_f64(), lap, violations })
}

fn measure(run: &Run, seed: u64, check: bool, stays: bool) -> Result<Done, Failure> {
    let mut load = run.design.adjust(&run.load);
    load.seed = seed;
    let limit = match (load.transactions, load.seconds) {
        (Some(transactions), _) => Limit::Transactions(transactions),
        (None, seconds) => Limit::Seconds(seconds.unwrap_or(1.0)),
    };
    let how = How { limit, sampling: run.sample.sampling(load.durability), check, stays };
    lap(&run.workload.name, run.design, &load, how)
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
    done: HashMap<(String, u64), (f64, Lap)>,
}

impl Store {
    fn open(path: &Path, seed: u64) -> Result<Store, Failure> {
        let Machine { cpu, cores } = Machine::this();
        let maker = Maker { program: program(), machine: cpu, cores, seed };
        let (mut file, mut text) = (locked(path)?, String::new());
        file.read_to_string(&mut text).map_err(Failure::file("reading", path))?;
        let mut lines = text.lines();
        let first = lines.next().and_then(|line| serde_json::from_str::<Maker>(line).ok());
        let is_ours = first.as_ref() == Some(&maker);
        if !is_ours && !text.is_empty() {
            let old = path.with_extension("jsonl.old");
            fs::rename(path, &old).map_err(Failure::file("moving away", path))?;
            file = locked(path)?;
        }
        let mut store = Store { path: path.to_owned(), file, done: HashMap::new() };
        if is_ours {
            // A line that was cut short is a lap that was not done.
            let whole = lines.filter_map(|line| serde_json::from_str::<Line>(line).ok());
            store
                .done
                .extend(whole.map(|line| ((line.command, line.round), (line.seconds, line.lap))));
            if !text.ends_with('\n') {
                store.put("\n")?;
            }
        } else {
            store.line(&maker)?;
        }
        Ok(store)
    }

    fn line(&mut self, line: &impl Serialize) -> Result<(), Failure> {
        let mut text = report::json::line(line);
        text.push('\n');
        self.put(&text)
    }

    fn put(&mut self, text: &str) -> Result<(), Failure> {
        self.file.write_all(text.as_bytes()).map_err(Failure::file("writing", &self.path))
    }
}

/// Opens what is read and added to, for nobody else at the time.
fn locked(path: &Path) -> Result<File, Failure> {
    let file = OpenOptions::new().create(true).read(true).append(true).open(path);
    let file = file.map_err(Failure::file("writing", path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Failure::LapsInUse { path: path.to_owned() }),
        Err(TryLockError::Error(error)) => Err(Failure::file("locking", path)(error)),
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
        let spec = |workload| Spec::new(workload, format!("{workload} --transactions 100"));
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
        let found = laps.by_command.values().flatten().map(|lap| lap.transactions);
        let mut found: Vec<u64> = found.collect();
        found.sort_unstable();
        assert_eq!(found, [77, 77, 77, 100]);

        let foreign = other.replacen("\"machine\":\"", "\"machine\":\"another ", 1);
        fs::write(&path, foreign).unwrap();
        let laps = all(plan(), &budget, out).unwrap();
        assert!(laps.by_command.values().flatten().all(|lap| lap.transactions == 100));
    }

    #[test]
    fn laps_on_one_pool_find_it_there() {
        let made = "btree-update --medium emulated --scale 0.001 --transactions 1";
        let spec = |shadow: &str| Spec {
            block: "paging",
            command: format!(
                "btree-update --medium emulated --shadow {shadow} --warm-up 0.01 --transactions 50"
            ),
            pool: Some(made.into()),
            rounds: 1,
        };
        let budget = Budget { quick: true, rounds: 2, seed: 1, peers: None };
        let laps = all(vec![spec("software"), spec("cow")], &budget, None).unwrap();
        assert!(laps.by_command.values().all(|laps| laps.len() == 1 && laps[0].transactions == 50));
    }
}
