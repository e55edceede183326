//! What a simulation has found: the one object that is printed for it.
//!
//! The names of the fields are the keys of the JSON; others script against them. Counts are those
//! of the measured transactions, without what was run before to warm up.
//!
//! Invariants:
//! - Equal machines, designs, workloads and seeds give equal objects but for `host_seconds`.
//! - `cycles_per_transaction.total` is a core's time from a transaction's beginning to the next
//!   one's; its other parts add up to at most that, and what they leave is the body itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::machine::controller::{CLASSES, Class};
use crate::machine::description::Description;

/// What a simulation has found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The workload's name.
    pub workload: String,
    /// The design's name.
    pub design: String,
    /// The machine's name and hash; what is behind the hash is in `description`.
    pub machine: Machine,
    /// Cores that ran transactions.
    pub cores: usize,
    /// Of the clients.
    pub seed: u64,
    /// Transactions that were measured, of all cores.
    pub transactions: u64,
    /// From the beginning of the measurement to its end.
    pub cycles: u64,
    /// What a transaction takes of its core.
    pub cycles_per_transaction: CyclesPerTransaction,
    /// Lines that the arrays of persistent memory read.
    pub nvm_reads: u64,
    /// Lines that they wrote.
    pub nvm_writes: NvmWrites,
    /// Lines that the arrays of volatile memory read, and wrote.
    pub dram_reads: u64,
    /// See `dram_reads`.
    pub dram_writes: u64,
    /// Lines that a transaction wrote, each counted once.
    pub lines_per_transaction: Spread,
    /// Pages that it wrote, likewise.
    pub pages_per_transaction: Spread,
    /// Transactions that the design could not hold and that ran another way; under `lad`, lines
    /// that a full controller logged, and under `lad-llc` older versions that had to leave first.
    pub fallbacks: u64,
    /// What only this design counts, by its names for it; absent when there is nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub design_counts: BTreeMap<String, u64>,
    /// What was left to be written.
    pub backlog: Backlog,
    /// Whether that grew or shrank by so little that the counts mean something; else longer runs
    /// have others.
    pub steady: bool,
    /// Accesses to memory that were simulated, those before the measurement too.
    pub simulated_accesses: u64,
    /// How long that took here; 0, and absent from the JSON, where that is not told: then equal
    /// simulations differ in nothing.
    #[serde(default, skip_serializing_if = "is_untold")]
    pub host_seconds: f64,
    /// How often power was cut; absent when nobody asked, as the next three.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_cuts: Option<u64>,
    /// After how many of these cuts something was there that must not be, or was not that must.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub violations: Option<u64>,
    /// How often the run took each path that the design takes rarely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rare_paths_taken: Option<BTreeMap<String, u64>>,
    /// How many of the cuts lay inside of each path that the design takes rarely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rare_paths_cut: Option<BTreeMap<String, u64>>,
    /// Whether the data held what the workload says, and every copy of a line what the program had
    /// written; absent when nobody asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked: Option<bool>,
    /// How often an open transaction has written a line that another one had written; absent when
    /// nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation_hits: Option<u64>,
    /// The hash of what is in the heap at the end, and in persistent memory; absent when no copy of
    /// that is kept: where nothing is checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_hash: Option<String>,
    /// Every number of the machine.
    pub description: Description,
    /// What the check has found, for people.
    #[serde(skip)]
    pub complaints: Vec<String>,
}

fn is_untold(seconds: &f64) -> bool {
    *seconds == 0.0
}

/// Which machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// [`Description::hash`].
    pub hash: String,
}

impl Machine {
    /// This one.
    pub fn of(description: &Description) -> Machine {
        Machine { name: description.name.clone(), hash: description.hash() }
    }
}

/// Lines that are not in persistent memory yet: modified in caches, queued, on their way, or kept
/// by the design.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backlog {
    /// When the measurement began.
    pub begin: u64,
    /// When it ended.
    pub end: u64,
}

