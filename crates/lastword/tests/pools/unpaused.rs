//! `Options::pause(ZERO)`: the thread behind persists first and reproduces little at a time.
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
fn a_commit_is_durable_though_nobody_waits() {
    for medium in [Medium::File, EMULATED] {
        let (_dir, path) = place();
        let pool = Pool::create(&path, options().medium(medium)).unwrap();
        let count = pool.run(|tx| tx.alloc(0_u64)).unwrap().value;
        for _ in 0..5 {
            let id = pool.run(|tx| tx.update(count, |n| n + 1)).unwrap().ticket.id();
            // Looks, and helps nobody: it ends when the thread behind has done it.
            while pool.durable_id() < id {
                std::thread::yield_now();
            }
        }
        pool.close().unwrap();
    }
}

/// Words of a worker's object: its record is more than half of a group.
const WORDS: usize = 100;
const TRANSACTIONS: u64 = 2000;

type Block = [u64; WORDS];

/// Words that LZ4 makes no smaller.
fn block(number: u64) -> Block {
    std::array::from_fn(|i| (number + i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17))
}

/// Two workers write the log full several times between them; then the process is gone. All that
/// somebody was told of is there, in one piece.
fn laps<D: lastword::Design>(options: Options) {
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
    assert!(pool.metrics().log_laps > 3.0, "{}", pool.metrics().log_laps);
    pool.abandon();
    let pool = Pool::<D>::open_as(&path, options).unwrap();
    for mine in of_two {
        assert_eq!(pool.run(|tx| tx.get(mine)).unwrap().value, block(TRANSACTIONS));
    }
    pool.close().unwrap();
}

#[test]
fn a_small_log_goes_round_and_nothing_is_lost() {
    laps::<lastword::Decoupled>(options());
    laps::<lastword::Decoupled>(options().reproduce_threads(2));
    laps::<lastword::Decoupled>(options().persist_threads(2));
    laps::<lastword::Decoupled>(options().compress(true).shadow(Shadow::CopyOnWrite));
    laps::<lastword::Decoupled>(options().medium(Medium::File));
    laps::<DecoupledSoftware>(options().shadow(Shadow::Software).shadow_bytes(256 << 10));
}

#[test]
fn groups_are_small_and_combined_ones_as_large_as_they_were_asked_for() {
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
    // A record of 100 words takes 800 bytes and its head: four fit a group.
    assert!(barriers(options()) >= TRANSACTIONS / 4);
    let combined = barriers(options().group(100).group_time(Duration::MAX));
    assert!(combined < TRANSACTIONS / 10, "{combined}");
    // Whoever waits for each persists it: the thread behind stays out of the way.
    let waited = barriers(options().durability(Durability::Sync));
    assert!((TRANSACTIONS..TRANSACTIONS * 3 / 2).contains(&waited), "{waited}");
}
