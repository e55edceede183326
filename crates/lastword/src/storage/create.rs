//! Creates a pool, completely or not at all.
//!
//! All content is written under temporary names: sizes, superblocks, the allocator's first words.
//! The log is renamed first, then the pool. A crash before the last rename leaves no pool.

use std::path::Path;

use medium::mutants::{Mutant, injected};
use medium::sync::Arc;
use medium::{ChecksumArea, Domain, HeapMedium, PoolFile, Prewrite, System, writes};
use words::{Addr, Stop, Words};

use super::open::check_memory;
use super::survey::has_records;
use super::{AREA_ALIGN, LOG_SUFFIX, MemoryDemand, Storage, log_path};
use crate::registry::DesignInfo;
use crate::shadow::PAGE_BYTES;
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
        let medium = options.medium.unwrap_or_else(|| Storage::probe(&options.system, path));
        let first = plan(options, design, medium)?;
        let base = u64::from(first.tag()) << words::ADDRESS_BITS;
        let content = format(&super::heap(&first), base);
        Storage::create_with(path, options, (first, medium), demand, content)
    }

    /// Returns the best medium for this directory: persistent memory if it is there, else the file.
    pub(crate) fn probe(system: &System, path: &Path) -> Medium {
        // A temporary file without a name. The later creation reports an error that occurs here.
        let file = PoolFile::create_on(system, path, COPIES_BYTES, Prewrite::No).map(Arc::new);
        match file.map(|file| Domain::dax(&file)) {
            Ok(Ok(_)) => Medium::Dax,
            _ => Medium::File,
        }
    }

    /// Creates a pool with this superblock and these words in its heap, in ascending order of their
    /// indices; the others are 0.
    pub(crate) fn create_with(
        path: &Path,
        options: &Options,
        (first, medium): (Superblock, Medium),
        demand: MemoryDemand,
        content: impl IntoIterator<Item = (u64, u64)>,
    ) -> Result<(Storage, Created), Error> {
        check_memory(demand(options, medium, first.heap_bytes))?;
        let created = Created::unnamed(&options.system, path, &first)?;
        let superblocks = Superblocks::create(&created.file, first)?;
        let (file, log) = (Arc::clone(&created.file), created.log.clone());
        let mut storage = Storage::assemble((file, log), superblocks, medium, options, None)?;
        let mut batch = RunBatch::new();
        for (index, value) in content {
            batch.push(index, value);
            if batch.is_full() {
                storage.heap_image.write_back(&batch.take())?;
                // The words come in order, so few pages get more. Memory stays small.
                storage.heap_image.write_out()?;
            }
        }
        storage.heap_image.write_back(&batch.take())?;
        storage.heap_image.barrier()?;
        storage.heap_image.seal(0..(first.heap_bytes / PAGE_BYTES) as usize)?;
        created.publish()?;
        Ok((storage, created))
    }
}

/// Words of one write to the heap image of a new pool.
const BATCH_WORDS: usize = 1 << 16;

/// The words of a new heap image that are not 0, in ascending order, as a batch of runs.
///
/// A run continues across fewer zeros than a page has words, so no page of zeros is written. A page
/// with a single run is written without a read before. This matters for a converted heap, because
/// nearly all of its pages have some zeros.
struct RunBatch {
    words: Vec<u64>,
    /// Place in `words` of the last run's head, index of the run's first word, and index after it.
    run: Option<(usize, u64, u64)>,
}

impl RunBatch {
    /// Fewer words than a page of 4 KiB has.
    const GAP_MAX: u64 = 4096 / 8 - 1;

    fn new() -> RunBatch {
        RunBatch { words: Vec::with_capacity(BATCH_WORDS + 2), run: None }
    }

    /// Adds a word. It replaces the word before it if both have one index.
    fn push(&mut self, index: u64, value: u64) {
        let last = self.run.filter(|&(_, first, end)| {
            // The gap becomes zeros, so no word in it may have been added before.
            debug_assert!(index + 1 >= end, "words are added in ascending order");
            index.checked_sub(end).is_some_and(|gap| gap <= RunBatch::GAP_MAX)
                && index - first < writes::RUN_WORDS_MAX as u64
        });
        let (head, first, end) = last.unwrap_or((self.words.len(), index, index));
        if last.is_none() {
            self.words.push(0);
        }
        self.words.resize(self.words.len() + (index - end) as usize, 0);
        self.words.push(value);
        self.words[head] = writes::run(first, (index + 1 - first) as usize);
        self.run = Some((head, first, index + 1));
    }

    fn is_full(&self) -> bool {
        self.words.len() >= BATCH_WORDS
    }

    /// Returns the batch, and begins another.
    fn take(&mut self) -> Vec<u64> {
        std::mem::replace(self, RunBatch::new()).words
    }
}

/// The files of a pool during its creation.
pub(crate) struct Created {
    pub(crate) file: Arc<PoolFile>,
    log: Option<Arc<PoolFile>>,
}

