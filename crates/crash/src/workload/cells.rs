//! `cells`: four words in one object; each transaction writes two of them and their sum. It is
//! small enough to try every crash and every content.

use words::{Allocate, Objects, Ptr, Stop, Transact};

use super::Scenario;

const CELLS: usize = 4;

/// The cells, and their sum, which a torn transaction breaks.
type Table = [u64; CELLS + 1];

/// The object of the cells.
#[derive(Clone, Copy, Debug)]
pub struct Cells(Ptr<Table>);

/// A generator of transactions whose values are unique.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    value: u64,
}

impl Scenario for Cells {
    const NAME: &'static str = "cells";
    const HEAP_BYTES: u64 = 128 << 10;
    type Client = Writer;

    fn load<T: Transact>(worker: &mut T) -> Result<(), T::Error> {
        worker.transact(|tx| {
            let table = tx.alloc([0_u64; CELLS + 1])?;
            tx.set_root_ptr(table)
        })
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Cells>, T::Error> {
        let root = worker.transact(|tx| tx.root_ptr::<Table>())?;
        Ok((!root.is_null()).then_some(Cells(root)))
    }

    fn client(&self, worker: usize, seed: u64) -> Writer {
        Writer { value: (seed << 8 | worker as u64) << 16 }
    }

    fn next(&self, client: &mut Writer) {
        client.value += 1;
    }

    fn run<W: Allocate>(&self, client: &Writer, tx: &mut W) -> Result<(), Stop> {
        let mut table = tx.get(self.0)?;
        let first = client.value as usize % CELLS;
        let second = (first + 1 + (client.value >> 16) as usize % (CELLS - 1)) % CELLS;
        (table[first], table[second]) = (client.value, !client.value);
        table[CELLS] = sum(&table);
        tx.set(self.0, table)
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<String>, T::Error> {
        let table = worker.transact(|tx| tx.get(self.0))?;
        let (expected, found) = (sum(&table), table[CELLS]);
        Ok(match expected == found {
            true => Vec::new(),
            false => vec![format!("the sum of {table:x?} is {expected:x}")],
        })
    }
}

fn sum(table: &Table) -> u64 {
    table[..CELLS].iter().fold(0, |sum, cell| sum.wrapping_mul(31).wrapping_add(*cell))
}
