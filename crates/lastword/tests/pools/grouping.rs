//! Group commit with combination, compression and several persist threads.
//!
//! These options change the size of the log and the latency of commits. They must not change which
//! transactions are durable or the values that recovery restores.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use lastword::{Design, Medium, Objects, Options, Pool, Ptr, TxId};

const WORDS: u64 = 64;

fn options(medium: Medium) -> Options {
    Options::new().bytes(1 << 20).log_bytes(256 << 10).medium(medium)
}

const EMULATED: Medium = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };

/// Creates a pool with one object of `WORDS` words.
fn pool(path: &Path, options: Options) -> (Pool, Ptr<[u64; WORDS as usize]>) {
    let pool = Pool::create(path, options).unwrap();
    let object = pool.run(|tx| tx.alloc([0_u64; WORDS as usize])).unwrap().value;
    (pool, object)
}

/// Writes `value` to the word `value % WORDS`, and to the first.
fn write(pool: &Pool, object: Ptr<[u64; WORDS as usize]>, value: u64) -> TxId {
    let done = pool.run(|tx| {
        let mut words = tx.get(object)?;
        words[(value % WORDS) as usize] = value;
        words[0] = value;
        tx.set(object, words)
    });
    done.unwrap().ticket.id()
}

/// Returns the words after the writes of the values 1 to `last`.
fn expected(last: u64) -> Vec<u64> {
    let mut words = vec![0; WORDS as usize];
    (1..=last).for_each(|value| words[(value % WORDS) as usize] = value);
    words[0] = last;
    words
}

#[test]
fn acknowledged_writes_survive_every_grouping() {
    for medium in [Medium::File, EMULATED] {
        for (group, compress, threads) in
            [(1, false, 1), (10, true, 1), (1000, false, 2), (1000, true, 3), (0, true, 2)]
        {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a.pool");
            let options = options(medium).group(group).compress(compress).persist_threads(threads);
            let (pool, object) = self::pool(&path, options.clone());
            // Enough transactions to wrap the log several times.
            let mut last = TxId::NONE;
            for value in 1..=3000 {
                last = write(&pool, object, value);
                if value % 700 == 0 {
                    pool.wait_for(last).unwrap();
                }
            }
            pool.wait_for(last).unwrap();
            assert!(pool.durable_id() >= last);
            pool.abandon();
            let checked = lastword::check(&path).unwrap();
            assert!(checked.is_sound(), "{:?}", checked.findings);
            let info = checked.info.unwrap();
            assert_eq!((info.group, info.compress), (group, compress));
            let pool = Pool::open(&path, options).unwrap();
            let words = pool.run(|tx| tx.get(object)).unwrap().value;
            assert_eq!(words[..], expected(3000), "{medium:?} {group} {compress} {threads}");
            pool.close().unwrap();
        }
    }
}

#[test]
fn workers_on_several_persist_threads_lose_nothing() {
    for medium in [Medium::File, EMULATED] {
        for group in [0, 50] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a.pool");
            let options = options(medium).group(group).compress(true).persist_threads(3);
            let pool = Pool::create(&path, options.clone()).unwrap();
            let objects: Vec<_> = (0..4)
                .map(|_| pool.run(|tx| tx.alloc([0_u64; WORDS as usize])).unwrap().value)
                .collect();
            let last = std::thread::scope(|scope| {
                let write = |object| {
                    let pool = &pool;
                    scope.spawn(move || {
                        (1..=2000)
                            .map(|value| {
                                let id = write(pool, object, value);
                                if value % 97 == 0 {
                                    pool.wait_for(id).unwrap();
                                }
                                id
                            })
                            .max()
                    })
                };
                let threads: Vec<_> = objects.iter().map(|&object| write(object)).collect();
                threads.into_iter().filter_map(|thread| thread.join().unwrap()).max().unwrap()
            });
            pool.wait_for(last).unwrap();
            pool.abandon();
            let pool = Pool::open(&path, options).unwrap();
            for object in objects {
                let words = pool.run(|tx| tx.get(object)).unwrap().value;
                assert_eq!(words[..], expected(2000));
            }
        }
    }
}

#[test]
fn group_closes_when_full_or_awaited() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(Medium::File).group(10).group_time(Duration::MAX).background(false);
    let (pool, object) = self::pool(&dir.path().join("a.pool"), options);
    pool.flush().unwrap();
    let before = pool.durable_id();
    for value in 1..10 {
        write(&pool, object, value);
        pool.design().persist_step().unwrap();
        assert_eq!(pool.durable_id(), before, "after {value}");
    }
    let tenth = write(&pool, object, 10);
    while pool.design().persist_step().unwrap() {}
    assert_eq!(pool.durable_id(), tenth);
    // A waiting thread closes the group at once.
    let eleventh = write(&pool, object, 11);
    write(&pool, object, 12);
    pool.wait_for(eleventh).unwrap();
    assert!(pool.durable_id() >= eleventh);
    pool.close().unwrap();
}

