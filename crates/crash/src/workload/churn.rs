//! `churn`: objects of several sizes are allocated and freed; each holds its size in every word.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use words::{Addr, Allocate, Objects, Ptr, Stop, Transact, Words};

use super::{Scenario, generator};

const SLOTS: usize = 12;
const SIZES: [u64; 2] = [16, 1024];

/// An address and a size in bytes for each slot; 0 when it is empty.
type Table = [[u64; 2]; SLOTS];

/// The table of slots.
#[derive(Clone, Copy, Debug)]
pub struct Churn(Ptr<Table>);

/// A generator of changes of slots.
#[derive(Clone, Debug)]
pub struct Client {
    random: Xoshiro256PlusPlus,
    /// The slots to change, and the size to allocate in each that is empty.
    changes: [(usize, u64); 2],
}

impl Scenario for Churn {
    const NAME: &'static str = "churn";
    const HEAP_BYTES: u64 = 640 << 10;
    type Client = Client;

    fn load<T: Transact>(worker: &mut T) -> Result<(), T::Error> {
        worker.transact(|tx| {
            let table = tx.alloc([[0_u64; 2]; SLOTS])?;
            tx.set_root_ptr(table)
        })
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Churn>, T::Error> {
        let root = worker.transact(|tx| tx.root_ptr::<Table>())?;
        Ok((!root.is_null()).then_some(Churn(root)))
    }

    fn client(&self, worker: usize, seed: u64) -> Client {
        Client { random: generator(worker, seed), changes: [(0, 0); 2] }
    }

    fn next(&self, client: &mut Client) {
        for change in &mut client.changes {
            let size = SIZES[client.random.random_range(0..SIZES.len())];
            *change = (client.random.random_range(0..SLOTS), size);
        }
    }

    fn run<W: Allocate>(&self, client: &Client, tx: &mut W) -> Result<(), Stop> {
        let mut table = tx.get(self.0)?;
        for (slot, bytes) in client.changes {
            table[slot] = match table[slot] {
                [0, _] => {
                    let object = tx.allocate(bytes as usize)?;
                    for at in (0..bytes).step_by(8) {
                        tx.write(Addr::new(object, at), bytes)?;
                    }
                    [object, bytes]
                }
                [object, bytes] => {
                    tx.retire(Addr::new(object, 0), bytes)?;
                    [0, 0]
                }
            };
        }
        tx.set(self.0, table)
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<String>, T::Error> {
        worker.transact(|tx| {
            let mut wrong = Vec::new();
            for [object, bytes] in tx.get(self.0)? {
                if object == 0 {
                    continue;
                }
                for at in (0..bytes).step_by(8) {
                    let found = tx.read(Addr::new(object, at))?;
                    if found != bytes {
                        wrong.push(format!("object {object:#x} of {bytes}, byte {at}: {found:#x}"));
                    }
                }
            }
            Ok(wrong)
        })
    }
}
