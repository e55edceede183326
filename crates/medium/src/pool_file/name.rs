//! Assignment of a name that no other file has.
//!
//! | the file system has | the file gets its name by | meanwhile there are |
//! |---|---|---|
//! | `RENAME_NOREPLACE` | one rename | |
//! | hard links | a link; the temporary name is removed | both names |
//! | neither (exFAT, much of FUSE) | an empty file; a rename over it | an empty file and `.NAME` |
//!
//! In the last case the directory is synced before the empty file is made. So after any crash an
//! empty file stands beside the temporary name. It is therefore no user's file, and the next
//! creation removes both. Until then, opening the name finds no file, as if it did not exist.

use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::{lock_file, open_regular};
use crate::error::Error;
use system::mutants::{Mutant, injected};
use system::{Files, Handle};

/// For a file that must not be there yet.
pub(super) const NEW: OFlags =
    OFlags::RDWR.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW);

/// The name that a file has until it is whole.
pub(super) fn temporary_name(path: &Path) -> Option<PathBuf> {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name()?);
    name.push(".lastword-new");
    Some(path.with_file_name(name))
}

/// The directory that a file is in.
pub(super) fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Whether this is the file's name.
pub(super) fn is_named(files: &dyn Files, file: &dyn Handle, name: &Path) -> Result<bool, Error> {
    let open = file.stat().map_err(Error::io("inspecting", name))?;
    match files.stat(name) {
        Ok(named) => Ok(open.identity == named.identity),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(Error::io("inspecting", name)(errno)),
    }
}

