//! A trial: one workload on one design, measured until every transaction is reproduced.
//!
//! CPU time is that of all threads from the first transaction until the last is durable *and*
//! applied to the heap image, so that no cost of a transaction is left out. Foreground time is that
//! of the workers. Background time is the rest; it includes emulated delays, and the persist and
//! reproduce steps that workers run when they help. Loading is not timed.

use serde::{Deserialize, Serialize};

use crate::statistics::{Quantiles, ratio};

/// Measurements of one trial. The names of the fields are the keys of `trials.jsonl`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Trial {
    pub transactions: u64,
    pub aborts: u64,
    pub workers: usize,
    /// Until the last transaction has returned.
    pub seconds: f64,
    /// Until the last transaction is durable.
    pub durable_seconds: f64,
    /// All threads, until the heap image is up to date.
    pub cpu_ns: u64,
    /// Workers alone, without the steps that they ran when they helped.
    pub workers_cpu_ns: u64,
    /// Wall time that threads spun for the emulated medium: an upper bound of its CPU time, as a
    /// spinning thread may lose its core.
    pub delay_ns: u64,
    /// CPU time of persist and reproduce steps that workers ran.
    pub helped_ns: u64,
    /// Times that a worker waited for room in its ring.
    pub ring_full_waits: u64,
    /// Distinct words.
    pub words_written: u64,
    /// Sent to the log, padding included.
    pub log_bytes: u64,
    /// Words of combined groups, after combination.
    pub combined_words: u64,
    /// After compression, without padding.
    pub log_stored_bytes: u64,
    /// Written to the heap image until it is up to date.
    pub heap_image_bytes: u64,
    /// Of these, written after the last transaction was durable.
    pub late_heap_image_bytes: u64,
    pub grace_periods: u64,
    pub grace_cycles: u64,
    pub page_ins: u64,
    pub evictions: u64,
    /// From begin to the return of commit; empty where nothing was sampled.
    pub commit_ns: Quantiles,
    /// The same of read-only workers, which `commit_ns` leaves out; empty without any.
    pub reading_ns: Quantiles,
    /// From begin to durable; empty where nothing was sampled.
    pub durable_ns: Quantiles,
    /// Share of the transactions that were known to be durable when the worker's next one had
    /// returned; `None` unless every transaction was sampled.
    pub durable_by_next: Option<f64>,
}

impl Trial {
    /// Returns the number of transactions.
    pub fn count(&self) -> f64 {
        self.transactions as f64
    }

    /// Returns transactions a second, until the last is durable.
    pub fn rate(&self) -> f64 {
        ratio(self.count(), self.durable_seconds)
    }

    /// Returns aborts in 100 attempts.
    pub fn aborts_percent(&self) -> f64 {
        let aborts = self.aborts as f64;
        ratio(100.0 * aborts, aborts + self.count())
    }

    /// Returns foreground CPU time of a transaction, in ns.
    pub fn foreground_ns(&self) -> f64 {
        self.each(self.workers_cpu_ns)
    }

    /// Returns background CPU time of a transaction, in ns, without the time spun for the emulated
    /// medium. It is too small where threads lose their cores while they spin: see `delay_ns`.
    pub fn background_ns(&self) -> f64 {
        self.each(self.cpu_ns.saturating_sub(self.workers_cpu_ns + self.delay_ns))
    }

    /// Returns the share of one transaction in a total.
    pub fn each(&self, total: u64) -> f64 {
        ratio(total as f64, self.count())
    }

    /// A made-up trial for tests.
    #[doc(hidden)]
    pub const SAMPLE: Trial = Trial {
        transactions: 1000,
        aborts: 0,
        workers: 1,
        seconds: 0.5,
        durable_seconds: 0.5,
        cpu_ns: 900_000,
        workers_cpu_ns: 500_000,
        delay_ns: 100_000,
        helped_ns: 50_000,
        ring_full_waits: 0,
        words_written: 3000,
        log_bytes: 64_000,
        combined_words: 1500,
        log_stored_bytes: 30_000,
        heap_image_bytes: 10_000,
        late_heap_image_bytes: 1000,
        grace_periods: 500,
        grace_cycles: 200_000,
        page_ins: 0,
        evictions: 0,
        commit_ns: quantiles(5, 6, 7, 8),
        reading_ns: quantiles(3, 4, 5, 6),
        durable_ns: quantiles(10, 20, 30, 40),
        durable_by_next: Some(0.99),
    };
}

const fn quantiles(p50: u64, p90: u64, p99: u64, max: u64) -> Quantiles {
    Quantiles { samples: 1000, p50: Some(p50), p90: Some(p90), p99: Some(p99), max: Some(max) }
}
