//! Properties of the disk and file system below a pool, for its owner.

use std::fmt;
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::time::Instant;

use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use zerocopy::IntoBytes;

use super::{PoolFile, write_all};
use crate::system::{Handle, write_durably};
use crate::{Buffer, Error};

/// How many flushes are measured; their median counts.
const FLUSHES: usize = 9;

/// Type number of a recorded machine's file system; no kernel file system has it.
const RECORDED: u64 = 0x4c57_5243;

/// The numbers that the kernel's `statfs` knows file systems by.
const KNOWN: [(u64, &str); 13] = [
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58f6, "ramfs"),
    (0x794c_7630, "overlay"),
    (0xf2f5_2010, "f2fs"),
    (0x2fc1_2fc1, "zfs"),
    (0xca45_1a4e, "bcachefs"),
    (0x6969, "nfs"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "fuse"),
    (RECORDED, "recorded"),
];

/// The file system that a file lives on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystem {
    magic: u64,
}

impl FileSystem {
    /// The file system of an open file or directory.
    ///
    /// # Errors
    /// The system's.
    pub fn of(file: impl AsFd) -> std::io::Result<FileSystem> {
        Ok(FileSystem::numbered(rustix::fs::fstatfs(file)?.f_type as u64))
    }

    /// The file system of this number.
    pub(crate) fn numbered(magic: u64) -> FileSystem {
        FileSystem { magic: magic & 0xffff_ffff }
    }

    /// File system of a recorded machine.
    pub(crate) fn recorded() -> FileSystem {
        FileSystem { magic: RECORDED }
    }

    /// Its name, where we know it.
    pub fn name(self) -> Option<&'static str> {
        KNOWN.iter().find(|known| known.0 == self.magic).map(|known| known.1)
    }

    /// Whether it counts a file's blocks exactly, without data of its own.
    pub(crate) fn counts_exactly(self) -> bool {
        self.is_in_memory() || self.magic == RECORDED
    }

    /// Whether a block that is reserved for a file stays the file's. ZFS writes every block to
    /// another place, and only looks whether it has room when it is asked to reserve one.
    pub(crate) fn reserves(self) -> bool {
        self.name() != Some("zfs")
    }

    /// Returns whether its files are in memory only: durable data then survives the end of the
    /// process, but not of the machine.
    pub fn is_in_memory(self) -> bool {
        matches!(self.name(), Some("tmpfs" | "ramfs"))
    }
}

impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "file system {:#x}", self.magic),
        }
    }
}

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
    use crate::{Fault, Faults, Prewrite, System};

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

    #[test]
    fn file_systems_are_known_by_name() {
        assert_eq!(FileSystem { magic: 0xef53 }.to_string(), "ext4");
        assert!(FileSystem { magic: 0x0102_1994 }.is_in_memory());
        assert!(!FileSystem { magic: 0x5846_5342 }.is_in_memory());
        assert_eq!(FileSystem { magic: 0x77 }.to_string(), "file system 0x77");
    }
}
