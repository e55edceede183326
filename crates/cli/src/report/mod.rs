//! Reports of commands: one structure each, printed as JSON or as a table.
//!
//! Field names are the JSON keys. Scripts depend on them.

mod collection;
pub(crate) mod format;
mod heap;
pub(crate) mod json;
pub(crate) mod opening;
pub(crate) mod progress;
pub(crate) mod table;
pub(crate) mod watch;

use std::io::{self, Write};

use lastword::Medium;
use papers::Trial;
use serde::Serialize;

pub(crate) use self::collection::{Collection, Json};
pub(crate) use self::heap::HeapUse;
use crate::designs::DesignName;
use crate::driver::Measured;
use crate::grouping::Grouping;
use crate::latency::Latencies;
use crate::load::Load;
use crate::machine::{self, Machine};
use crate::media::MediumName;
pub(crate) use crate::output::print;
pub(crate) use papers::statistics::{OverRounds, Quantiles, median, ratio, sorted};

/// Conditions of a measurement.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Conditions {
    /// Name of the medium; `None` if no design was durable.
    pub(crate) medium: Option<&'static str>,
    /// Latency of the emulated medium; `None` on others.
    pub(crate) latency_cycles: Option<u64>,
    /// Bandwidth of the emulated medium; `None` on others.
    pub(crate) bandwidth_gbps: Option<f64>,
    pub(crate) durability: &'static str,
    pub(crate) shadow: &'static str,
    pub(crate) reproduce_threads: usize,
    /// Options of group commit.
    #[serde(flatten)]
    pub(crate) grouping: Grouping,
    /// Bound of the shadow; `None` without a bound.
    pub(crate) shadow_bytes: Option<u64>,
    /// Requested number of ownership records; `None` if the pool chose.
    pub(crate) ownership_records: Option<u64>,
    /// Bound on each worker's outstanding transactions; `None` without a bound.
    pub(crate) outstanding: Option<u64>,
    pub(crate) threads: usize,
    /// Workers that only read; `None` without readers.
    pub(crate) readers: Option<usize>,
    pub(crate) scale: Option<f64>,
    pub(crate) seed: u64,
    pub(crate) machine: Machine,
    pub(crate) commit: Option<&'static str>,
}

impl Conditions {
    pub(crate) fn of(load: &Load, medium: Option<Medium>) -> Conditions {
        let emulated = matches!(medium, Some(Medium::Emulated { .. }));
        Conditions {
            medium: medium.map(|medium| MediumName::of(medium).name()),
            latency_cycles: emulated.then(|| load.costs().latency_cycles),
            bandwidth_gbps: emulated.then_some(load.bandwidth_gbps),
            durability: load.durability.name(),
            shadow: load.shadow.name(),
            reproduce_threads: load.reproduce_threads,
            grouping: load.grouping,
            shadow_bytes: load.shadow_bytes,
            ownership_records: load.ownership_records,
            outstanding: load.outstanding,
            threads: load.threads,
            readers: load.readers,
            // An existing pool keeps the scale that it was loaded with.
            scale: load.scale.or(load.pool.is_none().then_some(1.0)),
            seed: load.seed,
            machine: Machine::this(),
            commit: machine::commit(),
        }
    }
}

/// CPU time in seconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct CpuSeconds {
    /// Foreground: worker threads, without their share of the background steps.
    pub(crate) workers: f64,
    pub(crate) persist: f64,
    pub(crate) reproduce: f64,
    /// Waits for the emulated medium.
    pub(crate) emulated_delay: f64,
    /// Other threads of the process.
    pub(crate) other: f64,
}

