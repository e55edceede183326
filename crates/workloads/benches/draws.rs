//! Measures the cost of generating a transaction, which the driver does in the timed region.
//!
//! `cargo bench -p lastword-workloads --bench draws`: nanoseconds a transaction of
//! `btree-update`, with uniform and with Zipf-distributed keys; medians of five rounds.
#![allow(clippy::unwrap_used, reason = "a benchmark ends by panicking")]

use std::hint::black_box;
use std::time::Instant;

use words::mock::Mock;
use workloads::{BtreeUpdate, Options, Workload};

const DRAWS: u32 = 10_000_000;

fn main() {
    for scale in [0.0005, 0.02] {
        let options = Options { scale, ..Options::default() };
        let mut mock = Mock::new(BtreeUpdate::heap_bytes(&options) as usize);
        let tree = BtreeUpdate::load(&mut mock, &options).unwrap();
        for zipf in [0.0, 0.99, 1.07] {
            let options = Options { zipf: Some(zipf), ..options };
            let mut client = tree.client(0, 1);
            tree.tune(&mut client, &options);
            let mut rounds: Vec<f64> = (0..5)
                .map(|_| {
                    let start = Instant::now();
                    (0..DRAWS).for_each(|_| tree.next(black_box(&mut client)));
                    start.elapsed().as_nanos() as f64 / f64::from(DRAWS)
                })
                .collect();
            rounds.sort_by(f64::total_cmp);
            println!("scale {scale}, exponent {zipf}: {:.1} ns", rounds[2]);
        }
    }
}
