//! Targets: a paper's experiments as data, with its published values and the range that each row
//! must meet here.
//!
//! A file in `targets/` holds them, and the book's page of the paper is written from the same file
//! ([`page`](crate::page)). A target holds if the median is within its range, and nothing else
//! decides it.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::error::Error;

/// A paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Paper {
    pub(crate) paper: String,
    pub(crate) title: String,
    pub(crate) setup: String,
    pub(crate) experiment: Vec<Experiment>,
}

/// A table or figure of the paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Experiment {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) source: String,
    pub(crate) found: String,
    pub(crate) here: String,
    row: Vec<Template>,
}

/// Rows that differ in the values of `{...}` in their names.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Template {
    name: String,
    #[serde(default)]
    each: BTreeMap<String, Vec<String>>,
    what: String,
    unit: String,
    paper: Option<Each<String>>,
    at_least: Option<Each<f64>>,
    at_most: Option<Each<f64>>,
    missed: Option<Each<String>>,
}

/// One value for all rows of a template, or values by key. A key applies to the rows whose values
/// include all of its words.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Each<T> {
    All(T),
    Some(BTreeMap<String, T>),
}

impl<T: Clone> Each<T> {
    fn of(&self, row: &BTreeMap<&str, &str>) -> Option<T> {
        match self {
            Each::All(value) => Some(value.clone()),
            Each::Some(values) => {
                let is_of = |key: &str| key.split(' ').all(|word| row.values().any(|v| *v == word));
                values.iter().find(|(key, _)| is_of(key)).map(|(_, value)| value.clone())
            }
        }
    }
}

/// A row of the paper and its target.
#[derive(Clone, Debug)]
pub(crate) struct TargetRow {
    pub(crate) name: String,
    pub(crate) what: String,
    pub(crate) unit: String,
    pub(crate) paper: Option<String>,
    pub(crate) target: Target,
    /// Known reason why the target is missed.
    pub(crate) missed: Option<String>,
}

/// Range of a median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Target {
    at_least: Option<f64>,
    at_most: Option<f64>,
}

impl Target {
    /// Returns whether a value is within the range. Without bounds every finite number is.
    pub(crate) fn holds(self, value: f64) -> bool {
        value.is_finite()
            && self.at_least.is_none_or(|least| value >= least)
            && self.at_most.is_none_or(|most| value <= most)
    }

    /// Returns the range as in `>= 0.97`; `None` without bounds.
    pub(crate) fn text(self) -> Option<String> {
        match (self.at_least, self.at_most) {
            (Some(least), Some(most)) => Some(format!("{least} to {most}")),
            (Some(least), None) if least >= 1e6 => Some(format!(">= {} M", least / 1e6)),
            (Some(least), None) => Some(format!(">= {least}")),
            (None, Some(most)) => Some(format!("<= {most}")),
            (None, None) => None,
        }
    }
}

impl Paper {
    /// Returns the paper of a name.
    ///
    /// # Errors
    /// [`Failure::NoPaper`].
    pub(crate) fn by_name(name: &str) -> Result<Paper, Error> {
        let text = match name {
            "dudetm" => include_str!("../targets/dudetm.toml"),
            "pisces" => include_str!("../targets/pisces.toml"),
            "lad" => include_str!("../targets/lad.toml"),
            "redu" => include_str!("../targets/redu.toml"),
            "ssp" => include_str!("../targets/ssp.toml"),
            _ => return Err(Error::NoPaper { name: name.into() }),
        };
        Ok(toml::from_str(text).expect("a test reads every file of targets"))
    }
}

impl Experiment {
    /// Returns its rows in order.
    pub(crate) fn rows(&self) -> Vec<TargetRow> {
        self.row.iter().flat_map(Template::rows).collect()
    }
}

impl Template {
    fn rows(&self) -> Vec<TargetRow> {
        let mut combinations: Vec<BTreeMap<&str, &str>> = vec![BTreeMap::new()];
        for (variable, values) in &self.each {
            let before = std::mem::take(&mut combinations);
            for row in before {
                for value in values {
                    let mut row = row.clone();
                    row.insert(variable, value);
                    combinations.push(row);
                }
            }
        }
        combinations.iter().map(|row| self.row(row)).collect()
    }