/// `lastword run`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RunReport {
    pub(crate) workload: &'static str,
    pub(crate) design: &'static str,
    #[serde(flatten)]
    pub(crate) conditions: Conditions,
    pub(crate) seconds: f64,
    pub(crate) transactions: u64,
    pub(crate) aborts: u64,
    pub(crate) transactions_per_second: f64,
    /// Until the last transaction was durable; equal to `seconds` for designs without a pool.
    pub(crate) durable_transactions_per_second: f64,
    /// All threads, until the last transaction was durable.
    pub(crate) transactions_per_cpu_second: f64,
    /// The fewest in any 100 ms of the run; `None` for a shorter run.
    pub(crate) worst_100ms_transactions: Option<u64>,
    /// The same as a rate.
    pub(crate) worst_100ms_transactions_per_second: Option<f64>,
    pub(crate) cpu_seconds: CpuSeconds,
    pub(crate) commit_latency_ns: Quantiles,
    /// Of the readers, which the former leaves out; empty without readers.
    pub(crate) reading_latency_ns: Quantiles,
    pub(crate) durable_latency_ns: Quantiles,
    /// Fraction of transactions known to be durable when the worker's next one returned; `None`
    /// without `--sample every`.
    pub(crate) durable_by_next: Option<f64>,
    /// Distinct words; `None` for a design that does not count them.
    pub(crate) writes_per_transaction: Option<f64>,
    /// Records before combination.
    pub(crate) log_payload_bytes: u64,
    /// After combination, before compression.
    pub(crate) log_combined_bytes: u64,
    /// After compression, before padding.
    pub(crate) log_stored_bytes: u64,
    /// Words of combined groups; a word counts once a group.
    pub(crate) log_combined_words: u64,
    pub(crate) log_bytes: u64,
    pub(crate) heap_image_bytes: u64,
    /// Bytes sent to the device, log and heap image, for each byte of written words; `None` without
    /// writes or a pool. In a run shorter than one log wrap little has been reproduced.
    pub(crate) write_amplification: Option<f64>,
    pub(crate) padding_bytes: u64,
    pub(crate) log_wraps: f64,
    pub(crate) device_writes: u64,
    /// Acknowledged transactions for each device write; `None` without device writes.
    pub(crate) transactions_per_device_write: Option<f64>,
    pub(crate) persist_barriers: u64,
    pub(crate) ring_full_waits: u64,
    /// `snapshot`: number of timed grace periods.
    pub(crate) grace_periods: u64,
    /// Cycles of a grace period: from a transaction's end until its words may be reproduced.
    pub(crate) cycles_per_grace_period: Option<f64>,
    /// Pages that a bounded shadow read from the heap image.
    pub(crate) page_ins: u64,
    /// Pages that a bounded shadow evicted.
    pub(crate) evictions: u64,
    /// Waits for a page whose writes were not yet reproduced.
    pub(crate) page_waits: u64,
    pub(crate) peak_rss_bytes: Option<u64>,
    /// At the end of the run.
    pub(crate) heap: Option<HeapUse>,
    /// `None`: the check could not run.
    pub(crate) checked: Option<bool>,
}

