//! Opening the files of a pool: everything is checked before it is trusted, and no contents change.

use std::path::Path;
use std::time::Duration;

use medium::mutants::{Mutant, planted};
use medium::sync::Arc;
use medium::{Memory, Patience, PoolFile, Prewrite, System};

use super::survey::{Survey, choose_medium};
use super::{Storage, renew};
use crate::inspect::CheckOptions;
use crate::recover::decide::{Action, LogState};
use crate::superblock::{COPIES_BYTES, Copies, Invalid, LogHead, Superblock, Superblocks};
use crate::sync::thread;
use crate::{Error, Medium, Options};

/// How long the writes of a killed process are waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// A pool's files, checked, and what has to be done before transactions can start.
pub(crate) struct Found {
    pub(crate) file: Arc<PoolFile>,
    /// The log's own file, if it has one.
    pub(crate) log_file: Option<Arc<PoolFile>>,
    pub(crate) superblocks: Superblocks,
    /// What the log's file says, if the log has one.
    pub(crate) log_head: Option<LogHead>,
    /// The medium that it was last on.
    pub(crate) medium: Medium,
    pub(crate) action: Action,
}

/// Bytes of anonymous memory that a design needs for a heap of so many bytes on a medium.
pub(crate) type MemoryBytes = fn(&Options, Medium, u64) -> u64;

/// A pool's files with the media over them.
pub(crate) struct Opened {
    pub(crate) storage: Storage,
    pub(crate) log_head: Option<LogHead>,
    pub(crate) action: Action,
}

/// The allocator's view of a pool's heap.
pub(crate) fn heap(superblock: &Superblock) -> lw_alloc::Heap {
    lw_alloc::Heap::new(superblock.tag(), superblock.heap_bytes)
}

impl Opened {
    /// Opens the files for a pool that goes on. Locks them, and allocates what they lack. Contents
    /// do not change, but for a new log in place of one that is lost, when that was asked for. A
    /// persist barrier for each file, and one for their names. `memory_bytes`: the memory that the
    /// design needs; without it the files are left as they are, holes included.
    pub(crate) fn open(
        path: &Path,
        options: &Options,
        memory_bytes: MemoryBytes,
    ) -> Result<Opened, Error> {
        options.layout_padded()?;
        let found = Survey::of(path, &CheckOptions::from(options), |path| {
            open_settled(&options.system, path)
        })?
        .found()?;
        let medium = choose_medium(options.medium, found.medium).expect("the survey has asked");
        check_size_limits(&found.file, found.log_file.as_deref(), medium)?;
        check_memory(memory_bytes(options, medium, found.superblocks.current().heap_bytes))?;
        // Before anything is mapped or written, and after every check that refuses the pool.
        allocate(&found.file, Prewrite::No, medium)?;
        // Before anything in it is acknowledged: whoever made the pool may have been killed between
        // giving it its name and making that durable. Both files are in one directory.
        if !planted(Mutant::NameNotSettled) {
            found.file.settle_name()?;
        }
        let found = renew::if_lost(found)?;
        let Found { file, log_file, superblocks, log_head, action, .. } = found;
        // As at its creation: written once, so that its groups need no metadata. After the renewal,
        // since a log that is lost need not be allocated.
        if let Some(log_file) = &log_file {
            allocate(log_file, Prewrite::Zeros, medium)?;
        }
        let storage = Storage::assemble(file, log_file, superblocks, medium, options)?;
        Ok(Opened { storage, log_head, action })
    }
}

impl Found {
    /// The file that holds the log.
    pub(crate) fn log_place(&self) -> &Arc<PoolFile> {
        self.log_file.as_ref().unwrap_or(&self.file)
    }
}

/// Opens a file of a pool that is going to be written, and makes durable what is read of it.
pub(crate) fn open_settled(system: &System, path: &Path) -> Result<PoolFile, medium::Error> {
    let file = PoolFile::open_on(system, path)?;
    settle(&file)?;
    Ok(file)
}

