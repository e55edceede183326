//! Tests of the allocator's mutants that no case exposes: of a use that programs must not make, and
//! of a heap that an earlier version has written.

use std::time::{Duration, Instant};

use faults::mutants::{Mutant, inject};
use faults::{Failing, Fault, Faults};
use lastword::{Array, Decoupled, Medium, Objects, Options, Pool, Stop, System};
use lw_alloc::{CHUNK_BYTES, Heap};

use crate::parts::machine;

fn options(recorder: &faults::recording::Recorder) -> Options {
    Options::new().bytes(256 << 10).medium(Medium::Dax).system(recorder.system())
}

/// An array is freed. Then a write through a dangling handle must be refused.
pub(crate) fn a_freed_array(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    let recorder = machine();
    let pool = Pool::<Decoupled>::create_as("/pool", options(&recorder)).unwrap();
    let array: Array<u64> = pool.run(|tx| Array::create(tx, 100)).unwrap().value;
    let _ = pool.run(|tx| array.free(tx)).unwrap();
    let written = pool.run(|tx| tx.set(array.at(99)?, 7));
    written.is_ok().then(|| "permitted: a write to a freed array".to_owned())
}

/// The words of a heap of format 1, with live and free slots of several classes.
const FORMAT_1: &str = include_str!("../../../alloc/src/tests/golden-v1.txt");

/// Converts a heap of format 1, which the check must then accept.
pub(crate) fn a_heap_of_format_1(bug: Option<Mutant>) -> Option<String> {
    const CHUNKS: u64 = 6;
    let _injected = inject(bug);
    let mut words = vec![0; (CHUNKS * CHUNK_BYTES / 8) as usize];
    for line in FORMAT_1.lines() {
        let (offset, word) = line.split_once(' ').unwrap();
        let [offset, word] = [offset, word].map(|digits| u64::from_str_radix(digits, 16).unwrap());
        words[offset as usize / 8] = word;
    }
    let heap = Heap::new(1, CHUNKS * CHUNK_BYTES);
    heap.convert_format_1(&mut words).unwrap();
    heap.check(|offset| words[offset as usize / 8]).err().map(|damage| format!("heap: {damage}"))
}

/// Reads an object that another worker has allocated in new memory of the heap, in a transaction
/// that began before the heap grew.
pub(crate) fn a_heap_that_grows_meanwhile(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().bytes(1 << 20).log_bytes(1 << 20).max_bytes(64 << 20);
    let pool = Pool::<Decoupled>::create_as(dir.path().join("pool"), options).unwrap();
    let mut made: Option<Array<u64>> = None;
    let found = pool.run(|tx| {
        let array = match made {
            Some(array) => array,
            None => std::thread::scope(|scope| {
                let create = || pool.run(|tx| Array::create(tx, 90_000)).unwrap().value;
                // The second one is behind the first heap's end.
                let arrays = scope.spawn(move || [create(), create()]).join().unwrap();
                *made.insert(arrays[1])
            }),
        };
        tx.get(array.at(89_999)?)
    });
    found.err().map(|error| error.to_string())
}

/// Fills a heap that may grow before it is full.
pub(crate) fn a_heap_that_is_nearly_full(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().bytes(1 << 20).log_bytes(1 << 20).max_bytes(64 << 20);
    let options = options.background(false);
    let pool = Pool::<Decoupled>::create_as(dir.path().join("pool"), options).unwrap();
    for commit in 1..4000 {
        let mut is_full = false;
        let made = pool.run(|tx| {
            let made = tx.alloc([0_u64; 100]);
            is_full |= made == Err(Stop::Full);
            made
        });
        let _ = made.unwrap();
        if is_full {
            return Some(format!("full: the heap at commit {commit}"));
        }
        pool.growth_step(Instant::now()).unwrap();
    }
    assert!(pool.info().heap_bytes > 3 << 20, "{}", pool.info().heap_bytes);
    None
}

/// Takes and frees runs of a nearly full heap on a full disk, and counts the attempts to grow.
pub(crate) fn a_heap_on_a_full_disk(bug: Option<Mutant>) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let options = Options::new().bytes(1 << 20).log_bytes(1 << 20).max_bytes(64 << 20);
    let options = options.background(false);
    Pool::<Decoupled>::create_as(&path, options.clone()).unwrap().close().unwrap();
    let _injected = inject(bug);
    let faults = Faults::nth(0, Fault::NoBlocks, true);
    let options = options.system(System::kernel().failing(faults.clone()));
    let pool = Pool::<Decoupled>::open_as(&path, options).unwrap();
    assert!(pool.grow(2 << 20).is_err());
    let calls = faults.failed().len();
    let _rest = pool.run(|tx| Array::<u64>::create(tx, 75_000)).unwrap();
    let (begin, second) = (Instant::now(), Duration::from_secs(1));
    for _ in 0..500 {
        let array = pool.run(|tx| Array::<u64>::create(tx, 4000)).unwrap().value;
        let _ = pool.run(|tx| array.free(tx)).unwrap();
        // No time passes.
        pool.growth_step(begin).unwrap();
    }
    let attempts = faults.failed().len() - calls;
    if attempts > 1 {
        return Some(format!("repeated: {attempts} attempts to grow"));
    }
    // The pauses are 100 ms, 200 ms, 400 ms and so on: the fourth attempt is after 700 ms.
    for millis in 0..1000 {
        pool.growth_step(begin + millis * second / 1000).unwrap();
    }
    let attempts = faults.failed().len() - calls;
    assert_eq!(attempts, 4);
    None
}
