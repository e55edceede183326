//! What a pool has done, and what it has cost.

use crate::sync::{AtomicU64, Ordering};

/// Counts and times of a pool since it was opened.
///
/// CPU times are sums over threads. The steps behind (persist, reproduce) are counted whoever ran
/// them: a background thread or a worker that waited.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Metrics {
    /// CPU time of persist steps, in nanoseconds, without emulated delay.
    pub persist_cpu_ns: u64,
    /// CPU time of reproduce steps, in nanoseconds, without emulated delay.
    pub reproduce_cpu_ns: u64,
    /// The part of both that workers ran, in nanoseconds, with its emulated delay.
    pub helped_cpu_ns: u64,
    /// Time spent spinning for emulated media, in nanoseconds.
    pub emulated_delay_ns: u64,
    /// Bytes of records (marks, run heads, values) and group headers, before they are combined.
    pub log_payload_bytes: u64,
    /// The same after records were combined, before they are compressed.
    pub log_combined_bytes: u64,
    /// The same after they were compressed: what the log holds without padding.
    pub log_stored_bytes: u64,
    /// Words of combined groups, each counted once in a group.
    pub log_combined_words: u64,
    /// Bytes sent to the log, padding included.
    pub log_bytes: u64,
    /// Bytes of the log that were only filled or skipped.
    pub padding_bytes: u64,
    /// How often the log was gone round.
    pub log_laps: f64,
    /// Bytes sent home.
    pub home_bytes: u64,
    /// Writes sent to the device, log and home.
    pub device_writes: u64,
    /// Persist barriers, log, home and superblock.
    pub persist_barriers: u64,
    /// How often a worker had to wait for room in its ring.
    pub ring_full_waits: u64,
    /// `snapshot`: grace periods that were timed, one commit in eight.
    pub grace_periods: u64,
    /// `snapshot`: how long those took, in cycles: from the end of a transaction until its worker
    /// knows that it may write home, or that it will not wait.
    pub grace_cycles: u64,
    /// Pages of a bounded shadow that were read from home.
    pub page_ins: u64,
    /// Pages of a bounded shadow that were forgotten.
    pub evictions: u64,
    /// Waits, for a page of a bounded shadow, until what was written to it is at home.
    pub page_waits: u64,
}

/// Time spent in one kind of step.
#[derive(Debug, Default)]
pub(crate) struct StepTime {
    ns: AtomicU64,
    helped_ns: AtomicU64,
}

impl StepTime {
    pub(crate) fn add(&self, started: &Started) {
        let ns = started.elapsed_ns();
        self.ns.fetch_add(ns, Ordering::Relaxed);
        if started.helped {
            self.helped_ns.fetch_add(ns, Ordering::Relaxed);
        }
    }

    pub(crate) fn ns(&self) -> u64 {
        self.ns.load(Ordering::Relaxed)
    }

    pub(crate) fn helped_ns(&self) -> u64 {
        self.helped_ns.load(Ordering::Relaxed)
    }
}

/// Counters of one pool. Relaxed throughout: they are only ever summed up and shown.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    pub(crate) persist: StepTime,
    pub(crate) reproduce: StepTime,
    pub(crate) ring_full_waits: AtomicU64,
    payload_bytes: AtomicU64,
    combined_bytes: AtomicU64,
    stored_bytes: AtomicU64,
}

impl Meter {
    /// Transactions were gathered, in so many bytes.
    pub(crate) fn gathered(&self, bytes: u64) {
        self.payload_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A group got its place: its bytes after combination, and as they are stored.
    pub(crate) fn placed(&self, combined: u64, stored: u64) {
        self.combined_bytes.fetch_add(combined, Ordering::Relaxed);
        self.stored_bytes.fetch_add(stored, Ordering::Relaxed);
    }

    /// Bytes gathered, combined, stored.
    pub(crate) fn log_bytes(&self) -> [u64; 3] {
        let all = [&self.payload_bytes, &self.combined_bytes, &self.stored_bytes];
        all.map(|bytes| bytes.load(Ordering::Relaxed))
    }
}

/// Who runs a step and on which clock its time is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepTimer {
    /// The step may sleep in the kernel: its time is the thread's CPU clock. Otherwise the cycle
    /// counter: a system call each time would cost as much as a short step itself.
    pub(crate) blocks: bool,
    /// A worker runs it, not a background thread.
    pub(crate) helped: bool,
}

/// A step under way.
#[derive(Debug)]
pub(crate) struct Started {
    at: u64,
    blocks: bool,
    helped: bool,
}

impl StepTimer {
    pub(crate) fn start(self) -> Started {
        let at = if self.blocks { medium::cpu::thread_cpu_ns() } else { medium::cpu::cycles() };
        Started { at, blocks: self.blocks, helped: self.helped }
    }
}

impl Started {
    fn elapsed_ns(&self) -> u64 {
        if self.blocks {
            return medium::cpu::thread_cpu_ns().saturating_sub(self.at);
        }
        let cycles = medium::cpu::cycles().saturating_sub(self.at);
        (u128::from(cycles) * 1_000_000_000 / u128::from(medium::cpu::cycles_per_second())) as u64
    }
}
