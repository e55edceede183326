//! Tests of the protocol on a single thread; the suites cover races.

use super::*;
use crate::perform::NoRedo;

fn heap(words: usize) -> Vec<AtomicU64> {
    (0..words).map(|_| AtomicU64::new(0)).collect()
}

fn stm(words: usize) -> Stm {
    Stm::sized(words, 0).unwrap()
}

fn value(heap: &[AtomicU64], index: usize) -> u64 {
    heap[index].load(Ordering::Relaxed)
}

/// A heap of eight stripes.
const WORDS: usize = 8 * S;
const S: usize = STRIPE_WORDS;

/// A redo log that remembers its calls.
#[derive(Default)]
struct Records {
    announced: Vec<u64>,
    /// ID, and whether it is a no-op record.
    records: Vec<(u64, bool)>,
    room: Option<usize>,
}

impl Redo for Records {
    fn has_room(&mut self, words: usize) -> bool {
        self.room.is_none_or(|room| words <= room)
    }
    fn assigning(&mut self, clock: u64) {
        self.announced.push(clock);
    }
    fn record(&mut self, id: TxId, written: Written<'_, impl Space>) {
        self.records.push((id.0, written.words() == 0));
    }
}

#[test]
fn access_to_written_word_conflicts() {
    let (stm, heap) = (stm(WORDS), heap(WORDS));
    let (mut one, mut two) = (stm.attempt(1), stm.attempt(2));
    stm.begin(&mut one);
    stm.begin(&mut two);
    stm.write(&mut one, &heap, 5, 50).unwrap();
    assert_eq!(stm.read(&mut two, &heap, 5), Err(Stop::Conflict));
    assert_eq!(stm.write(&mut two, &heap, 5, 51), Err(Stop::Conflict));
    stm.roll_back(&mut two, &heap, &mut NoRedo);
    assert_eq!(stm.commit(&mut one, &heap, &mut NoRedo), Ok(TxId(1)));
    assert_eq!(value(&heap, 5), 50);
}

#[test]
fn newer_read_extends_snapshot_or_conflicts() {
    let (stm, heap) = (stm(WORDS), heap(WORDS));
    let (mut one, mut two) = (stm.attempt(1), stm.attempt(2));
    stm.begin(&mut one);
    assert_eq!(stm.read(&mut one, &heap, 0), Ok(0));
    stm.begin(&mut two);
    stm.write(&mut two, &heap, 5 * S, 1).unwrap();
    stm.commit(&mut two, &heap, &mut NoRedo).unwrap();
    // No read of `one` has changed: the snapshot is extended, and it sees the new value.
    assert_eq!(stm.read(&mut one, &heap, 5 * S), Ok(1));
    stm.begin(&mut two);
    stm.write(&mut two, &heap, 0, 1).unwrap();
    stm.write(&mut two, &heap, 5 * S, 2).unwrap();
    stm.commit(&mut two, &heap, &mut NoRedo).unwrap();
    // Its first read has changed: no snapshot contains both values.
    assert_eq!(stm.read(&mut one, &heap, 5 * S), Err(Stop::Conflict));
    assert_eq!(stm.roll_back(&mut one, &heap, &mut NoRedo), TxId(1));
}

#[test]
fn rollback_restores_values_with_a_new_version() {
    let (stm, heap) = (stm(WORDS), heap(WORDS));
    let (mut one, mut two) = (stm.attempt(1), stm.attempt(2));
    stm.begin(&mut two);
    assert_eq!(stm.read(&mut two, &heap, S + 1), Ok(0));
    stm.begin(&mut one);
    stm.write(&mut one, &heap, S, 1).unwrap();
    stm.write(&mut one, &heap, S + 1, 2).unwrap();
    let mut redo = Records::default();
    stm.roll_back(&mut one, &heap, &mut redo);
    assert_eq!((value(&heap, S), value(&heap, S + 1)), (0, 0));
    assert_eq!(redo.records, [(1, true)], "the assigned ID is a no-op record");
    // A reader that looks before and after the write must not find the same version: it may have
    // read the dirty value between.
    let record = stm.records.get(stm.records.number(1)).load(Ordering::Relaxed);
    assert!(record > two.snapshot, "version {record} was seen by a reader");
}

