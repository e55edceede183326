//! Read-only log area for tools: reads any back end's log from its file.

use crate::area::Area;
use crate::error::Error;
use crate::pool_file::PoolFile;
use crate::sync::Arc;
use crate::traits::{ReadLog, Witness};

/// The log of any medium, opened for reading; works on a file from
/// [`PoolFile::open_shared`].
///
/// ```
/// use medium::{LogReader, PoolFile, Prewrite, ReadLog, sync::Arc};
///
/// let dir = tempfile::tempdir()?;
/// let file = Arc::new(PoolFile::create(dir.path().join("log"), 1 << 16, Prewrite::No)?);
/// let log = LogReader::new(file, 4096, 8192, 64)?;
/// let mut words = [1; 8];
/// log.read(8128, &mut words)?;
/// assert_eq!(words, [0; 8]);
/// assert!(log.read(8192, &mut words).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LogReader {
    area: Area,
    block_bytes: usize,
    witnesses: &'static [u64],
}

impl LogReader {
    /// The log of `bytes` bytes at `offset`, whose groups are padded to `block_bytes`.
    ///
    /// # Errors
    /// [`Error::BadArea`].
    pub fn new(
        file: Arc<PoolFile>,
        offset: u64,
        bytes: u64,
        block_bytes: usize,
    ) -> Result<LogReader, Error> {
        Ok(LogReader { area: Area::new(file, offset, bytes)?, block_bytes, witnesses: &[] })
    }

    /// Adds witnesses at these offsets in the file.
    #[must_use]
    pub fn with_witnesses(self, witnesses: &'static [u64]) -> LogReader {
        LogReader { witnesses, ..self }
    }
}

impl ReadLog for LogReader {
    fn bytes(&self) -> u64 {
        self.area.bytes()
    }

    fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    fn read(&self, at: u64, out: &mut [u64]) -> Result<(), Error> {
        self.area.check_log(at, out.len(), 8)?;
        self.area.file().read_at(self.area.offset(at), out)
    }

    fn witnesses(&self) -> Result<Vec<Witness>, Error> {
        let mut witnesses = vec![Witness::default(); self.witnesses.len()];
        for (at, witness) in self.witnesses.iter().zip(&mut witnesses) {
            self.area.file().read_at(*at, witness)?;
        }
        Ok(witnesses)
    }
}
