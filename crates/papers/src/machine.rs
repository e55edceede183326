//! The machine and the build that a measurement was taken on.

use serde::Serialize;

/// The machine, as every output names it.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor's model.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
}

impl Machine {
    /// Returns the machine that this process runs on.
    pub fn this() -> Machine {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = value(&cpuinfo, "model name").unwrap_or("unknown").to_owned();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Machine { cpu, cores }
    }
}

/// Returns the commit that this program was built from, if known.
pub fn commit() -> Option<&'static str> {
    option_env!("LASTWORD_COMMIT").filter(|commit| !commit.is_empty())
}

/// Returns the value of the first line `key : value`, as in files of /proc.
pub fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == key).then_some(value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_has_cores() {
        assert!(Machine::this().cores > 0);
    }

    #[test]
    fn value_is_found_by_its_key() {
        assert_eq!(value("a: 1\nmodel name\t: X Y\n", "model name"), Some("X Y"));
        assert_eq!(value("a: 1", "b"), None);
    }
}
