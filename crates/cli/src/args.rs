//! The command line: names, defaults and what they are checked for.
//!
//! Other programs script against it: a name that is here stays.

mod crash;
mod expected;
mod sim;

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Arg, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

pub(crate) use self::crash::{
    CrashCommand, CrashExplore, CrashKill, CrashReplay, KillWriter, MediumModelName, TierName,
};
pub(crate) use self::expected::Expected;
pub(crate) use self::sim::{SheetFormat, SimCommand, SimList, SimMerge, SimRun, SimSweep};
use crate::designs::{DesignName, DesignParser};
use crate::load::{Load, SampleName};
use crate::media::MediumName;
use crate::quantity::{at_least_one, positive, seconds, size, step_threads, workers};
pub(crate) use crate::report::format::{Format, Output};
use crate::shadow::ShadowName;

/// Durable memory transactions: run workloads, compare designs, kill, recover and check.
#[derive(Debug, Parser)]
#[command(name = "lastword", version, propagate_version = true)]
#[command(after_help = "\
Exit status: 0 success, 1 a check failed, 2 usage error, I/O error, or output that could not be \
written. A signal ends every command with 128 and its number. A reader of a pipe that goes away \
(`| head`) is no error.

Sizes take K, M, G, T (powers of 1024; KiB ... TiB are the same) and KB, MB, GB, TB (powers of \
1000), and fractions: 1.5G. Times take ns, us, ms, s, min, h.")]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl CommandLine {
    /// What the program was asked for.
    ///
    /// # Errors
    /// It was asked for wrongly, or for help, which is the error's text.
    pub(crate) fn read() -> Result<CommandLine, clap::Error> {
        let matches = with_negative_numbers(CommandLine::command()).try_get_matches()?;
        CommandLine::from_arg_matches(&matches)
    }
}

/// A negative number is a flag's value, so who gives one is told what it must be.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let has_value = |arg: &Arg| !arg.is_positional() && arg.get_action().takes_values();
    let command = command.mut_args(|arg| match has_value(&arg) {
        true => arg.allow_negative_numbers(true),
        false => arg,
    });
    command.mut_subcommands(with_negative_numbers)
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run, kill -9 in the middle, recover, check; then TATP, volatile against durable (30 s)
    Demo(Demo),
    /// Run a workload on a design, then crash it, recover and check
    Run(Run),
    /// Compare designs on a workload, in interleaved rounds on fresh pools
    Compare(Compare),
    /// Reproduce a paper's tables and figures, beside the published numbers
    Reproduce(Reproduce),
    /// Create, describe, check or show a pool
    #[command(subcommand)]
    Pool(PoolCommand),
    /// Measure what figures are judged by: the disk alone, the steps behind alone
    #[command(subcommand)]
    Measure(MeasureCommand),
    /// Cut the power of a recorded machine wherever it may go, and check what is left
    #[command(subcommand)]
    Crash(CrashCommand),
    /// Simulate machines with persistent memory, and designs that are in their hardware
    #[command(subcommand)]
    Sim(SimCommand),
    /// Print what a shell completes commands and flags with
    Completions(Completions),
    /// Print the manual, to be read with `lastword man | man -l -`
    Man(Manual),
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// How long it takes in all.
    #[arg(long, value_name = "S", default_value = "30", value_parser = seconds, hide = true)]
    pub(crate) seconds: f64,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) workload: WorkloadName,
    /// How atomic durability is reached; plain and volatile take no pool and no medium
    #[arg(long, value_name = "D", value_parser = DesignParser, default_value = "decoupled")]
    pub(crate) design: DesignName,
    /// Which transactions are timed. `every`: all of them, and after each the worker looks what is
    /// durable; so it is with `--durability sync`
    #[arg(long, value_name = "WHICH", value_enum, default_value = "some")]
    pub(crate) sample: SampleName,
    #[command(flatten)]
    pub(crate) load: Load,
}

#[derive(Debug, Args)]
pub(crate) struct Compare {
    #[command(flatten)]
    pub(crate) workload: WorkloadName,
    /// Two designs or more; the first is what the others are compared with
    #[arg(long, value_name = "A,B,...", value_parser = DesignParser)]
    #[arg(value_delimiter = ',', required = true)]
    pub(crate) designs: Vec<DesignName>,
    /// Rounds; in each, every design does the same transactions
    #[arg(long, value_name = "N", default_value = "5", value_parser = at_least_one)]
    pub(crate) rounds: u64,
    #[command(flatten)]
    pub(crate) load: Load,
}

