//! Commits of transactions in parts report a failed disk as an error, and not as a conflict.

use faults::{Failing, Fault, Faults};
use lastword::{Design, Durability, Error, Objects, Options, Pool};
use medium::System;

/// Runs three transactions of one worker while the `nth` call fails. Returns whether a commit
/// failed.
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
            Ok(done) => {
                assert!(done.is_some(), "{}, call {nth}: a conflict without a rival", D::NAME)
            }
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
        assert!(failed > 0, "{}: no commit failed", D::NAME);
    }
}

#[test]
fn failed_commit_in_parts_is_no_conflict() {
    every_durable!(of_each_call());
}
