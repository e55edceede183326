//! Random losses at the end of a mapped log, after a random power failure.
//!
//! Workers commit transactions of random sizes and wait for each, with checkpoints in between,
//! until the power fails. Transaction n changes words that the seed and n determine, so the state
//! after each transaction is known. Then a page or a part of a page of the log is lost:
//!
//! - The pool is refused as damaged, or has the state after some transaction.
//! - Without a loss, that is the last acknowledged one or a later one.
//! - After the loss of a page, acknowledged transactions are missing only if they had no durable
//!   witness: at most two of each worker, or one in a pool without background threads.
//!
//! Half of the rounds have background threads. In the others one thread commits and reproduces, for
//! a stream that lacks the last groups. So steps end shortly before the end of the log, and bugs
//! can be injected into that thread.
//!
//! `LASTWORD_ROUNDS=50 cargo test -p lastword-crash-tests --test suite witnesses::` makes more
//! rounds. With threads the system schedules them, so a seed repeats the other rounds only.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use faults::mutants::{Mutant, inject};
use faults::recording::{Model, PowerCut, Recorder};
use lastword::{Durability, Error, Medium, Objects, Options, Pool, Ptr, Words, Worker};
use medium::PoolFile;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::slot_losses::{Chance, calm};

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

/// Most transactions that the stream of a pool lacks: fewer than fill the log.
const LACKING: usize = 200;

#[derive(Debug)]
struct Round {
    seed: u64,
    workers: u64,
    persist_threads: usize,
    /// Whether the pool has threads of its own.
    background: bool,
    /// The bug in the only thread of a pool without others.
    bug: Option<Mutant>,
}

impl Round {
    fn new(seed: u64) -> Round {
        let (workers, persist_threads) = (1 + seed % 2, 1 + (seed / 2 % 2) as usize);
        Round { seed, workers, persist_threads, background: true, bug: None }
    }

    fn without_threads(seed: u64, bug: Option<Mutant>) -> Round {
        Round { seed, workers: 1, persist_threads: 1, background: false, bug }
    }

    /// Most acknowledged transactions without a durable witness.
    fn unwitnessed(&self) -> u64 {
        if self.background { 2 * self.workers } else { 1 }
    }

    fn options(&self, recorder: &Recorder) -> Options {
        let options = Options::new().bytes(128 << 10).log_bytes(LOG_BYTES).ring_entries(1 << 12);
        let options = options.medium(Medium::Dax).durability(Durability::Sync);
        let options = options.persist_threads(self.persist_threads).background(self.background);
        options.replicated(!self.background).system(recorder.system())
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

    /// Commits a transaction and waits for it. Returns its number.
    fn commit(&self, session: &mut Worker) -> Result<u64, Error> {
        let committed = session.run(|tx| {
            let cells: Ptr<Cells> = tx.root_ptr()?;
            let at = |word: usize| words::Addr::new(cells.to_bits(), 8 * word as u64);
            let number = tx.read(at(0))? + 1;
            for word in self.words(number) {
                tx.write(at(word), number)?;
            }
            tx.write(at(0), number)?;
            Ok(number)
        })?;
        committed.ticket.wait()?;
        Ok(committed.value)
    }

    /// Commits until the power fails, beside other threads. Stores the number of each acknowledged
    /// transaction.
    fn work(&self, pool: &Pool, worker: u64, acknowledged: &AtomicU64) -> Result<(), Error> {
        let mut session = pool.worker()?;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed << 8 | worker);
        for _ in 0..TRANSACTIONS / self.workers {
            acknowledged.fetch_max(self.commit(&mut session)?, Ordering::Relaxed);
            if random.random_range(0..40) == 0 {
                pool.checkpoint()?;
            }
        }
        Ok(())
    }

