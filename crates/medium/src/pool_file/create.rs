//! Creation of a pool's file: built under a temporary name, published whole.
//!
//! ```text
//!   .NAME.lastword-new   create, lock, allocate, prewrite, the caller's first contents
//!          | fsync, rename without overwriting, fsync of the directory
//!         NAME           the file, whole and durable
//! ```
//!
//! A crash may leave a file under the temporary name. Without a lock it is such a leftover, and the
//! next creation of the same pool removes it. `name` gives a file a name that no other file has.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::PoolFile;
use super::allocate::{has_room, reserve, write_zeros};
use super::claim::claim;
use super::name::{directory, is_named, name_new, remove_placeholder, temporary_name};
use crate::error::Error;
use crate::sync::{AtomicBool, AtomicU64, Mutex, lock};
use system::mutants::{Mutant, injected};
use system::{Directory, Files, System};

/// Names that are tried for a file that keeps none.
const NAMES: usize = 100;

/// Whether a new file gets a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    /// When it is [published](PoolFile::publish).
    AtLast,
    Never,
}

/// Whether a file's blocks are written with zeros when it is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prewrite {
    /// They are only reserved. The first write of each is slower, because the file system notes
    /// that the block has been written.
    No,
    /// They are written, so that later ones need no metadata: for logs.
    Zeros,
}

impl PoolFile {
    /// Makes a file of the kernel's; see [`create_on`](PoolFile::create_on).
    ///
    /// # Errors
    /// As [`create_on`](PoolFile::create_on).
    pub fn create(
        path: impl AsRef<Path>,
        bytes: u64,
        prewrite: Prewrite,
    ) -> Result<PoolFile, Error> {
        PoolFile::create_on(&System::kernel(), path, bytes, prewrite)
    }

    /// Creates a file of `bytes` zero bytes, all of them allocated, readable by its owner only, and
    /// locks it. It has no name and is not durable before [`publish`](PoolFile::publish). Dropping
    /// it before that removes it.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`]; [`Error::InUse`] when another process is creating it;
    /// [`Error::NoSpace`]; [`Error::NoDirectory`];
    /// [`Error::NotAFile`] when the path ends in no name, or is a directory, a link or the like;
    /// [`Error::Io`].
    pub fn create_on(
        system: &System,
        path: impl AsRef<Path>,
        bytes: u64,
        prewrite: Prewrite,
    ) -> Result<PoolFile, Error> {
        let (files, path) = (system.files(), path.as_ref());
        let temporary = temporary_of(path)?;
        // First: where it cannot be opened, or no descriptor is left, nothing needs to be undone.
        let directory = open_directory(files, path)?;
        check_name(&*directory, path, temporary_bytes(path))?;
        if let Ok(stat) = files.stat(path) {
            if !stat.is_regular {
                return Err(Error::NotAFile { path: path.into() });
            }
            // Early; `publish` makes sure.
            if stat.bytes > 0 || !remove_interrupted(files, &*directory, &temporary, path)? {
                return Err(Error::AlreadyExists { path: path.into() });
            }
        }
        PoolFile::create_in(directory, system, path, bytes, prewrite)
    }

    /// The same beside a file that has the name already: that one is [moved
    /// aside](PoolFile::move_aside) before this one is published.
    ///
    /// # Errors
    /// As [`create_on`](PoolFile::create_on), but for the name.
    pub fn create_beside(
        system: &System,
        path: impl AsRef<Path>,
        bytes: u64,
        prewrite: Prewrite,
    ) -> Result<PoolFile, Error> {
        let path = path.as_ref();
        let (files, temporary) = (system.files(), temporary_of(path)?);
        let directory = open_directory(files, path)?;
        check_name(&*directory, path, temporary_bytes(path))?;
        let is_empty = files.stat(path).is_ok_and(|stat| stat.bytes == 0);
        if is_empty && !injected(Mutant::PlaceholderKept) {
            // An empty file that is none of ours is moved aside as any other.
            remove_interrupted(files, &*directory, &temporary, path)?;
        }
        PoolFile::create_in(directory, system, path, bytes, prewrite)
    }