#[derive(Debug, Args)]
pub(crate) struct Reproduce {
    /// The paper
    #[arg(value_name = "PAPER", value_parser = PossibleValuesParser::new(papers::NAMES))]
    pub(crate) paper: String,
    /// Experiments, as in `D1 D5` [default: all but the long ones, see --list]
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// List the experiments and measure nothing
    #[arg(long)]
    pub(crate) list: bool,
    /// Shorter trials, fewer rounds and sizes; the same targets
    #[arg(long)]
    pub(crate) quick: bool,
    /// Directory for results: a page (HTML), charts (SVG), tables (CSV, JSON). Completed trials are
    /// stored there, and the same command resumes an interrupted run
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Output of `peers durable --format json`, for the rows that need libpmemobj
    #[arg(long, value_name = "FILE")]
    pub(crate) peers: Option<PathBuf>,
    /// Seed of the first round's clients
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct WorkloadName {
    /// What is run
    #[arg(value_name = "WORKLOAD", value_parser = PossibleValuesParser::new(workloads::NAMES))]
    pub(crate) name: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PoolCommand {
    /// Make an empty pool
    Create(PoolCreate),
    /// Describe a pool
    Info(PoolInfo),
    /// Find all that is wrong with a pool, what it affects and what can be done
    ///
    /// Looks at superblocks, log, heap and root, and writes nothing. What is not detected: a
    /// changed value in an object at home, which carries no checksum; and a changed group at the
    /// very end of a log that waits to be replayed, which looks like a write cut short.
    ///
    /// Exit code: 0 no damage, 1 damage, 2 it could not be looked at.
    Check(PoolCheck),
    /// Show every live object of a pool, a line each, without writing to it
    ///
    /// With `--format jsonl` each line is a JSON object (JSON Lines), so that a pool of any size is
    /// read line by line; the whole is no JSON document.
    Dump(PoolDump),
}

#[derive(Debug, Args)]
pub(crate) struct PoolCreate {
    /// The pool's file
    pub(crate) path: PathBuf,
    /// Size of the heap, as in 1.5G
    #[arg(long, value_name = "N", value_parser = size, default_value = "64M")]
    pub(crate) bytes: u64,
    /// Size of the log
    #[arg(long, value_name = "N", value_parser = size, default_value = "64M")]
    pub(crate) log_bytes: u64,
    /// Layout name
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) layout: String,
    /// What makes bytes durable [default: dax where the place is persistent memory, else file]
    #[arg(long, value_name = "M", value_enum)]
    pub(crate) medium: Option<MediumName>,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct PoolInfo {
    /// The pool's file
    pub(crate) path: PathBuf,
    /// What transactions would work on: the memory that it takes depends on it
    #[arg(long, value_name = "S", value_enum, default_value = "full")]
    pub(crate) shadow: ShadowName,
    /// Bound of that memory, with a shadow that has one
    #[arg(long, value_name = "N", value_parser = size)]
    pub(crate) shadow_bytes: Option<u64>,
    #[command(flatten)]
    pub(crate) expected: Expected,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct PoolCheck {
    /// The pool's file
    pub(crate) path: PathBuf,
    /// Mend what is safe: a damaged copy of a superblock or of the log's head is written again from
    /// the good one, when nothing else is wrong
    #[arg(long)]
    pub(crate) repair: bool,
    #[command(flatten)]
    pub(crate) expected: Expected,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct PoolDump {
    /// The pool's file
    pub(crate) path: PathBuf,
    /// How many words of each object are shown
    #[arg(long, value_name = "N", default_value = "4")]
    pub(crate) words: usize,
    /// For people, or for programs: a JSON object a line
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "table")]
    pub(crate) format: DumpFormat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MeasureCommand {
    /// How long durable writes of 4 KiB, 64 KiB and 1 MiB take on the disk below a directory
    Disk(MeasureDisk),
    /// How many entries a second one thread persists and reproduces
    Reproduce(MeasureReproduce),
}

#[derive(Debug, Args)]
pub(crate) struct MeasureDisk {
    /// Where the file is made that is written to; it is gone afterwards
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Writes of each size in a round
    #[arg(long, value_name = "N", default_value = "200", value_parser = at_least_one)]
    pub(crate) writes: u64,
    /// Rounds; in each, every size has its turn
    #[arg(long, value_name = "N", default_value = "5", value_parser = at_least_one)]
    pub(crate) rounds: u64,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct MeasureReproduce {
    /// Entries of a round: words written, four a transaction
    #[arg(long, value_name = "N", default_value = "8000000", value_parser = at_least_one)]
    pub(crate) entries: u64,
    /// Size of the heap
    #[arg(long, value_name = "N", value_parser = size, default_value = "512M")]
    pub(crate) bytes: u64,
    /// Size of the log
    #[arg(long, value_name = "N", value_parser = size, default_value = "64M")]
    pub(crate) log_bytes: u64,
    /// Addresses are skewed by Zipf's law with this exponent [default: uniform]
    #[arg(long, value_name = "X", value_parser = positive)]
    pub(crate) zipf: Option<f64>,
    /// Workers whose rings are merged
    #[arg(long, value_name = "N", value_parser = workers, default_value = "2")]
    pub(crate) threads: usize,
    /// Threads that bring home, each the words of its own pages
    #[arg(long, value_name = "N", value_parser = step_threads, default_value = "1")]
    pub(crate) reproduce_threads: usize,
    /// Rounds
    #[arg(long, value_name = "N", default_value = "5", value_parser = at_least_one)]
    pub(crate) rounds: u64,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Manual {
    /// Write it to this directory, a page a command
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

/// How objects are shown. A value has no help of its own, as in [`Format`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DumpFormat {
    Table,
    // Its name before it was said to be lines.
    #[value(alias = "json")]
    Jsonl,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }
}
