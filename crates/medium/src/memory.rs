//! DRAM that a pool runs on: the shadow of its heap, the rings of its workers.

use std::io;

use crate::Error;
use crate::mapping::Mapping;
use crate::pool_file::PoolFile;
use crate::sync::AtomicU64;

/// Bytes of one read while filling: large enough to keep a fast disk busy.
const READ_BYTES: usize = 8 << 20;

/// Zeroed memory of this process, seen as atomic words. Nothing in it is durable.
///
/// It starts at a page; from 2 MiB on it is aligned to 2 MiB and made of huge pages where the
/// system gives them. Memory that is never touched costs nothing.
///
/// ```
/// use medium::Memory;
/// use medium::sync::Ordering::Relaxed;
///
/// let memory = Memory::anonymous(4096)?;
/// assert_eq!(memory.words().len(), 512);
/// memory.words()[7].store(42, Relaxed);
/// assert_eq!(memory.words()[7].load(Relaxed), 42);
/// # Ok::<(), medium::Error>(())
/// ```
#[derive(Debug)]
pub struct Memory {
    mapping: Mapping,
}

impl Memory {
    /// Memory of `bytes` bytes; what is beyond the last whole word cannot be reached.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn anonymous(bytes: u64) -> Result<Memory, Error> {
        let mapping = usize::try_from(bytes)
            .map_err(|_| io::ErrorKind::OutOfMemory.into())
            .and_then(Mapping::anonymous)
            .map_err(|_| Error::NoMemory { bytes })?;
        Ok(Memory { mapping })
    }

    /// The words.
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        self.mapping.words()
    }

    /// Copies `bytes` bytes of a file, from `file_offset` on, to the start of memory that was not
    /// written before. Read, not mapped, so that a bad sector is an error here and not a signal
    /// later; what the file system knows to be empty is not read, so that a sparse or just
    /// allocated pool opens at once.
    ///
    /// # Errors
    /// [`Error::Transfer`]; [`Error::Truncated`] when the file ends before;
    /// [`Error::NoMemory`] when the memory is smaller than `bytes`.
    pub fn fill_from(
        &mut self,
        file: &PoolFile,
        file_offset: u64,
        bytes: u64,
    ) -> Result<(), Error> {
        let memory = self.mapping.bytes_mut().expect("anonymous memory is our own");
        let memory = usize::try_from(bytes)
            .ok()
            .and_then(|bytes| memory.get_mut(..bytes))
            .ok_or(Error::NoMemory { bytes })?;
        let end = file.check_range(file_offset, bytes)?;
        let mut at = file_offset;
        while let Some(data) = file.next_data(at, end) {
            for start in data.clone().step_by(READ_BYTES) {
                let stop = data.end.min(start + READ_BYTES as u64);
                let (from, to) = ((start - file_offset) as usize, (stop - file_offset) as usize);
                file.read_bytes_at(start, &mut memory[from..to])?;
            }
            at = data.end;
        }
        Ok(())
    }
}

impl AsRef<[AtomicU64]> for Memory {
    #[inline]
    fn as_ref(&self) -> &[AtomicU64] {
        self.words()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool_file::Prewrite;
    use crate::sync::Ordering::Relaxed;

    #[test]
    fn memory_is_zero_aligned_and_as_long_as_asked() {
        for (bytes, align) in
            [(0, 8), (8, 4096), (4096, 4096), (2 << 20, 2 << 20), (5 << 20, 2 << 20)]
        {
            let memory = Memory::anonymous(bytes).unwrap();
            let words = memory.words();
            assert_eq!(words.len() as u64, bytes / 8);
            assert_eq!(words.as_ptr().addr() % align, 0);
            assert!(words.iter().step_by(511).all(|word| word.load(Relaxed) == 0));
            for (i, word) in words.iter().enumerate() {
                word.store(i as u64, Relaxed);
            }
        }
    }

    #[test]
    fn memory_that_nobody_has_is_an_error() {
        for bytes in [u64::MAX, u64::MAX / 2, 1 << 60] {
            assert!(matches!(Memory::anonymous(bytes), Err(Error::NoMemory { .. })));
        }
    }

    #[test]
    fn memory_is_filled_with_a_files_data_and_its_holes() {
        let dir = tempfile::tempdir().unwrap();
        let file = PoolFile::create(dir.path().join("pool"), 40 << 20, Prewrite::No).unwrap();
        // Some data behind a hole, a piece longer than one read, and the last word.
        let places: Vec<u64> = (1..5_000).map(|i| 8 * (i * 499 + (1 << 20))).collect();
        for &at in &places {
            file.write_at(at, &[at]).unwrap();
        }
        file.write_at((40 << 20) - 8, &[7]).unwrap();
        let (offset, bytes) = (4096, (40 << 20) - 4096);
        let mut memory = Memory::anonymous(bytes).unwrap();
        memory.fill_from(&file, offset, bytes).unwrap();
        let mut model = vec![0; bytes as usize / 8];
        places.iter().for_each(|&at| model[(at - offset) as usize / 8] = at);
        *model.last_mut().unwrap() = 7;
        assert!(memory.words().iter().zip(&model).all(|(a, b)| a.load(Relaxed) == *b));
    }

    #[test]
    fn filling_beyond_the_file_or_the_memory_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = PoolFile::create(dir.path().join("pool"), 8192, Prewrite::No).unwrap();
        let mut memory = Memory::anonymous(16384).unwrap();
        let error = memory.fill_from(&file, 4096, 8192).unwrap_err();
        assert!(matches!(error, Error::Truncated { found: 4096, .. }), "{error}");
        assert!(memory.fill_from(&file, u64::MAX, 8192).is_err());
        let error = memory.fill_from(&file, 0, 32768).unwrap_err();
        assert!(matches!(error, Error::NoMemory { bytes: 32768 }), "{error}");
    }
}
