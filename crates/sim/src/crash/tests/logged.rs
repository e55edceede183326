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

/// And a log in which large ones have room.
const SLOW_AND_LARGE: &[&str] =
    &[SLOW_AND_WIDE[0], SLOW_AND_WIDE[1], "redu.dram_cache_bytes=32768", "log.bytes=131072"];

/// The same, and lines that wait there for their turn to go home.
const SLOW_AND_FEW: &[&str] =
    &[SLOW_AND_LARGE[0], SLOW_AND_LARGE[1], SLOW_AND_LARGE[2], SLOW_AND_LARGE[3], "log.window=2"];

/// Queues with batteries that are full, behind which more of the log waits than it has room for:
/// data could come before it.
const CROWDED: &[&str] = &["persist.point=\"accepted\"", SLOW[0], SLOW[1], "log.bytes=4096"];

pub(super) const ROWS: [Row; 13] = [
    Row { settings: SLOW_AND_WIDE, ..logged(Mutant::CommitBeforeMeta, "redu", "sps") },
    Row { settings: SLOW_AND_WIDE, ..logged(Mutant::AcknowledgeOwnRecord, "redu", "sps") },
    Row { settings: SLOW, ..logged(Mutant::AcknowledgeOwnRecord, "hw-undo-redo", "pc") },
    Row { settings: SHORT, ..logged(Mutant::LogReusedEarly, "redu", "sps") },
    Row { settings: SLOW, cuts: 1500, ..logged(Mutant::DataBeforeLog, "hw-undo", "tpcc-hash") },
    Row { settings: CROWDED, transactions: 200, ..logged(Mutant::HeldHasSlot, "hw-undo", "pc") },
    Row { settings: SLOW, ..logged(Mutant::CommitBeforeData, "hw-undo", "sps") },
    logged(Mutant::FwbOneScan, "hw-undo-redo", "sps"),
    Row { settings: SLOW, ..logged(Mutant::RetireYoungestFirst, "hw-redo", "cq") },
    Row { settings: SLOW_AND_WIDE, ..logged(Mutant::DramNotLookedUp, "hw-redo", "tpcc-hash") },
    Row { settings: SLOW_AND_LARGE, ..logged(Mutant::DramNotLookedUp, "redu", "tpcc-hash") },
    Row { settings: SLOW_AND_FEW, ..logged(Mutant::FilterTwice, "redu", "tpcc-hash") },
    Row { settings: LAZY, cuts: 1000, ..logged(Mutant::ReduTrimsEarly, "redu", "tpcc-hash") },
];

/// A run on the machine of the paper; its log is small, so that recovery has less to look at.
const fn paper(mutant: Mutant, design: &'static str, workload: &'static str) -> Row {
    let row = Row { machine: "redu", transactions: 100, ..logged(mutant, design, workload) };
    Row { settings: SLOW_AND_LARGE, cuts: 200, ..row }
}

/// A queue and a log that are full soon.
const FULL: &[&str] = &[SHORT[0], SHORT[1], SHORT[2], "mc.wq=8"];

/// Forced write-backs that come often, and a log that waits for them.
const OFTEN: &[&str] = &["hw-undo-redo.fwb_cycles=20000", "log.bytes=16384"];

/// Few lines on their way home at once, and a queue where they wait.
const NARROW: &[&str] = &[SLOW[0], SLOW[1], "log.bytes=32768", "log.window=8", "mc.wq=8"];

/// What leaves caches soon, and is asked for again while it is in DRAM.
const LEAVING: &[&str] = &[
    SLOW_AND_LARGE[0],
    SLOW_AND_LARGE[1],
    SLOW_AND_LARGE[2],
    SLOW_AND_LARGE[3],
    "l1.bytes=1024",
    "l2.bytes=2048",
    "llc.bytes=8192",
    "log.window=2",
    "redu.bloom_entries=32",
];

/// As [`LAZY`], with caches that lines of open transactions leave.
const LAZY_TOO: &[&str] = &[
    LAZY[0],
    LAZY[1],
    "log.bytes=65536",
    "log.buffer_lines=2",
    "log.window=32",
    "l1.bytes=1024",
    "l2.bytes=2048",
    "llc.bytes=8192",
    "mc.wq=8",
];

/// As [`CROWDED`] on the machine of the paper, where more cores write.
const CROWDED_TOO: &[&str] = &[CROWDED[0], CROWDED[1], CROWDED[2], "log.bytes=6144", "mc.wq=8"];

pub(super) const PAPER: [Row; 13] = [
    paper(Mutant::CommitBeforeMeta, "redu", "sps"),
    paper(Mutant::AcknowledgeOwnRecord, "redu", "sps"),
    paper(Mutant::AcknowledgeOwnRecord, "hw-undo-redo", "pc"),
    Row { settings: FULL, transactions: 300, ..paper(Mutant::LogReusedEarly, "redu", "sps") },
    Row { cuts: 500, ..paper(Mutant::DataBeforeLog, "hw-undo", "tpcc-hash") },
    Row {
        settings: CROWDED_TOO,
        cores: 4,
        transactions: 200,
        cuts: 400,
        ..paper(Mutant::HeldHasSlot, "hw-undo", "pc")
    },
    paper(Mutant::CommitBeforeData, "hw-undo", "sps"),
    Row { settings: OFTEN, transactions: 400, ..paper(Mutant::FwbOneScan, "hw-undo-redo", "sps") },
    Row { settings: NARROW, ..paper(Mutant::RetireYoungestFirst, "hw-redo", "cq") },
    Row { settings: LEAVING, ..paper(Mutant::DramNotLookedUp, "hw-redo", "tpcc-hash") },
    Row { settings: LEAVING, ..paper(Mutant::DramNotLookedUp, "redu", "tpcc-hash") },
    Row { settings: LEAVING, ..paper(Mutant::FilterTwice, "redu", "tpcc-hash") },
    Row {
        settings: LAZY_TOO,
        transactions: 400,
        cuts: 1000,
        ..paper(Mutant::ReduTrimsEarly, "redu", "tpcc-hash")
    },
];

#[test]
fn bugs_that_are_planted_into_logs_in_hardware_are_found_and_their_repaired_twins_have_none() {
    all_are_found(&ROWS);
}

#[test]
fn bugs_in_logs_in_hardware_are_found_on_the_machine_of_the_paper_too() {
    all_are_found(&PAPER);
}
