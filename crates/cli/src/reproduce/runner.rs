//! Trials that a reproduction asks for, as `lastword run` would run them.

use std::collections::HashMap;
use std::path::PathBuf;

use clap::Parser;
use papers::{Progress, Runner, TrialRequest, TrialResult};

use crate::args::{Command, CommandLine, Run};
use crate::driver::Limit;
use crate::failure::Failure;
use crate::report::{self, progress};
use crate::setup::Place;
use crate::trial::{self, Done, How};

/// Runs trials; holds the pools that several of them share, by the command that has created each.
#[derive(Default)]
pub(super) struct Trials {
    pools: HashMap<String, Place>,
}

impl Runner for Trials {
    type Error = Failure;

    fn run(&mut self, request: TrialRequest<'_>) -> Result<TrialResult, Failure> {
        let mut run = parse(request.command);
        if let Some(command) = request.pool {
            run.load.pool = Some(self.pool(command, request.pool_seed)?);
            run.load.scale = None; // the pool has its own
        }
        let done = measure(&run, request.seed, request.check, request.pool.is_some())?;
        let Done { trial, violations, .. } = done;
        report::complain(&violations);
        Ok(TrialResult { trial, held: violations.is_empty() })
    }

    fn progress(&self, doing: &'static str, length: u64) -> Box<dyn Progress> {
        Box::new(progress::bar(doing, length))
    }
}

impl Trials {
    /// Returns the pool of a command; the first call creates it.
    fn pool(&mut self, command: &str, seed: u64) -> Result<PathBuf, Failure> {
        if !self.pools.contains_key(command) {
            let mut run = parse(command);
            let place = Place::temporary(&run.load);
            run.load.pool = Some(place.path().to_owned());
            measure(&run, seed, false, true)?;
            self.pools.insert(command.to_owned(), place);
        }
        Ok(self.pools[command].path().to_owned())
    }
}

fn measure(run: &Run, seed: u64, check: bool, stays: bool) -> Result<Done, Failure> {
    let mut load = run.design.adjust(&run.load);
    load.seed = seed;
    let limit = match (load.transactions, load.seconds) {
        (Some(transactions), _) => Limit::Transactions(transactions),
        (None, seconds) => Limit::Seconds(seconds.unwrap_or(1.0)),
    };
    let how = How { limit, sampling: run.sample.sampling(load.durability), check, stays };
    trial::run(&run.workload.name, run.design, &load, how)
}

fn parse(command: &str) -> Run {
    let words = ["lastword", "run"].into_iter().chain(command.split_whitespace());
    match CommandLine::try_parse_from(words).map(|line| line.command) {
        Ok(Command::Run(run)) => run,
        Ok(_) => unreachable!("the command begins with `run`"),
        Err(error) => panic!("a plan has an invalid command: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use papers::points::{command, own_settings};
    use sim::Setup;
    use sim::sweep::Asked;

    use super::*;
    use crate::args::SimCommand;
    use crate::sim::setup;

    /// Both plans, full and quick, of every paper.
    fn plans() -> impl Iterator<Item = papers::Plan> {
        let of = |paper| [false, true].map(|quick| papers::plan(paper, quick));
        papers::NAMES.into_iter().flat_map(of)
    }

    #[test]
    fn planned_commands_parse() {
        for command in plans().flat_map(|plan| plan.commands) {
            parse(&command);
        }
    }

    #[test]
    fn planned_simulations_run_by_their_commands() {
        for asked in plans().flat_map(|plan| plan.simulations) {
            let has_design = sim::design::ALL.iter().any(|about| about.name == asked.design);
            if has_design && workloads::NAMES.contains(&asked.workload.as_str()) {
                assert_command(asked);
            }
        }
    }

    /// The command is valid, and describes the same simulation as the request.
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

    #[test]
    fn trials_that_name_one_pool_share_it() {
        let made = "btree-update --medium emulated --scale 0.001 --transactions 1";
        let mut trials = Trials::default();
        for shadow in ["software", "cow"] {
            let command = &format!(
                "btree-update --medium emulated --shadow {shadow} --warm-up 0.01 --transactions 50"
            );
            let (pool, check) = (Some(made), true);
            let request = TrialRequest { command, pool, pool_seed: 1, seed: 1, check };
            let outcome = trials.run(request).unwrap();
            assert!(outcome.held && outcome.trial.transactions == 50);
        }
        assert_eq!(trials.pools.len(), 1);
    }
}
