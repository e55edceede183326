//! Laps by the command that makes them, made in interleaved rounds.

use std::collections::HashSet;
use std::collections::hash_map::{Entry, HashMap};
use std::path::PathBuf;
use std::time::Instant;

use clap::Parser;

use super::Budget;
use super::store::{Store, Together};
use crate::args::{Command, CommandLine, Run};
use crate::driver::Limit;
use crate::failure::Failure;
pub(super) use crate::lap::Lap;
use crate::lap::{Done, How, lap};
use crate::report;
use crate::report::progress::{self, Progress};
use crate::setup::Place;

/// A lap that is to be made in every round.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    /// Laps that are compared with each other: made one behind the other.
    pub(super) block: &'static str,
    /// As behind `lastword run`.
    pub(super) command: String,
    /// What makes the pool that it runs on, which stays for the other laps on it; nothing: a fresh
    /// pool for each lap.
    pub(super) pool: Option<String>,
    /// Rounds at most.
    pub(super) rounds: u64,
    /// Rounds that its block makes where others make one: short laps whose ratios are held to
    /// little. The same for all of a block.
    pub(super) times: u64,
}

impl Spec {
    pub(super) fn new(block: &'static str, command: String) -> Spec {
        Spec { block, command, pool: None, rounds: u64::MAX, times: 1 }
    }

    /// Rounds of it in a run of so many.
    fn rounds_of(&self, rounds: u64) -> u64 {
        self.rounds.min(rounds * self.times)
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

    /// Adds those of a plan that earlier runs have left, if all of them are there.
    pub(super) fn add_stored(&mut self, plan: Vec<Spec>, budget: &Budget, store: &Store) -> bool {
        let mut found: HashMap<String, Vec<(f64, Lap)>> = HashMap::new();
        for block in blocks(plan) {
            for round in 0..budget.rounds * block[0].times {
                let commands = of_round(&block, round).map(|spec| spec.command.as_str());
                let commands: Vec<&str> = commands.collect();
                if commands.is_empty() {
                    continue;
                }
                let Some(laps) = store.together(&commands, round) else { return false };
                for (command, lap) in commands.into_iter().zip(laps) {
                    found.entry(command.to_owned()).or_default().push(lap);
                }
            }
        }
        for (command, laps) in found {
            if let Entry::Vacant(vacant) = self.by_command.entry(command) {
                self.seconds += laps.iter().map(|(seconds, _)| seconds).sum::<f64>();
                vacant.insert(laps.into_iter().map(|(_, lap)| lap).collect());
            }
        }
        true
    }

    /// Laps that were never made, by their commands.
    #[cfg(test)]
    pub(super) fn invented(plan: Vec<Spec>, rounds: u64, lap: impl Fn(&str) -> Lap) -> Laps {
        let laps = |spec: Spec| {
            let laps = vec![lap(&spec.command); spec.rounds_of(rounds) as usize];
            (spec.command, laps)
        };
        Laps { by_command: plan.into_iter().map(laps).collect(), seconds: 1.0, broken: false }
    }
}

/// Makes all laps of a plan, but for those that are stored. A block's round that is not there as a
/// whole is made again: its laps would not have been made one behind the other.
///
/// # Errors
/// What kept one from being made.
pub(super) fn all(
    plan: Vec<Spec>,
    budget: &Budget,
    store: Option<&mut Store>,
) -> Result<Laps, Failure> {
    let blocks = blocks(plan);
    let rounds = |spec: &Spec| spec.rounds_of(budget.rounds);
    let bar = progress::bar("laps", blocks.iter().flatten().map(rounds).sum());
    let (laps, pools) = (Laps::default(), Pools::default());
    let mut making = Making { budget, store, pools, laps, bar };
    for round in 0..budget.rounds {
        for block in &blocks {
            let times = block[0].times;
            for round in round * times..(round + 1) * times {
                making.round(block, round)?;
            }
        }
    }
    making.bar.finish();
    Ok(making.laps)
}

/// Laps that are being made.
struct Making<'a> {
    budget: &'a Budget,
    store: Option<&'a mut Store>,
    pools: Pools,
    laps: Laps,
    bar: Progress,
}

impl Making<'_> {
    /// Makes those of a block that this round has.
    fn round(&mut self, block: &[Spec], round: u64) -> Result<(), Failure> {
        let Making { budget, store, pools, laps, bar } = self;
        let block: Vec<&Spec> = of_round(block, round).collect();
        let commands: Vec<&str> = block.iter().map(|spec| spec.command.as_str()).collect();
        let stored = store.as_ref().and_then(|store| store.together(&commands, round));
        let together = Together::now();
        for step in 0..block.len() {
            let at = turn(round, step, block.len());
            let command = &block[at].command;
            bar.begins(command);
            let (seconds, lap) = match &stored {
                Some(stored) => stored[at],
                None => {
                    let is_last = round + 1 == block[at].rounds_of(budget.rounds);
                    let made = make(block[at], budget, round, is_last, pools)?;
                    report::complain(&made.violations);
                    laps.broken |= !made.violations.is_empty();
                    let Made { seconds, lap, .. } = made;
                    // One that left something wrong is made again, and found wrong again.
                    if let Some(store) = store.as_mut().filter(|_| made.violations.is_empty()) {
                        store.keep(command, round, together, (seconds, lap))?;
                    }
                    (seconds, lap)
                }
            };
            laps.seconds += seconds;
            laps.by_command.entry(command.clone()).or_default().push(lap);
            bar.inc();
        }
        Ok(())
    }
}

