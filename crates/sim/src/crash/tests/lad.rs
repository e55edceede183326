//! Mutants of `lad` and of the designs that it is compared with.

use super::{Row, SLOW, WEAK, all_are_detected, row};
use crate::mutants::Mutant;

/// Short queues, which are often full.
const SHORT_QUEUE: &[&str] = &["mc.wq=8"];

/// Short queues, and suspensions so frequent that threads rewrite flushed lines.
const TWICE: &[&str] = &["mc.wq=8", "design.lad.suspend_cycles=3000"];

/// Suspensions of the same frequency, with the machine's queues.
const SUSPENDED: &[&str] = &["design.lad.suspend_cycles=3000"];

/// Memory of few banks that keep a write until they have it, and channels without a hash, so that a
/// queue overflows.
const KEPT: &[&str] = &["nvm.write_keeps_bank=true", "nvm.channel_hash=false", "nvm.banks=4"];

/// A path to the farthest controller that is longer than the round trip to the nearest.
const FAR: &[&str] = &["network.hop=40"];

/// A direct-mapped last-level cache, without a way for an older version.
const NARROW: &[&str] = &["llc.bytes=131072", "llc.ways=1"];

/// A last-level cache of few lines, which transactions overflow.
const LEAVING: &[&str] = &["llc.bytes=65536"];

/// Caches so small that lines are evicted before their flush, and queues that hold them all.
const SMALL: &[&str] = &["l1.bytes=1024", "l1.ways=2", "llc.bytes=16384", "mc.wq=256"];

pub(super) const ROWS: [Row; 20] = [
    Row { settings: SLOW, ..row(Mutant::LinesOutOfOrder, "lad", "cq") },
    Row { hangs: true, ..row(Mutant::LadFlushLeavesDirty, "lad", "tpcc-hash") },
    Row { transactions: 900, cuts: 1500, ..row(Mutant::LadEightBits, "lad", "sps") },
    Row { settings: FAR, ..row(Mutant::LadOneController, "lad", "tatp-hash") },
    Row { settings: KEPT, ..row(Mutant::LadOldestFirst, "lad", "tpcc-hash") },
    Row { settings: KEPT, cuts: 4000, ..row(Mutant::LadClearsOldestFirst, "lad", "tpcc-hash") },
    row(Mutant::LadNoLog, "lad", "tpcc-hash"),
    row(Mutant::LadSealFirst, "lad", "tpcc-hash"),
    row(Mutant::LadCommitEarly, "lad", "sps"),
    row(Mutant::LadRegisterLate, "lad", "tatp-hash"),
    row(Mutant::LadSuspendedUnmarks, "lad", "sps"),
    row(Mutant::LadKeepsSeals, "lad", "tpcc-hash"),
    row(Mutant::LadKeepsSaved, "lad", "sps"),
    row(Mutant::LadForgetsNumbers, "lad", "sps"),
    Row { settings: LEAVING, ..row(Mutant::LadForgetsNumbers, "lad-llc", "sps") },
    Row { settings: LEAVING, cuts: 500, ..row(Mutant::LlcOneBank, "lad-llc", "sps") },
    Row { settings: LEAVING, ..row(Mutant::LlcInPlace, "lad-llc", "cq") },
    Row { settings: NARROW, ..row(Mutant::LlcNoWait, "lad-llc", "rbt") },
    Row { settings: WEAK, ..row(Mutant::UndoWithoutFence, "sw-undo", "sps") },
    Row { settings: WEAK, ..row(Mutant::UndoCommitFirst, "sw-undo", "sps") },
];

/// The same on the paper's machine. Its mesh is so large that the nearest controller replies before
/// the request reaches the farthest one.
pub(super) const PAPER: [Row; 20] = [
    Row { settings: SLOW, cores: 2, ..paper(Mutant::LinesOutOfOrder, "lad", "cq") },
    Row { settings: SMALL, ..paper(Mutant::LadFlushLeavesDirty, "lad", "tpcc-hash") },
    Row {
        settings: SLOW,
        cores: 2,
        transactions: 1800,
        cuts: 1000,
        ..paper(Mutant::LadEightBits, "lad", "sps")
    },
    paper(Mutant::LadOneController, "lad", "tatp-hash"),
    Row { settings: TWICE, cuts: 1000, ..paper(Mutant::LadOldestFirst, "lad", "tpcc-hash") },
    Row { settings: TWICE, cuts: 3000, ..paper(Mutant::LadClearsOldestFirst, "lad", "tpcc-hash") },
    Row { settings: SHORT_QUEUE, ..paper(Mutant::LadNoLog, "lad", "tpcc-hash") },
    Row { settings: SHORT_QUEUE, ..paper(Mutant::LadSealFirst, "lad", "tpcc-hash") },
    paper(Mutant::LadCommitEarly, "lad", "sps"),
    paper(Mutant::LadRegisterLate, "lad", "tatp-hash"),
    Row { settings: SUSPENDED, ..paper(Mutant::LadSuspendedUnmarks, "lad", "sps") },
    Row { settings: SHORT_QUEUE, ..paper(Mutant::LadKeepsSeals, "lad", "tpcc-hash") },
    paper(Mutant::LadKeepsSaved, "lad", "sps"),
    paper(Mutant::LadForgetsNumbers, "lad", "sps"),
    Row {
        settings: LEAVING,
        cores: 2,
        cuts: 1000,
        ..paper(Mutant::LadForgetsNumbers, "lad-llc", "tpcc-hash")
    },
    Row { settings: LEAVING, ..paper(Mutant::LlcOneBank, "lad-llc", "sps") },
    Row { settings: LEAVING, ..paper(Mutant::LlcInPlace, "lad-llc", "cq") },
    Row { settings: NARROW, cores: 2, ..paper(Mutant::LlcNoWait, "lad-llc", "rbt") },
    Row { settings: WEAK, ..paper(Mutant::UndoWithoutFence, "sw-undo", "sps") },
    Row { settings: WEAK, ..paper(Mutant::UndoCommitFirst, "sw-undo", "sps") },
];

/// A row on the paper's machine.
const fn paper(mutant: Mutant, design: &'static str, workload: &'static str) -> Row {
    Row { machine: "lad", cores: 4, cuts: 300, ..row(mutant, design, workload) }
}

#[test]
fn every_mutant_is_detected_on_the_tiny_machine() {
    all_are_detected(&ROWS);
}

#[test]
fn every_mutant_is_detected_on_the_papers_machine() {
    all_are_detected(&PAPER);
}
