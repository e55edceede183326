//! Bugs where software takes over from hardware: transactions that fit into a log in hardware, and
//! such that do not, write the same lines.

use words::{ErasedTx, LockId, Objects, Stop, Words};

use super::common::setup;
use super::parts::{Part, Parts};
use crate::Setup;
use crate::mutants::{Mutant, plant};
use crate::report::Outcome;

/// A core's objects, a line each at least.
const OWN: usize = 24;

/// Large ones do not fit in.
const SIZES: Parts = Parts { own: OWN, run: |part, tx| count(part, OWN, tx), gives_up: |_| false };

/// They do, but the log has no room for what they store back.
const GIVEN_UP: Parts = Parts {
    own: OWN,
    run: |part, tx| {
        count(part, 16, tx)?;
        if is_large(part) { Err(Stop::Aborted) } else { Ok(()) }
    },
    gives_up: is_large,
};

fn is_large(part: &Part) -> bool {
    part.is_last && part.turn.is_multiple_of(3)
}

/// Transactions count up the first of a core's own objects; every third one also one that all cores
/// share. Of the last core such a transaction counts up `large` objects of its own.
fn count(part: &Part, large: usize, tx: &mut ErasedTx<'_>) -> Result<(), Stop> {
    let count = |words: [u64; 6]| words.map(|word| word + 1);
    let is_large = is_large(part);
    for object in &part.own[..if is_large { large } else { 1 }] {
        tx.update(*object, count)?;
    }
    // One that counts up the shared one seldom leaves an old version of it in the log for long.
    let shares = if part.is_last { is_large } else { part.turn.is_multiple_of(3) };
    if shares {
        tx.lock(LockId(1))?;
        tx.update(part.shared, count)?;
    }
    Ok(())
}

/// A design, and what it runs with.
type Case = (&'static str, &'static [&'static str]);

/// The machine of the paper, and the tiny one.
const MACHINES: [&str; 2] = ["tiny-redu", "redu"];

/// A bucket of seven places; and logs, for one core and for two, of which a share is more than the
/// twelve stores of the one and less than the lines of the other.
const REDU: [Case; 2] = [
    ("redu", &["redu.dram_cache_bytes=512", "log.bytes=32768", "redu.write_back=0"]),
    ("redu", &["redu.dram_cache_bytes=512", "log.bytes=32768", "redu.write_back=1"]),
];
const ALONE: &[&str] = &["log.bytes=14336"];
const BESIDE: &[&str] = &["log.bytes=16384"];
/// The same where an entry has old words and new ones.
const BESIDE_BOTH: &[&str] = &["log.bytes=26624"];

/// What cuts find on so many cores.
fn cut(machine: &str, (design, settings): Case, cores: usize, sizes: Parts) -> Outcome {
    let mut setup = Setup { power_cuts: 1000, ..setup(machine, design, cores, 150) };
    settings.iter().for_each(|setting| setup.description.set(setting).unwrap());
    crate::run(&setup, &sizes, &mut |_| {}).unwrap()
}

/// Violations on so many cores, and how often a transaction fell back.
fn violations(machine: &str, case: Case, cores: usize) -> (u64, u64) {
    let outcome = cut(machine, case, cores, SIZES);
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
    is_found(Mutant::CommitsBeside, &[("hw-undo-redo", BESIDE_BOTH)], 2);
}

#[test]
fn attempts_that_recovery_takes_back_though_software_has_gone_on_are_found() {
    for design in ["hw-undo", "hw-undo-redo"] {
        // Another core's commits could have Log Start pass the attempt's entries.
        is_found(Mutant::DropWithoutWord, &[(design, ALONE)], 1);
    }
}

#[test]
fn who_gives_up_and_has_no_room_to_store_everything_back_is_forgotten_as_a_whole() {
    const FALLS: &str = "a transaction falls back to software";
    const FEW: &str = "core.store_buffer=2";
    const WIDE: &[&str] = &[ALONE[0], FEW, "redu.dram_cache_bytes=32768"];
    const CASES: [Case; 4] = [
        ("hw-undo", &[ALONE[0], FEW]),
        ("hw-undo-redo", &["log.bytes=20480", FEW]),
        ("hw-redo", WIDE),
        ("redu", WIDE),
    ];
    for (machine, case) in MACHINES.into_iter().flat_map(|it| CASES.map(|case| (it, case))) {
        let outcome = cut(machine, case, 1, GIVEN_UP);
        assert_eq!((outcome.violations, outcome.fallbacks), (Some(0), 0), "{machine} {case:?}");
        assert_eq!(outcome.complaints, [""; 0], "{machine} {case:?}");
        let inside = outcome.rare_paths_cut.unwrap()[FALLS];
        assert!(inside > 0, "{machine} {case:?}");
    }
}