/// Those of a block that are made in a round.
fn of_round(block: &[Spec], round: u64) -> impl Iterator<Item = &Spec> {
    block.iter().filter(move |spec| round < spec.rounds)
}

/// Which of a block is made at a step of a round: each round begins with another one, and every
/// other round goes backwards, so that none is always made behind the same other one.
fn turn(round: u64, step: usize, count: usize) -> usize {
    let first = round as usize % count;
    match round % 2 {
        0 => (first + step) % count,
        _ => (first + count - step) % count,
    }
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn spec(block: &'static str, workload: &str) -> Spec {
        Spec::new(block, format!("{workload} --transactions 100"))
    }

    fn budget() -> Budget {
        Budget { quick: true, rounds: 2, seed: 1, peers: None }
    }

    fn with_store<R>(out: &Path, run: impl FnOnce(&mut Store) -> R) -> R {
        run(&mut Store::open(out, 1).unwrap())
    }

    fn transactions(laps: &Laps) -> Vec<u64> {
        let found = laps.by_command.values().flatten().map(|lap| lap.transactions);
        let mut found: Vec<u64> = found.collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn an_interrupted_run_goes_on_and_another_build_begins_anew() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path();
        let plan = || vec![spec("a", "empty"), spec("b", "bank"), spec("a", "empty")];
        let run = || with_store(out, |store| all(plan(), &budget(), Some(store)).unwrap());
        let laps = run();
        assert_eq!(laps.of("empty --transactions 100").len(), 2);
        assert_eq!(laps.of("bank --transactions 100")[0].transactions, 100);

        // Cut in the last line: that lap is made again, and no other.
        let path = out.join("laps.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 5);
        let other = text.replacen("\"transactions\":100", "\"transactions\":77", 4);
        fs::write(&path, &other[..other.len() - 9]).unwrap();
        assert_eq!(transactions(&run()), [77, 77, 77, 100]);

        let foreign = other.replacen("\"machine\":\"", "\"machine\":\"another ", 1);
        for kept in 1..3 {
            fs::write(&path, &foreign).unwrap();
            assert_eq!(transactions(&run()), [100; 4]);
            let old = fs::read_dir(out).unwrap().count() - 1;
            assert_eq!(old, kept, "what others have made is moved away, and stays");
        }
    }

    #[test]
    fn laps_that_were_not_made_together_are_not_compared() {
        let directory = tempfile::tempdir().unwrap();
        let small = || vec![spec("a", "empty"), spec("a", "bank")];
        let other = || vec![spec("a", "empty"), spec("a", "scatter")];
        with_store(directory.path(), |store| {
            let run = |plan, store: &mut Store| all(plan, &budget(), Some(store)).unwrap();
            let stored = |plan, store: &Store| {
                let mut laps = Laps::default();
                laps.add_stored(plan, &budget(), store).then_some(laps)
            };
            run(small(), store);
            assert_eq!(transactions(&stored(small(), store).unwrap()), [100; 4]);
            assert!(stored(other(), store).is_none(), "half of it was never made");
            // Makes `empty` anew, beside `scatter`: that is no longer the one beside `bank`.
            run(other(), store);
            assert!(stored(other(), store).is_some());
            assert!(stored(small(), store).is_none());
            run(small(), store);
            assert!(stored(small(), store).is_some());
        });
    }

    #[test]
    fn every_lap_has_its_turn_and_none_is_always_behind_the_same() {
        let order = |round| (0..4).map(|step| turn(round, step, 4)).collect::<Vec<_>>();
        assert_eq!([order(0), order(1), order(2)], [[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1]]);
    }

    #[test]
    fn a_block_of_short_laps_has_more_rounds() {
        let short = || ["empty", "bank"].map(|w| Spec { times: 3, ..spec("a", w) }).to_vec();
        let directory = tempfile::tempdir().unwrap();
        with_store(directory.path(), |store| {
            let plan = || [short(), vec![spec("b", "scatter")]].concat();
            let laps = all(plan(), &budget(), Some(store)).unwrap();
            let of = |laps: &Laps, w: &str| laps.of(&format!("{w} --transactions 100")).len();
            assert_eq!(["empty", "bank", "scatter"].map(|w| of(&laps, w)), [6, 6, 2]);
            let mut stored = Laps::default();
            assert!(stored.add_stored(plan(), &budget(), store));
            assert_eq!(of(&stored, "bank"), 6);
        });
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
            times: 1,
        };
        let laps = all(vec![spec("software"), spec("cow")], &budget(), None).unwrap();
        assert!(laps.by_command.values().all(|laps| laps.len() == 1 && laps[0].transactions == 50));
    }
}
