//! Creates a pool, completely or not at all.
//!
//! All content is written under temporary names: sizes, superblocks, the allocator's first words.
//! The log is renamed first, then the pool. A crash before the last rename leaves no pool.

use std::path::Path;

use medium::mutants::{Mutant, injected};
use medium::sync::Arc;
use medium::{Domain, HeapMedium, PoolFile, Prewrite, System, writes};
use words::{Addr, Stop, Words};

use super::open::check_memory;
use super::survey::has_records;
use super::{AREA_ALIGN, LOG_SUFFIX, MemoryDemand, Storage, log_path};
use crate::superblock::{
    COPIES_BYTES, FORMAT_VERSION, LogHead, PairedBlock, Superblock, Superblocks, padded,
};
use crate::{Error, Medium, Options};

impl Storage {
    /// Creates the files of a new pool and opens them. Durable on return.
    pub(crate) fn create(
        path: &Path,
        options: &Options,
        design: &str,
        demand: MemoryDemand,
    ) -> Result<(Storage, Created), Error> {
        let medium = options.medium.unwrap_or_else(|| probe(&options.system, path));
        let first = plan(options, design, medium)?;
        let base = u64::from(first.tag()) << words::ADDRESS_BITS;
        let content = format(&super::heap(&first), base);
        Storage::create_with(path, options, (first, medium), demand, content)
    }

    /// Creates a pool with this superblock and these words in its heap, by index; the others are 0.
    pub(crate) fn create_with(
        path: &Path,
        options: &Options,
        (first, medium): (Superblock, Medium),
        demand: MemoryDemand,
        content: impl IntoIterator<Item = (u64, u64)>,
    ) -> Result<(Storage, Created), Error> {
        let system = &options.system;
        check_memory(demand(options, medium, first.heap_bytes))?;
        let end = first.heap_offset + first.heap_bytes;
        // Check before the heap's file is created: the log's name is longer.
        let suffix = if first.log_inside { "" } else { LOG_SUFFIX };
        PoolFile::check_name(system, path, suffix)?;
        // The heap's blocks are only reserved: pages are written in large pieces with one sync,
        // which amortizes the file system's metadata. The log is rewritten all the time, so its
        // blocks are prewritten.
        let file = PoolFile::create_on(system, path, end, Prewrite::No);
        let option = if first.log_inside { "`bytes` or `log_bytes`" } else { "`bytes`" };
        let file = Arc::new(file.map_err(|error| error.sized_by(option))?);
        if !first.log_inside && !injected(Mutant::InterruptedLogKept) {
            remove_interrupted(system, &log_path(path))?;
        }
        let log_file = match first.log_inside {
            true => None,
            false => {
                let bytes = first.log_offset + first.log_bytes;
                let log = log_path(path);
                let file = PoolFile::create_on(system, &log, bytes, Prewrite::Zeros);
                let is_log = || PoolFile::open_on(system, &log).is_ok_and(|it| has_records(&it));
                let file = Arc::new(file.map_err(|error| match error {
                    medium::Error::AlreadyExists { .. } if is_log() => {
                        Error::OnlyLog { path: path.into(), log: log.clone() }
                    }
                    error => error.sized_by("`log_bytes`").into(),
                })?);
                let Superblock { pool, generation, .. } = first;
                LogHead { edition: 0, pool, generation, entered: false }.write(&file, 0)?;
                Some(file)
            }
        };
        let superblocks = Superblocks::create(&file, first)?;
        let mut storage = Storage::assemble(file, log_file, superblocks, medium, options)?;
        let mut batch = Vec::new();
        let mut content = content.into_iter().peekable();
        while let Some((index, value)) = content.next() {
            batch.extend([writes::run(index, 1), value]);
            if batch.len() >= BATCH_WORDS || content.peek().is_none() {
                storage.heap_image.write_back(&batch)?;
                batch.clear();
            }
        }
        storage.heap_image.barrier()?;
        let created = Created { file: Arc::clone(&storage.file), log: storage.log_file.clone() };
        if injected(Mutant::PoolNamedFirst) {
            created.file.publish()?;
        }
        created.or_remove(|| {
            created.log.as_ref().map_or(Ok(()), |log_file| log_file.publish())?;
            Ok(created.file.publish()?)
        })?;
        Ok((storage, created))
    }
}

/// Words of one write to the heap image of a new pool.
const BATCH_WORDS: usize = 1 << 16;

/// The files of a pool during its creation.
pub(crate) struct Created {
    file: Arc<PoolFile>,
    log: Option<Arc<PoolFile>>,
}

