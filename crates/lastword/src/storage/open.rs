//! Opens the files of a pool. Every value is checked before use, and no content changes.

use std::path::Path;
use std::time::Duration;

use medium::mutants::{Mutant, injected};
use medium::sync::Arc;
use medium::{HeapMedium, Memory, PageChecksums, Patience, PoolFile, Prewrite, System};
use words::TxId;

use super::begin::{check_kept, replay_kept};
use super::survey::{Survey, choose_medium};
use super::{Damaged, Replay, Storage, damaged_pages, page_checksums, renew};
use crate::inspect::CheckOptions;
use crate::opening::{OnOpening, OpeningStep, StepProgress};
use crate::perform::check_records;
use crate::recover::decide::{Action, LogState};
use crate::superblock::{COPIES_BYTES, Invalid, LogHead, PairedBlock, Superblock, Superblocks};
use crate::sync::thread;
use crate::{Error, Medium, Options};

/// How long to wait for the writes of a killed process.
const PATIENCE: Duration = Duration::from_secs(10);

/// The checked files of a pool, and the action that must precede transactions.
pub(crate) struct Found {
    pub(crate) file: Arc<PoolFile>,
    /// The log's own file, if it has one.
    pub(crate) log_file: Option<Arc<PoolFile>>,
    pub(crate) superblocks: Superblocks,
    /// The content of the log head, if the log has its own file.
    pub(crate) log_head: Option<LogHead>,
    /// The pool's last medium.
    pub(crate) medium: Medium,
    pub(crate) action: Action,
}

/// The anonymous memory that a design needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    /// Bytes for the words of the heap, and copies of them.
    pub(crate) heap_bytes: u64,
    /// Number of ownership records.
    pub(crate) records: u64,
}

/// Returns a design's demand from the options, the medium and the bytes of the heap.
pub(crate) type MemoryDemand = fn(&Options, Medium, u64) -> Demand;

/// A pool's files, with the media opened on them.
pub(crate) struct Opened {
    pub(crate) storage: Storage,
    pub(crate) log_head: Option<LogHead>,
    pub(crate) action: Action,
    /// The opening drops all later transactions of the log.
    pub(crate) keep: Option<TxId>,
    pub(crate) on_opening: OnOpening,
}

/// Returns the allocator's view of a pool's heap.
pub(crate) fn heap(superblock: &Superblock) -> lw_alloc::Heap {
    lw_alloc::Heap::new(superblock.tag(), superblock.heap_bytes)
}

impl Opened {
    /// Opens the files for transactions: locks them, and allocates their missing blocks. Contents
    /// do not change, except that a lost log is replaced on request. Costs a persist barrier for
    /// each file, and one for their names. If memory for the design is missing, the files stay
    /// unchanged, holes included.
    pub(crate) fn open(
        path: &Path,
        options: &Options,
        demand: MemoryDemand,
    ) -> Result<Opened, Error> {
        options.layout_padded()?;
        let found = Survey::of(path, &CheckOptions::from(options), |path| {
            open_settled(&options.system, path)
        })?
        .found()?;
        let medium = choose_medium(options.medium, found.medium).expect("the survey checked it");
        check_size_limits(&found.file, found.log_file.as_deref(), medium)?;
        let superblock = *found.superblocks.current();
        let keep = options.kept();
        keep.map_or(Ok(()), |last| check_kept(last, &superblock, found.action))?;
        check_memory(demand(options, medium, superblock.heap_bytes))?;
        let sums = page_checksums(&found.file, &superblock)?;
        if let Some(sums) = &sums {
            let verify = || options.on_opening.begin(OpeningStep::Verify, superblock.heap_bytes);
            let progress = options.verifies_pages().then(verify);
            found.damaged(sums, progress.as_ref(), keep)?.check()?;
        }
        // Before any mapping or write, and after every check that refuses the pool.
        allocate(&found.file, Prewrite::No, medium)?;
        // Before any transaction is acknowledged: the process that created the pool may have been
        // killed between the rename and its durability. Both files are in one directory.
        if !injected(Mutant::NameNotSettled) {
            found.file.settle_name()?;
        }
        let found = renew::if_lost(found)?;
        let Found { file, log_file, superblocks, log_head, action, .. } = found;
        // As at creation, blocks are written once, so that later group writes need no metadata.
        // After the renewal, since a lost log needs no blocks.
        if let Some(log_file) = &log_file {
            allocate(log_file, super::prewrite(log_file.len()), medium)?;
        }
        let files = (file, log_file);
        let storage = Storage::assemble(files, superblocks, medium, options, sums.as_ref())?;
        let on_opening = options.on_opening.clone();
        Ok(Opened { storage, log_head, action, keep, on_opening })
    }
}

