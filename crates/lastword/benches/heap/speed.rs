//! CPU time of allocations and frees in the common case: workers that free their own objects.

use std::sync::Barrier;
use std::thread;

use lastword::{Design, Error, Pool, Worker};

use crate::Failure;
use crate::arguments::Arguments;
use crate::store::{Place, Rng, Value, quantile, timed};
use crate::table::{Cell, Table};

/// Bytes of an object.
const BYTES: u64 = 100;

/// Objects alive at most.
const LIVE: usize = 1000;

/// The order in which objects are freed, seen from their allocation.
#[derive(Clone, Copy, Debug)]
enum Order {
    First,
    Last,
    Random,
}

/// One way to allocate and free.
struct Case {
    name: &'static str,
    /// Objects in a transaction.
    batch: usize,
    order: Order,
    workers: usize,
    /// Whether the workers run in threads of their own, or by turns in one.
    threads: bool,
}

const CASES: [Case; 8] = [
    Case {
        name: "100 a tx, last first",
        batch: 100,
        order: Order::Last,
        workers: 1,
        threads: false,
    },
    Case {
        name: "100 a tx, first first",
        batch: 100,
        order: Order::First,
        workers: 1,
        threads: false,
    },
    Case { name: "100 a tx, random", batch: 100, order: Order::Random, workers: 1, threads: false },
    Case { name: "1 a tx, first first", batch: 1, order: Order::First, workers: 1, threads: false },
    Case { name: "1 a tx, random", batch: 1, order: Order::Random, workers: 1, threads: false },
    Case {
        name: "2 workers by turns",
        batch: 100,
        order: Order::First,
        workers: 2,
        threads: false,
    },
    Case { name: "2 threads", batch: 100, order: Order::First, workers: 2, threads: true },
    Case { name: "2 threads, random", batch: 100, order: Order::Random, workers: 2, threads: true },
];

/// Nanoseconds of an allocation and of a free.
type Pair = (f64, f64);

pub(crate) fn run<D: Design>(arguments: &Arguments, print: &dyn Fn(Table)) -> Result<(), Failure> {
    let place = Place::new()?;
    let pool = place.create::<D>(arguments, arguments.heap_bytes.unwrap_or(64 << 20))?;
    let count = arguments.count.unwrap_or(50_000) as usize;
    let mut times: Vec<Vec<Pair>> = CASES.iter().map(|_| Vec::new()).collect();
    // A round runs each case once, so that a disturbance of the machine meets all of them.
    for round in 0..=arguments.rounds {
        for (case, times) in CASES.iter().zip(&mut times) {
            let pair = one(&pool, case, count, arguments.seed + round as u64)?;
            // The first round warms up: it takes slabs from the heap.
            if round > 0 {
                times.push(pair);
            }
        }
    }
    let title = format!(
        "CPU ns to allocate and to free {BYTES} bytes, {LIVE} alive; {} rounds of {count}",
        arguments.rounds
    );
    let columns =
        ["allocate_p10", "allocate_ns", "allocate_p90", "free_p10", "free_ns", "free_p90"];
    let mut table = Table::new("speed", title, &columns);
    for (case, times) in CASES.iter().zip(times) {
        let mut cells = Vec::new();
        let parts: [fn(&Pair) -> f64; 2] = [|pair| pair.0, |pair| pair.1];
        for part in parts {
            let mut ns: Vec<f64> = times.iter().map(part).collect();
            ns.sort_by(f64::total_cmp);
            cells.extend([0.1, 0.5, 0.9].map(|part| Cell::Number(quantile(&ns, part), 1)));
        }
        table.row(case.name, cells);
    }
    print(table);
    Ok(())
}

fn one<D: Design>(pool: &Pool<D>, case: &Case, count: usize, seed: u64) -> Result<Pair, Failure> {
    let mut workers: Vec<_> =
        (0..case.workers).map(|_| pool.worker()).collect::<Result<_, Error>>()?;
    // The rings are empty, so that no worker waits for room in one.
    if D::DURABLE {
        pool.flush()?;
    }
    let pairs = match case.threads {
        false => vec![rounds(&mut workers, case, count, seed)?],
        true => in_threads(&mut workers, case, count, seed)?,
    };
    let mean = |part: fn(&Pair) -> f64| pairs.iter().map(part).sum::<f64>() / pairs.len() as f64;
    Ok((mean(|pair| pair.0), mean(|pair| pair.1)))
}

fn in_threads<D: Design>(
    workers: &mut [Worker<'_, D>],
    case: &Case,
    count: usize,
    seed: u64,
) -> Result<Vec<Pair>, Error> {
    let barrier = Barrier::new(workers.len());
    thread::scope(|scope| {
        let threads: Vec<_> = workers
            .iter_mut()
            .enumerate()
            .map(|(index, worker)| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    rounds(std::slice::from_mut(worker), case, count, seed + index as u64)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a worker panicked")).collect()
    })
}

/// Allocates and frees `count` objects, [`LIVE`] at a time.
fn rounds<D: Design>(
    workers: &mut [Worker<'_, D>],
    case: &Case,
    count: usize,
    seed: u64,
) -> Result<Pair, Error> {
    let mut rng = Rng::new(seed);
    let (mut allocate_ns, mut free_ns) = (0, 0);
    let rounds = count.div_ceil(LIVE).max(1);
    let mut values: Vec<Vec<Value>> = workers.iter().map(|_| Vec::with_capacity(LIVE)).collect();
    let share = LIVE / workers.len();
    for _ in 0..rounds {
        let (made, ns) = timed(|| {
            for _ in 0..share / case.batch {
                for (worker, values) in workers.iter_mut().zip(&mut values) {
                    allocate(worker, values, case.batch)?;
                }
            }
            Ok::<(), Error>(())
        });
        made?;
        allocate_ns += ns;
        for values in &mut values {
            match case.order {
                Order::First => (),
                Order::Last => values.reverse(),
                Order::Random => rng.shuffle(values),
            }
        }
        let (freed, ns) = timed(|| {
            for at in (0..share).step_by(case.batch) {
                for (worker, values) in workers.iter_mut().zip(&values) {
                    let values = &values[at..at + case.batch];
                    let _ = worker.run(|tx| values.iter().try_for_each(|value| value.free(tx)))?;
                }
            }
            Ok::<(), Error>(())
        });
        freed?;
        free_ns += ns;
        values.iter_mut().for_each(Vec::clear);
    }
    let each = |ns: u64| ns as f64 / (rounds * share * workers.len()) as f64;
    Ok((each(allocate_ns), each(free_ns)))
}

fn allocate<D: Design>(
    worker: &mut Worker<'_, D>,
    values: &mut Vec<Value>,
    batch: usize,
) -> Result<(), Error> {
    let before = values.len();
    let _ = worker.run(|tx| {
        // A lost attempt may have pushed some.
        values.truncate(before);
        for _ in 0..batch {
            values.push(Value::new(tx, BYTES)?);
        }
        Ok(())
    })?;
    Ok(())
}
