//! What foreign systems did, as the workspace `peers` has printed it. This program links none.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::failure::Failure;

/// The output of `peers durable --format json`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Peers {
    rows: Vec<Row>,
}

#[derive(Clone, Debug, Deserialize)]
struct Row {
    work: String,
    system: String,
    by_libpmemobj: Figure,
}

#[derive(Clone, Debug, Deserialize)]
struct Figure {
    median: f64,
    min: f64,
    max: f64,
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

    /// How many times libpmemobj's rate a system had at this work: least, median, greatest.
    pub(super) fn by_libpmemobj(&self, work: &str, system: &str) -> Option<Vec<f64>> {
        let row = self.rows.iter().find(|row| row.work == work && row.system == system)?;
        let Figure { median, min, max } = row.by_libpmemobj;
        Some(vec![min, median, max])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_peers_prints_is_understood_and_anything_else_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("peers.json");
        let text = r#"{"conditions": {}, "rows": [{"work": "hash", "system": "decoupled",
            "transactions": 1, "by_libpmemobj": {"median": 4.3, "min": 4.0, "max": 5.0}}]}"#;
        fs::write(&path, text).unwrap();
        let peers = Peers::read(&path).unwrap();
        assert_eq!(peers.by_libpmemobj("hash", "decoupled"), Some(vec![4.0, 4.3, 5.0]));
        assert_eq!(peers.by_libpmemobj("tatp", "decoupled"), None);
        fs::write(&path, "hello").unwrap();
        assert!(Peers::read(&path).unwrap_err().to_string().contains("peers durable"));
    }
}
