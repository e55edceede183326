//! Growth of an open file: more bytes at its end, all of them allocated.

use std::cell::Cell;
use std::io;
use std::ops::Range;

use rustix::io::Errno;

use super::PoolFile;
use super::allocate::{has_room, reserve, write_zeros};
use super::create::whole;
use crate::error::Error;
use crate::sync::Ordering;

/// Bytes allocated between two calls of `gives_up`. ext4 reserves them in less than a
/// millisecond, and a disk writes them in some tens.
const PIECE_BYTES: u64 = 16 << 20;

impl PoolFile {
    /// Longest file that is written once when it is created. A longer one would take seconds.
    pub const PREWRITTEN_MAX: u64 = 128 << 20;

    /// Makes the file at least `bytes` bytes long. The bytes after the first `used` are zero and
    /// allocated on return, and durable: data of an interrupted growth are overwritten. One caller
    /// at a time. Costs a persist barrier.
    ///
    /// # Errors
    /// [`Error::FileTooLarge`], [`Error::NoSpace`], [`Error::Truncated`] (another program has cut
    /// the file): the pool may go on. The file may be longer then. Where the file system can free
    /// blocks, those that it got are free again. [`Error::Io`]: the contents of the disk are
    /// unknown, and the pool must not go on.
    pub fn grow(&self, used: u64, bytes: u64) -> Result<(), Error> {
        self.grow_unless(used, bytes, &|| false).map(drop)
    }

    /// As [`grow`](PoolFile::grow), and returns whether the file has the bytes. Asks `gives_up`
    /// once for each 16 MiB, and before it makes the file durable. If that returns true, the file
    /// is left as after [`Error::NoSpace`].
    ///
    /// # Errors
    /// As [`grow`](PoolFile::grow).
    pub fn grow_unless(
        &self,
        used: u64,
        bytes: u64,
        gives_up: &dyn Fn() -> bool,
    ) -> Result<bool, Error> {
        let error = |operation| move |errno| whole(operation, &self.path, bytes, errno);
        let failed = |source: io::Error| match Errno::from_io_error(&source) {
            Some(errno) => error("allocating")(errno),
            None => Error::io("allocating", &self.path)(source),
        };
        self.check_size_limit(bytes)?;
        let before = self.file.stat().map_err(Error::io("inspecting", &self.path))?.bytes;
        // Another program has cut the file. Longer again, it would pass for whole.
        if before < self.len() {
            let (path, expected) = (self.path.clone(), self.len());
            return Err(Error::Truncated { path, offset: 0, expected, found: before });
        }
        let added = bytes.saturating_sub(before);
        if i64::try_from(bytes).is_err() || added > 0 && !has_room(&*self.file, added) {
            return Err(error("allocating")(Errno::NOSPC));
        }
        let prewrites = self.prewritten && bytes <= PoolFile::PREWRITTEN_MAX;
        // It stays given up, whatever `gives_up` returns later.
        let given_up = Cell::new(false);
        let gives_up = || {
            given_up.set(given_up.get() || gives_up());
            given_up.get()
        };
        let zeros = |piece| write_zeros(&*self.file, piece).map(|()| true);
        let reserves = |piece| Ok(reserve(&*self.file, piece, false)?);
        let grown = || {
            if !in_pieces(used..before.min(bytes), &gives_up, zeros)? {
                return Ok(false);
            }
            let is_reserved = added == 0 || in_pieces(before..bytes, &gives_up, reserves)?;
            if added > 0 && !gives_up() && (!is_reserved || prewrites) {
                in_pieces(before..bytes, &gives_up, zeros)?;
            }
            Ok(!gives_up())
        };
        let grown = grown();
        if !matches!(grown, Ok(true)) {
            // Nothing lies there. Another program may need the room.
            let _ = self.file.punch(used, bytes.saturating_sub(used));
            return grown.map_err(failed);
        }
        // The length, too.
        self.file.sync_all().map_err(Error::io("syncing", &self.path))?;
        // Release: pairs with `lost`.
        self.bytes.fetch_max(bytes, Ordering::Release);
        Ok(true)
    }
}

