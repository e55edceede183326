//! Typical programs, which free, hand over, rewrite and expire values, or make many small maps.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use collections::raw::{BTree, ChainedMap, HashMap};
use lastword::{Design, Error, Pool, Stop, Tx, Worker};
use medium::cpu;

use crate::Failure;
use crate::arguments::Arguments;
use crate::holes;
use crate::store::{Place, Rng, Value, fill, free, median, unless_full, used_bytes};
use crate::table::{Cell, Table};

const MIB: u64 = 1 << 20;

/// Live sessions, their least and greatest size, and how many a thread adds before it expires old
/// ones, on average.
const SESSIONS: usize = 8000;
const SESSION_BYTES: (u64, u64) = (50, 800);
const EXPIRE_EVERY: u64 = 4096;

/// Runs one program and returns its table.
type Program = fn(&Arguments) -> Result<Table, Failure>;

pub(crate) fn run<D: Design>(arguments: &Arguments, print: &dyn Fn(Table)) -> Result<(), Failure> {
    let programs: [(char, Program); 6] = [
        ('a', refill::<D>),
        ('b', hand_over::<D>),
        ('c', rewrite::<D>),
        ('d', sessions::<D>),
        ('e', large_and_maps::<D>),
        ('f', holes::run::<D>),
    ];
    for (letter, program) in programs {
        if arguments.only.contains(letter) {
            print(program(arguments)?);
        }
    }
    Ok(())
}

/// (a) A full heap is freed; then values of other sizes are allocated until it is full again.
fn refill<D: Design>(arguments: &Arguments) -> Result<Table, Failure> {
    const SIZES: [u64; 4] = [100, 120, 500, 2000];
    let heap_bytes = arguments.heap_bytes.unwrap_or(8 * MIB);
    let place = Place::new()?;
    let pool = place.create::<D>(arguments, heap_bytes)?;
    let first = {
        let mut worker = pool.worker()?;
        let values = fill(&mut worker, 100, usize::MAX)?;
        free(&mut worker, &values, 100)?;
        values.len()
    };
    let fit = |pool: &Pool<D>| -> Result<Vec<usize>, Error> {
        let mut worker = pool.worker()?;
        let mut counts = Vec::new();
        for bytes in SIZES {
            let values = fill(&mut worker, bytes, usize::MAX)?;
            // Few in a transaction, so that each design's log holds it.
            free(&mut worker, &values, 25)?;
            counts.push(values.len());
        }
        Ok(counts)
    };
    let at_once = fit(&pool)?;
    let reopened = match D::DURABLE {
        true => Some(fit(&place.reopen(arguments, pool)?)?),
        false => None,
    };
    let title = format!(
        "(a) heap of {heap_bytes} bytes, filled with {first} values of 100 bytes, all freed: \
         how many values fit then"
    );
    let columns = ["after_freeing", "share", "after_reopening"];
    let mut table = Table::new("issue-a", title, &columns);
    for (at, bytes) in SIZES.into_iter().enumerate() {
        let share = at_once[at] as f64 * bytes as f64 / heap_bytes as f64;
        let again = reopened.as_ref().map_or(Cell::None, |counts| Cell::Count(counts[at] as u64));
        let cells = vec![Cell::Count(at_once[at] as u64), Cell::Share(share), again];
        table.row(format!("{bytes} bytes"), cells);
    }
    Ok(table)
}

