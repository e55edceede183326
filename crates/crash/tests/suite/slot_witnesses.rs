//! The rounds of `slot_losses` without a bug, and with each bug in the witnesses of slots.
//!
//! `LASTWORD_ROUNDS=50 cargo test -p lastword-crash-tests --test suite slot_witnesses::` makes more
//! rounds.

use faults::mutants::Mutant;

use crate::slot_losses::{lose_pages, lost_pages};
use crate::witnesses::setting;

/// The designs that have slots.
const DESIGNS: [&str; 3] = ["undo", "redo", "snapshot"];

#[test]
fn lost_page_of_slots_is_refused_or_unwitnessed() {
    let (seed, rounds) = (setting("LASTWORD_SEED", 1), 12 * setting("LASTWORD_ROUNDS", 1));
    println!("LASTWORD_SEED={seed}, {rounds} rounds of each design");
    for name in DESIGNS {
        let lost = lose_pages(name, None, seed..seed + rounds);
        let tally = lost.unwrap_or_else(|broken| panic!("{broken}"));
        println!("{name}: {tally:?}");
        assert!(tally.cut > 0 && tally.whole > 0, "{name}: {tally:?}");
        assert!(tally.refused > 0, "{name}: {tally:?}");
    }
}

#[test]
fn missing_slot_witness_is_found_by_losses() {
    for (bug, designs) in [
        (Mutant::HeadNotDoubled, &DESIGNS[..1]),
        (Mutant::SlotPageWitnessLeftOut, &DESIGNS),
        (Mutant::SlotPageWitnessIntoCache, &DESIGNS),
        (Mutant::TruncationVoidsWitness, &DESIGNS[1..]),
        // A truncation of `redo` frees all records, except beside other threads.
        (Mutant::SlotWitnessNotKept, &DESIGNS[2..]),
    ] {
        for name in designs {
            let found = lost_pages(name, Some(bug));
            println!("{bug:?}: {found:?}");
            assert!(found.is_some(), "{bug:?} of {name} survives");
        }
    }
}
