//! The mutant of a cyclic wait: a core with locks waits for a line to be written to the heap image,
//! the line waits for its record, and the core that could end the record waits for the locks.

use words::{ErasedTx, LockId, Objects, Stop, Words};

use super::common::setup;
use super::parts::{Part, Parts};
use crate::Error;
use crate::mutants::{Mutant, inject};
use crate::report::Outcome;

/// The roles of the three cores:
/// ```text
///   0   takes the lock and commits while software runs: holds it until all lines are written back
///   1   stores a line, whose write-back waits for its record; stores it again, and another line,
///       which sends the second entry to the open record; then wants the lock
///   2   runs a transaction in software that does not fit into the log, over before the line is
///       written back; then one more wants the lock, so that none of its entries ends the record
/// ```
const THREE: Parts = Parts { own: 40, run, gives_up: |_| false };

fn run(part: &Part, tx: &mut ErasedTx<'_>) -> Result<(), Stop> {
    let count = |words: [u64; 6]| words.map(|word| word + 1);
    let share = |tx: &mut ErasedTx<'_>| {
        tx.lock(LockId(1))?;
        tx.update(part.shared, count)
    };
    let round = part.round as u32;
    match part.core {
        0 => share(tx),
        1 => {
            tx.update(part.own[0], count)?;
            // Vary the time between the stores.
            tx.compute(10_000 * (round % 50));
            tx.update(part.own[0], count)?;
            tx.update(part.own[1], count)?;
            share(tx)
        }
        _ if round.is_multiple_of(2) => share(tx),
        _ => {
            tx.compute(3000 * (round % 7));
            part.own.iter().try_for_each(|object| tx.update(*object, count))
        }
    }
}

fn outcome(machine: &str) -> Result<Outcome, Error> {
    let mut setup = setup(machine, "hw-undo-redo", 3, 1200);
    // A core's share of the log is less than the third core's stores need, and writes are
    // serialized.
    let log = ["log.bytes=49152", "log.buffer_lines=1", "core.store_buffer=2"];
    let slow = ["nvm.write_ns=2000", "nvm.write_hit_ns=2000", "nvm.banks=1"];
    log.iter().chain(&slow).for_each(|setting| setup.description.set(setting).unwrap());
    crate::run(&setup, &THREE, &mut |_| {})
}

#[test]
fn open_record_that_blocks_a_lock_holder_is_detected() {
    for machine in ["tiny-redu", "redu"] {
        let without = outcome(machine).unwrap();
        println!("{machine}: {} of {} by software", without.fallbacks, without.transactions);
        assert_eq!(without.complaints, [""; 0], "{machine}");
        assert!(
            without.fallbacks > 20 && without.fallbacks < without.transactions / 2,
            "{machine}"
        );
        let _injected = inject(Mutant::OpenRecordStays);
        match outcome(machine) {
            Err(Error::Deadlock { waits, .. }) => println!("{machine}: {waits}"),
            Err(error) => panic!("{machine}: {error}"),
            Ok(_) => panic!("{} survived on {machine}", Mutant::OpenRecordStays.name()),
        }
    }
}
