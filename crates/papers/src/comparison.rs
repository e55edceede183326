//! Measurements of foreign systems, from a report of the workspace `comparison`. This program links
//! none of them.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::error::Error;
use crate::machine::{self, Machine};
use crate::statistics::OverRounds;

/// The output of `comparison durable --format json`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Comparison {
    conditions: Conditions,
    rows: Vec<Row>,
}

#[derive(Clone, Debug, Deserialize)]
struct Conditions {
    cpu: String,
    cores: usize,
    commit: String,
    rounds: u64,
    seed: u64,
}

#[derive(Clone, Debug, Deserialize)]
struct Row {
    work: String,
    system: String,
    by_libpmemobj: OverRounds,
}

impl Comparison {
    /// Reads a report.
    ///
    /// # Errors
    /// The file cannot be read, or it is no such report.
    pub(super) fn read(path: &Path) -> Result<Comparison, Error> {
        let text = fs::read_to_string(path).map_err(Error::file("reading", path))?;
        serde_json::from_str(&text).map_err(|error| {
            let (path, problem) = (path.to_owned(), error.to_string());
            Error::NotComparison { path, problem }
        })
    }

    /// Returns the rate of a system by that of libpmemobj on a workload.
    pub(super) fn by_libpmemobj(&self, work: &str, system: &str) -> Option<OverRounds> {
        let row = self.rows.iter().find(|row| row.work == work && row.system == system)?;
        Some(row.by_libpmemobj)
    }

    /// Returns the rounds and the seed of the report.
    pub(super) fn rounds_and_seed(&self) -> (u64, u64) {
        (self.conditions.rounds, self.conditions.seed)
    }

    /// Returns why the report does not apply to this program on this machine, if it does not.
    pub(super) fn foreign(&self) -> Option<String> {
        let (machine, ours) = (Machine::this(), machine::commit().unwrap_or("unknown"));
        let Conditions { cpu, cores, commit, .. } = &self.conditions;
        let is_ours = (cpu, *cores, commit.as_str()) == (&machine.cpu, machine.cores, ours);
        (!is_ours).then(|| {
            format!(
                "the report of --comparison was measured on {cpu}, {cores} cores, at commit \
                 {commit}: run `comparison durable` on this machine and commit"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparison_report_is_read_and_other_json_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("comparison.json");
        let text = r#"{"conditions": {"cpu": "a CPU", "cores": 2, "commit": "1f", "rounds": 3,
            "seed": 1, "compilers": "cc"}, "rows": [{"work": "hash", "system": "decoupled",
            "transactions": 1, "by_libpmemobj": {"median": 4.3, "min": 4.0, "max": 5.0}}]}"#;
        fs::write(&path, text).unwrap();
        let comparison = Comparison::read(&path).unwrap();
        let found = comparison.by_libpmemobj("hash", "decoupled").unwrap();
        assert_eq!((found.median, found.min, found.max), (4.3, 4.0, 5.0));
        assert!(comparison.by_libpmemobj("tatp", "decoupled").is_none());
        assert_eq!(comparison.rounds_and_seed(), (3, 1));
        assert!(comparison.foreign().unwrap().contains("a CPU, 2 cores, at commit 1f"));
        fs::write(&path, "hello").unwrap();
        assert!(Comparison::read(&path).unwrap_err().to_string().contains("comparison durable"));
    }
}
