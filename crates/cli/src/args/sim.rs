//! Arguments of `lastword sim`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};
use sim::sweep::Slice;

use super::{Output, WorkloadName};
use crate::quantity::{at_least_one, positive, zipf};

#[derive(Debug, Subcommand)]
pub(crate) enum SimCommand {
    /// Run a workload on a simulated machine, on a software or hardware design
    ///
    /// Equal arguments give equal results, except for the simulation's own run time. See
    /// docs/research/simulator.md.
    ///
    /// Exit status: 0 success and every check held, 1 a check failed, 2 usage or I/O.
    Run(Box<SimRun>),
    /// Run many simulations: all points of a sweep file, a slice of them, or one
    ///
    /// A point is a workload on a design and a machine. Its name is a hash of everything that its
    /// result depends on, including the version of this program. With --out each result is a file,
    /// and a point whose file exists is skipped: any scheduler may run slices, in any order, and
    /// repeat them. See docs/research/simulator.md, "Many simulations".
    ///
    /// Exit status: 0 all points ran; 1 some failed and the others ran (with --list: some cannot
    /// run); 2 no point could run.
    Sweep(SimSweep),
    /// Print the results of a sweep's directory as one sheet, in the sweep's order
    ///
    /// Exit status: 0 all results are there; 1 some are missing or damaged, and listed.
    Merge(SimMerge),
    /// List designs, machines and workloads
    List(SimList),
}

#[derive(Debug, Args)]
pub(crate) struct SimRun {
    #[command(flatten)]
    pub(crate) workload: WorkloadName,
    /// Design of atomic durability
    #[arg(long, value_name = "D", value_parser = PossibleValuesParser::new(designs()))]
    pub(crate) design: String,
    /// Built-in machine, or path of a machine file [default: the machine of the design's paper]
    #[arg(long, value_name = "M")]
    pub(crate) machine: Option<String>,
    /// Cores that run transactions; the others idle [default: all cores of the machine]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) cores: Option<u64>,
    /// Number of measured transactions, of all cores together
    #[arg(long, value_name = "N", default_value = "10000", value_parser = at_least_one)]
    pub(crate) transactions: u64,
    /// Change a number of the machine or the design, as in mc.wq=8 or lad.overflow=0.5; repeatable
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Compare caches and memory with the program's writes throughout, and check the workload's
    /// data at the end
    #[arg(long)]
    pub(crate) check: bool,
    /// Cut power this many times, anywhere in the run, and compare the recovered state with the
    /// expected one; the measurement then begins with the first transaction
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) power_cuts: u64,
    /// Seed of the workload's clients
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u64,
    /// Factor on the sizes of the workload's tables
    #[arg(long, value_name = "X", default_value = "1", value_parser = positive)]
    pub(crate) scale: f64,
    /// Write set of a transaction, in object workloads: `large:BYTES` writes one object whole,
    /// `random:N` writes a word in each of N objects [default: large:1024]
    #[arg(long, value_name = "SET")]
    pub(crate) data: Option<workloads::DataSet>,
    /// Percentage of transactions that write; the others read [default: the workload's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) update_percent: Option<u8>,
    /// Exponent of the Zipf distribution of keys, as in 0.99; 0 or `uniform` is uniform
    /// [default: the workload's]
    #[arg(long, value_name = "X", value_parser = zipf)]
    pub(crate) zipf: Option<f64>,
    /// Let all cores share the data, in workloads that otherwise give each core its own
    #[arg(long)]
    pub(crate) shared: bool,
    /// File for the requests that the memory controllers serve, those of the design's own
    /// controllers included, one a line
    #[arg(long, value_name = "FILE")]
    pub(crate) export_trace: Option<PathBuf>,
    /// Form of that file
    #[arg(long, value_name = "FORM", default_value = "lastword", requires = "export_trace")]
    pub(crate) trace_format: TraceFormat,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TraceFormat {
    /// Time in cycles, R or W, address, channel, purpose and core
    Lastword,
    /// Trace for DRAMsim3, with times in clocks of the memory
    Dramsim3,
    /// Trace of loads and stores for Ramulator 2
    Ramulator2,
}

impl From<TraceFormat> for sim::persist::requests::Format {
    fn from(format: TraceFormat) -> Self {
        match format {
            TraceFormat::Lastword => Self::Lastword,
            TraceFormat::Dramsim3 => Self::Dramsim3,
            TraceFormat::Ramulator2 => Self::Ramulator2,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct SimSweep {
    /// Sweep file: points as combinations of workloads, designs, machines and settings
    #[arg(value_name = "FILE.toml")]
    pub(crate) file: PathBuf,
    /// Run nothing: print the points, one a line, hash first, and report those that cannot run
    #[arg(long)]
    pub(crate) list: bool,
    /// Run only every N-th point, from the I-th: 0/4, 1/4, 2/4 and 3/4 together are all points
    #[arg(long, value_name = "I/N", value_parser = slice, conflicts_with = "point")]
    pub(crate) slice: Option<Slice>,
    /// Run only this point
    #[arg(long, value_name = "HASH")]
    pub(crate) point: Option<String>,
    /// Directory that keeps each result as soon as it is known, for `sim merge` [default: print
    /// the results at the end]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Format of printed results: table for people, json for programs, csv for spreadsheets
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "table")]
    #[arg(conflicts_with = "out")]
    pub(crate) format: SheetFormat,
}

#[derive(Debug, Args)]
pub(crate) struct SimMerge {
    /// Results directory: the sweep's --out
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Output format: table for people, json for programs, csv for spreadsheets
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "table")]
    pub(crate) format: SheetFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SheetFormat {
    Table,
    Json,
    Csv,
}

#[derive(Debug, Args)]
pub(crate) struct SimList {
    #[command(flatten)]
    pub(crate) output: Output,
}

fn slice(text: &str) -> Result<Slice, String> {
    text.parse().map_err(|error: sim::sweep::SweepError| error.to_string())
}

fn designs() -> Vec<&'static str> {
    sim::design::ALL.iter().map(|design| design.name).collect()
}
