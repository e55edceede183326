//! File systems and mounts that lack something, made for a test in a namespace of its own.
//!
//! | missing | made by | needs |
//! |---|---|---|
//! | safe renames, links | exFAT through FUSE on a loop device | root, exfatprogs, exfat-fuse |
//! | `/proc` | an empty file system over it | `unshare -m` or `-Urm` |
//!
//! Where that cannot be had, a line on the standard error says so.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use faults::Faults;
use lastword::{Medium, Pool};
use medium::sync::Arc;
use medium::{Buffer, FileLog, LogMedium, LogPath, PoolFile};

use crate::story::Story;

/// Set in the child, to the directory that it works in.
const CHILD: &str = "LASTWORD_TEST_MOUNTED";

/// Exit status of the shell when the place cannot be made.
const CANNOT: i32 = 77;

/// Makes an exFAT in `disk`.
/// The device is opened, detached and then used: the kernel removes it when the mount has closed
/// it, so nothing stays of a test that is killed.
const EXFAT: &str = "truncate -s 64M image && mkfs.exfat image && \
    loop=$(losetup -f --show image) && exec 9<>$loop && losetup -d $loop && \
    mount.exfat-fuse $loop disk && exec 9>&- && cleanup=\"umount disk\"";

const NO_PROC: &str = "mount -t tmpfs lastword /proc";

/// Runs this test in a child, alone, in a namespace where a line of shell has made the place.
fn in_place(test: &str, make: &str, expected: &str) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("disk")).unwrap();
    let line = format!(
        "cleanup=true; {{ {make}; }} >&2 || exit {CANNOT}; \
         \"$0\" --exact {test} --nocapture; code=$?; eval \"$cleanup\"; exit $code"
    );
    let mut told = String::new();
    for flags in ["-m", "-Urm"] {
        let output = Command::new("unshare")
            .args([flags, "sh", "-c", &line])
            .arg(std::env::current_exe().unwrap())
            .current_dir(dir.path())
            .env(CHILD, dir.path())
            .env("LASTWORD_TEST_EXPECTED", expected)
            .stdin(Stdio::null())
            .output();
        let Ok(output) = output else {
            told += "there is no `unshare`";
            break;
        };
        let errors = String::from_utf8_lossy(&output.stderr);
        let stdout = String::from_utf8_lossy(&output.stdout);
        if stdout.contains("running 1 test") {
            let passed = output.status.success() && stdout.contains("1 passed");
            return assert!(passed, "{stdout}\n{errors}");
        }
        told += errors.lines().next_back().unwrap_or("no reason given");
        told += "; ";
    }
    // Past the capture of the test's output.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {told}");
}

fn with_log(path: &Path) -> PathBuf {
    path.with_extension("pool.log")
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn pools_live_on_exfat_through_fuse() {
    const NAME: &str = "mounts::pools_live_on_exfat_through_fuse";
    let Some(dir) = std::env::var_os(CHILD) else { return in_place(NAME, EXFAT, "") };
    let disk = Path::new(&dir).join("disk");
    for medium in [Medium::File, Medium::PersistentCache] {
        let options = Story::options().medium(medium);
        let mut story = Story::new(&disk, options.clone(), false, Faults::none());
        story.run();
        assert!(story.told.is_none(), "{:?}", story.told);
        let refused = Pool::create(&story.path, options.clone()).unwrap_err().to_string();
        assert!(refused.contains("exists already"), "{refused}");
        story.assert_truth();
        names(&disk).iter().for_each(|name| std::fs::remove_file(disk.join(name)).unwrap());
        // What a crash leaves in the middle of naming, of the log and then of the pool.
        for left in [
            ["test.pool.log", ".test.pool.log.lastword-new"],
            ["test.pool", ".test.pool.lastword-new"],
        ] {
            std::fs::write(disk.join(left[0]), "").unwrap();
            std::fs::write(disk.join(left[1]), "the file").unwrap();
            let pool = Pool::create(&story.path, options.clone()).unwrap();
            pool.close().unwrap();
            Pool::open(&story.path, options.clone()).unwrap().close().unwrap();
            names(&disk).iter().for_each(|name| std::fs::remove_file(disk.join(name)).unwrap());
        }
        // Removed while open: FUSE gives such a file another name.
        let pool = Pool::create(&story.path, options).unwrap();
        std::fs::remove_file(&story.path).unwrap();
        let lost = pool.flush().unwrap_err();
        assert!(matches!(lost, lastword::Error::NameLost { .. }), "{lost}");
        assert!(pool.close().is_err());
        names(&disk).iter().for_each(|name| std::fs::remove_file(disk.join(name)).unwrap());
    }
}

#[test]
fn missing_proc_keeps_direct_writes() {
    const NAME: &str = "mounts::missing_proc_keeps_direct_writes";
    let options = Story::options().medium(Medium::File);
    let Some(dir) = std::env::var_os(CHILD) else {
        let dir = tempfile::tempdir().unwrap();
        let pool = Pool::create(dir.path().join("test.pool"), options).unwrap();
        let path = pool.info().log_path.unwrap();
        return in_place(NAME, NO_PROC, &format!("{path}"));
    };
    assert!(!Path::new("/proc/self/fd").exists());
    let expected = std::env::var("LASTWORD_TEST_EXPECTED").unwrap();
    let path = Path::new(&dir).join("test.pool");
    let pool = Pool::create(&path, options.clone()).unwrap();
    assert_eq!(pool.info().log_path.unwrap().to_string(), expected);
    pool.close().unwrap();
    let pool = Pool::open(&path, options).unwrap();
    assert_eq!(pool.info().log_path.unwrap().to_string(), expected);
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(pool.flush(), Err(lastword::Error::NameLost { .. })));
    drop(pool);
    // Another file under the name is not written to.
    let file = Arc::new(PoolFile::open(with_log(&path)).unwrap());
    std::fs::rename(with_log(&path), Path::new(&dir).join("aside")).unwrap();
    let other = vec![7; file.len() as usize];
    std::fs::write(with_log(&path), &other).unwrap();
    let log = LogPath { io_uring: false, direct: true };
    let log = FileLog::with_path(Arc::clone(&file), 0, file.len(), log).unwrap();
    log.append(0, Buffer::new(512), 512).unwrap();
    assert!(log.acknowledge(true).unwrap().is_some());
    assert!(!log.path().direct, "{}", log.path());
    assert!(std::fs::read(with_log(&path)).unwrap() == other, "another file was written to");
}

/// The reason is said where groups go through the page cache.
#[test]
fn files_in_memory_say_why_the_page_cache_is_used() {
    let dir = match tempfile::tempdir_in("/dev/shm") {
        Ok(dir) => dir,
        Err(reason) => {
            let name = "files_in_memory_say_why_the_page_cache_is_used";
            // Past the capture of the test's output.
            let _ = writeln!(std::io::stderr(), "skipped: {name}: /dev/shm: {reason}");
            return;
        }
    };
    let path = dir.path().join("test.pool");
    let options = Story::options().medium(Medium::File);
    let pool = Pool::create(&path, options).unwrap();
    let told = pool.info().page_cache.clone();
    if pool.info().file_system == Some("tmpfs") {
        assert_eq!(told.as_deref(), Some("files on tmpfs are in memory"));
    }
    drop(pool);
    assert_eq!(lastword::inspect(&path).unwrap().page_cache, told);
}
