//! Errors of media, with the facts that a user needs to act on them.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::shell::quoted;

/// Error of a medium.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused an operation on a file as a whole.
    #[error("{operation} {} failed: {source}; {}", .path.display(), refused(path, source))]
    Io {
        /// The attempted operation, such as "opening".
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The system refused to move bytes to or from a file.
    #[error("{operation} {bytes} bytes at byte {offset} of {} failed: {source}; \
        {}, then open the pool again",
        .path.display(), advice(source))]
    Transfer {
        /// The attempted operation, such as "reading".
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// First byte in the file.
        offset: u64,
        /// How many bytes.
        bytes: u64,
        /// The system's error.
        source: io::Error,
    },
    /// Another process, or another pool of this one, has the file open.
    #[error("{} is in use; close the program that has it open, and its forked children",
        .path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file to create already exists.
    #[error("{} exists already; open it, or remove it first", .path.display())]
    AlreadyExists {
        /// The file.
        path: PathBuf,
    },
    /// The file does not exist.
    #[error("{} does not exist; create it first, or check the path", .path.display())]
    NotFound {
        /// The path.
        path: PathBuf,
    },
    /// The directory of the file to create does not exist.
    #[error("there is no directory for {}; make it first, or check the path", .path.display())]
    NoDirectory {
        /// The file's path.
        path: PathBuf,
    },
    /// The path leads to a directory, a symbolic link, a device or the like.
    #[error("{} is not a regular file; name the file itself, not a link or directory",
        .path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// A file that was opened for reading only was to be mapped for writing.
    #[error("{} is open for reading only; open it for reading and writing", .path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// Persistent memory was asked for, and the file does not lie in any that this machine can
    /// write back to.
    #[error("{} is not in persistent memory: {source}; move it to a file system on persistent \
        memory that is mounted with `-o dax`, or choose another medium", .path.display())]
    NoDax {
        /// The file.
        path: PathBuf,
        /// The error of the kernel, the file system or the processor.
        source: io::Error,
    },
    /// The file's name, or a longer one derived from it, exceeds the file system's limit. Nothing
    /// was created.
    #[error("the name of {} is too long: {}; choose a shorter name", .path.display(),
        too_long(path, *.added, *.limit))]
    NameTooLong {
        /// The file.
        path: PathBuf,
        /// Bytes that names made from it have besides.
        added: usize,
        /// Bytes of the longest name of the file system, where that is known and exceeded; `None`:
        /// the system refuses the whole path.
        limit: Option<usize>,
    },
    /// The name that a file has until it is whole is in use by something that is no rest of an
    /// interrupted creation, or cannot be looked at. It was left alone.
    #[error("{} cannot be created: {} is in the way: {found}; that name is needed while the file \
        is made: remove or rename {}, then try again", .path.display(), .temporary.display(),
        .temporary.display())]
    InTheWay {
        /// The file that was to be created.
        path: PathBuf,
        /// The name in use.
        temporary: PathBuf,
        /// The kind of file found at the path.
        found: String,
    },
    /// The directory takes names and lets none go, or takes none. Nothing was created.
    #[error("{} cannot be created: its directory has the attribute {attribute} (`lsattr -d`), and \
        files there cannot be {}; take the attribute away (`chattr -{attribute} -- {}`), or use \
        another directory", .path.display(),
        if *.attribute == 'a' { "renamed" } else { "created" }, quoted(directory_of(path)))]
    FixedDirectory {
        /// The file that was to be created.
        path: PathBuf,
        /// `a`: only new names; `i`: no change.
        attribute: char,
    },
    /// The file system has no room, or the user no quota, for a file of this size.
    #[error("no room for {bytes} bytes of {}; free some space on its file system or \
        raise its quota{}",
        .path.display(), smaller(*.option))]
    NoSpace {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        bytes: u64,
        /// The option that sets this size; see [`Error::sized_by`].
        option: Option<&'static str>,
    },
    /// A file has holes that its file system has no room for, as a copy may that was made without
    /// the zeros. Its contents are as they were.
    #[error(
        "no room for {missing} bytes that {} lacks: not all of its {bytes} bytes are allocated, \
         as after a copy that leaves holes (`cp --sparse`); free {missing} bytes on its file \
         system or raise its quota, then open the pool again; nothing was changed",
        .path.display()
    )]
    Unallocated {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        bytes: u64,
        /// How many of them have no room, at least.
        missing: u64,
    },
    /// A file would exceed this process's limit, or the limit of its file system.
    #[error("{} cannot be written up to its end at byte {bytes}: {}; {}{}",
        .path.display(), too_large(*.limit).0, too_large(*.limit).1, smaller(*.option))]
    FileTooLarge {
        /// The file.
        path: PathBuf,
        /// End of the range that has to be written.
        bytes: u64,
        /// The process's limit; `None`: it is the file system that refuses.
        limit: Option<u64>,
        /// The option that sets the file's size; see [`Error::sized_by`].
        option: Option<&'static str>,
    },
    /// The file system has no locks, the system has none left, or does not allow them.
    #[error("{} cannot be locked: {source}; a pool needs `flock`, to keep a second program out: \
        {}", .path.display(), unlocked(source))]
    NoLocks {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file ends before the bytes that must be there.
    #[error("{} was cut short: {expected} bytes expected at byte {offset}, {found} found; \
        restore it from a copy", .path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// First byte in the file.
        offset: u64,
        /// How many bytes should have followed.
        expected: u64,
        /// How many did.
        found: u64,
    },
    /// An area that does not lie in its file in whole units.
    #[error("an area of {bytes} bytes at byte {offset} does not lie in whole units of {unit} \
        bytes in {}, which has {file_bytes}; its superblock is wrong", .path.display())]
    BadArea {
        /// The file.
        path: PathBuf,
        /// First byte of the area in the file.
        offset: u64,
        /// Bytes of the area.
        bytes: u64,
        /// Bytes that offset and size must be multiples of.
        unit: u64,
        /// Bytes of the file.
        file_bytes: u64,
    },
    /// A write that leaves the heap. Nothing of its batch was written.
    #[error(
        "a write of {words} words at word {index} leaves the heap of {heap_words} words; \
        the log that it came from is damaged"
    )]
    OutOfHeap {
        /// First word of the run.
        index: u64,
        /// Words in the run.
        words: u64,
        /// Words in the heap.
        heap_words: u64,
    },
    /// A batch that ends inside a run. Nothing of it was written.
    #[error(
        "a batch of {words} words ends inside its last run; \
        the log that it came from is damaged"
    )]
    TornBatch {
        /// Words in the batch.
        words: u64,
    },
    /// A position or length outside the log area, or not in whole blocks.
    #[error(
        "{bytes} bytes at byte {at} do not lie in the log of {log_bytes} bytes \
        in whole units of {unit}; its superblock is wrong"
    )]
    OutOfLog {
        /// First byte in the log area.
        at: u64,
        /// How many bytes.
        bytes: u64,
        /// Bytes of the log area.
        log_bytes: u64,
        /// Bytes that position and length must be multiples of.
        unit: u64,
    },
    /// More words were to be taken from a buffer than it has.
    #[error("{words} words were to be taken from a group of {group_words}; grow it first")]
    OutOfGroup {
        /// Words asked for.
        words: u64,
        /// Words in the buffer.
        group_words: u64,
    },
    /// The system has no memory to give.
    #[error("no memory for {bytes} bytes; make the pool smaller or give the process more memory")]
    NoMemory {
        /// Bytes asked for.
        bytes: u64,
    },
    /// The system did not take copies of pages back.
    #[error(
        "the system keeps {bytes} bytes of copied pages: {source}; memory that is locked \
        (`mlock`, `mlockall`) cannot be given back: leave the pool's memory unlocked"
    )]
    Kept {
        /// Bytes that were to be given back.
        bytes: u64,
        /// The system's error.
        source: io::Error,
    },
    /// An earlier write or sync failed, so the contents of the disk are unknown.
    #[error("an earlier write to {} failed; check the disk, then open the pool again",
        .path.display())]
    Poisoned {
        /// The file.
        path: PathBuf,
    },
    /// Pages of the heap image differ from their checksums.
    #[error("{}: the disk or another program has changed {}. List the objects there with \
        `lastword pool check -- {}`, the intact ones with `lastword pool dump --salvage -- {}`; \
        if there are none, `lastword pool copy --leave-damaged` may save the pool, else restore it \
        from a backup",
        damaged(path, *at, *pages), if *.pages == 1 { "it" } else { "them" },
        quoted(path), quoted(path))]
    DamagedPages {
        /// The file.
        path: PathBuf,
        /// First byte of the first of them in the file.
        at: u64,
        /// How many.
        pages: usize,
    },
}

