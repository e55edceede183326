//! The command line: names, defaults and what they are checked for.
//!
//! Other programs script against it: a name that is here stays.

mod crash;
mod expected;
pub(crate) mod quantity;
mod sim;

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Arg, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use lastword::Durability;

pub(crate) use self::crash::{
    CrashCommand, CrashExplore, CrashKill, CrashReplay, KillWriter, MediumModelName, TierName,
};
pub(crate) use self::expected::Expected;
use self::quantity::{nanoseconds, seconds, size};
pub(crate) use self::sim::{SheetFormat, SimCommand, SimList, SimMerge, SimRun, SimSweep};
use crate::designs::{DesignName, DesignParser};
use crate::grouping::Grouping;
use crate::latency::Sampling;
use crate::media::{Costs, MediumName};
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
    /// Run a paper's tables and figures, and show ours beside theirs
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
    #[arg(value_name = "PAPER", value_parser = PossibleValuesParser::new(crate::paper::NAMES))]
    pub(crate) paper: String,
    /// Its experiments, as in `D1 D5` [default: all of them]
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Measure nothing: print which experiments there are, and what each of them is
    #[arg(long)]
    pub(crate) list: bool,
    /// Shorter laps, fewer rounds and sizes; the same marks
    #[arg(long)]
    pub(crate) quick: bool,
    /// Where to write results: a page to read, charts (SVG), tables for programs (CSV, JSON). Laps
    /// are kept there as they are done: the same command goes on where it was interrupted
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// What `peers durable --format json` has printed: rows that need libpmemobj are taken from it
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