#[test]
fn read_only_attempt_tracks_no_reads() {
    let (stm, heap) = (stm(WORDS), heap(WORDS));
    let (mut one, mut two) = (stm.attempt(1), stm.attempt(2));
    stm.begin_read(&mut one);
    stm.begin(&mut two);
    stm.write(&mut two, &heap, 5 * S, 1).unwrap();
    stm.commit(&mut two, &heap, &mut NoRedo).unwrap();
    assert_eq!(stm.read(&mut one, &heap, 5 * S), Ok(1), "without reads the snapshot extends");
    assert_eq!(stm.read(&mut one, &heap, 0), Ok(0));
    assert!(one.read_count == 0);
    stm.begin(&mut two);
    stm.write(&mut two, &heap, S, 1).unwrap();
    stm.commit(&mut two, &heap, &mut NoRedo).unwrap();
    assert_eq!(stm.read(&mut one, &heap, S), Err(Stop::Conflict), "its reads are not tracked");
}

#[test]
fn invalid_reads_leave_a_no_op_record() {
    let (stm, heap) = (stm(WORDS), heap(WORDS));
    let (mut one, mut two) = (stm.attempt(1), stm.attempt(2));
    stm.begin(&mut one);
    stm.read(&mut one, &heap, 0).unwrap();
    stm.write(&mut one, &heap, 5 * S, 7).unwrap();
    stm.begin(&mut two);
    stm.write(&mut two, &heap, 0, 1).unwrap();
    stm.commit(&mut two, &heap, &mut NoRedo).unwrap();
    let mut redo = Records::default();
    assert_eq!(stm.commit(&mut one, &heap, &mut redo), Err(Stop::Conflict));
    assert_eq!(redo.records, [(2, true)]);
    assert_eq!(redo.announced, [1], "announced once, before the ID was assigned");
    assert_eq!(value(&heap, 5 * S), 0);
    // The attempt is over: rolling back assigns no other ID.
    stm.roll_back(&mut one, &heap, &mut redo);
    assert_eq!(redo.records.len(), 1);
}

#[test]
fn commit_without_room_assigns_no_id() {
    let (stm, heap) = (stm(WORDS), heap(WORDS));
    let mut one = stm.attempt(1);
    stm.begin(&mut one);
    for index in 0..4 {
        stm.write(&mut one, &heap, index, 7).unwrap();
    }
    let mut redo = Records { room: Some(7), ..Records::default() };
    assert_eq!(stm.commit(&mut one, &heap, &mut redo), Err(Stop::Conflict));
    assert!(redo.announced.is_empty() && stm.clock().load(Ordering::Relaxed) == 0);
    redo.room = Some(8);
    assert!(stm.commit(&mut one, &heap, &mut redo).is_ok());
}

#[test]
fn stripes_sharing_a_record_are_restored() {
    const FEW: usize = 4;
    let words = 2 * FEW * STRIPE_WORDS;
    let (stm, heap) = (Stm::sized(words, FEW as u64).unwrap(), heap(words));
    let far = FEW * STRIPE_WORDS; // the same record as word 0
    let mut one = stm.attempt(1);
    stm.begin(&mut one);
    for index in [0, far, 1, far + 1] {
        stm.write(&mut one, &heap, index, 9).unwrap();
    }
    assert_eq!(stm.read(&mut one, &heap, far), Ok(9));
    assert_eq!(one.written.entries.len(), 2);
    stm.roll_back(&mut one, &heap, &mut NoRedo);
    assert!([0, far, 1, far + 1].iter().all(|&index| value(&heap, index) == 0));
    stm.begin(&mut one);
    stm.write(&mut one, &heap, far, 3).unwrap();
    stm.write(&mut one, &heap, 0, 4).unwrap();
    assert_eq!(stm.commit(&mut one, &heap, &mut NoRedo), Ok(TxId(2)));
    assert!(stm.records.all().iter().all(|record| record.load(Ordering::Relaxed) & TAKEN == 0));
}

#[test]
fn read_only_commit_assigns_no_id() {
    let (stm, heap) = (stm(WORDS).starting_after(TxId(17)), heap(WORDS));
    let mut one = stm.attempt(1);
    stm.begin(&mut one);
    let mut out = [1; 2 * S];
    stm.read_run(&mut one, &heap, 3, &mut out).unwrap();
    assert_eq!(out, [0; 2 * S]);
    assert_eq!(stm.commit(&mut one, &heap, &mut NoRedo), Ok(TxId(17)));
}

