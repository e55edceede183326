//! Bugs that are planted are found by cuts of power, and the same runs without them hold.

#[path = "../../tests/common/mod.rs"]
mod common;

use common::{setup, simulate};

use crate::mutants::{Mutant, plant};
use crate::{Error, Setup};

/// A bug, and the run that finds it.
struct Row {
    mutant: Mutant,
    design: &'static str,
    workload: &'static str,
    machine: &'static str,
    cores: usize,
    transactions: u64,
    cuts: u64,
    settings: &'static [&'static str],
    /// The bug may also keep the machine from going on.
    hangs: bool,
}

const fn row(mutant: Mutant, design: &'static str, workload: &'static str) -> Row {
    let (machine, cores, transactions, cuts) = ("tiny-lad", 2, 150, 1000);
    let (settings, hangs): (&[&str], bool) = (&[], false);
    Row { mutant, design, workload, machine, cores, transactions, cuts, settings, hangs }
}

/// A memory so slow that writes wait for each other.
const SLOW: &[&str] = &["nvm.write_ns=2000", "nvm.write_hit_ns=2000"];

/// Controllers without batteries.
const WEAK: &[&str] = &["persist.point=\"media\"", "nvm.write_ns=2000", "nvm.write_hit_ns=2000"];

/// A run on the machine of designs that log in hardware.
const fn logged(mutant: Mutant, design: &'static str, workload: &'static str) -> Row {
    Row { machine: "tiny-redu", cuts: 300, ..row(mutant, design, workload) }
}

/// A log that is full soon, and memory behind which things wait.
const SHORT: &[&str] = &["log.bytes=16384", "redu.dram_cache_bytes=16384", "nvm.write_ns=600"];

/// Lines stay in DRAM as long as there is room.
const LAZY: &[&str] = &["redu.dram_cache_bytes=16384", "redu.write_back=1"];

/// Such a memory, and places in DRAM for all lines of two transactions.
const SLOW_AND_WIDE: &[&str] =
    &["nvm.write_ns=2000", "nvm.write_hit_ns=2000", "redu.dram_cache_bytes=16384"];

const IN_HARDWARE: [Row; 12] = [
    Row { settings: SLOW_AND_WIDE, ..logged(Mutant::CommitBeforeMeta, "redu", "sps") },
    Row { settings: SLOW_AND_WIDE, ..logged(Mutant::AcknowledgeOwnRecord, "redu", "sps") },
    Row { settings: SLOW, ..logged(Mutant::AcknowledgeOwnRecord, "hw-undo-redo", "pc") },
    Row { settings: SHORT, ..logged(Mutant::LogReusedEarly, "redu", "sps") },
    Row { settings: SLOW, ..logged(Mutant::DataBeforeLog, "hw-undo", "tpcc-hash") },
    Row { settings: SLOW, ..logged(Mutant::CommitBeforeData, "hw-undo", "sps") },
    logged(Mutant::FwbOneScan, "hw-undo-redo", "sps"),
    Row { settings: SLOW, ..logged(Mutant::RetireYoungestFirst, "hw-redo", "cq") },
    Row { settings: SLOW_AND_WIDE, ..logged(Mutant::DramNotLookedUp, "hw-redo", "tpcc-hash") },
    Row { settings: SLOW_AND_WIDE, ..logged(Mutant::DramNotLookedUp, "redu", "tpcc-hash") },
    Row { settings: SLOW_AND_WIDE, ..logged(Mutant::FilterTwice, "redu", "tpcc-hash") },
    Row { settings: LAZY, cuts: 1000, ..logged(Mutant::ReduTrimsEarly, "redu", "tpcc-hash") },
];

const ROWS: [Row; 12] = [
    Row { settings: SLOW, ..row(Mutant::LinesOutOfOrder, "lad", "cq") },
    Row { hangs: true, ..row(Mutant::LadFlushLeavesDirty, "lad", "tpcc-hash") },
    // On a large mesh the nearest controller answers before the farthest one is asked.
    Row { machine: "lad", cores: 4, ..row(Mutant::LadOneController, "lad", "tatp-hash") },
    Row { transactions: 900, cuts: 1500, ..row(Mutant::LadEightBits, "lad", "sps") },
    row(Mutant::LadOldestFirst, "lad", "tpcc-hash"),
    Row { cuts: 4000, ..row(Mutant::LadClearsOldestFirst, "lad", "tpcc-hash") },
    row(Mutant::LadNoLog, "lad", "tpcc-hash"),
    row(Mutant::LadCommitEarly, "lad", "sps"),
    row(Mutant::LadRegisterLate, "lad", "tatp-hash"),
    Row { settings: &["llc.bytes=65536"], ..row(Mutant::LlcInPlace, "lad-llc", "cq") },
    Row { settings: WEAK, ..row(Mutant::UndoWithoutFence, "sw-undo", "sps") },
    Row { settings: WEAK, ..row(Mutant::UndoCommitFirst, "sw-undo", "sps") },
];

/// What cuts have found, and what the comparison of lines has.
fn violations(row: &Row) -> u64 {
    let Row { design, workload, machine, cores, transactions, cuts, settings, .. } = *row;
    let mut setup = Setup { power_cuts: cuts, ..setup(machine, design, cores, transactions) };
    settings.iter().for_each(|setting| setup.description.set(setting).unwrap());
    match simulate(workload, 0.02, &setup) {
        Ok(outcome) => outcome.violations.unwrap() + outcome.complaints.len() as u64,
        Err(Error::Deadlock { .. }) if row.hangs => 1,
        Err(error) => panic!("{error}"),
    }
}

fn all_are_found(rows: &[Row]) {
    let mut survived = Vec::new();
    for row in rows {
        assert_eq!(violations(row), 0, "{} without the bug", row.mutant.name());
        let planted = plant(row.mutant);
        let found = violations(row);
        drop(planted);
        println!("{}: {found} violations with {}", row.mutant.name(), row.design);
        if found == 0 {
            survived.push((row.mutant.name(), row.design));
        }
    }
    assert!(survived.is_empty(), "these survived: {survived:?}");
}

#[test]
fn every_planted_bug_is_found_by_cuts_and_its_repaired_twin_has_none() {
    all_are_found(&ROWS);
}

#[test]
fn bugs_that_are_planted_into_logs_in_hardware_are_found_and_their_repaired_twins_have_none() {
    all_are_found(&IN_HARDWARE);
}
