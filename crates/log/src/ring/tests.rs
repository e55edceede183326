//! Tests of the ring.

use super::*;

fn ring(words: usize) -> Ring<Box<[AtomicU64]>> {
    Ring::new((0..words).map(|_| AtomicU64::new(0)).collect())
}

#[test]
fn records_survive_many_ring_wraps() {
    let ring = ring(64);
    let mut writer = Writer::new(&ring);
    let (mut taken, mut expected) = (0, 1);
    for id in 1..=1000_u64 {
        let words = (id % 29) as usize;
        while !writer.has_room(&ring, words) {
            let (at, found, length) = ring.head(taken);
            assert_eq!((at, found, length), (taken, expected, (expected % 29) as usize));
            let mut out = vec![0; length];
            ring.copy(taken, &mut out);
            assert!(out.iter().enumerate().all(|(i, &word)| word == expected * 100 + i as u64));
            taken = Ring::<Box<[AtomicU64]>>::behind(taken, length);
            ring.take(taken);
            expected += 1;
        }
        let mut record = writer.record(&ring);
        for i in 0..words as u64 {
            record.push(id * 100 + i);
        }
        record.publish(id);
    }
    assert!(expected > 900, "only {expected} records were taken");
}

#[test]
fn unpublished_record_is_invisible() {
    let ring = ring(16);
    let mut writer = Writer::new(&ring);
    assert!(writer.has_room(&ring, 1));
    let mut record = writer.record(&ring);
    record.push(7);
    assert_eq!(ring.written(), 0);
    record.publish(1);
    assert_eq!((ring.written(), ring.pending()), (3, 3));
}

#[test]
fn full_ring_has_no_room_until_taken() {
    let ring = ring(8);
    let mut writer = Writer::new(&ring);
    assert!(writer.has_room(&ring, 6) && !writer.has_room(&ring, 7));
    writer.record(&ring).publish(1);
    assert!(writer.has_room(&ring, 4) && !writer.has_room(&ring, 5));
    ring.take(2);
    assert!(writer.has_room(&ring, 6));
}

/// Memory that notes which words were written, and zeroes released ones.
#[derive(Debug)]
struct Noted(Box<[AtomicU64]>);

impl AsRef<[AtomicU64]> for Noted {
    fn as_ref(&self) -> &[AtomicU64] {
        &self.0
    }
}

