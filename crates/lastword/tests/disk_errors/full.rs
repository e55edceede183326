//! A disk that is really full: a small file system in memory, mounted where only a child sees it.
//!
//! It takes root, or a kernel that lets anybody be root in a namespace of his own. Where neither is
//! to be had the tests say so and show nothing.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use faults::Faults;
use lastword::{Error, Medium, MediumError, Options, Pool};
use rustix::fs::FallocateFlags;

use crate::story::{Story, assert_poisoned, found};

/// Set in a child, to its small disk.
const CHILD: &str = "LASTWORD_TEST_SMALL_DISK";

/// The small disk, in a child; else runs the test in one, with these options of `mount`.
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
        // Past the capture of the test's output.
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
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
    None
}

fn names(disk: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(disk).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Takes all that is left.
fn fill(disk: &Path) {
    let mut filler = File::create(disk.join("filler")).unwrap();
    let error = std::iter::repeat_with(|| filler.write_all(&[1; 4096])).find_map(Result::err);
    assert_eq!(error.unwrap().kind(), std::io::ErrorKind::StorageFull);
}

fn media() -> [Options; 2] {
    let emulated = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
    [Story::options().medium(Medium::File), Story::options().medium(emulated)]
}

#[test]
fn pools_are_made_until_the_disk_is_full_and_the_one_too_many_leaves_nothing() {
    const NAME: &str =
        "full::pools_are_made_until_the_disk_is_full_and_the_one_too_many_leaves_nothing";
    let Some(disk) = small_disk(NAME, "size=16m") else { return };
    for options in media() {
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
        assert_no_room(&error, &disk);
        assert_eq!(names(&disk), before);
        assert!(made.len() > 2);
        // Where the pool's file has room and its log has not, nothing is left either.
        std::fs::remove_file(made.pop().unwrap()).unwrap();
        before = names(&disk);
        let large_log = options.clone().log_bytes(16 << 20);
        assert_no_room(&Pool::create(disk.join("more.pool"), large_log).unwrap_err(), &disk);
        assert_eq!(names(&disk), before);
        for path in made {
            assert_eq!(lastword::check(&path).unwrap().sound().unwrap().usage.objects, 0);
        }
        names(&disk).iter().for_each(|name| std::fs::remove_file(disk.join(name)).unwrap());
    }
}

#[test]
fn a_disk_without_room_for_names_says_so() {
    const NAME: &str = "full::a_disk_without_room_for_names_says_so";
    let Some(disk) = small_disk(NAME, "size=16m,nr_inodes=4") else { return };
    for options in media() {
        File::create(disk.join("1")).unwrap();
        File::create(disk.join("2")).unwrap();
        let more = (0..).map_while(|n| File::create(disk.join(format!("more {n}"))).ok()).count();
        let before = names(&disk);
        let error = Pool::create(disk.join("a.pool"), options.clone()).unwrap_err();
        assert_no_room(&error, &disk);
        assert_eq!(names(&disk), before);
        (0..more).for_each(|n| std::fs::remove_file(disk.join(format!("more {n}"))).unwrap());
    }
}

/// That an error says how many bytes have no room, and where.
fn assert_no_room(error: &Error, disk: &Path) {
    let Error::Medium(MediumError::NoSpace { path, bytes }) = error else { panic!("{error}") };
    assert!(path.starts_with(disk) && *bytes > 128 << 10, "{error}");
    let text = error.to_string();
    assert!(text.contains(&bytes.to_string()) && text.contains("free some space"), "{text}");
}

#[test]
fn a_pool_goes_on_working_on_a_full_disk() {
    const NAME: &str = "full::a_pool_goes_on_working_on_a_full_disk";
    let Some(disk) = small_disk(NAME, "size=16m") else { return };
    for (number, options) in media().into_iter().enumerate() {
        let dir = disk.join(number.to_string());
        std::fs::create_dir(&dir).unwrap();
        let mut story = Story::new(&dir, options.clone(), true, Faults::none());
        Pool::create(&story.path, options.clone()).unwrap().close().unwrap();
        fill(&disk);
        for _ in 0..3 {
            let pool = Pool::open(&story.path, options.clone()).unwrap();
            while pool.metrics().log_laps < 2.5 {
                let id = story.put(&pool).unwrap();
                pool.wait_for(id).unwrap();
                story.acknowledged = story.begun;
            }
            assert!(pool.reproduced_id().0 > 0, "two laps that brought nothing home");
            pool.close().unwrap();
            story.assert_truth();
        }
        std::fs::remove_file(disk.join("filler")).unwrap();
    }
}

/// As on a file system that copies on write: what was allocated has no room any more.
#[test]
fn a_write_without_room_poisons_and_loses_nothing() {
    const NAME: &str = "full::a_write_without_room_poisons_and_loses_nothing";
    let Some(disk) = small_disk(NAME, "size=16m") else { return };
    for (part, background) in [("log", false), ("log", true), ("home", false), ("home", true)] {
        let options = Story::options().medium(Medium::File).background(background);
        let mut story = Story::new(&disk, options.clone(), background, Faults::none());
        let pool = Pool::create(&story.path, options.clone()).unwrap();
        if part == "log" {
            let id = story.put(&pool).unwrap();
            pool.wait_for(id).unwrap();
            pool.bring_home().unwrap();
            story.acknowledged = story.begun;
        }
        // Blocks of zeros lose nothing by not being there.
        let file = if part == "log" { "test.pool.log" } else { "test.pool" };
        assert!(punch(&disk.join(file)) > 10, "no block of zeros");
        fill(&disk);
        let error = (0..500).find_map(|_| {
            let done = story.put(&pool).and_then(|id| pool.wait_for(id));
            let done = done.map(|()| story.acknowledged = story.begun);
            done.and_then(|()| pool.bring_home()).err()
        });
        let error = error.expect("a block without room was to be written");
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

/// A mapped copy that has left zeros out has no room for them on a full disk: an error when it is
/// opened, and no signal later. With room it is as the pool was.
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
        let Error::Medium(MediumError::Unallocated { path, missing: told, .. }) = &error else {
            panic!("{error}");
        };
        assert_eq!((path, *told), (&sparse, missing));
        let text = error.to_string();
        assert!(text.contains(&format!("free {missing} bytes")), "{text}");
        assert!(contents() == before);
        // Tools look at it all the same.
        let _ = lastword::check(&story.path).unwrap().sound().unwrap();
        std::fs::remove_file(disk.join("filler")).unwrap();
        drop(Pool::open(&story.path, options.clone()).unwrap());
        let metadata = sparse.metadata().unwrap();
        assert_eq!(512 * std::os::unix::fs::MetadataExt::blocks(&metadata), metadata.len());
        // Then it works where nothing else has room.
        fill(&disk);
        let pool = Pool::open(&story.path, options.clone()).unwrap();
        while pool.metrics().log_laps < 1.5 {
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

/// On files a write without room is an error, so a copy with holes opens, is read, and goes on
/// until it meets one. File systems that compress show every file as such a copy.
#[test]
fn sparse_copy_on_full_disk_opens_on_files() {
    const NAME: &str = "full::sparse_copy_on_full_disk_opens_on_files";
    let Some(disk) = small_disk(NAME, "size=16m") else { return };
    for sparse in ["test.pool", "test.pool.log"] {
        let options = Story::options().medium(Medium::File);
        let mut story = Story::new(&disk, options.clone(), true, Faults::none());
        let pool = Pool::create(&story.path, options.clone()).unwrap();
        // Its first transaction writes pages of the heap that later ones write again.
        if sparse == "test.pool.log" {
            let id = story.put(&pool).unwrap();
            pool.wait_for(id).unwrap();
            story.acknowledged = story.begun;
        }
        pool.close().unwrap();
        assert!(punch(&disk.join(sparse)) > 10, "no block of zeros");
        fill(&disk);
        let pool = Pool::open(&story.path, options.clone()).unwrap();
        assert_eq!(found(&pool), story.acknowledged);
        let error = (0..500).find_map(|_| {
            let done = story.put(&pool).and_then(|id| pool.wait_for(id));
            let done = done.map(|()| story.acknowledged = story.begun);
            done.and_then(|()| pool.bring_home()).err()
        });
        let text = error.expect("a hole was to be written").to_string();
        assert!(text.contains(sparse) && text.contains("free some space"), "{text}");
        drop(pool);
        std::fs::remove_file(disk.join("filler")).unwrap();
        story.assert_truth();
        names(&disk).iter().for_each(|name| std::fs::remove_file(disk.join(name)).unwrap());
    }
}

/// Takes the blocks of zeros out of a file, but for its head; answers how many.
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
