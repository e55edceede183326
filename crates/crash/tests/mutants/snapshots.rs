//! Tests of `snapshot` mutants that need a transaction that stays open while others commit, whose
//! writes are durable and not applied to the heap image.

use std::sync::mpsc;
use std::time::Duration;

use faults::mutants::{Mutant, inject};
use faults::recording::Recorder;
use lastword::{Medium, Objects, Options, Pool, Ptr, Snapshot};

use crate::parts::machine;

/// Objects, one written per transaction: more than a slot has room for.
const OBJECTS: usize = 100;
/// Words of each, nearly the limit of an object.
const WORDS: usize = 120;

type Object = Ptr<[u64; WORDS]>;

fn options(recorder: &Recorder) -> Options {
    let options = Options::new().bytes(1 << 20).log_bytes(128 << 10).ring_entries(1 << 15);
    // A wait for room fails at once.
    let options = options.patience(Duration::ZERO).medium(Medium::Dax);
    options.system(recorder.system())
}

/// Writes each object's number while a reader needs the old values, until a slot is full. Then the
/// power fails. Returns the acknowledged writes that were lost.
pub(crate) fn a_reader_that_stays(bug: Option<Mutant>) -> Option<String> {
    let recorder = machine();
    let pool = Pool::<Snapshot>::create_as("/pool", options(&recorder)).unwrap();
    let mut worker = pool.worker().unwrap();
    let objects: Vec<Object> =
        (0..OBJECTS).map(|_| worker.run(|tx| tx.alloc([0; WORDS])).unwrap().value).collect();
    let (read, is_there) = mpsc::channel();
    let (done, may_end) = mpsc::channel::<()>();
    let written = std::thread::scope(|threads| {
        let (pool, first) = (&pool, objects[0]);
        threads.spawn(move || {
            let reader = pool.run(|tx| {
                let word = tx.get(first)?[0];
                let _ = read.send(());
                let _ = may_end.recv();
                Ok(word)
            });
            assert_eq!(reader.unwrap().value, 0);
        });
        is_there.recv().unwrap();
        let _injected = inject(bug);
        let number = |(number, at): (usize, &Object)| {
            let run = worker.run(|tx| tx.set(*at, [1 + number as u64; WORDS]));
            run.map(drop)
        };
        let mut numbers = objects.iter().enumerate().map(number);
        let written = numbers.by_ref().take_while(Result::is_ok).count();
        assert!(bug.is_some() || written < OBJECTS, "the slot was never full");
        drop(numbers);
        recorder.crash();
        drop(done);
        written
    });
    drop(worker);
    pool.abandon();
    let pool = match Pool::<Snapshot>::open_as("/pool", options(&recorder)) {
        Ok(pool) => pool,
        Err(error) => return Some(format!("refused: {error}")),
    };
    let lost = (0..written).find(|&number| {
        let found = pool.run(|tx| tx.get(objects[number]));
        !matches!(found, Ok(found) if found.value == [1 + number as u64; WORDS])
    })?;
    Some(format!("lost: object {lost} of {written}"))
}
