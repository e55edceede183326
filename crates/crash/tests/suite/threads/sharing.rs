//! Workers of `snapshot` that share records on a file, until the power fails. Each has its own
//! object, so that all of them commit concurrently.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use faults::recording::{Ask, Choose, Model, PowerCut, Question, Recorder};
use lastword::{Medium, Objects, Options, Pool, Ptr, Snapshot};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{BOOTS, Chance, PATH, setting};

const WORKERS: usize = 8;
/// Transactions of a worker in one boot.
const EACH: u64 = 30;

type Object = Ptr<[u64; 4]>;

/// A machine whose writes are slow, so that other transactions join them.
struct Slow(Chance);

impl Choose for Slow {
    fn choose(&mut self, question: Question) -> usize {
        if matches!(question.ask, Ask::Crash) {
            (0..100).for_each(|_| thread::yield_now());
        }
        self.0.choose(question)
    }
}

/// Transactions in flight at the power failure, and records.
#[derive(Debug, Default)]
struct Seen {
    kept: u64,
    lost: u64,
    /// Acknowledged transactions without their own block of the log.
    shared: u64,
}

fn options(recorder: &Recorder) -> Options {
    let log_bytes = WORKERS as u64 * (64 << 10);
    let options = Options::new().bytes(1 << 20).log_bytes(log_bytes).ring_entries(1 << 12);
    options.medium(Medium::File).system(recorder.system())
}

/// Writes one number after another to its object, from after `last` on. Returns the last
/// acknowledged one.
fn write(pool: &Pool<Snapshot>, at: Object, last: u64) -> u64 {
    let mut acknowledged = last;
    let worked = catch_unwind(AssertUnwindSafe(|| {
        let Ok(mut worker) = pool.worker() else { return };
        for value in last + 1..=last + EACH {
            if worker.run(|tx| tx.set(at, [value; 4])).is_err() {
                return;
            }
            acknowledged = value;
        }
    }));
    worked.unwrap_or_else(PowerCut::expect);
    acknowledged
}

/// Runs boots, each ended by a power failure.
fn run(seed: u64, seen: &mut Seen) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (crash_in, temper) = (4 << random.random_range(0..7), random.random_range(0..3));
    let chooser = Slow(Chance { random, crash_in, temper });
    let calm = Model { crashes: 0, every_word: false, ..Model::default() };
    let recorder = Recorder::new(calm, Box::new(chooser));
    let pool = Pool::<Snapshot>::create_as(PATH, options(&recorder)).unwrap();
    let made = pool.run(|tx| (0..WORKERS).map(|_| tx.alloc([0; 4])).collect());
    let objects: Vec<Object> = made.unwrap().value;
    pool.close().unwrap();
    let mut acknowledged = [0; WORKERS];
    let mut ends = [0; WORKERS];
    for number in 0..=BOOTS {
        let pool = Pool::<Snapshot>::open_as(PATH, options(&recorder)).unwrap();
        for ((at, acknowledged), end) in objects.iter().zip(&mut acknowledged).zip(&mut ends) {
            let found = pool.run(|tx| tx.get(*at)).unwrap().value;
            assert_eq!(found, [found[0]; 4], "seed {seed} boot {number}: torn");
            let more = found[0].checked_sub(*acknowledged);
            let more = more.filter(|more| *more <= 1).unwrap_or_else(|| {
                panic!("seed {seed} boot {number}: {} of {acknowledged}", found[0])
            });
            let was_under_way = u64::from(*acknowledged < *end);
            seen.kept += more;
            seen.lost += was_under_way - more;
            *acknowledged = found[0];
            *end = found[0] + EACH;
        }
        if number == BOOTS {
            return pool.close().unwrap();
        }
        recorder.set_model(|model| model.crashes = 1);
        let boots = recorder.boots();
        let before: u64 = acknowledged.iter().sum();
        thread::scope(|scope| {
            let pool = &pool;
            let threads: Vec<_> = objects
                .iter()
                .zip(acknowledged)
                .map(|(&at, last)| scope.spawn(move || write(pool, at, last)))
                .collect();
            for (thread, acknowledged) in threads.into_iter().zip(&mut acknowledged) {
                *acknowledged = thread.join().unwrap();
            }
        });
        let written = acknowledged.iter().sum::<u64>() - before;
        seen.shared += written.saturating_sub(pool.metrics().log_bytes / 4096);
        if recorder.boots() == boots {
            recorder.crash();
        }
        pool.abandon();
        recorder.set_model(Model::calm);
    }
}

#[test]
fn threads_sharing_records_lose_nothing_acknowledged() {
    let (seed, more) = (setting("LASTWORD_SEED", 1), setting("LASTWORD_ROUNDS", 1));
    println!("LASTWORD_SEED={seed}");
    let mut seen = Seen::default();
    (seed..seed + 20 * more).for_each(|seed| run(seed, &mut seen));
    println!("{seen:?}");
    assert!(seen.kept > 0 && seen.lost > 0, "both outcomes: {seen:?}");
    assert!(seen.shared > 0, "records of several transactions: {seen:?}");
}
