//! `lastword sim`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};
use sim::sweep::Slice;

use super::{Output, WorkloadName};
use crate::quantity::{at_least_one, positive, zipf};

#[derive(Debug, Subcommand)]
pub(crate) enum SimCommand {
    /// Run a workload on a simulated machine, with a design that may be in its hardware
    ///
    /// Equal arguments give equal results, but for the time that it takes here. See
    /// docs/research/simulator.md.
    ///
    /// Exit code: 0 it ran, and what --check looks at held; 1 it did not hold, 2 it could not be
    /// run.
    Run(Box<SimRun>),
    /// Run many simulations: all points of a file, a slice of them, or one
    ///
    /// A point is a workload on a design and a machine; its name is a hash of everything that its
    /// result depends on, this program's version too. With --out each result is a file of its own,
    /// and a point whose file is there is not run again: any scheduler may run slices, in any
    /// order, and repeat them. See docs/research/simulator.md, "Many simulations".
    ///
    /// Exit code: 0 all were run; 1 some failed, the others were run (with --list: could not be
    /// run); 2 none could be run.
    Sweep(SimSweep),
    /// Print what a sweep has left in a directory as one sheet, in the sweep's order
    ///
    /// Exit code: 0 all points are there; 1 some are missing or damaged, and named.
    Merge(SimMerge),
    /// List the designs, the machines and the workloads that there are
    List(SimList),
}

#[derive(Debug, Args)]
pub(crate) struct SimRun {
    #[command(flatten)]
    pub(crate) workload: WorkloadName,
    /// How atomic durability is reached
    #[arg(long, value_name = "D", value_parser = PossibleValuesParser::new(designs()))]
    pub(crate) design: String,
    /// A built-in machine, or the path of a machine file [default: that of the design's paper]
    #[arg(long, value_name = "M")]
    pub(crate) machine: Option<String>,
    /// Cores that run transactions, the others stand still [default: all that the machine has]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) cores: Option<u64>,
    /// How many transactions of all cores are measured
    #[arg(long, value_name = "N", default_value = "10000", value_parser = at_least_one)]
    pub(crate) transactions: u64,
    /// Change a number of the machine or the design, as in mc.wq=8 or lad.overflow=0.5; can be
    /// given again for others
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Compare what caches and memory hold with what the program has written, all the time, and
    /// check the workload's data in the end
    #[arg(long)]
    pub(crate) check: bool,
    /// Cut power so many times, anywhere in the run, and compare what recovery makes of it with
    /// what must be there; all transactions are measured then, from the first one on
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) power_cuts: u64,
    /// Seed of the clients
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u64,
    /// Multiplies the sizes of the workload's tables
    #[arg(long, value_name = "X", default_value = "1", value_parser = positive)]
    pub(crate) scale: f64,
    /// What a transaction writes, in workloads of objects: `large:BYTES`, an object whole, or
    /// `random:N`, a word in each of N objects [default: large:1024]
    #[arg(long, value_name = "SET")]
    pub(crate) data: Option<workloads::DataSet>,
    /// Share of the transactions that write, of 100; the others read [default: the workload's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) update_percent: Option<u8>,
    /// Exponent of Zipf's law by which keys are drawn, as in 0.99; 0 or `uniform` draws evenly
    /// [default: the workload's]
    #[arg(long, value_name = "X", value_parser = zipf)]
    pub(crate) zipf: Option<f64>,
    /// Let all cores work on the same data, in workloads that would give each core its own
    #[arg(long)]
    pub(crate) shared: bool,
    /// Write the memory controllers' requests to this file: a line each, its time in cycles, R or
    /// W, and its address
    #[arg(long, value_name = "FILE")]
    pub(crate) export_trace: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct SimSweep {
    /// The file that says which
    #[arg(value_name = "FILE.toml")]
    pub(crate) file: PathBuf,
    /// Run nothing: print the points, each on a line that begins with its hash, and say which of
    /// them cannot be run
    #[arg(long)]
    pub(crate) list: bool,
    /// Only every N-th point, from the I-th: 0/4, 1/4, 2/4 and 3/4 are all
    #[arg(long, value_name = "I/N", value_parser = slice, conflicts_with = "point")]
    pub(crate) slice: Option<Slice>,
    /// Only this point
    #[arg(long, value_name = "HASH")]
    pub(crate) point: Option<String>,
    /// Keep each result in this directory as soon as it is known, for `sim merge` [default: print
    /// them in the end]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// How results are printed that are not kept
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "table")]
    #[arg(conflicts_with = "out")]
    pub(crate) format: SheetFormat,
}

#[derive(Debug, Args)]
pub(crate) struct SimMerge {
    /// What was given to the sweep as --out
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// For people, for programs, for spreadsheets
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
