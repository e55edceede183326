//! File systems and mounts without a feature that pools prefer, each made in a namespace.
//!
//! | missing | made by | needs |
//! |---|---|---|
//! | safe renames, links | exFAT through FUSE on a loop device | root, exfatprogs, exfat-fuse |
//! | room for the extents of a sparse copy | ext4 on a loop device | root, e2fsprogs |
//! | `/proc` | an empty file system over it | `unshare -m` or `-Urm` |
//! | writes | a read-only mount of a directory of a tmpfs | the same |
//!
//! Without these needs a test prints on standard error that it is skipped.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use faults::{Failing, Fault, Faults};
use lastword::{
    CopyOptions, Decoupled, Design, Error, Medium, MediumError, Objects, Pool, PoolReader, Redo,
    Snapshot, System, Undo,
};
use medium::sync::Arc;
use medium::{Buffer, FileLog, LogMedium, LogPath, PoolFile};

use rustix::fs::FallocateFlags;

use crate::story::Story;

/// Set in the child process: the directory in which it works.
pub(crate) const CHILD: &str = "LASTWORD_TEST_MOUNTED";

/// Exit status of the shell if it cannot set the place up.
const CANNOT: i32 = 77;

/// Shell line that mounts an exFAT image at `disk`.
///
/// It detaches the loop device while it holds the device open. The kernel then removes the device
/// when the mount closes it, so a killed test leaks none.
const EXFAT: &str = "truncate -s 64M image && mkfs.exfat image && \
    loop=$(losetup -f --show image) && exec 9<>$loop && losetup -d $loop && \
    mount.exfat-fuse $loop disk && exec 9>&- && cleanup=\"umount disk\"";

/// Does the same with an ext4 that keeps nothing for root.
const EXT4: &str = "truncate -s 24M image && mkfs.ext4 -qF -b 4096 -m 0 -O ^has_journal image && \
    loop=$(losetup -f --show image) && exec 9<>$loop && losetup -d $loop && \
    mount $loop disk && exec 9>&- && cleanup=\"umount disk\"";

/// Shell line that mounts a file system at `disk`, and its files read-only at `ro`.
const READ_ONLY: &str = "mkdir ro && mount -t tmpfs lastword disk && mount --bind disk ro && \
    mount -o remount,bind,ro ro && cleanup=\"umount ro disk\"";

const NO_PROC: &str = "mount -t tmpfs lastword /proc";

/// Runs one test in a child process, in a namespace that the shell line `make` has set up.
pub(crate) fn in_place(test: &str, make: &str, expected: &str) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("disk")).unwrap();
    let line = format!(
        "cleanup=true; {{ {make}; }} >&2 || exit {CANNOT}; \
         \"$0\" --exact {test} --nocapture; code=$?; eval \"$cleanup\"; exit $code"
    );
    let mut reasons = String::new();
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
            reasons += "`unshare` is not installed";
            break;
        };
        let errors = String::from_utf8_lossy(&output.stderr);
        let stdout = String::from_utf8_lossy(&output.stdout);
        if stdout.contains("running 1 test") {
            let passed = output.status.success() && stdout.contains("1 passed");
            return assert!(passed, "{stdout}\n{errors}");
        }
        reasons += errors.lines().next_back().unwrap_or("no reason given");
        reasons += "; ";
    }
    // `writeln!` bypasses the test harness's capture of standard error.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {reasons}");
}

fn with_log(path: &Path) -> PathBuf {
    path.with_extension("pool.log")
}

pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn pool_works_on_exfat_through_fuse() {
    const NAME: &str = "mounts::pool_works_on_exfat_through_fuse";
    let Some(dir) = std::env::var_os(CHILD) else { return in_place(NAME, EXFAT, "") };
    let disk = Path::new(&dir).join("disk");
    for medium in [Medium::File, Medium::PersistentCache] {
        let options = Story::options().medium(medium);
        let mut story = Story::new(&disk, options.clone(), false, Faults::none());
        story.run();
        assert!(story.failure.is_none(), "{:?}", story.failure);
        let refused = Pool::create(&story.path, options.clone()).unwrap_err().to_string();
        assert!(refused.contains("exists already"), "{refused}");
        story.assert_truth();
        names(&disk).iter().for_each(|name| std::fs::remove_file(disk.join(name)).unwrap());
        // A crash can leave these files while it names the log or the pool: a placeholder under
        // the final name, and the contents under the temporary name.
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
        // FUSE renames a file that is removed while it is open. The pool must notice all the same.
        let pool = Pool::create(&story.path, options).unwrap();
        std::fs::remove_file(&story.path).unwrap();
        let lost = pool.flush().unwrap_err();
        assert!(matches!(lost, lastword::Error::NameLost { .. }), "{lost}");
        assert!(pool.close().is_err());
        names(&disk).iter().for_each(|name| std::fs::remove_file(disk.join(name)).unwrap());
    }
}

