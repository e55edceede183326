//! Load of a measurement: which pool, how many workers and transactions, under which options.
//!
//! `run` and `compare` parse it from the same flags, and variants of designs change it. It stands
//! below the command line, so that the modules that measure do not depend on commands.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use lastword::{Durability, Options, Shadow};

use crate::grouping::Grouping;
use crate::latency::Sampling;
use crate::media::{Costs, MediumName};
use crate::quantity::{
    at_least_one, nanoseconds, not_negative, positive, seconds, size, step_threads, workers, zipf,
};
use crate::report::format::Output;
use crate::shadow::ShadowName;

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
    /// Returns the shadow, if it is bounded.
    pub(crate) fn paging(&self) -> Option<Shadow> {
        match (self.shadow, self.shadow_bytes) {
            (ShadowName::Software, _) => Some(Shadow::Software),
            (ShadowName::Cow, Some(_)) => Some(Shadow::CopyOnWrite),
            (ShadowName::Full | ShadowName::Cow, _) => None,
        }
    }

    /// What of the command line puts a bound on its shadow.
    pub(crate) fn bounded_by(&self) -> Option<&'static str> {
        self.paging().map(|shadow| match shadow {
            Shadow::Software => "--shadow software",
            Shadow::CopyOnWrite | Shadow::Full => "--shadow-bytes",
        })
    }

    /// The options with the shadow that was asked for.
    pub(crate) fn with_shadow(&self, options: Options) -> Options {
        let options = options.shadow(self.shadow.into());
        self.shadow_bytes.map_or(options.clone(), |bytes| options.shadow_bytes(bytes))
    }

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
