//! Trials in interleaved rounds, by their commands.
//!
//! Trials that rows compare form a block. A round runs the trials of a block in succession, so that
//! slow changes of the machine affect all of them alike. Their order changes from round to round.
//!
//! ```text
//!   round 0    A B C   D E        blocks ABC and DE
//!   round 1    B A C   E D
//! ```

use std::collections::HashSet;
use std::collections::hash_map::{Entry, HashMap};
use std::time::Instant;

use crate::budget::Budget;
use crate::runner::{Progress, Runner, TrialRequest, TrialResult};
use crate::store::{Store, Together};
use crate::trial::Trial;

/// Specification of a trial that runs in every round.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    /// Block of trials that are compared with each other.
    pub(super) block: &'static str,
    /// Arguments of `lastword run`.
    pub(super) command: String,
    /// Command that creates a pool shared with other trials; `None` for a fresh pool each.
    pub(super) pool: Option<String>,
    /// Limit of rounds.
    pub(super) rounds: u64,
    /// Rounds of its block for one round of others, for short trials whose ratios have narrow
    /// targets. The same for all trials of a block.
    pub(super) times: u64,
}

impl Spec {
    pub(super) fn new(block: &'static str, command: String) -> Spec {
        Spec { block, command, pool: None, rounds: u64::MAX, times: 1 }
    }

    /// Returns its rounds in a run of `rounds`.
    fn rounds_of(&self, rounds: u64) -> u64 {
        self.rounds.min(rounds * self.times)
    }
}

/// Results of trials.
#[derive(Debug, Default)]
pub(super) struct Trials {
    by_command: HashMap<String, Vec<Trial>>,
    /// Their total time, loading included.
    pub(super) seconds: f64,
    /// The check of a trial failed.
    pub(super) broken: bool,
}

impl Trials {
    /// Returns the trials of a command, one a round.
    ///
    /// # Panics
    /// The command is in no plan.
    pub(super) fn of(&self, command: &str) -> &[Trial] {
        self.by_command.get(command).unwrap_or_else(|| panic!("no plan has `{command}`"))
    }

    /// Adds the stored trials of a plan and returns true, if all of them are stored.
    pub(super) fn add_stored(&mut self, plan: Vec<Spec>, budget: &Budget, store: &Store) -> bool {
        let mut found: HashMap<String, Vec<(f64, Trial)>> = HashMap::new();
        for block in blocks(plan) {
            for round in 0..budget.rounds * block[0].times {
                let commands = of_round(&block, round).map(|spec| spec.command.as_str());
                let commands: Vec<&str> = commands.collect();
                if commands.is_empty() {
                    continue;
                }
                let Some(trials) = store.together(&commands, round) else { return false };
                for (command, trial) in commands.into_iter().zip(trials) {
                    found.entry(command.to_owned()).or_default().push(trial);
                }
            }
        }
        for (command, trials) in found {
            if let Entry::Vacant(vacant) = self.by_command.entry(command) {
                self.seconds += trials.iter().map(|(seconds, _)| seconds).sum::<f64>();
                vacant.insert(trials.into_iter().map(|(_, trial)| trial).collect());
            }
        }
        true
    }

    /// Returns made-up trials for the commands of a plan.
    #[cfg(test)]
    pub(super) fn invented(plan: Vec<Spec>, rounds: u64, trial: impl Fn(&str) -> Trial) -> Trials {
        let trials = |spec: Spec| {
            let trials = vec![trial(&spec.command); spec.rounds_of(rounds) as usize];
            (spec.command, trials)
        };
        Trials { by_command: plan.into_iter().map(trials).collect(), seconds: 1.0, broken: false }
    }
}

/// Runs the trials of a plan that are not stored. A round of a block that is stored in part runs
/// again as a whole, since its trials would otherwise not run in succession.
///
/// # Errors
/// A trial could not run, or its result could not be stored.
pub(super) fn all<R: Runner>(
    plan: Vec<Spec>,
    budget: &Budget,
    store: Option<&mut Store>,
    runner: &mut R,
) -> Result<Trials, R::Error> {
    let blocks = blocks(plan);
    let rounds = |spec: &Spec| spec.rounds_of(budget.rounds);
    let bar = runner.progress("trials", blocks.iter().flatten().map(rounds).sum());
    let mut making = Making { budget, store, runner, trials: Trials::default(), bar };
    for round in 0..budget.rounds {
        for block in &blocks {
            let times = block[0].times;
            for round in round * times..(round + 1) * times {
                making.round(block, round)?;
            }
        }
    }
    making.bar.finish();
    Ok(making.trials)
}

/// A run of trials in progress.
struct Making<'a, R> {
    budget: &'a Budget,
    store: Option<&'a mut Store>,
    runner: &'a mut R,
    trials: Trials,
    bar: Box<dyn Progress>,
}

