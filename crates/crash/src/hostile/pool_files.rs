//! The files of a pool in a directory of their own, to be replaced between tests.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

/// The content of NAME and NAME.log; `None` for a file that is not there.
pub(super) type Contents = [Option<Vec<u8>>; 2];

/// The files of one pool, in memory where the machine has such a directory.
pub(super) struct PoolFiles(TempDir);

impl PoolFiles {
    pub(super) fn new() -> PoolFiles {
        let in_memory = tempfile::tempdir_in("/dev/shm");
        PoolFiles(in_memory.or_else(|_| tempfile::tempdir()).expect("a temporary directory"))
    }

    pub(super) fn paths(&self) -> [PathBuf; 2] {
        ["test.pool", "test.pool.log"].map(|name| self.0.path().join(name))
    }

    pub(super) fn read(&self) -> Contents {
        self.paths().map(|file| fs::read(file).ok())
    }

    /// Replaces all files by these.
    pub(super) fn write(&self, contents: &Contents) {
        for entry in fs::read_dir(self.0.path()).expect("the directory exists") {
            fs::remove_file(entry.expect("it is readable").path()).expect("it can be emptied");
        }
        for (file, bytes) in self.paths().iter().zip(contents) {
            if let Some(bytes) = bytes {
                fs::write(file, bytes).expect("the disk has room");
            }
        }
    }
}
