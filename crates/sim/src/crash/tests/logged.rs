//! Bugs in designs that log in hardware.

use super::{Row, SLOW, all_are_found, row};
use crate::mutants::Mutant;

/// A run on the machine of designs that log in hardware.
const fn logged(mutant: Mutant, design: &'static str, workload: &'static str) -> Row {
    Row { machine: "tiny-redu", cuts: 300, ..row(mutant, design, workload) }
}

/// A log that is full soon, and memory behind which things wait.
const SHORT: &[&str] = &["log.bytes=20480", "redu.dram_cache_bytes=16384", "nvm.write_ns=600"];

/// Lines stay in DRAM as long as there is room, and its log has room for large transactions.
const LAZY: &[&str] = &["redu.dram_cache_bytes=16384", "redu.write_back=1", "log.bytes=131072"];

/// Such a memory, and places in DRAM for all lines of two transactions.
const SLOW_AND_WIDE: &[&str] =
    &["nvm.write_ns=2000", "nvm.write_hit_ns=2000", "redu.dram_cache_bytes=16384"];

/// Such a memory, a log in which large ones have room, and a cache that lines leave soon.
const SLOW_AND_LONG: &[&str] =
    &[SLOW_AND_WIDE[0], SLOW_AND_WIDE[1], "log.bytes=131072", "llc.bytes=4096"];

/// All of these.
const SLOW_AND_LARGE: &[&str] =
    &[SLOW_AND_WIDE[0], SLOW_AND_WIDE[1], "redu.dram_cache_bytes=32768", "log.bytes=131072"];

/// The same, and lines that wait there for their turn to go home.
const SLOW_AND_FEW: &[&str] =
    &[SLOW_AND_LARGE[0], SLOW_AND_LARGE[1], SLOW_AND_LARGE[2], SLOW_AND_LARGE[3], "log.window=2"];

/// A log of which a share is used up by some of TPC-C's transactions, and caches that lines leave
/// before; one that is used up by most.
const SMALL: &[&str] = &["log.bytes=32768", "l2.bytes=1024", "llc.bytes=2048"];
const SMALLER: &[&str] = &["log.bytes=16384"];

/// The same, and a victim buffer that has room for what stays in it for a while.
const SMALL_AND_WIDE: &[&str] = &[SMALL[0], SMALL[1], SMALL[2], "redu.dram_cache_bytes=65536"];

const ROWS: [Row; 15] = [
    Row { settings: SLOW_AND_WIDE, ..logged(Mutant::CommitBeforeMeta, "redu", "sps") },
    Row { settings: SLOW_AND_WIDE, ..logged(Mutant::AcknowledgeOwnRecord, "redu", "sps") },
    Row { settings: SLOW, ..logged(Mutant::AcknowledgeOwnRecord, "hw-undo-redo", "pc") },
    Row { settings: SHORT, ..logged(Mutant::LogReusedEarly, "redu", "sps") },
    Row {
        settings: SLOW_AND_LONG,
        cuts: 1500,
        ..logged(Mutant::DataBeforeLog, "hw-undo", "tpcc-hash")
    },
    Row { settings: SLOW, ..logged(Mutant::CommitBeforeData, "hw-undo", "sps") },
    logged(Mutant::FwbOneScan, "hw-undo-redo", "sps"),
    Row { settings: SLOW, ..logged(Mutant::RetireYoungestFirst, "hw-redo", "cq") },
    Row { settings: SLOW_AND_LARGE, ..logged(Mutant::DramNotLookedUp, "hw-redo", "tpcc-hash") },
    Row { settings: SLOW_AND_LARGE, ..logged(Mutant::DramNotLookedUp, "redu", "tpcc-hash") },
    Row { settings: SLOW_AND_FEW, ..logged(Mutant::FilterTwice, "redu", "tpcc-hash") },
    Row { settings: LAZY, cuts: 1000, ..logged(Mutant::ReduTrimsEarly, "redu", "tpcc-hash") },
    Row { settings: SMALL, ..logged(Mutant::AttemptStays, "hw-undo", "tpcc-hash") },
    Row { settings: SMALLER, ..logged(Mutant::AttemptStays, "hw-undo-redo", "tpcc-hash") },
    Row {
        settings: SMALL_AND_WIDE,
        transactions: 50,
        ..logged(Mutant::VictimsStay, "hw-redo", "tpcc-hash")
    },
];

#[test]
fn bugs_that_are_planted_into_logs_in_hardware_are_found_and_their_repaired_twins_have_none() {
    all_are_found(&ROWS);
}
