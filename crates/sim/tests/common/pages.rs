//! A program that stays on a page for a while, or on some: most lines change before the next turn.

use sim::program::{Client, Ended, Loaded, Program};
use words::{Erased, ErasedTx, Objects, Ptr, Stop, Transact, Words};

/// Pages of each core for one at a time, lines of a page, lines of a page that a transaction
/// writes, and transactions before a turn is over.
const PAGES: usize = 6;
const LINES: usize = 64;
const WRITES: usize = 6;
const STAYS: u64 = 12;

type Line = Ptr<[u64; 8]>;

/// Every core counts in lines of its own.
pub(crate) struct Pages {
    /// Pages that a transaction writes.
    pub(crate) at_a_time: usize,
}

struct Tables {
    tables: Vec<Vec<Line>>,
    at_a_time: usize,
}

struct Stayer {
    table: Vec<Line>,
    at_a_time: usize,
    state: u64,
    transactions: u64,
    lines: Vec<Line>,
}

fn table<T: Transact>(worker: &mut T, pages: usize) -> Result<Vec<Line>, T::Error> {
    (0..pages * LINES).map(|_| worker.transact(|tx| tx.alloc([0_u64; 8]))).collect()
}

impl Program for Pages {
    fn name(&self) -> &str {
        if self.at_a_time == 1 { "pages" } else { "pages-4" }
    }

    fn heap_bytes(&self) -> u64 {
        (self.at_a_time as u64) << 20
    }

    fn load(&self, worker: &mut Erased<'_, Ended>, cores: usize) -> Result<Box<dyn Loaded>, Ended> {
        let tables = (0..cores).map(|_| table(worker, PAGES * self.at_a_time));
        let tables = tables.collect::<Result<_, _>>()?;
        Ok(Box::new(Tables { tables, at_a_time: self.at_a_time }))
    }
}

impl Loaded for Tables {
    fn client(&self, core: usize) -> Box<dyn Client> {
        let (table, at_a_time) = (self.tables[core].clone(), self.at_a_time);
        let state = core as u64 + 1;
        Box::new(Stayer { table, at_a_time, state, transactions: 0, lines: Vec::new() })
    }

    fn check(&self, _: &mut Erased<'_, Ended>) -> Result<Vec<String>, Ended> {
        Ok(Vec::new())
    }
}

impl Client for Stayer {
    fn next(&mut self) {
        let first = (self.transactions / STAYS) as usize % PAGES * self.at_a_time;
        self.transactions += 1;
        self.lines.clear();
        for number in 0..WRITES * self.at_a_time {
            let page = first + number % self.at_a_time;
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
