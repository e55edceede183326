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
const SHORT: &[&str] = &["mc.wq=8"];

/// The same, and threads are suspended so often that they write a line again that was flushed.
const TWICE: &[&str] = &["mc.wq=8", "design.lad.suspend_cycles=3000"];

/// A last cache that has no second way for an older version.
const NARROW: &[&str] = &["llc.bytes=131072", "llc.ways=1"];

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
    Row { settings: SHORT, ..paper(Mutant::LadNoLog, "lad", "tpcc-hash") },
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

fn violations(row: &Row) -> u64 {
    let Row { design, workload, machine, cores, transactions, cuts, settings, .. } = *row;
    let mut setup = Setup { power_cuts: cuts, ..setup(machine, design, cores, transactions) };
    settings.iter().for_each(|setting| setup.description.set(setting).unwrap());
    match simulate(workload, 0.02, &setup) {
        Ok(outcome) => outcome.violations.unwrap(),
        Err(Error::Deadlock { .. }) if row.hangs => 1,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn every_planted_bug_is_found_by_cuts_and_its_repaired_twin_has_none() {
    let mut survived = Vec::new();
    let mut twins = Vec::new();
    for row in &ROWS {
        // Rows that differ in nothing but their bug have one twin.
        let twin = row.twin();
        if !twins.contains(&twin) {
            assert_eq!(violations(row), 0, "{} without the bug", row.mutant.name());
            twins.push(twin);
        }
        let planted = plant(row.mutant);
        let found = violations(row);
        drop(planted);
        println!("{}: {found} violations", row.mutant.name());
        if found == 0 {
            survived.push((row.mutant.name(), row.machine));
        }
    }
    assert!(survived.is_empty(), "these survived: {survived:?}");
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
