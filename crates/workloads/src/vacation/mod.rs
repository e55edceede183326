//! `vacation`: customers reserve cars, flights and rooms, as in STAMP's vacation with low
//! contention (Pisces, table 5).
//!
//! ```text
//!   cars, flights, rooms (a hash table each)     id -> used | free | total | price
//!   customers (a hash table)                     id -> reservations | how many
//!                                                        |
//!                     a list, in order of kind and id:   -> kind, id | price -> ... -> 0
//!   stamps: a word for each worker, the stamp of its last transaction
//! ```
//!
//! 65 536 rows in each of the four tables times the scale, between STAMP's small input (16 384) and
//! its large one (1 048 576, `--scale 16`); as many chains as rows. Of 100 transactions (STAMP's
//! `-n2 -q90 -u98`), each on one or two things, drawn uniformly from the first 90 of 100 rows:
//!
//! | | |
//! |---|---|
//! | 98 | look at things; of each kind reserve the dearest, in the name of one customer |
//! | 1 | delete a customer and release its reservations |
//! | 1 | of things: add 100 places at another price, or remove 100; rows appear and disappear so |
//!
//! **400 000 transactions are one run of the benchmark.** In STAMP's longest runs a customer holds
//! dozens of reservations. Here it holds at most 16, and the next one releases its first. In one
//! run that is rare (some 10 a customer). A transaction writes some 14 words.
//!
//! The check: chains and lists are sound, used + free = total in each row, and the used places are
//! the customers' reservations, row by row.
//!
//! # Locks
//!
//! First a customer's chain, which guards its reservations too. Then the chains of rows: those that
//! the transaction uses, and those that it may release, which the customer's list gives.
//!
//! # Snapshot isolation
//!
//! Snapshot isolation suffices without protection. Every change of a customer writes its entry (the
//! number of reservations), so a reservation conflicts with the deletion of its customer, and with
//! another reservation for it. A removed entry is written, so a reservation conflicts with the
//! removal of its row. Two inserts of a customer or row write the same link. The unwritten reads of
//! a row are its price and its presence: two reservations that each take another of the same two
//! rows read no word that the other changes (free places are read in the row that is taken, and
//! written).

mod check;
mod locks;
mod tables;
mod tasks;

use rand_xoshiro::Xoshiro256PlusPlus;
use words::{Allocate, Place, Stop, Transact, Words, work};

use crate::keys::{below, generator};
use crate::root;
use crate::stamp::Stamp;
use crate::{Options, Violation, Workload, with_slack};
use tables::{Tables, mark};

/// Cars, flights, rooms.
const KINDS: usize = 3;

/// Most things of a transaction.
const THINGS_MAX: usize = 2;

/// Percentage of the rows that transactions use.
const QUERIED_PERCENT: u64 = 90;

/// Percentage of transactions that reserve.
const RESERVED_PERCENT: u64 = 98;

/// Most reservations of a customer.
const HELD_MAX: u64 = 16;

/// Places that are added or removed at once.
const PLACES: u64 = 100;

/// A travel agency.
#[derive(Clone, Copy, Debug)]
pub struct Vacation {
    tables: Tables,
    /// In each table; ids are 1, 2, ...
    rows: u64,
}

/// One worker's transactions.
#[derive(Clone, Debug)]
pub struct VacationClient {
    rng: Xoshiro256PlusPlus,
    index: u64,
    stamp: Stamp,
    task: Task,
    customer: u64,
    things: [Thing; THINGS_MAX],
    count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Reserve,
    Delete,
    Change,
}

/// A row of a transaction.
#[derive(Clone, Copy, Debug, Default)]
struct Thing {
    kind: usize,
    id: u64,
    /// The price with which places are added; `None`: they are removed.
    price: Option<u64>,
}

impl Workload for Vacation {
    const NAME: &'static str = <Vacation as root::Build>::NAME;
    const ABOUT: &'static str = "STAMP's vacation: reserve cars, flights and rooms for customers";
    type Client = VacationClient;

