//! The starvation lock: a transaction that keeps losing to new transactions commits in the end,
//! before the whole pool must wait for it. A transaction in parts gives up its place in the queue
//! and its reservations at each conflict, so it commits only after it has closed the lock.

use super::perform::{Backoff, Heap, NoRedo, QueuePlace, Stm, Tm};
use crate::schedules::explore;
use crate::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Ordering, thread};
use models::outcomes::Outcomes;
use words::{Stop, TxId};

/// Words with an ownership record each. The rival writes `X` and never `Y`.
const X: [usize; 4] = [0, 8, 16, 24];
const Y: usize = 32;
const HEAP_WORDS: usize = 40;
/// Losses before a transaction starves, as in the product.
const PATIENCE: u64 = 24;
/// Losses of a starving transaction before it closes the lock, as in the product.
const RESERVATIONS: u64 = 64;
/// Further losses until the rival has seen the reservation or the closed lock.
const RESERVING: u64 = 4;
/// Steps in which the rival can commit.
const STEPS: usize = 200;

struct Shared {
    stm: Stm,
    heap: Box<[AtomicU64]>,
    /// Which word the rival writes, of `X`.
    target: AtomicUsize,
    /// Commits of the rival.
    commits: AtomicU64,
    /// The starving transaction has committed.
    over: AtomicBool,
}

/// The way in which a worker runs the transaction that starves.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// As a body that runs again until it commits. It loses on one word.
    Run,
    /// By separate calls. It loses on another word each time.
    InParts,
}

impl Way {
    /// Losses until it has the record that it reads, or until the lock is closed.
    fn patience(self) -> u64 {
        PATIENCE + if self == Way::InParts { RESERVATIONS } else { 0 }
    }
}

/// A transaction reads a word, lets a rival write it, and writes another word; the rival writes the
/// first word repeatedly. The body is thus in effect as long as the rival's transactions at the
/// worst time.
pub(crate) fn starving_transaction_commits_before_pool_waits() {
    starves_until_it_commits(Way::Run);
}

/// The reservation is free again when the transaction begins anew, and it then reads another word.
pub(crate) fn starving_transaction_in_parts_closes_lock() {
    starves_until_it_commits(Way::InParts);
}

fn starves_until_it_commits(way: Way) {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(100, move |_| {
        let heap = (0..HEAP_WORDS).map(|_| AtomicU64::new(0)).collect();
        let (commits, over) = (AtomicU64::new(0), AtomicBool::new(false));
        let stm = Stm::sized(HEAP_WORDS, 0).expect("there is memory");
        let target = AtomicUsize::new(0);
        let shared = Arc::new(Shared { stm, heap, target, commits, over });
        let theirs = Arc::clone(&shared);
        let rival = thread::spawn(move || rival(&theirs));
        let starves = starve(&shared, way) >= way.patience();
        if starves || way == Way::Run {
            seen.saw(u64::from(starves));
        }
        shared.over.store(true, Ordering::Relaxed);
        rival.join().expect("the rival ends");
    });
    // In some schedules a body commits before it starves. In parts hardly any schedule does that.
    met.are(if way == Way::Run { 0..2 } else { 1..2 });
}

fn starve(shared: &Shared, way: Way) -> u64 {
    let losses = AtomicU64::new(0);
    run(shared, (0, way), &losses, |attempt| {
        let lost = losses.load(Ordering::Relaxed) as usize;
        let target = if way == Way::InParts { lost % X.len() } else { 0 };
        shared.target.store(target, Ordering::Relaxed);
        let x = shared.stm.read(attempt, &*shared.heap, X[target])?;
        // The first commit may be of a rival that began before the target changed.
        let before = shared.commits.load(Ordering::Relaxed) + u64::from(way == Way::InParts);
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
        run(shared, (1, Way::Run), &losses, |attempt| {
            let target = X[shared.target.load(Ordering::Relaxed)];
            shared.stm.write(attempt, &*shared.heap, target, 1)
        });
        shared.commits.fetch_add(1, Ordering::Relaxed);
        losses.store(0, Ordering::Relaxed);
        // A schedule with priorities would otherwise run the rival forever.
        thread::yield_now();
    }
}

/// Runs a transaction like a worker does.
fn run(
    shared: &Shared,
    (worker, way): (usize, Way),
    losses: &AtomicU64,
    mut body: impl FnMut(&mut <Stm as Tm>::Attempt) -> Result<(), Stop>,
) {
    let Shared { stm, heap, over, .. } = shared;
    let heap: &Heap = heap;
    let mut attempt = stm.attempt(worker);
    let (mut backoff, mut place) = (Backoff::new(worker), None::<QueuePlace<'_>>);
    loop {
        let holder = |key, seen| stm.holder(key, seen);
        let met = || stm.obstacle(&mut attempt);
        let passed =
            stm.starvation_lock().pass(&mut backoff, &mut place, met, holder, |_, _| false);
        passed.expect("it does not give up");
        stm.begin(&mut attempt);
        let done = body(&mut attempt).and_then(|()| stm.commit(&mut attempt, heap, &mut NoRedo));
        if done.is_ok() {
            return;
        }
        stm.roll_back(&mut attempt, heap, &mut NoRedo);
        backoff.give_way();
        if way == Way::InParts {
            place = None;
        }
        let lost = losses.fetch_add(1, Ordering::Relaxed) + 1;
        let most = way.patience() + RESERVING;
        assert!(worker > 0 || lost <= most, "a transaction starves after {lost} losses");
        if worker > 0 && over.load(Ordering::Relaxed) {
            return;
        }
    }
}