    fn row(&self, row: &BTreeMap<&str, &str>) -> TargetRow {
        let fill = |text: &str| {
            row.iter().fold(text.to_owned(), |text, (variable, value)| {
                text.replace(&format!("{{{variable}}}"), value)
            })
        };
        let bound = |bound: &Option<Each<f64>>| bound.as_ref().and_then(|each| each.of(row));
        let text = |text: &Option<Each<String>>| text.as_ref().and_then(|each| each.of(row));
        TargetRow {
            name: fill(&self.name),
            what: fill(&self.what),
            unit: self.unit.clone(),
            paper: text(&self.paper),
            target: Target { at_least: bound(&self.at_least), at_most: bound(&self.at_most) },
            missed: text(&self.missed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn papers_parse_and_row_names_are_unique() {
        for name in crate::registry::NAMES {
            for experiment in &Paper::by_name(name).unwrap().experiment {
                let rows = experiment.rows();
                let mut names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
                assert!(rows.iter().all(|row| !row.name.contains('{') && !row.what.contains('{')));
                names.sort_unstable();
                names.dedup();
                assert_eq!(names.len(), rows.len(), "{name} {}", experiment.id);
            }
        }
        assert!(Paper::by_name("another").is_err());
    }

    #[test]
    fn key_applies_to_rows_with_all_of_its_words() {
        let paper = Paper::by_name("dudetm").unwrap();
        let of = |id: &str, name: &str| {
            let experiment = paper.experiment.iter().find(|experiment| experiment.id == id);
            experiment.unwrap().rows().into_iter().find(|row| row.name == name).unwrap()
        };
        assert_eq!(of("D5", "p50/decoupled").paper.as_deref(), Some("45"));
        assert_eq!(of("D5", "p50/decoupled-sync").paper.as_deref(), Some("18"));
        assert_eq!(of("D1", "added/btree").target.text().as_deref(), Some("<= 150"));
        assert_eq!(of("D1", "added/tpcc-hash").target.text(), None);
        assert_eq!(of("D6", "saved/10").target.text().as_deref(), Some("3 to 15"));
    }

    /// A second copy of the targets, so that no change to the file loosens one unnoticed.
    #[test]
    fn dudetm_targets_are_unchanged() {
        const SIX: [&str; 6] =
            ["hashtable", "tatp-hash", "btree", "tatp-btree", "tpcc-hash", "tpcc-btree"];
        let mut expected: Vec<(&str, String, &str)> = Vec::new();
        let mut add = |id, names: Vec<String>, target| {
            expected.extend(names.into_iter().map(|name| (id, name, target)));
        };
        let of_six = |name: &str| SIX.map(|w| name.replace('*', w)).to_vec();
        let named = |name: &str| vec![name.to_owned()];
        add("D1", named("added/hashtable"), "<= 40");
        add("D1", named("added/tatp-hash"), "<= 35");
        add("D1", named("added/btree"), "<= 150");
        add("D1", of_six("background-by-foreground/*"), "<= 0.5");
        add("D2", of_six("inf/*/16"), ">= 0.97");
        add("D2", of_six("inf/*/1"), ">= 0.9");
        for row in ["undo/*", "redo/*", "sync-undo/*", "sync-redo/*"] {
            add("D4", of_six(row), ">= 1");
        }
        add("D4", named("libpmemobj/hashtable"), ">= 2.5");
        add("D4", named("libpmemobj/tatp-hash"), ">= 2.1");
        for of in ["hashtable", "tatp-hash"] {
            add("D4", named(&format!("undo-libpmemobj/{of}")), ">= 2");
            add("D4", named(&format!("redo-libpmemobj/{of}")), ">= 1.5");
        }
        for gbps in [1, 2, 4, 16] {
            add("D5", named(&format!("p50-by-sync/{gbps}")), "<= 2.5");
        }
        add("D6", named("saved/10"), "3 to 15");
        add("D6", named("saved/100000"), ">= 85");
        for group in [10, 100, 1000, 10_000, 100_000] {
            add("D6", named(&format!("stored/{group}")), "<= 31");
        }
        add("D8", named("decoupled/own"), ">= 1.3");
        add("D8", named("decoupled-16/own"), ">= 1.3");
        add("D10", named("empty/decoupled"), ">= 30 M");
        sample::assert_targets("dudetm", &expected);
    }

    #[test]
    fn pisces_targets_are_unchanged() {
        let mut expected: Vec<(&str, String, &str)> = Vec::new();
        let mut add = |id, name: String, target| expected.push((id, name, target));
        for crew in ["one", "two"] {
            for updates in [0, 2] {
                for workload in ["chains", "chains-sparse"] {
                    add("P1", format!("ratio/{workload}/{updates}/{crew}"), ">= 1");
                }
            }
            add("P3", format!("aborts/snapshot/{crew}"), "<= 0");
        }
        for workload in ["chains", "btree-16"] {
            add("P7", format!("mvcc/{workload}"), ">= 1");
            add("P7", format!("decoupled/{workload}"), ">= 1");
            add("P7", format!("plain/{workload}"), "<= 1.25");
        }
        for workload in ["list", "chains", "btree-16"] {
            for ns in [100, 200, 300, 400, 500, 600] {
                add("P8", format!("latency/{workload}/{ns}"), "0.9 to 1.1");
            }
            for gbps in [1, 2, 4, 8] {
                add("P8", format!("bandwidth/{workload}/{gbps}"), "0.9 to 1.1");
            }
        }
        sample::assert_targets("pisces", &expected);
    }

    #[test]
    fn lad_targets_are_unchanged() {
        const SIX: [&str; 6] = ["tatp-hash", "rbt", "cq", "pc", "sps", "tpcc-rows"];
        const DESIGNS: [&str; 4] = ["lad-llc", "lad-base", "lad", "sw-undo"];
        let mut expected: Vec<(&str, String, &str)> = Vec::new();
        let mut add = |id, of: &str, names: &[&str], targets: &[&'static str]| {
            let target = |at: usize| targets[at % targets.len()];
            let named = names.iter().enumerate();
            expected.extend(named.map(|(at, name)| (id, of.replace('*', name), target(at))));
        };
        let one = ["0.78 to 0.93", "0.7 to 0.86", "0.72 to 0.88", "0.42 to 0.68"];
        let two = ["0.76 to 0.91", "0.64 to 0.8", "0.69 to 0.85", "0.34 to 0.6"];
        let each = ["0.55 to 0.85", "0.4 to 0.7", "0.64 to 0.94", "0.72 to 1.02"];
        add("L1", "mean/*", &DESIGNS, &one);
        add("L1", "order/*", &["lad-llc", "lad", "lad-base"], &[">= 1"]);
        add("L2", "mean/*", &DESIGNS, &two);
        add("L2", "base-loses-most", &[""], &[">= 0"]);
        add("L3", "one/*", &["mean", "tatp-hash"], &["0 to 5", "3 to 12"]);
        add("L3", "two/*", &["mean", "tatp-hash"], &["3 to 10", "7 to 20"]);
        add("L4", "ratio/*", &SIX[..4], &each);
        add("L4", "ratio/*", &SIX[4..], &["0.78 to 1.08", "0.84 to 1.14"]);
        add("L5", "prepare/*", &SIX[..3], &["75.6 to 151.2", "60.2 to 120.4", "81.9 to 163.8"]);
        add("L5", "prepare/*", &SIX[3..], &["110.6 to 221.2", "115.5 to 231", "63.7 to 127.4"]);
        add("L5", "by-commit/*", &SIX, &[">= 1"]);
        add("L6", "commit/*", &SIX, &["28 to 60"]);
        add("L7", "order/*", &["tatp-hash", "cq", "pc", "sps", "tpcc-rows"], &[">= 1"]);
        add("L8", "bound/*", &SIX, &["<= 8"]);
        add("L9", "software-by-volatile", &[""], &["2.3 to 4.5"]);
        add("L9", "lad-more-by-lines", &[""], &["0 to 1.1"]);
        add("L9", "*", &["lad-writes-by-lines", "llc-by-volatile"], &["0.95 to 1.05"]);
        add("L10", "fallbacks/64/*", &SIX, &["<= 0"]);
        add("L10", "slower/lad/*", &["mean", "tpcc-rows", "cq"], &["<= 6", "<= 3", "3 to 18"]);
        add("L10", "slower/order", &[""], &[">= 0"]);
        add("L10", "more-writes/*", &["cq", "tpcc-rows"], &["5 to 25"]);
        add("L11", "*", &["ratio/cq", "ratio/tpcc-rows"], &["<= 0.45", ">= 0.9"]);
        add("L11", "cq-by-others", &[""], &["<= 1"]);
        add("L12", "shift/*", &DESIGNS, &["-0.08 to 0.08"]);
        add("L13", "lost", &[""], &["32 to 58"]);
        for (row, target) in sample::TARGETS_OF_CUTS {
            add("C1", row, &DESIGNS, &[target]);
        }
        add("C1", "rare/*", &DESIGNS[..3], &[">= 1"]);
        add("C3", "isolation/*", &DESIGNS, &["<= 0"]);
        add("C4", "equal", &[""], &[">= 100"]);
        sample::assert_targets("lad", &expected);
    }

    #[test]
    fn target_holds_within_its_bounds() {
        let target = Target { at_least: Some(3.0), at_most: Some(15.0) };
        assert!(
            target.holds(3.0) && target.holds(15.0) && !target.holds(2.9) && !target.holds(15.1)
        );
        let none = Target { at_least: None, at_most: None };
        assert!(none.holds(-1.0) && !none.holds(f64::NAN));
        assert!(!Target { at_least: Some(1.0), at_most: None }.holds(f64::NAN));
    }
}