    /// Creates such a file for this process alone, in the directory of `beside`. It loses its name
    /// before its blocks are allocated, so the kernel frees it with its last descriptor, also after
    /// a kill.
    ///
    /// # Errors
    /// As [`create_on`](PoolFile::create_on).
    pub fn create_unnamed(
        system: &System,
        beside: impl AsRef<Path>,
        bytes: u64,
    ) -> Result<PoolFile, Error> {
        let beside = beside.as_ref();
        // A name exists for a moment. Another file may have it, or be in the same moment.
        let mut number = 0;
        loop {
            let mut path = beside.as_os_str().to_owned();
            path.push(format!(".view{number}"));
            let (path, directory) = (PathBuf::from(path), open_directory(system.files(), beside)?);
            match PoolFile::create_as(directory, system, &path, bytes, Prewrite::No, Named::Never) {
                Err(Error::InUse { .. } | Error::AlreadyExists { .. } | Error::InTheWay { .. })
                    if number < NAMES =>
                {
                    number += 1
                }
                created => return created,
            }
        }
    }

    /// That a file could have this name, and other files the name with a `suffix`: for a creation
    /// of several files, before the first.
    ///
    /// # Errors
    /// [`Error::NameTooLong`]; [`Error::NoDirectory`], [`Error::FixedDirectory`], [`Error::Io`] for
    /// the directory; [`Error::NotAFile`].
    pub fn check_name(system: &System, path: &Path, suffix: &str) -> Result<(), Error> {
        temporary_of(path)?;
        let directory = open_directory(system.files(), path)?;
        check_name(&*directory, path, temporary_bytes(path) + suffix.len())
    }

    fn create_in(
        directory: Box<dyn Directory>,
        system: &System,
        path: &Path,
        bytes: u64,
        prewrite: Prewrite,
    ) -> Result<PoolFile, Error> {
        PoolFile::create_as(directory, system, path, bytes, prewrite, Named::AtLast)
    }

    fn create_as(
        directory: Box<dyn Directory>,
        system: &System,
        path: &Path,
        bytes: u64,
        prewrite: Prewrite,
        named: Named,
    ) -> Result<PoolFile, Error> {
        let (files, path, temporary) = (system.files(), path.to_path_buf(), temporary_of(path)?);
        let file = claim(files, &temporary, &path, bytes)?;
        let (directory, temporary) = match named {
            Named::AtLast => (Some(directory), Some(temporary)),
            Named::Never => {
                files.unlink(&temporary).map_err(|errno| whole("removing", &path, bytes, errno))?;
                (None, None)
            }
        };
        let prewritten = prewrite == Prewrite::Zeros;
        // From here on dropping it removes the temporary name.
        let temporary = Mutex::new(temporary);
        let system = system.clone();
        let (directory, indirect) = (Mutex::new(directory), Mutex::new(None));
        let released = AtomicBool::new(false);
        let this = PoolFile {
            system,
            file,
            path,
            bytes: AtomicU64::new(bytes),
            temporary,
            directory,
            prewritten,
            released,
            indirect,
        };
        this.allocate()?;
        Ok(this)
    }

    /// Makes the file durable and gives it its name. The lock stays. May be called again, as
    /// after an error.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`] when the name has been taken meanwhile; then that file is
    /// untouched, and this one still has no name. [`Error::NoSpace`]; [`Error::Io`]; when syncing
    /// the directory failed the file has its name, but may lose it in a crash.
    pub fn publish(&self) -> Result<(), Error> {
        let mut name = self.temporary.lock().expect("no panic under this lock");
        if let Some(temporary) = name.as_deref() {
            if !injected(Mutant::GrowthNotSynced) {
                self.file.sync_all().map_err(self.io("syncing"))?;
            }
            match self.name(temporary) {
                Ok(()) => *name = None,
                Err(Errno::EXIST) => {
                    return Err(Error::AlreadyExists { path: self.path.clone() });
                }
                Err(errno) => return Err(self.io("naming")(errno)),
            }
        }
        if !injected(Mutant::DirectoryNotSynced) {
            self.sync_name()?;
        }
        if self.prewritten {
            // Direct writes need not throw the zeros out of the page cache one by one.
            self.file.forget_pages();
        }
        Ok(())
    }

    /// Makes the name that the file was opened by durable. The process that created the name may
    /// have been killed before its sync, or may have been unable to sync. Does nothing where
    /// directories cannot be synced, or this one may not be read.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; [`Error::Io`].
    pub fn settle_name(&self) -> Result<(), Error> {
        match self.sync_name() {
            Err(Error::Io { source, .. }) if cannot_sync(&source) => Ok(()),
            synced => synced,
        }
    }

