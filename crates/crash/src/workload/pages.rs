//! `pages`: counters on more pages than a small shadow holds; each transaction moves one unit from
//! one counter to another.

use words::{Allocate, Objects, Ptr, Stop, Transact};

use super::Scenario;

/// Counters, each in a page of its own.
const PARTS: usize = 14;
/// Objects of 1 KiB in a page; the last one is a counter.
const OBJECTS: usize = 4;
const PART_WORDS: usize = 128;

/// A counter, repeated in all of its words.
type Part = [u64; PART_WORDS];
type Table = [Ptr<Part>; PARTS];

/// The table of counters.
#[derive(Clone, Copy, Debug)]
pub struct Pages(Ptr<Table>);

impl Scenario for Pages {
    const NAME: &'static str = "pages";
    const HEAP_BYTES: u64 = 256 << 10;
    type Client = u64;

    fn load<T: Transact>(worker: &mut T) -> Result<(), T::Error> {
        // In steps: no transaction may write many pages.
        let table = worker.transact(|tx| match tx.root_ptr::<Table>()? {
            table if table.is_null() => {
                let table = tx.alloc([Ptr::NULL; PARTS])?;
                tx.set_root_ptr(table)?;
                Ok(table)
            }
            table => Ok(table),
        })?;
        for part in 0..PARTS {
            worker.transact(|tx| {
                let mut parts = tx.get(table)?;
                if parts[part].is_null() {
                    for _ in 0..OBJECTS {
                        parts[part] = tx.alloc([0_u64; PART_WORDS])?;
                    }
                    tx.set(table, parts)?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Pages>, T::Error> {
        worker.transact(|tx| {
            let root = tx.root_ptr::<Table>()?;
            let loaded = !root.is_null() && !tx.get(root)?[PARTS - 1].is_null();
            Ok(loaded.then_some(Pages(root)))
        })
    }

    fn client(&self, worker: usize, seed: u64) -> u64 {
        (seed << 8 | worker as u64) << 16
    }

    fn next(&self, client: &mut u64) {
        // The part numbers come from the generator's high bits, so that all parts are visited.
        *client = client.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    }

    fn run<W: Allocate>(&self, client: &u64, tx: &mut W) -> Result<(), Stop> {
        let parts = tx.get(self.0)?;
        let part = |bits: u32| parts[(*client >> bits) as usize % PARTS];
        for (part, change) in [(part(33), 1), (part(45), u64::MAX)] {
            let count = tx.get(part)?[0];
            tx.set(part, [count.wrapping_add(change); PART_WORDS])?;
        }
        Ok(())
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<String>, T::Error> {
        worker.transact(|tx| {
            let mut wrong = Vec::new();
            let mut sum = 0_u64;
            for part in tx.get(self.0)? {
                let words = tx.get(part)?;
                sum = sum.wrapping_add(words[0]);
                if words.iter().any(|word| *word != words[0]) {
                    wrong.push(format!("a counter is torn: {:?}", &words[..4]));
                }
            }
            if sum != 0 {
                wrong.push(format!("the counters have a sum of {sum}"));
            }
            Ok(wrong)
        })
    }
}
