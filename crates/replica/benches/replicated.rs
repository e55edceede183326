//! Rates and latencies of replicated commits beside local ones.
//!
//! ```text
//! cargo bench -p lastword-replica --bench replicated              # in memory, in a directory
//! cargo bench -p lastword-replica --bench replicated -- URL ...   # other streams, each empty
//! ```
//!
//! One thread sets a word of a pool on medium `file`, and keeps some transactions outstanding: it
//! waits for the oldest before it begins another one. `local` waits until a transaction is durable,
//! the others until their stream has it. Rounds alternate between them.
#![allow(clippy::unwrap_used, reason = "a benchmark")]

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use lastword::{Objects, Options, Pool, Ptr};
use replica::{DirectoryStream, Link, MemoryStream, Primary};

const OUTSTANDING: [usize; 3] = [1, 64, 4096];
const ROUNDS: usize = 5;
const TIME: Duration = Duration::from_millis(1000);

/// A pool, and whether its transactions are replicated.
enum Subject {
    Local(Pool),
    Replicated(Primary),
}

struct Row {
    name: String,
    subject: Subject,
    cell: Ptr<u64>,
    /// For each number of outstanding transactions: the rate of each round, and latencies in ns.
    results: Vec<(Vec<f64>, Histogram<u64>)>,
}

impl Row {
    fn pool(&self) -> &Pool {
        match &self.subject {
            Subject::Local(pool) => pool,
            Subject::Replicated(primary) => primary.pool(),
        }
    }

    fn run(&mut self, index: usize) {
        let outstanding = OUTSTANDING[index];
        let is_local = matches!(self.subject, Subject::Local(_));
        let mut latencies = Histogram::new(3).unwrap();
        let (begun, mut count) = (Instant::now(), 0_u64);
        let mut waiting = VecDeque::new();
        let pool = self.pool();
        while begun.elapsed() < TIME || !waiting.is_empty() {
            if begun.elapsed() < TIME {
                let start = Instant::now();
                let id = pool.run(|tx| tx.set(self.cell, count)).unwrap().ticket.id();
                waiting.push_back((id, start));
                if waiting.len() < outstanding {
                    continue;
                }
            }
            let (id, start) = waiting.pop_front().expect("a transaction is outstanding");
            match is_local {
                true => pool.wait_for(id).unwrap(),
                false => pool.wait_replicated(id).unwrap(),
            }
            latencies.record(start.elapsed().as_nanos() as u64).unwrap();
            count += 1;
        }
        let rate = count as f64 / begun.elapsed().as_secs_f64();
        let (rates, all) = &mut self.results[index];
        rates.push(rate);
        all.add(&latencies).unwrap();
    }
}

fn row(dir: &std::path::Path, number: usize, name: &str, link: Option<Link>) -> Row {
    let path = dir.join(format!("{number}.pool"));
    let options = Options::new().bytes(1 << 20).patience(Duration::from_secs(60));
    let pool = Pool::create(&path, options.clone()).unwrap();
    let cell = pool.run(|tx| tx.alloc(0_u64)).unwrap().value;
    let subject = match link {
        None => Subject::Local(pool),
        Some(link) => {
            pool.close().unwrap();
            Subject::Replicated(Primary::begin(&path, options, &link).unwrap())
        }
    };
    let results = OUTSTANDING.map(|_| (Vec::new(), Histogram::new(3).unwrap())).into();
    Row { name: name.into(), subject, cell, results }
}

fn main() {
    let urls: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let dir = tempfile::tempdir().unwrap();
    let mut rows = vec![row(dir.path(), 0, "local", None)];
    if urls.is_empty() {
        let stream = DirectoryStream::create(dir.path().join("stream")).unwrap();
        rows.push(row(dir.path(), 1, "memory", Some(Link::new(MemoryStream::new()))));
        rows.push(row(dir.path(), 2, "directory", Some(Link::new(stream))));
    }
    for (number, url) in (3..).zip(&urls) {
        let link = Link::shared(replica::stream::open(url).unwrap().into());
        let scheme = url.split(':').next().unwrap_or_default();
        rows.push(row(dir.path(), number, scheme, Some(link)));
    }
    for _ in 0..ROUNDS {
        for index in 0..OUTSTANDING.len() {
            rows.iter_mut().for_each(|row| row.run(index));
        }
    }
    println!("{ROUNDS} rounds of {TIME:?} each; the rate is the median");
    println!(
        "{:<14} {:>11} {:>10} {:>9} {:>9}",
        "stream", "outstanding", "tx/s", "p50 us", "p99 us"
    );
    for (index, outstanding) in OUTSTANDING.iter().enumerate() {
        for row in &mut rows {
            let (rates, latencies) = &mut row.results[index];
            rates.sort_by(f64::total_cmp);
            let micros = |quantile| latencies.value_at_quantile(quantile) as f64 / 1000.0;
            println!(
                "{:<14} {outstanding:>11} {:>10.0} {:>9.0} {:>9.0}",
                row.name,
                rates[ROUNDS / 2],
                micros(0.5),
                micros(0.99)
            );
        }
    }
}