    fn sync_name(&self) -> Result<(), Error> {
        self.sync_directory().map_err(self.io("syncing the directory of"))
    }

    fn sync_directory(&self) -> rustix::io::Result<()> {
        match &*lock(&self.directory) {
            Some(directory) => directory.sync(),
            None => self.system.files().sync_directory(directory(&self.path)),
        }
    }

    /// Gives the file its name, but never another file's.
    fn name(&self, temporary: &Path) -> rustix::io::Result<()> {
        name_new(self.system.files(), temporary, &self.path, || self.sync_directory())
    }

    /// Ends the creation of the file and of the pool that it belongs to. Closes the descriptors
    /// that the last steps needed.
    pub fn end_creation(&self) {
        *lock(&self.directory) = None;
    }

    /// Removes the name that the file has, while its lock keeps others out. Durable on return.
    /// A name that leads to another file meanwhile stays.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove(&self) -> Result<(), Error> {
        let mut temporary = self.temporary.lock().expect("no panic under this lock");
        let (files, name) = (self.system.files(), temporary.as_deref().unwrap_or(&self.path));
        if is_named(files, &*self.file, name)? {
            files.unlink(name).map_err(self.io("removing"))?;
        }
        *temporary = None;
        match injected(Mutant::RemovalNotSynced) {
            true => Ok(()),
            false => self.sync_name(),
        }
    }

    /// Gives the file another name in its directory, never that of another file, while its lock
    /// keeps others out. Durable on return. A name that leads to another file meanwhile stays.
    /// [`path`](PoolFile::path) is the old name still.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`] when `to` is taken; [`Error::Io`].
    pub fn move_aside(&self, to: &Path) -> Result<(), Error> {
        let files = self.system.files();
        if is_named(files, &*self.file, &self.path)? {
            match name_new(files, &self.path, to, || self.sync_directory()) {
                Ok(()) => {}
                Err(Errno::EXIST) => return Err(Error::AlreadyExists { path: to.into() }),
                Err(errno) => return Err(self.io("renaming")(errno)),
            }
        }
        self.sync_name()
    }

    /// For `map_err`: something about the whole file failed, perhaps for want of room.
    fn io(&self, operation: &'static str) -> impl Fn(Errno) -> Error {
        move |errno| whole(operation, &self.path, self.len(), errno)
    }

    fn allocate(&self) -> Result<(), Error> {
        let error = |source: io::Error| match Errno::from_io_error(&source) {
            Some(errno) => self.io("allocating")(errno),
            None => Error::io("allocating", &self.path)(source),
        };
        self.check_size_limit(self.len())?;
        if i64::try_from(self.len()).is_err() || !has_room(&*self.file, self.len()) {
            return Err(error(Errno::NOSPC.into()));
        }
        let reserved = reserve(&*self.file, 0..self.len(), false);
        let reserved = reserved.map_err(|errno| error(errno.into()))?;
        if self.prewritten || !reserved {
            write_zeros(&*self.file, 0..self.len()).map_err(error)?;
        }
        Ok(())
    }
}

impl Drop for PoolFile {
    fn drop(&mut self) {
        let name = self.temporary.get_mut().map(Option::take).unwrap_or_default();
        if let Some(temporary) = name {
            // Still locked, so no other process has taken the name for a leftover.
            let _ = self.system.files().unlink(&temporary);
        }
    }
}

/// Bytes that the temporary name has besides the file's.
pub(super) fn temporary_bytes(path: &Path) -> usize {
    let bytes = |path: &Path| path.file_name().map_or(0, OsStr::len);
    temporary_name(path).map_or(0, |temporary| bytes(&temporary) - bytes(path))
}

/// That names made from the file's, with `added` bytes more, are none too long for the directory.
fn check_name(directory: &dyn Directory, path: &Path, added: usize) -> Result<(), Error> {
    let bytes = path.file_name().map_or(0, OsStr::len) + added;
    match directory.name_bytes_max() {
        Some(limit) if limit < bytes => {
            Err(Error::NameTooLong { path: path.into(), added, limit: Some(limit) })
        }
        _ => Ok(()),
    }
}

fn temporary_of(path: &Path) -> Result<PathBuf, Error> {
    temporary_name(path).ok_or_else(|| Error::NotAFile { path: path.into() })
}

