//! Pools and values of the programs.

use std::path::PathBuf;

use lastword::{
    Addr, Allocate, Bytes, Design, Error, Medium, OBJECT_BYTES_MAX, Options, Pool, Stop, Worker,
};
use medium::cpu;

use crate::Failure;
use crate::arguments::Arguments;

/// A directory in memory for one pool.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    pub(crate) fn new() -> Result<Place, Failure> {
        Ok(Place(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?))
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("pool")
    }

    pub(crate) fn create<D: Design>(
        &self,
        arguments: &Arguments,
        heap_bytes: u64,
    ) -> Result<Pool<D>, Error> {
        Pool::create_as(self.path(), options(arguments, heap_bytes))
    }

    /// Closes the pool and opens it again.
    pub(crate) fn reopen<D: Design>(
        &self,
        arguments: &Arguments,
        pool: Pool<D>,
    ) -> Result<Pool<D>, Error> {
        let heap_bytes = pool.info().heap_bytes;
        pool.close()?;
        Pool::open_as(self.path(), options(arguments, heap_bytes))
    }
}

fn options(arguments: &Arguments, heap_bytes: u64) -> Options {
    let medium = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
    Options::new().bytes(heap_bytes).log_bytes(arguments.log_bytes).medium(medium)
}

/// A value in the heap. Its handle is in the program's memory, so that programs write no words
/// beside the allocator's and the value's own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    /// An object without content.
    Object {
        object: u64,
        bytes: u64,
    },
    String(Bytes),
}

/// The content of strings.
static CONTENT: [u8; 1 << 20] = [b'x'; 1 << 20];

impl Value {
    /// Allocates a string with content.
    pub(crate) fn string<W: Allocate>(tx: &mut W, bytes: u64) -> Result<Value, Stop> {
        Bytes::new(tx, &CONTENT[..bytes as usize]).map(Value::String)
    }

    /// Allocates an object and does not write it, or a string where the size needs one.
    pub(crate) fn new<W: Allocate>(tx: &mut W, bytes: u64) -> Result<Value, Stop> {
        if bytes > OBJECT_BYTES_MAX as u64 {
            return Value::string(tx, bytes);
        }
        Ok(Value::Object { object: tx.allocate(bytes as usize)?, bytes })
    }

    pub(crate) fn free<W: Allocate>(self, tx: &mut W) -> Result<(), Stop> {
        match self {
            Value::Object { object, bytes } => tx.retire(Addr::new(object, 0), bytes),
            Value::String(string) => string.free(tx),
        }
    }

    pub(crate) fn len(self) -> u64 {
        match self {
            Value::Object { bytes, .. } => bytes,
            Value::String(string) => string.len(),
        }
    }
}

/// Turns "full" into `None`.
pub(crate) fn unless_full<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Error::Full { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Values of one size that a transaction allocates or frees.
pub(crate) fn batch(bytes: u64) -> usize {
    ((64 << 10) / bytes).clamp(1, 100) as usize
}

/// Allocates values until the heap is full, or `most` of them.
pub(crate) fn fill<D: Design>(
    worker: &mut Worker<'_, D>,
    bytes: u64,
    most: usize,
) -> Result<Vec<Value>, Error> {
    let mut values = Vec::new();
    let mut size = batch(bytes);
    while values.len() < most {
        let here = size.min(most - values.len());
        let made = worker.run(|tx| (0..here).map(|_| Value::new(tx, bytes)).collect());
        match unless_full(made.map(|done| done.value))? {
            Some(made) => values.extend::<Vec<Value>>(made),
            None if size == 1 => break,
            // Part of a batch may fit.
            None => size = 1,
        }
    }
    Ok(values)
}

/// Frees the values, a batch in each transaction.
pub(crate) fn free<D: Design>(
    worker: &mut Worker<'_, D>,
    values: &[Value],
    batch: usize,
) -> Result<(), Error> {
    for values in values.chunks(batch) {
        let _ = worker.run(|tx| values.iter().try_for_each(|value| value.free(tx)))?;
    }
    Ok(())
}

/// Returns the bytes of the heap that no value of another size can use now: all but free runs.
pub(crate) fn used_bytes<D: Design>(pool: &Pool<D>) -> u64 {
    let usage = pool.heap_usage();
    usage.heap_bytes - usage.free_bytes
}

/// Runs `work` and returns its result and this thread's CPU time in nanoseconds.
pub(crate) fn timed<R>(work: impl FnOnce() -> R) -> (R, u64) {
    let before = cpu::thread_cpu_ns();
    let result = work();
    (result, cpu::thread_cpu_ns() - before)
}

/// A random generator: SplitMix64.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns a number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Returns a size whose logarithm is uniform between those of the bounds.
    pub(crate) fn size(&mut self, (least, greatest): (u64, u64)) -> u64 {
        let part = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let ratio = greatest as f64 / least as f64;
        (least as f64 * ratio.powf(part)) as u64
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at as u64 + 1) as usize);
        }
    }
}

/// Returns the value below which the share `part` of the sorted numbers lies; 0 for none.
pub(crate) fn quantile(sorted: &[f64], part: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * part).round() as usize).copied().unwrap_or(0.0)
}

pub(crate) fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    quantile(&numbers, 0.5)
}
