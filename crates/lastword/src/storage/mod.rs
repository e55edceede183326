//! The files of a pool.
//!
//! ```text
//!   file       NAME      superblocks | to 2 MiB | heap
//!              NAME.log  log heads | log
//!   mapped     NAME      superblocks | to 2 MiB | log | to 2 MiB | heap
//! ```
//!
//! On a file system, direct writes to the log and buffered writes home slow each other down when
//! they meet in one file, so there are two; what is mapped stays one, so that it cannot be torn
//! apart.

mod begin;
mod create;
mod open;
mod renew;
mod survey;

use std::path::{Path, PathBuf};

use medium::sync::Arc;
use medium::{
    Domain, Emulation, FileHome, FileLog, LogMedium, LogPath, MappedHome, MappedLog, Parts,
    PoolFile,
};

use crate::superblock::{Copies, LogHead, Superblock, Superblocks};
use crate::{Error, Medium, Options};

pub(crate) use begin::{Begun, replay};
pub(crate) use create::format;
pub(crate) use open::{Found, MemoryBytes, Opened, heap, open_settled};
pub(crate) use renew::if_lost;
pub(crate) use survey::Survey;

/// Areas of a pool file begin at multiples of this, so that mappings can use large pages.
const AREA_ALIGN: u64 = 2 << 20;

/// An open pool's files and media.
pub(crate) struct Storage {
    pub(crate) file: Arc<PoolFile>,
    /// The log's own file, if it has one.
    pub(crate) log_file: Option<Arc<PoolFile>>,
    pub(crate) home: Parts,
    pub(crate) log: Arc<dyn LogMedium>,
    pub(crate) superblocks: Superblocks,
    pub(crate) medium: Medium,
    /// What a store has to reach, where the files are mapped.
    pub(crate) domain: Option<Domain>,
    /// How groups get to the log; `None` where it is mapped.
    pub(crate) written: Option<LogPath>,
}

/// What the name of the log's file has behind the pool's.
const LOG_SUFFIX: &str = ".log";

/// The log's file of the pool NAME.
pub(crate) fn log_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(LOG_SUFFIX);
    name.into()
}

impl Storage {
    /// The unit that a medium pads groups to, for who only reads them.
    pub(crate) fn block_bytes(medium: Medium) -> usize {
        match medium {
            Medium::File => 4096,
            Medium::Dax | Medium::PersistentCache | Medium::Emulated { .. } => 64,
        }
    }

    /// Puts the media over the areas that the superblock describes.
    fn assemble(
        file: Arc<PoolFile>,
        log_file: Option<Arc<PoolFile>>,
        mut superblocks: Superblocks,
        medium: Medium,
        options: &Options,
    ) -> Result<Storage, Error> {
        let Superblock { heap_offset, heap_bytes, log_offset, log_bytes, .. } =
            *superblocks.current();
        let log_place = Arc::clone(log_file.as_ref().unwrap_or(&file));
        if medium == Medium::File {
            let home = FileHome::new(Arc::clone(&file), heap_offset, heap_bytes)?;
            let home = home.in_parts(options.reproduce_threads);
            let log = FileLog::new(log_place, log_offset, log_bytes)?;
            let written = Some(log.path());
            let (log, domain) = (Arc::new(log), None);
            return Ok(Storage { file, log_file, home, log, superblocks, medium, domain, written });
        }
        let domain = match medium {
            Medium::Dax => Domain::dax(&file)?,
            Medium::Emulated { latency_cycles, bandwidth_bytes_per_second } => {
                let emulation = Emulation::new(latency_cycles, bandwidth_bytes_per_second);
                superblocks.emulate(Arc::clone(&emulation));
                Domain::emulated(emulation)
            }
            _ => Domain::persistent_cache(),
        };
        let home = MappedHome::new(Arc::clone(&file), heap_offset, heap_bytes, &domain)?;
        let home = home.in_parts(options.reproduce_threads);
        let log = Arc::new(MappedLog::new(log_place, log_offset, log_bytes, &domain)?);
        let (domain, written) = (Some(domain), None);
        Ok(Storage { file, log_file, home, log, superblocks, medium, domain, written })
    }

    /// What the log's file says, if the log has one.
    pub(crate) fn log_head(&self) -> Result<Option<LogHead>, Error> {
        match &self.log_file {
            Some(file) => Ok(Copies::<LogHead>::read(file)?.current().ok()),
            None => Ok(None),
        }
    }

    /// The file that holds the log.
    pub(crate) fn log_path(&self) -> &Path {
        self.log_file.as_ref().unwrap_or(&self.file).path()
    }
}
