//! Properties of the disk and file system below a pool, for its owner.

use std::io::IoSlice;
use std::time::Instant;

use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use zerocopy::IntoBytes;

use super::{PoolFile, write_all};
use crate::buffer::Buffer;
use crate::error::Error;
use crate::retry::write_durably;
use system::{FileSystem, Handle};

/// How many flushes are measured; their median counts.
const FLUSHES: usize = 9;

impl PoolFile {
    /// The file system below.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn file_system(&self) -> Result<FileSystem, Error> {
        self.handle().file_system().map_err(Error::io("inspecting", self.path()))
    }

    /// Whether the file lies in persistent memory and is accessed directly (`-o dax`).
    pub fn is_dax(&self) -> bool {
        self.handle().is_dax()
    }

    /// How long a small durable write takes here, in nanoseconds: the median of some, to a file of
    /// its own that has no name, in the same directory. About a millisecond on an SSD.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Transfer`].
    pub fn measure_flush(&self) -> Result<u64, Error> {
        let scratch = self.scratch().map_err(Error::io("making a file beside", self.path()))?;
        let mut flushes_ns = [0; FLUSHES];
        let block = [0_u8; 4096];
        for _ in 0..2 {
            // The first round allocates the block; its time is overwritten.
            for flush_ns in &mut flushes_ns {
                let start = Instant::now();
                write_all(&*scratch, &mut [IoSlice::new(&block)], 0, ReadWriteFlags::DSYNC)
                    .map_err(self.transfer("flushing beside", 0, 4096))?;
                *flush_ns = start.elapsed().as_nanos() as u64;
            }
        }
        flushes_ns.sort_unstable();
        Ok(flushes_ns[FLUSHES / 2])
    }

    /// For reports only: `file/target.rs` decides when it writes.
    ///
    /// Whether the file system takes writes past the page cache: tried with one, to a file of its
    /// own that has no name, in the same directory. Some take direct reads alone. `None` where no
    /// such file can be made.
    pub fn takes_direct_writes(&self) -> Option<bool> {
        let scratch = self.scratch().ok()?;
        let block = Buffer::new(512);
        let direct = match scratch.reopen_direct(self.path()) {
            Ok(direct) => direct,
            Err(Errno::INVAL) => return Some(false),
            Err(_) => return None, // no /proc, and it has no name to be opened by
        };
        let written = write_durably(&*direct, &[IoSlice::new(block.words().as_bytes())], 0);
        match written {
            Ok(_) => Some(true),
            Err(Errno::INVAL) => Some(false),
            Err(_) => None, // a disk that is full, or fails
        }
    }

    /// A file without a name in the same directory.
    fn scratch(&self) -> Result<Box<dyn Handle>, Errno> {
        let mut name = std::ffi::OsString::from(".");
        name.push(self.path().file_name().unwrap_or_default());
        name.push(format!(".lastword-flush-{}", std::process::id()));
        let name = self.path().with_file_name(name);
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let files = self.system().files();
        let file = files.open(&name, flags, Mode::RUSR | Mode::WUSR)?;
        files.unlink(&name)?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Prewrite, System};
    use faults::{Failing, Fault, Faults};

    #[test]
    fn a_flush_takes_time_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = PoolFile::create(dir.path().join("pool"), 4096, Prewrite::No).unwrap();
        file.publish().unwrap();
        assert!(file.measure_flush().unwrap() > 0);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(!file.file_system().unwrap().to_string().is_empty());
    }

    #[test]
    fn direct_write_probe_writes_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let file = PoolFile::create(&path, 4096, Prewrite::No).unwrap();
        file.publish().unwrap();
        let takes = file.takes_direct_writes().unwrap();
        assert_eq!(takes, file.reopen_direct().is_some());
        drop(file);
        let refusing = System::kernel().failing(Faults::nth(0, Fault::NoDirectWrites, true));
        let file = PoolFile::open_on(&refusing, &path).unwrap();
        assert_eq!(file.takes_direct_writes(), Some(false));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
