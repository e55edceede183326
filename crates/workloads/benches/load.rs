//! How long does loading take, and how fast are transactions when nothing stands below them?
//!
//! A plain heap: a vector, no isolation, nothing durable. What a design adds comes on top of this.
//! `cargo bench -p lastword-workloads`
#![allow(missing_docs)] // a program, not a library

#[path = "../../collections/benches/plain/mod.rs"]
mod plain;

use std::time::Instant;

use plain::Plain;
use words::Transact;
use workloads::{NAMES, Options, Visitor, Workload, by_name};

const TRANSACTIONS: u64 = 1 << 20;
const ROUNDS: usize = 5;

struct Measure;

impl Visitor for Measure {
    type Out = ();

    fn visit<W: Workload>(self) {
        let options = Options::default();
        let mut heap = Plain::new(W::heap_bytes(&options) as usize);
        let start = Instant::now();
        let workload = W::load(&mut heap, &options).expect("the heap is large enough");
        let load = start.elapsed().as_secs_f64();
        let mut client = workload.client(0, 1);
        let (mut rounds, before) = (Vec::new(), heap.counts());
        for _ in 0..ROUNDS {
            let start = Instant::now();
            for _ in 0..TRANSACTIONS {
                workload.next(&mut client);
                heap.transact(|tx| workload.run(&client, tx)).expect("stationary");
            }
            rounds.push(start.elapsed().as_nanos() as f64 / TRANSACTIONS as f64);
        }
        rounds.sort_by(f64::total_cmp);
        let all = (TRANSACTIONS * ROUNDS as u64) as f64;
        let (reads, writes) = heap.counts();
        let start = Instant::now();
        let violations = workload.check(&mut heap).expect("no wild pointer");
        assert_eq!(violations, [], "{}", W::NAME);
        println!(
            "{:10} heap {:4} MiB, load {load:.3} s, check {:.3} s; a transaction: {:4.0} ns \
             ({:.0} to {:.0}), {:.2} words read, {:.2} written",
            W::NAME,
            W::heap_bytes(&options) >> 20,
            start.elapsed().as_secs_f64(),
            rounds[ROUNDS / 2],
            rounds[0],
            rounds[ROUNDS - 1],
            (reads - before.0) as f64 / all,
            (writes - before.1) as f64 / all,
        );
    }
}

fn main() {
    for name in NAMES {
        by_name(name, Measure);
    }
}