impl Found {
    /// The file that holds the log.
    pub(crate) fn log_place(&self) -> &Arc<PoolFile> {
        self.log_file.as_ref().unwrap_or(&self.file)
    }

    /// Returns the damaged pages: those that are marked, or, with a progress, all that differ from
    /// their checksums. `keep`: the last transaction that recovery applies, if not all.
    ///
    /// # Errors
    /// As [`damaged_pages`].
    pub(crate) fn damaged(
        &self,
        sums: &PageChecksums,
        verify: Option<&StepProgress<'_>>,
        keep: Option<TxId>,
    ) -> Result<Damaged, Error> {
        let differing = match verify {
            Some(progress) => {
                sums.differing(&self.file, self.heap_offset(), &|bytes| progress.add(bytes))?
            }
            None => sums.marked_pages(),
        };
        self.damaged_among(sums, differing, keep)
    }

    /// Returns the pages that differ from their checksums.
    ///
    /// # Errors
    /// As [`damaged_pages`].
    pub(crate) fn damaged_pages(&self, sums: &PageChecksums) -> Result<Damaged, Error> {
        self.damaged_among(sums, sums.differing(&self.file, self.heap_offset(), &|_| ())?, None)
    }

    /// The same for the pages on disk; includes pages that the disk cannot read.
    ///
    /// # Errors
    /// That of the replay.
    pub(crate) fn damaged_pages_on_disk(&self, sums: &PageChecksums) -> Result<Damaged, Error> {
        self.damaged_among(sums, sums.differing_on_disk(&self.file, self.heap_offset())?, None)
    }

    fn heap_offset(&self) -> u64 {
        self.superblocks.current().heap_offset
    }

    /// Removes the pages that recovery will write.
    fn damaged_among(
        &self,
        sums: &PageChecksums,
        differing: Vec<usize>,
        keep: Option<TxId>,
    ) -> Result<Damaged, Error> {
        let superblock = self.superblocks.current();
        let replay = |heap_image: &mut dyn HeapMedium| {
            let place = self.log_place();
            let log = Storage::log_reader(place, superblock, self.medium)?;
            replay_kept(keep, superblock, &log, heap_image, place.path()).map(drop)
        };
        let replays = self.action == Action::Replay && self.medium == Medium::File;
        let replay: Option<Replay<'_>> = if replays { Some(&replay) } else { None };
        damaged_pages((&self.file, superblock), sums, differing, replay)
    }
}

/// Opens a pool's file for writing, and makes durable what this process reads from it.
pub(crate) fn open_settled(system: &System, path: &Path) -> Result<PoolFile, medium::Error> {
    let file = PoolFile::open_on(system, path)?;
    settle(&file)?;
    Ok(file)
}

/// Allocates the file's missing blocks. On medium `file` the pool opens even if the disk has no
/// room for them, and takes nothing of the room that there is. A later write without room is an
/// error that poisons the pool, acknowledged transactions are in the log, and a pool that is only
/// read needs no room. File systems that compress or deduplicate make complete files look sparse,
/// so a refusal would be wrong there. On mapped media the pool is refused, because a store into a
/// mapped hole kills the process.
fn allocate(file: &PoolFile, prewrite: Prewrite, medium: Medium) -> Result<(), Error> {
    match allocate_again(file, prewrite) {
        Err(medium::Error::Unallocated { .. }) if medium == Medium::File => Ok(()),
        done => Ok(done?),
    }
}

