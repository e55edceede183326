//! Bugs in `ssp` and its peers.

use super::{Row, all_are_found, row};
use crate::mutants::Mutant;

const fn ssp(mutant: Mutant, design: &'static str, workload: &'static str) -> Row {
    Row { machine: "tiny-ssp", ..row(mutant, design, workload) }
}

/// Room for transactions of more than four pages.
const ROOMY: &[&str] = &["ssp.write_set=64", "ssp.cache_entries=160"];

/// Whoever needs a slot waits for one, and gets that whose page has just been brought together.
const CROWDED: &[&str] = &["ssp.cache_entries=6", "tlb.entries=3"];

/// Slots change their pages several times before there is a checkpoint.
const LAZY: &[&str] = &["ssp.cache_entries=10", "ssp.journal_bytes=4096"];

/// Writes that wait for a bank are overtaken by others.
const FEW_BANKS: &[&str] = &["nvm.banks=4", "nvm.write_ns=2000", "nvm.write_hit_ns=2000"];

/// Lines of open transactions would leave the last cache.
const SMALL: &[&str] = &["llc.bytes=4096"];

const ROWS: [Row; 9] = [
    Row { settings: ROOMY, cuts: 300, ..ssp(Mutant::SspMetadataFirst, "ssp", "sps") },
    Row { settings: ROOMY, cuts: 300, ..ssp(Mutant::SspPartOfACommit, "ssp", "sps") },
    Row { settings: ROOMY, cuts: 300, ..ssp(Mutant::SspForgetsWriters, "ssp", "sps") },
    Row { settings: CROWDED, transactions: 900, ..ssp(Mutant::SspTableFirst, "ssp", "pages") },
    Row { transactions: 300, ..ssp(Mutant::SspTailFirst, "ssp", "pages") },
    Row { settings: LAZY, transactions: 900, ..ssp(Mutant::SspAppliesOldRecords, "ssp", "pages") },
    Row {
        settings: FEW_BANKS,
        transactions: 300,
        ..ssp(Mutant::SspUndoWithoutWaiting, "ssp-undo", "pages")
    },
    Row { settings: FEW_BANKS, ..ssp(Mutant::SspRedoRecordFirst, "ssp-redo", "pages") },
    Row { settings: SMALL, ..ssp(Mutant::SspRedoLetsLinesGo, "ssp-redo", "sps") },
];

#[test]
fn every_bug_that_is_planted_in_ssp_and_its_peers_is_found_and_its_repaired_twin_has_none() {
    all_are_found(&ROWS);
}
