//! The machine that a measurement was taken on, and this process's use of it.

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// What every output names.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// The processor's model.
    pub(crate) cpu: String,
    /// Cores that this process may use.
    pub(crate) cores: usize,
}

impl Machine {
    pub(crate) fn this() -> Machine {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = value(&cpuinfo, "model name").unwrap_or("unknown").to_owned();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Machine { cpu, cores }
    }
}

/// The commit that this program was built from, where that was known.
pub(crate) fn commit() -> Option<&'static str> {
    option_env!("LASTWORD_COMMIT").filter(|commit| !commit.is_empty())
}

/// CPU time of all threads of this process, in nanoseconds.
pub(crate) fn process_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The most memory that this process has had, in bytes; `None` where the system does not say.
pub(crate) fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib: u64 = value(&status, "VmHWM")?.strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// The value of the first line `key : value`.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == key).then_some(value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_used_memory_and_time() {
        assert!(peak_rss_bytes().unwrap() > 100_000);
        let before = process_cpu_ns();
        while process_cpu_ns() == before {}
        assert!(Machine::this().cores > 0);
    }

    #[test]
    fn a_value_is_found_by_its_key() {
        assert_eq!(value("a: 1\nmodel name\t: X Y\n", "model name"), Some("X Y"));
        assert_eq!(value("a: 1", "b"), None);
    }
}
