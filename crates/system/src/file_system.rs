//! The file systems that we know by name, and their properties.

use std::fmt;
use std::os::fd::AsFd;

/// Type number of a simulated machine's file system; no kernel file system has it.
const SIMULATED: u64 = 0x4c57_5243;

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
    (SIMULATED, "simulated"),
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
    pub fn numbered(magic: u64) -> FileSystem {
        FileSystem { magic: magic & 0xffff_ffff }
    }

    /// The file system of a simulated machine.
    pub fn simulated() -> FileSystem {
        FileSystem { magic: SIMULATED }
    }

    /// Its name, where we know it.
    pub fn name(self) -> Option<&'static str> {
        KNOWN.iter().find(|known| known.0 == self.magic).map(|known| known.1)
    }

    /// Whether it counts a file's blocks exactly, without data of its own.
    pub fn counts_exactly(self) -> bool {
        self.is_in_memory() || self.magic == SIMULATED
    }

    /// Whether a block that is reserved for a file stays the file's. ZFS writes every block to
    /// another place, and only looks whether it has room when it is asked to reserve one.
    pub fn reserves(self) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_system_is_known_by_number() {
        assert_eq!(FileSystem::numbered(0xef53).to_string(), "ext4");
        assert!(FileSystem::numbered(0x0102_1994).is_in_memory());
        assert!(!FileSystem::numbered(0x5846_5342).is_in_memory());
        assert_eq!(FileSystem::numbered(0x77).to_string(), "file system 0x77");
    }
}
