//! Bugs where software takes over from hardware: transactions that fit into a log in hardware, and
//! such that do not, write the same lines.

use words::{Erased, ErasedTx, LockId, Objects, Ptr, Stop, Transact, Words};

use super::common::setup;
use crate::Setup;
use crate::mutants::{Mutant, plant};
use crate::program::{Client, Ended, Loaded, Program};

/// A core's objects, a line each at least.
const OWN: usize = 12;

/// Transactions count up the first of a core's own objects; every third one also one that all cores
/// share. Of the last core such a transaction counts up all of its own, and does not fit in.
struct Sizes;

struct All(Vec<[Ptr<[u64; 6]>; OWN]>, Ptr<[u64; 6]>);

struct Counting {
    own: [Ptr<[u64; 6]>; OWN],
    shared: Ptr<[u64; 6]>,
    turn: usize,
    is_last: bool,
}

fn objects<T: Transact>(worker: &mut T) -> Result<[Ptr<[u64; 6]>; OWN], T::Error> {
    let mut all = [Ptr::NULL; OWN];
    for object in &mut all {
        *object = worker.transact(|tx| tx.alloc([0_u64; 6]))?;
    }
    Ok(all)
}

impl Program for Sizes {
    fn name(&self) -> &str {
        "sizes"
    }

    fn heap_bytes(&self) -> u64 {
        1 << 20
    }

    fn load(&self, worker: &mut Erased<'_, Ended>, cores: usize) -> Result<Box<dyn Loaded>, Ended> {
        let own = (0..cores).map(|_| objects(worker)).collect::<Result<_, _>>()?;
        Ok(Box::new(All(own, objects(worker)?[OWN / 2])))
    }
}

impl Loaded for All {
    fn client(&self, core: usize) -> Box<dyn Client> {
        let is_last = core + 1 == self.0.len();
        Box::new(Counting { own: self.0[core], shared: self.1, turn: 0, is_last })
    }

    fn check(&self, _: &mut Erased<'_, Ended>) -> Result<Vec<String>, Ended> {
        Ok(Vec::new())
    }
}

impl Client for Counting {
    fn next(&mut self) {
        self.turn += 1;
    }

    fn run(&self, tx: &mut ErasedTx<'_>) -> Result<(), Stop> {
        let count = |words: [u64; 6]| words.map(|word| word + 1);
        let is_large = self.is_last && self.turn.is_multiple_of(3);
        for object in &self.own[..if is_large { OWN } else { 1 }] {
            tx.update(*object, count)?;
        }
        // One that counts up the shared one seldom leaves an old version of it in the log for long.
        let shares = if self.is_last { is_large } else { self.turn.is_multiple_of(3) };
        if !shares {
            return Ok(());
        }
        tx.lock(LockId(1))?;
        tx.update(self.shared, count)
    }
}

/// A design, and what it runs with.
type Case = (&'static str, &'static [&'static str]);

/// The machine of the paper, and the tiny one.
const MACHINES: [&str; 2] = ["tiny-redu", "redu"];

/// A bucket of seven places; and logs, for one core and for two, of which a share is eight slots.
const REDU: [Case; 2] = [
    ("redu", &["redu.dram_cache_bytes=512", "log.bytes=32768", "redu.write_back=0"]),
    ("redu", &["redu.dram_cache_bytes=512", "log.bytes=32768", "redu.write_back=1"]),
];
const ALONE: &[&str] = &["log.bytes=12288"];
const BESIDE: &[&str] = &["log.bytes=14336"];

/// Violations on so many cores, and how often a transaction fell back.
fn violations(machine: &str, (design, settings): Case, cores: usize) -> (u64, u64) {
    let mut setup = Setup { power_cuts: 1000, ..setup(machine, design, cores, 150) };
    settings.iter().for_each(|setting| setup.description.set(setting).unwrap());
    let outcome = crate::run(&setup, &Sizes, &mut |_| {}).unwrap();
    (outcome.violations.unwrap() + outcome.complaints.len() as u64, outcome.fallbacks)
}

/// On each machine a bug is found with so many cores in one of these cases, and its twin holds in
/// all.
fn is_found(bug: Mutant, cases: &[Case], cores: usize) {
    for machine in MACHINES {
        let mut found = 0;
        for case in cases {
            let (violations_of_twin, fallbacks) = violations(machine, *case, cores);
            assert_eq!(violations_of_twin, 0, "{machine} {case:?}");
            assert!((5..80).contains(&fallbacks), "{machine} {case:?}: {fallbacks}");
            let _planted = plant(bug);
            let (violations, _) = violations(machine, *case, cores);
            println!("{} {machine} {case:?}: {violations} of {fallbacks}", bug.name());
            found += violations;
        }
        assert!(found > 0, "{} survived on {machine} in {cases:?}", bug.name());
    }
}

#[test]
fn software_that_begins_before_what_is_committed_is_at_home_is_found() {
    // Another core's commits would bring that home.
    is_found(Mutant::SoftwareEarly, &REDU, 1);
    is_found(Mutant::SoftwareEarly, &[("hw-redo", ALONE)], 1);
    is_found(Mutant::SoftwareEarly, &[("hw-undo-redo", ALONE)], 1);
}

#[test]
fn commits_that_do_not_care_whether_software_runs_are_found() {
    is_found(Mutant::CommitsBeside, &REDU, 2);
    is_found(Mutant::CommitsBeside, &[("hw-redo", BESIDE)], 2);
    is_found(Mutant::CommitsBeside, &[("hw-undo-redo", BESIDE)], 2);
}

#[test]
fn attempts_that_recovery_takes_back_though_software_has_gone_on_are_found() {
    for design in ["hw-undo", "hw-undo-redo"] {
        // Another core's commits could have Log Start pass the attempt's entries.
        is_found(Mutant::DropWithoutWord, &[(design, ALONE)], 1);
    }
}
