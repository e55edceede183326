//! Claims of numbers in a directory, which distinguish the processes that share it.
//!
//! A claim is a shared lock on one byte of the directory, an open file description's
//! (`F_OFD_SETLK`). Claims of other numbers do not conflict with it, nor does the exclusive lock
//! of a [`PoolFile`](crate::PoolFile) in the directory. The kernel releases a claim with its
//! process, `kill -9` included. It holds across PID namespaces, where process numbers mean nothing.
//!
//! A traditional lock (`F_SETLK`) does not serve: closing any descriptor of the directory, as
//! reading its entries does, would release it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// A number that this process claims in a directory, until the value is dropped.
///
/// ```
/// use medium::Claim;
///
/// let dir = tempfile::tempdir()?;
/// let claim = Claim::new(dir.path(), 7)?;
/// assert!(Claim::exists(dir.path(), 7)? && !Claim::exists(dir.path(), 8)?);
/// drop(claim);
/// assert!(!Claim::exists(dir.path(), 7)?);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Claim {
    /// Holds the lock.
    _directory: File,
}

impl Claim {
    /// Claims a number. Several processes may claim the same one.
    ///
    /// # Errors
    /// The directory cannot be opened, or its file system has no such locks.
    pub fn new(directory: &Path, number: u32) -> io::Result<Claim> {
        let directory = File::open(directory)?;
        control(&directory, libc::F_OFD_SETLK, &mut byte(number, libc::F_RDLCK))?;
        Ok(Claim { _directory: directory })
    }

    /// Returns whether any process claims the number, this one included.
    ///
    /// # Errors
    /// As [`Claim::new`].
    pub fn exists(directory: &Path, number: u32) -> io::Result<bool> {
        // An exclusive lock would conflict with every claim. It is only asked about: taking it
        // needs a descriptor for writing, which a directory does not have.
        let mut lock = byte(number, libc::F_WRLCK);
        control(&File::open(directory)?, libc::F_OFD_GETLK, &mut lock)?;
        Ok(lock.l_type != libc::F_UNLCK as libc::c_short)
    }
}

/// Returns a lock of the byte with this number.
fn byte(number: u32, kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: number.into(),
        l_len: 1,
        l_pid: 0,
    }
}

fn control(file: &File, command: libc::c_int, lock: &mut libc::flock) -> io::Result<()> {
    // SAFETY: both commands read and write one `flock`, which is a variable of the caller. They
    // do not block.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, std::ptr::from_mut(lock)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_survives_reading_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        let claims = [7, 7, 8].map(|number| Claim::new(dir.path(), number).unwrap());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let [first, second, other] = claims;
        drop((first, other));
        assert!(Claim::exists(dir.path(), 7).unwrap(), "the second claim of the number");
        assert!(!Claim::exists(dir.path(), 8).unwrap());
        drop(second);
        assert!(!Claim::exists(dir.path(), 7).unwrap());
    }
}