#[test]
fn unawaited_group_is_durable_after_group_time() {
    // The persist thread naps repeatedly through the shorter time and sleeps once for the longer.
    let times = [Duration::from_millis(1), Duration::from_millis(50)];
    for (medium, time) in [(Medium::File, times[0]), (EMULATED, times[0]), (EMULATED, times[1])] {
        let dir = tempfile::tempdir().unwrap();
        let options = options(medium).group(1_000_000).group_time(time).compress(true);
        let (pool, object) = self::pool(&dir.path().join("a.pool"), options);
        write(&pool, object, 1);
        let done = pool.run(|tx| tx.get(object).and_then(|words| tx.set(object, words))).unwrap();
        let (sender, receiver) = mpsc::channel();
        // Registering a callback does not request a flush, so only the time closes the group.
        done.ticket.on_durable(move |outcome| sender.send(outcome.is_ok()).unwrap()).unwrap();
        assert!(receiver.recv_timeout(Duration::from_secs(60)).unwrap());
        pool.close().unwrap();
    }
}

#[test]
fn full_group_wakes_sleeping_persist_thread() {
    for medium in [Medium::File, EMULATED] {
        let dir = tempfile::tempdir().unwrap();
        let options = options(medium).group(100).group_time(Duration::MAX);
        let (pool, object) = self::pool(&dir.path().join("a.pool"), options);
        let done = pool.run(|tx| tx.get(object).and_then(|words| tx.set(object, words))).unwrap();
        let (sender, receiver) = mpsc::channel();
        done.ticket.on_durable(move |outcome| sender.send(outcome.is_ok()).unwrap()).unwrap();
        // This is long enough for the thread to stop napping and to sleep. If it still naps, the
        // test passes without covering the wake-up.
        std::thread::sleep(Duration::from_millis(20));
        assert!(receiver.try_recv().is_err() && !done.ticket.is_durable());
        (1..=200).for_each(|value| _ = write(&pool, object, value));
        assert!(receiver.recv_timeout(Duration::from_secs(60)).unwrap());
        pool.close().unwrap();
    }
}

#[test]
fn combined_group_over_half_the_log_is_split() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pool");
    let options = Options::new()
        .bytes(8 << 20)
        .log_bytes(128 << 10)
        .group(1_000_000)
        .group_time(Duration::MAX)
        .background(false);
    let pool = Pool::create(&path, options.clone()).unwrap();
    let objects: Vec<_> =
        (0..400).map(|_| pool.run(|tx| tx.alloc([0_u64; 128])).unwrap().value).collect();
    for (number, &object) in objects.iter().enumerate() {
        let _ = pool.run(|tx| tx.set(object, [number as u64; 128])).unwrap();
    }
    pool.flush().unwrap();
    // The 400 KiB of values need more than three logs of 128 KiB.
    let metrics = pool.metrics();
    assert!(metrics.log_wraps > 2.0 && metrics.log_combined_bytes > 400 << 10, "{metrics:?}");
    pool.abandon();
    let pool = Pool::open(&path, options).unwrap();
    for (number, &object) in objects.iter().enumerate() {
        assert_eq!(pool.run(|tx| tx.get(object)).unwrap().value, [number as u64; 128]);
    }
}

#[test]
fn combination_and_compression_shrink_the_log() {
    let written = |group, compress| {
        let dir = tempfile::tempdir().unwrap();
        let options = options(EMULATED)
            .group(group)
            .group_time(Duration::MAX)
            .compress(compress)
            .background(false);
        let (pool, object) = self::pool(&dir.path().join("a.pool"), options);
        (1..=500).for_each(|value| _ = write(&pool, object, value));
        pool.flush().unwrap();
        let metrics = pool.metrics();
        (metrics.log_payload_bytes, metrics.log_combined_bytes, metrics.log_stored_bytes)
    };
    let (payload, combined, stored) = written(0, false);
    assert_eq!((payload, payload), (combined, stored));
    let (payload, combined, stored) = written(1000, false);
    assert!(20 * combined < payload && combined == stored, "{payload} {combined} {stored}");
    let (payload, combined, stored) = written(0, true);
    assert!(payload == combined && 2 * stored < combined, "{payload} {combined} {stored}");
    let (_, combined, stored) = written(1000, true);
    assert!(stored < combined, "{combined} {stored}");
}

#[test]
fn volatile_designs_ignore_group_options() {
    fn ignores<D: Design>() {
        let options = Options::new().bytes(1 << 20).group(10).compress(true).persist_threads(2);
        let dir = tempfile::tempdir().unwrap();
        let pool = Pool::<D>::create_as(dir.path().join("a.pool"), options).unwrap();
        let _ = pool.run(|tx| tx.alloc([1_u64; 4])).unwrap();
        pool.close().unwrap();
    }
    ignores::<lastword::Volatile>();
    ignores::<lastword::Plain>();
}

#[test]
fn combined_words_are_counted_once() {
    let dir = tempfile::tempdir().unwrap();
    // Without background threads the waiting thread takes all transactions into one group. A
    // persist thread that has gathered some of them when the wait begins would send these first.
    let options = options(EMULATED).group(100).group_time(Duration::MAX).background(false);
    let (pool, object) = self::pool(&dir.path().join("a.pool"), options);
    pool.flush().unwrap();
    let before = pool.metrics().log_combined_words;
    let last = (1..=100).map(|value| write(&pool, object, value)).last().unwrap();
    pool.wait_for(last).unwrap();
    // Every `set` writes the whole object, and combination keeps the last value of each word.
    assert_eq!(pool.metrics().log_combined_words - before, WORDS);
}
