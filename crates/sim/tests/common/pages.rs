//! A program that stays on a page for a while: most of its lines change before the next one's turn.

use sim::program::{Client, Ended, Loaded, Program};
use words::{Erased, ErasedTx, Objects, Ptr, Stop, Transact, Words};

/// Pages of each core, lines of a page, lines of a transaction, and transactions before a page's
/// turn is over.
const PAGES: usize = 6;
const LINES: usize = 64;
const WRITES: usize = 6;
const STAYS: u64 = 12;

type Line = Ptr<[u64; 8]>;

/// Every core counts in lines of its own.
pub(crate) struct Pages;

struct Tables(Vec<Vec<Line>>);

struct Stayer {
    table: Vec<Line>,
    state: u64,
    transactions: u64,
    lines: Vec<Line>,
}

fn table<T: Transact>(worker: &mut T) -> Result<Vec<Line>, T::Error> {
    (0..PAGES * LINES).map(|_| worker.transact(|tx| tx.alloc([0_u64; 8]))).collect()
}

impl Program for Pages {
    fn name(&self) -> &str {
        "pages"
    }

    fn heap_bytes(&self) -> u64 {
        1 << 20
    }

    fn load(&self, worker: &mut Erased<'_, Ended>, cores: usize) -> Result<Box<dyn Loaded>, Ended> {
        let tables = (0..cores).map(|_| table(worker)).collect::<Result<_, _>>()?;
        Ok(Box::new(Tables(tables)))
    }
}

impl Loaded for Tables {
    fn client(&self, core: usize) -> Box<dyn Client> {
        let (table, state) = (self.0[core].clone(), core as u64 + 1);
        Box::new(Stayer { table, state, transactions: 0, lines: Vec::new() })
    }

    fn check(&self, _: &mut Erased<'_, Ended>) -> Result<Vec<String>, Ended> {
        Ok(Vec::new())
    }
}

impl Client for Stayer {
    fn next(&mut self) {
        let page = (self.transactions / STAYS) as usize % PAGES;
        self.transactions += 1;
        self.lines.clear();
        for _ in 0..WRITES {
            self.state = self.state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let line = (self.state >> 33) as usize % LINES;
            self.lines.push(self.table[page * LINES + line]);
        }
    }

    fn run(&self, tx: &mut ErasedTx<'_>) -> Result<(), Stop> {
        for line in &self.lines {
            tx.compute(20);
            tx.update(*line, |mut words: [u64; 8]| {
                words.iter_mut().for_each(|word| *word += 1);
                words
            })?;
        }
        Ok(())
    }
}
