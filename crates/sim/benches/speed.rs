//! The speed of the simulator in simulated accesses per second of the host.
//!
//! `cargo bench -p lastword-sim --bench speed [-- WORKLOAD CORES TRANSACTIONS [DESIGN]]`. Without
//! arguments: trees larger than the last-level cache, and data that fit in private caches, with 1,
//! 4 and 16 cores, three rounds each.

#![allow(clippy::unwrap_used, missing_docs, reason = "a program, without callers")]

#[path = "../tests/common/mod.rs"]
mod common;

use workloads::Options;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|it| it != "--bench").collect();
    if let [name, cores, transactions, design @ ..] = &arguments[..] {
        let name: &'static str = name.clone().leak();
        let design = design.first().map_or("volatile", |design| design);
        return show(name, design, 1.0, cores.parse().unwrap(), transactions.parse().unwrap());
    }
    for _ in 0..3 {
        for cores in [1, 4, 16] {
            show("rbtree", "volatile", 0.25, cores, 100_000);
            show("bank", "volatile", 0.01, cores, 100_000);
        }
    }
}

fn show(name: &'static str, design: &str, scale: f64, cores: usize, transactions: u64) {
    let mut setup = common::setup("lad", design, cores, transactions);
    setup.check = false;
    // Each core has data of its own where possible, because a core that waits for a lock makes no
    // access.
    let options = Options { scale, low_conflict: true, ..Options::default() };
    let outcome = sim::run(&setup, &common::Named { name, options }, &mut |_| {}).unwrap();
    let rate = outcome.simulated_accesses as f64 / outcome.host_seconds / 1e6;
    let cycles = outcome.cycles_per_transaction.total;
    println!("{name:12} {cores:2} cores {rate:6.2} M accesses/s  {cycles:8.1} cycles/transaction");
}