/// Names damaged pages: the first byte of the first of them, and how many they are.
fn damaged(path: &Path, at: u64, pages: usize) -> String {
    let path = path.display();
    match pages {
        1 => format!("1 page of the heap in {path}, at byte {at}, differs from its checksum"),
        _ => format!(
            "{pages} pages of the heap in {path} differ from their checksums, the first at byte \
             {at}"
        ),
    }
}

impl Error {
    /// For `map_err`: an operation on the whole file failed.
    pub(crate) fn io<S: Into<io::Error>>(
        operation: &'static str,
        path: &Path,
    ) -> impl FnOnce(S) -> Error {
        move |source| Error::Io { operation, path: path.to_path_buf(), source: source.into() }
    }

    /// Adds the option that sets the file's size at creation, as it is printed, to an error on that
    /// size. The advice then names the option.
    #[must_use]
    pub fn sized_by(mut self, by: &'static str) -> Error {
        if let Error::NoSpace { option, .. } | Error::FileTooLarge { option, .. } = &mut self {
            *option = Some(by);
        }
        self
    }
}

/// Returns the advice for a call on a whole file that the system refused.
fn refused(path: &Path, source: &io::Error) -> String {
    use rustix::io::Errno;
    match Errno::from_io_error(source) {
        // The system does not say which directory or file of the path refuses.
        Some(Errno::ACCESS) => format!(
            "this user needs permission to search every directory of the path, to read and write \
             the file, and to write its directory to create the file (`namei -l -- {}` lists the \
             permissions)",
            quoted(path)
        ),
        Some(Errno::PERM) => format!(
            "an attribute of the file (`lsattr -- {}`), its mount or a security policy (SELinux, \
             AppArmor, seccomp) forbids it",
            quoted(path)
        ),
        Some(Errno::ROFS) => {
            "its file system is mounted read-only: mount it for writing, or use another one".into()
        }
        Some(Errno::MFILE) => {
            "raise the limit on open files of this process (`ulimit -n`), or close some".into()
        }
        Some(Errno::NFILE) => {
            "the system has too many open files: close some, or raise `fs.file-max`".into()
        }
        Some(Errno::IO) => "check the disk (the kernel's log names the device)".into(),
        _ => "check the path, its permissions and the disk".into(),
    }
}

