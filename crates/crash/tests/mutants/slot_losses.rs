//! Random losses in the slots of `undo`, `redo` and `snapshot` on mapped media, after a random
//! power failure.
//!
//! Workers of one thread commit transactions of random sizes one after the other, with checkpoints
//! in between, until the power fails. Transaction n changes words that the seed and n determine, so
//! the state after each transaction is known. Then a page of the log is lost:
//!
//! - The pool is refused as damaged, or has the state after some transaction.
//! - Acknowledged transactions are missing only without a durable witness: the last one. Under
//!   `undo` none is missing, because heads have two copies.
//! - The transaction of a record without a durable witness may be incomplete: the last acknowledged
//!   one, or under `undo` the first object of the unfinished one.
//!
//! One thread commits, so a seed repeats a round, and bugs can be injected.

use std::collections::HashSet;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;

use faults::mutants::{Mutant, inject};
use faults::recording::{Ask, Choose, Model, PowerCut, Question, Recorder};
use lastword::{Addr, Allocate, AnyDesign, AnyPool, AnyWorker, Error, Medium, Options, Stop};
use medium::PoolFile;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const PATH: &str = "/pool";
const LOG_AT: u64 = 2 << 20;
/// Four slots of eight pages: two of heads, and six of records.
const LOG_BYTES: u64 = 128 << 10;
const PAGE: u64 = 4096;
/// Objects that transactions change, and their words. The root has their addresses.
const OBJECTS: usize = 64;
const WORDS: usize = 8;

/// For each object, the transaction that wrote it last.
type Cells = [[u64; WORDS]; OBJECTS];

/// A power failure after which uncertain content is old, new or random.
pub(crate) struct Chance {
    pub(crate) random: Xoshiro256PlusPlus,
    pub(crate) crash_in: u32,
    pub(crate) temper: u32,
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

#[derive(Clone, Copy)]
struct Round {
    seed: u64,
    design: &'static AnyDesign,
    bug: Option<Mutant>,
}

#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) cut: u64,
    pub(crate) refused: u64,
    pub(crate) shorter: u64,
    pub(crate) torn: u64,
    pub(crate) whole: u64,
}

pub(crate) fn calm() -> Model {
    Model { crashes: 0, every_word: false, ..Model::default() }
}

/// Allocates the objects in a pool without any.
fn allocate(worker: &mut dyn AnyWorker) -> Result<(), Error> {
    let run = worker.run_any(false, &mut |tx| {
        let root = tx.allocate(8 * OBJECTS)?;
        for number in 0..OBJECTS {
            let object = tx.allocate(8 * WORDS)?;
            tx.write(Addr::new(root, 8 * number as u64), object)?;
        }
        tx.set_root(root)
    });
    run.map(drop)
}

/// Returns the address of the first word of an object.
fn object(tx: &mut (impl Allocate + ?Sized), number: usize) -> Result<Addr, Stop> {
    let root = tx.root()?;
    Ok(Addr::new(tx.read(Addr::new(root, 8 * number as u64))?, 0))
}

/// Runs `work` while a transaction of another thread reads.
fn beside_reader(
    pool: &dyn AnyPool,
    work: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    // A power failure ends the reader, too: it drops `end`.
    let ((reads, reading), (end, ended)) = (mpsc::channel(), mpsc::channel::<()>());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut reader = pool.any_worker()?;
            reader.run_any(true, &mut |tx| {
                tx.root()?;
                let _ = reads.send(());
                let _ = ended.recv();
                Ok(())
            })
        });
        let _ = reading.recv();
        let _end = end;
        work()
    })
}

impl Round {
    fn options(&self, recorder: &Recorder) -> Options {
        let options = Options::new().bytes(128 << 10).log_bytes(LOG_BYTES).ring_entries(1 << 12);
        let options =
            options.medium(Medium::Dax).page_checksums(false).recycle_every(2 + self.seed % 8);
        options.system(recorder.system())
    }