/// Cycles of a core for each transaction, on average.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CyclesPerTransaction {
    /// All of them.
    pub total: f64,
    /// Until the body could start.
    pub begin: f64,
    /// Waiting for a log: within the body; or, of logs that hardware writes, as long as its store
    /// buffer stood still for them, whatever the core did meanwhile.
    pub log_stall: f64,
    /// From the body's end until what must be durable before the commit is.
    pub prepare: f64,
    /// From there until the transaction is committed.
    pub commit: f64,
    /// Of attempts in vain.
    pub abort: f64,
    /// Waiting for locks that other cores had.
    pub locks: f64,
}

/// Lines written to persistent memory, by what they are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvmWrites {
    /// Lines of the program.
    pub data: u64,
    /// Records of a log.
    pub log_data: u64,
    /// Which records they are.
    pub log_meta: u64,
    /// That a transaction is committed.
    pub commit_record: u64,
    /// A journal of metadata.
    pub journal: u64,
    /// Copies that bring a page's lines together.
    pub consolidation: u64,
    /// Metadata that a journal need not keep any longer.
    pub checkpoint: u64,
    /// What lines were, from a controller that has no room for what they become.
    pub undo_fallback: u64,
    /// Anything else.
    pub other: u64,
}

impl NvmWrites {
    /// What was counted by class.
    pub fn of(counted: &[u64; CLASSES]) -> NvmWrites {
        let of = |class: Class| counted[class as usize];
        NvmWrites {
            data: of(Class::Data),
            log_data: of(Class::LogData),
            log_meta: of(Class::LogMeta),
            commit_record: of(Class::CommitRecord),
            journal: of(Class::Journal),
            consolidation: of(Class::Consolidation),
            checkpoint: of(Class::Checkpoint),
            undo_fallback: of(Class::UndoFallback),
            other: of(Class::Other),
        }
    }

    /// Of all classes.
    pub fn total(&self) -> u64 {
        self.by_class().iter().map(|(_, lines)| lines).sum()
    }

    /// The lines of each class, under its name in the JSON.
    pub fn by_class(&self) -> [(&'static str, u64); 9] {
        [
            ("data", self.data),
            ("log_data", self.log_data),
            ("log_meta", self.log_meta),
            ("commit_record", self.commit_record),
            ("journal", self.journal),
            ("consolidation", self.consolidation),
            ("checkpoint", self.checkpoint),
            ("undo_fallback", self.undo_fallback),
            ("other", self.other),
        ]
    }
}

/// How much of something transactions had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// On average.
    pub mean: f64,
    /// At most.
    pub max: u64,
}