#[test]
fn pool_is_read_through_read_only_mount() {
    const NAME: &str = "mounts::pool_is_read_through_read_only_mount";
    let Some(dir) = std::env::var_os(CHILD) else { return in_place(NAME, READ_ONLY, "") };
    let [disk, ro] = ["disk", "ro"].map(|name| Path::new(&dir).join(name));
    assert!(File::create(ro.join("file")).is_err(), "the mount is read-only");
    for medium in [Medium::File, Medium::PersistentCache] {
        let (options, path) = (Story::options().medium(medium), ro.join("test.pool"));
        let pool = Pool::create(disk.join("test.pool"), options.clone()).unwrap();
        let count = pool.run(|tx| tx.alloc(42_u64)).unwrap().value;
        pool.flush().unwrap();
        let shown = |in_use: bool| {
            let readers = [(); 2].map(|()| PoolReader::open(&path, options.clone()).unwrap());
            for reader in &readers {
                assert_eq!(reader.read(|tx| tx.get(count)).unwrap(), 42);
                assert_eq!(reader.info().in_use, in_use);
            }
            assert!(lastword::check(&path).unwrap().is_sound());
            assert_eq!(lastword::heap_usage(&path).unwrap().objects, 1);
            lastword::copy(&path, disk.join("copy.pool"), &CopyOptions::new()).unwrap();
            names(&disk)
                .iter()
                .filter(|name| name.starts_with("copy"))
                .for_each(|name| std::fs::remove_file(disk.join(name)).unwrap());
        };
        shown(true);
        pool.abandon();
        shown(false);
        Pool::open(disk.join("test.pool"), options.clone()).unwrap().close().unwrap();
        shown(false);
        assert!(Pool::open(&path, options.clone()).is_err());
        names(&disk).iter().for_each(|name| std::fs::remove_file(disk.join(name)).unwrap());
    }
}

/// Allocated bytes of a file, and available ones of its disk.
fn room(file: &File) -> (u64, u64) {
    rustix::fs::syncfs(file).unwrap();
    let disk = rustix::fs::fstatvfs(file).unwrap();
    (512 * file.metadata().unwrap().blocks(), disk.f_bavail * disk.f_frsize)
}

/// The disk has as many bytes as the holes, and none for the extents that they take. ext4 keeps the
/// blocks that it has allocated before it finds out.
#[test]
fn failed_allocation_leaves_the_disk_as_it_was() {
    const NAME: &str = "mounts::failed_allocation_leaves_the_disk_as_it_was";
    let Some(dir) = std::env::var_os(CHILD) else { return in_place(NAME, EXT4, "") };
    let disk = Path::new(&dir).join("disk");
    let cases = [
        (Medium::File, "test.pool"),
        (Medium::File, "test.pool.log"),
        (Medium::PersistentCache, "test.pool"),
    ];
    for (medium, sparse) in cases {
        allocate_without_room(&disk, medium, sparse);
        let made = names(&disk).into_iter().filter(|name| name != "lost+found");
        made.for_each(|name| std::fs::remove_file(disk.join(name)).unwrap());
    }
}

