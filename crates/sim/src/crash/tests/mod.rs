//! Mutation tests of power failures: cuts detect each mutant, and the same run without it passes.

mod bare;
#[path = "../../../tests/common/mod.rs"]
mod common;
mod lad;
mod logged;
mod parts;
mod reuse;
mod software;
mod ssp;
mod table;
mod waits;

use common::{setup, simulate};
use words::{Erased, ErasedTx, Objects, Ptr, Stop, Transact};

use crate::mutants::{Mutant, inject};
use crate::program::{Client, Ended, Loaded, Program};
use crate::{Error, Setup};

/// A mutant, and the run that detects it.
struct Row {
    mutant: Mutant,
    design: &'static str,
    workload: &'static str,
    machine: &'static str,
    cores: usize,
    transactions: u64,
    cuts: u64,
    settings: &'static [&'static str],
    /// The mutant may also deadlock the machine.
    hangs: bool,
}

const fn row(mutant: Mutant, design: &'static str, workload: &'static str) -> Row {
    let (machine, cores, transactions, cuts) = ("tiny-lad", 2, 150, 1000);
    let (settings, hangs): (&[&str], bool) = (&[], false);
    Row { mutant, design, workload, machine, cores, transactions, cuts, settings, hangs }
}

/// A memory so slow that writes queue.
const SLOW: &[&str] = &["nvm.write_ns=2000", "nvm.write_hit_ns=2000", "nvm.write_keeps_bank=true"];

/// Controllers without batteries.
const WEAK: &[&str] = &["persist.point=\"media\"", "nvm.write_ns=2000", "nvm.write_hit_ns=2000"];

impl Row {
    /// The configuration of the run, without the mutant.
    fn configuration(&self) -> impl PartialEq {
        let Row { design, workload, machine, cores, transactions, cuts, settings, .. } = *self;
        (design, workload, machine, cores, transactions, cuts, settings)
    }
}

/// Returns the violations of cuts, plus the complaints of the line comparison.
fn violations(row: &Row) -> u64 {
    let Row { design, workload, machine, cores, transactions, cuts, settings, .. } = *row;
    let all = setup(machine, design, cores, transactions);
    let mut setup = Setup { power_cuts: cuts, violations_max: 1, ..all };
    settings.iter().for_each(|setting| setup.description.set(setting).unwrap());
    match simulate(workload, 0.02, &setup) {
        Ok(outcome) => outcome.violations.unwrap() + outcome.complaints.len() as u64,
        Err(Error::Deadlock { .. }) if row.hangs => 1,
        Err(error) => panic!("{error}"),
    }
}

fn all_are_detected(rows: &[Row]) {
    let mut survived = Vec::new();
    let mut checked = Vec::new();
    for row in rows {
        // Rows that differ only in their mutant share one run without a mutant.
        let configuration = row.configuration();
        if !checked.contains(&configuration) {
            assert_eq!(violations(row), 0, "{} without the mutant", row.mutant.name());
            checked.push(configuration);
        }
        let injected = inject(row.mutant);
        let found = violations(row);
        drop(injected);
        println!("{}: {found} violations with {}", row.mutant.name(), row.design);
        if found == 0 {
            survived.push((row.mutant.name(), row.design, row.machine));
        }
    }
    assert!(survived.is_empty(), "undetected mutants: {survived:?}");
}

/// A program whose transactions store the values that are already there.
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
fn lost_store_of_an_equal_value_is_detected() {
    let mut setup = Setup { power_cuts: 400, ..setup("tiny-lad", "sw-undo", 4, 100) };
    WEAK.iter().for_each(|setting| setup.description.set(setting).unwrap());
    let violations = || crate::run(&setup, &Same, &mut |_| {}).unwrap().violations.unwrap();
    assert_eq!(violations(), 0);
    let _injected = inject(Mutant::UndoCommitFirst);
    assert!(violations() > 0);
}
