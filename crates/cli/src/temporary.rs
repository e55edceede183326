//! Temporary pools: removed on return, on errors, and on a signal that ends the program
//! ([`crate::signals`]).
//!
//! Invariant: a name is registered before its files are created, and unregistered after they are
//! removed. So a signal handler finds every file; only `kill -9` leaves some in place.
//!
//! The next program that creates a temporary pool in the same directory removes such files, also
//! while other programs have temporary pools there. It removes a file only if all of the following
//! hold:
//! - its name has the form that only this module gives;
//! - the process in the name is dead, or has the number of this process, which has no file yet;
//! - no process claims that number in the directory ([`Claim`]). A process with temporary pools
//!   claims its own: also a process in another container, which is not listed here;
//! - no process has the file open as a pool.
//!
//! A process claims its number before it creates a file, and a file's claim is looked up after its
//! name was read. So a file without a claim is left over. The directory's lock (`flock`) admits
//! one remover at a time. With two, one could remove a file, a new process could take the name,
//! and the other could remove the new file.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use medium::{Claim, PoolFile};
use rustix::fs::{FlockOperation, flock};

/// Prefix of temporary pools; the process and a number follow.
const PREFIX: &str = "lastword-temporary-";

/// Directories with temporary pools of this process; its number is claimed there where the file
/// system has such locks.
static PRESENT: Mutex<Vec<(PathBuf, Option<Claim>)>> = Mutex::new(Vec::new());
static REGISTERED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static COUNT: AtomicU64 = AtomicU64::new(0);

/// The name of a pool whose files are removed on drop.
#[derive(Debug)]
pub(crate) struct Temporary {
    path: PathBuf,
}

impl Temporary {
    /// Creates a new name, in a directory in memory if requested and present, else in this
    /// directory.
    pub(crate) fn new(in_memory: bool) -> Temporary {
        let shm = Path::new("/dev/shm");
        let directory = if in_memory && shm.is_dir() { shm } else { Path::new("") };
        enter(if directory == Path::new("") { Path::new(".") } else { directory });
        // A process of this number in another container may have a pool of the same name.
        let is_free = |path: &PathBuf| files(path).iter().all(|file| !file.exists());
        let names = std::iter::repeat_with(|| {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            directory.join(format!("{PREFIX}{}-{count}.pool", std::process::id()))
        });
        Temporary::at(names.into_iter().find(is_free).expect("the names do not end"))
    }

    /// Registers this name.
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

/// Returns the possible files of a pool of this name: heap and log, complete or in creation.
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

/// Removes the existing files of a pool.
pub(crate) fn remove(path: &Path) {
    for file in files(path) {
        // A file that cannot be removed stays: no caller could handle the error.
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
        // Under the lock, so that no other thread registers and creates another pool.
        end();
    });
}

/// Removes the files of dead processes from the directory, and claims this process's number there.
fn enter(directory: &Path) {
    let mut present = PRESENT.lock().unwrap_or_else(PoisonError::into_inner);
    if present.iter().any(|(known, _)| known == directory) {
        return;
    }
    // First, because files with this process's number are looked for, too.
    sweep(directory);
    // Without a claim the files are still kept by processes that see this one alive.
    present.push((directory.into(), Claim::new(directory, std::process::id()).ok()));
}

/// Removes the files of dead processes, unless another process does it now. Errors leave files in
/// place, which costs only disk space.
fn sweep(directory: &Path) {
    let (Ok(lock), Ok(entries)) = (File::open(directory), std::fs::read_dir(directory)) else {
        return;
    };
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return;
    }
    for entry in entries.flatten() {
        let is_left = entry.file_name().to_str().and_then(owner).is_some_and(|process| {
            is_dead(process) && matches!(Claim::exists(directory, process), Ok(false))
        });
        // Held until the removal. An error: the file is in use, or missing.
        if is_left && let Ok(_lock) = PoolFile::open(entry.path()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Returns the process that created a file of this name; `None` for any other name.
fn owner(name: &str) -> Option<u32> {
    let making = name.strip_prefix('.').and_then(|name| name.strip_suffix(".lastword-new"));
    let name = making.unwrap_or(name);
    let name = name.strip_suffix(".log").unwrap_or(name);
    let (process, count) = name.strip_suffix(".pool")?.strip_prefix(PREFIX)?.split_once('-')?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let _: u64 = count.parse().ok().filter(|_| digits(count))?;
    process.parse().ok().filter(|_| digits(process))
}

/// Returns whether the process is known to be dead. So is an earlier one with the number of this
/// process: a container's first process has the same number each time.
fn is_dead(process: u32) -> bool {
    let processes = Path::new("/proc");
    process == std::process::id()
        || processes.join("self").exists() && !processes.join(process.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of a process that has exited.
    fn dead_process() -> u32 {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    }

    #[test]
    fn only_files_of_dead_processes_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str| std::fs::write(dir.path().join(name), "x").unwrap();
        let (dead, alive) = (dead_process(), std::os::unix::process::parent_id());
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
    fn claimed_number_keeps_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let numbers = [dead_process(), std::process::id()];
        let left = numbers.map(|number| dir.path().join(format!("{PREFIX}{number}-0.pool")));
        left.iter().for_each(|path| std::fs::write(path, "x").unwrap());
        // Processes of another container: this one does not see them alive.
        let claims = numbers.map(|number| Claim::new(dir.path(), number).unwrap());
        sweep(dir.path());
        assert!(left.iter().all(|path| path.exists()));
        drop(claims);
        enter(dir.path());
        assert!(left.iter().all(|path| !path.exists()));
        assert!(Claim::exists(dir.path(), std::process::id()).unwrap());
    }

    #[test]
    fn temporary_pool_is_removed_with_its_log() {
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
    fn temporary_pool_names_are_unique() {
        let (a, b) = (Temporary::new(false), Temporary::new(false));
        assert_ne!(a.path(), b.path());
        assert!(!a.path().exists());
    }
}
