//! A pool's description and its memory use.

use std::path::PathBuf;

use medium::{FileHeap, LogPath, PoolFile};
use words::TxId;

use crate::ideal;
use crate::perform::records_of;
use crate::shadow::PAGE_BYTES;
use crate::superblock::{Superblock, exact_name, name};
use crate::{Decoupled, DesignInfo, Error, Medium, Options, Shadow};

/// A pool's description. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Info {
    /// The pool's file; empty for designs that are not durable.
    pub path: PathBuf,
    /// The medium; `None` for designs that are not durable.
    pub medium: Option<Medium>,
    /// The pool's ID.
    pub pool_id: u64,
    /// How often the pool was opened.
    pub generation: u64,
    /// The design that wrote the pool last.
    pub design: String,
    /// Layout name and version.
    pub layout: (String, u64),
    /// Size of the heap.
    pub heap_bytes: u64,
    /// Size of the log.
    pub log_bytes: u64,
    /// Size of the pool's files: heap and log, superblocks, and the heap's alignment to 2 MiB.
    pub file_bytes: u64,
    /// Size of each worker's volatile ring.
    pub ring_bytes: u64,
    /// Number of ownership records: for an open pool the actual number, for a closed one the
    /// default on this machine; see [`Options::ownership_records`]. `None` for designs without
    /// them, and for designs that are not durable.
    pub ownership_records: Option<u64>,
    /// The memory that transactions work on.
    pub shadow: Shadow,
    /// Bound of the shadow; `None` for the heap's size.
    pub shadow_bytes: Option<u64>,
    /// The reproduced watermark, as of the superblock.
    pub reproduced_id: TxId,
    /// Whether the last shutdown was clean; otherwise opening the pool recovers. False while it is
    /// open.
    pub clean: bool,
    /// Whether a process had the pool open when [`inspect`](crate::inspect) or a check read it.
    /// False in [`Pool::info`](crate::Pool::info).
    pub in_use: bool,
    /// That process, if the system reports it.
    pub owner: Option<u32>,
    /// The file system of the pool's file.
    pub file_system: Option<&'static str>,
    /// Whether commits survive a power failure on this file system and medium, provided that the
    /// disk or memory keeps its promises. A mapped file counts only in persistent memory: no
    /// program can verify a battery.
    pub survives_power_loss: bool,
    /// The path of log writes: by io_uring or not, past the page cache or not. `None` where the log
    /// is mapped.
    pub log_path: Option<LogPath>,
    /// Why log writes go through the page cache, if they do. They are as durable, but slower.
    pub page_cache: Option<String>,
    /// Transactions combined into one group of the log since the last opening; 0 without
    /// combination.
    pub group: u64,
    /// Whether groups are compressed where that saves blocks.
    pub compress: bool,
    /// Bytes of the heap whose pages have a checksum; see
    /// [`Options::page_checksums`](crate::Options::page_checksums).
    pub checksummed_bytes: u64,
}

/// Memory of an open `decoupled` pool, part by part. The remaining parts are small:
/// - a group of 256 KiB;
/// - on a file, 8 bytes for each page of 4 KiB and each reproduce thread;
/// - with combination, 16 MiB of writes for each persist thread, and up to five times as much while
///   it combines them;
/// - with several reproduce threads, for each the words of its pages in its largest batch.
///
/// `undo` and `redo` have neither rings nor a queue, and no shadow on mapped media.
///
/// ```
/// use lastword::{Options, Pool};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("bank.pool");
/// let pool = Pool::create(&path, Options::new().bytes(1 << 20).log_bytes(1 << 20))?;
/// let memory = pool.info().memory();
/// assert_eq!((memory.heap_bytes, memory.queue_bytes_max), (1 << 20, 1 << 20));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryUse {
    /// The shadow: as large as the heap or its bound. A copy-on-write shadow takes at most that,
    /// for the pages that were written.
    pub heap_bytes: u64,
    /// The page table of a bounded shadow. For each page of the heap: 8 bytes if copy-on-write, 24
    /// if software. A software shadow adds 16 for each page that fits in the bound.
    pub table_bytes: u64,
    /// The ownership records; see [`Options::ownership_records`]. The kernel provides them as
    /// transactions touch them.
    pub records_bytes: u64,
    /// The most that the volatile ring of each worker takes: its largest region, and the smaller
    /// ones. It takes 64 KiB while the worker's commits are persisted promptly.
    pub ring_bytes: u64,
    /// Writes in the log that are not yet in the heap image: at most the size of the log. A
    /// compressed group counts with its decompressed size.
    pub queue_bytes_max: u64,
    /// Words gathered for the heap image: at most the heap, up to the size of the log or 256 MiB.
    pub gathered_bytes_max: u64,
    /// The pool's files, where the file system is in memory.
    pub file_bytes: u64,
}

