//! A pool that was closed cleanly and has lost its log gets a new one, under power failure at every
//! point: no transaction is lost, and the pool opens again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use faults::mutants::{Mutant, inject};
use faults::recording::{Ask, Choose, Image, Model, PowerCut, Question, Recorder};
use lastword::{Error, Medium, Objects, Options, Pool, Ptr};
use medium::{PoolFile, System};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

const POOL: &str = "/test.pool";
const LOG: &str = "/test.pool.log";

/// Power failure at this crash point; each part of uncertain content survives or not.
struct Cut {
    points_left: u64,
    random: Xoshiro256PlusPlus,
}

impl Choose for Cut {
    fn choose(&mut self, question: Question) -> usize {
        match question.ask {
            Ask::Crash => {
                let left = self.points_left;
                self.points_left = left.saturating_sub(1);
                usize::from(left == 0)
            }
            Ask::Content | Ask::Word | Ask::Name => {
                (self.random.next_u64() % question.options as u64) as usize
            }
            _ => 0,
        }
    }
}

/// `naming`: whether the file system can rename a file without overwriting another.
fn machine(naming: bool, image: &Image, points_left: u64, seed: u64) -> Recorder {
    let random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let crashes = usize::from(points_left < u64::MAX);
    let model = Model { crashes, naming, every_store: true, ..Model::default() };
    Recorder::from_image(image, model, Box::new(Cut { points_left, random }))
}

fn options(system: System) -> Options {
    let options = Options::new().bytes(128 << 10).log_bytes(128 << 10).ring_entries(1 << 10);
    options.medium(Medium::File).background(false).system(system)
}

/// The state of the log.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lost {
    Missing,
    Damaged,
}

/// Makes a machine with a pool of one object that has lost its log.
fn damaged(naming: bool, lost: Lost) -> (Image, Ptr<u64>) {
    let machine = machine(naming, &Image::default(), u64::MAX, 0);
    let pool = Pool::create(POOL, options(machine.system())).unwrap();
    let object = pool.run(|tx| tx.alloc(42_u64)).unwrap().value;
    pool.close().unwrap();
    let log = PoolFile::open_on(&machine.system(), LOG).unwrap();
    match lost {
        Lost::Missing => log.remove().unwrap(),
        Lost::Damaged => {
            for copy in [0, 4096] {
                log.write_durable_at(copy, &[77; 64]).unwrap();
            }
        }
    }
    drop(log);
    machine.rest();
    (machine.image(), object)
}

/// Opens without the log, writes, and closes.
fn go_on(machine: &Recorder, object: Ptr<u64>) -> Result<(), Error> {
    let pool = Pool::open(Path::new(POOL), options(machine.system()).without_log(true))?;
    pool.run(|tx| tx.set(object, 43))?.ticket.wait()?;
    pool.abandon();
    Ok(())
}

/// The counts of power failures by their result.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// The pool had its log again.
    with_log: u64,
    /// The pool still needed a new log.
    without: u64,
    /// Violations: a transaction was lost, or the pool does not open.
    broken: u64,
}

/// Cuts the power at each crash point of opening without the log and of a transaction.
fn cut_everywhere(naming: bool, lost: Lost) -> Seen {
    let (image, object) = damaged(naming, lost);
    let mut seen = Seen::default();
    for point in 0.. {
        for seed in 0..8 {
            let machine = machine(naming, &image, point, seed);
            let done = catch_unwind(AssertUnwindSafe(|| go_on(&machine, object)));
            match done {
                Ok(done) => {
                    done.unwrap();
                    if machine.cuts() == 0 {
                        return seen; // after the last crash point
                    }
                }
                Err(panic) => PowerCut::expect(panic),
            }
            let normal = Pool::open(Path::new(POOL), options(machine.system()));
            let opened = match normal {
                Ok(pool) => {
                    seen.with_log += 1;
                    Ok(pool)
                }
                Err(_) => {
                    seen.without += 1;
                    let options = options(machine.system()).without_log(true);
                    Pool::open(Path::new(POOL), options)
                }
            };
            let value = opened.and_then(|pool| Ok(pool.run(|tx| tx.get(object))?.value));
            let whole = matches!(value, Ok(42 | 43));
            seen.broken += u64::from(!whole);
        }
    }
    seen
}

#[test]
fn crash_during_log_renewal_loses_nothing() {
    for lost in [Lost::Missing, Lost::Damaged] {
        let seen = cut_everywhere(true, lost);
        println!("{lost:?}: {seen:?}");
        assert_eq!(seen.broken, 0, "{lost:?}: {seen:?}");
        assert!(seen.with_log > 0 && seen.without > 0, "{lost:?}: {seen:?}");
    }
}

/// An empty file takes the log's name first, and the log's own file then replaces that placeholder.
#[test]
fn crash_while_log_is_renewed_without_safe_renames_loses_nothing() {
    for lost in [Lost::Missing, Lost::Damaged] {
        let seen = cut_everywhere(false, lost);
        println!("{lost:?}: {seen:?}");
        assert_eq!(seen.broken, 0, "{lost:?}: {seen:?}");
        assert!(seen.with_log > 0 && seen.without > 0, "{lost:?}: {seen:?}");
    }
}

/// Power fails between the placeholder and the rename over it: the next renewal finds it.
#[test]
fn placeholder_of_an_interrupted_renewal_is_found_if_kept() {
    let _injected = inject(Some(Mutant::PlaceholderKept));
    for lost in [Lost::Missing, Lost::Damaged] {
        let seen = cut_everywhere(false, lost);
        assert!(seen.broken > 0, "{lost:?}: {seen:?}");
    }
}

#[test]
fn new_log_without_durable_name_is_found() {
    let _injected = inject(Some(Mutant::DirectoryNotSynced));
    let seen = cut_everywhere(true, Lost::Missing);
    assert!(seen.broken > 0, "{seen:?}");
}