/// Removes an empty file that an interrupted creation has left under the final name. Durable on
/// return: the temporary name goes next, and a crash could keep the empty file alone.
fn remove_interrupted(
    files: &dyn Files,
    directory: &dyn Directory,
    temporary: &Path,
    path: &Path,
) -> Result<bool, Error> {
    let removed = remove_placeholder(files, temporary, path)?;
    if removed {
        directory.sync().map_err(Error::io("syncing the directory of", path))?;
    }
    Ok(removed)
}

/// The directory that a file is created in.
fn open_directory(files: &dyn Files, path: &Path) -> Result<Box<dyn Directory>, Error> {
    match files.directory(directory(path)) {
        // Before anything is created: in a directory that lets no name go, a temporary file stays.
        Ok(directory) => match directory.is_fixed() {
            Some(attribute) => Err(Error::FixedDirectory { path: path.into(), attribute }),
            None => Ok(directory),
        },
        Err(Errno::NOENT) => Err(Error::NoDirectory { path: path.into() }),
        Err(errno) => Err(Error::io("opening the directory of", path)(errno)),
    }
}

/// The error of a call on a whole file of `bytes` bytes.
pub(super) fn whole(operation: &'static str, path: &Path, bytes: u64, errno: Errno) -> Error {
    match errno {
        Errno::NOSPC | Errno::DQUOT => {
            Error::NoSpace { path: path.to_path_buf(), bytes, option: None }
        }
        Errno::FBIG => {
            Error::FileTooLarge { path: path.to_path_buf(), bytes, limit: None, option: None }
        }
        _ => Error::io(operation, path)(errno),
    }
}

/// Whether the directory may not be read, or its file system has no such call.
fn cannot_sync(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput)
}

#[cfg(test)]
mod tests {
    use super::*;
    use faults::{Call, Failing, Fault, Faults};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    fn names(dir: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(dir).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn moved_file_keeps_its_contents_and_replaces_none() {
        let dir = tempfile::tempdir().unwrap();
        let [path, aside, taken] = ["pool", "aside", "taken"].map(|name| dir.path().join(name));
        let old = PoolFile::create(&path, 4096, Prewrite::No).unwrap();
        old.write_at(8, &[7]).unwrap();
        old.publish().unwrap();
        std::fs::write(&taken, "taken").unwrap();
        let new = PoolFile::create_beside(&System::kernel(), &path, 8192, Prewrite::No).unwrap();
        assert!(matches!(new.publish(), Err(Error::AlreadyExists { .. })));
        assert!(matches!(old.move_aside(&taken), Err(Error::AlreadyExists { .. })));
        old.move_aside(&aside).unwrap();
        new.publish().unwrap();
        old.move_aside(&taken).unwrap(); // the name is another file's
        drop((old, new));
        assert_eq!(std::fs::read(&taken).unwrap(), b"taken");
        assert_eq!(PoolFile::open(&path).unwrap().len(), 8192);
        let mut words = [0; 2];
        PoolFile::open(&aside).unwrap().read_at(0, &mut words).unwrap();
        assert_eq!(words, [0, 7]);
    }

    #[test]
    fn published_file_is_whole_and_owner_only() {
        for prewrite in [Prewrite::No, Prewrite::Zeros] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("pool");
            let bytes = (3 << 20) + 4096;
            let file = PoolFile::create(&path, bytes, prewrite).unwrap();
            assert!(!path.exists());
            file.publish().unwrap();
            file.publish().unwrap();
            assert_eq!(names(dir.path()), ["pool"]);
            let metadata = std::fs::metadata(&path).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
            assert_eq!(metadata.len(), bytes);
            assert!(metadata.blocks() * 512 >= bytes, "not all of it is allocated");
            assert!(std::fs::read(&path).unwrap().iter().all(|&byte| byte == 0));
            assert!(matches!(PoolFile::open(&path), Err(Error::InUse { .. })));
        }
    }