impl MemoryUse {
    /// Returns the sum with this number of workers.
    pub fn total_bytes_max(&self, workers: u64) -> u64 {
        let rings = self.ring_bytes.saturating_mul(workers);
        let (queue, gathered) = (self.queue_bytes_max, self.gathered_bytes_max);
        let tables = self.table_bytes.saturating_add(self.records_bytes);
        let parts = [tables, queue, gathered, self.file_bytes, rings];
        parts.iter().fold(self.heap_bytes, |sum, part| sum.saturating_add(*part))
    }
}

impl Info {
    /// Returns the description with another shadow, to compute the memory that it would take.
    #[must_use]
    pub fn with_shadow(self, shadow: Shadow, shadow_bytes: Option<u64>) -> Info {
        Info { shadow, shadow_bytes, ..self }
    }

    /// Returns the bytes of the shadow and of its page table.
    fn shadow_memory(&self) -> (u64, u64) {
        let bound = self.shadow_bytes.unwrap_or(self.heap_bytes).min(self.heap_bytes);
        let pages = self.heap_bytes / PAGE_BYTES;
        match (self.shadow, self.shadow_bytes) {
            (Shadow::Full, _) => (self.heap_bytes, 0),
            (Shadow::CopyOnWrite, None) => (self.heap_bytes, 0),
            (Shadow::CopyOnWrite, Some(_)) => (bound, 8 * pages),
            (Shadow::Software, _) => (bound, 24 * pages + 16 * (bound / PAGE_BYTES)),
        }
    }

    /// Returns the memory that the pool takes while it is open.
    pub fn memory(&self) -> MemoryUse {
        let gathers = self.medium == Some(Medium::File);
        let in_memory = matches!(self.file_system, Some("tmpfs" | "ramfs"));
        let file_bytes = if in_memory { self.file_bytes } else { 0 };
        let (heap_bytes, table_bytes) = self.shadow_memory();
        MemoryUse {
            heap_bytes,
            table_bytes,
            records_bytes: 8 * self.ownership_records.unwrap_or(0),
            ring_bytes: crate::persist::rings::bytes_max(self.ring_bytes),
            queue_bytes_max: self.log_bytes,
            gathered_bytes_max: match gathers {
                true => self.heap_bytes.min(FileHeap::GATHER_BYTES.max(self.log_bytes)),
                false => 0,
            },
            file_bytes,
        }
    }

    /// Returns the description after the heap has grown to this size.
    pub(crate) fn with_heap_bytes(self, heap_bytes: u64) -> Info {
        let added = if self.file_bytes == 0 { 0 } else { heap_bytes - self.heap_bytes };
        Info { heap_bytes, file_bytes: self.file_bytes + added, ..self }
    }

    /// Returns the description after the log has grown to this size.
    pub(crate) fn with_log_bytes(self, log_bytes: u64) -> Info {
        let added = if self.file_bytes == 0 { 0 } else { log_bytes - self.log_bytes };
        Info { log_bytes, file_bytes: self.file_bytes + added, ..self }
    }

    /// Returns the description with another path of log writes.
    pub(crate) fn with_log_path(self, path: LogPath) -> Info {
        let refused = || "the file system refused a direct write".to_owned();
        let page_cache = (!path.direct).then(|| self.page_cache.unwrap_or_else(refused));
        Info { log_path: Some(path), page_cache, ..self }
    }

    /// Describes a pool. `log` is the log file and the path of writes to it.
    pub(crate) fn of(
        file: &PoolFile,
        superblock: &Superblock,
        medium: Medium,
        log: Option<(&PoolFile, LogPath)>,
    ) -> Info {
        let design = design_of(superblock);
        let by_record = design.is_some_and(DesignInfo::writes_records);
        let file_system = file.file_system().ok();
        let in_memory = file_system.is_none_or(|fs| fs.is_in_memory());
        Info {
            path: file.path().into(),
            medium: Some(medium),
            pool_id: superblock.pool,
            generation: superblock.generation,
            design: name(&superblock.design),
            layout: (exact_name(&superblock.layout), superblock.layout_version),
            heap_bytes: superblock.heap_bytes,
            log_bytes: superblock.log_bytes,
            file_bytes: file_bytes(superblock),
            ring_bytes: 8 * Options::new().ring_words() as u64,
            ownership_records: design
                .is_some_and(|design| design.has_records)
                .then(|| records_of(superblock.heap_bytes as usize / 8, 0)),
            shadow: Shadow::Full,
            shadow_bytes: None,
            reproduced_id: TxId(superblock.reproduced),
            clean: superblock.clean,
            in_use: false,
            owner: None,
            file_system: file_system.and_then(|fs| fs.name()),
            survives_power_loss: match medium {
                Medium::File => !in_memory,
                Medium::Dax | Medium::PersistentCache => file.is_dax(),
                Medium::Emulated { .. } => false,
            },
            log_path: log.map(|(_, path)| if by_record { RECORD_PATH } else { path }),
            page_cache: match log {
                Some(_) if by_record => Some("the design writes single records".into()),
                Some((log, path)) if !path.direct => Some(why_page_cache(log)),
                _ => None,
            },
            group: superblock.group,
            compress: superblock.compress,
            checksummed_bytes: superblock.checksummed_bytes(),
        }
    }