impl Created {
    /// Continues the creation, and removes the files if that fails.
    pub(crate) fn or_remove<R>(
        &self,
        go_on: impl FnOnce() -> Result<R, Error>,
    ) -> Result<R, Error> {
        go_on().inspect_err(|_| {
            // Remove the pool first: a log alone does no harm. If the disk cannot even remove a
            // name, an empty pool or such a log remains.
            let removed = self.file.remove();
            if let (Ok(()), Some(log)) = (removed, &self.log) {
                let _ = log.remove();
            }
        })
    }
}

impl Drop for Created {
    fn drop(&mut self) {
        let files = [Some(&self.file), self.log.as_ref()];
        files.into_iter().flatten().for_each(|file| file.end_creation());
    }
}

/// Returns the best medium for this directory: persistent memory if it is there, else the file.
fn probe(system: &System, path: &Path) -> Medium {
    // A temporary file without a name. The later creation reports an error that occurs here.
    let file = PoolFile::create_on(system, path, COPIES_BYTES, Prewrite::No).map(Arc::new);
    match file.map(|file| Domain::dax(&file)) {
        Ok(Ok(_)) => Medium::Dax,
        _ => Medium::File,
    }
}

/// Removes an empty log without a pool, left by an interrupted or failed creation. Without a record
/// nothing is lost: if the pool appears again, it is empty. Any other file stays and ends the
/// creation.
fn remove_interrupted(system: &System, log_path: &Path) -> Result<(), Error> {
    let file = match PoolFile::open_on(system, log_path) {
        Ok(file) if file.len() >= COPIES_BYTES => file,
        // No descriptor or no access: the file cannot be examined.
        Err(error @ medium::Error::Io { .. }) => return Err(error.into()),
        _ => return Ok(()), // none, or another file: creating the log reports it
    };
    let head = PairedBlock::<LogHead>::read(&file)?.current();
    if head.is_ok() && file.is_zero(COPIES_BYTES)? {
        // The pool may have lost its name a moment ago, and a crash could restore it (A9) without
        // its log. Make the current names durable first.
        file.settle_name()?;
        file.remove()?;
    }
    Ok(())
}

/// The generation of a pool that was never opened.
const FIRST_GENERATION: u64 = 1;

/// The superblock of a new pool.
pub(crate) fn plan(options: &Options, design: &str, medium: Medium) -> Result<Superblock, Error> {
    let (heap_bytes, log_bytes) = (options.heap_rounded()?, options.log_rounded()?);
    let log_inside = medium.log_inside();
    let (log_offset, heap_offset) = if log_inside {
        (AREA_ALIGN, AREA_ALIGN + log_bytes.next_multiple_of(AREA_ALIGN))
    } else {
        (COPIES_BYTES, AREA_ALIGN)
    };
    Ok(Superblock {
        version: FORMAT_VERSION,
        edition: 0,
        pool: options.system.random(),
        generation: FIRST_GENERATION,
        clean: true,
        design: padded(design).expect("a design's name is short"),
        layout: options.layout_padded()?,
        layout_version: options.layout_version,
        heap_offset,
        heap_bytes,
        log_inside,
        log_offset,
        log_bytes,
        reproduced: 0,
        log_sequence: 0,
        medium: padded(medium.name()).expect("a medium's name is short"),
        group: 0,
        compress: false,
    })
}

/// Returns the nonzero words of an empty heap, as index and value.
pub(crate) fn format(heap: &lw_alloc::Heap, base: u64) -> Vec<(u64, u64)> {
    struct Batch {
        base: u64,
        words: Vec<(u64, u64)>,
    }
    impl Words for Batch {
        fn read(&mut self, at: Addr) -> Result<u64, Stop> {
            let index = at.byte().wrapping_sub(self.base) / 8;
            let written = self.words.iter().rev().find(|(written, _)| *written == index);
            Ok(written.map_or(0, |(_, value)| *value)) // the heap is zeros
        }
        fn write(&mut self, at: Addr, value: u64) -> Result<(), Stop> {
            self.words.push((at.byte().wrapping_sub(self.base) / 8, value));
            Ok(())
        }
        fn retire(&mut self, _at: Addr, _bytes: u64) -> Result<(), Stop> {
            Err(Stop::BadPointer) // a new heap has nothing to retire
        }
    }
    let mut batch = Batch { base, words: Vec::new() };
    heap.format(&mut batch).expect("the size was checked, and this batch refuses nothing");
    batch.words
}
