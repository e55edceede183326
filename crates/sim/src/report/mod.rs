//! The result of a simulation: the JSON object that is printed for it.
//!
//! The field names are the JSON keys, on which scripts depend. Counters cover the measured
//! transactions, without the warm-up.
//!
//! Invariants:
//! - Equal machines, designs, workloads and seeds give equal objects, except for `host_seconds`.
//! - `cycles_per_transaction.total` is a core's time from the start of a transaction to the start
//!   of the next. Its other parts add up to at most that, and the remainder is the body itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::machine::controller::{CLASSES, Class, Counts};
use crate::machine::description::Description;
use crate::machine::when::Time;

/// The result of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The workload's name.
    pub workload: String,
    /// The design's name.
    pub design: String,
    /// The machine's name and hash; `description` has the numbers that are hashed.
    pub machine: Machine,
    /// Cores that ran transactions.
    pub cores: usize,
    /// The seed of the clients.
    pub seed: u64,
    /// Measured transactions of all cores.
    pub transactions: u64,
    /// Cycles of the measurement.
    pub cycles: u64,
    /// Average cycles of a core per transaction.
    pub cycles_per_transaction: CyclesPerTransaction,
    /// Lines read by the arrays of persistent memory.
    pub nvm_reads: u64,
    /// Lines written by the arrays of persistent memory.
    pub nvm_writes: NvmWrites,
    /// Lines read by the arrays of volatile memory.
    pub dram_reads: u64,
    /// Lines written by the arrays of volatile memory.
    pub dram_writes: u64,
    /// The requests of each channel, those of persistent memory first.
    #[serde(default)]
    pub channels: Vec<Channel>,
    /// Misses of the caches.
    #[serde(default)]
    pub caches: Caches,
    /// Distinct lines written by a transaction.
    pub lines_per_transaction: Spread,
    /// Distinct pages written by a transaction.
    pub pages_per_transaction: Spread,
    /// Transactions that fell back to software because the design could not hold them. Under `lad`:
    /// lines logged by a full controller. Under `lad-llc`: older versions that had to be evicted
    /// first.
    pub fallbacks: u64,
    /// Counters that only this design has, by its names; absent if there are none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub design_counts: BTreeMap<String, u64>,
    /// Unwritten lines at both ends of the measurement.
    pub backlog: Backlog,
    /// The backlog changed so little that the counters are meaningful; otherwise longer runs have
    /// other averages.
    pub steady: bool,
    /// Simulated memory accesses, including those before the measurement.
    pub simulated_accesses: u64,
    /// Duration on the host. It is 0 and absent from the JSON where it is not reported, so that
    /// equal simulations have equal output.
    #[serde(default, skip_serializing_if = "is_unreported")]
    pub host_seconds: f64,
    /// The number of power cuts; absent without such a request, as the next three.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_cuts: Option<u64>,
    /// Cuts after which data were present that must be absent, or absent that must be present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub violations: Option<u64>,
    /// Uses of each rare path of the design in the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rare_paths_taken: Option<BTreeMap<String, u64>>,
    /// Cuts inside of each rare path of the design.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rare_paths_cut: Option<BTreeMap<String, u64>>,
    /// The workload's check passed, and every copy of a line had the program's value; absent
    /// without such a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked: Option<bool>,
    /// Writes by an open transaction to a line of another open one; absent if not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation_hits: Option<u64>,
    /// The hash of the final heap and of persistent memory; absent where nothing is checked,
    /// because no copy of memory is kept then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_hash: Option<String>,
    /// Every number of the machine.
    pub description: Description,
    /// The findings of the check, as text.
    #[serde(skip)]
    pub complaints: Vec<String>,
}

fn is_unreported(seconds: &f64) -> bool {
    *seconds == 0.0
}

/// The identity of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The name.
    pub name: String,
    /// [`Description::hash`].
    pub hash: String,
}

impl Machine {
    /// Returns the identity of this machine.
    pub fn of(description: &Description) -> Machine {
        Machine { name: description.name.clone(), hash: description.hash() }
    }
}

/// Lines not yet in persistent memory: modified in caches, queued, in flight, or kept by the
/// design.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backlog {
    /// At the start of the measurement.
    pub begin: u64,
    /// At its end.
    pub end: u64,
}

/// Average cycles of a core per transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CyclesPerTransaction {
    /// All cycles.
    pub total: f64,
    /// Until the body can start.
    pub begin: f64,
    /// Waits for a log within the body. For logs in hardware, this is the time for which the store
    /// buffer was blocked by them, whatever the core did meanwhile.
    pub log_stall: f64,
    /// From the end of the body until everything is durable that must precede the commit.
    pub prepare: f64,
    /// From then until the transaction is committed.
    pub commit: f64,
    /// Of failed attempts.
    pub abort: f64,
    /// Waits for locks of other cores.
    pub locks: f64,
}

/// Lines written to persistent memory, by purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvmWrites {
    /// Lines of the program.
    pub data: u64,
    /// Records of a log.
    pub log_data: u64,
    /// Metadata that identifies the records.
    pub log_meta: u64,
    /// Commit records.
    pub commit_record: u64,
    /// A metadata journal.
    pub journal: u64,
    /// Copies that consolidate a page's lines.
    pub consolidation: u64,
    /// Metadata that the journal need not keep after this write.
    pub checkpoint: u64,
    /// Old values of lines, from a controller without room for the new ones.
    pub undo_fallback: u64,
    /// Any other purpose.
    pub other: u64,
}

