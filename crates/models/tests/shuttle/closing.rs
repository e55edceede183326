//! The starvation lock: which losses close it, and which closings a waiting transaction sees.

use super::perform::{Backoff, Heap, NoRedo, Obstacle, QueuePlace, StarvationLock, Stm, Tm};
use crate::schedules::explore;
use crate::sync::{Arc, AtomicU64, Ordering, thread};
use models::outcomes::Outcomes;

const HEAP_WORDS: usize = 8;
/// Losses before a transaction starves, as in the product.
const PATIENCE: u64 = 24;
/// Losses of a starving transaction before it closes the lock, as in the product.
const RESERVATIONS: u64 = 64;
/// Reservations that end while a transaction waits for them. A schedule may hide some of them.
const ROUNDS: u64 = 2 * (PATIENCE + RESERVATIONS);
/// Closings of the lock.
const CLOSINGS: u64 = 8;

/// Joins the queue, and reserves the record if it is empty.
fn starve(
    starvation_lock: &StarvationLock,
    worker: usize,
    key: u64,
) -> (Backoff, Option<QueuePlace<'_>>) {
    let (mut backoff, mut place) = (Backoff::new(worker), None);
    backoff.give_way();
    while place.is_none() {
        lose(starvation_lock, &mut backoff, &mut place, Obstacle::Changed { key });
    }
    (backoff, place)
}

fn lose<'g>(
    starvation_lock: &'g StarvationLock,
    backoff: &mut Backoff,
    place: &mut Option<QueuePlace<'g>>,
    met: Obstacle,
) {
    let passed = starvation_lock.pass(backoff, place, || met, |_, _| None, |_, _| false);
    passed.expect("it does not give up");
}

fn wait_for(step: &AtomicU64, round: u64) {
    while step.load(Ordering::Relaxed) < round {
        thread::yield_now();
    }
}

/// Two workers that reserve one record alternately, and a transaction in parts that needs it. Each
/// step holds the last round in which it was taken. A reservation may end at any moment of the wait
/// for it.
struct Relay {
    stm: Stm,
    heap: Box<[AtomicU64]>,
    key: u64,
    /// The transaction has met a reservation.
    met: AtomicU64,
    /// The next worker has joined the queue.
    joined: AtomicU64,
    /// The transaction waits for the reservation.
    waits: AtomicU64,
    /// The next worker has reserved the record.
    reserved: AtomicU64,
}

impl Relay {
    fn new() -> Relay {
        let stm = Stm::sized(HEAP_WORDS, 0).expect("there is memory");
        let heap: Box<[AtomicU64]> = (0..HEAP_WORDS).map(|_| AtomicU64::new(0)).collect();
        let (mut one, mut two) = (stm.attempt(1), stm.attempt(2));
        let words: &Heap = &heap;
        stm.begin(&mut one);
        stm.begin(&mut two);
        stm.write(&mut one, words, 0, 1).expect("it is the first");
        stm.write(&mut two, words, 0, 1).expect_err("another holds the record");
        let Obstacle::Held { key, .. } = stm.obstacle(&mut two) else {
            panic!("the record is held")
        };
        for attempt in [&mut one, &mut two] {
            stm.roll_back(attempt, words, &mut NoRedo);
        }
        let [met, joined, waits, reserved] = std::array::from_fn(|_| AtomicU64::new(0));
        Relay { stm, heap, key, met, joined, waits, reserved }
    }
}

/// A transaction in parts meets many reservations of others. They bring it into the queue; but it
/// has lost nothing as the first there, so it does not close the lock.
pub(crate) fn ended_reservations_leave_lock_open() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(20, move |_| {
        let relay = Arc::new(Relay::new());
        let theirs = Arc::clone(&relay);
        let others = thread::spawn(move || reserve_alternately(&theirs));
        if run_in_parts(&relay) {
            seen.saw(1);
        }
        others.join().expect("the others end");
    });
    met.are(1..2);
}

