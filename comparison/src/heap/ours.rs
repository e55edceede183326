//! Lastword's `decoupled` design: all records in one array of words, each replaced in place.
//!
//! The pool has default options on a file. Only the size of its heap is set. Records of more than
//! 256 bytes lie in neighbouring blocks of the array.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lastword::{
    Array, BLOCK_BYTES, BLOCK_STRIDE, Durability, Error, Medium, Objects, Options, Place, Pool,
    Stop, Ticket, Words, Worker,
};

use super::Setup;
use super::progress::Progress;
use super::record::{self, Stamp};
use super::script::Writes;
use super::store::{self, OwnBytes, Store, System};
use crate::failure::Failure;

/// Words of a block of the array.
const BLOCK_WORDS: usize = BLOCK_BYTES as usize / 8;

/// Blocks that one transaction of loading prepares and fills: 128 KiB of records.
const LOADED_BLOCKS: u64 = 512;

/// Heap beside the array: the allocator's own words, and the root.
const SLACK_BYTES: u64 = 8 << 20;

/// Times from commit to durability in milliseconds.
type Samples = Arc<Mutex<Vec<f64>>>;

/// A pool with the array.
pub(crate) struct Ours {
    pool: Pool,
    words: Array<u64>,
    samples: Samples,
}

fn options(setup: &Setup) -> Options {
    let blocks = (8 * setup.words()).div_ceil(BLOCK_BYTES);
    let bytes = blocks * BLOCK_STRIDE + SLACK_BYTES;
    let options = match setup.grown_from {
        Some(mib) => Options::new().bytes(mib << 20).max_bytes(2 * bytes),
        None => Options::new().bytes(bytes),
    };
    let options = if setup.fixed_log { options.max_log_bytes(0) } else { options };
    let options = options.medium(Medium::File).durability(Durability::Async);
    match setup.recovery_seconds {
        Some(seconds) => options.recovery_time(Duration::from_secs_f64(seconds)),
        None => options,
    }
}

/// Writes the words of a record.
fn write<W: Words>(tx: &mut W, words: Array<u64>, index: u64, record: &[u64]) -> Result<(), Stop> {
    let first = index * record.len() as u64;
    for (at, part) in (first..).step_by(BLOCK_WORDS).zip(record.chunks(BLOCK_WORDS)) {
        tx.write_words(words.at(at)?.addr(), part)?;
    }
    Ok(())
}

/// Announces the writes of a record.
fn announce<W: Words>(tx: &mut W, words: Array<u64>, index: u64, len: usize) -> Result<(), Stop> {
    let first = index * len as u64;
    for at in (0..len).step_by(BLOCK_WORDS) {
        tx.will_write(words.at(first + at as u64)?.addr(), 8 * (len - at).min(BLOCK_WORDS));
    }
    Ok(())
}

impl Store for Ours {
    type Session<'s> = Session<'s>;

    const SYSTEM: System = System::Lastword;

    fn create(dir: &Path, setup: &Setup) -> Result<Ours, Failure> {
        let pool = Pool::create(dir.join("records.pool"), options(setup))?;
        let created = pool.run(|tx| {
            let words = Array::reserve(tx, setup.words())?;
            let root = tx.alloc(words)?;
            tx.set_root_ptr(root)?;
            Ok(words)
        });
        let words = created?.value;
        Ok(Ours { pool, words, samples: Samples::default() })
    }

    fn open(dir: &Path, setup: &Setup) -> Result<Ours, Failure> {
        let pool = Pool::open(dir.join("records.pool"), options(setup))?;
        let read = pool.run(|tx| {
            let root = tx.root_ptr::<Array<u64>>()?;
            tx.get(root)
        });
        let words = read?.value;
        Ok(Ours { pool, words, samples: Samples::default() })
    }

    fn load(&self, setup: &Setup, progress: &mut Progress) -> Result<(), Failure> {
        let (words, mut worker) = (self.words, self.pool.worker()?);
        let step = LOADED_BLOCKS * BLOCK_WORDS as u64 / setup.record_words as u64;
        let mut record = vec![0; setup.record_words];
        for first in (0..setup.records).step_by(step as usize) {
            let indices: Range<u64> = first..(first + step).min(setup.records);
            let _ = worker.run(|tx| {
                words.prepare(tx, LOADED_BLOCKS)?;
                for index in indices.clone() {
                    record::fill(&mut record, index, Stamp::LOADED);
                    write(tx, words, index, &record)?;
                }
                Ok(())
            })?;
            progress.reached(indices.end);
        }
        Ok(self.pool.checkpoint()?)
    }

    fn session(&self) -> Result<Session<'_>, Failure> {
        let (worker, samples) = (self.pool.worker()?, Arc::clone(&self.samples));
        Ok(Session { worker, words: self.words, last: None, samples })
    }

    fn own_bytes(&self) -> Option<OwnBytes> {
        let metrics = self.pool.metrics();
        Some(OwnBytes { log: metrics.log_bytes, heap: metrics.heap_image_bytes })
    }

    fn durable_ms(&self) -> Result<Option<Vec<f64>>, Failure> {
        self.pool.flush()?;
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Some(std::mem::take(&mut *samples)))
    }

    fn close(self) -> Result<(), Failure> {
        Ok(self.pool.close()?)
    }
}

/// A worker of the pool.
pub(crate) struct Session<'s> {
    worker: Worker<'s>,
    words: Array<u64>,
    last: Option<Ticket<'s>>,
    samples: Samples,
}

impl store::Session for Session<'_> {
    #[inline]
    fn replace(&mut self, writes: &Writes) -> Result<(), Failure> {
        let words = self.words;
        let committed = self.worker.run(|tx| {
            for (index, record) in writes.iter() {
                announce(tx, words, index, record.len())?;
            }
            writes.iter().try_for_each(|(index, record)| write(tx, words, index, record))
        })?;
        self.last = Some(committed.ticket);
        Ok(())
    }

    /// The pool's thread calls back when the ticket is durable. No thread waits for it. A sample
    /// takes an allocation and two locks for a moment.
    fn sample(&mut self, now: Instant) -> Result<(), Failure> {
        let Some(ticket) = self.last else { return Ok(()) };
        let samples = Arc::clone(&self.samples);
        ticket.on_durable(move |outcome: Result<(), Error>| {
            if outcome.is_ok() {
                let ms = now.elapsed().as_secs_f64() * 1e3;
                samples.lock().unwrap_or_else(PoisonError::into_inner).push(ms);
            }
        })?;
        Ok(())
    }

    fn read(&mut self, index: u64, record: &mut [u64]) -> Result<bool, Failure> {
        let (words, first) = (self.words, index * record.len() as u64);
        let _ = self.worker.read(|tx| {
            for (at, part) in (first..).step_by(BLOCK_WORDS).zip(record.chunks_mut(BLOCK_WORDS)) {
                tx.read_words(words.at(at)?.addr(), part)?;
            }
            Ok(())
        })?;
        Ok(true)
    }
}
