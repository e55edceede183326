//! Mutants of designs that log in hardware.

use super::{Row, SLOW, all_are_detected, row};
use crate::mutants::Mutant;

/// A row on the machine of the designs that log in hardware.
const fn logged(mutant: Mutant, design: &'static str, workload: &'static str) -> Row {
    Row { machine: "tiny-redu", cuts: 300, ..row(mutant, design, workload) }
}

/// A log that fills soon and a slow memory that makes writes queue. (Each undrained store may need
/// a log slot: a short store buffer leaves more of the core's share for other entries.)
const SHORT: &[&str] =
    &["log.bytes=20480", "redu.dram_cache_bytes=16384", "nvm.write_ns=600", "core.store_buffer=2"];

/// A log of old and new words in which forced write-back scans must free space.
const SCANNED: &[&str] = &["log.bytes=36864", "core.store_buffer=2"];

/// Lines stay in DRAM while it has room, and the log has room for large transactions.
const LAZY: &[&str] = &["redu.dram_cache_bytes=16384", "redu.write_back=1", "log.bytes=131072"];

/// A slow memory, and DRAM slots for all lines of two transactions.
const SLOW_AND_WIDE: &[&str] =
    &["nvm.write_ns=2000", "nvm.write_hit_ns=2000", "redu.dram_cache_bytes=16384"];

/// A slow memory, a log with room for large transactions, and a cache that evicts soon.
const SLOW_AND_LONG: &[&str] =
    &[SLOW_AND_WIDE[0], SLOW_AND_WIDE[1], "log.bytes=131072", "llc.bytes=4096"];

/// A slow memory, a large log, and DRAM slots for large transactions.
const SLOW_AND_LARGE: &[&str] =
    &[SLOW_AND_WIDE[0], SLOW_AND_WIDE[1], "redu.dram_cache_bytes=32768", "log.bytes=131072"];

/// The same, with a small window, so that lines wait in DRAM to be written to the heap image.
const SLOW_AND_FEW: &[&str] =
    &[SLOW_AND_LARGE[0], SLOW_AND_LARGE[1], SLOW_AND_LARGE[2], SLOW_AND_LARGE[3], "log.window=2"];

/// A log whose share most of TPC-C's transactions exceed.
const SMALLER: &[&str] = &["log.bytes=16384"];

/// A log whose share some of them exceed, and caches that evict lines before that.
const SMALL: &[&str] = &["log.bytes=32768", "l2.bytes=1024", "llc.bytes=2048"];

/// The same, with a victim buffer that can hold such lines for a while.
const SMALL_AND_WIDE: &[&str] = &[SMALL[0], SMALL[1], SMALL[2], "redu.dram_cache_bytes=65536"];

/// Few transaction identifiers, which are reused while the log is far from full, and entries that
/// leave their buffer before the transaction ends.
const NAMES: &[&str] = &[
    SLOW_AND_WIDE[0],
    SLOW_AND_WIDE[1],
    SLOW_AND_WIDE[2],
    "log.bytes=131072",
    "log.names=8",
    "log.buffer_lines=2",
    "core.store_buffer=8",
];

pub(super) const ROWS: [Row; 23] = [
    Row { settings: NAMES, ..logged(Mutant::NameReusedEarly, "redu", "sps") },
    Row { settings: NAMES, ..logged(Mutant::NameReusedEarly, "hw-undo-redo", "sps") },
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
    Row { settings: SCANNED, ..logged(Mutant::FwbOneScan, "hw-undo-redo", "sps") },
    Row { settings: SLOW, ..logged(Mutant::RetireYoungestFirst, "hw-redo", "cq") },
    Row { settings: SLOW_AND_LARGE, ..logged(Mutant::DramNotLookedUp, "hw-redo", "tpcc-hash") },
    Row { settings: SLOW_AND_LARGE, ..logged(Mutant::DramNotLookedUp, "redu", "tpcc-hash") },
    Row { settings: SLOW_AND_FEW, ..logged(Mutant::FilterTwice, "redu", "tpcc-hash") },
    Row { settings: LAZY, cuts: 1000, ..logged(Mutant::ReduTrimsEarly, "redu", "tpcc-btree") },
    Row { settings: SMALL, ..logged(Mutant::AttemptStays, "hw-undo", "tpcc-hash") },
    Row { settings: SMALLER, ..logged(Mutant::AttemptStays, "hw-undo-redo", "tpcc-hash") },
    Row {
        settings: SMALL_AND_WIDE,
        transactions: 50,
        ..logged(Mutant::VictimsStay, "hw-redo", "tpcc-hash")
    },
    Row { settings: SLOW_AND_WIDE, ..logged(Mutant::WrapsRepeat, "redu", "sps") },
    Row { settings: SLOW_AND_WIDE, ..logged(Mutant::WrapsRepeat, "hw-undo", "sps") },
    Row { settings: SLOW_AND_WIDE, ..logged(Mutant::LogBeginsAnew, "hw-undo", "sps") },
    Row { settings: SLOW_AND_WIDE, ..logged(Mutant::LogBeginsAnew, "hw-redo", "sps") },
    Row { settings: SLOW_AND_WIDE, ..logged(Mutant::LogBeginsAnew, "hw-undo-redo", "sps") },
    Row { settings: SLOW_AND_WIDE, ..logged(Mutant::LogBeginsAnew, "redu", "sps") },
];

