//! A bounded shadow in a process whose memory is locked: it cannot give pages back to the kernel.
//!
//! This is a test program of its own, because `mlockall` applies to the whole process.
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

/// A task that counts its wake-ups.
#[derive(Default)]
struct Task(AtomicU64);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn locked_memory_poisons_bounded_shadow() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("locked.pool");
    let options = Options::new().bytes(1 << 20).log_bytes(256 << 10).ring_entries(1 << 10);
    let options = options.shadow(Shadow::CopyOnWrite).shadow_bytes(8 * 4096).background(false);
    let pool = Pool::<DecoupledEvicting>::create_as(&path, options.clone()).unwrap();
    let array = pool.run(|tx| Array::reserve(tx, PAGES * APART)).unwrap().value;
    while !pool.run(|tx| array.prepare(tx, 16)).unwrap().value {}
    // The shadow can evict pages of reproduced words while later commits are not durable yet.
    pool.checkpoint().unwrap();
    let write = |page: u64| pool.run(|tx| tx.set(array.at(page * APART)?, page + 1));
    if let Err(error) = mlockall(MlockAllFlags::CURRENT) {
        // `writeln!` bypasses the test harness's capture, so that `.ci/run` can list these lines.
        let reason = format!("this process may not lock its memory ({error})");
        let _ = writeln!(std::io::stderr(), "skipped: locked_memory: {reason}");
        return;
    }
    let (sender, receiver) = std::sync::mpsc::channel();
    let task = Arc::new(Task::default());
    let mut committed = 0;
    let error = loop {
        match write(committed) {
            Ok(done) => {
                let (sender, id) = (sender.clone(), done.ticket.id());
                let callback = move |outcome: Result<(), Error>| {
                    sender.send((id, outcome.is_ok())).unwrap();
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
    // The call that met the failure has notified every waiter before it returned, so `try_iter`
    // finds all outcomes without waiting.
    let notified: Vec<_> = receiver.try_iter().collect();
    assert_eq!(notified.len() as u64, committed, "each callback runs once");
    assert!(notified.iter().any(|(_, is_durable)| !is_durable), "no commit was lost");
    assert!(notified.iter().all(|(id, is_durable)| *is_durable == (*id <= pool.durable_id())));
    assert_eq!(task.0.load(Ordering::Relaxed), committed, "each registration wakes once");
    assert!(matches!(error, Error::Poisoned { .. }) && error.to_string().contains("mlock"));
    assert!(matches!(write(0), Err(Error::Poisoned { .. })));
    pool.abandon();
    // The pool reopens, and writes of every page still become durable.
    let pool = Pool::<DecoupledEvicting>::open_as(&path, options).unwrap();
    for page in 0..PAGES {
        let set = pool.run(|tx| tx.set(array.at(page * APART)?, page));
        set.unwrap().ticket.wait().unwrap();
    }
    pool.check_heap().unwrap();
    assert!(pool.metrics().evictions > 0);
}