impl Created {
    /// Creates the files of a pool with this superblock, still without names: a heap image of
    /// zeros, and an empty log. The superblock itself is not written.
    pub(crate) fn unnamed(
        system: &System,
        path: &Path,
        first: &Superblock,
    ) -> Result<Created, Error> {
        let end = first.heap_offset + first.heap_bytes;
        // Check before the heap's file is created: the log's name is longer.
        let suffix = if first.log_inside { "" } else { LOG_SUFFIX };
        PoolFile::check_name(system, path, suffix)?;
        // The heap's blocks are only reserved: pages are written in large pieces with one sync,
        // which amortizes the file system's metadata. The log is rewritten all the time, so the
        // blocks of a small one are prewritten.
        let file = PoolFile::create_on(system, path, end, Prewrite::No);
        let option = if first.log_inside { "`bytes` or `log_bytes`" } else { "`bytes`" };
        let file = Arc::new(file.map_err(|error| error.sized_by(option))?);
        if !first.log_inside && !injected(Mutant::InterruptedLogKept) {
            remove_interrupted(system, &log_path(path))?;
        }
        let log = if first.log_inside { None } else { Some(new_log(system, path, first)?) };
        Ok(Created { file, log })
    }

    /// Makes the files durable and names them: the log first, then the pool.
    pub(crate) fn publish(&self) -> Result<(), Error> {
        if injected(Mutant::PoolNamedFirst) {
            self.file.publish()?;
        }
        self.or_remove(|| {
            self.log.as_ref().map_or(Ok(()), |log_file| log_file.publish())?;
            Ok(self.file.publish()?)
        })
    }

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

/// Creates the log file of a pool with this superblock: empty, and without a name.
fn new_log(system: &System, path: &Path, first: &Superblock) -> Result<Arc<PoolFile>, Error> {
    let bytes = first.log_file_bytes();
    let log = log_path(path);
    let file = PoolFile::create_on(system, &log, bytes, super::prewrite(bytes));
    let is_log = || PoolFile::open_on(system, &log).is_ok_and(|it| has_records(&it));
    let file = Arc::new(file.map_err(|error| match error {
        medium::Error::AlreadyExists { .. } if is_log() => {
            Error::OnlyLog { path: path.into(), log: log.clone() }
        }
        error => error.sized_by("`log_bytes`").into(),
    })?);
    let Superblock { pool, generation, .. } = *first;
    LogHead { edition: 0, pool, generation, entered: false }.write(&file, 0)?;
    Ok(file)
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
    let by_records = DesignInfo::by_name(design).is_some_and(DesignInfo::writes_records);
    let is_paged = medium == Medium::File && !by_records;
    let (heap_bytes, log_bytes) = (options.heap_rounded()?, options.log_rounded(is_paged)?);
    let log_inside = medium.log_inside();
    // The checksums of the pages of the largest heap lie before the first area.
    let first_area = match options.page_checksums.keeps {
        true => COPIES_BYTES + ChecksumArea::bytes_for(options.room(heap_bytes)),
        false => COPIES_BYTES,
    };
    let first_area = first_area.next_multiple_of(AREA_ALIGN);
    let (log_offset, heap_offset) = if log_inside {
        (first_area, first_area + log_bytes.next_multiple_of(AREA_ALIGN))
    } else {
        (COPIES_BYTES, first_area)
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
        migrating: 0,
        growing: 0,
        log_growing: 0,
        page_checksums: options.page_checksums.keeps,
    })
}

/// Returns the nonzero words of an empty heap, as index and value, in the order of their indices.
/// If two have the same index, the later one counts.
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
    batch.words.sort_by_key(|(index, _)| *index);
    batch.words
}

#[cfg(test)]
mod tests {
    use medium::writes::{Piece, Pieces};

    use super::*;

    fn runs(content: impl IntoIterator<Item = (u64, u64)>) -> Vec<(u64, Vec<u64>)> {
        let mut batch = RunBatch::new();
        let mut runs = Vec::new();
        let mut add = |batch: Vec<u64>| {
            runs.extend(Pieces::new(&batch).map(|piece| match piece {
                Piece::Run(index, words) => (index, words.to_vec()),
                Piece::Mark(_) => panic!("a new heap has no marks"),
            }));
        };
        for (index, value) in content {
            batch.push(index, value);
            if batch.is_full() {
                add(batch.take());
            }
        }
        add(batch.take());
        runs
    }

    #[test]
    fn neighboring_words_of_new_heap_are_one_run() {
        assert_eq!(runs([]), []);
        assert_eq!(runs([(5, 1), (6, 2), (9, 3)]), [(5, vec![1, 2, 0, 0, 3])]);
        // Of two words with the same index the later one counts.
        assert_eq!(runs([(5, 1), (5, 2), (6, 3)]), [(5, vec![1]), (5, vec![2, 3])]);
        // Zeros of a page's length end a run.
        let zeros = [vec![1], vec![0; 511], vec![2]].concat();
        assert_eq!(runs([(0, 1), (512, 2)]), [(0, zeros)]);
        assert_eq!(runs([(0, 1), (513, 2)]), [(0, vec![1]), (513, vec![2])]);
    }

    #[test]
    fn runs_of_large_new_heap_are_long() {
        // Every other word, as in a heap of objects of 8 bytes.
        let words = 1 << 20;
        let runs = runs((0..words).step_by(2).map(|index| (index, index + 1)));
        // A run has at most 2^16 - 1 words.
        assert!(runs.len() <= 1 + words as usize / writes::RUN_WORDS_MAX, "{} runs", runs.len());
        let mut image = vec![0; words as usize];
        for (first, words) in runs {
            image[first as usize..][..words.len()].copy_from_slice(&words);
        }
        let expected = |index: u64| if index.is_multiple_of(2) { index + 1 } else { 0 };
        assert!(image.into_iter().zip(0..).all(|(word, index)| word == expected(index)));
    }
}
