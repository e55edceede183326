//! Reuse of freed memory of the heap: for other sizes, and after frees by other workers.
//!
//! Each test is a program of `benches/heap` with a small heap: (a) to (f) in `heap issue`.
//!
//! A small heap has small slabs and as many words of the allocator as a large one. The bounds are
//! therefore below those of `heap fill`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::VecDeque;
use std::path::Path;

use collections::raw::{BTree, ChainedMap, HashMap};
use lastword::{
    Addr, Allocate, Bytes, DecoupledSoftware, Design, Error, Medium, Options, Pool, Shadow, Stop,
    Tx, Volatile, Words, Worker,
};

const EMULATED: Medium = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
const MIB: u64 = 1 << 20;

fn options(heap_bytes: u64) -> Options {
    Options::new().bytes(heap_bytes).log_bytes(16 * MIB).ring_entries(1 << 16).medium(EMULATED)
}

fn create<D: Design>(dir: &Path, heap_bytes: u64) -> Pool<D> {
    Pool::<D>::create_as(dir.join("pool"), options(heap_bytes)).unwrap()
}

/// Calls the function for the type of each design.
macro_rules! every_design {
    ($function:ident $arguments:tt) => {
        $function::<Volatile> $arguments;
        every_durable!($function $arguments);
    };
}

/// Allocates in one transaction; `None` when the heap is full.
fn make<D: Design, R>(
    worker: &mut Worker<'_, D>,
    body: impl FnMut(&mut Tx<'_, D>) -> Result<R, Stop>,
) -> Option<R> {
    match worker.run(body) {
        Ok(done) => Some(done.value),
        Err(Error::Full { .. }) => None,
        Err(error) => panic!("{}: {error}", D::NAME),
    }
}

fn string<D: Design>(worker: &mut Worker<'_, D>, bytes: usize) -> Option<Bytes> {
    make(worker, |tx| Bytes::new(tx, &[7; 4096][..bytes]))
}

/// Fills the heap with strings of one size.
fn fill<D: Design>(worker: &mut Worker<'_, D>, bytes: usize) -> Vec<Bytes> {
    let mut strings = Vec::new();
    for batch in [25, 1] {
        let several = |tx: &mut Tx<'_, D>| {
            (0..batch).map(|_| Bytes::new(tx, &[7; 4096][..bytes])).collect::<Result<Vec<_>, _>>()
        };
        while let Some(made) = make(worker, several) {
            strings.extend(made);
        }
    }
    strings
}

fn free<D: Design>(worker: &mut Worker<'_, D>, strings: &[Bytes]) {
    for strings in strings.chunks(25) {
        let _ = worker.run(|tx| strings.iter().try_for_each(|string| string.free(tx))).unwrap();
    }
}

/// Fills the heap with strings, frees them, and expects that they took 70 % of the heap.
fn expect_most_of_heap<D: Design>(pool: &Pool<D>, bytes: usize, when: &str) {
    let mut worker = pool.worker().unwrap();
    let strings = fill(&mut worker, bytes);
    free(&mut worker, &strings);
    let (filled, heap_bytes) = (strings.len() * bytes, pool.info().heap_bytes);
    let text = format!("{}, {when}: {filled} of {heap_bytes} in {bytes} bytes each", D::NAME);
    assert!(10 * filled as u64 >= 7 * heap_bytes, "{text}");
}

/// (a)
#[test]
fn freed_heap_serves_other_sizes() {
    every_design!(other_sizes());
}

fn other_sizes<D: Design>() {
    let dir = tempfile::tempdir().unwrap();
    let mut pool = create::<D>(dir.path(), 8 * MIB);
    expect_most_of_heap(&pool, 100, "new");
    for when in ["freed", "open again"] {
        for bytes in [120, 500, 2000, 100] {
            expect_most_of_heap(&pool, bytes, when);
        }
        if !D::DURABLE {
            break;
        }
        pool.close().unwrap();
        pool = Pool::open_as(dir.path().join("pool"), options(8 * MIB)).unwrap();
    }
    assert_eq!(pool.check_heap().unwrap().objects, 0);
}

/// (b)
#[test]
fn objects_freed_by_another_worker_are_reused() {
    every_design!(handed_over());
}

fn handed_over<D: Design>() {
    let dir = tempfile::tempdir().unwrap();
    let pool = create::<D>(dir.path(), 4 * MIB);
    let (mut giver, mut taker) = (pool.worker().unwrap(), pool.worker().unwrap());
    // More than the heap, one object at a time.
    for _ in 0..35_000 {
        let string = string(&mut giver, 100).unwrap();
        let _ = taker.run(|tx| string.free(tx)).unwrap();
    }
    drop((giver, taker));
    expect_most_of_heap(&pool, 500, "handed over");
}

