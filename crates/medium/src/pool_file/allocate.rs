//! Allocation of every byte of a file: reserved at creation, and checked again at each open.
//!
//! A file loses its reservation when a tool copies it without zeros (`cp --sparse=always`,
//! `rsync -S`, most backups): the copy has holes. On a full disk a write into a hole fails, and a
//! store into a mapped hole kills the process (`SIGBUS`). So every open for writing reserves the
//! missing blocks, or reports how much space it lacks.
//!
//! No query finds the missing blocks. `SEEK_HOLE` also finds reserved blocks that were never
//! written. `st_blocks` also counts the file system's own data for the file: on ext4 4 KiB for a
//! heap of 4 GiB, 3 MiB for one of 1 GiB in 131 072 extents. But `fallocate(2)` keeps existing
//! blocks. Where nothing is missing, it takes on ext4 on a virtual disk 0.06 ms for 4 GiB, and
//! 0.4 ms for each thousand extents of a fragmented file. On tmpfs it looks at each page, 200 ms a
//! GiB; there `st_blocks` is exact, and is asked first.
//!
//! A reservation that fails has often taken most of the disk: ext4 keeps the blocks that it found
//! before the error, and smaller parts may have succeeded. Those blocks are freed again. `FIEMAP`
//! distinguishes them from blocks that the file had.

use std::io::{self, IoSlice};
use std::iter::once;
use std::ops::Range;

use rustix::io::{Errno, ReadWriteFlags};

use super::extents::extents;
use super::{PoolFile, Prewrite, write_all};
use crate::error::Error;
use crate::retry::ATTEMPTS_MAX;
use system::Handle;

/// Bytes of one write of zeros.
const ZEROS_BYTES: usize = 1 << 20;

/// The smallest part of a file that is reserved by one call.
const PIECE_BYTES_MIN: u64 = 1 << 20;

impl PoolFile {
    /// Restores the full allocation of a file that is open for writing; contents stay. With
    /// [`Prewrite::Zeros`] holes are written, so that later writes of them need no metadata. Not
    /// durable: after a crash the next open reserves missing blocks again.
    ///
    /// # Errors
    /// [`Error::Unallocated`], [`Error::Io`], [`Error::Transfer`]; contents are as they were, and
    /// blocks allocated so far are free again.
    pub fn allocate_again(&self, prewrite: Prewrite) -> Result<(), Error> {
        if !self.file.can_write() || self.is_empty() || self.is_whole()? {
            return Ok(());
        }
        // Before anything is changed; whether there is room is not known where others write.
        let missing = self.missing()?;
        if missing > 0 && !has_room(&*self.file, missing) {
            return Err(self.unallocated(missing));
        }
        let (before, mut filled) = (extents(&*self.file, self.len()), Vec::new());
        let lacks = before.as_ref().map_or(missing, |before| self.len() - covered(before));
        let allocated = self.allocate_missing(prewrite, lacks, before.is_some(), &mut filled);
        if allocated.is_err() {
            match &before {
                Some(before) => self.give_back(before),
                // They were holes, or reserved and unwritten, and hold zeros again.
                None => filled.into_iter().for_each(|piece| {
                    let _ = self.file.punch(piece.start, piece.end - piece.start);
                }),
            }
        }
        allocated
    }

    /// Adds the pieces that it writes to `filled`. Without `lists_extents` it makes one attempt to
    /// reserve and no smaller ones, since a file system (tmpfs) then gives up by itself what a
    /// failed attempt has taken.
    fn allocate_missing(
        &self,
        prewrite: Prewrite,
        lacks: u64,
        lists_extents: bool,
        filled: &mut Vec<Range<u64>>,
    ) -> Result<(), Error> {
        if prewrite == Prewrite::Zeros {
            self.fill_holes(filled)?;
        }
        let is_filled = !filled.is_empty();
        match reserve(&*self.file, 0..self.len(), lists_extents) {
            Ok(true) => {}
            Ok(false) => self.fill_holes(filled)?,
            // XFS wants as much room as the part has bytes, whether it has them already.
            Err(errno) if is_no_room(errno) && lacks == 0 => {}
            Err(errno) if is_no_room(errno) => return Err(self.unallocated(lacks)),
            Err(errno) => return Err(Error::io("allocating", &self.path)(errno)),
        }
        if is_filled {
            // Direct writes need not throw the zeros out of the page cache one by one.
            self.settle()?;
        }
        Ok(())
    }

