//! Area: the part of a file that belongs to one medium.

use rustix::io::Errno;

use crate::buffer::Buffer;
use crate::error::Error;
use crate::mapping::{Mapping, Sharing};
use crate::pool_file::PoolFile;
use crate::sync::Arc;
use system::{Handle, MapSource};

/// Granularity of an area's start and length: pages.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// A checked range of a file; keeps the file, and with it the lock.
#[derive(Clone, Debug)]
pub(crate) struct Area {
    file: Arc<PoolFile>,
    offset: u64,
    bytes: u64,
}

impl Area {
    /// The range, if it lies in the file in whole pages and its size fits in memory.
    pub(crate) fn new(file: Arc<PoolFile>, offset: u64, bytes: u64) -> Result<Area, Error> {
        Area::with_room(file, offset, bytes, bytes)
    }

    /// An area that has `bytes` bytes in the file, and will have up to `room` when the file grows.
    /// All its methods deal with `room` bytes. The caller touches none that the file does not have.
    pub(crate) fn with_room(
        file: Arc<PoolFile>,
        offset: u64,
        bytes: u64,
        room: u64,
    ) -> Result<Area, Error> {
        let pages = [offset, bytes, room].iter().all(|place| place.is_multiple_of(PAGE_BYTES));
        let fits = usize::try_from(room).is_ok() && offset.checked_add(room).is_some();
        if !pages || !fits || room < bytes || file.check_range(offset, bytes).is_err() {
            let (path, file_bytes) = (file.path().to_path_buf(), file.len());
            return Err(Error::BadArea { path, offset, bytes, unit: PAGE_BYTES, file_bytes });
        }
        Ok(Area { file, offset, bytes: room })
    }

    pub(crate) fn file(&self) -> &PoolFile {
        &self.file
    }

    /// Another handle of the file.
    pub(crate) fn shared_file(&self) -> Arc<PoolFile> {
        Arc::clone(&self.file)
    }

    pub(crate) fn handle(&self) -> &dyn Handle {
        self.file.handle()
    }

    /// The area as memory.
    pub(crate) fn map(&self, sharing: Sharing) -> Result<Mapping, Error> {
        // The size was checked to fit; the lock that `file` holds keeps the length.
        let bytes = self.bytes as usize;
        let source = self.handle().map_source(self.offset, bytes);
        let mapped = source.and_then(|source| {
            let mapped = match source {
                MapSource::Itself(file) => Mapping::of_file(file, self.offset, bytes, sharing),
                MapSource::Copy(copy) => {
                    assert_eq!(sharing, Sharing::CopyOnWrite, "a copy is not shared memory");
                    Mapping::of_file(&copy, 0, bytes, sharing)
                }
            };
            mapped.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::NOMEM))
        });
        mapped.map_err(|errno| self.not_mapped(sharing, errno))
    }

    fn not_mapped(&self, sharing: Sharing, errno: Errno) -> Error {
        let (path, source) = (self.file.path().to_path_buf(), errno.into());
        match (errno, sharing) {
            // Kernels that do not know the flags return INVAL.
            (Errno::OPNOTSUPP | Errno::INVAL, Sharing::Synchronous) => {
                Error::NoDax { path, source }
            }
            (Errno::ACCESS, _) => Error::ReadOnly { path },
            (Errno::NOMEM, _) => Error::NoMemory { bytes: self.bytes },
            _ => Error::Io { operation: "mapping", path, source },
        }
    }

    /// The place in the file of a place in the area.
    pub(crate) fn offset(&self, at: u64) -> u64 {
        self.offset + at
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many of its bytes the file has.
    pub(crate) fn present_bytes(&self) -> u64 {
        self.file.len().saturating_sub(self.offset).min(self.bytes)
    }

    /// For `map_err`: moving bytes of the area failed.
    pub(crate) fn transfer(
        &self,
        operation: &'static str,
        at: u64,
        bytes: u64,
    ) -> impl FnOnce(std::io::Error) -> Error {
        self.file.transfer(operation, self.offset(at), bytes)
    }

    /// That so many words, in whole units, lie in the area at `at`.
    pub(crate) fn check_log(&self, at: u64, words: usize, unit: u64) -> Result<(), Error> {
        let bytes = (words as u64).saturating_mul(8);
        let inside = at.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        if inside && at.is_multiple_of(unit) && bytes.is_multiple_of(unit) {
            return Ok(());
        }
        Err(Error::OutOfLog { at, bytes, log_bytes: self.bytes, unit })
    }

    pub(crate) fn poisoned(&self) -> Error {
        Error::Poisoned { path: self.file.path().to_path_buf() }
    }
}

/// The first `words` words of a group.
pub(crate) fn group_words(group: &Buffer, words: usize) -> Result<&[u64], Error> {
    let group = group.words();
    group
        .get(..words)
        .ok_or(Error::OutOfGroup { words: words as u64, group_words: group.len() as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Prewrite;

    #[test]
    fn area_is_whole_pages_inside_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = PoolFile::create(dir.path().join("pool"), 16384, Prewrite::No).unwrap();
        let file = Arc::new(file);
        for (offset, bytes) in [(0, 16384), (4096, 8192), (16384, 0)] {
            assert!(Area::new(file.clone(), offset, bytes).is_ok());
        }
        for (offset, bytes) in
            [(0, 20480), (8, 4096), (4096, 8), (8192, 12288), (u64::MAX - 4095, 8192), (1 << 52, 0)]
        {
            let area = Area::new(file.clone(), offset, bytes);
            assert!(matches!(area, Err(Error::BadArea { .. })), "{offset} {bytes}");
        }
    }
}
