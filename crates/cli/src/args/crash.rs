//! `lastword crash`, and the process that it kills.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};

use super::Output;
use crate::load::Load;
use crate::quantity::{at_least_one, seconds};

#[derive(Debug, Subcommand)]
pub(crate) enum CrashCommand {
    /// Go ways through a case, each with its own crashes, until a promise is broken or time is up
    Explore(CrashExplore),
    /// Go one way again, and tell what happens on it
    Replay(CrashReplay),
    /// Kill processes that run a workload (kill -9), recover, look for all that was acknowledged
    ///
    /// A round: a process opens the pool, runs the workload and tells what is durable; it is killed
    /// at a moment drawn at random, after at most --seconds [default: 1]; the pool is opened, which
    /// recovers it, every acknowledged transaction is looked for, and the workload's own check is
    /// run. The next round goes on with the same pool.
    ///
    /// Exit code: 0 nothing was lost and every check held, 1 not so, 2 it could not be run.
    Kill(Box<CrashKill>),
}

#[derive(Debug, Args)]
pub(crate) struct CrashKill {
    /// What is run
    #[arg(long, value_name = "W", default_value = "tpcc-hash")]
    #[arg(value_parser = PossibleValuesParser::new(workloads::NAMES))]
    pub(crate) workload: String,
    /// Rounds
    #[arg(long, value_name = "N", default_value = "10", value_parser = at_least_one)]
    pub(crate) rounds: u64,
    #[command(flatten)]
    pub(crate) load: Load,
}

#[derive(Debug, Args)]
pub(crate) struct CrashExplore {
    /// How atomic durability is reached
    #[arg(long, value_name = "D", default_value = "decoupled")]
    #[arg(value_parser = PossibleValuesParser::new(::crash::designs::NAMES))]
    pub(crate) design: String,
    /// What runs
    #[arg(long, value_name = "W", default_value = "cells")]
    #[arg(value_parser = PossibleValuesParser::new(::crash::workload::NAMES))]
    pub(crate) workload: String,
    /// What the power is cut of
    #[arg(long, value_name = "M", value_enum, default_value = "file")]
    pub(crate) medium_model: MediumModelName,
    /// Which ways are gone
    #[arg(long, value_name = "T", value_enum, default_value = "c")]
    pub(crate) tier: TierName,
    /// Crashes on each way at most [default: 3; tier a: 1]
    #[arg(long, value_name = "N")]
    pub(crate) crashes: Option<u32>,
    /// How long [default: 10, unless --executions is given]
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(crate) seconds: Option<f64>,
    /// Ways at most
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) executions: Option<u64>,
    /// Threads that go ways, each its own [default: all cores]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) threads: Option<u64>,
    /// Tier c: the first way's seed
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u64,
    /// More about the case, as traces say it: sync=1, cow=1, create=1, partitions=N, group=N,
    /// compress=1, persist_threads=N, workers=N, transactions=N, moves=N, all_moves=0|1, kills=N,
    /// faults=N, sticky=1, garbage=1, queue=0, naming=0, every_store=1, every_word=0
    #[arg(long, value_name = "NAME=N", num_args = 1..)]
    pub(crate) with: Vec<String>,
    /// Plant a bug, to see that it is found (a build with `--features mutants`)
    #[arg(long, value_name = "MUTANT")]
    pub(crate) plant: Option<String>,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct CrashReplay {
    /// The line that `crash explore` has printed
    #[arg(value_name = "TRACE")]
    pub(crate) trace: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MediumModelName {
    /// Mapped memory behind a cache
    Memory,
    /// Mapped memory whose cache is kept
    Cache,
    /// Files
    File,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TierName {
    /// All ways: for the smallest cases
    A,
    /// Every crash and order, and contents near four policies
    B,
    /// By chance
    C,
}

impl TierName {
    pub(crate) fn name(self) -> &'static str {
        match self {
            TierName::A => "a",
            TierName::B => "b",
            TierName::C => "c",
        }
    }
}

/// Runs a pool's workload until it is killed; tells on stdout what is durable. For what kills it:
/// users do not meet it.
#[derive(Debug, Parser)]
#[command(name = KillWriter::NAME)]
pub(crate) struct KillWriter {
    pub(crate) path: PathBuf,
    /// Open and recover the pool, and end.
    #[arg(long)]
    pub(crate) only_open: bool,
    /// The arguments of `crash kill`, as they were given there.
    #[command(flatten)]
    pub(crate) kill: CrashKill,
}

impl KillWriter {
    /// What the first argument is.
    pub(crate) const NAME: &str = "kill-writer";
}
