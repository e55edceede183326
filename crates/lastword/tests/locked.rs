//! A process whose memory is locked, in which a bounded shadow cannot give copies back. A program
//! of its own, because the lock is the whole process's.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use lastword::{Array, DecoupledEvicting, Error, Objects, Options, Pool, Shadow};
use rustix::mm::{MlockAllFlags, mlockall, munlockall};

const PAGES: u64 = 64;
const APART: u64 = 512;

#[test]
fn locked_memory_poisons_a_bounded_shadow_and_the_error_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("locked.pool");
    let options = Options::new().bytes(1 << 20).log_bytes(256 << 10).ring_entries(1 << 10);
    let options = options.shadow(Shadow::CopyOnWrite).shadow_bytes(8 * 4096).background(false);
    let pool = Pool::<DecoupledEvicting>::create_as(&path, options.clone()).unwrap();
    let array = pool.run(|tx| Array::reserve(tx, PAGES * APART)).unwrap().value;
    while !pool.run(|tx| array.prepare(tx, 16)).unwrap().value {}
    pool.flush().unwrap();
    let write = |page: u64| pool.run(|tx| tx.set(array.at(page * APART)?, page + 1));
    if let Err(error) = mlockall(MlockAllFlags::CURRENT) {
        println!("skipped: this process may not lock its memory ({error})");
        return;
    }
    let mut committed = 0;
    let error = loop {
        match write(committed) {
            Ok(_) => committed += 1,
            Err(error) => break error,
        }
    };
    munlockall().unwrap();
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