/// Gives a file its name, if no other has it. `sync_directory` makes the names there durable.
pub(super) fn name_new(
    files: &dyn Files,
    temporary: &Path,
    to: &Path,
    sync_directory: impl Fn() -> rustix::io::Result<()>,
) -> rustix::io::Result<()> {
    match files.rename(temporary, to) {
        // The file system cannot; a link never overwrites either.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        renamed => return renamed,
    }
    match link_new(files, temporary, to) {
        Err(Errno::PERM | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        linked => return linked,
    }
    // Or a crash could keep the empty file alone, which looks like a user's.
    if !injected(Mutant::EmptyNameFirst) {
        sync_directory()?;
    }
    replace_new(files, temporary, to).inspect_err(|_| {
        // The empty file is gone before the temporary name is.
        let _ = sync_directory();
    })
}

fn link_new(files: &dyn Files, from: &Path, to: &Path) -> rustix::io::Result<()> {
    files.link(from, to)?;
    // It has the one name or the other.
    files.unlink(from).inspect_err(|_| {
        let _ = files.unlink(to);
    })
}

/// Makes an empty file, which fails where there is one, and renames over it.
fn replace_new(files: &dyn Files, from: &Path, to: &Path) -> rustix::io::Result<()> {
    let empty = files.open(to, NEW, Mode::RUSR | Mode::WUSR)?;
    files.replace(from, to).inspect_err(|_| {
        if is_named(files, &*empty, to).unwrap_or(false) {
            let _ = files.unlink(to);
        }
    })
}

/// Returns whether this name is an empty file that a creation made and has not replaced.
pub(super) fn is_interrupted(files: &dyn Files, path: &Path) -> bool {
    let built = temporary_name(path).and_then(|temporary| files.stat(&temporary).ok());
    built.is_some_and(|built| built.is_regular)
}

/// Removes an empty file that a creation has left which a crash interrupted; see the module.
/// Returns whether it was one.
pub(super) fn remove_placeholder(
    files: &dyn Files,
    temporary: &Path,
    path: &Path,
) -> Result<bool, Error> {
    let built = match open_regular(files, temporary, OFlags::RDONLY) {
        Ok(built) => built,
        Err(Error::NotFound { .. } | Error::NotAFile { .. }) => return Ok(false),
        Err(error) => return Err(error),
    };
    // Held while the empty file is removed: a creation at work keeps its own.
    lock_file(&*built, path, FlockOperation::NonBlockingLockExclusive)?;
    let empty = match open_regular(files, path, OFlags::RDONLY) {
        Ok(empty) => empty.stat().map_err(Error::io("inspecting", path))?,
        Err(_) => return Ok(false),
    };
    let is_left = empty.bytes == 0 && is_named(files, &*built, temporary)?;
    if is_left {
        files.unlink(path).map_err(Error::io("removing", path))?;
    }
    Ok(is_left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Arc;
    use crate::{PoolFile, Prewrite, System};
    use faults::{Call, Failing, Fault, Faults};

    fn names(dir: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(dir).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn file_systems_that_cannot_rename_safely_link() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        std::fs::write(&from, "first").unwrap();
        let system = System::kernel();
        link_new(system.files(), &from, &to).unwrap();
        assert_eq!(names(dir.path()), ["to"]);
        std::fs::write(&from, "second").unwrap();
        assert_eq!(link_new(system.files(), &from, &to), Err(Errno::EXIST));
        assert_eq!(std::fs::read(&to).unwrap(), b"first");
        std::fs::remove_file(&to).unwrap();
        let faults = Faults::nth(1, Fault::Io, false);
        let failing = system.failing(faults);
        assert_eq!(link_new(failing.files(), &from, &to), Err(Errno::IO));
        assert_eq!(names(dir.path()), ["from"]);
    }

    const MISSING: [Call; 2] = [Call::Rename, Call::Link];

    fn without_both(nth: u64, sticky: bool) -> (System, Arc<Faults>) {
        let faults = Faults::without(&MISSING, nth, Fault::Io, sticky);
        (System::kernel().failing(Arc::clone(&faults)), faults)
    }

    #[test]
    fn naming_without_rename_flags_and_links_never_overwrites() {
        let (system, _) = without_both(u64::MAX, false);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let create = || PoolFile::create_on(&system, &path, 8192, Prewrite::No);
        let late = create().unwrap();
        for content in ["precious", ""] {
            std::fs::write(&path, content).unwrap();
            assert!(matches!(late.publish(), Err(Error::AlreadyExists { .. })));
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
        drop(late);
        // An empty file alone is a user's.
        assert!(matches!(create(), Err(Error::AlreadyExists { .. })));
        assert_eq!(names(dir.path()), ["pool"]);
        std::fs::remove_file(&path).unwrap();
        let file = create().unwrap();
        file.write_at(0, &[7]).unwrap();
        file.publish().unwrap();
        file.publish().unwrap();
        assert_eq!(names(dir.path()), ["pool"]);
        assert_eq!(std::fs::read(&path).unwrap()[0], 7);
    }

    #[test]
    fn interrupted_naming_is_replaced_by_next_creation() {
        let (system, _) = without_both(u64::MAX, false);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        std::fs::write(dir.path().join(".pool.lastword-new"), "whole").unwrap();
        std::fs::write(&path, "").unwrap();
        let opened = PoolFile::open_on(&system, &path);
        assert!(matches!(opened, Err(Error::NotFound { .. })), "{opened:?}");
        let file = PoolFile::create_on(&system, &path, 8192, Prewrite::No).unwrap();
        // While a creation is at work its empty file is its own.
        std::fs::write(&path, "").unwrap();
        let second = PoolFile::create_on(&system, &path, 8192, Prewrite::No);
        assert!(matches!(second, Err(Error::InUse { .. })), "{second:?}");
        std::fs::remove_file(&path).unwrap();
        file.publish().unwrap();
        assert_eq!(names(dir.path()), ["pool"]);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 8192);
    }

    #[test]
    fn naming_failed_at_any_call_leaves_nothing() {
        for n in 0.. {
            let (system, faults) = without_both(n, false);
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("pool");
            let made = PoolFile::create_on(&system, &path, 8192, Prewrite::No)
                .and_then(|file| file.publish().inspect_err(|_| drop(file.remove())));
            match faults.failed().as_slice() {
                [] => {
                    assert!(n > 10 && made.is_ok(), "only {n} calls: {made:?}");
                    return;
                }
                failed if made.is_err() => {
                    assert!(names(dir.path()).is_empty(), "call {n}, {failed:?}: {made:?}");
                }
                failed => {
                    let harmless = [Call::Stat, Call::FileSystem, Call::Advise];
                    assert!(harmless.contains(&failed[0]), "call {n}, {failed:?}");
                }
            }
        }
    }
}
