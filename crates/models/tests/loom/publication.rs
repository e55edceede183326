//! The transactional memory, the ring and the frontier together: a commit, and a frontier
//! computation.

use super::perform::{Stm, Tm};
use super::persist::slot::{RingRedo, Slot, frontier};
use crate::explore::{explore, words};
use crate::ring::Ring;
use crate::sync::{Arc, AtomicU64, Ordering, thread};
use models::outcomes::Outcomes;
use words::TxId;

/// A claimed record is published, with the written words.
pub(crate) fn commit_is_claimed_with_its_record() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(None, move || {
        let stm = Arc::new(Stm::sized(1, 0).expect("there is memory"));
        let slot = Arc::new(Slot::new(Ring::new(words(16))));
        let (theirs, their_slot) = (Arc::clone(&stm), Arc::clone(&slot));
        let worker = thread::spawn(move || commit(&theirs, their_slot));
        let mut cursors = Vec::new();
        let now = stm.clock().load(Ordering::Acquire);
        let frontier = frontier(stm.clock(), std::slice::from_ref(&slot), now, &mut cursors);
        if frontier > 0 {
            assert!(cursors[0] > 0, "claimed, and not published");
            assert_eq!(slot.ring.head(0), (0, 1, 2));
            let mut run = [0; 2];
            slot.ring.copy(0, &mut run);
            assert_eq!(run, [medium::writes::run(0, 1), 7]);
        }
        seen.saw(frontier);
        worker.join().expect("the worker ends");
    });
    met.are(0..2);
}

fn commit(stm: &Stm, slot: Arc<Slot<Box<[AtomicU64]>>>) {
    let (heap, mut redo) = (words(1), RingRedo::new(slot));
    let mut attempt = stm.attempt(1);
    stm.begin(&mut attempt);
    stm.write(&mut attempt, &heap, 0, 7).expect("no conflict");
    let id = stm.commit(&mut attempt, &heap, &mut redo).expect("no conflict");
    assert_eq!(id, TxId(1));
}