/// Allocates what the file lacks. A pool on `file` opens where the disk has no room for that: a
/// write without room is an error and poisons the pool, what was acknowledged is in the log, and a
/// pool that is only read needs no room. A file system that compresses or deduplicates makes
/// complete files look sparse, so a refusal would be wrong there. A store into a mapped hole kills
/// the process, so a pool on mapped media is refused.
fn allocate(file: &PoolFile, prewrite: Prewrite, medium: Medium) -> Result<(), Error> {
    match allocate_again(file, prewrite) {
        Err(medium::Error::Unallocated { .. }) if medium == Medium::File => Ok(()),
        done => Ok(done?),
    }
}

/// That the system has memory for a pool's words, asked before its disk is: a pool that cannot be
/// held takes no disk. What is asked for is given back, since its pages depend on what recovery
/// finds; another process may take it meanwhile, which is the same error later.
///
/// # Errors
/// [`medium::Error::NoMemory`].
pub(super) fn check_memory(bytes: u64) -> Result<(), Error> {
    if bytes > 0 {
        drop(Memory::anonymous(bytes)?);
    }
    Ok(())
}

/// That this process may write all that has to be written: mapped files are, up to the superblocks.
fn check_size_limits(
    file: &PoolFile,
    log_file: Option<&PoolFile>,
    medium: Medium,
) -> Result<(), Error> {
    let end = if medium == Medium::File { file.len() } else { COPIES_BYTES };
    file.check_size_limit(end)?;
    log_file.map_or(Ok(()), |log| Ok(log.check_size_limit(log.len())?))
}

/// A restored copy may have holes, and a full disk has no room for them later: a store into a
/// mapped one would be a SIGBUS.
fn allocate_again(file: &PoolFile, prewrite: Prewrite) -> Result<(), medium::Error> {
    if planted(Mutant::HolesKept) { Ok(()) } else { file.allocate_again(prewrite) }
}

/// What is read from here on is durable: recovery acts on it. See `recover`.
fn settle(file: &PoolFile) -> Result<(), medium::Error> {
    let is_log = file.path().extension().is_some_and(|extension| extension == "log");
    let mutant = if is_log { Mutant::LogNotSettled } else { Mutant::SuperblockNotSettled };
    if planted(mutant) { Ok(()) } else { file.settle() }
}

/// Opens the log. The pool's own file is locked by then, so whoever has the log's lock is a process
/// that was killed and whose last writes are still on their way, which takes the disk's time.
/// Answers nothing when there is no such file.
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

/// How the log fits, and the copies of its head, where there are any.
pub(crate) fn log_state(
    superblock: &Superblock,
    log_file: Option<&PoolFile>,
) -> Result<(LogState, Option<Copies<LogHead>>), Error> {
    if superblock.log_inside {
        return Ok((LogState::Inside, None));
    }
    let Some(file) = log_file else { return Ok((LogState::Missing, None)) };
    if file.len() < COPIES_BYTES {
        return Ok((LogState::Short, None));
    }
    let copies = Copies::<LogHead>::read(file)?;
    let state = match copies.current() {
        Err(Invalid::Version(_)) => LogState::Newer,
        Err(Invalid::Damaged | Invalid::Contradiction) => LogState::Damaged,
        Ok(head) if !head.can_go_on() => LogState::Damaged,
        Ok(head) if head.pool != superblock.pool => LogState::OtherPool,
        Ok(_) if file.len() != superblock.log_offset + superblock.log_bytes => LogState::Short,
        Ok(head) if head.generation == superblock.generation => LogState::Same,
        Ok(head) if head.generation.checked_sub(1) == Some(superblock.generation) => {
            LogState::OneLater
        }
        Ok(_) => LogState::OtherTime,
    };
    Ok((state, Some(copies)))
}
