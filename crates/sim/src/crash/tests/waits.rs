//! A bug by which cores wait for each other: one with locks until a line is at home, the line for a
//! record, and whoever could end that record for the locks.

use words::{Erased, ErasedTx, LockId, Objects, Ptr, Stop, Transact, Words};

use super::common::setup;
use crate::mutants::{Mutant, plant};
use crate::program::{Client, Ended, Loaded, Program};
use crate::report::Outcome;
use crate::{Error, Setup};

/// Objects of a core, a line each.
const OWN: usize = 40;

/// What the three cores do:
/// ```text
///   0   takes the lock, and commits while software runs: waits with it until all is at home
///   1   stores a line; that is to go home, and waits for its record; stores it again, and another
///       one, which sends the second entry to the open record; wants the lock
///   2   a transaction that does not fit in, by software: over before the line is at home; then one
///       that wants the lock, so that nothing of it ends the record
/// ```
struct Three;

/// A core's part, with how many transactions it has begun.
struct Part {
    core: usize,
    own: Vec<Ptr<[u64; 6]>>,
    shared: Ptr<[u64; 6]>,
    turn: u32,
}

struct All(Vec<Vec<Ptr<[u64; 6]>>>);

fn objects<T: Transact>(worker: &mut T) -> Result<Vec<Ptr<[u64; 6]>>, T::Error> {
    (0..OWN).map(|_| worker.transact(|tx| tx.alloc([0_u64; 6]))).collect()
}

impl Program for Three {
    fn name(&self) -> &str {
        "three"
    }

    fn heap_bytes(&self) -> u64 {
        1 << 20
    }

    fn load(&self, worker: &mut Erased<'_, Ended>, cores: usize) -> Result<Box<dyn Loaded>, Ended> {
        let all = (0..=cores).map(|_| objects(worker)).collect::<Result<_, _>>();
        Ok(Box::new(All(all?)))
    }
}

impl Loaded for All {
    fn client(&self, core: usize) -> Box<dyn Client> {
        let (own, shared) = (self.0[core].clone(), self.0[self.0.len() - 1][0]);
        Box::new(Part { core, own, shared, turn: 0 })
    }

    fn check(&self, _: &mut Erased<'_, Ended>) -> Result<Vec<String>, Ended> {
        Ok(Vec::new())
    }
}

impl Client for Part {
    fn next(&mut self) {
        self.turn += 1;
    }

    fn run(&self, tx: &mut ErasedTx<'_>) -> Result<(), Stop> {
        let count = |words: [u64; 6]| words.map(|word| word + 1);
        match self.core {
            0 => {
                tx.lock(LockId(1))?;
                tx.update(self.shared, count)
            }
            1 => {
                tx.update(self.own[0], count)?;
                // Each time another moment.
                tx.compute(10_000 * (self.turn % 50));
                tx.update(self.own[0], count)?;
                tx.update(self.own[1], count)?;
                tx.lock(LockId(1))?;
                tx.update(self.shared, count)
            }
            _ if self.turn.is_multiple_of(2) => {
                tx.lock(LockId(1))?;
                tx.update(self.shared, count)
            }
            _ => {
                tx.compute(3000 * (self.turn % 7));
                self.own.iter().try_for_each(|object| tx.update(*object, count))
            }
        }
    }
}

fn outcome(machine: &str) -> Result<Outcome, Error> {
    let mut setup: Setup = setup(machine, "hw-undo-redo", 3, 900);
    // A share of the log is less than what the third core stores; and all writes wait for each
    // other.
    let log = ["log.bytes=49152", "log.buffer_lines=1", "core.store_buffer=2"];
    let slow = ["nvm.write_ns=2000", "nvm.write_hit_ns=2000", "nvm.banks=1"];
    log.iter().chain(&slow).for_each(|setting| setup.description.set(setting).unwrap());
    crate::run(&setup, &Three, &mut |_| {})
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