/// (c)
#[test]
fn growing_values_reuse_freed_slots() {
    every_design!(growing());
}

fn growing<D: Design>() {
    let dir = tempfile::tempdir().unwrap();
    let pool = create::<D>(dir.path(), MIB);
    let mut worker = pool.worker().unwrap();
    let mut strings: Vec<_> = (0..2500).map(|_| string(&mut worker, 100).unwrap()).collect();
    for bytes in [120, 150, 180, 220] {
        for (at, old) in strings.iter_mut().enumerate() {
            let new = make(&mut worker, |tx| {
                let new = Bytes::new(tx, &[7; 300][..bytes])?;
                old.free(tx)?;
                Ok(new)
            });
            *old = new.unwrap_or_else(|| panic!("{}: full at {at} of {bytes} bytes", D::NAME));
        }
    }
}

/// (d)
#[test]
fn sessions_expired_by_any_worker_do_not_fill_heap() {
    every_design!(sessions());
}

fn sessions<D: Design>() {
    const LIVE: usize = 500;
    let dir = tempfile::tempdir().unwrap();
    let pool = create::<D>(dir.path(), 2 * MIB);
    let mut workers: Vec<_> = (0..4).map(|_| pool.worker().unwrap()).collect();
    let mut sessions = VecDeque::new();
    let mut seed = 35_u64;
    for step in 0..30_000 {
        // xorshift64
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let bytes = 50 << (seed >> 8 & 3) | (seed >> 16 & 63) as usize;
        let added = string(&mut workers[step % 3], bytes);
        sessions.push_back(added.unwrap_or_else(|| panic!("{}: full at {step}", D::NAME)));
        if seed.is_multiple_of(200) {
            // Mostly a worker that adds none.
            let worker = &mut workers[3 - (seed >> 32 & 3) as usize / 3];
            let old: Vec<_> = sessions.drain(..sessions.len().saturating_sub(LIVE)).collect();
            free(worker, &old);
        }
    }
    free(&mut workers[0], sessions.make_contiguous());
    drop(workers);
    expect_most_of_heap(&pool, 500, "all expired");
}

/// (e)
#[test]
fn values_above_one_kib_fill_heap() {
    every_design!(large_values());
}

fn large_values<D: Design>() {
    let dir = tempfile::tempdir().unwrap();
    let pool = create::<D>(dir.path(), 8 * MIB);
    for bytes in [1025, 2000, 3000] {
        expect_most_of_heap(&pool, bytes, "large");
    }
}

/// (e)
#[test]
fn small_maps_take_little_memory() {
    every_design!(small_maps());
}

fn small_maps<D: Design>() {
    let count = |make_map: fn(&mut Tx<'_, D>) -> Result<(), Stop>| {
        let dir = tempfile::tempdir().unwrap();
        let pool = create::<D>(dir.path(), MIB);
        let mut worker = pool.worker().unwrap();
        (0..).take_while(|_| make(&mut worker, make_map).is_some()).count()
    };
    let hash = count(|tx| {
        let map = HashMap::create(tx, 16)?;
        (0..4).try_for_each(|key| map.insert(tx, key, key).map(drop))
    });
    let chained = count(|tx| {
        let map = ChainedMap::create(tx, 16)?;
        (0..4).try_for_each(|key| map.insert(tx, key, key).map(drop))
    });
    let tree = count(|tx| {
        let map = BTree::<28>::create(tx)?;
        (0..4).try_for_each(|key| map.insert(tx, key, key).map(drop))
    });
    // At most 1.46 KiB each.
    for (name, maps) in [("HashMap", hash), ("ChainedMap", chained), ("BTree", tree)] {
        assert!(maps >= 700, "{}: {maps} of {name} fit", D::NAME);
    }
}

/// Has the worker own an empty slab of each class. Returns the bytes of their free slots.
fn own_each_class<D: Design>(pool: &Pool<D>, worker: &mut Worker<'_, D>) -> u64 {
    for bytes in (16..=1024).step_by(16) {
        let both =
            |tx: &mut Tx<'_, D>| Ok((tx.allocate(bytes)?, Bytes::new(tx, &[7; 1024][..bytes])?));
        let (object, string) = worker.run(both).unwrap().value;
        let _ = worker.run(|tx| tx.retire(Addr::new(object, 0), bytes as u64)).unwrap();
        let _ = worker.run(|tx| string.free(tx)).unwrap();
    }
    let owned = pool.heap_usage().free_slot_bytes();
    assert!(owned > MIB / 8, "{}: {owned}", D::NAME);
    owned
}

