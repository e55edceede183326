//! Mutants of `ssp` and of the designs that it is compared with. [`Mutant::SspRetagsDirty`] needs
//! more than a workload: see [`bare`](super::bare).

use words::{Erased, ErasedTx, LockId, Objects, Ptr, Stop, Transact, Words};

use super::common::setup;
use super::{Row, all_are_detected, row};
use crate::mutants::{Mutant, inject};
use crate::program::{Client, Ended, Loaded, Program};
use crate::report::Outcome;
use crate::{Error, Setup};

const fn ssp(mutant: Mutant, design: &'static str, workload: &'static str) -> Row {
    Row { machine: "tiny-ssp", ..row(mutant, design, workload) }
}

/// Capacity for transactions of more than four pages.
const ROOMY: &[&str] = &["ssp.write_set=64", "ssp.cache_entries=160"];

/// So few slots that a page waits for one, and gets the slot of a page that was just consolidated.
const CROWDED: &[&str] = &["ssp.cache_entries=6", "tlb.entries=3"];

/// Pages soon leave the caches and return, and move to other slots.
const SHARED: &[&str] = &["ssp.cache_entries=32", "tlb.entries=3", "ssp.copies_in_cache=0"];

/// The same on a mesh with long paths, where a broadcast arrives at different times.
const SCATTERED: &[&str] =
    &[SHARED[0], SHARED[1], "network.columns=2", "network.rows=2", "network.hop=40"];

/// Successive lines of the journal wait for few banks.
const SKIPS: &[&str] = &["ssp.cache_entries=64", "nvm.banks=2", "ssp.copies_in_cache=0"];

/// Slots change their pages several times before a checkpoint.
const LAZY: &[&str] = &["ssp.cache_entries=10", "ssp.journal_bytes=4096"];

/// Half of the journal is two lines for many cores, and writes wait for few banks.
const SHORT: &[&str] = &[
    "ssp.cache_entries=64",
    "nvm.row_bytes=128",
    "ssp.journal_bytes=128",
    "tlb.entries=4",
    "ssp.write_set=4",
    "nvm.banks=4",
];

/// Transactions of four pages fill a line of the journal. Pages wait for the consolidation of
/// others when a part of their batch is done, and checkpoints come in between.
const FULL_LINES: &[&str] =
    &["ssp.cache_entries=128", "tlb.entries=4", "ssp.write_set=16", "ssp.journal_bytes=256"];

/// Few banks: a write that waits for a bank is overtaken by others.
const FEW_BANKS: &[&str] = &["nvm.banks=4", "nvm.write_ns=2000", "nvm.write_hit_ns=2000"];

/// The same, with a commit record that does not wait for its log.
const BESIDE: &[&str] = &[FEW_BANKS[0], FEW_BANKS[1], FEW_BANKS[2], "ssp-redo.record_beside_log=1"];

/// Successive lines lie in one bank, which writes one after the other.
const BY_ROWS: &[&str] = &["nvm.interleave_bytes=2048"];

/// A last-level cache that lines of open transactions overflow.
const SMALL: &[&str] = &["llc.bytes=4096"];

/// The shortest log of a core.
const SHORT_LOG: &[&str] = &["ssp-redo.log_bytes=4096"];

