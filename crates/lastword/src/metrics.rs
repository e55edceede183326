//! Counts and costs of a pool's work.
//!
//! Benchmarks and `lastword run` print these.

use crate::sync::{AtomicU64, Ordering};

/// Counts and times of a pool since it was opened.
///
/// CPU times are sums over threads. The persist and reproduce steps are counted in whichever thread
/// ran them: a background thread, or a worker that waited.
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
    /// The same after they were compressed: the bytes in the log without padding.
    pub log_stored_bytes: u64,
    /// Words of combined groups, each counted once in a group.
    pub log_combined_words: u64,
    /// Bytes sent to the log, padding included.
    pub log_bytes: u64,
    /// Bytes of the log that were padded or skipped.
    pub padding_bytes: u64,
    /// Number of log wraps.
    pub log_wraps: f64,
    /// Bytes written to the heap image.
    pub heap_image_bytes: u64,
    /// Writes sent to the device, for log and heap image.
    pub device_writes: u64,
    /// Persist barriers of log, heap image and superblock.
    pub persist_barriers: u64,
    /// Number of times that a worker waited for room in its ring.
    pub ring_full_waits: u64,
    /// `snapshot`: grace periods that were timed, one commit in eight.
    pub grace_periods: u64,
    /// `snapshot`: duration of those, in cycles: from the end of a transaction until its worker
    /// knows that it may apply its writes to the heap image, or that it will not wait.
    pub grace_cycles: u64,
    /// Pages of a bounded shadow that were read from the heap image.
    pub page_ins: u64,
    /// Pages of a bounded shadow that were evicted.
    pub evictions: u64,
    /// Waits until the writes to a page of a bounded shadow were reproduced.
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

/// Counters of one pool. Relaxed throughout: they are only summed and shown.
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
    /// Counts gathered transactions.
    pub(crate) fn gathered(&self, bytes: u64) {
        self.payload_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a placed group: its bytes after combination, and as stored.
    pub(crate) fn placed(&self, combined: u64, stored: u64) {
        self.combined_bytes.fetch_add(combined, Ordering::Relaxed);
        self.stored_bytes.fetch_add(stored, Ordering::Relaxed);
    }

    /// Returns the bytes gathered, combined and stored.
    pub(crate) fn log_bytes(&self) -> [u64; 3] {
        let all = [&self.payload_bytes, &self.combined_bytes, &self.stored_bytes];
        all.map(|bytes| bytes.load(Ordering::Relaxed))
    }
}

/// The thread that runs a step, and the clock that measures it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepTimer {
    /// Whether the step may sleep in the kernel. If so, the thread's CPU clock measures it.
    /// Otherwise the cycle counter does: a system call each time would cost as much as a short step
    /// itself.
    pub(crate) blocks: bool,
    /// Whether a worker runs it, and not a background thread.
    pub(crate) helped: bool,
}

/// A measurement in progress.
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
