//! One trial: a workload runs once on a design, measured until everything is reproduced.
//!
//! Loading is not timed. CPU time covers all threads from the first transaction until the last one
//! is durable *and reproduced*, so no cost of a transaction is left out. Foreground CPU is that of
//! the workers. Background CPU is the rest, with emulated delays and the workers' share of the
//! steps.

use lastword::{Erased, Medium, Metrics};
use papers::Trial;
use workloads::Kind;

use crate::designs::DesignName;
use crate::driver::{self, Limit, Manner, Measured};
use crate::erased::own;
use crate::failure::Failure;
use crate::latency::Sampling;
use crate::load::Load;
use crate::machine::process_cpu_ns;
use crate::report::Quantiles;
use crate::setup::{self, Place};
use crate::shadow::ShadowName;

/// A completed trial, with the violations that the workload's check found.
pub(crate) struct Done {
    pub(crate) trial: Trial,
    pub(crate) medium: Option<Medium>,
    pub(crate) violations: Vec<String>,
}

/// Options of a trial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) limit: Limit,
    pub(crate) sampling: Sampling,
    /// Run the workload's own check afterwards.
    pub(crate) check: bool,
    /// `--pool` names an existing pool, which is kept; otherwise the run's own pool is removed.
    pub(crate) stays: bool,
}

/// Runs a workload once. A design with a limit on workers (`plain` has one) gets as many as it can.
///
/// # Errors
/// A pool cannot be created, or a transaction fails.
pub(crate) fn run(
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
    // `workload_options` refuses more readers than workers below.
    let some = |n: usize| if n <= load.threads { n.min(workers) } else { n };
    let readers = load.readers.map(some);
    let load = &Load { threads: workers, readers, shadow, shadow_bytes, ..load.clone() };
    let place = if how.stays { Place::of(load) } else { Place::fresh(load) };
    let ready = setup::ready(kind, erased, load, place)?;
    let mut positions = setup::clients(&ready.workload, load, ready.run);
    // A design without a pool has no outstanding transactions.
    let outstanding = load.outstanding().filter(|_| design.is_durable());
    let readers = load.readers.unwrap_or(0);
    let manner = Manner { sampling: how.sampling, outstanding, readers };
    driver::warm_up(&ready, &mut positions, load.warm_up)?;
    let before = (ready.pool.metrics(), process_cpu_ns());
    let measured = driver::measure(&ready, &mut positions, how.limit, manner)?;
    if design.is_durable() {
        ready.pool.checkpoint()?;
    }
    let cpu_ns = process_cpu_ns() - before.1;
    let until_reproduced = driver::since(&ready.pool.metrics(), &before.0);
    let trial = record(&measured, &until_reproduced, workers, cpu_ns);
    let mut violations = Vec::new();
    if how.check {
        let mut worker = ready.pool.any_worker()?;
        let found = ready.workload.check(&mut Erased::any(&mut worker.erased())).map_err(own)?;
        violations = found.iter().map(|v| format!("{}: {v}", design.name())).collect();
    }
    let medium = ready.pool.info().medium;
    match how.stays {
        true => ready.pool.close()?,
        // Everything is reproduced and the files are removed: a clean shutdown would be wasted
        // work.
        false => ready.pool.abandon(),
    }
    Ok(Done { trial, medium, violations })
}

/// Collects a trial's numbers. Bytes count until everything is reproduced, so that background work
/// after the last transaction is included.
fn record(measured: &Measured, until_reproduced: &Metrics, workers: usize, cpu_ns: u64) -> Trial {
    let Measured { metrics, latencies, reading, .. } = measured;
    Trial {
        transactions: measured.transactions,
        aborts: measured.aborts,
        workers,
        seconds: measured.seconds,
        durable_seconds: measured.durable_seconds,
        cpu_ns,
        workers_cpu_ns: measured.cpu.workers,
        delay_ns: until_reproduced.emulated_delay_ns,
        helped_ns: until_reproduced.helped_cpu_ns,
        ring_full_waits: metrics.ring_full_waits,
        words_written: measured.words_written,
        log_bytes: until_reproduced.log_bytes,
        combined_words: metrics.log_combined_words,
        log_stored_bytes: metrics.log_stored_bytes,
        heap_image_bytes: until_reproduced.heap_image_bytes,
        late_heap_image_bytes: until_reproduced.heap_image_bytes - metrics.heap_image_bytes,
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
