//! Emulated persistent memory: latency and bandwidth, spun on the cycle counter.
//!
//! Each persist barrier waits as long as the device would take: max(latency, bytes / bandwidth).
//! The bandwidth is one budget for all threads, shared by the heap image and the log (DudeTM,
//! section 5.1).

use crate::cpu;
use crate::sync::{Arc, AtomicU64, Ordering, spin_loop};

/// When less is left to wait, the wait goes without pauses, which last 140 cycles on some
/// processors and would round it up.
const PAUSE_CYCLES: u64 = 500;

/// The device that is emulated: how long it takes, and until when it is busy.
///
/// ```
/// use medium::{Emulation, cpu};
///
/// let device = Emulation::new(1000, 16_000_000_000); // DudeTM: 1000 cycles, 16 GB/s
/// let start = cpu::cycles();
/// let waited = device.wait(4096);
/// assert!(waited >= 1000 && cpu::cycles() - start >= waited);
/// ```
#[derive(Debug)]
pub struct Emulation {
    latency_cycles: u64,
    /// 0 for unlimited.
    bandwidth_bytes_per_second: u64,
    cycles_per_second: u64,
    /// Cycle count at which the device has done everything it was given.
    free_at: AtomicU64,
}

impl Emulation {
    /// A device that takes `latency_cycles` cycles for a barrier, and writes no more than
    /// `bandwidth_bytes_per_second` for all threads together; 0 means any number.
    pub fn new(latency_cycles: u64, bandwidth_bytes_per_second: u64) -> Arc<Emulation> {
        Arc::new(Emulation {
            latency_cycles,
            bandwidth_bytes_per_second,
            cycles_per_second: cpu::cycles_per_second(),
            free_at: AtomicU64::new(0),
        })
    }

    /// Latency of a barrier in cycles.
    pub fn latency_cycles(&self) -> u64 {
        self.latency_cycles
    }

    /// Bandwidth in bytes per second; 0 means unlimited.
    pub fn bandwidth_bytes_per_second(&self) -> u64 {
        self.bandwidth_bytes_per_second
    }

    /// Spins as long as a barrier after `bytes` bytes takes; returns the cycles spun.
    pub fn wait(&self, bytes: u64) -> u64 {
        // On some machines a read of the cycle counter takes 20 ns, a tenth of a short commit.
        if self.latency_cycles == 0 && self.bandwidth_bytes_per_second == 0 {
            return 0;
        }
        let start = cpu::cycles();
        let end = start.saturating_add(self.latency_cycles).max(self.reserve(start, bytes));
        loop {
            let cycles = cpu::cycles();
            if cycles >= end {
                return cycles - start;
            }
            if end - cycles > PAUSE_CYCLES {
                spin_loop();
            }
        }
    }

    /// Reserves the device's time for `bytes` bytes after earlier reservations; returns the cycle
    /// at which the transfer ends.
    fn reserve(&self, now: u64, bytes: u64) -> u64 {
        if self.bandwidth_bytes_per_second == 0 || bytes == 0 {
            return 0;
        }
        let cycles = u128::from(bytes) * u128::from(self.cycles_per_second)
            / u128::from(self.bandwidth_bytes_per_second);
        let cycles = u64::try_from(cycles).unwrap_or(u64::MAX);
        let done = |free_at: u64| free_at.max(now).saturating_add(cycles);
        // Relaxed: only the time itself is shared; each addition sees the one before.
        let before = self
            .free_at
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free_at| Some(done(free_at)))
            .expect("the update always has a value");
        done(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn barrier_takes_the_longer_of_latency_and_bytes() {
        let per_second = cpu::cycles_per_second();
        for (latency, bandwidth, bytes, least) in [
            (0, 0, 1 << 40, 0),
            (5_000, 0, 1 << 40, 5_000),
            (5_000, 1_000_000_000, 64, 5_000),
            (5_000, 1_000_000_000, 1_000_000, per_second / 1000),
        ] {
            let device = Emulation::new(latency, bandwidth);
            let start = cpu::cycles();
            let waited = device.wait(bytes);
            assert!(waited >= least, "{waited} < {least}");
            assert!(cpu::cycles() - start >= waited);
        }
    }

    #[test]
    fn the_bandwidth_is_one_budget() {
        let device = Emulation::new(0, 1_000_000_000);
        let (now, cycles_of) =
            (1_000_000, |bytes| bytes * device.cycles_per_second / 1_000_000_000);
        assert_eq!(device.reserve(now, 64_000), now + cycles_of(64_000));
        assert_eq!(device.reserve(now + 1, 64_000), now + 2 * cycles_of(64_000));
        assert_eq!(device.reserve(now, 0), 0);
        let late = now + 100 * cycles_of(64_000);
        assert_eq!(device.reserve(late, 64_000), late + cycles_of(64_000));
    }

    #[test]
    fn threads_share_the_bandwidth() {
        let device = Emulation::new(0, 1_000_000_000);
        let start = cpu::cycles();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..10).map(|_| device.wait(50_000)).sum::<u64>());
            }
        });
        // A million bytes at 1 GB/s: at least a millisecond for the last thread.
        assert!(device.free_at.load(Ordering::Relaxed) - start >= device.cycles_per_second / 1001);
    }
}
