//! Views and backups of pools whose transactions are running, compared with the transactions up to
//! their ID.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::names::EMULATED;
use faults::{Failing, Fault, Faults};
use lastword::{
    Design, Error, Medium, Objects, Options, Pool, PoolView, Ptr, Snapshot, Stop, System, TxId,
    Words,
};

const MEDIA: [Medium; 3] = [Medium::File, EMULATED, Medium::PersistentCache];

/// Objects that fill some fifty pages, and words of each.
const OBJECTS: usize = 300;
const WORDS: usize = 90;

type Object = Ptr<[u64; WORDS]>;
type Values = [u64; OBJECTS];

fn options(medium: Medium) -> Options {
    Options::new().bytes(1 << 20).log_bytes(1 << 20).medium(medium)
}

/// A pool of objects whose words are all equal.
struct Shared<D: Design> {
    pool: Pool<D>,
    objects: Vec<Object>,
    dir: tempfile::TempDir,
}

impl<D: Design> Shared<D> {
    fn new(options: Options) -> Shared<D> {
        let dir = tempfile::tempdir().unwrap();
        let pool = Pool::<D>::create_as(dir.path().join("pool"), options).unwrap();
        let alloc = |_| pool.run(|tx| tx.alloc([0; WORDS])).unwrap().value;
        let objects = (0..OBJECTS).map(alloc).collect();
        Shared { pool, objects, dir }
    }

    fn set(&self, object: usize, value: u64) -> TxId {
        let done = self.pool.run(|tx| tx.set(self.objects[object], [value; WORDS]));
        done.unwrap().ticket.id()
    }

    fn seen(&self, view: &PoolView<'_, D>) -> Values {
        view.check().unwrap();
        view.read(|tx| values(tx, &self.objects)).unwrap()
    }

    /// Backs up and returns the values in the copy.
    fn backed_up(&self, name: &str) -> (TxId, Values) {
        let copy = self.dir.path().join(name);
        let id = self.pool.backup(&copy).unwrap();
        assert!(lastword::check(&copy).unwrap().is_sound());
        (id, self.opened(&copy))
    }

    fn opened(&self, copy: &Path) -> Values {
        let copy = Pool::<D>::open_as(copy, Options::new()).unwrap();
        let found = copy.run(|tx| values(tx, &self.objects)).unwrap().value;
        // Free memory has no trace of other transactions.
        let made = copy.run(|tx| {
            let made = tx.alloc([7_u64; 12])?;
            tx.get(made)
        });
        assert_eq!(made.unwrap().value, [7; 12]);
        copy.check_heap().unwrap();
        found
    }
}

fn values<W: Words>(tx: &mut W, objects: &[Object]) -> Result<Values, Stop> {
    let mut values = [0; OBJECTS];
    for (value, object) in values.iter_mut().zip(objects) {
        let words = tx.get(*object)?;
        assert_eq!(words, [words[0]; WORDS], "torn");
        *value = words[0];
    }
    Ok(values)
}

/// The objects that a transaction has set, by its ID.
type Written = (TxId, [usize; 3], u64);

/// Sets random objects, and allocates and frees others, until `ends` is set.
fn load<D: Design>(shared: &Shared<D>, seed: u64, ends: &AtomicBool) -> Vec<Written> {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (mut worker, mut done) = (shared.pool.worker().unwrap(), Vec::new());
    let mut extra = None;
    while !ends.load(Ordering::Relaxed) && done.len() < 2_000_000 {
        let objects = [0; 3].map(|_| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random as usize % OBJECTS
        });
        let value = (seed << 32) + done.len() as u64 + 1;
        let committed = worker.run(|tx| {
            for object in objects {
                tx.set(shared.objects[object], [value; WORDS])?;
            }
            match extra {
                Some(object) => tx.free(object).map(|()| None),
                None => tx.alloc([value; 20]).map(Some),
            }
        });
        let committed = committed.unwrap();
        extra = committed.value;
        done.push((committed.ticket.id(), objects, value));
    }
    done
}

