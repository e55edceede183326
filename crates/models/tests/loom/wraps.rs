//! The ring: one writer and one reader, over more than one wrap.

use super::ring::{RECORD_HEAD_WORDS, Ring, RingMemory, Writer};
use crate::explore::{explore, words};
use crate::sync::{Arc, AtomicU64, Ordering, thread};
use loom::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

/// So few words that the second record wraps and needs the space of the first.
const RING_WORDS: usize = 4;
const RECORD_WORDS: u64 = RECORD_HEAD_WORDS as u64 + 1;

/// Words of the largest region; the least one has 8.
const CAPACITY: usize = 128;

type Words = Box<[AtomicU64]>;

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
    run_in(3, Some(3), false, || Ring::with_regions(words(144), CAPACITY, 8));
}

/// Memory whose words are lost when they are released.
struct Lost(Words);

impl AsRef<[AtomicU64]> for Lost {
    fn as_ref(&self) -> &[AtomicU64] {
        &self.0
    }
}

impl RingMemory for Lost {
    fn release(&self, words: Range<usize>) {
        // The start alone: each word is a step of the schedule, and the next record is there.
        let start = words.start..words.end.min(words.start + 4);
        self.0[start].iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

/// A worker in the largest region goes on while the persist thread, which has taken all records,
/// releases memory.
pub(crate) fn idle_release_keeps_claimed_words() {
    explore(Some(3), || {
        let words = Lost(words(Ring::<Lost>::words_of(CAPACITY, 8)));
        let ring = Arc::new(Ring::with_regions(words, CAPACITY, 8));
        let mut writer = Writer::new(&ring);
        publish(&ring, &mut writer, 1, 100);
        publish(&ring, &mut writer, 2, 1);
        let at = take(&ring, 0, 1, 100);
        let mut at = take(&ring, at, 2, 1);
        let theirs = Arc::clone(&ring);
        // The claim has eight words: those of records 2 and 3, and not all of record 4.
        let worker = thread::spawn(move || {
            publish(&theirs, &mut writer, 3, 1);
            publish(&theirs, &mut writer, 4, 8);
        });
        ring.release_unclaimed();
        for (id, length) in [(3, 1), (4, 8)] {
            while ring.written() <= at {
                thread::yield_now();
            }
            at = take(&ring, at, id, length);
        }
        worker.join().expect("the worker ends");
    });
}

fn publish(ring: &Ring<Lost>, writer: &mut Writer, id: u64, length: usize) {
    while !writer.has_room(ring, length) {
        thread::yield_now();
    }
    let mut record = writer.record(ring);
    (0..length).for_each(|_| record.push(100 + id));
    record.publish(id);
}

fn take(ring: &Ring<Lost>, at: u64, id: u64, length: usize) -> u64 {
    let (record, found, found_length) = ring.head(at);
    assert_eq!((found, found_length), (id, length), "a lost record");
    let mut run = vec![0; length];
    ring.copy(record, &mut run);
    assert!(run.iter().all(|word| *word == 100 + id), "a record with lost words");
    let end = Ring::<Lost>::behind(record, length);
    ring.take(end);
    end
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
