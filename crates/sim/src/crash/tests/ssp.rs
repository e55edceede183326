//! Bugs in `ssp` and its peers; all but [`Mutant::SspRetagsDirty`], which no cut can find: between
//! transactions no program leaves a line modified. A test of the design's own does.

use words::{Erased, ErasedTx, LockId, Objects, Ptr, Stop, Transact, Words};

use super::common::setup;
use super::{Row, all_are_found, row};
use crate::Setup;
use crate::mutants::{Mutant, plant};
use crate::program::{Client, Ended, Loaded, Program};

const fn ssp(mutant: Mutant, design: &'static str, workload: &'static str) -> Row {
    Row { machine: "tiny-ssp", ..row(mutant, design, workload) }
}

/// Room for transactions of more than four pages.
const ROOMY: &[&str] = &["ssp.write_set=64", "ssp.cache_entries=160"];

/// Whoever needs a slot waits for one, and gets that whose page has just been brought together.
const CROWDED: &[&str] = &["ssp.cache_entries=6", "tlb.entries=3"];

/// Slots change their pages several times before there is a checkpoint.
const LAZY: &[&str] = &["ssp.cache_entries=10", "ssp.journal_bytes=4096"];

/// Half of the journal is two lines, and many cores' pages are done together: checkpoints come
/// between parts of a batch.
const SHORT: &[&str] = &["ssp.cache_entries=64", "nvm.row_bytes=128", "ssp.journal_bytes=128"];

/// Writes that wait for a bank are overtaken by others.
const FEW_BANKS: &[&str] = &["nvm.banks=4", "nvm.write_ns=2000", "nvm.write_hit_ns=2000"];

/// Lines behind each other lie in one bank, and are written one after the other.
const BY_ROWS: &[&str] = &["nvm.interleave_bytes=2048"];

/// Lines of open transactions would leave the last cache.
const SMALL: &[&str] = &["llc.bytes=4096"];

const ROWS: [Row; 11] = [
    Row { settings: ROOMY, cuts: 300, ..ssp(Mutant::SspMetadataFirst, "ssp", "sps") },
    Row { settings: ROOMY, cuts: 300, ..ssp(Mutant::SspPartOfACommit, "ssp", "sps") },
    Row { settings: ROOMY, cuts: 300, ..ssp(Mutant::SspForgetsWriters, "ssp", "sps") },
    Row { settings: CROWDED, transactions: 900, ..ssp(Mutant::SspTableFirst, "ssp", "pages") },
    Row {
        settings: SHORT,
        cores: 8,
        transactions: 1000,
        cuts: 3000,
        ..ssp(Mutant::SspSwapsLate, "ssp", "pages")
    },
    Row { settings: CROWDED, transactions: 900, ..ssp(Mutant::SspLapsComeAgain, "ssp", "pages") },
    Row { settings: BY_ROWS, transactions: 300, ..ssp(Mutant::SspTailFirst, "ssp", "pages") },
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

/// Core 0 writes an object under a lock. Core 1 writes more than the last cache can keep, and the
/// object at the end: it takes the lock when software makes its transaction durable already.
struct Late;

/// Those that core 1 has for itself, and the one of both.
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
        self.objects[..own].iter().try_for_each(|object| tx.set(*object, value))?;
        tx.lock(LockId(1))?;
        tx.set(self.objects[OBJECTS], value)
    }
}

#[test]
fn recovery_redoes_nothing_over_what_software_has_written_under_a_late_lock() {
    let mut setup = Setup { power_cuts: 400, ..setup("tiny-ssp", "ssp-redo", 2, 200) };
    SMALL.iter().for_each(|setting| setup.description.set(setting).unwrap());
    let run = || crate::run(&setup, &Late, &mut |_| {}).unwrap();
    let outcome = run();
    assert_eq!((outcome.violations, outcome.complaints), (Some(0), Vec::new()));
    assert!(outcome.fallbacks > 0);
    let _planted = plant(Mutant::SspRedoSoftwareEarly);
    assert!(run().violations > Some(0));
}