/// How much of it, on what. `run` and `compare` have these in common.
#[derive(Clone, Debug, Args)]
pub(crate) struct Load {
    /// What makes bytes durable [default: file, or what the pool was created on]
    #[arg(long, value_name = "M", value_enum)]
    pub(crate) medium: Option<MediumName>,
    /// The pool: created if missing, else gone on with, as large as it is; `compare` makes its
    /// fresh pools there [default: a temporary one in this directory, for
    /// emulated and persistent_cache in /dev/shm]
    #[arg(long, value_name = "PATH")]
    pub(crate) pool: Option<PathBuf>,
    /// Size of a new pool's heap, as in 1.5G [default: what the workload needs]
    #[arg(long, value_name = "N", value_parser = size)]
    pub(crate) bytes: Option<u64>,
    /// Size of a new pool's log [default: 64M]
    #[arg(long, value_name = "N", value_parser = size)]
    pub(crate) log_bytes: Option<u64>,
    /// Workers, a thread each
    #[arg(long, value_name = "N", value_parser = workers, default_value = "1")]
    pub(crate) threads: usize,
    /// How long it runs; `compare`: the first design, the others do as many transactions
    /// [default: 3, compare: 1]
    #[arg(long, value_name = "S", value_parser = seconds, conflicts_with = "transactions")]
    pub(crate) seconds: Option<f64>,
    /// How long it runs before anything is measured [default: not at all]
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(crate) warm_up: Option<f64>,
    /// How many transactions all workers do together
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) transactions: Option<u64>,
    /// Ownership records of the transactional memory [default: by the heap's size and the cores]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) ownership_records: Option<u64>,
    /// When a commit returns: at once, or when it is durable
    #[arg(long, value_name = "WHEN", value_enum, default_value = "async")]
    pub(crate) durability: DurabilityName,
    /// Transactions of each worker that may wait to be durable when it begins the next, which then
    /// waits for the oldest: many callers behind few threads [default: any number]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) outstanding: Option<u64>,
    /// What transactions work on: all of the heap in memory, a private mapping of its file, or
    /// pages that come and go
    #[arg(long, value_name = "S", value_enum, default_value = "full")]
    pub(crate) shadow: ShadowName,
    /// Threads that bring home what is durable, each the words of its own pages
    #[arg(long, value_name = "N", value_parser = step_threads, default_value = "1")]
    pub(crate) reproduce_threads: usize,
    #[command(flatten)]
    pub(crate) grouping: Grouping,
    /// Entries of 16 bytes in each worker's ring, a power of two: 8 bytes that a transaction may
    /// write for each; snapshot: memory for its copies [default: 2^20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    pub(crate) ring_entries: Option<u64>,
    /// Bound of that memory, for pools that are larger; with cow: of what is copied [default: none]
    #[arg(long, value_name = "N", value_parser = size)]
    pub(crate) shadow_bytes: Option<u64>,
    /// Emulated medium: cycles that a persist barrier takes at least
    #[arg(long, value_name = "N", default_value = "1000")]
    pub(crate) latency_cycles: u64,
    /// Emulated medium: the same in nanoseconds
    #[arg(long, value_name = "N", value_parser = nanoseconds, conflicts_with = "latency_cycles")]
    pub(crate) latency_ns: Option<u64>,
    /// Emulated medium: its bandwidth for all threads, in 10^9 bytes a second; 0: no bound
    #[arg(long, value_name = "X", default_value = "16", value_parser = not_negative)]
    pub(crate) bandwidth_gbps: f64,
    /// Multiplies the sizes of the workload's tables, when they are loaded [default: 1]
    #[arg(long, value_name = "X", value_parser = positive)]
    pub(crate) scale: Option<f64>,
    /// Share of the transactions that write, of 100; the others read [default: the workload's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) update_percent: Option<u8>,
    /// So many of the workers only read, and their latencies are told apart; the others write, all
    /// the time or as --update-percent says. For workloads that heed that [default: none]
    #[arg(long, value_name = "N", value_parser = workers)]
    pub(crate) readers: Option<usize>,
    /// Exponent of Zipf's law by which keys are drawn, as in 0.99; 0 or `uniform` draws evenly
    /// [default: the workload's]
    #[arg(long, value_name = "X", value_parser = zipf)]
    pub(crate) zipf: Option<f64>,
    /// Each worker keeps to a part of the data of its own: in TPC-C a district
    #[arg(long)]
    pub(crate) low_conflict: bool,
    /// What a transaction writes, in workloads of objects: `large:BYTES`, an object whole, or
    /// `random:N`, a word in each of N objects [default: large:1024]
    #[arg(long, value_name = "SET")]
    pub(crate) data: Option<workloads::DataSet>,
    /// The volatile rings never make a worker wait; a variant of a design says so.
    #[arg(skip)]
    pub(crate) unbounded: bool,
    /// Whole objects are logged; a variant of a design says so.
    #[arg(skip)]
    pub(crate) whole_objects: bool,
    /// A worker frees the log behind so many transactions; a variant of a design says so.
    #[arg(skip)]
    pub(crate) recycle_every: u64,
    /// Nothing is logged; a variant of a design says so.
    #[arg(skip)]
    pub(crate) unlogged: bool,
    /// The log is freed and nothing goes home; a variant of a design says so.
    #[arg(skip)]
    pub(crate) ideal_reproduce: bool,
    /// Layout name of the pool [default: none, or what the pool has]
    #[arg(long, value_name = "NAME")]
    pub(crate) layout: Option<String>,
    /// Seed of the clients
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Output {
    /// For people or for programs
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "table")]
    pub(crate) format: Format,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
}

/// How objects are shown. A value has no help of its own, as in [`Format`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DumpFormat {
    Table,
    // Its name before it was said to be lines.
    #[value(alias = "json")]
    Jsonl,
}

/// Which transactions are timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SampleName {
    /// One in 1024, and more of a run of few
    Some,
    /// All
    Every,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityName {
    Async,
    Sync,
}

impl DurabilityName {
    pub(crate) fn name(self) -> &'static str {
        match self {
            DurabilityName::Async => "async",
            DurabilityName::Sync => "sync",
        }
    }
}

impl From<DurabilityName> for Durability {
    fn from(name: DurabilityName) -> Durability {
        match name {
            DurabilityName::Async => Durability::Async,
            DurabilityName::Sync => Durability::Sync,
        }
    }
}

