//! A program that stays on a page, or on several, until it has changed most of their lines. Cores
//! have pages of their own, or share pages and lock each line.

use sim::program::{Client, Ended, Loaded, Program};
use sim::report::Outcome;
use sim::{Error, Setup};
use words::{Erased, ErasedTx, LockId, Objects, Ptr, Stop, Transact, Words};

/// The table: pages per core and page at a time, lines per page, lines of a page that a transaction
/// writes, and transactions before the program moves on.
const PAGES: usize = 6;
const LINES: usize = 64;
const WRITES: usize = 6;
const STAYS: u64 = 12;

type Line = Ptr<[u64; 8]>;

/// The program, whose cores increment lines.
#[derive(Clone, Copy)]
struct Pages {
    /// The number of pages that a transaction writes.
    at_a_time: usize,
    /// All cores use the same pages.
    shared: bool,
}

/// Runs the program.
pub(crate) fn run(at_a_time: usize, shared: bool, setup: &Setup) -> Result<Outcome, Error> {
    sim::run(setup, &Pages { at_a_time, shared }, &mut |_| {})
}

struct Tables {
    tables: Vec<Vec<Line>>,
    pages: Pages,
}

struct Stayer {
    table: Vec<Line>,
    pages: Pages,
    state: u64,
    transactions: u64,
    /// Indices of the lines to write. Shared lines are sorted and distinct, which is their lock
    /// order.
    lines: Vec<usize>,
}

fn table<T: Transact>(worker: &mut T, pages: usize) -> Result<Vec<Line>, T::Error> {
    (0..pages * LINES).map(|_| worker.transact(|tx| tx.alloc([0_u64; 8]))).collect()
}

impl Program for Pages {
    fn name(&self) -> &str {
        match self {
            Pages { shared: true, .. } => "pages-shared",
            Pages { at_a_time: 1, .. } => "pages",
            Pages { .. } => "pages-4",
        }
    }

    fn heap_bytes(&self) -> u64 {
        (self.at_a_time as u64) << 20
    }

    fn load(&self, worker: &mut Erased<'_, Ended>, cores: usize) -> Result<Box<dyn Loaded>, Ended> {
        let tables = if self.shared { 1 } else { cores };
        let tables = (0..tables).map(|_| table(worker, PAGES * self.at_a_time));
        let tables = tables.collect::<Result<_, _>>()?;
        Ok(Box::new(Tables { tables, pages: *self }))
    }
}

impl Loaded for Tables {
    fn client(&self, core: usize) -> Box<dyn Client> {
        let (pages, state) = (self.pages, core as u64 + 1);
        let table = self.tables[core % self.tables.len()].clone();
        Box::new(Stayer { table, pages, state, transactions: 0, lines: Vec::new() })
    }

    fn check(&self, _: &mut Erased<'_, Ended>) -> Result<Vec<String>, Ended> {
        Ok(Vec::new())
    }
}

impl Client for Stayer {
    fn next(&mut self) {
        let Pages { at_a_time, .. } = self.pages;
        let first = (self.transactions / STAYS) as usize % PAGES * at_a_time;
        self.transactions += 1;
        self.lines.clear();
        for number in 0..WRITES * at_a_time {
            let page = first + number % at_a_time;
            self.state = self.state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let line = (self.state >> 33) as usize % LINES;
            self.lines.push(page * LINES + line);
        }
        if self.pages.shared {
            self.lines.sort_unstable();
            self.lines.dedup();
        }
    }

    fn run(&self, tx: &mut ErasedTx<'_>) -> Result<(), Stop> {
        for line in &self.lines {
            if self.pages.shared {
                tx.lock(LockId(*line as u64))?;
            }
            tx.compute(20);
            tx.update(self.table[*line], |mut words: [u64; 8]| {
                words.iter_mut().for_each(|word| *word += 1);
                words
            })?;
        }
        Ok(())
    }
}