    /// Returns the objects that a transaction changes: mostly few, so that pages have many records.
    fn objects(&self, number: u64) -> Range<usize> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed ^ number << 32);
        let most = if random.random_range(0..8) == 0 { 16 } else { 2 };
        let count = random.random_range(1..=most);
        let first = random.random_range(0..=OBJECTS - count);
        first..first + count
    }

    /// Returns the cells after so many transactions.
    fn cells(&self, last: u64) -> Cells {
        let mut cells = [[0; WORDS]; OBJECTS];
        (1..=last).for_each(|number| cells[self.objects(number)].fill([number; WORDS]));
        cells
    }

    fn commit(&self, worker: &mut dyn AnyWorker, number: u64) -> Result<(), Error> {
        let run = worker.run_any(false, &mut |tx| {
            for changed in self.objects(number) {
                let first = object(tx, changed)?;
                (0..WORDS as u64).try_for_each(|word| tx.write(first.plus(8 * word), number))?;
            }
            Ok(())
        });
        run.map(drop)
    }

    /// Commits until the power fails; stores the number of the last acknowledged transaction.
    fn work(&self, pool: &dyn AnyPool, acknowledged: &mut u64) -> Result<(), Error> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed << 8);
        let mut workers = Vec::new();
        for _ in 0..random.random_range(1..4) {
            workers.push(pool.any_worker()?);
        }
        let (mut number, last) = (0, random.random_range(1..400));
        let mut commit = |random: &mut Xoshiro256PlusPlus, number| {
            let worker = random.random_range(0..workers.len());
            self.commit(&mut *workers[worker], number)?;
            *acknowledged = number;
            Ok::<(), Error>(())
        };
        while number < last {
            number += 1;
            commit(&mut random, number)?;
            match random.random_range(0..40) {
                0 => pool.checkpoint()?,
                // Beside a reader a truncation of `snapshot` does not free the last records.
                // Another change of an object would wait for the reader.
                1 => beside_reader(pool, || {
                    let mut changed = HashSet::new();
                    while self.objects(number + 1).all(|object| changed.insert(object)) {
                        number += 1;
                        commit(&mut random, number)?;
                    }
                    Ok(())
                })?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Commits until the power fails. Returns the number of the last acknowledged transaction.
    fn fail(&self, recorder: &Recorder, tally: &mut Tally) -> u64 {
        let pool = self.design.create(PATH.as_ref(), self.options(recorder)).unwrap();
        allocate(&mut *pool.any_worker().unwrap()).unwrap();
        pool.checkpoint().unwrap();
        let (mut acknowledged, boots) = (0, recorder.boots());
        recorder.set_model(|model| model.crashes = 1);
        let _injected = inject(self.bug);
        let until_cut = AssertUnwindSafe(|| {
            let ended = self.work(&*pool, &mut acknowledged);
            assert!(ended.is_ok() || recorder.boots() > boots, "{ended:?}");
        });
        catch_unwind(until_cut).unwrap_or_else(PowerCut::expect);
        tally.cut += recorder.boots() - boots;
        if recorder.boots() == boots {
            recorder.crash();
        }
        pool.abandon();
        acknowledged
    }

    /// Opens the pool. Returns its cells, or `None` if the pool is refused.
    fn open(&self, recorder: &Recorder) -> Result<Option<Cells>, String> {
        let pool = match self.design.open(PATH.as_ref(), self.options(recorder)) {
            Ok(pool) => pool,
            Err(Error::DamagedLog { .. }) => return Ok(None),
            Err(other) => return Err(format!("another refusal: {other}")),
        };
        let mut cells = [[0; WORDS]; OBJECTS];
        let mut worker = pool.any_worker().unwrap();
        let read = worker.run_any(true, &mut |tx| {
            for (number, cells) in cells.iter_mut().enumerate() {
                let first = object(tx, number)?;
                for (cell, word) in cells.iter_mut().zip(0..) {
                    *cell = tx.read(first.plus(8 * word))?;
                }
            }
            Ok(())
        });
        read.unwrap();
        drop(worker);
        pool.abandon();
        Ok(Some(cells))
    }

    /// Whether only the transaction of a record without a durable witness is incomplete. Its words
    /// were stored after that record, and the cache may have written any of them back.
    fn is_torn(&self, cells: &Cells, acknowledged: u64) -> bool {
        let is_undo = self.design.name == "undo";
        // The last acknowledged transaction, below the one in flight. Under `undo` that in flight,
        // which has recorded its first object.
        let first = acknowledged.saturating_sub(u64::from(!is_undo));
        let near: Vec<Cells> = (first..acknowledged + 2).map(|number| self.cells(number)).collect();
        let recorded = self.objects(acknowledged + 1).start;
        (0..OBJECTS).all(|object| {
            let states = if is_undo && object != recorded { &near[..1] } else { &near };
            let mut words = (0..WORDS).map(|word| (cells[object][word], word));
            words.all(|(cell, word)| states.iter().any(|state| state[object][word] == cell))
        })
    }

    /// Checks a pool that has lost a page.
    fn check(&self, cells: &Cells, acknowledged: u64, tally: &mut Tally) -> Result<(), String> {
        let may_lose = u64::from(self.design.name != "undo");
        let near = acknowledged.saturating_sub(may_lose)..acknowledged + 2;
        match near.rev().find(|number| self.cells(*number) == *cells) {
            Some(last) if last < acknowledged => tally.shorter += 1,
            Some(_) => tally.whole += 1,
            None if self.is_torn(cells, acknowledged) => tally.torn += 1,
            None => {
                let last = cells.as_flattened().iter().max();
                return Err(format!(
                    "the state is that after no transaction near {acknowledged}, \
                     and the last one in it is {last:?}"
                ));
            }
        }
        Ok(())
    }

    fn run(&self, tally: &mut Tally) -> Result<(), String> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let (crash_in, temper) = (64 << random.random_range(0..8), random.random_range(0..3));
        let chance = |temper| Box::new(Chance { random: random.clone(), crash_in, temper });
        let recorder = Recorder::new(calm(), chance(temper));
        let acknowledged = self.fail(&recorder, tally);
        recorder.set_model(Model::calm);
        let file = PoolFile::open_on(&recorder.system(), PATH).unwrap();
        // Reading a line decides what the power failure has left of it, and an image needs all.
        let mut content = vec![0; file.len() as usize / 8];
        file.read_at(0, &mut content).unwrap();
        drop(file);
        recorder.rest();
        let image = recorder.image();
        let machine = || Recorder::from_image(&image, calm(), chance(0));
        let before = self.open(&machine())?.ok_or("without a loss the pool is refused")?;
        if ![acknowledged, acknowledged + 1].iter().any(|last| self.cells(*last) == before) {
            return Err(format!("without a loss the state is not that after {acknowledged}"));
        }
        for page in LOG_AT / PAGE..(LOG_AT + LOG_BYTES) / PAGE {
            let words = (page * PAGE / 8) as usize;
            if content[words..words + PAGE as usize / 8].iter().all(|word| *word == 0) {
                continue;
            }
            let machine = machine();
            let file = PoolFile::open_on(&machine.system(), PATH).unwrap();
            file.write_durable_at(page * PAGE, &[0; PAGE as usize / 8]).unwrap();
            drop(file);
            match self.open(&machine)? {
                None => tally.refused += 1,
                Some(cells) => self
                    .check(&cells, acknowledged, tally)
                    .map_err(|broken| format!("without page {}: {broken}", page - LOG_AT / PAGE))?,
            }
        }
        Ok(())
    }
}

/// Runs as many rounds of a design as find each bug in its witnesses. Returns the first broken
/// promise.
pub(crate) fn lost_pages(name: &str, bug: Option<Mutant>) -> Option<String> {
    lose_pages(name, bug, 1..400).err()
}

/// Runs rounds of a design with a bug.
///
/// # Errors
/// The first broken promise.
pub(crate) fn lose_pages(
    name: &str,
    bug: Option<Mutant>,
    seeds: Range<u64>,
) -> Result<Tally, String> {
    let design = <AnyDesign>::all().iter().find(|design| design.type_name == name).unwrap();
    let mut tally = Tally::default();
    for seed in seeds {
        let run = Round { seed, design, bug }.run(&mut tally);
        run.map_err(|broken| format!("lost: {name}, seed {seed}: {broken}"))?;
    }
    Ok(tally)
}
