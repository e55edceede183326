//! `bulk`: an array that each transaction overwrites as a whole, so that a few of them fill the
//! log, and its next wrap overwrites recycled groups.

use words::{Allocate, Objects, Ptr, Stop, Transact};

use super::Scenario;

/// Objects of 1 KiB.
const PARTS: usize = 10;
const PART_WORDS: usize = 128;

type Part = [u64; PART_WORDS];
type Table = [Ptr<Part>; PARTS];

/// The array.
#[derive(Clone, Copy, Debug)]
pub struct Bulk(Ptr<Table>);

impl Scenario for Bulk {
    const NAME: &'static str = "bulk";
    const HEAP_BYTES: u64 = 256 << 10;
    type Client = u64;

    fn load<T: Transact>(worker: &mut T) -> Result<(), T::Error> {
        worker.transact(|tx| {
            let mut table = [Ptr::NULL; PARTS];
            for part in &mut table {
                *part = tx.alloc([0_u64; PART_WORDS])?;
            }
            let table = tx.alloc(table)?;
            tx.set_root_ptr(table)
        })
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Bulk>, T::Error> {
        let root = worker.transact(|tx| tx.root_ptr::<Table>())?;
        Ok((!root.is_null()).then_some(Bulk(root)))
    }

    fn client(&self, worker: usize, seed: u64) -> u64 {
        (seed << 8 | worker as u64) << 16
    }

    fn next(&self, client: &mut u64) {
        *client += 1;
    }

    fn run<W: Allocate>(&self, client: &u64, tx: &mut W) -> Result<(), Stop> {
        for part in tx.get(self.0)? {
            tx.set(part, [*client; PART_WORDS])?;
        }
        Ok(())
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<String>, T::Error> {
        worker
            .transact(|tx| {
                let mut values = Vec::new();
                for part in tx.get(self.0)? {
                    values.extend(tx.get(part)?);
                }
                let other = values.iter().position(|value| *value != values[0]);
                Ok(other
                    .map(|at| format!("word 0: {:#x}, word {at}: {:#x}", values[0], values[at])))
            })
            .map(|wrong| wrong.into_iter().collect())
    }
}
