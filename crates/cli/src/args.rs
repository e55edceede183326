//! Command-line arguments: names, defaults and validation.
//!
//! Scripts depend on this interface: a name that appears here does not change.

mod crash;
mod expected;
mod replica;
mod sim;

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Arg, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

pub(crate) use self::crash::{
    CrashCommand, CrashExplore, CrashKill, CrashReplay, KillWriter, MediumModelName, TierName,
};
pub(crate) use self::expected::Expected;
pub(crate) use self::replica::{
    Feed, ReplicaCommand, ReplicaCreate, ReplicaFollow, ReplicaPromote, ReplicaStatus, StreamUrl,
};
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
written. A signal ends every command with 128 and its number. A pipe that its reader closes \
(`| head`) is no error.

Sizes take K, M, G, T (powers of 1024; KiB ... TiB are the same) and KB, MB, GB, TB (powers of \
1000), and fractions: 1.5G. Times take ns, us, ms, s, min, h.")]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl CommandLine {
    /// Parses the arguments of this process.
    ///
    /// # Errors
    /// Invalid arguments. A request for help is an error, too: its text is the help.
    pub(crate) fn read() -> Result<CommandLine, clap::Error> {
        let matches = with_negative_numbers(CommandLine::command()).try_get_matches()?;
        CommandLine::from_arg_matches(&matches)
    }
}

/// Lets flags take negative numbers as values, so that the value parser can explain the range.
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
    /// Kill and recover a process five times, then compare TATP volatile and durable (30 s)
    Demo(Demo),
    /// Run a workload on a design; then crash, recover and check the pool
    Run(Run),
    /// Compare designs on a workload, in interleaved rounds on fresh pools
    Compare(Compare),
    /// Reproduce a paper's tables and figures, and show the results beside the paper's
    Reproduce(Reproduce),
    /// Create, describe, check, dump, copy, back up, compact, export, grow or convert a pool
    #[command(subcommand)]
    Pool(PoolCommand),
    /// Describe the stream of a replicated pool, follow its primary, or promote a follower
    #[command(subcommand)]
    Replica(ReplicaCommand),
    /// Print the transactions of a stream as lines of JSON
    Feed(Feed),
    /// Measure baselines: the disk alone, or the background steps alone
    #[command(subcommand)]
    Measure(MeasureCommand),
    /// Explore crash states of a recorded machine, replay one, or kill processes
    #[command(subcommand)]
    Crash(CrashCommand),
    /// Simulate machines with persistent memory and hardware designs
    #[command(subcommand)]
    Sim(SimCommand),
    /// Print a shell's completion script
    Completions(Completions),
    /// Print the manual; read it with `lastword man | man -l -`
    Man(Manual),
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Duration of the whole demo, in seconds
    #[arg(long, value_name = "S", default_value = "30", value_parser = seconds, hide = true)]
    pub(crate) seconds: f64,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) workload: WorkloadName,
    /// Design of atomic durability; plain and volatile take no pool and no medium
    #[arg(long, value_name = "D", value_parser = DesignParser, default_value = "decoupled")]
    pub(crate) design: DesignName,
    /// Transactions to time. `every` also polls the durable watermark after each; with
    /// `--durability sync` all are timed
    #[arg(long, value_name = "WHICH", value_enum, default_value = "some")]
    pub(crate) sample: SampleName,
    /// Print a line a second to standard error during the measurement: transactions, use of the
    /// log, bytes written, waits, and the age of the oldest commit that is not durable
    #[arg(long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) load: Load,
}

#[derive(Debug, Args)]
pub(crate) struct Compare {
    #[command(flatten)]
    pub(crate) workload: WorkloadName,
    /// Two designs or more; the first is the baseline
    #[arg(long, value_name = "A,B,...", value_parser = DesignParser)]
    #[arg(value_delimiter = ',', required = true)]
    pub(crate) designs: Vec<DesignName>,
    /// Number of rounds; in each, every design runs the same transactions. With --transactions it
    /// runs all of them; with --seconds a slow design runs fewer
    #[arg(long, value_name = "N", default_value = "5", value_parser = at_least_one)]
    pub(crate) rounds: u64,
    #[command(flatten)]
    pub(crate) load: Load,
}