impl RunReport {
    pub(crate) fn new(
        (workload, design): (&'static str, DesignName),
        measured: &Measured,
        conditions: Conditions,
        peak_rss_bytes: Option<u64>,
        checked: Option<bool>,
    ) -> RunReport {
        let Measured { transactions, metrics, latencies, .. } = measured;
        let Latencies { commit, durable, .. } = latencies;
        let count = *transactions as f64;
        // A design that cannot roll back keeps no record of its writes.
        let counts_words = design.info().rolls_back;
        let changed_bytes = 8.0 * measured.words_written as f64;
        let device_bytes = (metrics.log_bytes + metrics.heap_image_bytes) as f64;
        let device_writes = metrics.device_writes as f64;
        RunReport {
            workload,
            design: design.name(),
            conditions,
            seconds: measured.seconds,
            transactions: *transactions,
            aborts: measured.aborts,
            transactions_per_second: ratio(count, measured.seconds),
            durable_transactions_per_second: ratio(count, measured.durable_seconds),
            transactions_per_cpu_second: ratio(count, measured.cpu.total as f64 / 1e9),
            worst_100ms_transactions: measured.worst_100ms,
            worst_100ms_transactions_per_second: measured.worst_100ms.map(|n| 10.0 * n as f64),
            cpu_seconds: cpu_seconds(measured),
            commit_latency_ns: Quantiles::of(commit),
            reading_latency_ns: Quantiles::of(&measured.reading.commit),
            durable_latency_ns: Quantiles::of(durable),
            durable_by_next: latencies.durable_by_next(),
            writes_per_transaction: counts_words
                .then(|| ratio(measured.words_written as f64, count)),
            log_payload_bytes: metrics.log_payload_bytes,
            log_combined_bytes: metrics.log_combined_bytes,
            log_combined_words: metrics.log_combined_words,
            log_stored_bytes: metrics.log_stored_bytes,
            log_bytes: metrics.log_bytes,
            heap_image_bytes: metrics.heap_image_bytes,
            write_amplification: some_ratio(device_bytes, changed_bytes)
                .filter(|_| design.is_durable()),
            padding_bytes: metrics.padding_bytes,
            log_wraps: metrics.log_wraps,
            device_writes: metrics.device_writes,
            transactions_per_device_write: some_ratio(count, device_writes),
            persist_barriers: metrics.persist_barriers,
            ring_full_waits: metrics.ring_full_waits,
            grace_periods: metrics.grace_periods,
            cycles_per_grace_period: some_ratio(
                metrics.grace_cycles as f64,
                metrics.grace_periods as f64,
            ),
            page_ins: metrics.page_ins,
            evictions: metrics.evictions,
            page_waits: metrics.page_waits,
            peak_rss_bytes,
            heap: None,
            checked,
        }
    }
}

fn cpu_seconds(measured: &Measured) -> CpuSeconds {
    let (cpu, metrics) = (measured.cpu, &measured.metrics);
    let known =
        cpu.workers + metrics.persist_cpu_ns + metrics.reproduce_cpu_ns + metrics.emulated_delay_ns;
    let seconds = |ns: u64| ns as f64 / 1e9;
    CpuSeconds {
        workers: seconds(cpu.workers),
        persist: seconds(metrics.persist_cpu_ns),
        reproduce: seconds(metrics.reproduce_cpu_ns),
        emulated_delay: seconds(metrics.emulated_delay_ns),
        other: seconds(cpu.total.saturating_sub(known)),
    }
}

/// The trials of one design, one a round.
#[derive(Clone, Debug)]
pub(crate) struct Trials {
    pub(crate) design: DesignName,
    pub(crate) trials: Vec<Trial>,
}

/// One design of a comparison.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) design: &'static str,
    /// Number of workers: as requested, or the design's limit.
    pub(crate) threads: usize,
    /// The fewest in a round: below the report's number for a design that reached the time limit.
    pub(crate) transactions_min: u64,
    pub(crate) transactions_per_second_median: Option<f64>,
    pub(crate) durable_transactions_per_second_median: Option<f64>,
    /// Ratio of transactions a second to the first design.
    pub(crate) ratio_median: Option<f64>,
    pub(crate) ratio_min: Option<f64>,
    pub(crate) ratio_max: Option<f64>,
    pub(crate) durable_ratio_median: Option<f64>,
    /// Nanoseconds beyond the first design, per transaction and worker.
    pub(crate) added_ns_median: Option<f64>,
    /// All threads, until the last transaction was reproduced.
    pub(crate) cpu_per_transaction_ns: Option<f64>,
    /// Of it, foreground and background.
    pub(crate) foreground_cpu_per_transaction_ns: Option<f64>,
    pub(crate) background_cpu_per_transaction_ns: Option<f64>,
    /// Bytes sent to the log, with padding.
    pub(crate) log_bytes_per_transaction: Option<f64>,
}

/// The report of `lastword compare`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CompareReport {
    pub(crate) workload: String,
    #[serde(flatten)]
    pub(crate) conditions: Conditions,
    /// Of one design in one round.
    pub(crate) transactions: u64,
    pub(crate) baseline: &'static str,
    pub(crate) rounds: u64,
    pub(crate) rows: Vec<Row>,
}

impl CompareReport {
    pub(crate) fn new(
        workload: &str,
        all: &[Trials],
        transactions: u64,
        rounds: u64,
        conditions: Conditions,
    ) -> CompareReport {
        let rows = all.iter().map(|one| row(one, &all[0].trials)).collect();
        CompareReport {
            workload: workload.into(),
            conditions,
            transactions,
            baseline: all[0].design.name(),
            rounds,
            rows,
        }
    }
}

