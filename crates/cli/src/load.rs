//! Load of a measurement: the pool, the number of workers and transactions, the options.
//!
//! `run`, `compare` and `crash kill` parse it from the same flags, and variants of designs change
//! it. The module is below the command line, so that measuring does not depend on commands.

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

/// The options that `run`, `compare` and `crash kill` share.
#[derive(Clone, Debug, Args)]
pub(crate) struct Load {
    /// Medium that makes bytes durable [default: file; for an existing pool, its own]
    #[arg(long, value_name = "M", value_enum)]
    pub(crate) medium: Option<MediumName>,
    /// Pool file: created if missing; an existing pool is used at its size. `compare` creates its
    /// fresh pools there, and refuses an existing file [default: a temporary pool in this
    /// directory; emulated, persistent_cache: in /dev/shm]
    #[arg(long, value_name = "PATH")]
    pub(crate) pool: Option<PathBuf>,
    /// Heap size of a new pool, as in 1.5G [default: enough for the workload]
    #[arg(long, value_name = "N", value_parser = size)]
    pub(crate) bytes: Option<u64>,
    /// Log size of a new pool [default: 64M; decoupled on a file: a quarter of a heap above 256M,
    /// at most 1G]
    #[arg(long, value_name = "N", value_parser = size)]
    pub(crate) log_bytes: Option<u64>,
    /// Workers, one thread each
    #[arg(long, value_name = "N", value_parser = workers, default_value = "1")]
    pub(crate) threads: usize,
    /// Duration in seconds. `compare`: of the first design; the others run as many transactions, or
    /// fewer in 10 times that duration, without loading and checks. `crash kill`: maximum time
    /// until each kill [default: 3; compare, crash kill: 1]
    #[arg(long, value_name = "S", value_parser = seconds, conflicts_with = "transactions")]
    pub(crate) seconds: Option<f64>,
    /// Warm-up before the measurement, in seconds [default: none]
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(crate) warm_up: Option<f64>,
    /// Number of transactions, of all workers together
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) transactions: Option<u64>,
    /// Ownership records: locks of the transactional memory [default: by heap size and cores]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) ownership_records: Option<u64>,
    /// Time at which a commit returns: async at once, sync when it is durable
    #[arg(long, value_name = "WHEN", value_enum, default_value = "async")]
    pub(crate) durability: DurabilityName,
    /// Limit on a worker's transactions that are not durable yet; at the limit the worker waits for
    /// its oldest, like a server thread with N clients [default: no limit]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) outstanding: Option<u64>,
    /// Memory that transactions work on: a copy of the whole heap, a private mapping of the pool
    /// file, or single pages
    #[arg(long, value_name = "S", value_enum, default_value = "full")]
    pub(crate) shadow: ShadowName,
    /// Threads that apply records to the heap image; each owns a share of the pages
    #[arg(long, value_name = "N", value_parser = step_threads, default_value = "1")]
    pub(crate) reproduce_threads: usize,
    #[command(flatten)]
    pub(crate) grouping: Grouping,
    /// Entries in each worker's ring, 16 bytes each, rounded up to a power of two. A transaction
    /// writes at most 8 bytes an entry. snapshot: memory for copies instead of a ring
    /// [default: 2^20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    pub(crate) ring_entries: Option<u64>,
    /// Limit on the memory of the shadow; cow: on its copied pages [default: no limit]
    #[arg(long, value_name = "N", value_parser = size)]
    pub(crate) shadow_bytes: Option<u64>,
    /// Emulated medium: minimum duration of a persist barrier, in cycles
    #[arg(long, value_name = "N", default_value = "1000")]
    pub(crate) latency_cycles: u64,
    /// Emulated medium: minimum duration of a persist barrier, in nanoseconds
    #[arg(long, value_name = "N", value_parser = nanoseconds, conflicts_with = "latency_cycles")]
    pub(crate) latency_ns: Option<u64>,
    /// Emulated medium: bandwidth of all threads together, in 10^9 bytes a second; 0: no limit
    #[arg(long, value_name = "X", default_value = "16", value_parser = not_negative)]
    pub(crate) bandwidth_gbps: f64,
    /// Factor on the sizes of the workload's tables when they are loaded [default: 1]
    #[arg(long, value_name = "X", value_parser = positive)]
    pub(crate) scale: Option<f64>,
    /// Percentage of transactions that write; the others read [default: the workload's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) update_percent: Option<u8>,
    /// Workers that only read, with latencies reported apart; the others write in all transactions
    /// or in --update-percent of them. For workloads that support --update-percent [default: none]
    #[arg(long, value_name = "N", value_parser = workers)]
    pub(crate) readers: Option<usize>,
    /// Exponent of the Zipf distribution of keys, as in 0.99; 0 or `uniform` is uniform
    /// [default: the workload's]
    #[arg(long, value_name = "X", value_parser = zipf)]
    pub(crate) zipf: Option<f64>,
    /// Give each worker its own part of the data: in TPC-C a district
    #[arg(long)]
    pub(crate) low_conflict: bool,
    /// Write set of a transaction, in object workloads: `large:BYTES` writes one object whole,
    /// `random:N` writes a word in each of N objects [default: large:1024]
    #[arg(long, value_name = "SET")]
    pub(crate) data: Option<workloads::DataSet>,
    /// Makes the volatile rings unbounded. Variants of designs set it, as they set the next four.
    #[arg(skip)]
    pub(crate) unbounded: bool,
    /// Logs whole objects instead of changed words.
    #[arg(skip)]
    pub(crate) whole_objects: bool,
    /// Transactions after which a worker frees its log; 0 for the design's default.
    #[arg(skip)]
    pub(crate) recycle_every: u64,
    /// Writes no log.
    #[arg(skip)]
    pub(crate) unlogged: bool,
    /// Frees the log without applying it to the heap image.
    #[arg(skip)]
    pub(crate) ideal_reproduce: bool,
    /// Layout name of the pool [default: none; for an existing pool, its own]
    #[arg(long, value_name = "NAME")]
    pub(crate) layout: Option<String>,
    /// Seed of the workload's clients
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Transactions that are timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SampleName {
    /// One in 1024; a larger share of a short run
    Some,
    /// All transactions
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
    /// Returns the sampling for a durability.
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

    /// Returns the flag that bounds the shadow.
    pub(crate) fn bounded_by(&self) -> Option<&'static str> {
        self.paging().map(|shadow| match shadow {
            Shadow::Software => "--shadow software",
            Shadow::CopyOnWrite | Shadow::Full => "--shadow-bytes",
        })
    }

    /// Returns the options with the requested shadow.
    pub(crate) fn with_shadow(&self, options: Options) -> Options {
        let options = options.shadow(self.shadow.into());
        self.shadow_bytes.map_or(options.clone(), |bytes| options.shadow_bytes(bytes))
    }

    /// Returns the limit on outstanding transactions.
    pub(crate) fn outstanding(&self) -> Option<usize> {
        self.outstanding.map(|most| usize::try_from(most).unwrap_or(usize::MAX - 1))
    }

    /// Returns the costs of the emulated medium.
    pub(crate) fn costs(&self) -> Costs {
        let Load { latency_cycles, latency_ns, bandwidth_gbps, .. } = *self;
        let latency_cycles = latency_ns.map_or(latency_cycles, |ns| {
            let cycles = u128::from(ns) * u128::from(medium::cpu::cycles_per_second());
            (cycles / 1_000_000_000) as u64
        });
        Costs { latency_cycles, bandwidth_gbps }
    }

    /// Returns whether a pool of this variant can be opened again.
    pub(crate) fn keeps(&self) -> bool {
        !self.ideal_reproduce && !self.unlogged
    }

    /// Returns the options of a worker's client: readers never write.
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
