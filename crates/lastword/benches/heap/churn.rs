//! Random sizes, freed by random threads: the share of the heap that fills, and the cost.
//!
//! 1. Few bytes are live in an empty heap. This phase gives the baseline cost.
//! 2. The target's bytes are live, for `--count` allocations.
//! 3. The live bytes grow until the heap refuses a value. At each step threads allocate as many
//!    values as are live.

use std::ops::AddAssign;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread;

use lastword::{Design, Error, Pool, Worker};

use crate::Failure;
use crate::arguments::Arguments;
use crate::store::{Place, Rng, Value, timed, unless_full, used_bytes};
use crate::table::{Cell, Table};

/// Values in a transaction.
const BATCH: usize = 16;

/// Lists of live values. A thread takes from a random one.
const SHARDS: u64 = 64;

/// Share of the heap that is live in the first phase.
const FEW: f64 = 0.02;

/// Slices of the second phase, each a row.
const SLICES: u64 = 8;

pub(crate) fn run<D: Design>(arguments: &Arguments, print: &dyn Fn(Table)) -> Result<(), Failure> {
    let heap_bytes = arguments.heap_bytes.unwrap_or(64 << 20);
    let (threads, count) = (arguments.threads.unwrap_or(2), arguments.count.unwrap_or(2_000_000));
    let (least, greatest) = arguments.sizes.bounds();
    let place = Place::new()?;
    let pool = place.create::<D>(arguments, heap_bytes)?;
    let title = format!(
        "heap of {heap_bytes} bytes, values of {least} to {greatest} bytes, {threads} threads, \
         {count} allocations at {} live; CPU ns",
        arguments.target
    );
    let columns =
        ["allocations", "live_share", "used_share", "allocate_ns", "free_ns", "pair_ratio"];
    let table = Table::new("churn", title, &columns);
    let mut churn = Churn { pool: &pool, arguments, threads, live: Live::new(heap_bytes), table };
    let few = (count / 20).clamp(1, 1_000_000);
    // The first run takes pages from the kernel.
    let _ = churn.phase(few, FEW)?;
    let alone = churn.alone()?;
    churn.row("100 B alone, empty heap", alone, alone)?;
    let first = churn.phase(few, FEW)?;
    churn.row("few live", first, first)?;
    for slice in 1..=SLICES {
        let costs = churn.phase(count / SLICES, arguments.target)?;
        churn.row(format!("slice {slice}"), costs, first)?;
        if churn.live.is_full.load(Ordering::Relaxed) {
            break;
        }
    }
    let costs = churn.alone()?;
    churn.row("100 B alone, after the churn", costs, alone)?;
    let mut share = arguments.target;
    while !churn.live.is_full.load(Ordering::Relaxed) && share < 1.0 {
        share += 0.01;
        let values = churn.live.values();
        let _ = churn.phase(values, share)?;
    }
    churn.row("first Full", Costs::default(), first)?;
    print(churn.table);
    Ok(())
}

/// CPU times, and the numbers of calls that they cover.
#[derive(Clone, Copy, Debug, Default)]
struct Costs {
    allocate_ns: u64,
    allocations: u64,
    free_ns: u64,
    frees: u64,
}

impl AddAssign for Costs {
    fn add_assign(&mut self, other: Costs) {
        self.allocate_ns += other.allocate_ns;
        self.allocations += other.allocations;
        self.free_ns += other.free_ns;
        self.frees += other.frees;
    }
}

impl Costs {
    /// Returns the nanoseconds of an allocation and of a free, if there was one of each.
    fn each(self) -> Option<(f64, f64)> {
        let each = |ns: u64, number: u64| (number > 0).then(|| ns as f64 / number as f64);
        Some((each(self.allocate_ns, self.allocations)?, each(self.free_ns, self.frees)?))
    }
}

/// The live values of all threads.
struct Live {
    lists: Vec<Mutex<Vec<Value>>>,
    heap_bytes: u64,
    /// Signed: a thread counts its batch before it allocates, and corrects that when it is refused.
    bytes: AtomicI64,
    allocations: AtomicU64,
    /// Whether a value was refused. Threads stop then, and the live bytes stay.
    is_full: AtomicBool,
}

impl Live {
    fn new(heap_bytes: u64) -> Live {
        Live {
            lists: (0..SHARDS).map(|_| Mutex::default()).collect(),
            heap_bytes,
            bytes: AtomicI64::new(0),
            allocations: AtomicU64::new(0),
            is_full: AtomicBool::new(false),
        }
    }

    fn values(&self) -> u64 {
        let len = |list: &Mutex<Vec<Value>>| list.lock().expect("no holder panics").len() as u64;
        self.lists.iter().map(len).sum()
    }

    fn push(&self, rng: &mut Rng, values: Vec<Value>) {
        let list = &self.lists[rng.below(SHARDS) as usize];
        list.lock().expect("no holder panics").extend(values);
    }

    /// Takes random values of a random list.
    fn take(&self, rng: &mut Rng) -> Vec<Value> {
        let list = &self.lists[rng.below(SHARDS) as usize];
        let mut list = list.lock().expect("no holder panics");
        (0..BATCH.min(list.len()))
            .map(|_| {
                let at = rng.below(list.len() as u64) as usize;
                list.swap_remove(at)
            })
            .collect()
    }
}

