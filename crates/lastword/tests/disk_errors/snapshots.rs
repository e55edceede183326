//! File system snapshots: both files of an open pool as of one moment.
//!
//! A snapshot of a btrfs subvolume has all its files as of one moment, like an LVM snapshot. The
//! test needs root and btrfs-progs. Without them it prints on standard error that it is skipped.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use lastword::{Medium, Objects, Options, Pool, Ptr};

use crate::mounts::{CHILD, in_place};

/// Shell line that mounts a btrfs with a subvolume at `disk/live`.
const BTRFS: &str = "truncate -s 1G image && mkfs.btrfs -q image && \
    loop=$(losetup -f --show image) && exec 9<>$loop && losetup -d $loop && \
    mount $loop disk && exec 9>&- && cleanup=\"umount disk\" && \
    btrfs subvolume create disk/live";

const SNAPSHOTS: usize = 20;

/// Objects that each transaction adds 1 to.
type Counters = [Ptr<u64>; 8];

fn options() -> Options {
    Options::new().bytes(4 << 20).log_bytes(1 << 20).medium(Medium::File)
}

/// Adds until `ends`; stores the acknowledged value.
fn add(pool: &Pool, counters: Counters, acknowledged: &AtomicU64, ends: &AtomicBool) {
    while !ends.load(Ordering::Relaxed) {
        let done = pool.run(|tx| {
            counters.into_iter().try_for_each(|counter| tx.update(counter, |value| value + 1))?;
            tx.get(counters[0])
        });
        let done = done.unwrap();
        done.ticket.wait().unwrap();
        acknowledged.store(done.value, Ordering::SeqCst);
    }
}

/// Ends the writer, also after a failed assertion.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn snapshot_of_file_system_opens() {
    const NAME: &str = "snapshots::snapshot_of_file_system_opens";
    let Some(dir) = std::env::var_os(CHILD) else { return in_place(NAME, BTRFS, "") };
    let disk = Path::new(&dir).join("disk");
    let live = disk.join("live");
    let pool = Pool::create(live.join("test.pool"), options()).unwrap();
    let counters = pool.run(|tx| {
        let mut counters = [Ptr::NULL; 8];
        for counter in &mut counters {
            // On pages of their own.
            *counter = tx.alloc(0_u64)?;
            (0..5).try_for_each(|_| tx.alloc([0_u64; 100]).map(drop))?;
        }
        Ok(counters)
    });
    let counters: Counters = counters.unwrap().value;
    let (acknowledged, ends) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| add(&pool, counters, &acknowledged, &ends));
        let _end = End(&ends);
        for number in 0..SNAPSHOTS {
            let (before, snapshot) = (acknowledged.load(Ordering::SeqCst), disk.join("snapshot"));
            let mut create = Command::new("btrfs");
            create.args(["subvolume", "snapshot"]).arg(&live).arg(&snapshot);
            assert!(create.output().unwrap().status.success());
            let path = snapshot.join("test.pool");
            assert!(lastword::check(&path).unwrap().is_sound(), "snapshot {number}");
            let copy = Pool::open(&path, Options::new()).unwrap();
            let values = copy.run(|tx| {
                let mut values = [0; 8];
                for (value, counter) in values.iter_mut().zip(counters) {
                    *value = tx.get(counter)?;
                }
                Ok(values)
            });
            let values = values.unwrap().value;
            assert!(values[0] >= before && values == [values[0]; 8], "{before}: {values:?}");
            copy.close().unwrap();
            let mut delete = Command::new("btrfs");
            delete.args(["subvolume", "delete"]).arg(&snapshot);
            assert!(delete.output().unwrap().status.success());
        }
    });
    assert!(acknowledged.load(Ordering::SeqCst) > 0);
    pool.close().unwrap();
}