/// (b) One worker allocates and another one frees, with one object alive at most.
fn hand_over<D: Design>(arguments: &Arguments) -> Result<Table, Failure> {
    const SLICES: u64 = 5;
    let heap_bytes = arguments.heap_bytes.unwrap_or(8 * MIB);
    let count = arguments.count.unwrap_or(100_000);
    let pool = Place::new()?;
    let pool = pool.create::<D>(arguments, heap_bytes)?;
    let (mut giver, mut taker) = (pool.worker()?, pool.worker()?);
    let title = format!(
        "(b) heap of {heap_bytes} bytes: worker A allocates 100 bytes, worker B frees them, \
         {count} times"
    );
    let columns = ["used_bytes", "allocate_ns", "free_ns"];
    let mut table = Table::new("issue-b", title, &columns);
    let used = |pool| Cell::Count(used_bytes(pool));
    table.row("0", vec![used(&pool), Cell::None, Cell::None]);
    let (mut done, mut full) = (0, false);
    for slice in 1..=SLICES {
        let (mut gave, mut took) = (Vec::new(), Vec::new());
        while done < count * slice / SLICES && !full {
            let began = cpu::cycles();
            let made = unless_full(giver.run(|tx| Value::new(tx, 100)).map(|done| done.value))?;
            let between = cpu::cycles();
            let Some(value) = made else {
                full = true;
                break;
            };
            let _ = taker.run(|tx| value.free(tx))?;
            gave.push(cpu::cycles_to_ns(between - began) as f64);
            took.push(cpu::cycles_to_ns(cpu::cycles() - between) as f64);
            done += 1;
        }
        let ns = |times| Cell::Number(median(times), 0);
        table.row(done.to_string(), vec![used(&pool), ns(gave), ns(took)]);
    }
    let fit = fill(&mut giver, 500, usize::MAX)?.len() as u64;
    table.row("then of 500 bytes fit", vec![Cell::Count(fit), Cell::None, Cell::None]);
    Ok(table)
}

/// (c) One worker rewrites values that grow.
fn rewrite<D: Design>(arguments: &Arguments) -> Result<Table, Failure> {
    let heap_bytes = arguments.heap_bytes.unwrap_or(16_800_000);
    let count = arguments.count.unwrap_or(40_000) as usize;
    let place = Place::new()?;
    let pool = place.create::<D>(arguments, heap_bytes)?;
    let mut worker = pool.worker()?;
    let title = format!("(c) heap of {heap_bytes} bytes: {count} values rewritten in place");
    let mut table =
        Table::new("issue-c", title, &["rewritten", "live_bytes", "live_share", "used_bytes"]);
    let mut values = fill(&mut worker, 100, count)?;
    for bytes in [100, 120, 150] {
        let mut rewritten = if bytes == 100 { values.len() } else { 0 };
        while rewritten < values.len() && bytes != 100 {
            let old = values[rewritten];
            let done = worker.run(|tx| {
                let new = Value::string(tx, bytes)?;
                old.free(tx)?;
                Ok(new)
            });
            let Some(new) = unless_full(done.map(|done| done.value))? else { break };
            values[rewritten] = new;
            rewritten += 1;
        }
        let live: u64 = values.iter().map(|value| value.len()).sum();
        let used = Cell::Count(used_bytes(&pool));
        let share = Cell::Share(live as f64 / heap_bytes as f64);
        let cells = vec![Cell::Count(rewritten as u64), Cell::Count(live), share, used];
        table.row(format!("{bytes} bytes"), cells);
    }
    Ok(table)
}

/// (d) Threads add sessions of random sizes; now and then one of them expires the oldest.
fn sessions<D: Design>(arguments: &Arguments) -> Result<Table, Failure> {
    let heap_bytes = arguments.heap_bytes.unwrap_or(64 * MIB);
    let threads = arguments.threads.unwrap_or(4);
    let pool = Place::new()?;
    let pool = pool.create::<D>(arguments, heap_bytes)?;
    let sessions = Mutex::new(VecDeque::new());
    let title = format!(
        "(d) heap of {heap_bytes} bytes: {SESSIONS} sessions, that {threads} threads add and expire"
    );
    let columns = ["added", "refused", "live_bytes", "used_bytes"];
    let mut table = Table::new("issue-d", title, &columns);
    for run in 0..3 {
        let (added, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        let began = Instant::now();
        let work = |thread: u64| -> Result<(), Error> {
            let mut worker = pool.worker()?;
            let mut rng = Rng::new(arguments.seed << 16 | run << 8 | thread);
            for done in 0.. {
                match arguments.count {
                    Some(count) if done >= count => break,
                    None if began.elapsed() >= arguments.time => break,
                    _ => (),
                }
                let bytes = rng.size(SESSION_BYTES);
                let made = worker.run(|tx| Value::string(tx, bytes)).map(|done| done.value);
                let made = unless_full(made)?;
                let number = if made.is_some() { &added } else { &refused };
                number.fetch_add(1, Ordering::Relaxed);
                sessions.lock().expect("no holder panics").extend(made);
                if rng.below(EXPIRE_EVERY) == 0 || made.is_none() {
                    expire(&mut worker, &sessions)?;
                }
            }
            expire(&mut worker, &sessions)
        };
        thread::scope(|scope| {
            let work = &work;
            let workers: Vec<_> =
                (0..threads as u64).map(|thread| scope.spawn(move || work(thread))).collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect("a worker panicked"))
        })?;
        let live = sessions.lock().expect("no holder panics").iter().map(|value| value.len()).sum();
        let used = Cell::Count(used_bytes(&pool));
        let counts = [added.into_inner(), refused.into_inner(), live];
        let cells = counts.map(Cell::Count).into_iter().chain([used]).collect();
        table.row(format!("run {}", run + 1), cells);
    }
    Ok(table)
}

