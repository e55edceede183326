//! The bodies of the fuzz targets, over the committed corpus and over seeded random inputs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use crash::hostile::TARGETS;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Reads a setting: another seed from `LASTWORD_SEED`, a longer run from `LASTWORD_ROUNDS`.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

fn corpus(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus").join(target)
}

#[test]
fn corpus_gives_a_value_or_a_typed_error() {
    for (name, run) in TARGETS {
        let mut entries: Vec<_> =
            std::fs::read_dir(corpus(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        assert!(!entries.is_empty(), "{name} has a corpus");
        for path in entries {
            let input = std::fs::read(&path).unwrap();
            let done = catch_unwind(AssertUnwindSafe(|| run(&input)));
            assert!(done.is_ok(), "{}", path.display());
        }
    }
}

/// Runs random inputs of every length up to a limit, mostly short ones.
fn random_inputs(target: usize, inputs: u64) {
    let (name, run) = TARGETS[target];
    let (seed, rounds) = (setting("LASTWORD_SEED", 1), setting("LASTWORD_ROUNDS", 1));
    println!("{name}: LASTWORD_SEED={seed}, {} inputs", inputs * rounds);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    for number in 0..inputs * rounds {
        let length = random.next_u64() % (1 << (2 + random.next_u64() % 6));
        let mut input = vec![0; length as usize];
        random.fill_bytes(&mut input);
        let done = catch_unwind(AssertUnwindSafe(|| run(&input)));
        if done.is_err() {
            let path = std::env::temp_dir().join(format!("hostile-{name}-{seed}-{number}"));
            std::fs::write(&path, &input).unwrap();
            panic!("{name}: input {number} of seed {seed} is kept in {}", path.display());
        }
    }
}

#[test]
fn random_superblocks_give_a_value_or_a_typed_error() {
    random_inputs(0, 1000);
}

#[test]
fn random_logs_give_a_value_or_a_typed_error() {
    random_inputs(1, 20_000);
}

#[test]
fn random_heaps_give_a_value_or_a_typed_error() {
    random_inputs(2, 2000);
}

#[test]
fn random_changes_to_pools_give_a_value_or_a_typed_error() {
    random_inputs(3, 2000);
}