impl<R: Runner> Making<'_, R> {
    /// Runs one round of a block, or takes it from the store.
    fn round(&mut self, block: &[Spec], round: u64) -> Result<(), R::Error> {
        let Making { budget, store, runner, trials, bar } = self;
        let block: Vec<&Spec> = of_round(block, round).collect();
        let commands: Vec<&str> = block.iter().map(|spec| spec.command.as_str()).collect();
        let stored = store.as_ref().and_then(|store| store.together(&commands, round));
        let together = Together::now();
        for step in 0..block.len() {
            let at = position(round, step, block.len());
            let command = &block[at].command;
            bar.begins(command);
            let (seconds, trial) = match &stored {
                Some(stored) => stored[at],
                None => {
                    let is_last = round + 1 == block[at].rounds_of(budget.rounds);
                    let start = Instant::now();
                    let TrialResult { trial, held } = runner.run(TrialRequest {
                        command,
                        pool: block[at].pool.as_deref(),
                        pool_seed: budget.seed,
                        seed: budget.seed.wrapping_add(round),
                        check: is_last,
                    })?;
                    let seconds = start.elapsed().as_secs_f64();
                    trials.broken |= !held;
                    // A trial whose check failed is not stored: the next run repeats it, and fails
                    // again.
                    if let Some(store) = store.as_mut().filter(|_| held) {
                        store.keep(command, round, together, (seconds, trial))?;
                    }
                    (seconds, trial)
                }
            };
            trials.seconds += seconds;
            trials.by_command.entry(command.clone()).or_default().push(trial);
            bar.inc();
        }
        Ok(())
    }
}

/// Returns the trials of a block that a round has.
fn of_round(block: &[Spec], round: u64) -> impl Iterator<Item = &Spec> {
    block.iter().filter(move |spec| round < spec.rounds)
}

/// Returns the index of the trial at a step of a round. Each round begins with another trial, and
/// every other round goes backwards, so that no trial always follows the same other one.
fn position(round: u64, step: usize, count: usize) -> usize {
    let first = round as usize % count;
    match round % 2 {
        0 => (first + step) % count,
        _ => (first + count - step) % count,
    }
}

/// Returns the specs by block, each command once.
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::sample::Fake;

    fn spec(block: &'static str, workload: &str) -> Spec {
        Spec::new(block, format!("{workload} --transactions 100"))
    }

    fn budget() -> Budget {
        Budget { quick: true, rounds: 2, seed: 1, comparison: None }
    }

    fn with_store<R>(out: &Path, run: impl FnOnce(&mut Store) -> R) -> R {
        run(&mut Store::open(out, 1).unwrap())
    }

    fn transactions(trials: &Trials) -> Vec<u64> {
        let found = trials.by_command.values().flatten().map(|trial| trial.transactions);
        let mut found: Vec<u64> = found.collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn interrupted_run_resumes_and_another_build_restarts() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path();
        let plan = || vec![spec("a", "empty"), spec("b", "bank"), spec("a", "empty")];
        let run =
            || with_store(out, |store| all(plan(), &budget(), Some(store), &mut Fake).unwrap());
        let trials = run();
        assert_eq!(trials.of("empty --transactions 100").len(), 2);
        assert_eq!(trials.of("bank --transactions 100")[0].transactions, 100);

        // A torn last line: its trial alone runs again.
        let path = out.join("trials.jsonl");
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
            assert_eq!(old, kept, "results of another build are moved away and kept");
        }
    }

    #[test]
    fn trials_of_different_rounds_are_not_compared() {
        let directory = tempfile::tempdir().unwrap();
        let small = || vec![spec("a", "empty"), spec("a", "bank")];
        let other = || vec![spec("a", "empty"), spec("a", "scatter")];
        with_store(directory.path(), |store| {
            let run =
                |plan, store: &mut Store| all(plan, &budget(), Some(store), &mut Fake).unwrap();
            let stored = |plan, store: &Store| {
                let mut trials = Trials::default();
                trials.add_stored(plan, &budget(), store).then_some(trials)
            };
            run(small(), store);
            assert_eq!(transactions(&stored(small(), store).unwrap()), [100; 4]);
            assert!(stored(other(), store).is_none(), "half of the block never ran");
            // Runs `empty` again, next to `scatter`: the stored one next to `bank` is replaced.
            run(other(), store);
            assert!(stored(other(), store).is_some());
            assert!(stored(small(), store).is_none());
            run(small(), store);
            assert!(stored(small(), store).is_some());
        });
    }

    #[test]
    fn order_within_a_block_rotates_and_reverses() {
        let order = |round| (0..4).map(|step| position(round, step, 4)).collect::<Vec<_>>();
        assert_eq!([order(0), order(1), order(2)], [[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1]]);
    }

    #[test]
    fn block_of_short_trials_has_more_rounds() {
        let short = || ["empty", "bank"].map(|w| Spec { times: 3, ..spec("a", w) }).to_vec();
        let directory = tempfile::tempdir().unwrap();
        with_store(directory.path(), |store| {
            let plan = || [short(), vec![spec("b", "scatter")]].concat();
            let trials = all(plan(), &budget(), Some(store), &mut Fake).unwrap();
            let of = |trials: &Trials, w: &str| trials.of(&format!("{w} --transactions 100")).len();
            assert_eq!(["empty", "bank", "scatter"].map(|w| of(&trials, w)), [6, 6, 2]);
            let mut stored = Trials::default();
            assert!(stored.add_stored(plan(), &budget(), store));
            assert_eq!(of(&stored, "bank"), 6);
        });
    }
}
