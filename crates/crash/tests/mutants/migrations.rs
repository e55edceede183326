//! Tests of mutants in migrations: the power fails once at every point of an opening that migrates
//! a pool, and the next opening goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};

use faults::mutants::{Mutant, inject};
use faults::recording::{Ask, Choose, Image, Model, PowerCut, Question, Recorder};
use lastword::{Array, Decoupled, Design, Error, Medium, Objects, Options, Pool, Redo, Snapshot};

use crate::parts::machine;

const ELEMENTS: u64 = 60;
/// Elements that one step changes.
const STEP: u64 = 17;

/// Crashes at one crash point.
pub(crate) struct CrashAt {
    pub(crate) points_before: usize,
    /// Whether uncertain content survives.
    pub(crate) is_kept: bool,
}

impl Choose for CrashAt {
    fn choose(&mut self, question: Question) -> usize {
        match question.ask {
            Ask::Crash => {
                let crashes = self.points_before == 0;
                self.points_before = self.points_before.wrapping_sub(1);
                usize::from(crashes)
            }
            _ if self.is_kept => question.options - 1,
            _ => 0,
        }
    }
}

fn options(medium: Medium, version: u64) -> Options {
    let options = Options::new().bytes(256 << 10).log_bytes(256 << 10).medium(medium);
    options.background(false).layout("numbers", version)
}

/// Each element `n` becomes `2 n + 1` by version 2, and then `n + 5` by version 3.
fn migrating(options: Options, numbers: Array<u64>) -> Options {
    let steps = move |change: fn(u64) -> u64| {
        move |tx: &mut lastword::ErasedTx<'_>, first: u64| {
            for number in first..ELEMENTS.min(first + STEP) {
                tx.update(numbers.at(number)?, change)?;
            }
            Ok(Some(first + STEP).filter(|next| *next < ELEMENTS))
        }
    };
    options.migrate(1, steps(|n| 2 * n + 1)).migrate(2, steps(|n| n + 5))
}

pub(crate) fn an_interrupted_migration(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    let dax = crashed_at_every_point::<Decoupled>(Medium::Dax);
    dax.and_then(|()| crashed_at_every_point::<Decoupled>(Medium::File))
        .and_then(|()| crashed_at_every_point::<Snapshot>(Medium::File))
        .and_then(|()| crashed_at_every_point::<Redo>(Medium::PersistentCache))
        .err()
}

fn crashed_at_every_point<D: Design>(medium: Medium) -> Result<(), String> {
    let recorder = machine();
    let create = options(medium, 1).system(recorder.system());
    let pool = Pool::<D>::create_as("/pool", create).unwrap();
    let numbers = pool.run(|tx| Array::create(tx, ELEMENTS)).unwrap().value;
    for number in 0..ELEMENTS {
        let _ = pool.run(|tx| tx.set(numbers.at(number)?, number)).unwrap();
    }
    pool.close().unwrap();
    recorder.rest();
    let image = recorder.image();
    let mut points = 0;
    while crash_at::<D>(points, &image, medium, numbers)? {
        points += 1;
    }
    assert!(points > 20, "only {points} crash points");
    Ok(())
}

/// Returns whether there is such a point.
fn crash_at<D: Design>(
    point: usize,
    image: &Image,
    medium: Medium,
    numbers: Array<u64>,
) -> Result<bool, String> {
    let mut crashed = false;
    for is_kept in [false, true] {
        let choices = CrashAt { points_before: point, is_kept };
        let model = Model { crashes: 1, ..Model::default() };
        let recorder = Recorder::from_image(image, model, Box::new(choices));
        let now = || migrating(options(medium, 3), numbers).system(recorder.system());
        let first = catch_unwind(AssertUnwindSafe(|| {
            let pool = Pool::<D>::open_as("/pool", now())?;
            pool.close()
        }));
        recorder.set_model(Model::calm);
        match first {
            Ok(opened) => opened.map_err(|error| format!("refused: {error}"))?,
            Err(panic) if panic.is::<PowerCut>() => {
                crashed = true;
                refuse_older::<D>(&recorder, medium, numbers)?;
            }
            Err(_) => return Err("panic: an opening panicked".into()),
        }
        let pool =
            Pool::<D>::open_as("/pool", now()).map_err(|error| format!("refused: {error}"))?;
        for number in 0..ELEMENTS {
            let found = pool.run(|tx| tx.get(numbers.at(number)?)).unwrap().value;
            if found != 2 * number + 6 {
                return Err(format!("torn: element {number} is {found} after point {point}"));
            }
        }
        pool.close().unwrap();
        let done = Pool::<D>::open_as("/pool", options(medium, 3).system(recorder.system()));
        done.map(drop).map_err(|error| format!("refused: {error}"))?;
    }
    Ok(crashed)
}

/// A program of one version without migrations opens the pool with all content of this version, or
/// not at all.
fn refuse_older<D: Design>(
    recorder: &Recorder,
    medium: Medium,
    numbers: Array<u64>,
) -> Result<(), String> {
    for version in 1..=3 {
        let program = options(medium, version).system(recorder.system());
        let pool = match Pool::<D>::open_as("/pool", program) {
            Ok(pool) => pool,
            Err(Error::Layout { .. }) => continue,
            Err(error) => return Err(format!("refused: {error}")),
        };
        for number in 0..ELEMENTS {
            let found = pool.run(|tx| tx.get(numbers.at(number)?)).unwrap().value;
            let expected = [number, 2 * number + 1, 2 * number + 6][version as usize - 1];
            if found != expected {
                return Err(format!("torn: {found} and not {expected} in version {version}"));
            }
        }
        pool.close().unwrap();
    }
    Ok(())
}