/// A row on the paper's machine. The small log keeps recovery fast.
const fn paper(mutant: Mutant, design: &'static str, workload: &'static str) -> Row {
    let row = Row { machine: "redu", transactions: 100, ..logged(mutant, design, workload) };
    Row { settings: SLOW_AND_LARGE, cuts: 200, ..row }
}

/// A queue and a log that fill soon.
const FULL: &[&str] = &[SHORT[0], SHORT[1], SHORT[2], SHORT[3], "mc.wq=8"];

/// Frequent forced write-backs, and a log that waits for them.
const OFTEN: &[&str] = &["hw-undo-redo.fwb_cycles=20000", SCANNED[0], SCANNED[1]];

/// A small window of write-backs, and a queue in which they wait.
const NARROW: &[&str] = &[SLOW[0], SLOW[1], "log.bytes=32768", "log.window=8", "mc.wq=8"];

/// Caches that evict lines soon, which are requested again while they are in DRAM.
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

/// As [`LAZY`], with caches that evict lines of open transactions.
const LAZY_TOO: &[&str] = &[
    LAZY[0],
    LAZY[1],
    LAZY[2],
    "log.buffer_lines=2",
    "log.window=32",
    "l1.bytes=1024",
    "l2.bytes=2048",
    "llc.bytes=8192",
    "mc.wq=8",
];

/// As [`SMALL`] and [`SMALL_AND_WIDE`], with small first-level caches. The log is larger and the
/// store buffer is the tiny machine's, because undrained stores need log slots.
const SMALL_TOO: &[&str] =
    &["log.bytes=49152", "core.store_buffer=8", "l1.bytes=1024", "l2.bytes=2048", "llc.bytes=8192"];
const SMALL_AND_WIDE_TOO: &[&str] = &[
    SMALL_TOO[0],
    SMALL_TOO[1],
    SMALL_TOO[2],
    SMALL_TOO[3],
    SMALL_TOO[4],
    "redu.dram_cache_bytes=65536",
];

pub(super) const PAPER: [Row; 23] = [
    Row { settings: NAMES, cuts: 500, ..paper(Mutant::NameReusedEarly, "redu", "sps") },
    Row { settings: NAMES, cuts: 500, ..paper(Mutant::NameReusedEarly, "hw-undo-redo", "sps") },
    paper(Mutant::CommitBeforeMeta, "redu", "sps"),
    paper(Mutant::AcknowledgeOwnRecord, "redu", "sps"),
    paper(Mutant::AcknowledgeOwnRecord, "hw-undo-redo", "pc"),
    Row { settings: FULL, transactions: 300, ..paper(Mutant::LogReusedEarly, "redu", "sps") },
    Row { cuts: 500, ..paper(Mutant::DataBeforeLog, "hw-undo", "tpcc-hash") },
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
        ..paper(Mutant::ReduTrimsEarly, "redu", "tpcc-btree")
    },
    Row { settings: SMALL_TOO, ..paper(Mutant::AttemptStays, "hw-undo", "tpcc-hash") },
    Row { settings: SMALL_TOO, ..paper(Mutant::AttemptStays, "hw-undo-redo", "tpcc-hash") },
    Row { settings: SMALL_AND_WIDE_TOO, ..paper(Mutant::VictimsStay, "hw-redo", "tpcc-hash") },
    paper(Mutant::WrapsRepeat, "redu", "sps"),
    paper(Mutant::WrapsRepeat, "hw-undo", "sps"),
    paper(Mutant::LogBeginsAnew, "hw-undo", "sps"),
    paper(Mutant::LogBeginsAnew, "hw-redo", "sps"),
    paper(Mutant::LogBeginsAnew, "hw-undo-redo", "sps"),
    paper(Mutant::LogBeginsAnew, "redu", "sps"),
];

#[test]
fn every_hardware_log_mutant_is_detected_on_the_tiny_machine() {
    all_are_detected(&ROWS);
}

#[test]
fn every_hardware_log_mutant_is_detected_on_the_papers_machine() {
    all_are_detected(&PAPER);
}