pub(super) const ROWS: [Row; 24] = [
    Row { settings: ROOMY, cuts: 300, ..ssp(Mutant::SspMetadataFirst, "ssp", "sps") },
    Row { settings: ROOMY, cuts: 300, ..ssp(Mutant::SspPartOfACommit, "ssp", "sps") },
    Row { settings: ROOMY, cuts: 300, ..ssp(Mutant::SspForgetsWriters, "ssp", "sps") },
    Row { settings: CROWDED, transactions: 900, ..ssp(Mutant::SspTableFirst, "ssp", "pages") },
    Row {
        settings: FULL_LINES,
        cores: 4,
        transactions: 1000,
        cuts: 1000,
        ..ssp(Mutant::SspSwapsLate, "ssp", "pages-4")
    },
    Row { settings: CROWDED, transactions: 900, ..ssp(Mutant::SspWrapsRepeat, "ssp", "pages") },
    Row { settings: BY_ROWS, transactions: 300, ..ssp(Mutant::SspTailFirst, "ssp", "pages") },
    Row { settings: LAZY, transactions: 900, ..ssp(Mutant::SspAppliesOldRecords, "ssp", "pages") },
    Row {
        settings: SHORT,
        cores: 8,
        transactions: 900,
        cuts: 600,
        ..ssp(Mutant::SspJournalFirst, "ssp", "pages")
    },
    Row {
        settings: SHORT,
        cores: 8,
        transactions: 900,
        cuts: 600,
        ..ssp(Mutant::SspNoRedirect, "ssp", "pages")
    },
    Row {
        settings: SHORT,
        cores: 8,
        transactions: 900,
        cuts: 600,
        ..ssp(Mutant::SspOwnLinesOnly, "ssp", "pages")
    },
    Row {
        settings: SHORT,
        cores: 8,
        transactions: 900,
        cuts: 600,
        ..ssp(Mutant::SspReusedEarly, "ssp", "pages")
    },
    Row { cores: 4, transactions: 300, ..ssp(Mutant::SspFlipIsLost, "ssp", "pages-shared") },
    Row {
        settings: SHARED,
        cores: 4,
        transactions: 2000,
        cuts: 400,
        ..ssp(Mutant::SspTlbsFirst, "ssp", "pages-shared")
    },
    Row {
        settings: SCATTERED,
        cores: 4,
        transactions: 2000,
        cuts: 400,
        ..ssp(Mutant::SspFlipsAreTurns, "ssp", "pages-shared")
    },
    Row {
        settings: SKIPS,
        cores: 4,
        transactions: 600,
        cuts: 2000,
        ..ssp(Mutant::SspSkipsGaps, "ssp", "pages-shared")
    },
    Row {
        settings: FEW_BANKS,
        transactions: 300,
        ..ssp(Mutant::SspUndoWithoutWaiting, "ssp-undo", "pages")
    },
    Row { settings: FEW_BANKS, ..ssp(Mutant::SspRedoRecordFirst, "ssp-redo", "pages") },
    Row { settings: BESIDE, ..ssp(Mutant::SspRedoTrustsRecords, "ssp-redo", "pages") },
    Row { settings: SMALL, ..ssp(Mutant::SspRedoLetsLinesGo, "ssp-redo", "sps") },
    Row { settings: SHORT_LOG, cuts: 200, ..ssp(Mutant::SspRedoKeepsNothing, "ssp-redo", "sps") },
    Row { settings: CROWDED, transactions: 900, ..ssp(Mutant::SspForgetsSpares, "ssp", "pages") },
    Row { settings: FEW_BANKS, ..ssp(Mutant::SspForgetsNumbers, "ssp-undo", "pages") },
    Row { settings: FEW_BANKS, ..ssp(Mutant::SspForgetsNumbers, "ssp-redo", "pages") },
];

/// A row on the paper's machine.
const fn paper(mutant: Mutant, design: &'static str, workload: &'static str) -> Row {
    Row { machine: "ssp", cuts: 300, ..row(mutant, design, workload) }
}

/// Pages leave the TLB while a transaction writes them.
const FEW_PAGES: &[&str] = &["tlb.entries=4"];

/// As [`CROWDED`], with a write set that fits.
const CROWDED_TOO: &[&str] = &[CROWDED[0], CROWDED[1], "ssp.write_set=4"];

/// The same, with a journal that wraps.
const ROUND: &[&str] = &[CROWDED[0], CROWDED[1], CROWDED_TOO[2], "ssp.journal_bytes=512"];

/// As [`LAZY`], with a write set that fits.
const LAZY_TOO: &[&str] = &[LAZY[0], LAZY[1], FEW_PAGES[0], CROWDED_TOO[2]];

/// A journal that needs checkpoints.
const CHECKPOINTS: &[&str] = &["ssp.journal_bytes=512"];