    #[test]
    fn unpublished_file_leaves_nothing_when_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let file = PoolFile::create(dir.path().join("pool"), 8192, Prewrite::Zeros).unwrap();
        assert_eq!(names(dir.path()).len(), 1);
        drop(file);
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn creating_never_overwrites() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let late = PoolFile::create(&path, 8192, Prewrite::No).unwrap();
        std::fs::write(&path, "precious").unwrap();
        let early = PoolFile::create(&path, 8192, Prewrite::No);
        assert!(matches!(early, Err(Error::AlreadyExists { .. })));
        for _ in 0..2 {
            assert!(matches!(late.publish(), Err(Error::AlreadyExists { .. })));
        }
        drop(late);
        assert_eq!(names(dir.path()), ["pool"]);
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn file_system_without_locks_is_named() {
        let faults = Faults::without(&[Call::Lock], u64::MAX, Fault::Io, false);
        let system = System::kernel().failing(faults);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let made = PoolFile::create_on(&system, &path, 8192, Prewrite::No).unwrap_err();
        assert!(made.to_string().contains("flock"), "{made}");
        assert!(names(dir.path()).is_empty());
        // A file system that cannot reserve blocks gets them written.
        let faults = Faults::without(&[Call::Allocate], u64::MAX, Fault::Io, false);
        let system = System::kernel().failing(faults);
        let file = PoolFile::create_on(&system, &path, 1 << 20, Prewrite::No).unwrap();
        file.publish().unwrap();
        assert!(std::fs::metadata(&path).unwrap().blocks() * 512 >= 1 << 20);
    }

    #[test]
    fn full_disk_is_reported_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        for bytes in [1 << 60, i64::MAX as u64, u64::MAX] {
            let file = PoolFile::create(dir.path().join("pool"), bytes, Prewrite::Zeros);
            let Err(Error::NoSpace { bytes: needed, .. }) = file else { panic!("{file:?}") };
            assert_eq!(needed, bytes);
            assert!(names(dir.path()).is_empty());
        }
    }

    #[test]
    fn file_size_limit_is_reported_and_leaves_nothing() {
        const NAME: &str = "file_size_limit_is_reported_and_leaves_nothing";
        // The limit is the process's, and its signal ends it unless it is ignored: so a child.
        if std::env::var_os("LASTWORD_TEST_LIMITED").is_none() {
            let output = std::process::Command::new("sh")
                .args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$0\" --exact \"$1\""])
                .arg(std::env::current_exe().unwrap())
                .arg(module_path!().split_once("::").unwrap().1.to_owned() + "::" + NAME)
                .env("LASTWORD_TEST_LIMITED", "64 blocks")
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && text.contains("1 passed"), "{text}");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        for prewrite in [Prewrite::No, Prewrite::Zeros] {
            let file = PoolFile::create(dir.path().join("pool"), 1 << 20, prewrite);
            let Err(Error::FileTooLarge { bytes: 0x10_0000, limit, .. }) = file else {
                panic!("{file:?}")
            };
            // Blocks of 512 bytes, or of 1024 in bash.
            assert!(matches!(limit, Some(0x8000 | 0x1_0000)), "{limit:?}");
            assert!(names(dir.path()).is_empty());
        }
        let file = std::fs::File::create_new(dir.path().join("file")).unwrap();
        assert!(write_zeros(&file, 0..1 << 20).is_err());
    }

    #[test]
    fn what_a_crash_left_is_replaced_but_not_what_is_being_created() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        std::fs::write(dir.path().join(".pool.lastword-new"), "left").unwrap();
        let file = PoolFile::create(&path, 8192, Prewrite::No).unwrap();
        let second = PoolFile::create(&path, 8192, Prewrite::No);
        assert!(matches!(second, Err(Error::InUse { .. })));
        file.publish().unwrap();
        assert_eq!(names(dir.path()), ["pool"]);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 8192);
    }

    #[test]
    fn removal_deletes_only_the_files_own_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let file = PoolFile::create(&path, 8192, Prewrite::No).unwrap();
        file.remove().unwrap();
        assert!(names(dir.path()).is_empty());
        let file = PoolFile::create(&path, 8192, Prewrite::No).unwrap();
        file.publish().unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "precious").unwrap();
        file.remove().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn path_without_name_or_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let nameless = PoolFile::create(dir.path().join(".."), 8192, Prewrite::No);
        assert!(matches!(nameless, Err(Error::NotAFile { .. })));
        let homeless = PoolFile::create(dir.path().join("no/pool"), 8192, Prewrite::No);
        assert!(matches!(homeless, Err(Error::NoDirectory { .. })));
        let taken = PoolFile::create(dir.path(), 8192, Prewrite::No);
        assert!(matches!(taken, Err(Error::NotAFile { .. })));
    }
}
