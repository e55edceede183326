//! A bug by which cores wait for each other: one with locks until a line is at home, the line for a
//! record, and whoever could end that record for the locks.

use words::{ErasedTx, LockId, Objects, Stop, Words};

use super::common::setup;
use super::parts::{Part, Parts};
use crate::Error;
use crate::mutants::{Mutant, plant};
use crate::report::Outcome;

/// What the three cores do:
/// ```text
///   0   takes the lock, and commits while software runs: waits with it until all is at home
///   1   stores a line; that is to go home, and waits for its record; stores it again, and another
///       one, which sends the second entry to the open record; wants the lock
///   2   a transaction that does not fit in, by software: over before the line is at home; then one
///       that wants the lock, so that nothing of it ends the record
/// ```
const THREE: Parts = Parts { own: 40, run, gives_up: |_| false };

fn run(part: &Part, tx: &mut ErasedTx<'_>) -> Result<(), Stop> {
    let count = |words: [u64; 6]| words.map(|word| word + 1);
    let share = |tx: &mut ErasedTx<'_>| {
        tx.lock(LockId(1))?;
        tx.update(part.shared, count)
    };
    let turn = part.turn as u32;
    match part.core {
        0 => share(tx),
        1 => {
            tx.update(part.own[0], count)?;
            // Each time another moment.
            tx.compute(10_000 * (turn % 50));
            tx.update(part.own[0], count)?;
            tx.update(part.own[1], count)?;
            share(tx)
        }
        _ if turn.is_multiple_of(2) => share(tx),
        _ => {
            tx.compute(3000 * (turn % 7));
            part.own.iter().try_for_each(|object| tx.update(*object, count))
        }
    }
}

fn outcome(machine: &str) -> Result<Outcome, Error> {
    let mut setup = setup(machine, "hw-undo-redo", 3, 900);
    // A share of the log is less than what the third core stores; and all writes wait for each
    // other.
    let log = ["log.bytes=49152", "log.buffer_lines=1", "core.store_buffer=2"];
    let slow = ["nvm.write_ns=2000", "nvm.write_hit_ns=2000", "nvm.banks=1"];
    log.iter().chain(&slow).for_each(|setting| setup.description.set(setting).unwrap());
    crate::run(&setup, &THREE, &mut |_| {})
}

#[test]
fn a_record_that_nobody_ends_for_who_waits_with_locks_is_found() {
    for machine in ["tiny-redu", "redu"] {
        let twin = outcome(machine).unwrap();
        println!("{machine}: {} of {} by software", twin.fallbacks, twin.transactions);
        assert_eq!(twin.complaints, [""; 0], "{machine}");
        assert!(twin.fallbacks > 20 && twin.fallbacks < twin.transactions / 2, "{machine}");
        let _planted = plant(Mutant::OpenRecordStays);
        match outcome(machine) {
            Err(Error::Deadlock { waits, .. }) => println!("{machine}: {waits}"),
            Err(error) => panic!("{machine}: {error}"),
            Ok(_) => panic!("{} survived on {machine}", Mutant::OpenRecordStays.name()),
        }
    }
}
