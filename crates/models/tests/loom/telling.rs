//! Callbacks, tasks and sleeping threads: each is notified once of its transaction's outcome,
//! whatever comes between its look and its registration, and all are notified of a failure, in a
//! step or outside of any (a shadow page that cannot be read).

use super::persist::help::{Turn, help_until, take_turn};
use super::persist::{Listener, Progress, Registration, Step};
use crate::Error;
use crate::explore::explore;
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering, thread};
use models::outcomes::Outcomes;
use std::task::Wake;

/// What a listener was told; only ever touched between two switches.
#[derive(Clone, Default)]
struct Ear(std::sync::Arc<std::sync::Mutex<Vec<bool>>>);

impl Ear {
    fn told(&self, durable: bool) {
        self.0.lock().expect("nobody panics with it").push(durable);
    }

    fn heard(&self) -> Vec<bool> {
        self.0.lock().expect("nobody panics with it").clone()
    }

    fn listener(&self) -> Listener {
        let ear = self.clone();
        Listener::Callback(Box::new(move |outcome| ear.told(outcome.is_ok())))
    }
}

struct Shared {
    progress: Progress,
    step: Mutex<()>,
}

impl Shared {
    fn new() -> Arc<Shared> {
        Arc::new(Shared { progress: Progress::new(0), step: Mutex::new(()) })
    }

    /// A turn of which everything up to `id` comes out durable; or that fails.
    fn turn(&self, id: Option<u64>) {
        let _ = take_turn(&self.step, &self.progress, Turn::Awaited, |(), turn| match id {
            Some(id) => {
                self.progress.advance(id);
                Ok(Step::Done)
            }
            None => Err(turn.fail(Error::StepPanicked { step: "persist" })),
        });
    }
}

/// A task that has a thread of its own.
struct Task {
    thread: thread::Thread,
    awake: AtomicBool,
}

impl Task {
    fn new() -> Arc<Task> {
        Arc::new(Task { thread: thread::current(), awake: AtomicBool::new(false) })
    }

    /// Until its waker is called.
    fn sleep(&self) {
        while !self.awake.load(Ordering::Acquire) {
            thread::park();
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.awake.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// One registers while another's turn ends.
pub(crate) fn a_listener_is_told_once() {
    listeners(1, None);
    listeners(2, Some(3));
}

fn listeners(listeners: u64, preemptions: Option<usize>) {
    explore(preemptions, move || {
        let shared = Shared::new();
        let ears: Vec<Ear> = (0..listeners).map(|_| Ear::default()).collect();
        let threads: Vec<_> = ears
            .iter()
            .map(|ear| {
                let (shared, listener) = (Arc::clone(&shared), ear.listener());
                thread::spawn(move || shared.progress.tell(1, listener))
            })
            .collect();
        shared.turn(Some(1));
        threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
        assert!(ears.iter().all(|ear| ear.heard() == [true]), "a listener is told once");
    });
}

/// Two turns: one serves the first listener, one fails and ends the hopes of the second.
pub(crate) fn a_failure_is_told_to_all() {
    explore(Some(4), || {
        let shared = Shared::new();
        let (served, lost) = (Ear::default(), Ear::default());
        let (theirs, listeners) = (Arc::clone(&shared), [served.listener(), lost.listener()]);
        let asks = thread::spawn(move || {
            let [served, lost] = listeners;
            theirs.progress.tell(2, lost);
            theirs.progress.tell(1, served);
        });
        shared.turn(Some(1));
        shared.turn(None);
        asks.join().expect("it ends");
        assert_eq!(served.heard(), [true], "a listener is told once");
        assert_eq!(lost.heard(), [false], "a listener is told once");
    });
}

/// A failure that no step meets, while a thread goes to sleep because another is in the step, and
/// while a listener registers. The step itself hangs: only the failure can wake them.
pub(crate) fn failure_outside_of_turns_wakes_all() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(4), move || {
        let shared = Shared::new();
        let ear = Ear::default();
        let (theirs, listener, seen) = (Arc::clone(&shared), ear.listener(), seen.clone());
        let waits = thread::spawn(move || {
            theirs.progress.tell(1, listener);
            let mut tries = 0;
            let step = || {
                tries += 1;
                theirs.progress.check()?;
                Ok::<_, Error>(Step::Busy)
            };
            let done = help_until(&theirs.progress, 1, || None::<()>, step);
            assert!(done.is_err(), "nothing is durable");
            seen.saw(tries - 1);
        });
        let failed = shared.progress.fail(Error::StepPanicked { step: "shadow" });
        assert!(matches!(failed, Error::Poisoned { .. }), "what is reported");
        waits.join().expect("it ends");
        assert_eq!(ear.heard(), [false], "a listener is notified once");
        assert_eq!(shared.progress.listeners(), 0, "none is left");
    });
    // It finds the failure at its first try, or after it has slept.
    met.are([0, 1]);
}

/// A future that is polled by one task and then by another, while a turn takes its waker.
pub(crate) fn waker_of_last_poll_is_called() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(4), move || {
        let shared = Shared::new();
        let (theirs, seen) = (Arc::clone(&shared), seen.clone());
        // As above: not the thread that joins.
        let polls = thread::spawn(move || {
            let (first, last) = (Task::new(), Task::new());
            let outcome = || theirs.progress.outcome(1).map(|outcome| outcome.is_ok());
            let mut registration = Registration::default();
            theirs.progress.listen(1, Arc::clone(&first).into(), &mut registration);
            theirs.progress.listen(1, Arc::clone(&last).into(), &mut registration);
            if outcome().is_none() {
                last.sleep();
                let was_replaced = !first.awake.load(Ordering::Relaxed);
                assert!(was_replaced, "one waker for a future");
                seen.saw(1);
            }
            assert_eq!(outcome(), Some(true), "woken, and not durable");
            seen.saw(0);
        });
        shared.turn(Some(1));
        polls.join().expect("the task ends");
        assert_eq!(shared.progress.listeners(), 0, "none is left");
    });
    met.are([0, 1]);
}