    fn heap_bytes(options: &Options) -> u64 {
        with_slack(tables::bytes(tables::rows(options)))
    }

    fn load<T: Transact>(worker: &mut T, options: &Options) -> Result<Vacation, T::Error> {
        let rows = tables::rows(options);
        Ok(Vacation { tables: root::load::<Vacation, T>(worker, rows)?, rows })
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Vacation>, T::Error> {
        let found = root::open::<Vacation, T>(worker)?;
        Ok(found.map(|(rows, tables)| Vacation { tables, rows: rows.min(tables::ROWS_MAX) }))
    }

    fn client(&self, index: usize, seed: u64) -> VacationClient {
        VacationClient {
            rng: generator(index, seed),
            index: index as u64,
            stamp: Stamp::first(index, seed),
            task: Task::Reserve,
            customer: 0,
            things: [Thing::default(); THINGS_MAX],
            count: 0,
        }
    }

    #[inline]
    fn next(&self, client: &mut VacationClient) {
        let (rng, range) = (&mut client.rng, self.rows * QUERIED_PERCENT / 100);
        client.task = match below(rng, 100) < RESERVED_PERCENT {
            true => Task::Reserve,
            false if below(rng, 2) == 0 => Task::Delete,
            false => Task::Change,
        };
        client.customer = 1 + below(rng, range);
        client.count = 1 + below(rng, THINGS_MAX as u64) as usize;
        for thing in &mut client.things {
            let (kind, id) = (below(rng, KINDS as u64) as usize, 1 + below(rng, range));
            let adds = below(rng, 2) == 0;
            *thing = Thing { kind, id, price: adds.then_some(50 + 10 * below(rng, 5)) };
        }
        client.stamp.advance();
    }

    #[inline]
    fn run<W: Allocate>(&self, client: &VacationClient, tx: &mut W) -> Result<(), Stop> {
        tx.compute(work::FRAME);
        let things = &client.things[..client.count];
        match client.task {
            Task::Reserve => self.reserve(client.customer, things, tx)?,
            Task::Delete => self.delete(client.customer, tx)?,
            Task::Change => self.change(things, tx)?,
        }
        tx.write(mark(&self.tables, client.index)?.addr(), client.stamp.value(client.index))
    }

    fn is_present<W: Words>(&self, client: &VacationClient, tx: &mut W) -> Result<bool, Stop> {
        let found = tx.read(mark(&self.tables, client.index)?.addr())?;
        Ok(client.stamp.is_in(found, client.index))
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<Violation>, T::Error> {
        check::check(self, worker)
    }
}

#[cfg(test)]
mod tests {
    use words::mock::Mock;

    use super::*;

    #[test]
    fn rows_and_customers_appear_and_disappear() {
        let options = Options { scale: 1e-6, ..Options::default() };
        let mut mock = Mock::new(Vacation::heap_bytes(&options) as usize);
        let vacation = Vacation::load(&mut mock, &options).unwrap();
        let mut client = vacation.client(0, 1);
        let (mut most, mut rows_gone, mut customers_gone) = (0, 0, 0);
        for number in 0..20_000 {
            vacation.next(&mut client);
            mock.transact(|tx| vacation.run(&client, tx)).unwrap();
            if number % 100 > 0 {
                continue;
            }
            let Tables { things, customers, .. } = vacation.tables;
            let (mut rows, mut here) = (0, 0);
            mock.transact(|tx| {
                things[0].scan(tx, 0, u64::MAX, |_, _| rows += 1)?;
                customers.scan(tx, 0, u64::MAX, |_, &[_, held]| {
                    (here, most) = (here + 1, most.max(held));
                })
            })
            .unwrap();
            rows_gone += usize::from(rows < vacation.rows);
            customers_gone += usize::from(here < vacation.rows);
        }
        assert_eq!(most, HELD_MAX);
        assert!(rows_gone > 20 && customers_gone > 20, "{rows_gone}, {customers_gone}");
        assert_eq!(vacation.check(&mut mock).unwrap(), []);
    }
}
