//! Pools that are removed when they are no longer needed: on return, on errors, on Ctrl-C.
//!
//! Invariant: a name is registered before its files are made, and removed after they are gone. So a
//! signal finds every file there is; only `kill -9` leaves some behind.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once, PoisonError};

/// What a program that was interrupted exits with: 128 and the number of SIGINT.
const INTERRUPTED: i32 = 130;

static REGISTERED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static COUNT: AtomicU64 = AtomicU64::new(0);
static HANDLER: Once = Once::new();

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
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Temporary::at(directory.join(format!("lastword-{}-{count}.pool", std::process::id())))
    }

    /// This name.
    pub(crate) fn at(path: PathBuf) -> Temporary {
        HANDLER.call_once(|| {
            // Without a handler a signal leaves the files: nothing to stop for.
            let _ = ctrlc::set_handler(remove_all_and_exit);
        });
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

fn remove_all_and_exit() {
    registered(|paths| {
        paths.iter().for_each(|path| remove(path));
        // Inside the lock: nobody registers, and so makes, another one.
        std::process::exit(INTERRUPTED)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
