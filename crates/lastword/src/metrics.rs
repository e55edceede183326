//! Counts and costs of a pool's work.
//!
//! Benchmarks and `lastword run` print these. The steps publish their counts in words of their own,
//! and a reader takes no lock of a step. A step may hold its lock while a device works for seconds,
//! and then a pool needs its metrics most.

use std::collections::VecDeque;
// The published counts are part of no protocol, so the models do not explore them.
use std::sync::atomic::AtomicU64 as Count;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use medium::Counts;

use crate::sync::{AtomicU64, Ordering};

/// Counts and times of a pool since it was opened.
///
/// CPU times are sums over threads. The persist and reproduce steps are counted in whichever thread
/// ran them: a background thread, or a worker that waited.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Metrics {
    /// CPU time of persist steps, in nanoseconds, without emulated delay. On memory an estimate:
    /// about one in 16 steps of workers is timed.
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
    /// Time that workers waited for room in their rings or in the log, or were slowed to leave room
    /// there, in nanoseconds. A wait is counted when it ends.
    pub room_wait_ns: u64,
    /// Bytes of the log that hold groups which are not yet in the heap image, at this moment.
    pub log_used_bytes: u64,
    /// Size of the log in bytes.
    pub log_capacity_bytes: u64,
    /// Bytes of durable writes that the required stream lacks, at this moment; 0 without a stream.
    /// See [`Options::max_lag`](crate::Options::max_lag).
    pub unreplicated_bytes: u64,
    /// Disk space of open views in bytes; see [`Options::view_bytes`](crate::Options::view_bytes).
    pub view_bytes: u64,
    /// Growths of the heap that failed: of the pool's thread, of a transaction that found the heap
    /// full, or on request. The thread reports its failures nowhere else.
    pub failed_growths: u64,
    /// `decoupled`: time since a step saw the oldest commit that is not durable, in nanoseconds. It
    /// is exact to a millisecond and a few percent. 0 if every commit is durable.
    pub undurable_ns: u64,
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
    /// Short steps of workers.
    short: Count,
}

/// Short steps of workers that are all timed. Later about one in 2^[`SAMPLED_BITS`] stands for as
/// many: a read of the cycle counter takes up to 20 ns, and the whole step 200.
const TIMED: u64 = 64;
const SAMPLED_BITS: u32 = 4;

/// Returns how many steps the one with this number stands for; `None`: another one stands for it.
/// By a hash, since what transactions cost may have a period.
fn weight(number: u64) -> Option<u64> {
    if number < TIMED {
        return Some(1);
    }
    let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> (64 - SAMPLED_BITS) == 0).then_some(1 << SAMPLED_BITS)
}

impl StepTime {
    /// Starts the time of a short step, or returns `None` if another step's time stands for it. The
    /// caller holds the lock of the step.
    pub(crate) fn start(&self, timer: StepTimer) -> Option<Started> {
        if timer.blocks || !timer.helped {
            return Some(timer.start());
        }
        let number = self.short.load(Ordering::Relaxed);
        self.short.store(number + 1, Ordering::Relaxed);
        weight(number).map(|weight| Started { weight, ..timer.start() })
    }

