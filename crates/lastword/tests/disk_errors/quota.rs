//! A quota that is smaller than the disk: the call that reserves or writes fails, and no query
//! shows it before.
//!
//! The quota is one of a btrfs on a loop device, which needs root and btrfs-progs. Without them the
//! test prints on standard error that it is skipped.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;

use faults::Faults;
use lastword::{Error, Medium, MediumError, Pool};

use crate::mounts::{CHILD, in_place, names};
use crate::story::{Story, assert_poisoned};

/// Shell line that mounts a btrfs at `disk` whose files may have 24 MB together.
const BTRFS: &str = "truncate -s 300M image && mkfs.btrfs -q image && \
    loop=$(losetup -f --show image) && exec 9<>$loop && losetup -d $loop && \
    mount $loop disk && exec 9>&- && cleanup=\"umount disk\" && btrfs quota enable disk && \
    btrfs qgroup limit 24M disk";

/// Fills the quota with one file.
fn fill(disk: &Path) {
    let mut filler = File::create(disk.join("filler")).unwrap();
    // Synced, because a write to the page cache may be refused only for a while.
    for bytes in [1 << 20, 4096] {
        let mut written = std::iter::repeat_with(|| {
            filler.write_all(&vec![1; bytes])?;
            filler.sync_data()
        });
        let full = written.find_map(Result::err).unwrap();
        assert_eq!(full.kind(), ErrorKind::QuotaExceeded);
    }
}

fn empty(disk: &Path) {
    names(disk).iter().for_each(|name| std::fs::remove_file(disk.join(name)).unwrap());
    sync(disk);
}

/// Removed blocks count in the quota until the file system has written that.
fn sync(disk: &Path) {
    rustix::fs::syncfs(File::open(disk).unwrap()).unwrap();
}

fn assert_says_quota(error: &Error, file: &str) {
    let text = error.to_string();
    assert!(text.contains(file) && text.contains("quota"), "{text}");
}

#[test]
fn quota_is_an_error_at_create_open_and_commit() {
    const NAME: &str = "quota::quota_is_an_error_at_create_open_and_commit";
    let Some(dir) = std::env::var_os(CHILD) else { return in_place(NAME, BTRFS, "") };
    let disk = Path::new(&dir).join("disk");
    for medium in [Medium::File, Medium::PersistentCache] {
        let options = Story::options().bytes(4 << 20).medium(medium);
        let mut story = Story::new(&disk, options.clone(), false, Faults::none());
        let large = options.clone().bytes(64 << 20);
        let error = Pool::create(&story.path, large).unwrap_err();
        assert!(matches!(error, Error::Medium(MediumError::NoSpace { .. })), "{error}");
        assert_says_quota(&error, "test.pool");
        assert!(names(&disk).is_empty(), "{:?}", names(&disk));

        story.run();
        assert!(story.failure.is_none(), "{:?}", story.failure);
        if medium == Medium::File {
            // btrfs copies on write, so each write needs blocks of the quota.
            let pool = Pool::open(&story.path, options.clone()).unwrap();
            fill(&disk);
            let failed = (0..500).find_map(|_| {
                let done = story.put(&pool).and_then(|id| pool.wait_for(id));
                let done = done.map(|()| story.acknowledged = story.begun);
                done.and_then(|()| pool.checkpoint()).err()
            });
            let failed = failed.expect("a write meets the quota");
            assert_poisoned(&failed);
            assert_says_quota(&failed, "test.pool");
            assert_poisoned(&pool.close().unwrap_err());
            // Opening writes the head of the log.
            let error = Pool::open(&story.path, options.clone()).unwrap_err();
            assert!(matches!(error, Error::Medium(MediumError::Transfer { .. })), "{error}");
            assert_says_quota(&error, "test.pool");
        } else {
            // A copy without its zeros lacks blocks, and a store to one would be a SIGBUS.
            let copied = std::process::Command::new("cp")
                .args(["--reflink=never", "--sparse=always", "test.pool", "sparse"])
                .current_dir(&disk)
                .status();
            assert!(copied.unwrap().success());
            std::fs::rename(disk.join("sparse"), &story.path).unwrap();
            sync(&disk);
            fill(&disk);
            let error = Pool::open(&story.path, options.clone()).unwrap_err();
            assert!(matches!(error, Error::Medium(MediumError::Unallocated { .. })), "{error}");
            assert_says_quota(&error, "test.pool");
        }
        std::fs::remove_file(disk.join("filler")).unwrap();
        sync(&disk);
        story.assert_truth();
        empty(&disk);
    }
}
