//! Pools that are removed when they are no longer needed: on return, on errors, on a signal that
//! ends the program ([`crate::signals`]).
//!
//! Invariant: a name is registered before its files are made, and removed after they are gone. So a
//! signal finds every file there is; only `kill -9` leaves some behind.
//!
//! What that leaves is removed by the next program that makes a temporary pool in the same
//! directory. A file goes only when everything says that nobody wants it: its name is one that only
//! this module gives, the process in the name is dead, nobody has the file open as a pool, and
//! nobody with temporary pools is in the directory. The last is told by a lock on the directory
//! that each of them holds as long as it runs: a process in another container, whose number means
//! nothing here, holds it too.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use medium::PoolFile;
use rustix::fs::{FlockOperation, flock};

/// What temporary pools are called: this, the process, a number.
const PREFIX: &str = "lastword-temporary-";

/// Directories that this process has temporary pools in, locked.
static PRESENT: Mutex<Vec<(PathBuf, File)>> = Mutex::new(Vec::new());
static REGISTERED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static COUNT: AtomicU64 = AtomicU64::new(0);

/// The name of a pool whose files are removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Temporary {
    path: PathBuf,
}

impl Temporary {
    /// A new name, in memory if there is a directory for that and it is asked for, else here.
    pub(crate) fn new(in_memory: bool) -> Temporary {
        let shm = Path::new("/dev/shm");
        let directory = if in_memory && shm.is_dir() { shm } else { Path::new("") };
        enter(if directory == Path::new("") { Path::new(".") } else { directory });
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Temporary::at(directory.join(format!("{PREFIX}{}-{count}.pool", std::process::id())))
    }

    /// This name.
    pub(crate) fn at(path: PathBuf) -> Temporary {
        registered(|paths| paths.push(path.clone()));
        Temporary { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        remove(&self.path);
        registered(|paths| paths.retain(|path| *path != self.path));
    }
}

/// The files that a pool of this name may have: heap, log, and both while they are made.
fn files(path: &Path) -> [PathBuf; 4] {
    let mut log = path.as_os_str().to_owned();
    log.push(".log");
    let log = PathBuf::from(log);
    let new = |path: &Path| {
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(".lastword-new");
        path.with_file_name(name)
    };
    [path.to_path_buf(), new(path), new(&log), log]
}

/// Removes a pool's files, those that there are.
pub(crate) fn remove(path: &Path) {
    for file in files(path) {
        // What cannot be removed stays; nobody could do more about it here.
        let _ = std::fs::remove_file(file);
    }
}

fn registered<R>(with: impl FnOnce(&mut Vec<PathBuf>) -> R) -> R {
    with(&mut REGISTERED.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Removes all temporary pools and calls `end`, which ends the process.
pub(crate) fn remove_all_and(end: impl FnOnce()) {
    registered(|paths| {
        paths.iter().for_each(|path| remove(path));
        // Inside the lock: no other thread registers, and so makes, another one.
        end();
    });
}

/// Tells others that this process has temporary pools here. If it is the only one it removes what
/// dead ones have left.
fn enter(directory: &Path) {
    let mut present = PRESENT.lock().unwrap_or_else(PoisonError::into_inner);
    if present.iter().any(|(known, _)| known == directory) {
        return;
    }
    // Without a lock nothing is removed: all that is lost is some disk.
    let Ok(lock) = File::open(directory) else { return };
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
        sweep(directory);
    }
    let _ = flock(&lock, FlockOperation::NonBlockingLockShared);
    present.push((directory.into(), lock));
}

/// Removes what dead processes have left.
fn sweep(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let is_left = entry.file_name().to_str().and_then(owner).is_some_and(is_dead);
        // Held until it is removed. An error: in use, or no file.
        if is_left && let Ok(_lock) = PoolFile::open(entry.path()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// The process that made a file of this name; nothing when it is not the name of a temporary
/// pool's file.
fn owner(name: &str) -> Option<u32> {
    let making = name.strip_prefix('.').and_then(|name| name.strip_suffix(".lastword-new"));
    let name = making.unwrap_or(name);
    let name = name.strip_suffix(".log").unwrap_or(name);
    let (process, count) = name.strip_suffix(".pool")?.strip_prefix(PREFIX)?.split_once('-')?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let _: u64 = count.parse().ok().filter(|_| digits(count))?;
    process.parse().ok().filter(|_| digits(process))
}

/// Whether there is no such process, as far as can be told.
fn is_dead(process: u32) -> bool {
    let processes = Path::new("/proc");
    processes.join("self").exists() && !processes.join(process.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of a process that was there.
    fn dead_process() -> u32 {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    }

    #[test]
    fn only_what_the_dead_have_left_is_swept() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str| std::fs::write(dir.path().join(name), "x").unwrap();
        let (dead, alive) = (dead_process(), std::process::id());
        let pool = |process: u32, count: u32| format!("{PREFIX}{process}-{count}.pool");
        let gone = files(&dir.path().join(pool(dead, 0)));
        gone.iter().for_each(|path| std::fs::write(path, "x").unwrap());
        let mut kept = vec![
            pool(alive, 0),
            pool(dead, 1),
            format!("lastword-{dead}-0.pool"),
            format!("{PREFIX}{dead}-mine.pool"),
            format!("{PREFIX}{dead}-+1.pool"),
            format!("{PREFIX}{dead}-0.pool.bak"),
            "bank.pool".to_owned(),
        ];
        kept.iter().for_each(|name| write(name));
        std::fs::create_dir(dir.path().join(pool(dead, 2))).unwrap();
        kept.push(pool(dead, 2));
        let in_use = PoolFile::open(dir.path().join(pool(dead, 1))).unwrap();
        sweep(dir.path());
        let mut left: Vec<String> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        kept.sort();
        assert_eq!(left, kept);
        drop(in_use);
        sweep(dir.path());
        assert!(!dir.path().join(pool(dead, 1)).exists());
    }

    #[test]
    fn who_comes_second_sweeps_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let left = dir.path().join(format!("{PREFIX}{}-0.pool", dead_process()));
        std::fs::write(&left, "x").unwrap();
        let other = File::open(dir.path()).unwrap();
        flock(&other, FlockOperation::NonBlockingLockShared).unwrap();
        enter(dir.path());
        assert!(left.exists());
        // This process is there from here on: nobody else sweeps.
        drop(other);
        let other = File::open(dir.path()).unwrap();
        assert!(flock(&other, FlockOperation::NonBlockingLockExclusive).is_err());
    }

    #[test]
    fn a_temporary_pool_is_gone_with_its_log() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gone.pool");
        let temporary = Temporary::at(path.clone());
        for file in files(&path) {
            std::fs::write(file, "x").unwrap();
        }
        drop(temporary);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn no_two_temporary_pools_have_one_name() {
        let (a, b) = (Temporary::new(false), Temporary::new(false));
        assert_ne!(a.path(), b.path());
        assert!(!a.path().exists());
    }
}
