//! Measures the cost of combining a group, and the share of words that remain.
//!
//! A transaction writes runs of some words. Their addresses are uniform, or skewed by Zipf's law as
//! in a session store.
//!
//! `cargo bench -p lastword-log --bench combine`

use std::time::Instant;

use lw_log::{Combiner, Group};
use medium::Buffer;
use medium::writes::run;
use words::TxId;

/// Words of the heap: 64 MiB.
const HEAP_WORDS: u64 = 1 << 23;
const ROUNDS: usize = 5;

/// A pseudo-random generator.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 ^ self.0 >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16
    }

    /// Returns a number from 0 to 1.
    fn part(&mut self) -> f64 {
        (self.next() >> 16) as f64 / (1_u64 << 32) as f64
    }
}

/// Makes the runs of `count` transactions, `length` words each. `skew` chooses the objects by a
/// continuous Zipf distribution with an exponent near 1, instead of uniformly.
fn transactions(count: usize, length: usize, skew: bool) -> Vec<Vec<u64>> {
    let mut dice = Dice(7);
    let objects = HEAP_WORDS / length as u64;
    (0..count)
        .map(|_| {
            let part = dice.part();
            let rank = if skew { (objects as f64).powf(part) } else { objects as f64 * part };
            // Spread the ranks: neighbours in rank are not neighbours in the heap.
            let object = (rank as u64).wrapping_mul(0x9e37_79b9) % objects;
            let head = run(object * length as u64, length);
            std::iter::once(head).chain((0..length).map(|_| dice.next())).collect()
        })
        .collect()
}

fn main() {
    println!("words a run, addresses, transactions: ns a word (least of {ROUNDS}), words left");
    for (length, skew) in [(13, true), (13, false), (1, true), (1, false), (2, false)] {
        for count in [100, 1000, 10_000, 100_000] {
            let all = transactions(count, length, skew);
            let mut combiner = Combiner::default();
            let mut best = f64::MAX;
            let mut group = Group::new(Buffer::new(0));
            // Repeat small groups until as many transactions ran as in the largest group.
            let repeated = 100_000 / count;
            for _ in 0..ROUNDS {
                let start = Instant::now();
                for _ in 0..repeated {
                    all.iter().for_each(|runs| combiner.add(runs));
                    let memory = group.into_memory();
                    group = combiner.finish(TxId(1), TxId(count as u64), memory);
                }
                let words = (repeated * count * length) as f64;
                best = best.min(start.elapsed().as_nanos() as f64 / words);
            }
            let before: usize = all.iter().map(Vec::len).sum();
            let left = group.payload().len() as f64 / before as f64;
            let law = if skew { "zipf" } else { "uniform" };
            println!("{length:3} {law:8} {count:7}: {best:6.1} ns, {:5.1} %", 100.0 * left);
        }
    }
}