#[test]
fn write_run_crosses_stripes_and_overwrites() {
    let (stm, heap) = (stm(WORDS), heap(WORDS));
    let mut one = stm.attempt(1);
    stm.begin(&mut one);
    stm.write(&mut one, &heap, S - 1, 1).unwrap();
    let run: Vec<u64> = (100..100 + 2 * S as u64).collect();
    stm.write_run(&mut one, &heap, S - 2, &run).unwrap();
    assert_eq!(one.written.entries.len(), 3);
    assert_eq!(stm.words_written(&one), 2 * S, "a word written twice counts once");
    let mut back = vec![0; 2 * S];
    stm.read_run(&mut one, &heap, S - 2, &mut back).unwrap();
    assert_eq!(back, run);
    stm.roll_back(&mut one, &heap, &mut NoRedo);
    assert!(heap.iter().all(|word| word.load(Ordering::Relaxed) == 0));
    assert!(stm.records.all().iter().all(|record| record.load(Ordering::Relaxed) & TAKEN == 0));
}

#[test]
fn read_set_grows_past_its_capacity() {
    let words = 3 * READS * S;
    let (stm, heap) = (stm(words), heap(words));
    let (mut one, mut two) = (stm.attempt(1), stm.attempt(2));
    stm.begin(&mut one);
    for stripe in 0..3 * READS {
        stm.read(&mut one, &heap, stripe * S).unwrap();
        stm.read(&mut one, &heap, stripe * S + 1).unwrap();
    }
    assert_eq!(one.read_count, 3 * READS, "a stripe is entered once");
    stm.begin(&mut two);
    stm.write(&mut two, &heap, READS * S, 1).unwrap();
    stm.commit(&mut two, &heap, &mut NoRedo).unwrap();
    stm.write(&mut one, &heap, 2, 1).unwrap();
    assert_eq!(stm.commit(&mut one, &heap, &mut NoRedo), Err(Stop::Conflict));
}

#[test]
fn obstacle_reports_record_and_holder() {
    let (stm, heap) = (stm(WORDS), heap(WORDS));
    let (mut one, mut two) = (stm.attempt(1), stm.attempt(2));
    let mut seen = Vec::new();
    for _ in 0..2 {
        stm.begin(&mut one);
        stm.begin(&mut two);
        stm.write(&mut one, &heap, 3 * S, 1).unwrap();
        assert_eq!(stm.read(&mut two, &heap, 3 * S), Err(Stop::Conflict));
        let Obstacle::Held { key: 3, seen: held } = stm.obstacle(&mut two) else {
            panic!("the record is held")
        };
        assert_eq!(stm.holder(3, held), Some(1));
        assert_eq!(stm.obstacle(&mut two), Obstacle::Unknown, "reported once");
        stm.roll_back(&mut two, &heap, &mut NoRedo);
        stm.commit(&mut one, &heap, &mut NoRedo).unwrap();
        assert_eq!(stm.holder(3, held), None);
        seen.push(held);
    }
    // The worker took the record again in the same entry: another transaction, so another value.
    assert_ne!(seen[0], seen[1]);
}

#[test]
fn obstacle_reports_changed_record() {
    let (stm, heap) = (stm(WORDS), heap(WORDS));
    let (mut one, mut two) = (stm.attempt(1), stm.attempt(2));
    stm.begin(&mut one);
    stm.read(&mut one, &heap, 0).unwrap();
    stm.read(&mut one, &heap, 2 * S).unwrap();
    stm.begin(&mut two);
    stm.write(&mut two, &heap, 2 * S, 1).unwrap();
    stm.commit(&mut two, &heap, &mut NoRedo).unwrap();
    stm.write(&mut one, &heap, 5 * S, 1).unwrap();
    assert_eq!(stm.commit(&mut one, &heap, &mut NoRedo), Err(Stop::Conflict));
    assert_eq!(stm.obstacle(&mut one), Obstacle::Changed { key: 2 });
    stm.roll_back(&mut one, &heap, &mut NoRedo);
    let mut full = Records { room: Some(1), ..Records::default() };
    stm.begin(&mut one);
    stm.write(&mut one, &heap, 5 * S, 1).unwrap();
    assert_eq!(stm.commit(&mut one, &heap, &mut full), Err(Stop::Conflict));
    assert_eq!(stm.obstacle(&mut one), Obstacle::Room);
}
