//! The frontier: workers that assign IDs and publish records, and a thread that computes the
//! frontier.

use super::perform::{Redo, Written};
use super::persist::slot::{RingRedo, Slot, frontier};
use crate::explore::{explore, words};
use crate::ring::Ring;
use crate::sync::{Arc, AtomicU64, Ordering, thread};
use models::outcomes::Outcomes;
use words::TxId;

type Words = Box<[AtomicU64]>;
type Slots = Vec<Arc<Slot<Words>>>;

/// Commits `commits` transactions without writes, as a transactional memory does it.
fn commit(clock: &AtomicU64, slot: &Arc<Slot<Words>>, commits: u64) {
    let mut redo = RingRedo::new(Arc::clone(slot));
    for _ in 0..commits {
        assert!(redo.has_room(0));
        redo.assigning(clock.load(Ordering::Relaxed));
        let id = clock.fetch_add(1, Ordering::AcqRel) + 1;
        redo.record(TxId(id), Written::nothing());
    }
}

/// Computes the frontier as the persist step does, checks that its records are published, and
/// returns it.
fn claim(clock: &AtomicU64, slots: &Slots) -> u64 {
    let mut cursors = Vec::new();
    let now = clock.load(Ordering::Acquire);
    let frontier = frontier(clock, slots, now, &mut cursors);
    let mut found = 0;
    for (slot, &end) in slots.iter().zip(&cursors) {
        let mut at = 0;
        while at < end {
            let (record, id, words) = slot.ring.head(at);
            assert!(id > 0 && words == 0, "a record that is not there");
            found += u64::from(id <= frontier);
            at = Ring::<Words>::behind(record, words);
        }
    }
    assert_eq!(found, frontier, "claimed, and not published");
    frontier
}

fn run(commits: &[u64], preemptions: Option<usize>, outcomes: u64) {
    let met = Outcomes::default();
    let seen = met.clone();
    let commits = commits.to_vec();
    explore(preemptions, move || {
        let clock = Arc::new(AtomicU64::new(0));
        let slot = |_: &u64| Arc::new(Slot::new(Ring::new(words(8))));
        let slots: Slots = commits.iter().map(slot).collect();
        let mut workers = Vec::new();
        for (slot, &commits) in slots.iter().zip(&commits) {
            let (clock, slot) = (Arc::clone(&clock), Arc::clone(slot));
            if commits > 0 {
                workers.push(thread::spawn(move || commit(&clock, &slot, commits)));
            }
        }
        seen.saw(claim(&clock, &slots));
        for worker in workers {
            worker.join().expect("a worker ends");
        }
        assert_eq!(
            claim(&clock, &slots),
            commits.iter().sum::<u64>(),
            "the frontier reaches the last commit"
        );
    });
    met.are(0..outcomes);
}

/// The frontier may see the second commit of a worker in place of the idle mark after the first.
pub(crate) fn only_published_records_are_claimed() {
    run(&[2], None, 3);
    run(&[1, 2], Some(2), 4);
}

pub(crate) fn idle_worker_does_not_hold_back_frontier() {
    run(&[0, 2], None, 3);
}
