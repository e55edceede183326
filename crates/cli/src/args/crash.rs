//! Arguments of `lastword crash`, and of the process that it kills.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};

use super::Output;
use crate::load::Load;
use crate::quantity::{at_least_one, seconds};

#[derive(Debug, Subcommand)]
pub(crate) enum CrashCommand {
    /// Explore executions of a case with crashes, until a violation is found or time is up
    Explore(CrashExplore),
    /// Replay one execution, and print its events
    Replay(CrashReplay),
    /// Kill processes that run a workload (kill -9), recover, look for acknowledged transactions
    ///
    /// In each round a process opens the pool, runs the workload and acknowledges durable
    /// transactions. It is killed at a random time within --seconds [default: 1]. Opening the pool
    /// recovers it; every acknowledged transaction is looked up, and the workload's own check runs.
    /// The next round continues with the same pool.
    ///
    /// Exit status: 0 nothing lost and every check held, 1 a loss or a failed check, 2 usage or
    /// I/O.
    Kill(Box<CrashKill>),
}

#[derive(Debug, Args)]
pub(crate) struct CrashKill {
    /// Workload to run
    #[arg(long, value_name = "W", default_value = "tpcc-hash")]
    #[arg(value_parser = PossibleValuesParser::new(workloads::NAMES))]
    pub(crate) workload: String,
    /// Number of rounds; each kills one process
    #[arg(long, value_name = "N", default_value = "10", value_parser = at_least_one)]
    pub(crate) rounds: u64,
    #[command(flatten)]
    pub(crate) load: Load,
}

#[derive(Debug, Args)]
pub(crate) struct CrashExplore {
    /// Design of atomic durability
    #[arg(long, value_name = "D", default_value = "decoupled")]
    #[arg(value_parser = PossibleValuesParser::new(::crash::designs::names()))]
    pub(crate) design: String,
    /// Workload to run
    #[arg(long, value_name = "W", default_value = "cells")]
    #[arg(value_parser = PossibleValuesParser::new(::crash::workload::NAMES))]
    pub(crate) workload: String,
    /// Storage that loses power
    #[arg(long, value_name = "M", value_enum, default_value = "file")]
    pub(crate) medium_model: MediumModelName,
    /// Executions to explore
    #[arg(long, value_name = "T", value_enum, default_value = "c")]
    pub(crate) tier: TierName,
    /// Maximum crashes in each execution [default: 3; tier a: 1]
    #[arg(long, value_name = "N")]
    pub(crate) crashes: Option<u32>,
    /// Time limit in seconds [default: 10, unless --executions is given]
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(crate) seconds: Option<f64>,
    /// Maximum number of executions
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) executions: Option<u64>,
    /// Threads that explore in parallel [default: all cores]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) threads: Option<u64>,
    /// Tier c: seed of the first execution
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u64,
    /// Further settings of the case, spelled as in traces: sync=1, cow=1, create=1, partitions=N,
    /// group=N, paced=1, backup=1, compress=1, persist_threads=N, workers=N, transactions=N,
    /// moves=N, all_moves=0|1, kills=N, faults=N, sticky=1, garbage=1, queue=0, naming=0,
    /// every_store=1, every_word=0
    #[arg(long, value_name = "NAME=N", num_args = 1..)]
    pub(crate) with: Vec<String>,
    /// Inject a bug, to see that it is detected (needs a build with `--features mutants`)
    #[arg(long, alias = "plant", value_name = "MUTANT")]
    pub(crate) inject: Option<String>,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct CrashReplay {
    /// Trace line printed by `crash explore`
    #[arg(value_name = "TRACE")]
    pub(crate) trace: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MediumModelName {
    /// Mapped memory under a volatile cache
    Memory,
    /// Mapped memory under a persistent cache
    Cache,
    /// Files
    File,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TierName {
    /// All executions: for the smallest cases
    A,
    /// Every crash point and order, with contents near four policies
    B,
    /// Random executions
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

/// Runs a pool's workload until killed, and reports durable transactions on stdout. Internal: only
/// `crash kill` and `demo` start it.
#[derive(Debug, Parser)]
#[command(name = KillWriter::NAME)]
pub(crate) struct KillWriter {
    pub(crate) path: PathBuf,
    /// Open and recover the pool, and exit.
    #[arg(long)]
    pub(crate) only_open: bool,
    /// The arguments of `crash kill`, unchanged.
    #[command(flatten)]
    pub(crate) kill: CrashKill,
}

impl KillWriter {
    /// Name of the subcommand.
    pub(crate) const NAME: &str = "kill-writer";
}