impl SampleName {
    /// Which transactions are timed, and how.
    pub(crate) fn sampling(self, durability: DurabilityName) -> Sampling {
        match (durability, self) {
            (DurabilityName::Sync, _) => Sampling::All,
            (DurabilityName::Async, SampleName::Every) => Sampling::Watched,
            (DurabilityName::Async, SampleName::Some) => Sampling::Some,
        }
    }
}

impl Load {
    /// Transactions that may wait, as a number of them.
    pub(crate) fn outstanding(&self) -> Option<usize> {
        self.outstanding.map(|most| usize::try_from(most).unwrap_or(usize::MAX - 1))
    }

    /// What the emulated medium is to cost.
    pub(crate) fn costs(&self) -> Costs {
        let Load { latency_cycles, latency_ns, bandwidth_gbps, .. } = *self;
        let latency_cycles = latency_ns.map_or(latency_cycles, |ns| {
            let cycles = u128::from(ns) * u128::from(medium::cpu::cycles_per_second());
            (cycles / 1_000_000_000) as u64
        });
        Costs { latency_cycles, bandwidth_gbps }
    }

    /// Whether a pool of this variant can be opened again.
    pub(crate) fn keeps(&self) -> bool {
        !self.ideal_reproduce && !self.unlogged
    }

    /// What the client of a worker is to do.
    pub(crate) fn client_options(&self, worker: usize) -> workloads::Options {
        let update_percent = match self.readers {
            Some(readers) if worker < readers => Some(0),
            Some(_) => self.update_percent.or(Some(100)),
            None => self.update_percent,
        };
        workloads::Options { update_percent, ..self.workload_options() }
    }

    pub(crate) fn workload_options(&self) -> workloads::Options {
        workloads::Options {
            scale: self.scale.unwrap_or(1.0),
            seed: self.seed,
            workers: self.threads,
            update_percent: self.update_percent,
            zipf: self.zipf,
            low_conflict: self.low_conflict,
            data: self.data,
        }
    }
}

fn number(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if number.is_finite() { Ok(number) } else { Err("it must be finite".into()) }
}

fn positive(text: &str) -> Result<f64, String> {
    let number = number(text)?;
    let fits = number > 0.0 && number <= 1e9;
    if fits { Ok(number) } else { Err("it must be above 0 and at most 10^9".into()) }
}

fn not_negative(text: &str) -> Result<f64, String> {
    let number = number(text)?;
    if number >= 0.0 { Ok(number) } else { Err("it must not be negative".into()) }
}

fn zipf(text: &str) -> Result<f64, String> {
    if text == "uniform" {
        return Ok(0.0);
    }
    let exponent = not_negative(text)?;
    // Beyond, one key takes nearly everything.
    if exponent <= 10.0 { Ok(exponent) } else { Err("it must be at most 10".into()) }
}

fn at_least_one(text: &str) -> Result<u64, String> {
    let number: u64 = text.parse().map_err(|error| format!("{error}"))?;
    if number > 0 { Ok(number) } else { Err("it must be at least 1".into()) }
}

fn workers(text: &str) -> Result<usize, String> {
    let number: usize = text.parse().map_err(|error| format!("{error}"))?;
    let max = workloads::CLIENTS_MAX;
    if (1..=max).contains(&number) { Ok(number) } else { Err(format!("it must be 1 to {max}")) }
}

fn step_threads(text: &str) -> Result<usize, String> {
    let number: usize = text.parse().map_err(|error| format!("{error}"))?;
    if (1..=64).contains(&number) { Ok(number) } else { Err("it must be 1 to 64".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn numbers_that_make_no_sense_are_refused() {
        assert!(positive("0").is_err() && positive("nan").is_err() && positive("inf").is_err());
        assert!(not_negative("-1").is_err() && not_negative("0").is_ok());
        assert!(at_least_one("0").is_err());
        assert!(step_threads("0").is_err() && step_threads("65").is_err());
        assert!(workers("0").is_err() && workers("257").is_err() && workers("256").is_ok());
    }
}
