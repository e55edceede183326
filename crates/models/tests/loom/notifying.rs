//! Notification of callbacks, tasks and sleeping threads. Each is notified once of its
//! transaction's outcome, whatever happens between its check and its registration. All are notified
//! of a failure, in a step or outside of any (a shadow page that cannot be read).

use super::persist::waiters::{StepEnd, help_until, try_step};
use super::persist::{Listener, Progress, Registration, Step};
use crate::Error;
use crate::explore::explore;
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering, thread};
use models::outcomes::Outcomes;
use std::task::Wake;

/// The notifications of a listener. The lock is only held between two switches.
#[derive(Clone, Default)]
struct Notified(std::sync::Arc<std::sync::Mutex<Vec<bool>>>);

impl Notified {
    fn notify(&self, durable: bool) {
        self.0.lock().expect("no panic under this lock").push(durable);
    }

    fn outcomes(&self) -> Vec<bool> {
        self.0.lock().expect("no panic under this lock").clone()
    }

    fn listener(&self) -> Listener {
        let notified = self.clone();
        Listener::Callback(Box::new(move |outcome| notified.notify(outcome.is_ok())))
    }
}

struct Shared {
    progress: Progress,
    state: Mutex<()>,
}

impl Shared {
    fn new() -> Arc<Shared> {
        Arc::new(Shared { progress: Progress::new(0), state: Mutex::new(()) })
    }

    /// Runs a step that makes everything up to `id` durable, or that fails.
    fn step(&self, id: Option<u64>) {
        let _ = try_step(&self.state, &self.progress, StepEnd::Awaited, |(), running| match id {
            Some(id) => {
                self.progress.advance(id);
                Ok(Step::Done)
            }
            None => Err(running.fail(Error::StepPanicked { step: "persist" })),
        });
    }
}

/// A task on a thread of its own.
struct Task {
    thread: thread::Thread,
    awake: AtomicBool,
}

impl Task {
    fn new() -> Arc<Task> {
        Arc::new(Task { thread: thread::current(), awake: AtomicBool::new(false) })
    }

    /// Sleeps until the waker is called.
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

/// Listeners register while another thread's step ends.
pub(crate) fn listener_is_notified_once() {
    listeners(1, None);
    listeners(2, Some(3));
}

fn listeners(listeners: u64, preemptions: Option<usize>) {
    explore(preemptions, move || {
        let shared = Shared::new();
        let notified: Vec<Notified> = (0..listeners).map(|_| Notified::default()).collect();
        let threads: Vec<_> = notified
            .iter()
            .map(|notified| {
                let (shared, listener) = (Arc::clone(&shared), notified.listener());
                thread::spawn(move || shared.progress.notify(1, listener))
            })
            .collect();
        shared.step(Some(1));
        threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
        assert!(notified.iter().all(|it| it.outcomes() == [true]), "a listener is notified once");
    });
}

/// Two steps: the first serves one listener, and the second fails and completes the other with an
/// error.
pub(crate) fn failure_notifies_all_listeners() {
    explore(Some(4), || {
        let shared = Shared::new();
        let (served, lost) = (Notified::default(), Notified::default());
        let (theirs, listeners) = (Arc::clone(&shared), [served.listener(), lost.listener()]);
        let asks = thread::spawn(move || {
            let [served, lost] = listeners;
            theirs.progress.notify(2, lost);
            theirs.progress.notify(1, served);
        });
        shared.step(Some(1));
        shared.step(None);
        asks.join().expect("it ends");
        assert_eq!(served.outcomes(), [true], "a listener is notified once");
        assert_eq!(lost.outcomes(), [false], "a listener is notified once");
    });
}

/// A failure outside of any step, while a thread goes to sleep because another thread has the step,
/// and while a listener registers. The step itself hangs, so only the failure can wake them.
pub(crate) fn failure_outside_of_steps_wakes_all() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(4), move || {
        let shared = Shared::new();
        let notified = Notified::default();
        let (theirs, listener, seen) = (Arc::clone(&shared), notified.listener(), seen.clone());
        let waits = thread::spawn(move || {
            theirs.progress.notify(1, listener);
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
        assert!(matches!(failed, Error::Poisoned { .. }), "the reported error");
        waits.join().expect("it ends");
        assert_eq!(notified.outcomes(), [false], "a listener is notified once");
        assert_eq!(shared.progress.listeners(), 0, "none is left");
    });
    // The thread finds the failure at its first try, or after a sleep.
    met.are([0, 1]);
}

/// A future is polled by one task and then by another, while a step takes its waker.
pub(crate) fn waker_of_last_poll_is_called() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(Some(4), move || {
        let shared = Shared::new();
        let (theirs, seen) = (Arc::clone(&shared), seen.clone());
        // As in `waiting_task_is_woken`, the task does not run on the joining thread.
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
        shared.step(Some(1));
        polls.join().expect("the task ends");
        assert_eq!(shared.progress.listeners(), 0, "none is left");
    });
    met.are([0, 1]);
}

/// A future is dropped while a step takes its waker. Either the drop removes the waker, or the step
/// calls it.
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
        shared.step(Some(1));
        polls.join().expect("the task ends");
        // If a removed waker were still counted, each step would look for it.
        assert!(!shared.progress.has_waiters(), "none is left");
    });
    met.are([0, 1]);
}

/// A task as `ticket.await` polls it: a check, a registration, another check, and a sleep until its
/// waker is called.
pub(crate) fn waiting_task_is_woken() {
    let met = Outcomes::default();
    let seen = met.clone();
    explore(None, move || {
        let shared = Shared::new();
        let (theirs, seen) = (Arc::clone(&shared), seen.clone());
        // The task must not run on the joining thread: loom takes a late unpark for the end of the
        // join.
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
        shared.step(Some(1));
        task.join().expect("the task ends");
    });
    met.are([0, 1]);
}

/// A thread that sees a durable ID also sees the group that made it durable.
pub(crate) fn durable_id_publishes_its_group() {
    explore(None, || {
        let shared = Shared::new();
        let log = Arc::new(AtomicU64::new(0));
        let (theirs, their_log) = (Arc::clone(&shared), Arc::clone(&log));
        let stepping = thread::spawn(move || {
            their_log.store(1, Ordering::Relaxed);
            theirs.step(Some(1));
        });
        if shared.progress.durable() >= 1 {
            assert_eq!(log.load(Ordering::Relaxed), 1, "durable, and not seen in the log");
        }
        stepping.join().expect("the thread ends");
    });
}