/// A transaction that takes all slabs of the first worker writes to more pages than the shadow
/// holds.
#[test]
fn full_heap_reclaims_arena_larger_than_a_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(MIB).shadow(Shadow::Software).shadow_bytes(64 << 10);
    let pool = Pool::<DecoupledSoftware>::create_as(dir.path().join("pool"), options).unwrap();
    let (mut first, mut other) = (pool.worker().unwrap(), pool.worker().unwrap());
    let owned = own_each_class(&pool, &mut first);
    while make(&mut other, |tx| tx.allocate(100)).is_some() {}
    let left = pool.heap_usage().free_slot_bytes();
    assert!(left < MIB / 64, "{left} of {owned} bytes are left in free slots");
}

#[test]
fn begin_after_full_heap_reclaims_also_after_a_read() {
    every_design!(begin_after_full());
}

fn begin_after_full<D: Design>() {
    let dir = tempfile::tempdir().unwrap();
    let pool = create::<D>(dir.path(), MIB);
    let (mut first, mut other) = (pool.worker().unwrap(), pool.worker().unwrap());
    own_each_class(&pool, &mut first);
    let fill = |worker: &mut Worker<'_, D>| {
        let mut count = 0;
        loop {
            let mut open = worker.begin(false).unwrap();
            match open.tx().allocate(100) {
                // The commit may report a conflict, for lack of room in the log.
                Ok(_) => count += open.commit().unwrap().map_or(0, |_| 1),
                Err(stop) => {
                    assert_eq!(stop, Stop::Full);
                    assert!(matches!(open.commit(), Err(Error::Full { .. })));
                    return count;
                }
            }
        }
    };
    assert!(fill(&mut other) > 1000);
    let _ = other.begin(true).unwrap().commit().unwrap().unwrap();
    // The first begin reclaims the other worker's memory.
    let more = fill(&mut other);
    assert!(more > 1000, "{}: {more} more objects", D::NAME);
    assert_eq!(fill(&mut other), 0);
}

/// Heap words that count their accesses.
struct Counted {
    words: Vec<u64>,
    accesses: usize,
}

impl Counted {
    fn word(&mut self, at: Addr) -> Result<&mut u64, Stop> {
        self.accesses += 1;
        // Below the pool's tag.
        self.words.get_mut((at.byte() & 0xff_ffff_ffff) as usize / 8).ok_or(Stop::BadPointer)
    }
}

impl Words for Counted {
    fn read(&mut self, at: Addr) -> Result<u64, Stop> {
        self.word(at).copied()
    }

    fn write(&mut self, at: Addr, value: u64) -> Result<(), Stop> {
        *self.word(at)? = value;
        Ok(())
    }

    fn retire(&mut self, _at: Addr, _bytes: u64) -> Result<(), Stop> {
        unreachable!("the allocator frees nothing through its caller")
    }
}

/// (f) Returns the accesses of freeing a run, and of taking one of 100 KB.
fn beside(holes: u64) -> [usize; 2] {
    let heap_bytes = (2 * holes + 8) * (64 << 10);
    let heap = lw_alloc::Heap::new(0x1234, heap_bytes);
    let tx = &mut Counted { words: vec![0; heap_bytes as usize / 8], accesses: 0 };
    heap.format(tx).unwrap();
    let bytes = 40_000_u64.div_ceil(256) * 256;
    let runs: Vec<_> = (0..2 * holes).map(|_| heap.reserve_blocks(tx, bytes / 256)).collect();
    let free = |tx: &mut Counted, index: u64| {
        let run = runs[index as usize].unwrap();
        let before = tx.accesses;
        heap.retire(tx, 0, Addr::new(run, 0), bytes).unwrap();
        tx.accesses - before
    };
    for index in 0..holes {
        free(tx, 2 * index);
    }
    let before = tx.accesses;
    heap.reserve_blocks(tx, 400).unwrap();
    let taken = tx.accesses - before;
    [free(tx, holes | 1), taken]
}

#[test]
fn run_costs_do_not_depend_on_number_of_holes() {
    let (few, many) = (beside(50), beside(1000));
    for (few, many) in few.into_iter().zip(many) {
        assert!(few > 0 && many <= few + 16, "{few} accesses beside 50 holes, {many} beside 1000");
    }
}
