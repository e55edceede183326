//! Tests of the requirements on every back end; each back end runs them.

mod simulated;

use std::collections::VecDeque;
use std::path::PathBuf;

use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tempfile::TempDir;

use crate::cpu::LineWriteBack;
use crate::sync::Arc;
use crate::writes::{mark, run};
use crate::{Buffer, Domain, Emulation, Error, HeapMedium, LogMedium, PoolFile, Prewrite};
use system::System;

pub(crate) const HEAP_OFFSET: u64 = 8192;
pub(crate) const HEAP_BYTES: u64 = 256 << 10;
const FILE_BYTES: u64 = HEAP_OFFSET + HEAP_BYTES + 4096;
const HEAP_WORDS: u64 = HEAP_BYTES / 8;

/// Where a pool's file is: in a directory of its own, as `pool`.
pub(crate) struct Disk {
    system: System,
    path: PathBuf,
    _dir: Option<TempDir>,
}

impl Disk {
    /// A directory of the kernel's.
    pub(crate) fn kernel() -> Disk {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        Disk { system: System::kernel(), path, _dir: Some(dir) }
    }

    /// Another system's root.
    pub(crate) fn of(system: System) -> Disk {
        Disk { system, path: PathBuf::from("/pool"), _dir: None }
    }

    /// The file, published.
    pub(crate) fn pool(&self) -> Arc<PoolFile> {
        let file = PoolFile::create_on(&self.system, &self.path, FILE_BYTES, Prewrite::Zeros);
        let file = file.unwrap();
        file.publish().unwrap();
        Arc::new(file)
    }

    fn reopened_words(&self) -> Vec<u64> {
        let file = PoolFile::open_on(&self.system, &self.path).unwrap();
        let mut words = vec![0; FILE_BYTES as usize / 8];
        file.read_at(0, &mut words).unwrap();
        words
    }
}

/// A pool's file, published, to be reopened as `pool` in the directory.
pub(crate) fn pool() -> (TempDir, Arc<PoolFile>) {
    let mut disk = Disk::kernel();
    let file = disk.pool();
    (disk._dir.take().unwrap(), file)
}

/// The same, opened such that every write fails.
pub(crate) fn pool_for_reading() -> (TempDir, Arc<PoolFile>) {
    let (dir, file) = pool();
    drop(file);
    let file = PoolFile::open_shared(dir.path().join("pool")).unwrap();
    (dir, Arc::new(file))
}

/// Every persistence domain that runs on this machine, each way to write lines back included.
pub(crate) fn domains() -> Vec<Domain> {
    let dax = LineWriteBack::every().into_iter().map(Domain::dax_over_dram);
    let emulated = Domain::emulated(Emulation::new(100, 0));
    dax.chain([Domain::persistent_cache(), emulated]).collect()
}

pub(crate) fn heap_image_keeps_every_write<H: HeapMedium>(
    new: impl Fn(Arc<PoolFile>, u64, u64) -> Result<H, Error>,
) {
    heap_image_keeps_every_write_on(Disk::kernel, new);
}

pub(crate) fn heap_image_keeps_every_write_on<H: HeapMedium>(
    disk: impl Fn() -> Disk,
    new: impl Fn(Arc<PoolFile>, u64, u64) -> Result<H, Error>,
) {
    for seed in 0..8 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let disk = disk();
        let file = disk.pool();
        let mut model = vec![0; FILE_BYTES as usize / 8];
        for _opening in 0..3 {
            let mut heap_image = new(file.clone(), HEAP_OFFSET, HEAP_BYTES).unwrap();
            for _ in 0..20 {
                let batch = random_batch(&mut random, &mut model, HEAP_OFFSET);
                heap_image.write_back(&batch).unwrap();
                if random.random_bool(0.3) {
                    heap_image.barrier().unwrap();
                }
            }
            heap_image.barrier().unwrap();
            let mut words = vec![0; FILE_BYTES as usize / 8];
            file.read_at(0, &mut words).unwrap();
            assert!(words == model, "seed {seed}");
        }
        drop(file);
        assert!(disk.reopened_words() == model, "seed {seed}, reopened");
    }
}