/// Returns the directory of a file, as a command takes it.
fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    }
}

/// Returns the advice to make a file smaller, where an option does that.
fn smaller(option: Option<&str>) -> String {
    option.map_or_else(String::new, |option| format!(", or create the pool with fewer {option}"))
}

/// Returns the advice for a failed `flock`.
fn unlocked(source: &io::Error) -> &'static str {
    use rustix::io::Errno;
    match Errno::from_io_error(source) {
        Some(Errno::NOLCK) => {
            "the system has no lock left, or the file server has no lock service: start that \
             (NFS: `rpc.statd`, or mount with `-o local_lock=flock` where one machine uses the \
             pool), or put the pool on a local file system"
        }
        Some(Errno::PERM | Errno::ACCESS) => {
            "a security policy (SELinux, AppArmor, seccomp, a container's) refuses it: allow \
             `flock` for this program and file, or put the pool elsewhere"
        }
        _ => "put it on a file system that has it (NFS: mounted with locks)",
    }
}

/// Which limit a name exceeds.
fn too_long(path: &Path, added: usize, limit: Option<usize>) -> String {
    let bytes = path.file_name().map_or(0, std::ffi::OsStr::len);
    match limit {
        Some(limit) => format!(
            "it has {bytes} bytes and may have {}, for names made from it have {added} bytes more \
             (such as `.NAME.lastword-new`) and this file system has names of {limit} bytes at \
             most",
            limit.saturating_sub(added)
        ),
        None => "the system refuses the name, or the whole path (4095 bytes at most)".into(),
    }
}