    pub(crate) fn in_memory(options: &Options, heap_bytes: u64) -> Result<Info, Error> {
        options.layout_padded()?;
        Ok(Info {
            path: PathBuf::new(),
            medium: None,
            pool_id: 0,
            generation: 1,
            design: String::new(),
            layout: (options.layout.clone(), options.layout_version),
            heap_bytes,
            log_bytes: 0,
            file_bytes: 0,
            ring_bytes: 0,
            ownership_records: None,
            shadow: Shadow::Full,
            shadow_bytes: None,
            reproduced_id: TxId::NONE,
            clean: true,
            in_use: false,
            owner: None,
            file_system: None,
            survives_power_loss: false,
            log_path: None,
            page_cache: None,
            group: 0,
            compress: false,
            checksummed_bytes: 0,
        })
    }
}

/// Returns the size of the pool's files. A log of its own begins with its head.
fn file_bytes(superblock: &Superblock) -> u64 {
    let Superblock { heap_offset, heap_bytes, log_offset, log_bytes, .. } = *superblock;
    let log = if superblock.log_inside { 0 } else { log_offset.saturating_add(log_bytes) };
    heap_offset.saturating_add(heap_bytes).saturating_add(log)
}

/// The path of single records. They are not made of whole blocks, as direct writes must be.
const RECORD_PATH: LogPath = LogPath { io_uring: false, direct: false };

/// Returns the design that wrote the pool last. Ideal reproduction is a mode of `decoupled` with a
/// name of its own, so that no program opens its pools.
fn design_of(superblock: &Superblock) -> Option<&'static DesignInfo> {
    let is_ideal = name(&superblock.design) == ideal::NAME;
    let ideal = is_ideal.then(DesignInfo::of::<Decoupled>);
    DesignInfo::in_superblock(superblock).or(ideal)
}

/// Why groups of the log in this file go through the page cache.
fn why_page_cache(file: &PoolFile) -> String {
    let system = file.file_system().ok();
    match (system, file.why_indirect()) {
        (Some(system), _) if system.is_in_memory() => format!("files on {system} are in memory"),
        (_, Some(refused)) => format!("opening it with O_DIRECT failed: {refused}"),
        (Some(system), None) => format!("{system} refuses direct transfers"),
        (None, None) => "the file system refuses direct transfers".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_use_is_sum_of_parts() {
        let options = Options::new().layout("x", 1);
        let volatile = Info::in_memory(&options, 3 << 30).unwrap();
        assert_eq!(volatile.memory().total_bytes_max(7), 3 << 30);
        let (log_bytes, capacity, ring_bytes) = (64 << 20, 16 << 20, 18 << 20);
        let file_bytes = (3 << 30) + (66 << 20) + 8192;
        let on = |medium, file_system| Info {
            medium: Some(medium),
            file_system,
            log_bytes,
            file_bytes,
            ring_bytes: capacity,
            ..volatile.clone()
        };
        let emulated = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
        let both = (3 << 30) + log_bytes;
        for (info, total) in [
            (on(Medium::File, Some("ext4")), both + (256 << 20)),
            (on(Medium::File, Some("tmpfs")), both + (256 << 20) + file_bytes),
            (on(emulated, Some("tmpfs")), both + file_bytes),
            (on(emulated, Some("ext4")), both),
        ] {
            assert_eq!(info.memory().total_bytes_max(2), total + 2 * ring_bytes, "{info:?}");
            let info = Info { ownership_records: Some(1 << 17), ..info };
            assert_eq!(info.memory().records_bytes, 1 << 20);
            let with_records = total + 2 * ring_bytes + (1 << 20);
            assert_eq!(info.memory().total_bytes_max(2), with_records, "{info:?}");
        }
        let pages = (3 << 30) / 4096;
        for (shadow, bound, bytes, table) in [
            (Shadow::CopyOnWrite, None, 3 << 30, 0),
            (Shadow::CopyOnWrite, Some(64 << 20), 64 << 20, 8 * pages),
            (Shadow::Software, Some(64 << 20), 64 << 20, 24 * pages + 16 * (64 << 8)),
            (Shadow::Software, Some(4 << 30), 3 << 30, 40 * pages),
        ] {
            let info = on(emulated, Some("ext4")).with_shadow(shadow, bound);
            let memory = info.memory();
            assert_eq!((memory.heap_bytes, memory.table_bytes), (bytes, table), "{info:?}");
            assert_eq!(memory.total_bytes_max(0), bytes + table + log_bytes);
        }
    }
}
