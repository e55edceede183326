//! A lap: one workload on one design, measured until everything is at home.
//!
//! Loading is not timed. CPU time is that of all threads from the first transaction until the last
//! is durable *and at home*: nothing that a transaction costs is left out. In front is what the
//! workers took, behind the rest, emulated delays and what workers did of the steps included.

use lastword::{Erased, Medium, Metrics};
use serde::{Deserialize, Serialize};
use workloads::Kind;

use crate::args::Load;
use crate::designs::DesignName;
use crate::driver::{self, Limit, Manner, Measured};
use crate::erased::own;
use crate::failure::Failure;
use crate::latency::Sampling;
use crate::machine::process_cpu_ns;
use crate::report::Quantiles;
use crate::setup::{self, Place};
use crate::shadow::ShadowName;

/// What one design did in one lap.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Lap {
    pub(crate) transactions: u64,
    pub(crate) aborts: u64,
    pub(crate) workers: usize,
    pub(crate) seconds: f64,
    pub(crate) durable_seconds: f64,
    /// All threads, until everything was at home.
    pub(crate) cpu_ns: u64,
    /// Of it, that of the workers, without what they did of the steps behind.
    pub(crate) workers_cpu_ns: u64,
    /// What passed while threads spun for the emulated medium: as much CPU at most, for who spins
    /// may have lost its core meanwhile.
    pub(crate) delay_ns: u64,
    /// What passed while workers did steps behind, of that and the rest.
    pub(crate) helped_ns: u64,
    /// How often a worker waited for room in its ring.
    pub(crate) ring_full_waits: u64,
    /// Different words.
    pub(crate) words_written: u64,
    /// Sent to the log, padding included.
    pub(crate) log_bytes: u64,
    /// Of combined groups: their words, after combination.
    pub(crate) combined_words: u64,
    /// After compression, without padding.
    pub(crate) log_stored_bytes: u64,
    /// Until everything was at home.
    pub(crate) home_bytes: u64,
    /// Of it, what was written after the last transaction was durable.
    pub(crate) late_home_bytes: u64,
    pub(crate) grace_periods: u64,
    pub(crate) grace_cycles: u64,
    pub(crate) page_ins: u64,
    pub(crate) evictions: u64,
    /// From begin to the return of commit; nothing where nothing was sampled.
    pub(crate) commit_ns: Quantiles,
    /// The same of workers that were to only read, which are not among those above; nothing where
    /// none was to.
    pub(crate) reading_ns: Quantiles,
    /// From begin to durable; nothing where nothing was sampled.
    pub(crate) durable_ns: Quantiles,
    /// Of the transactions that were sampled, those that were known to be durable when the next one
    /// had returned; nothing unless all were.
    pub(crate) durable_by_next: Option<f64>,
}

/// A lap, and what its check says, if it was checked.
pub(crate) struct Done {
    pub(crate) lap: Lap,
    pub(crate) medium: Option<Medium>,
    pub(crate) violations: Vec<String>,
}

/// How a lap is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) limit: Limit,
    pub(crate) sampling: Sampling,
    /// The workload's own check is run behind it.
    pub(crate) check: bool,
    /// `--pool` names a pool that is there and stays; else one that is made and goes.
    pub(crate) stays: bool,
}

/// Makes a lap. A design that cannot have so many workers (`plain` has one) has as many as it can.
///
/// # Errors
/// What kept it from being run.
pub(crate) fn lap(
    workload: &str,
    design: DesignName,
    load: &Load,
    how: How,
) -> Result<Done, Failure> {
    let load = &design.adjust(load);
    let kind = Kind::by_name(workload).expect("the parser knows the names");
    let erased = design.erased(load);
    let workers = load.threads.min(erased.workers_max);
    let (shadow, shadow_bytes) = match design.is_durable() {
        true => (load.shadow, load.shadow_bytes),
        false => (ShadowName::Full, None),
    };
    // More readers than there were to be workers are refused below.
    let some = |n: usize| if n <= load.threads { n.min(workers) } else { n };
    let readers = load.readers.map(some);
    let load = &Load { threads: workers, readers, shadow, shadow_bytes, ..load.clone() };
    let place = if how.stays { Place::of(load) } else { Place::fresh(load) };
    let ready = setup::ready(kind, erased, load, place)?;
    let mut positions = setup::clients(&ready.workload, load, ready.run);
    // Designs that keep nothing have nothing to wait for.
    let outstanding = load.outstanding().filter(|_| design.is_durable());
    let readers = load.readers.unwrap_or(0);
    let manner = Manner { sampling: how.sampling, outstanding, readers };
    driver::warm_up(&ready, &mut positions, load.warm_up)?;
    let before = (ready.pool.metrics(), process_cpu_ns());
    let measured = driver::measure(&ready, &mut positions, how.limit, manner)?;
    if design.is_durable() {
        ready.pool.bring_home()?;
    }
    let cpu_ns = process_cpu_ns() - before.1;
    let until_home = driver::since(&ready.pool.metrics(), &before.0);
    let lap = Lap::new(&measured, &until_home, workers, cpu_ns);
    let mut violations = Vec::new();
    if how.check {
        let mut worker = ready.pool.any_worker()?;
        let found = ready.workload.check(&mut Erased::any(&mut worker.erased())).map_err(own)?;
        violations = found.iter().map(|v| format!("{}: {v}", design.name())).collect();
    }
    let medium = ready.pool.info().medium;
    match how.stays {
        true => ready.pool.close()?,
        // Everything is at home and the files go: no need to close in good order.
        false => ready.pool.abandon(),
    }
    Ok(Done { lap, medium, violations })
}

