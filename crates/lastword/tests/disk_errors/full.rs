//! Full disks: each test mounts a small tmpfs in a mount namespace of its own and fills it.
//!
//! A mount needs root, or a kernel that allows unprivileged user namespaces. Without either, the
//! tests print that they are skipped.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use faults::Faults;
use lastword::{Error, Medium, MediumError, Options, Pool};
use rustix::fs::FallocateFlags;

use crate::story::{Story, assert_poisoned, found};

/// Set in the child process: the directory on which its small disk is mounted.
const CHILD: &str = "LASTWORD_TEST_SMALL_DISK";

/// In the child, returns the small disk. In the parent, runs the test in a child whose disk is
/// mounted with the options `mount`, and returns `None`.
fn small_disk(test: &str, mount: &str) -> Option<PathBuf> {
    if let Some(disk) = std::env::var_os(CHILD) {
        return Some(disk.into());
    }
    let dir = tempfile::tempdir().unwrap();
    let line = format!("mount -t tmpfs -o {mount} lastword \"$0\"");
    let in_namespace = |flags: &str, line: &str| {
        let mut shell = Command::new("unshare");
        shell.args([flags, "sh", "-c", line]).arg(dir.path());
        shell
    };
    let works =
        |flags: &&str| in_namespace(flags, &line).output().is_ok_and(|out| out.status.success());
    let Some(flags) = ["-m", "-Urm"].into_iter().find(works) else {
        // `writeln!` bypasses the test harness's capture of standard error.
        let _ = writeln!(std::io::stderr(), "skipped: {test}: no file system can be mounted");
        return None;
    };
    let line = format!("{line} && exec \"$1\" --exact \"$2\"");
    let output = in_namespace(flags, &line)
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .env(CHILD, dir.path())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
    None
}