struct Churn<'c, D: Design> {
    pool: &'c Pool<D>,
    arguments: &'c Arguments,
    threads: usize,
    live: Live,
    table: Table,
}

impl<D: Design> Churn<'_, D> {
    /// Runs `count` allocations in all threads, with `share` of the heap live.
    fn phase(&mut self, count: u64, share: f64) -> Result<Costs, Error> {
        let target = (share * self.live.heap_bytes as f64) as i64;
        let end = self.live.allocations.load(Ordering::Relaxed) + count;
        let (pool, arguments, live) = (self.pool, self.arguments, &self.live);
        let mut costs = Costs::default();
        thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads as u64)
                .map(|thread| {
                    let rng = Rng::new(arguments.seed << 40 ^ end << 8 ^ thread);
                    scope.spawn(move || live.work(&mut pool.worker()?, arguments, rng, target, end))
                })
                .collect();
            for thread in threads {
                costs += thread.join().expect("a worker panicked")?;
            }
            Ok(costs)
        })
    }

    /// Allocates and frees objects of 100 bytes in one thread.
    fn alone(&self) -> Result<Costs, Error> {
        let mut worker = self.pool.worker()?;
        let mut costs = Costs::default();
        for _ in 0..3000 {
            let Some(values) = allocate(&mut worker, &[100; BATCH], &mut costs)? else { break };
            free(&mut worker, &values, &mut costs)?;
        }
        Ok(costs)
    }

    fn row(&mut self, name: impl Into<String>, costs: Costs, first: Costs) -> Result<(), Failure> {
        let share = |bytes: u64| Cell::Share(bytes as f64 / self.live.heap_bytes as f64);
        let live = share(self.live.bytes.load(Ordering::Relaxed).cast_unsigned());
        let used = share(used_bytes(self.pool));
        let mut cells =
            vec![Cell::Count(self.live.allocations.load(Ordering::Relaxed)), live, used];
        match (costs.each(), first.each()) {
            (Some((allocate, free)), Some(first)) => cells.extend([
                Cell::Number(allocate, 0),
                Cell::Number(free, 0),
                Cell::Number((allocate + free) / (first.0 + first.1), 2),
            ]),
            _ => cells.extend([Cell::None, Cell::None, Cell::None]),
        }
        self.table.row(name, cells);
        Ok(())
    }
}

impl Live {
    /// Allocates below the target and frees at it, until all threads together have made `end`
    /// allocations or the heap is full.
    fn work<D: Design>(
        &self,
        worker: &mut Worker<'_, D>,
        arguments: &Arguments,
        mut rng: Rng,
        target: i64,
        end: u64,
    ) -> Result<Costs, Error> {
        let mut costs = Costs::default();
        while self.allocations.load(Ordering::Relaxed) < end
            && !self.is_full.load(Ordering::Relaxed)
        {
            let sizes: [u64; BATCH] = std::array::from_fn(|_| rng.size(arguments.sizes.bounds()));
            let bytes = sizes.iter().sum::<u64>().cast_signed();
            if self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > target {
                self.bytes.fetch_sub(bytes, Ordering::Relaxed);
                let values = self.take(&mut rng);
                let freed = values.iter().map(|value| value.len()).sum::<u64>().cast_signed();
                free(worker, &values, &mut costs)?;
                self.bytes.fetch_sub(freed, Ordering::Relaxed);
                continue;
            }
            let values = match allocate(worker, &sizes, &mut costs)? {
                Some(values) => values,
                None => self.singles(worker, &sizes, &mut costs)?,
            };
            let made = values.iter().map(|value| value.len()).sum::<u64>().cast_signed();
            self.bytes.fetch_sub(bytes - made, Ordering::Relaxed);
            self.allocations.fetch_add(values.len() as u64, Ordering::Relaxed);
            self.push(&mut rng, values);
        }
        Ok(costs)
    }

    /// Allocates one value in each transaction until one is refused: a part of the batch may fit.
    fn singles<D: Design>(
        &self,
        worker: &mut Worker<'_, D>,
        sizes: &[u64],
        costs: &mut Costs,
    ) -> Result<Vec<Value>, Error> {
        let mut values = Vec::new();
        for &bytes in sizes {
            let Some(made) = allocate(worker, &[bytes], costs)? else {
                self.is_full.store(true, Ordering::Relaxed);
                break;
            };
            values.extend(made);
        }
        Ok(values)
    }
}

/// Allocates values in one transaction; `None` when the heap is full.
fn allocate<D: Design>(
    worker: &mut Worker<'_, D>,
    sizes: &[u64],
    costs: &mut Costs,
) -> Result<Option<Vec<Value>>, Error> {
    let (done, ns) = timed(|| {
        worker.run(|tx| sizes.iter().map(|&bytes| Value::new(tx, bytes)).collect::<Result<_, _>>())
    });
    let values: Option<Vec<Value>> = unless_full(done.map(|done| done.value))?;
    if let Some(values) = &values {
        costs.allocate_ns += ns;
        costs.allocations += values.len() as u64;
    }
    Ok(values)
}

/// Frees values in one transaction.
fn free<D: Design>(
    worker: &mut Worker<'_, D>,
    values: &[Value],
    costs: &mut Costs,
) -> Result<(), Error> {
    let (done, ns) =
        timed(|| worker.run(|tx| values.iter().try_for_each(|value| value.free(tx))).map(drop));
    costs.free_ns += ns;
    costs.frees += values.len() as u64;
    done
}
