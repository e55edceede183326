//! The claim of a temporary name for a new file.

use std::io;
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::create::{temporary_bytes, whole};
use super::name::{NEW, is_named};
use super::{lock_file, open_regular};
use crate::error::Error;
use system::{Files, Handle};

/// Creates an empty file under the temporary name, locked, and removes a leftover of a crash first.
/// `bytes` is its final length.
pub(super) fn claim(
    files: &dyn Files,
    temporary: &Path,
    path: &Path,
    bytes: u64,
) -> Result<Box<dyn Handle>, Error> {
    let in_use = || Error::InUse { path: path.to_path_buf() };
    let lock = FlockOperation::NonBlockingLockExclusive;
    let create = || files.open(temporary, NEW, Mode::RUSR | Mode::WUSR);
    let mut created = create();
    if matches!(created, Err(Errno::EXIST)) {
        remove_left(files, temporary, path)?;
        created = create();
    }
    let file = match created {
        Ok(file) => file,
        Err(Errno::EXIST) => return Err(in_use()),
        Err(Errno::NOENT) => return Err(Error::NoDirectory { path: path.to_path_buf() }),
        Err(Errno::NAMETOOLONG) => {
            let added = temporary_bytes(path);
            return Err(Error::NameTooLong { path: path.to_path_buf(), added, limit: None });
        }
        Err(errno) => return Err(whole("creating", path, bytes, errno)),
    };
    let locked = lock_file(&*file, path, lock);
    // Between create and lock, another process could have removed it as a leftover.
    let named = locked.and_then(|()| is_named(files, &*file, temporary));
    match named {
        Ok(true) => Ok(file),
        Ok(false) | Err(Error::InUse { .. }) => Err(in_use()),
        Err(error) => {
            // No other process wants it. If even its identity is unknown it stays, harmlessly.
            if is_named(files, &*file, temporary).unwrap_or(false) {
                let _ = files.unlink(temporary);
            }
            Err(error)
        }
    }
}

/// Removes a crash's leftover under the temporary name. A directory, a link, or a file that this
/// user may not read or remove is not a leftover and stays.
fn remove_left(files: &dyn Files, temporary: &Path, path: &Path) -> Result<(), Error> {
    let in_the_way = |found: String| Error::InTheWay {
        path: path.to_path_buf(),
        temporary: temporary.to_path_buf(),
        found,
    };
    let left = match open_regular(files, temporary, OFlags::RDONLY) {
        Ok(left) => left,
        Err(Error::NotFound { .. }) => return Ok(()), // it went meanwhile
        Err(Error::NotAFile { .. }) => {
            return Err(in_the_way("a directory, a link or the like".into()));
        }
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => {
            return Err(in_the_way(format!("a file that cannot be opened ({source})")));
        }
        Err(error) => return Err(error),
    };
    lock_file(&*left, path, FlockOperation::NonBlockingLockExclusive)?;
    if is_named(files, &*left, temporary)? {
        match files.unlink(temporary) {
            Err(errno @ (Errno::PERM | Errno::ACCESS)) => {
                return Err(in_the_way(format!("a file that cannot be removed ({errno})")));
            }
            removed => removed.map_err(Error::io("removing", temporary))?,
        }
    }
    Ok(())
}
