//! Who commits in parts is told that the disk has failed, and not that another was in the way.

use faults::{Failing, Fault, Faults};
use lastword::{
    Decoupled, Design, Durability, Error, Objects, Options, Pool, Redo, Snapshot, Undo,
};
use medium::System;

/// Three transactions of one worker, after so many calls that do not fail. Answers whether a commit
/// has failed.
fn commits<D: Design>(nth: u64, sticky: bool) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let system = System::kernel().failing(Faults::nth(nth, Fault::Io, sticky));
    let options = Options::new().bytes(256 << 10).log_bytes(256 << 10).ring_entries(1 << 10);
    let options = options.durability(Durability::Sync).background(false).system(system);
    let Ok(pool) = Pool::<D>::create_as(dir.path().join("pool"), options) else { return false };
    let Ok(mut worker) = pool.worker() else { return false };
    let mut failed = false;
    for value in 0..3_u64 {
        let Ok(mut open) = worker.begin(false) else { break };
        if open.tx().alloc(value).is_err() {
            break;
        }
        match open.commit() {
            Ok(done) => assert!(done.is_some(), "{}, call {nth}: there is nobody else", D::NAME),
            Err(error) => {
                assert!(matches!(error, Error::Poisoned { .. }), "{error}");
                failed = true;
            }
        }
    }
    drop(worker);
    pool.abandon();
    failed
}

fn of_each_call<D: Design>() {
    for sticky in [false, true] {
        let failed = (0..120).filter(|&nth| commits::<D>(nth, sticky)).count();
        assert!(failed > 0, "{}: no commit has failed", D::NAME);
    }
}

#[test]
fn a_commit_in_parts_that_fails_is_no_conflict() {
    of_each_call::<Decoupled>();
    of_each_call::<Snapshot>();
    of_each_call::<Redo>();
    of_each_call::<Undo>();
}
