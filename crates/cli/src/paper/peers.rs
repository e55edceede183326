//! What foreign systems did, as the workspace `peers` has printed it. This program links none.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::failure::Failure;
use crate::machine::{self, Machine};
use crate::report::OverRounds;

/// The output of `peers durable --format json`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Peers {
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

impl Peers {
    /// Reads it.
    ///
    /// # Errors
    /// There is no such file, or it is something else.
    pub(super) fn read(path: &Path) -> Result<Peers, Failure> {
        let text = fs::read_to_string(path).map_err(Failure::file("reading", path))?;
        serde_json::from_str(&text).map_err(|error| {
            let (path, problem) = (path.to_owned(), error.to_string());
            Failure::NotPeers { path, problem }
        })
    }

    /// How many times libpmemobj's rate a system had at this work.
    pub(super) fn by_libpmemobj(&self, work: &str, system: &str) -> Option<OverRounds> {
        let row = self.rows.iter().find(|row| row.work == work && row.system == system)?;
        Some(row.by_libpmemobj)
    }

    /// Rounds that it has made, and its seed.
    pub(super) fn rounds_and_seed(&self) -> (u64, u64) {
        (self.conditions.rounds, self.conditions.seed)
    }

    /// Why it says nothing about this program on this machine, if it does not.
    pub(super) fn foreign(&self) -> Option<String> {
        let (machine, ours) = (Machine::this(), machine::commit().unwrap_or("unknown"));
        let Conditions { cpu, cores, commit, .. } = &self.conditions;
        let is_ours = (cpu, *cores, commit.as_str()) == (&machine.cpu, machine.cores, ours);
        (!is_ours).then(|| {
            format!(
                "what --peers names was measured on {cpu}, {cores} cores, at commit {commit}: run \
                 it here and now"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_peers_prints_is_understood_and_anything_else_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("peers.json");
        let text = r#"{"conditions": {"cpu": "a CPU", "cores": 2, "commit": "1f", "rounds": 3,
            "seed": 1, "compilers": "cc"}, "rows": [{"work": "hash", "system": "decoupled",
            "transactions": 1, "by_libpmemobj": {"median": 4.3, "min": 4.0, "max": 5.0}}]}"#;
        fs::write(&path, text).unwrap();
        let peers = Peers::read(&path).unwrap();
        let found = peers.by_libpmemobj("hash", "decoupled").unwrap();
        assert_eq!((found.median, found.min, found.max), (4.3, 4.0, 5.0));
        assert!(peers.by_libpmemobj("tatp", "decoupled").is_none());
        assert_eq!(peers.rounds_and_seed(), (3, 1));
        assert!(peers.foreign().unwrap().contains("a CPU, 2 cores, at commit 1f"));
        fs::write(&path, "hello").unwrap();
        assert!(Peers::read(&path).unwrap_err().to_string().contains("peers durable"));
    }
}