/// Returns why a file cannot be large enough, and the advice.
fn too_large(limit: Option<u64>) -> (String, &'static str) {
    match limit {
        Some(limit) => {
            let why = format!("this process may write files of {limit} bytes at most");
            (why, "raise that limit (`ulimit -f`)")
        }
        None => ("its file system has no files that large".into(), "use another file system"),
    }
}

/// Returns the advice for a failed transfer.
fn advice(source: &io::Error) -> &'static str {
    match source.kind() {
        // Every block is allocated when a file is made: this is a file system that copies on write.
        io::ErrorKind::StorageFull => "free some space there",
        io::ErrorKind::QuotaExceeded => "raise the quota, or free some space there",
        io::ErrorKind::Interrupted => {
            "keep signals from interrupting every call (such as a profiler's timer)"
        }
        io::ErrorKind::FileTooLarge => "raise the limit on the size of files (`ulimit -f`)",
        _ => "check the disk (the kernel's log names the device)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_names_file_place_and_advice() {
        let error =
            Error::Truncated { path: "bank.pool".into(), offset: 4096, expected: 512, found: 8 };
        assert_eq!(
            error.to_string(),
            "bank.pool was cut short: 512 bytes expected at byte 4096, 8 found; \
             restore it from a copy"
        );
    }

    #[test]
    fn refused_lock_says_what_to_do() {
        use rustix::io::Errno;
        for (errno, advice) in [
            (Errno::NOLCK, "rpc.statd"),
            (Errno::PERM, "security policy"),
            (Errno::ACCESS, "security policy"),
            (Errno::OPNOTSUPP, "put it on a file system that has it"),
            (Errno::NOSYS, "put it on a file system that has it"),
        ] {
            let error = Error::NoLocks { path: "bank.pool".into(), source: errno.into() };
            let shown = error.to_string();
            assert!(shown.contains("bank.pool") && shown.contains(advice), "{shown}");
        }
    }

    #[test]
    fn refused_file_says_what_to_do() {
        use rustix::io::Errno;
        for (errno, advice) in [
            (Errno::ACCESS, r"`namei -l -- 'my bank'\''s.pool'`"),
            (Errno::PERM, r"`lsattr -- 'my bank'\''s.pool'`"),
            (Errno::ROFS, "read-only"),
            (Errno::MFILE, "`ulimit -n`"),
            (Errno::NFILE, "`fs.file-max`"),
            (Errno::IO, "kernel's log"),
            (Errno::INVAL, "check the path"),
        ] {
            let shown = Error::io("opening", Path::new("my bank's.pool"))(errno).to_string();
            assert!(shown.contains(advice), "{shown}");
        }
    }

    #[test]
    fn size_advice_names_option() {
        let path = || PathBuf::from("bank.pool.log");
        let full = || Error::NoSpace { path: path(), bytes: 8, option: None };
        let large = || Error::FileTooLarge { path: path(), bytes: 8, limit: None, option: None };
        for error in [&full as &dyn Fn() -> Error, &large] {
            // An existing file keeps its size.
            assert!(!error().to_string().contains("fewer"), "{}", error());
            let named = error().sized_by("`log_bytes`").to_string();
            assert!(named.contains("or create the pool with fewer `log_bytes`"), "{named}");
        }
    }

    #[test]
    fn failed_write_gives_advice() {
        let text = |kind: io::ErrorKind| {
            let (path, source) = ("bank.pool".into(), kind.into());
            let (operation, offset, bytes) = ("writing", 0, 8);
            Error::Transfer { operation, path, offset, bytes, source }.to_string()
        };
        assert!(text(io::ErrorKind::StorageFull).contains("free some space"));
        assert!(text(io::ErrorKind::FileTooLarge).contains("ulimit"));
        assert!(text(io::ErrorKind::Other).contains("check the disk"));
    }
}