impl Spread {
    /// Of `count` transactions that had so much in all, and at most so much each; none of none.
    pub fn of(sum: u64, count: u64, max: u64) -> Spread {
        let mean = if count == 0 { 0.0 } else { sum as f64 / count as f64 };
        Spread { mean, max }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn outcome() -> Outcome {
        let description = Description::builtin("lad").expect("it is built in");
        Outcome {
            workload: "tatp".into(),
            design: "volatile".into(),
            machine: Machine::of(&description),
            cores: 15,
            seed: 1,
            transactions: 1000,
            cycles: 22_733,
            cycles_per_transaction: CyclesPerTransaction { total: 341.0, ..Default::default() },
            nvm_reads: 5,
            nvm_writes: NvmWrites::default(),
            dram_reads: 0,
            dram_writes: 0,
            lines_per_transaction: Spread::of(1000, 1000, 1),
            pages_per_transaction: Spread::of(0, 0, 0),
            fallbacks: 0,
            design_counts: BTreeMap::new(),
            backlog: Backlog { begin: 20, end: 21 },
            steady: true,
            simulated_accesses: 12_345,
            host_seconds: 0.5,
            power_cuts: None,
            violations: None,
            rare_paths_taken: None,
            rare_paths_cut: None,
            checked: None,
            isolation_hits: None,
            image_hash: None,
            description,
            complaints: vec!["for people".into()],
        }
    }

    /// The keys of an object with those of the objects in it, in their order in the text.
    fn keys(json: &Value) -> Vec<String> {
        let mut all = Vec::new();
        for (key, value) in json.as_object().expect("it is an object") {
            all.push(key.clone());
            if value.is_object() && key != "description" {
                all.extend(keys(value).iter().map(|inner| format!("{key}.{inner}")));
            }
        }
        all.sort();
        all
    }

    #[test]
    fn the_keys_of_the_json_are_those_that_others_script_against() {
        let json = serde_json::to_value(outcome()).expect("it has plain keys");
        let golden = include_str!("keys.golden");
        assert_eq!(keys(&json).join("\n"), golden.trim_end());
        let checked = Outcome {
            checked: Some(true),
            isolation_hits: Some(0),
            image_hash: Some("0123456789abcdef".into()),
            ..outcome()
        };
        let json = serde_json::to_value(checked).expect("it has plain keys");
        assert_eq!(keys(&json).len(), golden.lines().count() + 3);
        assert_eq!((&json["checked"], &json["isolation_hits"]), (&true.into(), &0.into()));
        assert_eq!(json["image_hash"], "0123456789abcdef");
        let cut = Outcome {
            power_cuts: Some(1000),
            violations: Some(0),
            rare_paths_taken: Some([("overflow".into(), 9)].into()),
            rare_paths_cut: Some([("overflow".into(), 3)].into()),
            ..outcome()
        };
        let json = serde_json::to_value(cut).expect("it has plain keys");
        assert_eq!((&json["power_cuts"], &json["violations"]), (&1000.into(), &0.into()));
        let (taken, cut) = (&json["rare_paths_taken"], &json["rare_paths_cut"]);
        assert_eq!((&taken["overflow"], &cut["overflow"]), (&9.into(), &3.into()));
        let counted = Outcome { design_counts: [("merges".into(), 7)].into(), ..outcome() };
        let json = serde_json::to_value(counted).expect("it has plain keys");
        assert_eq!(json["design_counts"]["merges"], 7);
    }

    #[test]
    fn an_outcome_is_read_back_as_it_was_and_need_not_tell_its_time() {
        let outcome = Outcome { host_seconds: 0.0, complaints: vec![], ..outcome() };
        let json = serde_json::to_string(&outcome).expect("it has plain keys");
        assert!(!json.contains("host_seconds"));
        let again: Outcome = serde_json::from_str(&json).expect("it is an outcome");
        assert_eq!(again, outcome);
    }

    #[test]
    fn the_description_in_the_json_is_the_machine_that_was_simulated() {
        let outcome = outcome();
        let json = serde_json::to_value(&outcome).expect("it has plain keys");
        let again: Description =
            serde_json::from_value(json["description"].clone()).expect("it is a machine");
        assert_eq!(again, outcome.description);
        assert_eq!(json["machine"]["hash"], Value::String(again.hash()));
    }

    #[test]
    fn every_class_of_write_has_its_own_count_under_its_name() {
        let classes = [
            Class::Data,
            Class::LogData,
            Class::LogMeta,
            Class::CommitRecord,
            Class::Journal,
            Class::Consolidation,
            Class::Checkpoint,
            Class::UndoFallback,
            Class::Other,
        ];
        let mut counted = [0; CLASSES];
        for (times, class) in (1..).zip(classes) {
            counted[class as usize] = times;
        }
        let writes = NvmWrites::of(&counted);
        assert_eq!(writes.by_class().map(|(_, lines)| lines), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(writes.total(), 45);
        let json = serde_json::to_value(writes).expect("it has plain keys");
        for (name, lines) in writes.by_class() {
            assert_eq!(json[name], Value::from(lines), "{name}");
        }
    }

    #[test]
    fn nothing_on_average_is_nothing() {
        assert_eq!(Spread::of(0, 0, 0), Spread { mean: 0.0, max: 0 });
        assert_eq!(Spread::of(7, 2, 5), Spread { mean: 3.5, max: 5 });
    }
}
