//! Mutants of the fallback from hardware to software: transactions that fit into a hardware log and
//! transactions that do not write the same lines.

use words::{ErasedTx, LockId, Objects, Stop, Words};

use super::common::setup;
use super::parts::{Part, Parts};
use crate::Setup;
use crate::mutants::{Mutant, inject};
use crate::report::Outcome;

/// The number of a core's objects, each at least a line.
const OWN: usize = 24;

/// Large transactions exceed the log.
const SIZES: Parts = Parts { own: OWN, run: |part, tx| count(part, OWN, tx), gives_up: |_| false };

/// Large transactions fit, but the log has no room for the stores of their abort.
const GIVEN_UP: Parts = Parts {
    own: OWN,
    run: |part, tx| {
        count(part, 16, tx)?;
        if is_large(part) { Err(Stop::Aborted) } else { Ok(()) }
    },
    gives_up: is_large,
};

fn is_large(part: &Part) -> bool {
    part.is_last && part.round.is_multiple_of(3)
}

/// Increments a core's objects. Each transaction increments the core's first object, and every
/// third one also the object that all cores share. Every third transaction of the last core is
/// large: it increments `large` objects of its own.
fn count(part: &Part, large: usize, tx: &mut ErasedTx<'_>) -> Result<(), Stop> {
    let count = |words: [u64; 6]| words.map(|word| word + 1);
    let is_large = is_large(part);
    for object in &part.own[..if is_large { large } else { 1 }] {
        tx.update(*object, count)?;
    }
    // A core that rarely increments the shared object leaves an old version of it in the log for
    // long.
    let shares = if part.is_last { is_large } else { part.round.is_multiple_of(3) };
    if shares {
        tx.lock(LockId(1))?;
        tx.update(part.shared, count)?;
    }
    Ok(())
}

/// A design and the settings of its run.
type Case = (&'static str, &'static [&'static str]);

/// The tiny machine and the paper's.
const MACHINES: [&str; 2] = ["tiny-redu", "redu"];

/// Settings for `redu`: DRAM buckets of seven slots. For one core and for two, a core's share of
/// the log exceeds the twelve stores of a small transaction and not the lines of a large one.
const REDU: [Case; 2] = [
    ("redu", &["redu.dram_cache_bytes=512", "log.bytes=32768", "redu.write_back=0"]),
    ("redu", &["redu.dram_cache_bytes=512", "log.bytes=32768", "redu.write_back=1"]),
];
const ALONE: &[&str] = &["log.bytes=14336"];
const BESIDE: &[&str] = &["log.bytes=16384"];
/// The same for a log whose entries have old and new words.
const BESIDE_BOTH: &[&str] = &["log.bytes=26624"];

/// Runs the program on so many cores with power cuts.
fn cut(machine: &str, (design, settings): Case, cores: usize, sizes: Parts) -> Outcome {
    let mut setup = Setup { power_cuts: 1000, ..setup(machine, design, cores, 150) };
    settings.iter().for_each(|setting| setup.description.set(setting).unwrap());
    crate::run(&setup, &sizes, &mut |_| {}).unwrap()
}

/// Returns the violations on so many cores, and the number of fallbacks.
fn violations(machine: &str, case: Case, cores: usize) -> (u64, u64) {
    let outcome = cut(machine, case, cores, SIZES);
    (outcome.violations.unwrap() + outcome.complaints.len() as u64, outcome.fallbacks)
}

/// Checks that a mutant is detected on each machine in at least one case, and that all cases pass
/// without it.
fn is_detected(mutant: Mutant, cases: &[Case], cores: usize) {
    for machine in MACHINES {
        let mut found = 0;
        for case in cases {
            let (without, fallbacks) = violations(machine, *case, cores);
            assert_eq!(without, 0, "{machine} {case:?}");
            assert!((5..80).contains(&fallbacks), "{machine} {case:?}: {fallbacks}");
            let _injected = inject(mutant);
            let (violations, _) = violations(machine, *case, cores);
            println!("{} {machine} {case:?}: {violations} of {fallbacks}", mutant.name());
            found += violations;
        }
        assert!(found > 0, "{} survived on {machine} in {cases:?}", mutant.name());
    }
}

#[test]
fn software_before_committed_data_is_applied_is_detected() {
    // A second core's commits would apply the committed data.
    is_detected(Mutant::SoftwareEarly, &REDU, 1);
    is_detected(Mutant::SoftwareEarly, &[("hw-redo", ALONE)], 1);
    is_detected(Mutant::SoftwareEarly, &[("hw-undo-redo", ALONE)], 1);
}

#[test]
fn commit_beside_software_transaction_is_detected() {
    is_detected(Mutant::CommitsBeside, &REDU, 2);
    is_detected(Mutant::CommitsBeside, &[("hw-redo", BESIDE)], 2);
    is_detected(Mutant::CommitsBeside, &[("hw-undo-redo", BESIDE_BOTH)], 2);
}

#[test]
fn undo_of_dropped_attempt_is_detected() {
    for design in ["hw-undo", "hw-undo-redo"] {
        // A second core's commits could advance Log Start past the attempt's entries.
        is_detected(Mutant::DropWithoutWord, &[(design, ALONE)], 1);
    }
}

#[test]
fn abort_without_log_room_drops_the_attempt() {
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
