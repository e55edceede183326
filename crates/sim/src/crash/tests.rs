//! Bugs that are planted are found by cuts of power, and the same runs without them hold.

#[path = "../../tests/common/mod.rs"]
mod common;

use common::{setup, simulate};
use words::{Erased, ErasedTx, Objects, Ptr, Stop, Transact};

use crate::mutants::{Mutant, plant};
use crate::program::{Client, Ended, Loaded, Program};
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

/// Queues so short that they are often too full.
const SHORT_QUEUE: &[&str] = &["mc.wq=8"];

/// The same, and threads are suspended so often that they write a line again that was flushed.
const TWICE: &[&str] = &["mc.wq=8", "design.lad.suspend_cycles=3000"];

/// A last cache that has no second way for an older version.
const NARROW: &[&str] = &["llc.bytes=131072", "llc.ways=1"];

/// A run on the machine of designs that log in hardware.
const fn logged(mutant: Mutant, design: &'static str, workload: &'static str) -> Row {
    Row { machine: "tiny-redu", cuts: 300, ..row(mutant, design, workload) }
}

/// A log that is full soon, and memory behind which things wait.
const SHORT: &[&str] = &["log.bytes=16384", "redu.dram_cache_bytes=16384", "nvm.write_ns=600"];

/// The same, with lines that stay in DRAM as long as there is room.
const LAZY: &[&str] = &["log.bytes=16384", "redu.dram_cache_bytes=16384", "redu.write_back=1"];

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
    logged(Mutant::DramNotLookedUp, "hw-redo", "sps"),
    Row { settings: SHORT, ..logged(Mutant::DramNotLookedUp, "redu", "tpcc-hash") },
    Row { settings: SLOW_AND_WIDE, ..logged(Mutant::FilterTwice, "redu", "tpcc-hash") },
    Row { settings: LAZY, cuts: 1000, ..logged(Mutant::ReduTrimsEarly, "redu", "tpcc-hash") },
];

const ROWS: [Row; 21] = [
    Row { settings: SLOW, ..row(Mutant::LinesOutOfOrder, "lad", "cq") },
    Row { hangs: true, ..row(Mutant::LadFlushLeavesDirty, "lad", "tpcc-hash") },
    // On a large mesh the nearest controller answers before the farthest one is asked.
    paper(Mutant::LadOneController, "lad", "tatp-hash"),
    Row { transactions: 900, cuts: 1500, ..row(Mutant::LadEightBits, "lad", "sps") },
    row(Mutant::LadOldestFirst, "lad", "tpcc-hash"),
    Row { cuts: 4000, ..row(Mutant::LadClearsOldestFirst, "lad", "tpcc-hash") },
    row(Mutant::LadNoLog, "lad", "tpcc-hash"),
    row(Mutant::LadCommitEarly, "lad", "sps"),
    row(Mutant::LadRegisterLate, "lad", "tatp-hash"),
    row(Mutant::LadSuspendedUnmarks, "lad", "sps"),
    Row { settings: &["llc.bytes=65536"], ..row(Mutant::LlcInPlace, "lad-llc", "cq") },
    Row { settings: NARROW, ..row(Mutant::LlcNoWait, "lad-llc", "rbt") },
    Row { settings: WEAK, ..row(Mutant::UndoWithoutFence, "sw-undo", "sps") },
    Row { settings: WEAK, ..row(Mutant::UndoCommitFirst, "sw-undo", "sps") },
    // The same on the machine of the paper, where it can be.
    paper(Mutant::LadCommitEarly, "lad", "sps"),
    paper(Mutant::LadRegisterLate, "lad", "tatp-hash"),
    Row { settings: SHORT_QUEUE, ..paper(Mutant::LadNoLog, "lad", "tpcc-hash") },
    Row { settings: TWICE, ..paper(Mutant::LadOldestFirst, "lad", "tpcc-hash") },
    paper(Mutant::LlcInPlace, "lad-llc", "cq"),
    Row { settings: WEAK, ..paper(Mutant::UndoWithoutFence, "sw-undo", "sps") },
    Row { settings: WEAK, ..paper(Mutant::UndoCommitFirst, "sw-undo", "sps") },
];

/// A row on the machine of the paper.
const fn paper(mutant: Mutant, design: &'static str, workload: &'static str) -> Row {
    Row { machine: "lad", cores: 4, ..row(mutant, design, workload) }
}

impl Row {
    /// All but the bug.
    fn twin(&self) -> impl PartialEq {
        let Row { design, workload, machine, cores, transactions, cuts, settings, .. } = *self;
        (design, workload, machine, cores, transactions, cuts, settings)
    }
}

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
    let mut twins = Vec::new();
    for row in rows {
        // Rows that differ in nothing but their bug have one twin.
        let twin = row.twin();
        if !twins.contains(&twin) {
            assert_eq!(violations(row), 0, "{} without the bug", row.mutant.name());
            twins.push(twin);
        }
        let planted = plant(row.mutant);
        let found = violations(row);
        drop(planted);
        println!("{}: {found} violations with {}", row.mutant.name(), row.design);
        if found == 0 {
            survived.push((row.mutant.name(), row.design, row.machine));
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

/// Every transaction stores what is there already.
struct Same;

struct Objects8(Vec<[Ptr<[u64; 6]>; 8]>);

struct Storing([Ptr<[u64; 6]>; 8]);

fn objects<T: Transact>(worker: &mut T) -> Result<[Ptr<[u64; 6]>; 8], T::Error> {
    let mut all = [Ptr::NULL; 8];
    for object in &mut all {
        *object = worker.transact(|tx| tx.alloc([7_u64; 6]))?;
    }
    Ok(all)
}

impl Program for Same {
    fn name(&self) -> &str {
        "same"
    }

    fn heap_bytes(&self) -> u64 {
        1 << 20
    }

    fn load(&self, worker: &mut Erased<'_, Ended>, cores: usize) -> Result<Box<dyn Loaded>, Ended> {
        let all = (0..cores).map(|_| objects(worker)).collect::<Result<_, _>>()?;
        Ok(Box::new(Objects8(all)))
    }
}

impl Loaded for Objects8 {
    fn client(&self, core: usize) -> Box<dyn Client> {
        Box::new(Storing(self.0[core]))
    }

    fn check(&self, _: &mut Erased<'_, Ended>) -> Result<Vec<String>, Ended> {
        Ok(Vec::new())
    }
}

impl Client for Storing {
    fn next(&mut self) {}

    fn run(&self, tx: &mut ErasedTx<'_>) -> Result<(), Stop> {
        self.0.iter().try_for_each(|object| tx.set(*object, [7; 6]))
    }
}

#[test]
fn a_lost_store_of_what_was_there_already_is_found_by_who_wrote_it() {
    let mut setup = Setup { power_cuts: 400, ..setup("tiny-lad", "sw-undo", 2, 100) };
    WEAK.iter().for_each(|setting| setup.description.set(setting).unwrap());
    let violations = || crate::run(&setup, &Same, &mut |_| {}).unwrap().violations.unwrap();
    assert_eq!(violations(), 0);
    let _planted = plant(Mutant::UndoCommitFirst);
    assert!(violations() > 0);
}
