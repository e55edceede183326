//! Random losses at the end of a mapped log, after a random power failure.
//!
//! Workers commit transactions of random sizes and wait for each, with checkpoints in between,
//! until the power fails. Transaction n changes words that the seed and n determine, so the state
//! after each transaction is known. Then a page or a part of a page of the log is lost:
//!
//! - The pool is refused as damaged, or has the state after some transaction.
//! - Without a loss, that is the last acknowledged one or a later one.
//! - After the loss of a page, at most two acknowledged transactions of each worker are missing:
//!   those that had no durable witness are never more. The design promises less loss at times.
//!
//! `LASTWORD_ROUNDS=50 cargo test -p lastword-crash-tests --test suite witnesses::` makes more
//! rounds. The system schedules the threads, so a seed repeats a run of one worker only.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use faults::recording::{Ask, Choose, Model, PowerCut, Question, Recorder};
use lastword::{Durability, Error, Medium, Objects, Options, Pool, Ptr, Words};
use medium::PoolFile;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const PATH: &str = "/pool";
const LOG_AT: u64 = 2 << 20;
const LOG_BYTES: u64 = 128 << 10;
const PAGE: u64 = 4096;
const LINE: u64 = 64;
/// Word 0 counts the transactions.
const WORDS: usize = 128;
/// Most transactions of a pool. All of them would wrap the log about three times.
const TRANSACTIONS: u64 = 1600;

type Cells = [u64; WORDS];

/// A power failure after which uncertain content is old, new or random.
struct Chance {
    random: Xoshiro256PlusPlus,
    crash_in: u32,
    temper: u32,
}

impl Choose for Chance {
    fn choose(&mut self, question: Question) -> usize {
        match question.ask {
            Ask::Crash => usize::from(self.random.random_range(0..self.crash_in) == 0),
            Ask::Content | Ask::Word if self.temper == 0 => 0,
            Ask::Content | Ask::Word if self.temper == 1 => question.options - 1,
            _ => self.random.random_range(0..question.options),
        }
    }
}

#[derive(Debug)]
struct Round {
    seed: u64,
    workers: u64,
    persist_threads: usize,
}

impl Round {
    fn options(&self, recorder: &Recorder) -> Options {
        let options = Options::new().bytes(128 << 10).log_bytes(LOG_BYTES).ring_entries(1 << 12);
        let options = options.medium(Medium::Dax).durability(Durability::Sync);
        options.persist_threads(self.persist_threads).background(true).system(recorder.system())
    }

    /// Returns the words that a transaction changes: mostly few, so that pages have many groups.
    fn words(&self, number: u64) -> std::ops::Range<usize> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed ^ number << 32);
        let most = if random.random_range(0..8) == 0 { WORDS - 1 } else { 12 };
        let count = random.random_range(1..=most);
        let first = random.random_range(1..=WORDS - count);
        first..first + count
    }

    /// Returns the number of the last transaction, if the cells are in the state after it.
    fn number(&self, cells: &Cells) -> Option<u64> {
        let mut expected = [0; WORDS];
        for number in 1..=cells[0].min(2 * TRANSACTIONS) {
            expected[self.words(number)].fill(number);
        }
        expected[0] = cells[0];
        (expected == *cells).then_some(cells[0])
    }

    /// Commits until the power fails. Stores the number of each acknowledged transaction.
    fn work(&self, pool: &Pool, worker: u64, acknowledged: &AtomicU64) {
        let Ok(mut session) = pool.worker() else { return };
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed << 8 | worker);
        for _ in 0..TRANSACTIONS / self.workers {
            let ran = session.run(|tx| {
                let cells: Ptr<Cells> = tx.root_ptr()?;
                let at = |word: usize| words::Addr::new(cells.to_bits(), 8 * word as u64);
                let number = tx.read(at(0))? + 1;
                for word in self.words(number) {
                    tx.write(at(word), number)?;
                }
                tx.write(at(0), number)?;
                Ok(number)
            });
            let Ok(committed) = ran else { return };
            let number = committed.value;
            if committed.ticket.wait().is_err() {
                return;
            }
            acknowledged.fetch_max(number, Ordering::Relaxed);
            if random.random_range(0..40) == 0 && pool.checkpoint().is_err() {
                return;
            }
        }
    }

    /// Opens the pool; returns the number of its last transaction, or `None` if it is refused.
    fn open(&self, recorder: &Recorder) -> Option<u64> {
        let pool = match Pool::open(PATH, self.options(recorder)) {
            Ok(pool) => pool,
            Err(Error::DamagedLog { .. }) => return None,
            Err(other) => panic!("{self:?}: another refusal: {other}"),
        };
        let cells = pool.run(|tx| {
            let cells: Ptr<Cells> = tx.root_ptr()?;
            tx.get(cells)
        });
        let found = self.number(&cells.unwrap().value);
        pool.abandon();
        Some(found.unwrap_or_else(|| panic!("{self:?}: the pool has the state of no moment")))
    }
}