fn names(disk: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(disk).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Fills the disk with one file.
fn fill(disk: &Path) -> File {
    let mut filler = File::create(disk.join("filler")).unwrap();
    let error = std::iter::repeat_with(|| filler.write_all(&[1; 4096])).find_map(Result::err);
    assert_eq!(error.unwrap().kind(), std::io::ErrorKind::StorageFull);
    filler
}

fn media() -> [Options; 2] {
    let emulated = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
    [Story::options().medium(Medium::File), Story::options().medium(emulated)]
}

#[test]
fn creation_on_full_disk_leaves_no_file() {
    const NAME: &str = "full::creation_on_full_disk_leaves_no_file";
    let Some(disk) = small_disk(NAME, "size=16m") else { return };
    let remedies = ["fewer `log_bytes`", "fewer `bytes` or `log_bytes`"];
    for (options, large_log_remedy) in media().into_iter().zip(remedies) {
        let mut made = Vec::new();
        let (mut before, error) = loop {
            let before = names(&disk);
            let path = disk.join(format!("{}.pool", made.len()));
            match Pool::create(&path, options.clone()) {
                Ok(pool) => pool.close().unwrap(),
                Err(error) => break (before, error),
            }
            made.push(path);
        };
        assert_no_room(&error, &disk, "bytes`");
        assert_eq!(names(&disk), before);
        assert!(made.len() > 2);
        // With room for the pool's file and none for its log, creation removes the pool's file.
        std::fs::remove_file(made.pop().unwrap()).unwrap();
        before = names(&disk);
        let large_log = options.clone().log_bytes(16 << 20);
        let error = Pool::create(disk.join("more.pool"), large_log).unwrap_err();
        // A mapped pool has its log in the same file.
        assert_no_room(&error, &disk, large_log_remedy);
        assert_eq!(names(&disk), before);
        for path in made {
            assert_eq!(lastword::check(&path).unwrap().sound().unwrap().usage.objects, 0);
        }
        names(&disk).iter().for_each(|name| std::fs::remove_file(disk.join(name)).unwrap());
    }
}

#[test]
fn creation_without_inodes_is_no_space() {
    const NAME: &str = "full::creation_without_inodes_is_no_space";
    let Some(disk) = small_disk(NAME, "size=16m,nr_inodes=4") else { return };
    for options in media() {
        File::create(disk.join("1")).unwrap();
        File::create(disk.join("2")).unwrap();
        let more = (0..).map_while(|n| File::create(disk.join(format!("more {n}"))).ok()).count();
        let before = names(&disk);
        let error = Pool::create(disk.join("a.pool"), options.clone()).unwrap_err();
        assert_no_room(&error, &disk, "bytes`");
        assert_eq!(names(&disk), before);
        (0..more).for_each(|n| std::fs::remove_file(disk.join(format!("more {n}"))).unwrap());
    }
}

/// Asserts that the error has the number of bytes without room, the file and the remedy.
fn assert_no_room(error: &Error, disk: &Path, remedy: &str) {
    let Error::Medium(MediumError::NoSpace { path, bytes, .. }) = error else { panic!("{error}") };
    assert!(path.starts_with(disk) && *bytes > 128 << 10, "{error}");
    let text = error.to_string();
    assert!(text.contains(&bytes.to_string()) && text.contains("free some space"), "{text}");
    assert!(text.contains(remedy), "{text}");
}

#[test]
fn open_pool_works_on_full_disk() {
    const NAME: &str = "full::open_pool_works_on_full_disk";
    let Some(disk) = small_disk(NAME, "size=16m") else { return };
    for (number, options) in media().into_iter().enumerate() {
        let dir = disk.join(number.to_string());
        std::fs::create_dir(&dir).unwrap();
        let mut story = Story::new(&dir, options.clone(), true, Faults::none());
        Pool::create(&story.path, options.clone()).unwrap().close().unwrap();
        fill(&disk);
        for _ in 0..3 {
            let pool = Pool::open(&story.path, options.clone()).unwrap();
            while pool.metrics().log_wraps < 2.5 {
                let id = story.put(&pool).unwrap();
                pool.wait_for(id).unwrap();
                story.acknowledged = story.begun;
            }
            assert!(pool.reproduced_id().0 > 0, "the log wrapped twice without a checkpoint");
            pool.close().unwrap();
            story.assert_truth();
        }
        std::fs::remove_file(disk.join("filler")).unwrap();
    }
}

/// Allocated blocks lose their room, as on a file system that copies on write.
#[test]
fn write_without_room_poisons_and_loses_nothing() {
    const NAME: &str = "full::write_without_room_poisons_and_loses_nothing";
    let Some(disk) = small_disk(NAME, "size=16m") else { return };
    for (part, background) in [("log", false), ("log", true), ("heap", false), ("heap", true)] {
        let options = Story::options().medium(Medium::File).background(background);
        let mut story = Story::new(&disk, options.clone(), background, Faults::none());
        let pool = Pool::create(&story.path, options.clone()).unwrap();
        if part == "log" {
            let id = story.put(&pool).unwrap();
            pool.wait_for(id).unwrap();
            pool.checkpoint().unwrap();
            story.acknowledged = story.begun;
        }
        // A hole reads as zeros, so punching out blocks of zeros changes no content.
        let file = if part == "log" { "test.pool.log" } else { "test.pool" };
        assert!(punch(&disk.join(file)) > 10, "no block of zeros");
        fill(&disk);
        let error = (0..500).find_map(|_| {
            let done = story.put(&pool).and_then(|id| pool.wait_for(id));
            let done = done.map(|()| story.acknowledged = story.begun);
            done.and_then(|()| pool.checkpoint()).err()
        });
        let error = error.expect("no write met a block without room");
        assert_poisoned(&error);
        let text = error.to_string();
        assert!(text.contains(file) && text.contains("free some space"), "{text}");
        assert_poisoned(&story.put(&pool).unwrap_err());
        assert_poisoned(&pool.close().unwrap_err());
        std::fs::remove_file(disk.join("filler")).unwrap();
        let last = story.assert_truth();
        assert!(last >= 1);
        let pool = Pool::open(&story.path, options).unwrap();
        assert_eq!(found(&pool), last + 1);
        drop(pool);
        names(&disk).iter().for_each(|name| std::fs::remove_file(disk.join(name)).unwrap());
    }
}

/// A sparse copy of a mapped pool is refused while the disk has no room for its holes.
///
/// A store to a hole on a full disk would raise SIGBUS, so opening has to allocate the holes. With
/// room it does, and later stores work on a full disk.
#[test]
fn sparse_copy_on_full_disk_is_refused_at_open() {
    const NAME: &str = "full::sparse_copy_on_full_disk_is_refused_at_open";
    let Some(disk) = small_disk(NAME, "size=16m") else { return };
    let [_, emulated] = media();
    for (options, sparse) in [(&emulated, "test.pool")] {
        let mut story = Story::new(&disk, options.clone(), true, Faults::none());
        let pool = Pool::create(&story.path, options.clone()).unwrap();
        let id = story.put(&pool).unwrap();
        pool.wait_for(id).unwrap();
        story.acknowledged = story.begun;
        pool.close().unwrap();
        let files: Vec<PathBuf> = names(&disk).iter().map(|name| disk.join(name)).collect();
        let contents = || files.iter().map(|file| std::fs::read(file).unwrap()).collect::<Vec<_>>();
        let sparse = disk.join(sparse);
        let missing = 4096 * punch(&sparse) as u64;
        assert!(missing > 0, "no block of zeros in {}", sparse.display());
        fill(&disk);
        let before = contents();
        let error = Pool::open(&story.path, options.clone()).unwrap_err();
        let Error::Medium(MediumError::Unallocated { path, missing: reported, .. }) = &error else {
            panic!("{error}");
        };
        assert_eq!((path, *reported), (&sparse, missing));
        let text = error.to_string();
        assert!(text.contains(&format!("free {missing} bytes")), "{text}");
        assert!(contents() == before);
        // A check only reads, so it needs no room.
        let _ = lastword::check(&story.path).unwrap().sound().unwrap();
        std::fs::remove_file(disk.join("filler")).unwrap();
        drop(Pool::open(&story.path, options.clone()).unwrap());
        let metadata = sparse.metadata().unwrap();
        assert_eq!(512 * std::os::unix::fs::MetadataExt::blocks(&metadata), metadata.len());
        // The open allocated every hole, so the pool works on the full disk.
        fill(&disk);
        let pool = Pool::open(&story.path, options.clone()).unwrap();
        while pool.metrics().log_wraps < 1.5 {
            let id = story.put(&pool).unwrap();
            pool.wait_for(id).unwrap();
            story.acknowledged = story.begun;
        }
        pool.close().unwrap();
        std::fs::remove_file(disk.join("filler")).unwrap();
        story.assert_truth();
        names(&disk).iter().for_each(|name| std::fs::remove_file(disk.join(name)).unwrap());
    }
}

/// On medium `file` a sparse copy opens on a full disk and works until a write meets a hole.
///
/// Such a write is an error and not a signal, so holes are no reason to refuse the open.
/// Compressing file systems report every file as sparse.
#[test]
fn sparse_copy_on_full_disk_opens_on_files() {
    const NAME: &str = "full::sparse_copy_on_full_disk_opens_on_files";
    let Some(disk) = small_disk(NAME, "size=16m") else { return };
    for sparse in ["test.pool", "test.pool.log"] {
        let options = Story::options().medium(Medium::File);
        let mut story = Story::new(&disk, options.clone(), true, Faults::none());
        let pool = Pool::create(&story.path, options.clone()).unwrap();
        // The first transaction allocates the heap pages that later transactions write again, so
        // only the log is left with holes.
        if sparse == "test.pool.log" {
            let id = story.put(&pool).unwrap();
            pool.wait_for(id).unwrap();
            story.acknowledged = story.begun;
        }
        pool.close().unwrap();
        assert!(punch(&disk.join(sparse)) > 10, "no block of zeros");
        let filler = fill(&disk);
        // Some room, and too little: it stays free for other programs.
        filler.set_len(filler.metadata().unwrap().len() - 8 * 4096).unwrap();
        let pool = Pool::open(&story.path, options.clone()).unwrap();
        let room = rustix::fs::statvfs(&disk).unwrap().f_bavail;
        assert_eq!(room, 8, "{sparse}: an allocation that failed keeps its blocks");
        drop((pool, filler));
        fill(&disk);
        let pool = Pool::open(&story.path, options.clone()).unwrap();
        assert_eq!(found(&pool), story.acknowledged);
        let error = (0..500).find_map(|_| {
            let done = story.put(&pool).and_then(|id| pool.wait_for(id));
            let done = done.map(|()| story.acknowledged = story.begun);
            done.and_then(|()| pool.checkpoint()).err()
        });
        let text = error.expect("no write met a hole").to_string();
        assert!(text.contains(sparse) && text.contains("free some space"), "{text}");
        drop(pool);
        std::fs::remove_file(disk.join("filler")).unwrap();
        story.assert_truth();
        names(&disk).iter().for_each(|name| std::fs::remove_file(disk.join(name)).unwrap());
    }
}

/// Punches out a file's blocks of zeros behind its two header blocks. Returns their number.
fn punch(path: &Path) -> usize {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let blocks = (2..file.metadata().unwrap().len() / 4096).filter(|block| {
        let mut bytes = [0; 4096];
        file.read_exact_at(&mut bytes, block * 4096).unwrap();
        bytes == [0; 4096]
    });
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    blocks.map(|block| rustix::fs::fallocate(&file, hole, block * 4096, 4096).unwrap()).count()
}
