//! The starvation lock: a transaction that keeps losing to new transactions commits in the end,
//! before the whole pool must wait for it.

use super::perform::{Fortune, Heap, NoRedo, Stm, Tm, Turn};
use crate::schedules::explore;
use crate::sync::{Arc, AtomicBool, AtomicU64, Ordering, thread};
use models::outcomes::Outcomes;
use words::{Stop, TxId};

/// Words with an ownership record each.
const X: usize = 0;
const Y: usize = 8;
const HEAP_WORDS: usize = 16;
/// Losses before a transaction starves, as in the product.
const PATIENCE: u64 = 24;
/// Further losses until the rival has seen the reservation.
const RESERVING: u64 = 4;
/// Steps in which the rival can commit.
const STEPS: usize = 200;

struct Shared {
    stm: Stm,
    heap: Box<[AtomicU64]>,
    /// Commits of the rival.
    commits: AtomicU64,
    /// The starving transaction has committed.
    over: AtomicBool,
}

/// A transaction reads a word, lets a rival write it, and writes another word; the rival writes the
/// first word repeatedly. The body is thus in effect as long as the rival's transactions at the
/// worst time.
pub(crate) fn starving_transaction_commits_before_pool_waits() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(100, move |_| {
        let heap = (0..HEAP_WORDS).map(|_| AtomicU64::new(0)).collect();
        let (commits, over) = (AtomicU64::new(0), AtomicBool::new(false));
        let stm = Stm::sized(HEAP_WORDS, 0).expect("there is memory");
        let shared = Arc::new(Shared { stm, heap, commits, over });
        let theirs = Arc::clone(&shared);
        let rival = thread::spawn(move || rival(&theirs));
        seen.saw(u64::from(starve(&shared) > PATIENCE));
        shared.over.store(true, Ordering::Relaxed);
        rival.join().expect("the rival ends");
    });
    // In some schedules, the transaction commits before it starves.
    met.are(0..2);
}

fn starve(shared: &Shared) -> u64 {
    let losses = AtomicU64::new(0);
    run(shared, 0, &losses, |attempt| {
        let x = shared.stm.read(attempt, &*shared.heap, X)?;
        let before = shared.commits.load(Ordering::Relaxed);
        for _ in 0..STEPS {
            if shared.commits.load(Ordering::Relaxed) > before {
                break;
            }
            thread::yield_now();
        }
        shared.stm.write(attempt, &*shared.heap, Y, x)
    });
    losses.load(Ordering::Relaxed)
}

fn rival(shared: &Shared) {
    let losses = AtomicU64::new(0);
    while !shared.over.load(Ordering::Relaxed) {
        run(shared, 1, &losses, |attempt| shared.stm.write(attempt, &*shared.heap, X, 1));
        shared.commits.fetch_add(1, Ordering::Relaxed);
        losses.store(0, Ordering::Relaxed);
        // A schedule with priorities would otherwise run the rival forever.
        thread::yield_now();
    }
}

/// Runs a transaction like a worker does.
fn run(
    shared: &Shared,
    worker: usize,
    losses: &AtomicU64,
    mut body: impl FnMut(&mut <Stm as Tm>::Attempt) -> Result<(), Stop>,
) {
    let Shared { stm, heap, over, .. } = shared;
    let heap: &Heap = heap;
    let mut attempt = stm.attempt(worker);
    let (mut fortune, mut turn) = (Fortune::new(worker), None::<Turn<'_>>);
    loop {
        let is_held = |key, seen| stm.is_held(key, seen);
        let met = || stm.obstacle(&mut attempt);
        let passed = stm.gate().pass(&mut fortune, &mut turn, met, is_held, |_| false);
        passed.expect("it does not give up");
        stm.begin(&mut attempt);
        let done = body(&mut attempt).and_then(|()| stm.commit(&mut attempt, heap, &mut NoRedo));
        if done.is_ok() {
            return;
        }
        stm.roll_back(&mut attempt, heap, &mut NoRedo);
        fortune.give_way();
        let lost = losses.fetch_add(1, Ordering::Relaxed) + 1;
        let most = PATIENCE + RESERVING;
        assert!(worker > 0 || lost <= most, "a transaction starves after {lost} losses");
        if worker > 0 && over.load(Ordering::Relaxed) {
            return;
        }
    }
}