    /// Frees blocks that an allocation without success has taken, so that other programs find the
    /// room that they had: all ranges outside of `before`, which were holes. Blocks that were
    /// reserved stay, since `before` lists them whether they are written or not. A range is read
    /// first, and kept if it holds anything. No other process writes meanwhile: the file is locked.
    /// A kill on the way leaves some blocks allocated, which is harmless. Errors are ignored,
    /// because the caller has one.
    fn give_back(&self, before: &[Range<u64>]) {
        let mut at = 0;
        for extent in before.iter().cloned().chain(once(self.len()..self.len())) {
            for start in (at..extent.start).step_by(ZEROS_BYTES) {
                let bytes = (extent.start - start).min(ZEROS_BYTES as u64);
                let mut found = vec![0; bytes as usize];
                let is_read = self.read_bytes_at(start, &mut found).is_ok();
                if is_read && found.iter().all(|byte| *byte == 0) {
                    let _ = self.file.punch(start, bytes);
                }
            }
            at = extent.end;
        }
    }

    /// Returns whether every block is known to be allocated, or the file system reserves none.
    /// False where only a scan of the extents could find out.
    fn is_whole(&self) -> Result<bool, Error> {
        let Ok(system) = self.file.file_system() else { return Ok(false) };
        let is_exact = system.counts_exactly() && self.missing()? == 0;
        Ok(is_exact || !system.reserves())
    }

    /// How many bytes have no block; fewer where the file system counts data of its own.
    fn missing(&self) -> Result<u64, Error> {
        let allocated = self.file.allocated().map_err(Error::io("inspecting", &self.path))?;
        Ok(self.len().saturating_sub(allocated))
    }

    fn unallocated(&self, missing: u64) -> Error {
        Error::Unallocated { path: self.path.clone(), bytes: self.len(), missing }
    }

    /// Writes zeros where the file has holes, and adds the pieces to `filled`. It reads a hole
    /// first, because some file systems report data that was just written as a hole. The bytes
    /// written equal those present, so a crash cannot tear them.
    fn fill_holes(&self, filled: &mut Vec<Range<u64>>) -> Result<(), Error> {
        let mut at = 0;
        // Ends: each turn gets to the end of data that is not empty, or of the file.
        while at < self.len() {
            let data = self.next_data(at, self.len()).unwrap_or(self.len()..self.len());
            for start in (at..data.start).step_by(ZEROS_BYTES) {
                let piece = start..data.start.min(start + ZEROS_BYTES as u64);
                self.fill(piece, filled)?;
            }
            at = data.end;
        }
        Ok(())
    }

    fn fill(&self, piece: Range<u64>, filled: &mut Vec<Range<u64>>) -> Result<(), Error> {
        let bytes = piece.end - piece.start;
        let mut found = vec![0; bytes as usize];
        self.read_bytes_at(piece.start, &mut found)?;
        if found.iter().any(|byte| *byte != 0) {
            return Ok(());
        }
        let start = piece.start;
        // Before the write, which may end early.
        filled.push(piece.clone());
        write_zeros(&*self.file, piece).map_err(|error| match Errno::from_io_error(&error) {
            Some(errno) if is_no_room(errno) => self.unallocated(bytes),
            _ => self.transfer("writing", start, bytes)(error),
        })
    }
}