/// Calls `call` for each piece of the range. Returns false as soon as it does, or gives up.
fn in_pieces(
    range: Range<u64>,
    gives_up: &dyn Fn() -> bool,
    call: impl Fn(Range<u64>) -> io::Result<bool>,
) -> io::Result<bool> {
    for at in range.clone().step_by(PIECE_BYTES as usize) {
        if gives_up() || !call(at..range.end.min(at + PIECE_BYTES))? {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use faults::{Failing, Fault, Faults};

    use super::*;
    use crate::sync::Arc;
    use crate::{Prewrite, System};

    const BYTES: u64 = 1 << 20;

    #[test]
    fn grown_file_has_zeros_and_keeps_its_content() {
        for fault in [None, Some(Fault::NoAllocation)] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("pool");
            let system = fault.map_or(System::kernel(), |fault| {
                System::kernel().failing(Faults::nth(0, fault, true))
            });
            let file = PoolFile::create_on(&system, &path, BYTES, Prewrite::No).unwrap();
            file.write_at(BYTES - 8, &[7]).unwrap();
            file.grow(BYTES, 3 * BYTES).unwrap();
            let mut words = vec![1; 1 + 2 * BYTES as usize / 8];
            file.read_at(BYTES - 8, &mut words).unwrap();
            assert_eq!((file.len(), words[0]), (3 * BYTES, 7));
            assert!(words[1..].iter().all(|word| *word == 0));
            file.write_at(3 * BYTES - 8, &[8]).unwrap();
            file.publish().unwrap();
            drop(file);
            assert_eq!(PoolFile::open(&path).unwrap().len(), 3 * BYTES);
        }
    }

    #[test]
    fn bytes_of_interrupted_growth_are_zeros() {
        let dir = tempfile::tempdir().unwrap();
        let file = PoolFile::create(dir.path().join("pool"), 2 * BYTES, Prewrite::No).unwrap();
        file.write_at(BYTES, &[7; 64]).unwrap();
        file.grow(BYTES, 3 * BYTES).unwrap();
        let mut words = [1; 64];
        file.read_at(BYTES, &mut words).unwrap();
        assert_eq!(words, [0; 64]);
    }

    #[test]
    fn full_disk_leaves_file_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        for fault in [Fault::NoSpace, Fault::Io] {
            let mut failures = 0;
            let created = |faults| {
                let system = System::kernel().failing(faults);
                let file = PoolFile::create_on(&system, &path, BYTES, Prewrite::No).unwrap();
                file.write_at(BYTES - 8, &[7]).unwrap();
                file
            };
            let calls = Faults::none();
            drop(created(Arc::clone(&calls)));
            for nth in calls.calls() - 1.. {
                let file = created(Faults::nth(nth, fault, false));
                let grown = file.grow(BYTES, 2 * BYTES);
                let mut word = [0];
                file.read_at(BYTES - 8, &mut word).unwrap();
                assert_eq!(word, [7]);
                if grown.is_ok() {
                    break;
                }
                failures += 1;
                assert_eq!(file.len(), BYTES, "{grown:?}");
                file.grow(BYTES, 2 * BYTES).unwrap();
                assert_eq!(file.len(), 2 * BYTES);
            }
            assert!(failures > 0);
        }
    }

    #[test]
    fn growth_that_gives_up_leaves_file_as_it_was() {
        for fault in [None, Some(Fault::NoAllocation)] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("pool");
            let system = fault.map_or(System::kernel(), |fault| {
                System::kernel().failing(Faults::nth(0, fault, true))
            });
            let file = PoolFile::create_on(&system, &path, BYTES, Prewrite::No).unwrap();
            file.write_at(BYTES - 8, &[7]).unwrap();
            let to = BYTES + 3 * PIECE_BYTES;
            let mut refused = 0;
            for asked in 0_u32.. {
                let left = Cell::new(asked);
                let gives_up = || left.replace(left.get().saturating_sub(1)) == 0;
                if file.grow_unless(BYTES, to, &gives_up).unwrap() {
                    break;
                }
                refused += 1;
                let mut word = [0];
                file.read_at(BYTES - 8, &mut word).unwrap();
                assert_eq!((file.len(), word), (BYTES, [7]));
                let allocated = file.file.allocated().unwrap();
                assert!(allocated < BYTES + PIECE_BYTES, "{allocated} bytes are allocated");
            }
            assert!(refused >= 4, "{refused}");
            assert_eq!(file.len(), to);
            let mut words = vec![1; 1 + 3 * PIECE_BYTES as usize / 8];
            file.read_at(BYTES - 8, &mut words).unwrap();
            assert!(words[0] == 7 && words[1..].iter().all(|word| *word == 0));
        }
    }
}