/// Returns a batch of runs of all lengths, some overlapping, and applies it to `model`, in which
/// the heap begins at byte `heap_offset`.
pub(crate) fn random_batch(random: &mut impl Rng, model: &mut [u64], heap_offset: u64) -> Vec<u64> {
    let mut batch = Vec::new();
    for _ in 0..random.random_range(0..40) {
        let count = match random.random_range(0..20) {
            0 => random.random_range(1..5000),
            1 => 512,
            _ => random.random_range(1..20),
        };
        let mut index = random.random_range(0..=HEAP_WORDS - count);
        if random.random_bool(0.2) {
            index = (index & !511).min(HEAP_WORDS - count); // whole pages too
        }
        batch.push(mark(random.random_range(0..1 << 48)));
        batch.push(run(index, count as usize));
        for word in index..index + count {
            let value = random.random();
            batch.push(value);
            model[(heap_offset / 8 + word) as usize] = value;
        }
    }
    batch
}

pub(crate) fn heap_image_refuses_wrong_batches<H: HeapMedium>(
    new: impl Fn(Arc<PoolFile>, u64, u64) -> Result<H, Error>,
) {
    heap_image_refuses_wrong_batches_on(Disk::kernel, new);
}

pub(crate) fn heap_image_refuses_wrong_batches_on<H: HeapMedium>(
    disk: impl Fn() -> Disk,
    new: impl Fn(Arc<PoolFile>, u64, u64) -> Result<H, Error>,
) {
    let disk = disk();
    let file = disk.pool();
    let mut heap_image = new(file.clone(), HEAP_OFFSET, HEAP_BYTES).unwrap();
    let last = HEAP_WORDS - 1;
    for wrong in [
        vec![run(0, 1), 7, run(last, 2), 7, 7],
        vec![run(0, 1), 7, run(last + 1, 1), 7],
        vec![run(0, 1), 7, run((1 << 48) - 1, 1), 7],
    ] {
        let result = heap_image.write_back(&wrong);
        assert!(matches!(result, Err(Error::OutOfHeap { .. })), "{result:?}");
    }
    let torn = heap_image.write_back(&[run(0, 1), 7, run(1, 3), 7, 7]);
    assert!(matches!(torn, Err(Error::TornBatch { words: 5 })), "{torn:?}");
    heap_image.barrier().unwrap();
    assert_eq!((heap_image.counts().bytes, heap_image.counts().device_writes), (0, 0));
    // It goes on, up to the last word.
    heap_image.write_back(&[run(last, 1), 42]).unwrap();
    heap_image.barrier().unwrap();
    for (offset, bytes) in [(HEAP_OFFSET + 8, 4096), (HEAP_OFFSET, 100), (FILE_BYTES, 4096)] {
        assert!(matches!(new(file.clone(), offset, bytes), Err(Error::BadArea { .. })));
    }
    drop((heap_image, file));
    let words = disk.reopened_words();
    let written: Vec<usize> = (0..words.len()).filter(|&i| words[i] != 0).collect();
    assert_eq!(written, [(HEAP_OFFSET / 8 + last) as usize]);
}

pub(crate) fn log_keeps_every_group<L: LogMedium>(
    new: impl Fn(Arc<PoolFile>, u64, u64) -> Result<L, Error>,
) {
    log_keeps_every_group_on(Disk::kernel, new);
}