/// As [`SMALL`], with private caches that fit in.
const ALL_SMALL: &[&str] = &[SMALL[0], "l1.bytes=1024", "l2.bytes=2048"];

pub(super) const PAPER: [Row; 24] = [
    paper(Mutant::SspMetadataFirst, "ssp", "sps"),
    paper(Mutant::SspPartOfACommit, "ssp", "sps"),
    Row { settings: FEW_PAGES, ..paper(Mutant::SspForgetsWriters, "ssp", "sps") },
    Row {
        settings: CROWDED_TOO,
        transactions: 900,
        cuts: 1000,
        ..paper(Mutant::SspTableFirst, "ssp", "pages")
    },
    Row {
        settings: FULL_LINES,
        cores: 4,
        transactions: 1000,
        cuts: 1000,
        ..paper(Mutant::SspSwapsLate, "ssp", "pages-4")
    },
    Row {
        settings: ROUND,
        transactions: 900,
        cuts: 3000,
        ..paper(Mutant::SspWrapsRepeat, "ssp", "pages")
    },
    Row {
        settings: CHECKPOINTS,
        transactions: 300,
        cuts: 1000,
        ..paper(Mutant::SspTailFirst, "ssp", "pages")
    },
    Row {
        settings: LAZY_TOO,
        transactions: 900,
        cuts: 1000,
        ..paper(Mutant::SspAppliesOldRecords, "ssp", "pages")
    },
    Row {
        settings: SHORT,
        cores: 8,
        transactions: 900,
        cuts: 600,
        ..paper(Mutant::SspJournalFirst, "ssp", "pages")
    },
    Row {
        settings: SHORT,
        cores: 8,
        transactions: 900,
        cuts: 600,
        ..paper(Mutant::SspNoRedirect, "ssp", "pages")
    },
    Row {
        settings: SHORT,
        cores: 8,
        transactions: 900,
        cuts: 600,
        ..paper(Mutant::SspOwnLinesOnly, "ssp", "pages")
    },
    Row {
        settings: SHORT,
        cores: 8,
        transactions: 900,
        cuts: 600,
        ..paper(Mutant::SspReusedEarly, "ssp", "pages")
    },
    Row { cores: 4, transactions: 300, ..paper(Mutant::SspFlipIsLost, "ssp", "pages-shared") },
    Row {
        settings: SHARED,
        cores: 4,
        transactions: 2000,
        cuts: 400,
        ..paper(Mutant::SspTlbsFirst, "ssp", "pages-shared")
    },
    Row {
        settings: SCATTERED,
        cores: 4,
        transactions: 2000,
        cuts: 400,
        ..paper(Mutant::SspFlipsAreTurns, "ssp", "pages-shared")
    },
    Row { cores: 4, transactions: 400, cuts: 1000, ..paper(Mutant::SspSkipsGaps, "ssp", "kmeans") },
    Row { settings: FEW_BANKS, ..paper(Mutant::SspUndoWithoutWaiting, "ssp-undo", "pages") },
    Row { settings: FEW_BANKS, ..paper(Mutant::SspRedoRecordFirst, "ssp-redo", "pages") },
    Row { settings: BESIDE, ..paper(Mutant::SspRedoTrustsRecords, "ssp-redo", "pages") },
    Row { settings: ALL_SMALL, cores: 4, ..paper(Mutant::SspRedoLetsLinesGo, "ssp-redo", "sps") },
    Row { settings: SHORT_LOG, cuts: 200, ..paper(Mutant::SspRedoKeepsNothing, "ssp-redo", "sps") },
    Row {
        settings: CROWDED_TOO,
        transactions: 900,
        cuts: 600,
        ..paper(Mutant::SspForgetsSpares, "ssp", "pages")
    },
    paper(Mutant::SspForgetsNumbers, "ssp-undo", "sps"),
    paper(Mutant::SspForgetsNumbers, "ssp-redo", "sps"),
];

#[test]
fn every_ssp_mutant_is_detected_on_the_tiny_machine() {
    all_are_detected(&ROWS);
}

