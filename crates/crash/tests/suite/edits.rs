//! Damage anywhere in the files of a pool with page checksums.
//!
//! `LASTWORD_ROUNDS=100 cargo test -p lastword-crash-tests --test suite edits::` makes 80 000
//! edits: of each design 5000 on files by one worker, on files by two, on `emulated`, and on
//! `persistent_cache`.

use crash::hostile::edits;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

#[test]
fn edited_pool_is_refused_or_shows_acknowledged_content() {
    let (seed, rounds) = (setting("LASTWORD_SEED", 1), setting("LASTWORD_ROUNDS", 1));
    println!("LASTWORD_SEED={seed}, {} edits", 800 * rounds);
    let tally = edits::run(seed, 800 * rounds);
    println!("{tally:#?}");
    let refused = |name| tally.refused.get(name).copied().unwrap_or(0);
    assert!(tally.whole > 20 && tally.salvaged > 100, "{tally:?}");
    assert!(
        refused("damaged_pages") > 20 && refused("log_groups") + refused("log_group") > 0,
        "{tally:?}"
    );
}
