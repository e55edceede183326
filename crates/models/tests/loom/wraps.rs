//! The ring: one writer and one reader, over more than one wrap.

use super::ring::{RECORD_HEAD_WORDS, Ring, Writer};
use crate::explore::{explore, words};
use crate::sync::{Arc, thread};
use loom::cell::Cell;
use std::rc::Rc;

/// So few words that the second record wraps and needs the space of the first.
const RING_WORDS: usize = 4;
const RECORD_WORDS: u64 = RECORD_HEAD_WORDS as u64 + 1;

type Words = Box<[crate::sync::AtomicU64]>;

/// The owner of each word: loom panics when a thread accesses a word without having synchronized
/// with the other thread's access. This stands in for an execution that loom does not explore: a
/// copy that reads a value stored later.
struct Owned(Vec<Cell<u64>>);

impl Owned {
    fn places(&self, at: u64) -> impl Iterator<Item = &Cell<u64>> {
        (at..at + RECORD_WORDS).filter_map(|at| self.0.get(at as usize % RING_WORDS))
    }

    fn write(&self, at: u64) {
        self.places(at).for_each(|place| place.set(at));
    }

    fn read(&self, at: u64) {
        assert!(self.places(at).all(|place| place.get() == at), "the place has another record");
    }
}

pub(crate) fn records_are_taken_whole() {
    run(3, Some(3), false);
}

/// The third record does not fit in the least region if it comes early.
pub(crate) fn moved_records_are_taken_whole() {
    run_in(3, Some(3), false, || Ring::with_regions(words(144), 128, 8));
}

pub(crate) fn space_is_overwritten_only_after_its_copy() {
    run(3, None, true);
}

fn run(records: u64, preemptions: Option<usize>, check_owners: bool) {
    run_in(records, preemptions, check_owners, || Ring::new(words(RING_WORDS)));
}

fn run_in(records: u64, preemptions: Option<usize>, check_owners: bool, ring: fn() -> Ring<Words>) {
    explore(preemptions, move || {
        let ring = Arc::new(ring());
        let places = if check_owners { RING_WORDS } else { 0 };
        let owned = Rc::new(Owned((0..places).map(|_| Cell::new(0)).collect()));
        let (their_ring, their_owned) = (Arc::clone(&ring), Rc::clone(&owned));
        let worker = thread::spawn(move || write(&their_ring, &their_owned, records));
        let mut at = 0;
        for expected in 1..=records {
            while ring.written() <= at {
                thread::yield_now();
            }
            let (record, id, length) = ring.head(at);
            assert_eq!((id, length), (expected, 1), "a stale or torn record");
            let mut run = [0];
            ring.copy(record, &mut run);
            assert_eq!(run, [100 + expected], "a record with another's words");
            owned.read(at);
            at = Ring::<Words>::behind(record, 1);
            ring.take(at);
        }
        worker.join().expect("the writer ends");
        assert_eq!(ring.pending(), 0);
    });
}

fn write(ring: &Ring<Words>, owned: &Owned, records: u64) {
    let mut writer = Writer::new(ring);
    for id in 1..=records {
        while !writer.has_room(ring, 1) {
            thread::yield_now();
        }
        owned.write((id - 1) * RECORD_WORDS);
        let mut record = writer.record(ring);
        record.push(100 + id);
        record.publish(id);
    }
}