    /// Commits and reproduces in this thread. A step reproduces all but the last groups, which the
    /// stream lacks.
    fn work_alone(&self, pool: &Pool, acknowledged: &AtomicU64) -> Result<(), Error> {
        let mut session = pool.worker()?;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed << 8);
        let (feed, mut lacking) = (pool.feed()?, VecDeque::new());
        // Half of the runs end with a step.
        for left in (0..random.random_range(1..TRANSACTIONS)).rev() {
            acknowledged.fetch_max(self.commit(&mut session)?, Ordering::Relaxed);
            while let Some(group) = feed.next(Duration::ZERO)? {
                lacking.push_back(group.last);
            }
            let is_due = random.random_range(0..if left == 0 { 2 } else { 40 }) == 0;
            if is_due || lacking.len() > LACKING {
                let kept = random.random_range(0..30);
                let sent = lacking.drain(..lacking.len().saturating_sub(kept)).next_back();
                sent.map_or(Ok(()), |last| feed.replicated(last))?;
                while pool.design().reproduce_step()? {}
            }
        }
        Ok(())
    }

    /// Opens the pool; returns the number of its last transaction, or `None` if it is refused.
    fn open(&self, recorder: &Recorder) -> Result<Option<u64>, String> {
        let pool = match Pool::open(PATH, self.options(recorder)) {
            Ok(pool) => pool,
            Err(Error::DamagedLog { .. }) => return Ok(None),
            Err(other) => return Err(format!("another refusal: {other}")),
        };
        let cells = pool.run(|tx| {
            let cells: Ptr<Cells> = tx.root_ptr()?;
            // The transaction that makes the cells may be lost, too.
            if cells.is_null() { Ok([0; WORDS]) } else { tx.get(cells) }
        });
        let found = self.number(&cells.unwrap().value);
        pool.abandon();
        found.map(Some).ok_or_else(|| "the pool has the state after no transaction".into())
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

/// Runs a round; returns a broken promise.
fn run(round: &Round, tally: &mut Tally) -> Result<(), String> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(round.seed);
    let (crash_in, temper) = (64 << random.random_range(0..8), random.random_range(0..3));
    let chances = random.clone();
    let chance = |temper| Box::new(Chance { random: chances.clone(), crash_in, temper });
    let recorder = Recorder::new(calm(), chance(temper));
    let acknowledged = fail(round, &recorder, tally);
    recorder.set_model(Model::calm);
    let file = PoolFile::open_on(&recorder.system(), PATH).unwrap();
    // Reading a line decides what the power failure has left of it, and an image needs all.
    let mut content = vec![0; file.len() as usize / 8];
    file.read_at(0, &mut content).unwrap();
    drop(file);
    recorder.rest();
    let log = &content[LOG_AT as usize / 8..][..LOG_BYTES as usize / 8];
    let image = recorder.image();
    let machine = || Recorder::from_image(&image, calm(), chance(0));
    let last = round.open(&machine())?;
    if last.is_none_or(|it| it < acknowledged) {
        return Err(format!("without a loss: {last:?} of {acknowledged}"));
    }
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
        match lost(page * PAGE, PAGE)? {
            None => tally.refused += 1,
            Some(number) if number + round.unwitnessed() < acknowledged => {
                return Err(format!("without page {page}: {number} of {acknowledged}"));
            }
            Some(number) if Some(number) < last => tally.shorter += 1,
            Some(_) => tally.whole += 1,
        }
        let (first, lines) = (random.random_range(0..PAGE / LINE), random.random_range(1..8));
        let lines = lines.min(PAGE / LINE - first);
        let part = lost(page * PAGE + first * LINE, lines * LINE)?;
        if part > last {
            return Err(format!("without a part of page {page}: {part:?} is later than {last:?}"));
        }
        tally.refused_parts += u64::from(part.is_none());
    }
    Ok(())
}

/// Commits until the power fails. Returns the number of the last acknowledged transaction.
fn fail(round: &Round, recorder: &Recorder, tally: &mut Tally) -> u64 {
    let pool = Pool::create(PATH, round.options(recorder)).unwrap();
    let made = pool.run(|tx| {
        let cells = tx.alloc([0_u64; WORDS])?;
        tx.set_root_ptr(cells)
    });
    let _ = made.unwrap();
    if round.background {
        pool.checkpoint().unwrap();
    }
    let (acknowledged, boots) = (AtomicU64::new(0), recorder.boots());
    recorder.set_model(|model| model.crashes = 1);
    // An error ends a worker: the power has failed.
    let until_cut = |work: &dyn Fn() -> Result<(), Error>| {
        let _ = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|cut| {
            PowerCut::expect(cut);
            Ok(())
        });
    };
    if round.background {
        std::thread::scope(|scope| {
            for worker in 0..round.workers {
                let (pool, acknowledged) = (&pool, &acknowledged);
                scope.spawn(move || until_cut(&|| round.work(pool, worker, acknowledged)));
            }
        });
    } else {
        let _injected = inject(round.bug);
        until_cut(&|| round.work_alone(&pool, &acknowledged));
    }
    tally.cut += recorder.boots() - boots;
    if recorder.boots() == boots {
        recorder.crash();
    }
    pool.abandon();
    acknowledged.into_inner()
}

pub(crate) fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

#[test]
fn lost_page_of_mapped_log_is_refused_or_unwitnessed() {
    let (seed, rounds) = (setting("LASTWORD_SEED", 1), 12 * setting("LASTWORD_ROUNDS", 1));
    println!("LASTWORD_SEED={seed}, {rounds} rounds of each kind");
    for make in [Round::new, |seed| Round::without_threads(seed, None)] {
        let mut tally = Tally::default();
        for seed in seed..seed + rounds {
            let round = make(seed);
            run(&round, &mut tally).unwrap_or_else(|broken| panic!("{round:?}: {broken}"));
        }
        println!("{tally:?}");
        assert!(tally.cut > 0 && tally.refused > 0 && tally.whole > 0, "{tally:?}");
        assert!(tally.refused_parts > 0, "{tally:?}");
    }
}

#[test]
fn missing_witness_is_found_by_random_losses() {
    /// Limit of the rounds for one bug: several times the rounds that find each.
    const ROUNDS: u64 = 600;
    for bug in [
        Mutant::GroupWitnessIntoCache,
        Mutant::PageWitnessLeftOut,
        Mutant::CheckpointVoidsWitness,
        Mutant::WitnessNotKept,
    ] {
        let find = |seed| run(&Round::without_threads(seed, Some(bug)), &mut Tally::default());
        let found = (1..=ROUNDS).find_map(|seed| Some((seed, find(seed).err()?)));
        println!("{bug:?}: {found:?}");
        assert!(found.is_some(), "{bug:?} survives {ROUNDS} rounds");
    }
}