#[test]
fn every_ssp_mutant_is_detected_on_the_papers_machine() {
    all_are_detected(&PAPER);
}

/// A program of two cores. Core 0 writes an object under a lock. Core 1 writes more than the
/// last-level cache can hold, and the object last: it takes the lock after its fallback to
/// software.
struct Late;

/// The objects of core 1, besides the shared one.
const OBJECTS: usize = 64;

type Object = Ptr<[u64; 6]>;

struct LateObjects(Vec<Object>);

struct LateClient {
    core: usize,
    objects: Vec<Object>,
    number: u64,
}

fn objects<T: Transact>(worker: &mut T) -> Result<Vec<Object>, T::Error> {
    (0..=OBJECTS).map(|_| worker.transact(|tx| tx.alloc([7_u64; 6]))).collect()
}

impl Program for Late {
    fn name(&self) -> &str {
        "late"
    }

    fn heap_bytes(&self) -> u64 {
        1 << 20
    }

    fn load(&self, worker: &mut Erased<'_, Ended>, _: usize) -> Result<Box<dyn Loaded>, Ended> {
        Ok(Box::new(LateObjects(objects(worker)?)))
    }
}

impl Loaded for LateObjects {
    fn client(&self, core: usize) -> Box<dyn Client> {
        Box::new(LateClient { core, objects: self.0.clone(), number: 0 })
    }

    fn check(&self, _: &mut Erased<'_, Ended>) -> Result<Vec<String>, Ended> {
        Ok(Vec::new())
    }
}

impl Client for LateClient {
    fn next(&mut self) {
        self.number += 1;
    }

    fn run(&self, tx: &mut ErasedTx<'_>) -> Result<(), Stop> {
        let value = [2 * self.number + self.core as u64; 6];
        let own = if self.core == 0 { 0 } else { OBJECTS };
        for object in &self.objects[..own] {
            tx.set(*object, value)?;
            // Let stores drain, so that the overflow is known before the core takes the lock.
            tx.compute(200);
        }
        tx.lock(LockId(1))?;
        tx.set(self.objects[OBJECTS], value)
    }
}

fn late(machine: &str, settings: &[&str]) -> Result<Outcome, Error> {
    let mut setup = Setup { power_cuts: 400, ..setup(machine, "ssp-redo", 2, 200) };
    settings.iter().for_each(|setting| setup.description.set(setting).unwrap());
    crate::run(&setup, &Late, &mut |_| {})
}

#[test]
fn redo_spares_software_writes_under_a_late_lock() {
    for (machine, settings) in [("tiny-ssp", SMALL), ("ssp", ALL_SMALL)] {
        let outcome = late(machine, settings).unwrap();
        assert_eq!((outcome.violations, outcome.complaints), (Some(0), Vec::new()), "{machine}");
        assert!(outcome.fallbacks > 0, "{machine}");
        let _injected = inject(Mutant::SspRedoSoftwareEarly);
        assert!(late(machine, settings).unwrap().violations > Some(0), "{machine}");
    }
}

/// The last-level cache may hold more lines than half of a core's log, and then than all of it.
#[test]
fn transaction_larger_than_its_log_fails_the_run() {
    let settings = [SHORT_LOG[0], "llc.bytes=65536", ALL_SMALL[1], ALL_SMALL[2]];
    for machine in ["tiny-ssp", "ssp"] {
        let Err(Error::Failed { why }) = late(machine, &settings) else {
            panic!("{machine}: the run must fail")
        };
        assert!(why.contains("more lines than its core's log"), "{machine}: {why}");
        let _injected = inject(Mutant::SspRedoTakesMore);
        assert!(late(machine, &settings).unwrap().violations > Some(0), "{machine}");
        // With a larger log the same run passes.
        let roomy = ["ssp-redo.log_bytes=16384", settings[1], settings[2], settings[3]];
        assert_eq!(late(machine, &roomy).unwrap().violations, Some(0), "{machine}");
    }
}