    pub(crate) fn add(&self, started: &Started) {
        let ns = started.elapsed_ns() * started.weight;
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
    pub(crate) undurable: Undurable,
    room_wait_ns: Count,
    log_head: Count,
    padding_bytes: Count,
    combined_words: Count,
    payload_bytes: Count,
    combined_bytes: Count,
    stored_bytes: Count,
}

/// Adds to a count that one thread at a time changes, without a locked instruction.
fn grow(count: &Count, by: u64) {
    count.store(count.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

impl Meter {
    /// Counts gathered transactions. The caller holds the lock of the step that sends.
    pub(crate) fn gathered(&self, bytes: u64) {
        grow(&self.payload_bytes, bytes);
    }

    /// Counts a placed group: its bytes after combination, and as stored. The caller holds the lock
    /// of the step that sends.
    pub(crate) fn placed(&self, combined: u64, stored: u64) {
        grow(&self.combined_bytes, combined);
        grow(&self.stored_bytes, stored);
    }

    /// Publishes the log's head, its padding, and the words of combined groups.
    pub(crate) fn log_grew(&self, head: u64, padding_bytes: u64, combined_words: u64) {
        self.log_head.store(head, Ordering::Relaxed);
        self.padding_bytes.store(padding_bytes, Ordering::Relaxed);
        self.combined_words.store(combined_words, Ordering::Relaxed);
    }

    /// Returns the log's head, its padding, and the words of combined groups.
    pub(crate) fn log(&self) -> [u64; 3] {
        let all = [&self.log_head, &self.padding_bytes, &self.combined_words];
        all.map(|count| count.load(Ordering::Relaxed))
    }

    /// Counts a worker's wait for room.
    pub(crate) fn waited(&self, time: Duration) {
        self.room_wait_ns.fetch_add(nanoseconds(time), Ordering::Relaxed);
    }

    /// Returns the time that workers waited for room.
    pub(crate) fn room_wait_ns(&self) -> u64 {
        self.room_wait_ns.load(Ordering::Relaxed)
    }

    /// Returns the bytes gathered, combined and stored.
    pub(crate) fn log_bytes(&self) -> [u64; 3] {
        let all = [&self.payload_bytes, &self.combined_bytes, &self.stored_bytes];
        all.map(|bytes| bytes.load(Ordering::Relaxed))
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The counts of a medium, published for readers without its lock.
#[derive(Debug, Default)]
pub(crate) struct PublishedCounts([Count; 4]);

impl PublishedCounts {
    pub(crate) fn of(counts: Counts) -> PublishedCounts {
        let published = PublishedCounts::default();
        published.publish(counts);
        published
    }

    /// Publishes the counts. The caller holds the medium's lock.
    pub(crate) fn publish(&self, counts: Counts) {
        let Counts { bytes, device_writes, persist_barriers, emulated_delay_ns } = counts;
        let all = [bytes, device_writes, persist_barriers, emulated_delay_ns];
        self.0.iter().zip(all).for_each(|(to, count)| to.store(count, Ordering::Relaxed));
    }

    /// Returns the counts as last published.
    pub(crate) fn read(&self) -> Counts {
        let [bytes, device_writes, persist_barriers, emulated_delay_ns] =
            self.0.each_ref().map(|count| count.load(Ordering::Relaxed));
        Counts { bytes, device_writes, persist_barriers, emulated_delay_ns }
    }
}

/// The times at which steps saw commits that are not durable. From them follows the age of the
/// oldest such commit: a worker takes no time stamp.
#[derive(Debug, Default)]
pub(crate) struct Undurable {
    /// Oldest first. The lock is held for a few instructions.
    seen: Mutex<VecDeque<Seen>>,
    /// Number of entries, to be read without the lock.
    count: Count,
}

/// The last commit at a time.
#[derive(Clone, Copy, Debug)]
struct Seen {
    id: u64,
    at: Instant,
}

/// Time between two entries.
const SEEN_EVERY: Duration = Duration::from_millis(1);

/// Most entries. Beyond, every other one is dropped, so the times of old commits are further apart:
/// an age of seconds is exact to a few percent.
const SEEN_MAX: usize = 1024;

impl Undurable {
    /// Notes that the last commit is `id`.
    pub(crate) fn saw(&self, id: u64) {
        self.saw_at(id, Instant::now());
    }

    fn saw_at(&self, id: u64, at: Instant) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_next = |last: &Seen| id > last.id && at - last.at >= SEEN_EVERY;
        if !seen.back().is_none_or(is_next) {
            return;
        }
        if seen.len() == SEEN_MAX {
            let mut number = 0;
            seen.retain(|_| {
                number += 1;
                number % 2 == 1 // the oldest stays
            });
        }
        seen.push_back(Seen { id, at });
        self.count.store(seen.len() as u64, Ordering::Relaxed);
    }

    /// Forgets the commits up to `id`, which are durable.
    pub(crate) fn durable(&self, id: u64) {
        // An entry that another thread adds meanwhile is forgotten by the next call.
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        while seen.pop_front_if(|first| first.id <= id).is_some() {}
        self.count.store(seen.len() as u64, Ordering::Relaxed);
    }

    /// Returns the age of the oldest commit up to `committed` that is not durable, in nanoseconds.
    pub(crate) fn age_ns(&self, committed: u64, durable: u64) -> u64 {
        self.durable(durable);
        if committed <= durable {
            return 0;
        }
        self.saw(committed);
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.front().map_or(0, |first| nanoseconds(first.at.elapsed()))
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
    /// Number of steps that its time stands for.
    weight: u64,
}

impl StepTimer {
    pub(crate) fn start(self) -> Started {
        let at = if self.blocks { medium::cpu::thread_cpu_ns() } else { medium::cpu::cycles() };
        Started { at, blocks: self.blocks, helped: self.helped, weight: 1 }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_undurable_commit_is_kept_through_thinning() {
        let (undurable, start) = (Undurable::default(), Instant::now());
        let at = |id: u64| start + id as u32 * SEEN_EVERY;
        for id in 1..=5000 {
            undurable.saw_at(id, at(id));
        }
        let first = |undurable: &Undurable| {
            let seen = undurable.seen.lock().unwrap();
            assert!(seen.len() <= SEEN_MAX && seen.back().is_some_and(|last| last.id > 4990));
            seen.front().map(|first| (first.id, first.at))
        };
        assert_eq!(first(&undurable), Some((1, at(1))));
        undurable.durable(2000);
        let next = first(&undurable).expect("later commits are not durable");
        assert!(next.0 > 2000 && next.0 < 2100 && next.1 == at(next.0), "{next:?}");
        assert_eq!(undurable.age_ns(5000, 5000), 0);
        assert!(undurable.seen.lock().unwrap().is_empty());
    }
}
