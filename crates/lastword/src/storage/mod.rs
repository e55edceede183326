//! The files of a pool.
//!
//! ```text
//!   file       NAME      superblocks | to 2 MiB | heap
//!              NAME.log  log heads | log
//!   emulated   NAME      superblocks | to 2 MiB | log | to 2 MiB | heap
//! ```
//!
//! On a file system, direct writes to the log and buffered writes home slow each other down when
//! they meet in one file, so there are two; what is mapped stays one, so that it cannot be torn
//! apart.

mod create;
mod open;

use std::path::{Path, PathBuf};

use medium::sync::Arc;
use medium::{
    EmulatedHome, EmulatedLog, Emulation, FileHome, FileLog, HomeMedium, LogMedium, PoolFile,
};

use crate::superblock::{LogHead, Superblock, Superblocks};
use crate::{Error, Medium};

pub(crate) use create::format;
pub(crate) use open::{Found, Opened, heap};

/// Areas of a pool file begin at multiples of this, so that mappings can use large pages.
const AREA_ALIGN: u64 = 2 << 20;

/// An open pool's files and media.
pub(crate) struct Storage {
    pub(crate) file: Arc<PoolFile>,
    /// The log's own file, if it has one.
    pub(crate) log_file: Option<Arc<PoolFile>>,
    pub(crate) home: Box<dyn HomeMedium>,
    pub(crate) log: Arc<dyn LogMedium>,
    pub(crate) superblocks: Superblocks,
    pub(crate) medium: Medium,
    /// Whether log writes bypass the page cache; `None` where there is no such question.
    pub(crate) direct: Option<bool>,
}

/// The log's file of the pool NAME.
pub(crate) fn log_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".log");
    name.into()
}

impl Storage {
    /// The unit that a medium pads groups to, for who only reads them.
    pub(crate) fn block_bytes(medium: Medium) -> usize {
        match medium {
            Medium::File => 4096,
            Medium::Emulated { .. } => 64,
        }
    }

    /// Puts the media over the areas that the superblock describes.
    fn assemble(
        file: Arc<PoolFile>,
        log_file: Option<Arc<PoolFile>>,
        mut superblocks: Superblocks,
        medium: Medium,
    ) -> Result<Storage, Error> {
        let Superblock { heap_offset, heap_bytes, log_offset, log_bytes, .. } =
            *superblocks.current();
        let log_place = Arc::clone(log_file.as_ref().unwrap_or(&file));
        let home: Box<dyn HomeMedium>;
        let log: Arc<dyn LogMedium>;
        let mut direct = None;
        match medium {
            Medium::File => {
                home = Box::new(FileHome::new(Arc::clone(&file), heap_offset, heap_bytes)?);
                let file_log = FileLog::new(log_place, log_offset, log_bytes)?;
                direct = Some(file_log.direct());
                log = Arc::new(file_log);
            }
            Medium::Emulated { latency_cycles, bandwidth_bytes_per_second } => {
                let emulation = Emulation::new(latency_cycles, bandwidth_bytes_per_second);
                let device = Arc::clone(&emulation);
                superblocks.emulate(Arc::clone(&emulation));
                home = Box::new(EmulatedHome::new(
                    Arc::clone(&file),
                    heap_offset,
                    heap_bytes,
                    emulation,
                )?);
                log = Arc::new(EmulatedLog::new(log_place, log_offset, log_bytes, device)?);
            }
        }
        assert_eq!(log.block_bytes(), Storage::block_bytes(medium), "readers must agree");
        Ok(Storage { file, log_file, home, log, superblocks, medium, direct })
    }

    /// What the log's file says, if the log has one.
    pub(crate) fn log_head(&self) -> Result<Option<LogHead>, Error> {
        match &self.log_file {
            Some(file) => Ok(LogHead::read(file)?.ok()),
            None => Ok(None),
        }
    }

    /// The file that holds the log.
    pub(crate) fn log_path(&self) -> &Path {
        self.log_file.as_ref().unwrap_or(&self.file).path()
    }
}
