//! Agreement of describe, check, dump, repair and open on the same damage.
//!
//! `LASTWORD_ROUNDS=25 cargo test -p lastword-crash-tests --test suite agree::` edits 5000 pools.

use crash::hostile::agree;

/// Reads a setting: another seed from `LASTWORD_SEED`, a longer run from `LASTWORD_ROUNDS`.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

#[test]
fn check_info_dump_and_open_agree_on_edited_pools() {
    let (seed, rounds) = (setting("LASTWORD_SEED", 1), setting("LASTWORD_ROUNDS", 1));
    println!("LASTWORD_SEED={seed}, {} edits", 200 * rounds);
    let tally = agree::run(seed, 200 * rounds);
    println!("{tally:#?}");
    let refused: u64 = tally.refused.values().sum();
    assert!(tally.opened > 20 && tally.renewed > 0 && refused > 20, "{tally:?}");
    assert!(tally.refused.contains_key("layout") && tally.refused.len() > 5, "{tally:?}");
}