fn allocate_without_room(disk: &Path, medium: Medium, sparse: &str) {
    // The holes change pages of the heap.
    let options = Story::options().medium(medium).page_checksums(false);
    let options = match sparse {
        "test.pool" => options.bytes(8 << 20),
        _ => options.log_bytes(8 << 20),
    };
    let path = disk.join("test.pool");
    Pool::create(&path, options.clone()).unwrap().close().unwrap();
    let file = File::options().write(true).open(disk.join(sparse)).unwrap();
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let holes = (256_u32..2048).step_by(2);
    let missing = 4096 * holes.len() as u64;
    for block in holes {
        rustix::fs::fallocate(&file, hole, 4096 * u64::from(block), 4096).unwrap();
    }
    let mut filler = File::create(disk.join("filler")).unwrap();
    let full = std::iter::repeat_with(|| filler.write_all(&[1; 4096])).find_map(Result::err);
    assert_eq!(full.unwrap().kind(), std::io::ErrorKind::StorageFull);
    let (_, left) = room(&file);
    filler.set_len(filler.metadata().unwrap().len() - (missing - left)).unwrap();
    let (had, available) = room(&file);
    assert_eq!(available, missing);
    let opened = Pool::open(&path, options.clone());
    // While the pool is open: it keeps nothing until it is closed.
    let (has, left) = room(&file);
    match (medium, opened) {
        (Medium::File, Ok(pool)) => pool.close().unwrap(),
        (Medium::PersistentCache, Err(Error::Medium(MediumError::Unallocated { .. }))) => {}
        (_, opened) => panic!("{opened:?}"),
    }
    // Blocks of the file's extent tree stay. One has up to 340 extents.
    assert!(has - had <= 128 << 10, "{sparse}: {} of {missing} bytes are taken", has - had);
    assert!(available - left <= 128 << 10, "{sparse}: {left} of {available} bytes are left");
    // With room for the extents it gets all.
    filler.set_len(0).unwrap();
    Pool::open(&path, options).unwrap().close().unwrap();
    assert!(room(&file).0 >= had + missing);
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
    // Without `/proc` the log is reopened by its path. A file that has replaced it there must not
    // be written.
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

/// A pool that writes its groups through the page cache reports why.
#[test]
fn tmpfs_pool_reports_page_cache_reason() {
    let dir = match tempfile::tempdir_in("/dev/shm") {
        Ok(dir) => dir,
        Err(reason) => {
            let name = "tmpfs_pool_reports_page_cache_reason";
            // `writeln!` bypasses the test harness's capture of standard error.
            let _ = writeln!(std::io::stderr(), "skipped: {name}: /dev/shm: {reason}");
            return;
        }
    };
    let path = dir.path().join("test.pool");
    let options = Story::options().medium(Medium::File);
    let pool = Pool::create(&path, options).unwrap();
    let reason = pool.info().page_cache.clone();
    if pool.info().file_system == Some("tmpfs") {
        assert_eq!(reason.as_deref(), Some("files on tmpfs are in memory"));
    }
    drop(pool);
    assert_eq!(lastword::inspect(&path).unwrap().page_cache, reason);
}

/// The description names the path that log writes take, also after the file system refused a
/// direct one.
fn refuses_direct_writes<D: Design>(dir: &Path) {
    let path = dir.join(format!("{}.pool", D::NAME));
    let options = Story::options().medium(Medium::File);
    let system = System::kernel().failing(Faults::nth(0, Fault::NoDirectWrites, true));
    let pool = Pool::<D>::create_as(&path, options.clone().system(system)).unwrap();
    pool.run(|tx| tx.alloc(1_u64)).unwrap().ticket.wait().unwrap();
    pool.flush().unwrap();
    let info = pool.info();
    assert_eq!(info.log_path, Some(LogPath { io_uring: false, direct: false }), "{}", D::NAME);
    let why = info.page_cache.expect("a reason");
    // Workers of the other designs write records, which never take the direct path.
    let in_groups = D::NAME == <Decoupled>::NAME;
    let reason = if in_groups { "refused a direct write" } else { "single records" };
    assert!(why.contains(reason), "{why}");
    pool.close().unwrap();
    let pool = Pool::<D>::open_as(&path, options).unwrap();
    pool.run(|tx| tx.alloc(1_u64)).unwrap().ticket.wait().unwrap();
    let info = pool.info();
    assert_eq!(info.log_path.unwrap().direct, in_groups, "{}", D::NAME);
    assert_eq!(info.page_cache.is_none(), in_groups, "{}", D::NAME);
    pool.close().unwrap();
    assert_eq!(lastword::inspect(&path).unwrap().log_path.unwrap().direct, in_groups);
}

#[test]
fn refused_direct_write_changes_log_path() {
    let dir = tempfile::tempdir().unwrap();
    let options = Story::options().medium(Medium::File);
    let pool = Pool::create(dir.path().join("probe.pool"), options).unwrap();
    if !pool.info().log_path.unwrap().direct {
        // Past the capture of the test's output.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: refused_direct_write_changes_log_path: no direct writes in {}",
            dir.path().display()
        );
        return;
    }
    refuses_direct_writes::<Decoupled>(dir.path());
    refuses_direct_writes::<Snapshot>(dir.path());
    refuses_direct_writes::<Undo>(dir.path());
    refuses_direct_writes::<Redo>(dir.path());
}