#[derive(Debug, Args)]
pub(crate) struct Reproduce {
    /// Paper to reproduce
    #[arg(value_name = "PAPER", value_parser = PossibleValuesParser::new(papers::NAMES))]
    pub(crate) paper: String,
    /// IDs of experiments, as in `D1 D5` [default: all but the long ones, see --list]
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// List the experiments and measure nothing
    #[arg(long)]
    pub(crate) list: bool,
    /// Run shorter trials, fewer rounds and fewer sizes, with the same targets
    #[arg(long)]
    pub(crate) quick: bool,
    /// Directory for results: a page (HTML), charts (SVG), tables (CSV, JSON). Completed trials are
    /// stored there, and the same command resumes an interrupted run
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Output of `comparison durable --format json`, for the rows that need libpmemobj
    #[arg(long, value_name = "FILE", alias = "peers")]
    pub(crate) comparison: Option<PathBuf>,
    /// Seed of the first round's clients
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct WorkloadName {
    /// Workload to run
    #[arg(value_name = "WORKLOAD", value_parser = PossibleValuesParser::new(workloads::NAMES))]
    pub(crate) name: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PoolCommand {
    /// Create an empty pool
    Create(PoolCreate),
    /// Describe a pool
    Info(PoolInfo),
    /// Report all damage of a pool, its effects and the remedies
    ///
    /// Reads superblocks, log, heap, root and the collections with names, verifies the page
    /// checksums of a closed pool, and writes nothing. Two kinds of damage are not detected: a
    /// changed value on a page without a current checksum, or in a pool in use; and a changed group
    /// at the very end of a log that waits for replay, which looks like a torn write.
    ///
    /// Works while a process has the pool open (design `decoupled`), and does not disturb it. The
    /// report is then as of one transaction (`durable ID`).
    ///
    /// Exit status: 0 no damage, 1 damage, 2 the pool could not be examined.
    Check(PoolCheck),
    /// Print the collections and every live object of a pool, without writing to the pool
    ///
    /// Collections with names are printed with their entries, in order of the names, and then the
    /// objects, one a line. Keys and values are decoded as far as the pool has their types: the
    /// fields of types with `#[lastword::persist]` and `#[derive(Key)]` too. Other bytes are
    /// hexadecimal.
    ///
    /// For a pool in use it prints the content as of one transaction.
    ///
    /// With `--format jsonl` each line is a JSON object (JSON Lines), so a pool of any size can be
    /// read line by line. The whole output is not one JSON document.
    Dump(PoolDump),
    /// Verify every page of a closed pool's heap against its checksum
    ///
    /// Reads the whole heap with little memory and never writes. Prints the offset of each damaged
    /// page; `pool check` also names the objects there. For a pool in use, call `Pool::scrub` in
    /// its process.
    ///
    /// The exit status is 0 without damage, 1 with damage, 2 if the pool could not be read.
    Scrub(PoolScrub),
    /// Convert a pool of format version 3, of an earlier Lastword, into a new pool
    ///
    /// Objects keep their addresses. The old pool is only read; replace it by the new one
    /// afterwards. Takes twice as much memory as the heap.
    Convert(PoolConvert),
    /// Copy a pool into a new pool, which may be larger or on another medium
    ///
    /// The copy has the content that opening the pool would recover, and opens without recovery. It
    /// is durable when the command ends. Objects keep their addresses. The pool is only read. Takes
    /// as much memory as the heap.
    ///
    /// Works while a process has the pool open (design `decoupled`), and does not disturb it. The
    /// copy includes every transaction that was durable when the command began.
    Copy(PoolCopy),
    /// Back up a pool, closed or in use, into a new pool of the same sizes and medium
    ///
    /// The same as `lastword pool copy` without options.
    Backup(PoolBackup),
    /// Copy a pool into a new pool without free memory between its objects
    ///
    /// By default the heap of the new pool is a quarter larger than its used part. Works on a
    /// closed pool, and on one in use (design `decoupled`). The pool is only read. Takes as much
    /// memory as both heaps, and 40 bytes for each object.
    ///
    /// Objects get new addresses. A word that is equal to a pointer to an object of the pool is
    /// taken for a pointer, and translated. Programs that store pointers in another form, tables
    /// and trees whose keys are pointers, and hashes of contents with pointers do not survive this:
    /// read
    /// `lastword::compact` in the API documentation first.
    Compact(PoolCompact),
    /// Write the objects of a pool to a file that this or a later version of Lastword can import
    ///
    /// Works on a closed pool, and on one in use (design `decoupled`). Takes as much memory as the
    /// heap, and 32 bytes for each object. The file is durable when the command ends, only its
    /// owner can read it, and it is not compressed.
    ///
    /// Exit status: 0 success, 1 damage (only with --salvage), 2 the pool could not be exported.
    Export(PoolExport),
    /// Create a pool from an export
    ///
    /// By default the heap is a quarter larger than its used part. Objects get new addresses, as by
    /// `lastword pool compact`. The pool keeps the layout, and its transaction IDs continue.
    Import(PoolImport),
    /// Make the heap of a closed pool larger
    ///
    /// The new size is durable when the command ends. The content does not move. A pool that needs
    /// recovery is not recovered by this. A program makes an open pool larger with
    /// `Options::max_bytes` or `Pool::grow`.
    Grow(PoolGrow),
}

#[derive(Debug, Args)]
pub(crate) struct PoolGrow {
    /// Pool file
    pub(crate) path: PathBuf,
    /// New heap size in bytes, as in 1.5G; no effect if the heap is at least as large
    #[arg(value_name = "BYTES", value_parser = size)]
    pub(crate) bytes: u64,
}

#[derive(Debug, Args)]
pub(crate) struct PoolCopy {
    /// Pool to copy
    pub(crate) pool: PathBuf,
    /// Pool to create
    pub(crate) copy: PathBuf,
    /// Heap size of the copy in bytes, as in 1.5G; at least that of the pool [default: that of the
    /// pool]
    #[arg(long, value_name = "N", value_parser = size)]
    pub(crate) bytes: Option<u64>,
    /// Log size of the copy in bytes [default: that of the pool]
    #[arg(long, value_name = "N", value_parser = size)]
    pub(crate) log_bytes: Option<u64>,
    /// Medium of the copy [default: that of the pool]
    #[arg(long, value_name = "M", value_enum)]
    pub(crate) medium: Option<MediumName>,
    /// Add page checksums to the copy [default: as the pool]
    #[arg(long)]
    pub(crate) page_checksums: bool,
    /// Accept a cleanly closed pool whose log is lost
    #[arg(long)]
    pub(crate) without_log: bool,
    /// Leave out damaged pages without content: neither an object nor a word of the allocator
    #[arg(long)]
    pub(crate) leave_damaged: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TransferForm {
    /// Heap size of the new pool in bytes, as in 1.5G [default: a quarter more than the memory that
    /// the objects need]
    #[arg(long, value_name = "N", value_parser = size)]
    pub(crate) bytes: Option<u64>,
    /// Log size of the new pool in bytes [default: that of the old pool]
    #[arg(long, value_name = "N", value_parser = size)]
    pub(crate) log_bytes: Option<u64>,
    /// Medium of the new pool [default: that of the old pool; of an import: dax on persistent
    /// memory, else file]
    #[arg(long, value_name = "M", value_enum)]
    pub(crate) medium: Option<MediumName>,
    /// Add page checksums to the new pool [default: as the old pool]
    #[arg(long)]
    pub(crate) page_checksums: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PoolCompact {
    /// Pool to compact
    pub(crate) pool: PathBuf,
    /// Pool to create
    pub(crate) new: PathBuf,
    #[command(flatten)]
    pub(crate) form: TransferForm,
    /// Accept a cleanly closed pool whose log is lost
    #[arg(long)]
    pub(crate) without_log: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PoolExport {
    /// Pool to export
    pub(crate) pool: PathBuf,
    /// File to create; - for standard output
    pub(crate) export: PathBuf,
    /// Export the intact objects of a damaged pool: those on no damaged page. If its log is damaged
    /// or missing, they may not be as of one transaction
    #[arg(long)]
    pub(crate) salvage: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PoolImport {
    /// Export to read; - for standard input
    pub(crate) export: PathBuf,
    /// Pool to create
    pub(crate) pool: PathBuf,
    #[command(flatten)]
    pub(crate) form: TransferForm,
}

#[derive(Debug, Args)]
pub(crate) struct PoolBackup {
    /// Pool to back up
    pub(crate) pool: PathBuf,
    /// Pool to create
    pub(crate) copy: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct PoolConvert {
    /// Pool to convert
    pub(crate) old: PathBuf,
    /// Pool to create
    pub(crate) new: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct PoolCreate {
    /// Pool file
    pub(crate) path: PathBuf,
    /// Heap size in bytes, as in 1.5G
    #[arg(long, value_name = "N", value_parser = size, default_value = "8M")]
    pub(crate) bytes: u64,
    /// Log size in bytes [default: a quarter of the heap, 4M to 1G; to 64M on mapped media]
    #[arg(long, value_name = "N", value_parser = size)]
    pub(crate) log_bytes: Option<u64>,
    /// Layout name [default: none]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) layout: String,
    /// Version of the layout
    #[arg(long, value_name = "N", requires = "layout", default_value = "0")]
    pub(crate) layout_version: u64,
    /// Medium that makes bytes durable [default: dax on persistent memory, else file]
    #[arg(long, value_name = "M", value_enum)]
    pub(crate) medium: Option<MediumName>,
    /// Create the pool without page checksums: changed pages are not detected
    #[arg(long)]
    pub(crate) without_page_checksums: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct PoolInfo {
    /// Pool file
    pub(crate) path: PathBuf,
    /// Shadow to assume for the memory estimate
    #[arg(long, value_name = "S", value_enum, default_value = "full")]
    pub(crate) shadow: ShadowName,
    /// Limit on the shadow's memory; for cow and software [default: no limit]
    #[arg(long, value_name = "N", value_parser = size)]
    pub(crate) shadow_bytes: Option<u64>,
    #[command(flatten)]
    pub(crate) expected: Expected,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct PoolCheck {
    /// Pool file
    pub(crate) path: PathBuf,
    /// Repair safe damage: rewrite a damaged copy of a superblock or of the log's head from its
    /// good copy, if nothing else is wrong
    #[arg(long)]
    pub(crate) repair: bool,
    #[command(flatten)]
    pub(crate) expected: Expected,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct PoolDump {
    /// Pool file
    pub(crate) path: PathBuf,
    /// Print the entries of this collection, and no objects
    #[arg(long, value_name = "NAME")]
    pub(crate) collection: Option<String>,
    /// Number of entries to print of each collection [default: all]
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Number of words to print of each object [default: 4; with --salvage all]
    #[arg(long, value_name = "N")]
    pub(crate) words: Option<usize>,
    /// Output format: table for people, jsonl (a JSON object a line) for programs
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "table")]
    pub(crate) format: DumpFormat,
    /// Print the intact objects of a damaged pool: those on no damaged page. If its log is damaged
    /// or missing, they may not be as of one transaction
    #[arg(long)]
    pub(crate) salvage: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PoolScrub {
    /// Pool file
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MeasureCommand {
    /// Measure durable writes of 4 KiB, 64 KiB and 1 MiB on the disk of a directory
    Disk(MeasureDisk),
    /// Measure how many entries a second one thread persists and reproduces
    Reproduce(MeasureReproduce),
}

#[derive(Debug, Args)]
pub(crate) struct MeasureDisk {
    /// Directory of the temporary file that is written
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Writes of each size in a round
    #[arg(long, value_name = "N", default_value = "200", value_parser = at_least_one)]
    pub(crate) writes: u64,
    /// Number of rounds; each measures every size
    #[arg(long, value_name = "N", default_value = "5", value_parser = at_least_one)]
    pub(crate) rounds: u64,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct MeasureReproduce {
    /// Entries in a round: words written, four in each transaction
    #[arg(long, value_name = "N", default_value = "8000000", value_parser = at_least_one)]
    pub(crate) entries: u64,
    /// Heap size in bytes
    #[arg(long, value_name = "N", value_parser = size, default_value = "512M")]
    pub(crate) bytes: u64,
    /// Log size in bytes
    #[arg(long, value_name = "N", value_parser = size, default_value = "64M")]
    pub(crate) log_bytes: u64,
    /// Exponent of the Zipf distribution of addresses [default: uniform]
    #[arg(long, value_name = "X", value_parser = positive)]
    pub(crate) zipf: Option<f64>,
    /// Workers whose rings are merged
    #[arg(long, value_name = "N", value_parser = workers, default_value = "2")]
    pub(crate) threads: usize,
    /// Threads that apply records to the heap image; each owns a share of the pages
    #[arg(long, value_name = "N", value_parser = step_threads, default_value = "1")]
    pub(crate) reproduce_threads: usize,
    /// Number of rounds
    #[arg(long, value_name = "N", default_value = "5", value_parser = at_least_one)]
    pub(crate) rounds: u64,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Shell that reads the script
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Manual {
    /// Directory for the manual, one page a command [default: standard output]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

/// Format of a dump. A value has no help of its own, as in [`Format`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DumpFormat {
    Table,
    // An earlier name of this format: scripts use it.
    #[value(alias = "json")]
    Jsonl,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_definition_is_consistent() {
        CommandLine::command().debug_assert();
    }
}