pub(crate) fn log_keeps_every_group_on<L: LogMedium>(
    disk: impl Fn() -> Disk,
    new: impl Fn(Arc<PoolFile>, u64, u64) -> Result<L, Error>,
) {
    for seed in 0..4 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let disk = disk();
        let file = disk.pool();
        let log = new(file.clone(), HEAP_OFFSET, HEAP_BYTES).unwrap();
        assert_eq!(log.bytes(), HEAP_BYTES);
        let block_words = log.block_bytes() / 8;
        let blocks = HEAP_WORDS as usize / block_words;
        let mut model = vec![0; FILE_BYTES as usize / 8];
        let mut in_flight = VecDeque::new();
        for _ in 0..60 {
            // At increasing positions, so that no group in flight is overwritten.
            let mut first = random.random_range(0..blocks / 2);
            for _ in 0..random.random_range(1..=log.depth().max(1)) {
                let length = random.random_range(0..=9.min(blocks - first));
                let (at, words) = (first * block_words, length * block_words);
                first += length;
                let mut group = Buffer::new(words + 1);
                group.words_mut().iter_mut().for_each(|word| *word = random.random());
                let place = HEAP_OFFSET as usize / 8 + at;
                model[place..place + words].copy_from_slice(&group.words()[..words]);
                let expected = group.words()[..words].to_vec();
                let durable = log.append(at as u64 * 8, group, words).unwrap();
                assert_eq!(durable.is_some(), log.depth() == 0);
                in_flight.push_back((at, expected, durable));
            }
            // In the order in which they came.
            while let Some((at, expected, durable)) = in_flight.pop_front() {
                let early = durable.or_else(|| log.acknowledge(false).unwrap());
                let group = early.or_else(|| log.acknowledge(true).unwrap()).unwrap();
                assert!(group.words()[..expected.len()] == expected, "seed {seed}");
                let mut back = vec![0; expected.len()];
                log.read(at as u64 * 8, &mut back).unwrap();
                assert!(back == expected, "seed {seed}");
            }
            assert!(log.acknowledge(true).unwrap().is_none());
        }
        let mut one = [0];
        log.read(HEAP_BYTES - 8, &mut one).unwrap();
        drop((log, file));
        assert!(disk.reopened_words() == model, "seed {seed}, reopened");
    }
}

pub(crate) fn log_refuses_wrong_ranges<L: LogMedium>(
    new: impl Fn(Arc<PoolFile>, u64, u64) -> Result<L, Error>,
) {
    log_refuses_wrong_ranges_on(Disk::kernel, new);
}

pub(crate) fn log_refuses_wrong_ranges_on<L: LogMedium>(
    disk: impl Fn() -> Disk,
    new: impl Fn(Arc<PoolFile>, u64, u64) -> Result<L, Error>,
) {
    let disk = disk();
    let file = disk.pool();
    let log = new(file.clone(), HEAP_OFFSET, HEAP_BYTES).unwrap();
    let block = log.block_bytes() as u64;
    let words = block as usize / 8;
    let mut group = Buffer::new(2 * words);
    group.words_mut().fill(7);
    for (at, words) in [
        (8, words),
        (0, words + 1),
        (HEAP_BYTES - block, 2 * words),
        (HEAP_BYTES, words),
        (block.wrapping_neg(), words),
        (0, usize::MAX & !511),
    ] {
        let result = log.append(at, group.clone(), words);
        assert!(matches!(result, Err(Error::OutOfLog { .. })), "{at} {words} {result:?}");
    }
    let group_words = group.words().len();
    let longer = log.append(0, group, group_words + 512);
    assert!(matches!(longer, Err(Error::OutOfGroup { .. })), "{longer:?}");
    for at in [4, HEAP_BYTES, HEAP_BYTES - 8, u64::MAX - 7] {
        let result = log.read(at, &mut [0; 2]);
        assert!(matches!(result, Err(Error::OutOfLog { .. })), "{at} {result:?}");
    }
    assert!(log.read(HEAP_BYTES - 8, &mut [0]).is_ok());
    assert!(log.acknowledge(true).unwrap().is_none());
    assert_eq!((log.counts().bytes, log.counts().device_writes), (0, 0));
    for (offset, bytes) in [(HEAP_OFFSET + 8, 4096), (HEAP_OFFSET, 100), (FILE_BYTES, 4096)] {
        assert!(matches!(new(file.clone(), offset, bytes), Err(Error::BadArea { .. })));
    }
    drop((log, file));
    assert!(disk.reopened_words().iter().all(|&word| word == 0));
}

/// Returns a test's prerequisite. If it is missing, reports the skipped test by name, past the
/// capture of its output.
pub(crate) fn or_skip<T, E: std::fmt::Display>(found: Result<T, E>, what: &str) -> Option<T> {
    use std::io::Write;
    found
        .map_err(|reason| {
            let thread = std::thread::current();
            let test = thread.name().unwrap_or("a test");
            let _ = writeln!(std::io::stderr(), "skipped: {test}: {what}: {reason}");
        })
        .ok()
}
