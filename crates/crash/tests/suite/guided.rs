//! Tier D's target, over the committed corpus and over seeded random inputs.

use std::path::PathBuf;

use crash::guided::{CASES, execute, explore};
use crash::{Outcome, Trace};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Reads a setting: another seed from `LASTWORD_SEED`, a longer run from `LASTWORD_ROUNDS`.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

#[test]
fn corpus_violates_no_promise() {
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/explore");
    let mut entries: Vec<_> =
        std::fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    assert!(!entries.is_empty(), "the corpus is empty");
    for path in entries {
        println!("{}", path.display());
        explore(&std::fs::read(&path).unwrap());
    }
}

#[test]
fn random_bytes_violate_no_promise() {
    let (seed, rounds) = (setting("LASTWORD_SEED", 1), setting("LASTWORD_ROUNDS", 1));
    println!("LASTWORD_SEED={seed}, {} inputs", 1200 * rounds);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (mut outcome, mut recoveries, mut faults) = (Outcome::default(), 0, 0);
    for number in 0..1200 * rounds {
        let mut input = vec![0; 1 + (random.next_u64() % 400) as usize];
        random.fill_bytes(&mut input);
        let (case, report, choices) = execute(&input);
        let trace = Trace { case: case.clone(), choices };
        if let Some(violation) = report.violation {
            let events = trace.replay().unwrap().1.join("\n");
            panic!("input {number} of seed {seed}: {violation}\n{trace}\n{events}");
        }
        recoveries += report.recoveries;
        faults += report.faults;
        outcome.all_present += report.outcome.all_present;
        outcome.some_lost += report.outcome.some_lost;
        outcome.none += report.outcome.none;
    }
    println!("{recoveries} recoveries, {faults} faults, {outcome:?}");
    assert!(recoveries > 0 && faults > 0 && CASES.len() < 256);
    let Outcome { all_present, some_lost, none } = outcome;
    assert!(all_present > 0 && some_lost > 0 && none > 0, "{outcome:?}");
}

#[test]
fn input_equals_its_trace() {
    let input: Vec<u8> = (0..200_u8).map(|at| at.wrapping_mul(73)).collect();
    let (case, report, choices) = execute(&input);
    let (again, _) = Trace { case: case.clone(), choices }.replay().unwrap();
    assert_eq!((again.recoveries, again.images), (report.recoveries, report.images));
}