#[derive(Debug, Default)]
struct Tally {
    cut: u64,
    refused: u64,
    shorter: u64,
    whole: u64,
    refused_parts: u64,
}

fn calm() -> Model {
    Model { crashes: 0, every_word: false, ..Model::default() }
}

fn run(round: &Round, tally: &mut Tally) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(round.seed);
    let (crash_in, temper) = (64 << random.random_range(0..8), random.random_range(0..3));
    let chances = random.clone();
    let chance = |temper| Box::new(Chance { random: chances.clone(), crash_in, temper });
    let recorder = Recorder::new(calm(), chance(temper));
    let pool = Pool::create(PATH, round.options(&recorder)).unwrap();
    let made = pool.run(|tx| {
        let cells = tx.alloc([0_u64; WORDS])?;
        tx.set_root_ptr(cells)
    });
    let _ = made.unwrap();
    pool.checkpoint().unwrap();
    let (acknowledged, boots) = (AtomicU64::new(0), recorder.boots());
    recorder.set_model(|model| model.crashes = 1);
    std::thread::scope(|scope| {
        for worker in 0..round.workers {
            let (pool, acknowledged) = (&pool, &acknowledged);
            scope.spawn(move || {
                let work = AssertUnwindSafe(|| round.work(pool, worker, acknowledged));
                catch_unwind(work).unwrap_or_else(PowerCut::expect);
            });
        }
    });
    tally.cut += recorder.boots() - boots;
    if recorder.boots() == boots {
        recorder.crash();
    }
    pool.abandon();
    recorder.set_model(Model::calm);
    let acknowledged = acknowledged.into_inner();
    let file = PoolFile::open_on(&recorder.system(), PATH).unwrap();
    // Reading a line decides what the power failure has left of it, and an image needs all.
    let mut content = vec![0; file.len() as usize / 8];
    file.read_at(0, &mut content).unwrap();
    drop(file);
    recorder.rest();
    let log = &content[LOG_AT as usize / 8..][..LOG_BYTES as usize / 8];
    let image = recorder.image();
    let machine = || Recorder::from_image(&image, calm(), chance(0));
    let last = round.open(&machine());
    assert!(last.is_some_and(|it| it >= acknowledged), "{round:?}: {last:?} of {acknowledged}");
    for page in 0..LOG_BYTES / PAGE {
        if log[(page * PAGE / 8) as usize..][..PAGE as usize / 8].iter().all(|word| *word == 0) {
            continue;
        }
        let lost = |at: u64, bytes: u64| {
            let machine = machine();
            let file = PoolFile::open_on(&machine.system(), PATH).unwrap();
            file.write_durable_at(LOG_AT + at, &vec![0; bytes as usize / 8]).unwrap();
            drop(file);
            round.open(&machine)
        };
        match lost(page * PAGE, PAGE) {
            None => tally.refused += 1,
            Some(number) => {
                let is_promised = number + 2 * round.workers >= acknowledged;
                assert!(is_promised, "{round:?}: page {page}: {number} of {acknowledged}");
                *(if Some(number) < last { &mut tally.shorter } else { &mut tally.whole }) += 1;
            }
        }
        let (first, lines) = (random.random_range(0..PAGE / LINE), random.random_range(1..8));
        let lines = lines.min(PAGE / LINE - first);
        let part = lost(page * PAGE + first * LINE, lines * LINE);
        assert!(part <= last, "{round:?}: {part:?} is later than {last:?}");
        tally.refused_parts += u64::from(part.is_none());
    }
}

#[test]
fn lost_page_of_mapped_log_is_refused_or_unwitnessed() {
    let setting = |name, default| {
        std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
    };
    let (seed, rounds) = (setting("LASTWORD_SEED", 1), 12 * setting("LASTWORD_ROUNDS", 1));
    println!("LASTWORD_SEED={seed}, {rounds} rounds");
    let mut tally = Tally::default();
    for seed in seed..seed + rounds {
        let (workers, persist_threads) = (1 + seed % 2, 1 + (seed / 2 % 2) as usize);
        run(&Round { seed, workers, persist_threads }, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.cut > 0 && tally.refused > 0 && tally.whole > 0, "{tally:?}");
    assert!(tally.refused_parts > 0, "{tally:?}");
}