/// Frees all sessions but the newest.
fn expire<D: Design>(
    worker: &mut Worker<'_, D>,
    sessions: &Mutex<VecDeque<Value>>,
) -> Result<(), Error> {
    let old: Vec<Value> = {
        let mut sessions = sessions.lock().expect("no holder panics");
        let many = sessions.len().saturating_sub(SESSIONS);
        sessions.drain(..many).collect()
    };
    free(worker, &old, 16)
}

/// (e) Values above 1 KiB, and maps of a few entries, until the heap is full.
fn large_and_maps<D: Design>(arguments: &Arguments) -> Result<Table, Failure> {
    let heap_bytes = arguments.heap_bytes.unwrap_or(64 * MIB);
    let title = format!("(e) heap of {heap_bytes} bytes: how many fit");
    let mut table = Table::new("issue-e", title, &["fit", "share", "heap_bytes_each"]);
    for bytes in [1025, 2000] {
        let fit = until_full::<D>(arguments, heap_bytes, &|tx| Value::string(tx, bytes).map(drop))?;
        let share = (fit * bytes) as f64 / heap_bytes as f64;
        let cells =
            vec![Cell::Count(fit), Cell::Share(share), Cell::Count(heap_bytes / fit.max(1))];
        table.row(format!("value of {bytes} bytes"), cells);
    }
    let mut maps = |name: &str, make: Make<'_, D>| -> Result<(), Failure> {
        let fit = until_full::<D>(arguments, heap_bytes, make)?;
        let cells = vec![Cell::Count(fit), Cell::None, Cell::Count(heap_bytes / fit.max(1))];
        table.row(name, cells);
        Ok(())
    };
    maps("HashMap of 4 entries", &|tx| {
        let map = HashMap::create(tx, 16)?;
        (0..4).try_for_each(|key| {
            map.insert(tx, key, key)
                .map(|inserted| assert_eq!(inserted, collections::raw::Inserted::New))
        })
    })?;
    maps("ChainedMap of 4 entries", &|tx| {
        let map = ChainedMap::create(tx, 16)?;
        (0..4).try_for_each(|key| map.insert(tx, key, key).map(drop))
    })?;
    maps("BTree of 4 entries", &|tx| {
        let map = BTree::<28>::create(tx)?;
        (0..4).try_for_each(|key| map.insert(tx, key, key).map(drop))
    })?;
    Ok(table)
}

/// Makes one value or map in a transaction.
type Make<'f, D> = &'f dyn Fn(&mut Tx<'_, D>) -> Result<(), Stop>;

/// Returns how many values or maps fit in a new heap.
fn until_full<D: Design>(
    arguments: &Arguments,
    heap_bytes: u64,
    make: Make<'_, D>,
) -> Result<u64, Failure> {
    let place = Place::new()?;
    let pool = place.create::<D>(arguments, heap_bytes)?;
    let mut worker = pool.worker()?;
    let mut fit = 0;
    while unless_full(worker.run(|tx| make(tx)).map(drop))?.is_some() {
        fit += 1;
    }
    Ok(fit)
}