impl Lap {
    fn new(measured: &Measured, until_home: &Metrics, workers: usize, cpu_ns: u64) -> Lap {
        let Measured { metrics, latencies, reading, .. } = measured;
        Lap {
            transactions: measured.transactions,
            aborts: measured.aborts,
            workers,
            seconds: measured.seconds,
            durable_seconds: measured.durable_seconds,
            cpu_ns,
            workers_cpu_ns: measured.cpu.workers,
            delay_ns: until_home.emulated_delay_ns,
            helped_ns: until_home.helped_cpu_ns,
            ring_full_waits: metrics.ring_full_waits,
            words_written: measured.words_written,
            log_bytes: until_home.log_bytes,
            combined_words: metrics.log_combined_words,
            log_stored_bytes: metrics.log_stored_bytes,
            home_bytes: until_home.home_bytes,
            late_home_bytes: until_home.home_bytes - metrics.home_bytes,
            grace_periods: metrics.grace_periods,
            grace_cycles: metrics.grace_cycles,
            page_ins: metrics.page_ins,
            evictions: metrics.evictions,
            commit_ns: Quantiles::of(&latencies.commit),
            reading_ns: Quantiles::of(&reading.commit),
            durable_ns: Quantiles::of(&latencies.durable),
            durable_by_next: latencies.durable_by_next(),
        }
    }

    /// Transactions.
    pub(crate) fn count(&self) -> f64 {
        self.transactions as f64
    }

    /// Transactions a second, until the last was durable.
    pub(crate) fn rate(&self) -> f64 {
        crate::report::ratio(self.count(), self.durable_seconds)
    }

    /// Of 100 attempts, those that met another's transaction.
    pub(crate) fn aborts_percent(&self) -> f64 {
        let aborts = self.aborts as f64;
        crate::report::ratio(100.0 * aborts, aborts + self.count())
    }

    /// CPU of a transaction in front, in ns.
    pub(crate) fn front(&self) -> f64 {
        self.each(self.workers_cpu_ns)
    }

    /// CPU of a transaction behind, in ns, without what is spun away for the emulated medium. Too
    /// little where threads lose their cores while they spin: see `delay_ns`.
    pub(crate) fn behind(&self) -> f64 {
        self.each(self.cpu_ns.saturating_sub(self.workers_cpu_ns + self.delay_ns))
    }

    /// Of one transaction.
    pub(crate) fn each(&self, of_all: u64) -> f64 {
        crate::report::ratio(of_all as f64, self.count())
    }
}

/// A lap that was never made.
#[cfg(test)]
pub(crate) const SAMPLE: Lap = Lap {
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
    home_bytes: 10_000,
    late_home_bytes: 1000,
    grace_periods: 500,
    grace_cycles: 200_000,
    page_ins: 0,
    evictions: 0,
    commit_ns: Quantiles { samples: 1000, p50: Some(5), p90: Some(6), p99: Some(7), max: Some(8) },
    reading_ns: Quantiles { samples: 1000, p50: Some(3), p90: Some(4), p99: Some(5), max: Some(6) },
    durable_ns: Quantiles {
        samples: 1000,
        p50: Some(10),
        p90: Some(20),
        p99: Some(30),
        max: Some(40),
    },
    durable_by_next: Some(0.99),
};