/// A future that is dropped while a turn takes its waker: it takes that back, or the turn calls it.
pub(crate) fn dropped_future_leaves_nothing() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(None, move || {
        let shared = Shared::new();
        let (theirs, seen) = (Arc::clone(&shared), seen.clone());
        let polls = thread::spawn(move || {
            let task = Task::new();
            let mut registration = Registration::default();
            theirs.progress.listen(1, Arc::clone(&task).into(), &mut registration);
            theirs.progress.forget(1, &registration);
            assert_eq!(theirs.progress.listeners(), 0, "a dropped future has no waker");
            seen.saw(u64::from(task.awake.load(Ordering::Relaxed)));
        });
        shared.turn(Some(1));
        polls.join().expect("the task ends");
        // Were one counted that is not there, each turn would look for it.
        assert!(!shared.progress.has_waiters(), "none is left");
    });
    met.are([0, 1]);
}

/// A task as `ticket.await` polls it: a look, a registration, another look; then it sleeps until
/// its waker is called.
pub(crate) fn a_task_is_woken() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(None, move || {
        let shared = Shared::new();
        let (theirs, seen) = (Arc::clone(&shared), seen.clone());
        // The task is not the thread that joins: loom takes a late unparking for the join's end.
        let task = thread::spawn(move || {
            let task = Task::new();
            let outcome = || theirs.progress.outcome(1).map(|outcome| outcome.is_ok());
            if outcome().is_none() {
                let waker = Arc::clone(&task).into();
                theirs.progress.listen(1, waker, &mut Registration::default());
                if outcome().is_none() {
                    task.sleep();
                    seen.saw(1);
                }
            }
            assert_eq!(outcome(), Some(true), "woken, and not durable");
            seen.saw(0);
        });
        shared.turn(Some(1));
        task.join().expect("the task ends");
    });
    met.are([0, 1]);
}

/// Whoever knows an ID to be durable knows what has made it so.
pub(crate) fn what_is_durable_is_seen_with_its_group() {
    explore(None, || {
        let shared = Shared::new();
        let log = Arc::new(AtomicU64::new(0));
        let (theirs, their_log) = (Arc::clone(&shared), Arc::clone(&log));
        let turn = thread::spawn(move || {
            their_log.store(1, Ordering::Relaxed);
            theirs.turn(Some(1));
        });
        if shared.progress.durable() >= 1 {
            assert_eq!(log.load(Ordering::Relaxed), 1, "durable, and not seen in the log");
        }
        turn.join().expect("the thread ends");
    });
}