/// Checks that the system has memory for a pool's words and ownership records, before disk space is
/// requested. The memory is freed again, because the content of its pages depends on recovery.
/// Another process may take it meanwhile, which leads to the same error later.
///
/// # Errors
/// [`medium::Error::NoMemory`], [`Error::NoRecords`].
pub(super) fn check_memory(Demand { heap_bytes, records }: Demand) -> Result<(), Error> {
    // Kept until the records are checked, as the pool needs both.
    let _heap = if heap_bytes > 0 { Some(Memory::room(heap_bytes)?) } else { None };
    check_records(records)
}

/// Checks that the file-size limit of this process covers all writes. A mapped file needs only its
/// superblocks.
fn check_size_limits(
    file: &PoolFile,
    log_file: Option<&PoolFile>,
    medium: Medium,
) -> Result<(), Error> {
    let end = if medium == Medium::File { file.len() } else { COPIES_BYTES };
    file.check_size_limit(end)?;
    log_file.map_or(Ok(()), |log| Ok(log.check_size_limit(log.len())?))
}

/// Allocates blocks again. A restored copy may have holes, and a full disk has no room for them
/// later; a store into a mapped hole is a SIGBUS.
fn allocate_again(file: &PoolFile, prewrite: Prewrite) -> Result<(), medium::Error> {
    if injected(Mutant::HolesKept) { Ok(()) } else { file.allocate_again(prewrite) }
}

/// Makes durable what this process reads from here on, since recovery acts on it. See `recover`.
fn settle(file: &PoolFile) -> Result<(), medium::Error> {
    let is_log = file.path().extension().is_some_and(|extension| extension == "log");
    let mutant = if is_log { Mutant::LogNotSettled } else { Mutant::SuperblockNotSettled };
    if injected(mutant) { Ok(()) } else { file.settle() }
}

/// Opens the log; returns `None` if the file does not exist. The pool's own file is locked by then,
/// so a lock on the log belongs to a killed process whose last writes are in flight. It ends as
/// soon as the disk completes them.
pub(crate) fn open_log(
    path: &Path,
    open: impl Fn(&Path) -> Result<PoolFile, medium::Error>,
) -> Result<Option<Arc<PoolFile>>, Error> {
    let mut patience = Patience::new(PATIENCE);
    loop {
        match open(path) {
            Err(medium::Error::InUse { .. }) if !patience.is_over() => {
                thread::sleep(Duration::from_millis(1));
            }
            Ok(file) => return Ok(Some(Arc::new(file))),
            Err(medium::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns how the log fits the pool, and the copies of its head, if any.
pub(crate) fn log_state(
    superblock: &Superblock,
    log_file: Option<&PoolFile>,
) -> Result<(LogState, Option<PairedBlock<LogHead>>), Error> {
    if superblock.log_inside {
        return Ok((LogState::Inside, None));
    }
    let Some(file) = log_file else { return Ok((LogState::Missing, None)) };
    if file.len() < COPIES_BYTES {
        return Ok((LogState::Short, None));
    }
    let copies = PairedBlock::<LogHead>::read(file)?;
    let state = match copies.current() {
        Err(Invalid::Version(_)) => LogState::Newer,
        Err(Invalid::Damaged | Invalid::Contradiction) => LogState::Damaged,
        Ok(head) if !head.can_go_on() => LogState::Damaged,
        Ok(head) if head.pool != superblock.pool => LogState::OtherPool,
        Ok(_) if !superblock.is_log_file_length(file.len()) => LogState::Short,
        Ok(head) if head.generation == superblock.generation => LogState::Same,
        Ok(head) if head.is_before_superblock(superblock.generation) => LogState::OneLater,
        Ok(_) => LogState::OtherTime,
    };
    Ok((state, Some(copies)))
}
