//! How far durability has got, and who wants to know: threads that sleep, tasks, callbacks.
//!
//! ```text
//!   one that sleeps                        one whose turn is over
//!   1 epoch                                a what it has done is stored, its lock is free
//!   2 what I wait for? the step? busy      b epoch + 1
//!   3 waiting + 1, fence                   c fence, anybody waiting?
//!   4 lock, epoch as in 1? onto the list   d lock, off the list: who is served, and one more
//! ```
//!
//! Invariants:
//! - `durable` only grows, and only after the barrier behind every record up to it.
//! - Whoever is on the list is taken off it by the first turn that serves it. If c does not see its
//!   3, the two fences make its 4 see b: it does not sleep.
//! - While threads sleep, a turn is under way, or one of them is awake and about to try the step:
//!   each turn wakes one more thread than it has served (the one that waits for the lowest ID), and
//!   who finds the step taken again sleeps until that turn is over.
//!
//! Why one and not all: of a hundred threads that wait for the next group one can lead it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::task::Waker;

use crossbeam_utils::CachePadded;

use crate::Error;
use crate::poison::Poison;
use crate::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, fence, lock, thread};

/// What a pool's steps have reached.
#[derive(Default)]
pub(crate) struct Progress {
    durable: CachePadded<AtomicU64>,
    /// Turns that are over.
    epoch: AtomicU64,
    /// At least as many as are on the lists.
    waiting: AtomicUsize,
    lists: Mutex<Lists>,
    pub(crate) poison: Poison,
}

/// Who waits, lowest ID first.
#[derive(Default)]
struct Lists {
    sleepers: BinaryHeap<Reverse<For<Arc<Sleeper>>>>,
    listeners: BinaryHeap<Reverse<For<Listener>>>,
}

/// Ordered by the ID that is waited for.
struct For<T> {
    id: u64,
    who: T,
}

/// A thread.
struct Sleeper {
    thread: thread::Thread,
    awake: AtomicBool,
}

/// Who is told what has become of a transaction.
pub enum Listener {
    /// A task, to be polled again.
    Task(Waker),
    /// A callback.
    Callback(Box<dyn FnOnce(Result<(), Error>) + Send>),
}

impl Progress {
    pub(crate) fn new(durable: u64) -> Progress {
        Progress { durable: CachePadded::new(AtomicU64::new(durable)), ..Progress::default() }
    }

    /// The largest ID such that it and all before it survive a crash.
    #[inline]
    pub(crate) fn durable(&self) -> u64 {
        // Acquire: pairs with the Release in `advance`.
        self.durable.load(Ordering::Acquire)
    }

    /// Everything up to `id` survives a crash.
    pub(crate) fn advance(&self, id: u64) {
        // Release: whoever sees `durable >= id` also sees everything that led to it (the group in
        // the queue). Pairs with `durable`.
        self.durable.store(id, Ordering::Release);
    }

    /// What has become of `id`: durable, never to be, or neither yet.
    pub(crate) fn outcome(&self, id: u64) -> Option<Result<(), Error>> {
        // Durable first: what was durable before the failure is durable.
        if self.durable() >= id {
            return Some(Ok(()));
        }
        self.poison.check().err().map(Err)
    }

    /// What to hand to [`sleep`](Progress::sleep); read it before the state that is waited for.
    pub(crate) fn epoch(&self) -> u64 {
        // Acquire: the state is looked at after this. Pairs with the Release in `turn_is_over`.
        self.epoch.load(Ordering::Acquire)
    }

    /// Sleeps until a turn that ended after `epoch` was read has made `id` durable, or found this
    /// thread the one that should try the step; 0 for a thread that waits for something else, which
    /// every turn wakes. May wake for no reason.
    pub(crate) fn sleep(&self, epoch: u64, id: u64) {
        let thread = thread::current();
        let sleeper = Arc::new(Sleeper { thread, awake: AtomicBool::new(false) });
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // SeqCst fence: either the one whose turn is over sees this thread waiting, or this thread
        // sees the new epoch. Pairs with the fence in `turn_is_over`; without both, each could miss
        // the other's store.
        fence(Ordering::SeqCst);
        {
            let mut lists = lock(&self.lists);
            if self.epoch.load(Ordering::Acquire) != epoch {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                return;
            }
            lists.sleepers.push(Reverse(For { id, who: Arc::clone(&sleeper) }));
        }
        // Acquire: pairs with the Release in `wake`. `unpark` before `park` is not lost.
        while !sleeper.awake.load(Ordering::Acquire) {
            thread::park();
        }
    }

    /// Tells the listener when the outcome of `id` is known; at once if it is.
    pub(crate) fn tell(&self, id: u64, listener: Listener) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // As in `sleep`: either a turn that ends sees it waiting, or it sees what that turn did.
        fence(Ordering::SeqCst);
        let mut lists = lock(&self.lists);
        if let Some(outcome) = self.outcome(id) {
            drop(lists);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return listener.tell(outcome);
        }
        lists.listeners.push(Reverse(For { id, who: listener }));
    }

    /// Ends a turn: whoever waits for what it has reached is woken, and one more thread, to go on.
    /// The step's lock is free again.
    pub(crate) fn turn_is_over(&self) {
        // Release: a sleeper that sees the epoch sees what the turn has done.
        self.epoch.fetch_add(1, Ordering::Release);
        // Pairs with the fences in `sleep` and `tell`.
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        let failed = self.poison.check().is_err();
        let (mut sleepers, mut listeners) = (Vec::new(), Vec::new());
        {
            let mut lists = lock(&self.lists);
            let durable = self.durable();
            let served = |id: u64| failed || id <= durable;
            while lists.sleepers.peek().is_some_and(|Reverse(first)| served(first.id)) {
                sleepers.extend(lists.sleepers.pop());
            }
            sleepers.extend(lists.sleepers.pop()); // one more
            while lists.listeners.peek().is_some_and(|Reverse(first)| served(first.id)) {
                listeners.extend(lists.listeners.pop());
            }
            self.waiting.fetch_sub(sleepers.len() + listeners.len(), Ordering::Relaxed);
        }
        for Reverse(For { who, .. }) in sleepers {
            who.awake.store(true, Ordering::Release);
            who.thread.unpark();
        }
        for Reverse(For { id, who }) in listeners {
            who.tell(self.outcome(id).expect("it is known, and stays so"));
        }
    }
}

impl Listener {
    pub(crate) fn tell(self, outcome: Result<(), Error>) {
        let tell = || match self {
            Listener::Task(waker) => waker.wake(),
            Listener::Callback(callback) => callback(outcome),
        };
        // One that panics must not take a step, or other listeners, down with it; it was printed.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(tell));
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Listener::Task(_) => "Task",
            Listener::Callback(_) => "Callback",
        })
    }
}

impl<T> PartialEq for For<T> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}
impl<T> Eq for For<T> {}
impl<T> PartialOrd for For<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for For<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.id.cmp(&other.id)
    }
}
