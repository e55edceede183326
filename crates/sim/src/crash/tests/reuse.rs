//! Power failures while memory changes hands: cores free what others have allocated, and allocate
//! objects of other sizes, byte strings and arrays.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use words::{Addr, Allocate, BLOCK_BYTES, Erased, ErasedTx, LockId, Objects, Ptr, Stop, Transact};
use words::{PIECE_BYTES, PIECE_STRIDE, Words, block_stride};

use super::common::setup;
use crate::Setup;
use crate::program::{Client, Ended, Loaded, Program};

const SLOTS: usize = 6;

/// An address and a size in bytes for each slot, or 0. A multiple of [`BLOCK_BYTES`] above the
/// largest object is an array's.
type Table = [[u64; 2]; SLOTS];

/// The program: a table for each core, which all cores change.
struct Reuse;

struct Tables(Vec<Ptr<Table>>);

struct Changer {
    tables: Vec<Ptr<Table>>,
    random: SmallRng,
    change: Change,
}

/// The next transaction: the slots of one table to change, and the sizes to allocate in those that
/// are empty.
#[derive(Clone, Copy, Default)]
struct Change {
    table: usize,
    slots: [(usize, u64); 3],
}

fn tables<T: Transact>(worker: &mut T, cores: usize) -> Result<Vec<Ptr<Table>>, T::Error> {
    (0..cores).map(|_| worker.transact(|tx| tx.alloc([[0; 2]; SLOTS]))).collect()
}

/// Returns the objects that hold something of this size, and where in each a word has its content.
fn parts(at: u64, bytes: u64) -> impl Iterator<Item = Addr> {
    let (part, stride) = match bytes {
        _ if is_array(bytes) => (BLOCK_BYTES, block_stride(at)),
        _ => (PIECE_BYTES + 16, PIECE_STRIDE),
    };
    let part = if bytes <= 1024 || is_array(bytes) { part } else { PIECE_BYTES };
    let count = if is_array(bytes) { 1 } else { bytes.div_ceil(part) };
    (0..count).map(move |index| Addr::new(at + index * stride, 0))
}

fn is_array(bytes: u64) -> bool {
    bytes > 1024 && bytes.is_multiple_of(BLOCK_BYTES)
}

fn allocate<W: Allocate>(tx: &mut W, bytes: u64) -> Result<u64, Stop> {
    let at = match bytes {
        ..=1024 => tx.allocate(bytes as usize)?,
        _ if is_array(bytes) => {
            let first = tx.reserve_blocks(bytes / BLOCK_BYTES)?;
            tx.prepare_blocks(first, 1)?;
            first
        }
        _ => tx.allocate_pieces(bytes)?,
    };
    parts(at, bytes).try_for_each(|at| tx.write(at, bytes))?;
    Ok(at)
}

fn wrong<T: Transact>(worker: &mut T, tables: &[Ptr<Table>]) -> Result<Vec<String>, T::Error> {
    worker.transact(|tx| {
        let mut wrong = Vec::new();
        for &table in tables {
            for [at, bytes] in tx.get(table)? {
                for part in parts(at, bytes) {
                    let found = tx.read(part)?;
                    if found != bytes {
                        wrong.push(format!("{part:x?} of {bytes} bytes is {found:#x}"));
                    }
                }
            }
        }
        Ok(wrong)
    })
}

impl Program for Reuse {
    fn name(&self) -> &str {
        "reuse"
    }

    fn heap_bytes(&self) -> u64 {
        8 << 20
    }

    fn load(&self, worker: &mut Erased<'_, Ended>, cores: usize) -> Result<Box<dyn Loaded>, Ended> {
        Ok(Box::new(Tables(tables(worker, cores)?)))
    }
}

impl Loaded for Tables {
    fn client(&self, core: usize) -> Box<dyn Client> {
        let random = SmallRng::seed_from_u64(core as u64);
        Box::new(Changer { tables: self.0.clone(), random, change: Change::default() })
    }

    fn check(&self, worker: &mut Erased<'_, Ended>) -> Result<Vec<String>, Ended> {
        wrong(worker, &self.0)
    }
}

impl Client for Changer {
    fn next(&mut self) {
        let random = &mut self.random;
        let table = random.random_range(0..self.tables.len());
        let slots = [(); 3].map(|()| {
            let bytes = match random.random_range(0..8) {
                0 => 5 * BLOCK_BYTES,
                1 => 3001,
                2 => 1024,
                _ => random.random_range(1..=400),
            };
            (random.random_range(0..SLOTS), bytes)
        });
        self.change = Change { table, slots };
    }

    fn run(&self, tx: &mut ErasedTx<'_>) -> Result<(), Stop> {
        let Change { table: number, slots } = self.change;
        let table = self.tables[number];
        tx.lock(LockId::of(0, number as u64))?;
        let mut words = tx.get(table)?;
        for (slot, size) in slots {
            words[slot] = match words[slot] {
                [0, _] => [allocate(tx, size)?, size],
                [at, bytes] => {
                    tx.retire(Addr::new(at, 0), bytes)?;
                    [0, 0]
                }
            };
        }
        tx.set(table, words)
    }
}

#[test]
fn memory_that_changes_hands_survives_power_failures() {
    for (machine, designs) in [
        ("tiny-lad", &["lad", "lad-llc", "sw-undo"][..]),
        ("tiny-redu", &["redu", "hw-undo", "hw-redo", "hw-undo-redo"]),
        ("tiny-ssp", &["ssp", "ssp-undo", "ssp-redo"]),
    ] {
        for design in designs {
            let mut setup = Setup { power_cuts: 100, ..setup(machine, design, 4, 150) };
            // Transactions of four cores hold more lines than the smallest cache's sets.
            let more = (*design == "lad-llc").then_some("llc.bytes=16384");
            more.into_iter().for_each(|more| setup.description.set(more).unwrap());
            let outcome = crate::run(&setup, &Reuse, &mut |_| {}).unwrap();
            assert_eq!(outcome.violations, Some(0), "{machine} {design}");
            assert_eq!(outcome.complaints, [""; 0], "{machine} {design}");
        }
    }
}
