//! A program that reads lines of open transactions without a lock, and ignores their values.

use sim::program::{Client, Ended, Loaded, Program};
use words::{Erased, ErasedTx, Objects, Ptr, Stop, Transact, Words};

/// The program: cores increment words of their own, and read those of another core without a lock.
pub(crate) struct Peeping {
    /// The number of objects per core.
    pub(crate) objects: usize,
    /// How often a transaction increments all of them.
    pub(crate) rounds: usize,
}

/// A transaction writes each line once, and leaves it before it writes the next.
pub(crate) const ONCE: Peeping = Peeping { objects: 4, rounds: 1 };

/// A transaction writes its lines repeatedly, while older flushes may be in flight.
pub(crate) const AGAIN: Peeping = Peeping { objects: 8, rounds: 4 };

type Object = Ptr<[u64; 8]>;

struct Counters {
    of: Vec<Vec<Object>>,
    rounds: usize,
}

struct Peeper {
    own: Vec<Object>,
    other: Vec<Object>,
    rounds: usize,
}

fn objects<T: Transact>(worker: &mut T, count: usize) -> Result<Vec<Object>, T::Error> {
    worker.transact(|tx| (0..count).map(|_| tx.alloc([0; 8])).collect())
}

impl Program for Peeping {
    fn name(&self) -> &str {
        "peeping"
    }

    fn heap_bytes(&self) -> u64 {
        1 << 20
    }

    fn load(&self, worker: &mut Erased<'_, Ended>, cores: usize) -> Result<Box<dyn Loaded>, Ended> {
        let of = (0..cores).map(|_| objects(worker, self.objects)).collect::<Result<_, _>>()?;
        Ok(Box::new(Counters { of, rounds: self.rounds }))
    }
}

impl Loaded for Counters {
    fn client(&self, core: usize) -> Box<dyn Client> {
        let (own, other) = (self.of[core].clone(), self.of[(core + 1) % self.of.len()].clone());
        Box::new(Peeper { own, other, rounds: self.rounds })
    }

    fn check(&self, _: &mut Erased<'_, Ended>) -> Result<Vec<String>, Ended> {
        Ok(Vec::new())
    }
}

impl Client for Peeper {
    fn next(&mut self) {}

    fn run(&self, tx: &mut ErasedTx<'_>) -> Result<(), Stop> {
        for (own, other) in (0..self.rounds).flat_map(|_| self.own.iter().zip(&self.other)) {
            let mut words: [u64; 8] = tx.get(*own)?;
            words.iter_mut().for_each(|word| *word += 1);
            tx.set(*own, words)?;
            tx.compute(90);
            let _: [u64; 8] = tx.get(*other)?;
        }
        Ok(())
    }
}