fn matches_model<D: Design>() {
    for (seed, medium) in (1..).zip(MEDIA) {
        let shared = Shared::<D>::new(options(medium));
        let (ends, found) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        let note = |id, values| found.lock().unwrap().push((id, values));
        let written = thread::scope(|scope| {
            let (shared, ends) = (&shared, &ends);
            let load = |number: u64| scope.spawn(move || load(shared, 8 * seed + number, ends));
            let loads: Vec<_> = (0..3).map(load).collect();
            let checkpoints = scope.spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    shared.pool.checkpoint().unwrap();
                    thread::sleep(Duration::from_millis(1));
                }
            });
            let viewed = |_| {
                let before = shared.pool.committed_id();
                let (first, second) = (shared.pool.view().unwrap(), shared.pool.view().unwrap());
                assert!(first.id() >= before && second.id() >= first.id());
                note(second.id(), shared.seen(&second));
                note(first.id(), shared.seen(&first));
            };
            let views = scope.spawn(move || (0..6).for_each(viewed));
            for number in 0..3 {
                let (id, values) = shared.backed_up(&format!("copy{number}"));
                note(id, values);
            }
            views.join().unwrap();
            ends.store(true, Ordering::Relaxed);
            checkpoints.join().unwrap();
            loads.into_iter().flat_map(|load| load.join().unwrap()).collect::<Vec<Written>>()
        });
        compare(written, found.into_inner().unwrap(), D::NAME);
        shared.pool.check_heap().unwrap();
        shared.pool.close().unwrap();
    }
}

/// Compares each state with that after all transactions up to its ID.
fn compare(mut written: Vec<Written>, mut found: Vec<(TxId, Values)>, design: &str) {
    written.sort_unstable_by_key(|(id, ..)| *id);
    found.sort_unstable_by_key(|(id, _)| *id);
    let (mut written, mut model) = (written.into_iter().peekable(), [0; OBJECTS]);
    let mut distinct = 0;
    for (id, values) in found {
        while let Some((_, objects, value)) = written.next_if(|(written, ..)| *written <= id) {
            objects.iter().for_each(|object| model[*object] = value);
            distinct += 1;
        }
        assert!(values == model, "{design}: the view of {id} is not the state after it");
    }
    assert!(distinct > 10 && written.peek().is_some(), "the views were taken under load");
}

#[test]
fn views_and_backups_match_model() {
    every_durable!(matches_model());
}

/// The end of a transaction that is open when a view begins.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Commit,
    Abort,
}

fn open_transaction<D: Design>() {
    for medium in MEDIA {
        for end in [End::Commit, End::Abort] {
            let shared = Shared::<D>::new(options(medium));
            let pool = &shared.pool;
            for object in 0..OBJECTS {
                shared.set(object, 1);
            }
            let mut worker = pool.worker().unwrap();
            let mut open = worker.begin(false).unwrap();
            for object in 0..20 {
                open.tx().set(shared.objects[object], [2; WORDS]).unwrap();
            }
            let made = open.tx().alloc([2_u64; 30]).unwrap();
            // Another thread, since this one has an open transaction.
            let (first, second) = thread::scope(|scope| {
                let meanwhile = scope.spawn(|| {
                    let first = pool.view().unwrap();
                    let id = shared.set(200, 3);
                    let (of_copy, copied) = shared.backed_up("copy");
                    let second = pool.view().unwrap();
                    assert!(first.id() < id && of_copy >= id && second.id() >= of_copy);
                    assert_eq!((copied[10], copied[200], copied[250]), (1, 3, 1));
                    (first, second)
                });
                meanwhile.join().unwrap()
            });
            for object in 20..30 {
                open.tx().set(shared.objects[object], [2; WORDS]).unwrap();
            }
            match end {
                End::Commit => drop(open.commit().unwrap().expect("no conflict")),
                End::Abort => drop(open.abort().unwrap()),
            }
            shared.set(0, 4);
            let third = pool.view().unwrap();
            let value = if end == End::Commit { 2 } else { 1 };
            let mut expected = [1; OBJECTS];
            assert!(shared.seen(&first) == expected);
            expected[200] = 3;
            assert!(shared.seen(&second) == expected);
            (0..30).for_each(|object| expected[object] = value);
            expected[0] = 4;
            assert!(shared.seen(&third) == expected);
            if end == End::Commit {
                assert_eq!(pool.run(|tx| tx.get(made)).unwrap().value, [2; 30]);
                assert_eq!(third.read(|tx| tx.get(made)).unwrap(), [2; 30]);
            }
        }
    }
}

#[test]
fn view_has_no_word_of_open_transaction() {
    every_durable!(open_transaction());
}