impl NvmWrites {
    /// Converts counters by class.
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

    /// Returns the sum over all classes.
    pub fn total(&self) -> u64 {
        self.by_class().iter().map(|(_, lines)| lines).sum()
    }

    /// Returns the lines of each class with its JSON key.
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

/// The requests of a memory channel, in the array's accesses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Channel {
    /// `nvm` or `dram`.
    pub memory: String,
    /// Lines that the array read.
    pub reads: u64,
    /// Reads that the queue of writes served.
    pub forwarded: u64,
    /// Lines that the array wrote.
    pub writes: u64,
    /// Accesses that found their row open.
    pub row_hits: u64,
    /// Rows opened for an access; a write that keeps its bank opens none.
    pub activations: u64,
    /// Refreshes of a rank.
    pub refreshes: u64,
    /// Share of the time for which the channel transferred lines.
    pub busy: f64,
    /// The queue of writes.
    pub queue: Queue,
    /// Lines that each bank read.
    pub bank_reads: Vec<u64>,
    /// Lines that each bank wrote.
    pub bank_writes: Vec<u64>,
}

/// Returns the report of all channels over these cycles.
pub(crate) fn channels(description: &Description, counts: &[Counts], cycles: Time) -> Vec<Channel> {
    let channels = counts.iter().enumerate().map(|(at, counts)| {
        let is_nvm = at < description.nvm.channels as usize;
        let memory = description.dram.as_ref().filter(|_| !is_nvm).unwrap_or(&description.nvm);
        let mean = |sum: u64| if cycles == 0 { 0.0 } else { sum as f64 / cycles as f64 };
        let burst = description.cycles(memory.burst_ns).max(1);
        let queue = &counts.queue;
        Channel {
            memory: if is_nvm { "nvm" } else { "dram" }.to_owned(),
            reads: counts.reads,
            forwarded: counts.forwarded,
            writes: counts.writes,
            row_hits: counts.row_hits,
            activations: counts.activations,
            refreshes: counts.refreshes,
            busy: mean(burst * (counts.reads + counts.writes)),
            queue: Queue {
                mean: mean(queue.slot_cycles),
                most: queue.most,
                waiting: mean(queue.outside_cycles),
                waited: queue.waited,
                merged: queue.merged,
                draining: mean(queue.draining_cycles),
            },
            bank_reads: counts.banks.iter().map(|bank| bank.reads).collect(),
            bank_writes: counts.banks.iter().map(|bank| bank.writes).collect(),
        }
    });
    channels.collect()
}

/// The queue of writes of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    /// Mean number of occupied slots.
    pub mean: f64,
    /// The largest number of them.
    pub most: u64,
    /// Mean number of writes that waited for a slot.
    pub waiting: f64,
    /// Writes that found no slot when they arrived.
    pub waited: u64,
    /// Writes that replaced another one in its slot.
    pub merged: u64,
    /// Share of the time for which the queue was so full that writes preceded reads.
    pub draining: f64,
}

/// Misses of the caches, of all cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caches {
    /// Misses of the first private caches.
    pub l1_misses: u64,
    /// Misses of the last-level cache.
    pub llc_misses: u64,
    /// Lines transferred from another core.
    pub transfers: u64,
}

/// An average and a maximum over transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The average.
    pub mean: f64,
    /// The maximum.
    pub max: u64,
}

impl Spread {
    /// Returns the spread over `count` transactions, or zeros for none.
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
            channels: vec![Channel { memory: "nvm".into(), reads: 5, ..Channel::default() }],
            caches: Caches { l1_misses: 9, llc_misses: 5, transfers: 1 },
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
            complaints: vec!["a complaint".into()],
        }
    }

    /// Returns the sorted keys of an object, nested ones included.
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
    fn json_keys_match_golden_file() {
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
    fn outcome_round_trips_without_host_seconds() {
        let outcome = Outcome { host_seconds: 0.0, complaints: vec![], ..outcome() };
        let json = serde_json::to_string(&outcome).expect("it has plain keys");
        assert!(!json.contains("host_seconds"));
        let again: Outcome = serde_json::from_str(&json).expect("it is an outcome");
        assert_eq!(again, outcome);
    }

    #[test]
    fn json_description_is_the_simulated_machine() {
        let outcome = outcome();
        let json = serde_json::to_value(&outcome).expect("it has plain keys");
        let again: Description =
            serde_json::from_value(json["description"].clone()).expect("it is a machine");
        assert_eq!(again, outcome.description);
        assert_eq!(json["machine"]["hash"], Value::String(again.hash()));
    }

    #[test]
    fn write_classes_have_distinct_counts_and_keys() {
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
    fn spread_of_no_transactions_is_zero() {
        assert_eq!(Spread::of(0, 0, 0), Spread { mean: 0.0, max: 0 });
        assert_eq!(Spread::of(7, 2, 5), Spread { mean: 3.5, max: 5 });
    }
}
