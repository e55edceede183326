//! `Options::pause(ZERO)`: the background thread never pauses, persists first and reproduces in
//! small steps.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::time::Duration;

use lastword::{DecoupledSoftware, Durability, Medium, Objects, Options, Pool, Ptr, Shadow};
use tempfile::TempDir;

const EMULATED: Medium = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };

fn place() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.pool");
    (dir, path)
}

fn options() -> Options {
    let sizes = Options::new().bytes(1 << 20).log_bytes(256 << 10).ring_entries(1 << 12);
    sizes.medium(EMULATED).pause(Duration::ZERO)
}

#[test]
fn unawaited_commit_becomes_durable() {
    for medium in [Medium::File, EMULATED] {
        let (_dir, path) = place();
        let pool = Pool::create(&path, options().medium(medium)).unwrap();
        let count = pool.run(|tx| tx.alloc(0_u64)).unwrap().value;
        for _ in 0..5 {
            let id = pool.run(|tx| tx.update(count, |n| n + 1)).unwrap().ticket.id();
            // Reading the watermark does not help the persist step, so only the background thread
            // can end this loop.
            while pool.durable_id() < id {
                std::thread::yield_now();
            }
        }
        pool.close().unwrap();
    }
}

/// Words of a worker's object. Its record is more than half of a group.
const WORDS: usize = 100;
const TRANSACTIONS: u64 = 2000;

type Block = [u64; WORDS];

/// Returns words that LZ4 cannot compress.
fn block(number: u64) -> Block {
    std::array::from_fn(|i| (number + i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17))
}

/// Two workers wrap the log several times before the pool is abandoned. Recovery restores their
/// acknowledged transactions completely.
fn wraps<D: lastword::Design>(options: Options) {
    let (_dir, path) = place();
    let pool = Pool::<D>::create_as(&path, options.clone()).unwrap();
    let of_two: [Ptr<Block>; 2] =
        pool.run(|tx| Ok([tx.alloc([0; WORDS])?, tx.alloc([0; WORDS])?])).unwrap().value;
    std::thread::scope(|scope| {
        for mine in of_two {
            let pool = &pool;
            scope.spawn(move || {
                let mut worker = pool.worker().unwrap();
                for number in 1..=TRANSACTIONS {
                    let done = worker.run(|tx| tx.set(mine, block(number))).unwrap();
                    if number == TRANSACTIONS {
                        done.ticket.wait().unwrap();
                    }
                }
            });
        }
    });
    assert!(pool.metrics().log_wraps > 3.0, "{}", pool.metrics().log_wraps);
    pool.abandon();
    let pool = Pool::<D>::open_as(&path, options).unwrap();
    for mine in of_two {
        assert_eq!(pool.run(|tx| tx.get(mine)).unwrap().value, block(TRANSACTIONS));
    }
    pool.close().unwrap();
}

#[test]
fn log_wraps_without_pause_lose_nothing() {
    wraps::<lastword::Decoupled>(options());
    wraps::<lastword::Decoupled>(options().reproduce_threads(2));
    wraps::<lastword::Decoupled>(options().persist_threads(2));
    wraps::<lastword::Decoupled>(options().compress(true).shadow(Shadow::CopyOnWrite));
    wraps::<lastword::Decoupled>(options().medium(Medium::File));
    wraps::<DecoupledSoftware>(options().shadow(Shadow::Software).shadow_bytes(256 << 10));
}

#[test]
fn groups_without_pause_are_small_unless_combined() {
    let barriers = |options: Options| {
        let (_dir, path) = place();
        let pool = Pool::create(&path, options).unwrap();
        let mine = pool.run(|tx| tx.alloc([0; WORDS])).unwrap().value;
        let before = pool.metrics().persist_barriers;
        let mut worker = pool.worker().unwrap();
        for number in 1..=TRANSACTIONS {
            let _ = worker.run(|tx| tx.set(mine, [number; WORDS])).unwrap();
        }
        pool.flush().unwrap();
        pool.metrics().persist_barriers - before
    };
    // A record of 100 words takes 800 bytes and its head, so at most four fit a group.
    assert!(barriers(options()) >= TRANSACTIONS / 4);
    let combined = barriers(options().group(100).group_time(Duration::MAX));
    assert!(combined < TRANSACTIONS / 10, "{combined}");
    // In sync mode the worker persists each transaction, and the background thread adds few
    // barriers of its own.
    let waited = barriers(options().durability(Durability::Sync));
    assert!((TRANSACTIONS..TRANSACTIONS * 3 / 2).contains(&waited), "{waited}");
}
