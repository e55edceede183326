//! Tests of recovery, truncation and room in a slot.

use super::*;
use crate::Medium;

fn options() -> Options {
    Options::new().bytes(1 << 20).log_bytes(256 << 10).medium(Medium::PersistentCache)
}

fn write(redo: &Redo, local: &mut Local, value: u64) {
    redo.begin(local, false).unwrap();
    redo.write(local, At { object: 0, index: 100 }, value).unwrap();
    redo.commit(local).unwrap();
}

#[test]
fn head_never_moves_backwards() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let (redo, _) = Redo::create(&path, &options()).unwrap();
    let truncate = || {
        let mut truncation = lock(&redo.truncation);
        redo.truncate(&mut truncation).unwrap();
        truncation.head()
    };
    let mut local = redo.local(0).unwrap();
    redo.workers.enter(Redo::NAME, 1).unwrap();
    (1..=5).for_each(|value| write(&redo, &mut local, value));
    let clock = redo.clock().load(Ordering::Acquire);
    (6..=10).for_each(|value| write(&redo, &mut local, value));
    let head = truncate();
    assert_eq!(head.id, clock + 5);
    // This worker has read the clock before the commits above and stores it only here.
    redo.workers.slot(1).assigning(clock);
    assert_eq!(redo.workers.frontier(redo.clock()), clock);
    assert_eq!((truncate(), redo.durable_id().0), (head, head.id));
    redo.workers.slot(1).idle();
    write(&redo, &mut local, 11);
    assert_eq!(truncate().id, head.id + 1);
}

#[test]
fn ids_beyond_a_marks_range_are_recovered() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    drop(Redo::create(&path, &options()).unwrap());
    let mut opened = Opened::open(&path, &options(), Words::demand::<Redo>).unwrap();
    opened.storage.superblocks.update(|now| now.reproduced = 1 << 50).unwrap();
    let (redo, _) = Redo::start(opened, &options()).unwrap();
    let mut local = redo.local(0).unwrap();
    (1..=3).for_each(|value| write(&redo, &mut local, value));
    drop(redo);
    let (redo, _) = Redo::open(&path, &options()).unwrap();
    assert_eq!((redo.committed_id().0, redo.peek(100)), ((1 << 50) + 3, 3));
}

#[test]
fn record_fills_its_slot() {
    let dir = tempfile::tempdir().unwrap();
    let (redo, _) = Redo::create(&dir.path().join("pool"), &options()).unwrap();
    let mut local = redo.local(0).unwrap();
    let (store, end) = (&redo.store, redo.store.layout.record_words());
    for at in [0, end - 4 * store.room(BEFORE_RUNS)] {
        local.log.at = at;
        let most = end - at - store.room(BEFORE_RUNS) - BEFORE_RUNS;
        assert!(local.log.has_room(store, most));
        assert!(!local.log.has_room(store, most + 1));
    }
}