fn row(of: &Trials, baseline: &[Trial]) -> Row {
    let each = |value: &dyn Fn(&Trial) -> f64| sorted(of.trials.iter().map(value).collect());
    let pairs = |value: &dyn Fn(&Trial, &Trial) -> f64| {
        sorted(of.trials.iter().zip(baseline).map(|(trial, base)| value(trial, base)).collect())
    };
    let count = |trial: &Trial| trial.transactions as f64;
    let rate = |trial: &Trial| ratio(count(trial), trial.seconds);
    let durable_rate = |trial: &Trial| ratio(count(trial), trial.durable_seconds);
    let ratios = pairs(&|trial, base| ratio(rate(trial), rate(base)));
    let worker_ns = |trial: &Trial| ratio(1e9 * trial.seconds * trial.workers as f64, count(trial));
    Row {
        design: of.design.name(),
        threads: of.trials.first().map_or(0, |trial| trial.workers),
        transactions_min: of.trials.iter().map(|trial| trial.transactions).min().unwrap_or(0),
        transactions_per_second_median: median(&each(&rate)),
        durable_transactions_per_second_median: median(&each(&durable_rate)),
        ratio_median: median(&ratios),
        ratio_min: ratios.first().copied(),
        ratio_max: ratios.last().copied(),
        durable_ratio_median: median(&pairs(&|trial, base| {
            ratio(durable_rate(trial), durable_rate(base))
        })),
        added_ns_median: median(&pairs(&|trial, base| worker_ns(trial) - worker_ns(base))),
        cpu_per_transaction_ns: median(&each(&|trial| ratio(trial.cpu_ns as f64, count(trial)))),
        foreground_cpu_per_transaction_ns: median(&each(&|trial| {
            ratio(trial.workers_cpu_ns as f64, count(trial))
        })),
        background_cpu_per_transaction_ns: median(&each(&|trial| {
            ratio(trial.cpu_ns.saturating_sub(trial.workers_cpu_ns) as f64, count(trial))
        })),
        log_bytes_per_transaction: median(&each(&|trial| {
            ratio(trial.log_bytes as f64, count(trial))
        })),
    }
}

/// Nothing where there is nothing to divide by.
fn some_ratio(part: f64, of: f64) -> Option<f64> {
    (of > 0.0).then(|| part / of)
}

/// Prints the violations to stderr.
pub(crate) fn complain(lines: &[String]) {
    for line in lines {
        // A failed write is ignored: the report and the exit status say the same.
        let _ = writeln!(io::stderr(), "check failed: {line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::designs::DesignName;

    fn trials(design: &str, seconds: &[f64]) -> Trials {
        let design = DesignName::by_name(design).unwrap();
        let trial = |&seconds: &f64| Trial {
            transactions: 1000,
            workers: 2,
            seconds,
            durable_seconds: 2.0 * seconds,
            cpu_ns: 5_000_000,
            workers_cpu_ns: 4_000_000,
            ..Trial::SAMPLE
        };
        Trials { design, trials: seconds.iter().map(trial).collect() }
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        // The machine was four times slower in the second round, for both designs.
        let base = trials("volatile", &[1.0, 4.0]);
        let other = trials("decoupled", &[2.0, 8.0]);
        let row = row(&other, &base.trials);
        assert_eq!((row.ratio_min, row.ratio_max), (Some(0.5), Some(0.5)));
        assert_eq!(row.durable_ratio_median, Some(0.5));
        assert_eq!(row.transactions_per_second_median, Some((500.0 + 125.0) / 2.0));
        // 500 transactions of each of two workers took one second longer, and four.
        assert_eq!(row.added_ns_median, Some(5_000_000.0));
        assert_eq!(row.cpu_per_transaction_ns, Some(5000.0));
        assert_eq!(row.foreground_cpu_per_transaction_ns, Some(4000.0));
        assert_eq!(row.background_cpu_per_transaction_ns, Some(1000.0));
    }

    #[test]
    fn design_without_rounds_has_no_numbers() {
        let base = trials("volatile", &[1.0]);
        let row = row(&trials("plain", &[]), &base.trials);
        assert!(row.ratio_median.is_none() && row.cpu_per_transaction_ns.is_none());
    }
}