/// Bytes in these ranges, which are apart.
fn covered(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

fn is_no_room(errno: Errno) -> bool {
    matches!(errno, Errno::NOSPC | Errno::DQUOT | Errno::FBIG)
}

/// Whether trying is worth while: some file systems reserve all that they have before they refuse,
/// and other programs find the disk full meanwhile.
pub(super) fn has_room(file: &dyn Handle, bytes: u64) -> bool {
    file.available().is_none_or(|available| bytes <= available)
}

/// Reserves the blocks of a part; returns false when the file system cannot. `again`: some blocks
/// exist, so a smaller part may fit where a large one does not. After an error the caller frees the
/// blocks of smaller parts.
///
/// A signal interrupts `fallocate(2)`, and some file systems then release the blocks reserved so
/// far. Signals that arrive faster than the call completes would keep it from ever ending. So an
/// interrupted part is halved, and reserved parts stay. It ends: each pass reserves a MiB, halves
/// a part that is larger, or uses one of a bounded number of interruptions of the smallest part.
pub(super) fn reserve(
    file: &dyn Handle,
    range: Range<u64>,
    again: bool,
) -> rustix::io::Result<bool> {
    let (mut at, mut part, mut interruptions) = (range.start, range.end - range.start, 0);
    while at < range.end {
        let here = part.min(range.end - at);
        let half = (here / 2).next_multiple_of(PIECE_BYTES_MIN);
        match file.allocate(at, here) {
            Ok(()) => {
                (at, part, interruptions) = (at + here, part.saturating_mul(2), 0);
            }
            Err(Errno::INTR) if half < here => part = half,
            Err(Errno::INTR) if interruptions < ATTEMPTS_MAX => interruptions += 1,
            Err(Errno::NOSPC | Errno::DQUOT) if again && half < here => part = half,
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => return Ok(false),
            Err(errno) => return Err(errno),
        }
    }
    Ok(true)
}

pub(super) fn write_zeros(file: &dyn Handle, range: Range<u64>) -> io::Result<()> {
    let zeros = vec![0; ZEROS_BYTES];
    for at in range.clone().step_by(ZEROS_BYTES) {
        let piece = (range.end - at).min(ZEROS_BYTES as u64) as usize;
        write_all(file, &mut [IoSlice::new(&zeros[..piece])], at, ReadWriteFlags::empty())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::System;
    use crate::sync::Arc;
    use faults::{Call, Failing, Fault, Faults};
    use std::fs::File;
    use std::os::unix::fs::{FileExt, MetadataExt};
    use std::path::{Path, PathBuf};

    const BYTES: u64 = 4 << 20;

    /// A file with something in one block of each MiB, and holes where others are zero.
    fn sparse() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let file = File::create_new(&path).unwrap();
        file.set_len(BYTES).unwrap();
        for mib in 0..4 {
            file.write_all_at(&[mib as u8 + 1; 4096], (mib << 20) + 8192).unwrap();
        }
        file.sync_all().unwrap();
        assert!(allocated(&path) < BYTES, "no hole");
        (dir, path)
    }

    fn allocated(path: &Path) -> u64 {
        512 * std::fs::metadata(path).unwrap().blocks()
    }

    /// Bytes with blocks, without those that ext4 keeps for a list of extents that was long once.
    fn data_blocks(path: &Path) -> u64 {
        let listed = extents(&File::open(path).unwrap(), BYTES);
        listed.map_or_else(|| allocated(path), |listed| covered(&listed))
    }

    fn failing(fault: Fault, nth: u64, sticky: bool) -> (System, Arc<Faults>) {
        let faults = Faults::nth(nth, fault, sticky);
        (System::kernel().failing(Arc::clone(&faults)), faults)
    }

    #[test]
    fn sparse_file_is_allocated_again_with_its_contents() {
        for prewrite in [Prewrite::No, Prewrite::Zeros] {
            for fault in [None, Some(Fault::NoAllocation)] {
                let (_dir, path) = sparse();
                let before = std::fs::read(&path).unwrap();
                let system = fault.map_or(System::kernel(), |fault| failing(fault, 0, true).0);
                let file = PoolFile::open_on(&system, &path).unwrap();
                file.allocate_again(prewrite).unwrap();
                file.sync().unwrap();
                assert!(allocated(&path) >= BYTES, "{prewrite:?} {fault:?}");
                assert!(std::fs::read(&path).unwrap() == before);
                if prewrite == Prewrite::Zeros || fault.is_some() {
                    assert_eq!(file.next_data(0, BYTES), Some(0..BYTES), "not written");
                }
                file.allocate_again(prewrite).unwrap();
            }
        }
    }

    #[test]
    fn file_open_for_reading_keeps_its_holes() {
        let (_dir, path) = sparse();
        let before = allocated(&path);
        PoolFile::open_shared(&path).unwrap().allocate_again(Prewrite::Zeros).unwrap();
        assert_eq!(allocated(&path), before);
    }

    #[test]
    fn missing_room_is_counted_and_contents_stay() {
        for prewrite in [Prewrite::No, Prewrite::Zeros] {
            let (_dir, path) = sparse();
            let before = std::fs::read(&path).unwrap();
            let missing = BYTES - allocated(&path);
            let mut refused = 0;
            // After open, stat, lock and stat: each call in order, until none is left to fail.
            for nth in 4.. {
                let (system, _) = failing(Fault::NoSpace, nth, true);
                let file = PoolFile::open_on(&system, &path).unwrap();
                let again = file.allocate_again(prewrite);
                drop(file);
                assert!(std::fs::read(&path).unwrap() == before);
                match again {
                    Ok(()) => break,
                    Err(Error::Unallocated { bytes, missing: lacks, .. }) => {
                        assert!(bytes == BYTES && lacks > 0 && lacks <= missing);
                        refused += 1;
                    }
                    // A call that looks has failed.
                    Err(Error::Io { .. } | Error::Transfer { operation: "reading", .. }) => {}
                    Err(error) => panic!("{nth}: {error}"),
                }
            }
            assert!(refused > 0);
        }
    }

    /// Of each call that fails, also of those after which others work: a write without room leaves
    /// the blocks of the writes before it. Blocks that were reserved and never written look like
    /// holes to `SEEK_HOLE`, and stay.
    #[test]
    fn blocks_of_a_failed_allocation_are_given_back() {
        let (_dir, path) = sparse();
        let listed = extents(&File::open(path).unwrap(), BYTES).ok_or("no FIEMAP in TMPDIR");
        if crate::suite::or_skip(listed, "extents").is_some() {
            failed_allocation_gives_blocks_back(&[]);
        }
    }

    /// A file that has most of its blocks needs less room than the whole of it.
    #[test]
    fn reservation_without_room_goes_on_in_parts() {
        for fault in [Fault::NoSpace, Fault::Quota] {
            let mut refused = 0;
            for nth in 4.. {
                let (_dir, path) = sparse();
                let listed = extents(&File::open(&path).unwrap(), BYTES);
                if crate::suite::or_skip(listed.ok_or("no FIEMAP in TMPDIR"), "extents").is_none() {
                    return;
                }
                let (system, faults) = failing(fault, nth, false);
                let file = PoolFile::open_on(&system, &path).unwrap();
                let again = file.allocate_again(Prewrite::No);
                if faults.failed().is_empty() {
                    break;
                }
                if faults.failed() == [Call::Allocate] {
                    again.unwrap();
                    assert!(allocated(&path) >= BYTES);
                    refused += 1;
                }
            }
            assert!(refused > 0, "{fault:?}");
        }
    }

    #[test]
    fn failed_allocation_without_extents_gives_written_blocks_back() {
        failed_allocation_gives_blocks_back(&[Call::Extents]);
    }

    fn failed_allocation_gives_blocks_back(lacks: &[Call]) {
        let mut refused = 0;
        for nth in 4.. {
            let (_dir, path) = sparse();
            if lacks.is_empty() {
                let reserved = File::options().write(true).open(&path).unwrap();
                Handle::allocate(&reserved, 3 << 20, 1 << 20).unwrap();
            }
            // Not read before: `SEEK_HOLE` takes blocks in the page cache for data.
            let had = data_blocks(&path);
            let faults = Faults::without(lacks, nth, Fault::NoSpace, false);
            let system = System::kernel().failing(Arc::clone(&faults));
            let file = PoolFile::open_on(&system, &path).unwrap();
            let again = file.allocate_again(Prewrite::Zeros);
            drop(file);
            match again {
                Ok(()) if faults.failed().is_empty() => break,
                Ok(()) => assert!(allocated(&path) >= BYTES),
                Err(_) => assert_eq!(data_blocks(&path), had, "{nth}: {:?}", faults.failed()),
            }
            refused += u32::from(faults.failed() == [Call::Write]);
            let (_dir, same) = sparse();
            assert!(std::fs::read(&path).unwrap() == std::fs::read(same).unwrap());
        }
        assert!(refused > 1);
    }

    /// A signal that comes every time the whole file is to be reserved, and less often for parts.
    #[test]
    fn interrupted_reservation_goes_on_in_parts_and_ends() {
        let dir = tempfile::tempdir().unwrap();
        let reserved = |faults: &Arc<Faults>| {
            let system = System::kernel().failing(Arc::clone(faults));
            PoolFile::create_on(&system, dir.path().join("pool"), 64 << 20, Prewrite::No)
        };
        // The lock is the first call that can be interrupted.
        let once = Faults::nth(1, Fault::Interrupted, false);
        drop(reserved(&once).unwrap());
        assert_eq!((once.failed(), once.passed(Call::Allocate)), (vec![Call::Allocate], 2));
        let endless = Faults::nth(1, Fault::Interrupted, true);
        let error = reserved(&endless).unwrap_err();
        assert!(matches!(error, Error::Io { operation: "allocating", .. }), "{error}");
        assert_eq!(endless.failed(), [Call::Allocate; 6 + 1000 + 1]);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn refused_reservation_is_written_with_zeros() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let (system, faults) = failing(Fault::NoAllocation, 0, true);
        let file = PoolFile::create_on(&system, &path, BYTES, Prewrite::No).unwrap();
        file.publish().unwrap();
        assert_eq!(faults.failed(), [Call::Allocate]);
        assert!(allocated(&path) >= BYTES);
    }

    #[test]
    fn hole_that_is_none_is_not_written_over() {
        let (_dir, path) = sparse();
        let file = PoolFile::open(&path).unwrap();
        let mut filled = Vec::new();
        file.fill(0..1 << 20, &mut filled).unwrap();
        assert!(filled.is_empty(), "it has data");
        file.fill(16384..32768, &mut filled).unwrap();
        assert!(filled.len() == 1 && filled[0] == (16384..32768), "{filled:?}");
        let mut word = [0];
        file.read_at(8192, &mut word).unwrap();
        assert_eq!(word, [0x0101_0101_0101_0101]);
    }
}
