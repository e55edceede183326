//! Changes of the process while a pool is open: another working directory, fewer privileges.
//!
//! Open files stay usable after both. The pool looks their names up by absolute paths, so a new
//! working directory does not lead it to other files.

use std::io::Write;
use std::path::Path;

use lastword::{Durability, Error, Medium, Objects, Pool};
use rustix::process::Uid;

use crate::limits::in_child;
use crate::story::Story;

/// Set in the child process, which changes its directory and user.
const CHILD: &str = "LASTWORD_TEST_LIMITED";

#[test]
fn pool_works_after_chdir_and_setuid() {
    const NAME: &str = "process::pool_works_after_chdir_and_setuid";
    if !rustix::process::geteuid().is_root() {
        // `writeln!` bypasses the test harness's capture of standard error.
        let _ = writeln!(std::io::stderr(), "skipped: {NAME}: only root can become another user");
        return;
    }
    if std::env::var_os(CHILD).is_none() {
        return in_child("true", NAME);
    }
    // Only root can search this directory.
    let dir = tempfile::tempdir().unwrap();
    let emulated = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
    for (name, medium) in [("file.pool", Medium::File), ("mapped.pool", emulated)] {
        std::env::set_current_dir(dir.path()).unwrap();
        let options = Story::options().medium(medium).durability(Durability::Sync).background(true);
        let pool = Pool::create(Path::new(name), options.clone()).unwrap();
        std::env::set_current_dir("/").unwrap();
        unprivileged(|| {
            for number in 0..100_u64 {
                let _ = pool.run(|tx| tx.alloc(number)).unwrap();
            }
            pool.flush().unwrap();
            pool.checkpoint().unwrap();
            pool.close().unwrap();
            let refused = Pool::open(dir.path().join(name), options.clone()).map(drop);
            let Err(Error::Medium(error)) = &refused else { panic!("{refused:?}") };
            assert!(error.to_string().contains("permissions"), "{error}");
        });
        let pool = Pool::open(dir.path().join(name), options.clone()).unwrap();
        assert_eq!(pool.check_heap().unwrap().objects, 100);
        // The pool looks its file up by the absolute path and notices the removal.
        std::fs::remove_file(dir.path().join(name)).unwrap();
        assert!(matches!(pool.flush(), Err(Error::NameLost { .. })));
        pool.abandon();
    }
}

/// Runs `run` while this thread has an unprivileged user ID. Other threads stay root.
fn unprivileged(run: impl FnOnce()) {
    let (root, user) = (Uid::from_raw(0), Uid::from_raw(65534));
    rustix::thread::set_thread_res_uid(user, user, root).unwrap();
    run();
    rustix::thread::set_thread_res_uid(root, root, root).unwrap();
}
