//! A process whose memory is locked, in which a bounded shadow cannot give copies back. A program
//! of its own, because the lock is the whole process's.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Wake, Waker};

use lastword::design::Registration;
use lastword::{Array, DecoupledEvicting, Design, Error, Objects, Options, Pool, Shadow};
use rustix::mm::{MlockAllFlags, mlockall, munlockall};

const PAGES: u64 = 64;
const APART: u64 = 512;

/// A task that counts how often it is woken.
#[derive(Default)]
struct Task(AtomicU64);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn locked_memory_poisons_a_bounded_shadow_and_the_error_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("locked.pool");
    let options = Options::new().bytes(1 << 20).log_bytes(256 << 10).ring_entries(1 << 10);
    let options = options.shadow(Shadow::CopyOnWrite).shadow_bytes(8 * 4096).background(false);
    let pool = Pool::<DecoupledEvicting>::create_as(&path, options.clone()).unwrap();
    let array = pool.run(|tx| Array::reserve(tx, PAGES * APART)).unwrap().value;
    while !pool.run(|tx| array.prepare(tx, 16)).unwrap().value {}
    // Copies of words in the heap image can be dropped while later commits are not durable.
    pool.bring_home().unwrap();
    let write = |page: u64| pool.run(|tx| tx.set(array.at(page * APART)?, page + 1));
    if let Err(error) = mlockall(MlockAllFlags::CURRENT) {
        // Past the capture of the test's output: `.ci/run` lists these lines.
        let reason = format!("this process may not lock its memory ({error})");
        let _ = writeln!(std::io::stderr(), "skipped: locked_memory: {reason}");
        return;
    }
    let (told, ear) = std::sync::mpsc::channel();
    let task = Arc::new(Task::default());
    let mut committed = 0;
    let error = loop {
        match write(committed) {
            Ok(done) => {
                let (told, id) = (told.clone(), done.ticket.id());
                let callback = move |outcome: Result<(), Error>| {
                    told.send((id, outcome.is_ok())).unwrap();
                };
                done.ticket.on_durable(callback).unwrap();
                let waker = Waker::from(Arc::clone(&task));
                pool.design().listen(id, &waker, &mut Registration::default()).unwrap();
                committed += 1;
            }
            Err(error) => break error,
        }
    };
    munlockall().unwrap();
    // All are notified before the call that met the failure returns.
    let notified: Vec<_> = ear.try_iter().collect();
    assert_eq!(notified.len() as u64, committed, "a callback is called once");
    assert!(notified.iter().any(|(_, is_durable)| !is_durable), "all were durable");
    assert!(notified.iter().all(|(id, is_durable)| *is_durable == (*id <= pool.durable_id())));
    assert_eq!(task.0.load(Ordering::Relaxed), committed, "a task is woken once");
    assert!(matches!(error, Error::Poisoned { .. }) && error.to_string().contains("mlock"));
    assert!(matches!(write(0), Err(Error::Poisoned { .. })));
    pool.abandon();
    // What was home by then is there, and the pool goes on.
    let pool = Pool::<DecoupledEvicting>::open_as(&path, options).unwrap();
    for page in 0..PAGES {
        let set = pool.run(|tx| tx.set(array.at(page * APART)?, page));
        set.unwrap().ticket.wait().unwrap();
    }
    pool.check_heap().unwrap();
    assert!(pool.metrics().evictions > 0);
}
