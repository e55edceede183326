//! What a program does to itself while a pool is open: it changes its directory, and gives up its
//! privileges. Files that are open stay usable, and their names are looked up by absolute paths.

use std::io::Write;
use std::path::Path;

use lastword::{Durability, Error, Medium, Objects, Pool};
use rustix::process::Uid;

use crate::limits::in_child;
use crate::story::Story;

/// Set in the child, whose directory and user they are.
const CHILD: &str = "LASTWORD_TEST_LIMITED";

#[test]
fn pool_goes_on_without_its_directory_and_privileges() {
    const NAME: &str = "process::pool_goes_on_without_its_directory_and_privileges";
    if !rustix::process::geteuid().is_root() {
        // Past the capture of the test's output.
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
        as_nobody(|| {
            for number in 0..100_u64 {
                let _ = pool.run(|tx| tx.alloc(number)).unwrap();
            }
            pool.flush().unwrap();
            pool.bring_home().unwrap();
            pool.close().unwrap();
            let refused = Pool::open(dir.path().join(name), options.clone()).map(drop);
            let Err(Error::Medium(error)) = &refused else { panic!("{refused:?}") };
            assert!(error.to_string().contains("permissions"), "{error}");
        });
        let pool = Pool::open(dir.path().join(name), options.clone()).unwrap();
        assert_eq!(pool.check_heap().unwrap().objects, 100);
        // A file that was removed is noticed under its absolute path.
        std::fs::remove_file(dir.path().join(name)).unwrap();
        assert!(matches!(pool.flush(), Err(Error::NameLost { .. })));
        pool.abandon();
    }
}

/// Runs this thread as another user; others stay root.
fn as_nobody(run: impl FnOnce()) {
    let (root, nobody) = (Uid::from_raw(0), Uid::from_raw(65534));
    rustix::thread::set_thread_res_uid(nobody, nobody, root).unwrap();
    run();
    rustix::thread::set_thread_res_uid(root, root, root).unwrap();
}
