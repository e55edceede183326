//! A program that reads lines of open transactions: without a lock, and whatever it finds.

use sim::program::{Client, Ended, Loaded, Program};
use words::{Erased, ErasedTx, Objects, Ptr, Stop, Transact, Words};

/// Two cores count up words of their own, and read those of the other one without a lock.
pub(crate) struct Peeping;

struct Counters(Vec<[Ptr<[u64; 8]>; 4]>);

struct Peeper {
    own: [Ptr<[u64; 8]>; 4],
    other: [Ptr<[u64; 8]>; 4],
}

fn objects<T: Transact>(worker: &mut T) -> Result<[Ptr<[u64; 8]>; 4], T::Error> {
    worker.transact(|tx| {
        let mut all = [Ptr::NULL; 4];
        for one in &mut all {
            *one = tx.alloc([0; 8])?;
        }
        Ok(all)
    })
}

impl Program for Peeping {
    fn name(&self) -> &str {
        "peeping"
    }

    fn heap_bytes(&self) -> u64 {
        1 << 20
    }

    fn load(&self, worker: &mut Erased<'_, Ended>, cores: usize) -> Result<Box<dyn Loaded>, Ended> {
        let all = (0..cores).map(|_| objects(worker)).collect::<Result<_, _>>()?;
        Ok(Box::new(Counters(all)))
    }
}

impl Loaded for Counters {
    fn client(&self, core: usize) -> Box<dyn Client> {
        let other = self.0[(core + 1) % self.0.len()];
        Box::new(Peeper { own: self.0[core], other })
    }

    fn check(&self, _: &mut Erased<'_, Ended>) -> Result<Vec<String>, Ended> {
        Ok(Vec::new())
    }
}

impl Client for Peeper {
    fn next(&mut self) {}

    fn run(&self, tx: &mut ErasedTx<'_>) -> Result<(), Stop> {
        for (own, other) in self.own.into_iter().zip(self.other) {
            let mut words: [u64; 8] = tx.get(own)?;
            words.iter_mut().for_each(|word| *word += 1);
            tx.set(own, words)?;
            tx.compute(90);
            let _: [u64; 8] = tx.get(other)?;
        }
        Ok(())
    }
}
