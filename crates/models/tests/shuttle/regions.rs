//! The ring's regions: a worker that moves between them while the persist step takes its records,
//! and releases memory when it finds none.

use std::ops::Range;

use crate::ring::{RECORD_HEAD_WORDS, Ring, RingMemory, Writer};
use crate::schedules::{Dice, explore};
use crate::sync::{Arc, AtomicU64, Ordering, thread};

/// Regions of 8, 16 and 256 words.
const LEAST: usize = 8;
const CAPACITY: usize = 256;
const RECORDS: u64 = 120;

/// Memory whose words are lost when they are released.
struct Lost(Box<[AtomicU64]>);

impl AsRef<[AtomicU64]> for Lost {
    fn as_ref(&self) -> &[AtomicU64] {
        &self.0
    }
}

impl RingMemory for Lost {
    fn release(&self, words: Range<usize>) {
        // Two words for all: each is a step of the schedule. The first and the last one are the
        // most likely to hold a record.
        self.0[words.start].store(0, Ordering::Relaxed);
        self.0[words.end - 1].store(0, Ordering::Relaxed);
    }
}

pub(crate) fn records_survive_moves_between_regions() {
    explore(400, |seed| {
        let words = Ring::<Lost>::words_of(CAPACITY, LEAST);
        let words = (0..words).map(|_| AtomicU64::new(0)).collect();
        let ring = Arc::new(Ring::with_regions(Lost(words), CAPACITY, LEAST));
        let theirs = Arc::clone(&ring);
        let worker = thread::spawn(move || publish_all(&theirs, Dice::new(seed)));
        let (mut at, mut expected) = (0, 1);
        while expected <= RECORDS {
            let end = ring.written();
            if at == end {
                ring.release_unclaimed();
                thread::yield_now();
                continue;
            }
            while at < end {
                let (record, id, length) = ring.head(at);
                assert_eq!(id, expected, "a record of another region");
                let mut runs = vec![0; length];
                ring.copy(record, &mut runs);
                assert!(runs.iter().all(|word| *word == id), "a torn record");
                at = Ring::<Lost>::behind(record, length);
                expected += 1;
            }
            ring.take(at);
        }
        worker.join().expect("the worker ends");
        assert_eq!(ring.pending(), 0);
    });
}

fn publish_all(ring: &Ring<Lost>, mut dice: Dice) {
    let mut writer = Writer::new(ring);
    for id in 1..=RECORDS {
        // Mostly small records, and a large one now and then. It leaves the small regions, to which
        // the worker returns while the persist step has not taken it.
        let words = match dice.below(12) {
            0 => 100 + dice.below(CAPACITY as u64 - 100 - RECORD_HEAD_WORDS as u64),
            _ => dice.below(4),
        };
        while !writer.has_room(ring, words as usize) {
            thread::yield_now();
        }
        let mut record = writer.record(ring);
        (0..words).for_each(|_| record.push(id));
        record.publish(id);
    }
}
