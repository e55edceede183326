//! Description of the machine under measurement, and resource use of this process.

use papers::machine::value;
pub(crate) use papers::machine::{Machine, commit};
use rustix::time::{ClockId, clock_gettime};

/// Returns the CPU time of all threads of this process, in nanoseconds.
pub(crate) fn process_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the peak memory of this process in bytes; `None` where the system does not report it.
pub(crate) fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib: u64 = value(&status, "VmHWM")?.strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_uses_memory_and_time() {
        assert!(peak_rss_bytes().unwrap() > 100_000);
        let before = process_cpu_ns();
        while process_cpu_ns() == before {}
    }
}