impl RingMemory for Noted {
    fn release(&self, words: Range<usize>) {
        self.0[words].iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

const LEAST: usize = 64;
const CAPACITY: usize = 16 * 4 * LEAST;

/// A ring of regions of 64, 128, 256 and 4 096 words.
struct World {
    ring: Ring<Noted>,
    writer: Writer,
    taken: u64,
    published: u64,
    expected: u64,
}

impl World {
    fn new() -> World {
        let words = Ring::<Noted>::words_of(CAPACITY, LEAST);
        let words = (0..words).map(|_| AtomicU64::new(0)).collect();
        let ring = Ring::with_regions(Noted(words), CAPACITY, LEAST);
        let writer = Writer::new(&ring);
        World { ring, writer, taken: 0, published: 0, expected: 1 }
    }

    /// Publishes a record of `words` words if it has room.
    fn publish(&mut self, words: usize) -> bool {
        if !self.writer.has_room(&self.ring, words) {
            return false;
        }
        self.published += 1;
        let mut record = self.writer.record(&self.ring);
        (0..words as u64).for_each(|word| record.push(self.published << 16 | word));
        record.publish(self.published);
        true
    }

    /// Takes up to `records` records and checks them.
    fn take(&mut self, records: u64) {
        for _ in 0..records {
            if self.taken == self.ring.written() {
                return;
            }
            let (at, id, words) = self.ring.head(self.taken);
            assert_eq!(id, self.expected, "a lost or stale record");
            let mut out = vec![0; words];
            self.ring.copy(at, &mut out);
            let expected = (0..words as u64).map(|word| id << 16 | word);
            assert!(out.iter().copied().eq(expected), "torn record {id}");
            self.taken = Ring::<Noted>::behind(at, words);
            self.ring.take(self.taken);
            self.expected += 1;
        }
    }

    fn words_used(&self) -> usize {
        self.ring.words.0.iter().filter(|word| word.load(Ordering::Relaxed) != 0).count()
    }
}

#[test]
fn prompt_persist_step_keeps_ring_in_least_region() {
    let mut world = World::new();
    for _ in 0..10_000 {
        assert!(world.publish(5));
        world.take(1);
    }
    assert!(world.words_used() <= LEAST, "{}", world.words_used());
}

#[test]
fn full_regions_are_left_for_larger_ones() {
    let mut world = World::new();
    while world.publish(6) {}
    let (pending, most) = (world.ring.pending(), world.ring.words.0.len() as u64);
    assert!(pending > CAPACITY as u64 && pending <= most, "{pending}");
    world.take(u64::MAX);
    assert_eq!(world.expected, world.published + 1);
    assert!(world.publish(CAPACITY - 2) && !world.publish(0));
}

#[test]
fn quiet_worker_returns_to_least_region() {
    let mut world = World::new();
    while world.publish(6) {}
    world.take(u64::MAX);
    assert!(world.words_used() <= CAPACITY);
    // The largest region, the next two and the least one: some wraps in each.
    for _ in 0..2 * u64::from(QUIET_WRAPS) * CAPACITY as u64 / 8 {
        assert!(world.publish(6));
        world.take(1);
    }
    assert!(world.words_used() <= LEAST, "{}", world.words_used());
}

#[test]
fn idle_worker_keeps_memory_of_its_claim_alone() {
    for backlog in [LEAST, 3 * LEAST, CAPACITY / 2, CAPACITY] {
        let mut world = World::new();
        while world.ring.pending() < backlog as u64 && world.publish(6) {}
        world.take(u64::MAX);
        // Claims of an empty region.
        for _ in 0..LEAST / 4 {
            assert!(world.publish(6));
            world.take(u64::MAX);
        }
        world.ring.release_unclaimed();
        let kept = LEAST + 2 * PAGE_WORDS as usize;
        assert!(world.words_used() <= kept, "{} after {backlog}", world.words_used());
    }
}

#[test]
fn worker_returns_to_least_region_after_idleness() {
    let mut world = World::new();
    while world.publish(6) {}
    world.take(u64::MAX);
    world.ring.release_unclaimed();
    // The claim, and a record behind it.
    for _ in 0..=LEAST / 8 {
        assert!(world.publish(6));
        world.take(u64::MAX);
    }
    assert_eq!(world.ring.taken_region().words(), LEAST as u64);
    assert!(world.words_used() <= LEAST, "{}", world.words_used());
    let record = CAPACITY - RECORD_HEAD_WORDS;
    assert!(world.publish(record) && !world.publish(record));
    world.take(u64::MAX);
    assert_eq!(world.expected, world.published + 1);
}

#[test]
fn largest_record_fits_an_empty_ring_of_any_region() {
    let mut world = World::new();
    for round in 0..100 {
        (0..round % 40).for_each(|_| assert!(world.publish(1)));
        // The decision to move is taken back when the next record needs another region.
        assert!(world.writer.has_room(&world.ring, 0) && world.writer.has_room(&world.ring, 60));
        world.take(u64::MAX);
        assert!(world.publish(CAPACITY - RECORD_HEAD_WORDS), "round {round}");
        world.take(u64::MAX);
    }
}

#[test]
fn records_survive_moves_between_regions() {
    let mut seed = 7_u64;
    let mut world = World::new();
    for _ in 0..50_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (kind, size) = (seed >> 60, seed >> 40 & 0xfff);
        match kind {
            0 => world.take(u64::MAX),
            1..7 => world.take(size % 8),
            7 => world.ring.release_unclaimed(),
            8 => drop(world.publish(size as usize % (CAPACITY - 1))),
            _ => drop(world.publish(size as usize % 20)),
        }
    }
    world.take(u64::MAX);
    assert_eq!(world.expected, world.published + 1);
    assert!(world.published > 10_000, "{}", world.published);
}
