//! The files of a pool.
//!
//! ```text
//!   file       NAME      superblocks | page checksums | to 2 MiB | heap
//!              NAME.log  log heads | log
//!   mapped     NAME      superblocks | page checksums | to 2 MiB | log | to 2 MiB | heap
//! ```
//!
//! On a file system, direct writes to the log and buffered writes to the heap image slow each other
//! down when both go to one file, so a pool has two files. A mapped pool stays one file, so that
//! its parts cannot be separated.

mod begin;
mod checksums;
mod create;
mod open;
mod renew;
mod survey;
mod watched;

use std::path::{Path, PathBuf};

use lw_log::WITNESSES;
use medium::sync::Arc;
use medium::{
    Domain, Emulation, FileHeap, FileLog, LogMedium, LogPath, LogReader, MappedHeap, MappedLog,
    PageChecksums, Parts, PoolFile, Prewrite,
};

use crate::superblock::{COPIES_BYTES, LogHead, PairedBlock, Superblock, Superblocks};
use crate::{Error, Medium, Options};

pub(crate) use begin::{ReadyPool, replay, salvage};
pub(crate) use checksums::{
    Checksums, Damaged, Replay, damaged_pages, lost_checksums, page_checksums,
};
pub(crate) use create::{Created, format, plan};
pub(crate) use open::{Demand, Found, MemoryDemand, Opened, heap, open_settled};
pub(crate) use renew::if_lost;
pub(crate) use survey::Survey;

/// Alignment of the areas of a pool file, so that mappings can use large pages.
const AREA_ALIGN: u64 = 2 << 20;

/// The files and media of an open pool.
pub(crate) struct Storage {
    pub(crate) file: Arc<PoolFile>,
    /// The log's own file, if it has one.
    pub(crate) log_file: Option<Arc<PoolFile>>,
    pub(crate) heap_image: Parts,
    pub(crate) log: Arc<dyn LogMedium>,
    pub(crate) superblocks: Superblocks,
    pub(crate) medium: Medium,
    /// The persistence domain of stores, where the files are mapped.
    pub(crate) domain: Option<Domain>,
    /// The path of log writes; `None` where the log is mapped.
    pub(crate) written: Option<LogPath>,
    /// The page checksums.
    pub(crate) sums: Checksums,
}

/// Suffix of the log file's name.
const LOG_SUFFIX: &str = ".log";

/// Returns the path of the log file of the pool NAME.
pub(crate) fn log_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(LOG_SUFFIX);
    name.into()
}

/// Returns whether a log file of this size is written before its first group. In a larger file the
/// first wrap writes reserved blocks, and its barriers write the file system's metadata too.
fn prewrite(log_file_bytes: u64) -> Prewrite {
    if log_file_bytes <= PoolFile::PREWRITTEN_MAX { Prewrite::Zeros } else { Prewrite::No }
}

impl Storage {
    /// Returns a reader of a pool's log in `place`, which never writes.
    ///
    /// # Errors
    /// The file is shorter than the superblock says.
    pub(crate) fn log_reader(
        place: &Arc<PoolFile>,
        superblock: &Superblock,
        medium: Medium,
    ) -> Result<LogReader, Error> {
        let Superblock { log_offset, log_bytes, .. } = *superblock;
        let (place, block) = (Arc::clone(place), Storage::block_bytes(medium));
        let log = LogReader::new(place, log_offset, log_bytes, block)?;
        Ok(match superblock.log_inside {
            true => log.with_witnesses(&WITNESSES),
            false => log,
        })
    }

    /// Returns the unit to which a medium pads groups, for code that only reads the log.
    fn block_bytes(medium: Medium) -> usize {
        match medium {
            Medium::File => 4096,
            Medium::Dax | Medium::PersistentCache | Medium::Emulated { .. } => 64,
        }
    }

    /// Opens the media on the areas that the superblock describes. `known` are the page checksums
    /// in the file; `None` for a new file.
    fn assemble(
        (file, log_file): (Arc<PoolFile>, Option<Arc<PoolFile>>),
        mut superblocks: Superblocks,
        medium: Medium,
        options: &Options,
        known: Option<&PageChecksums>,
    ) -> Result<Storage, Error> {
        let Superblock { heap_offset, heap_bytes, log_offset, log_bytes, .. } =
            *superblocks.current();
        let room = options.room(heap_bytes);
        let log_place = Arc::clone(log_file.as_ref().unwrap_or(&file));
        if medium == Medium::File {
            let heap_image = FileHeap::growing(Arc::clone(&file), heap_offset, heap_bytes, room)?;
            let usual = FileHeap::GATHER_BYTES.max(log_bytes);
            let heap_image =
                heap_image.with_gather_bytes_max(options.gather_bytes.unwrap_or(usual));
            let sums = Checksums::in_file(&file, superblocks.current(), room, known);
            let heap_image = sums.keep_in_file(heap_image);
            let heap_image = heap_image.in_parts(options.reproduce_threads);
            let log = FileLog::new(log_place, log_offset, log_bytes)?;
            let written = Some(log.path());
            let (log, domain) = (Arc::new(log), None);
            return Ok(Storage {
                file,
                log_file,
                heap_image,
                log,
                superblocks,
                medium,
                domain,
                written,
                sums,
            });
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
        let heap_image =
            MappedHeap::growing(Arc::clone(&file), heap_offset, heap_bytes, room, &domain)?;
        let sums = Checksums::mapped(&file, superblocks.current(), room, &domain, known)?;
        let heap_image = sums.keep_mapped(heap_image);
        let heap_image = heap_image.in_parts(options.reproduce_threads);
        let log = MappedLog::new(log_place, log_offset, log_bytes, &domain)?;
        let log = Arc::new(log.with_witnesses(COPIES_BYTES, &WITNESSES)?);
        let (domain, written) = (Some(domain), None);
        let storage =
            Storage { file, log_file, heap_image, log, superblocks, medium, domain, written, sums };
        Ok(storage)
    }

    /// Reads the head of the log, if the log has its own file.
    pub(crate) fn log_head(&self) -> Result<Option<LogHead>, Error> {
        match &self.log_file {
            Some(file) => Ok(PairedBlock::<LogHead>::read(file)?.current().ok()),
            None => Ok(None),
        }
    }

    /// Returns the path of the file that holds the log.
    pub(crate) fn log_path(&self) -> &Path {
        self.log_file.as_ref().unwrap_or(&self.file).path()
    }
}