#[test]
fn view_includes_queued_transactions() {
    for medium in MEDIA {
        let shared = Shared::<Snapshot>::new(options(medium));
        let mut worker = shared.pool.worker().unwrap();
        let mut open = worker.begin(true).unwrap();
        assert_eq!(open.tx().get(shared.objects[5]).unwrap(), [0; WORDS]);
        // The reader needs the old version, so the heap lacks the new one.
        let (view, copied, made) = thread::scope(|scope| {
            let meanwhile = scope.spawn(|| {
                shared.set(5, 1);
                let made = shared.pool.run(|tx| tx.alloc([6_u64; 8])).unwrap().value;
                (shared.pool.view().unwrap(), shared.backed_up("copy").1, made)
            });
            meanwhile.join().unwrap()
        });
        assert_eq!(open.tx().get(shared.objects[5]).unwrap(), [0; WORDS]);
        drop(open);
        shared.set(5, 2);
        let mut expected = [0; OBJECTS];
        expected[5] = 1;
        assert!(copied == expected && shared.seen(&view) == expected);
        assert_eq!(view.read(|tx| tx.get(made)).unwrap(), [6; 8]);
    }
}

#[test]
fn view_with_groups_misses_no_transaction() {
    for medium in MEDIA {
        let options = options(medium).group(4).background(false);
        let shared = Shared::<Snapshot>::new(options);
        let (first, second) = (shared.set(1, 1), shared.set(2, 2));
        let view = shared.pool.view().unwrap();
        assert!(view.id() >= second && shared.pool.durable_id() >= view.id());
        // A pending member of another group.
        let third = shared.set(3, 3);
        assert!(first <= second && view.id() < third);
        let seen = shared.seen(&view);
        assert_eq!(seen[..5], [0, 1, 2, 0, 0]);
        let (id, copied) = shared.backed_up("copy");
        assert!(id >= third && copied[3] == 3);
    }
}

/// Opens a pool on a system whose `nth` call fails.
fn failing<D: Design>(nth: u64, fault: Fault, sticky: bool) -> (Shared<D>, Arc<Faults>) {
    let faults = Faults::nth(nth, fault, sticky);
    let system = System::kernel().failing(Arc::clone(&faults));
    let options = options(Medium::File).background(false).system(system);
    (Shared::new(options), faults)
}

/// Returns the calls before the transaction, and whether that or its flush has failed.
fn with_failed_call<D: Design>(nth: u64) -> (u64, bool) {
    let (shared, faults) = failing::<D>(nth, Fault::Io, true);
    let (pool, object) = (&shared.pool, shared.objects[0]);
    let view = pool.view().unwrap();
    let before = faults.calls();
    let done = pool.run(|tx| tx.set(object, [1; WORDS])).map(drop);
    let done = done.and_then(|()| pool.flush());
    let read = view.read(|tx| tx.get(object));
    match done {
        Ok(()) => assert!(read.is_err() || read.unwrap() == [0; WORDS]),
        Err(_) => {
            assert!(read.is_err() && pool.view().is_err());
            assert!(pool.backup(shared.dir.path().join("copy")).is_err());
        }
    }
    (before, done.is_err())
}

fn failed_pool<D: Design>() {
    let (first, failed) = with_failed_call::<D>(u64::MAX);
    assert!(!failed);
    // Among them are a copy of the page, which fails the view, and the write of the record.
    assert!((first..first + 4).any(|nth| with_failed_call::<D>(nth).1));
}

#[test]
fn view_of_failed_pool_is_refused() {
    every_durable!(failed_pool());
}

/// Returns the calls before the view and after it, and whether the pool has failed.
fn with_full_disk<D: Design>(nth: u64) -> (u64, u64, bool) {
    let (shared, faults) = failing::<D>(nth, Fault::NoSpace, false);
    let Shared { pool, objects, .. } = &shared;
    let before = faults.calls();
    let view = pool.view();
    let after = faults.calls();
    let Ok(view) = view else { return (before, after, false) };
    // The first store to each page copies it, or the read does.
    for object in objects {
        let _ = pool.run(|tx| tx.set(*object, [9; WORDS]));
    }
    let read = view.read(|tx| values(tx, objects));
    let now = pool.run(|tx| values(tx, objects));
    let is_well = now.is_ok_and(|now| now.value == [9; OBJECTS]);
    match read {
        Ok(values) => assert!(values == [0; OBJECTS]),
        Err(Error::Medium(_)) => assert!(is_well, "call {nth}"),
        // The fault met the pool's own files.
        Err(error) => assert!(!is_well, "call {nth}: {error}"),
    }
    (before, after, !is_well)
}

fn full_disk<D: Design>() {
    let (before, after, failed) = with_full_disk::<D>(u64::MAX);
    assert!(!failed);
    let failures = (before..after + 12).filter(|nth| with_full_disk::<D>(*nth).2).count();
    assert!(failures < 12, "a failed copy fails only its view");
}

#[test]
fn full_disk_fails_view_and_no_transaction() {
    every_durable!(full_disk());
}