fn reserve_alternately(relay: &Relay) {
    let Relay { key, met, joined, waits, reserved, .. } = relay;
    let starvation_lock = relay.stm.starvation_lock();
    let (_, mut current) = starve(starvation_lock, 1, *key);
    reserved.store(1, Ordering::Relaxed);
    for round in 1..=ROUNDS {
        wait_for(met, round);
        let (mut backoff, mut next) = starve(starvation_lock, 1 + round as usize % 2, *key);
        joined.store(round, Ordering::Relaxed);
        wait_for(waits, round);
        drop(current);
        lose(starvation_lock, &mut backoff, &mut next, Obstacle::Changed { key: *key });
        reserved.store(round + 1, Ordering::Relaxed);
        current = next;
    }
    wait_for(met, ROUNDS + 1);
    drop(current);
    joined.store(ROUNDS + 1, Ordering::Relaxed);
}

/// Returns whether the transaction is in the queue when it commits.
fn run_in_parts(relay: &Relay) -> bool {
    let Relay { stm, heap, met, joined, waits, reserved, .. } = relay;
    let heap: &Heap = heap;
    let mut attempt = stm.attempt(0);
    let mut backoff = Backoff::new(0);
    for round in 0..=ROUNDS + 1 {
        wait_for(joined, round);
        let mut place = None;
        let obstacle = || {
            waits.store(round, Ordering::Relaxed);
            stm.obstacle(&mut attempt)
        };
        let holder = |key, seen| stm.holder(key, seen);
        let passed =
            stm.starvation_lock().pass(&mut backoff, &mut place, obstacle, holder, |_, _| false);
        passed.expect("it does not give up");
        assert!(!stm.starvation_lock().is_closed(), "ended reservations close the lock: {round}");
        stm.begin(&mut attempt);
        if round <= ROUNDS {
            wait_for(reserved, round + 1);
        }
        let done = stm.write(&mut attempt, heap, 0, 1);
        if done.and_then(|()| stm.commit(&mut attempt, heap, &mut NoRedo)).is_ok() {
            assert!(round > ROUNDS, "it takes a reserved record: {round}");
            return place.is_some();
        }
        stm.roll_back(&mut attempt, heap, &mut NoRedo);
        backoff.give_way();
        drop(place);
        met.store(round + 1, Ordering::Relaxed);
    }
    panic!("the last round does not commit")
}

/// A worker closes the lock again and again, and another one waits. Of three looks that seem to see
/// one closing, the first two do: a bound of the wait then never adds up different closings.
pub(crate) fn closed_lock_wait_sees_each_closing() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(200, move |_| {
        let shared = Arc::new((StarvationLock::default(), AtomicU64::new(0)));
        let theirs = Arc::clone(&shared);
        let owner = thread::spawn(move || close_again(&theirs.0, &theirs.1));
        let (starvation_lock, closing) = (&shared.0, &shared.1);
        while closing.load(Ordering::Relaxed) <= CLOSINGS {
            let (mut looks, mut others) = (Vec::new(), 0);
            let gives_up = |_, is_another| {
                if is_another {
                    looks.clear();
                    others += 1;
                }
                looks.push(closing.load(Ordering::Relaxed));
                if let [.., one, two, _] = looks[..] {
                    assert_eq!(one, two, "two closings of the lock seem to be one");
                }
                false
            };
            let mut backoff = Backoff::new(2);
            let passed = starvation_lock.pass(
                &mut backoff,
                &mut None,
                || Obstacle::Unknown,
                |_, _| None,
                gives_up,
            );
            passed.expect("it does not give up");
            if others > 1 {
                seen.saw(1);
            }
            thread::yield_now();
        }
        owner.join().expect("the owner ends");
    });
    met.are(1..2);
}

/// Closes the lock for a moment, again and again. `closing` holds the closing in force.
fn close_again(starvation_lock: &StarvationLock, closing: &AtomicU64) {
    for number in 1..=CLOSINGS {
        closing.store(number, Ordering::Relaxed);
        let (mut backoff, mut place) = starve(starvation_lock, 1, 0);
        lose(starvation_lock, &mut backoff, &mut place, Obstacle::Unknown);
        thread::yield_now();
        drop(place);
    }
    closing.store(CLOSINGS + 1, Ordering::Relaxed);
}
