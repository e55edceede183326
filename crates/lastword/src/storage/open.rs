//! Opening the files of a pool: everything is checked before it is trusted, and nothing is written.

use std::path::Path;
use std::time::Duration;

use medium::mutants::{Mutant, planted};
use medium::sync::Arc;
use medium::{Patience, PoolFile};

use super::{AREA_ALIGN, Storage, log_path};
use crate::ideal;
use crate::recover::decide::{Action, LogState, decide};
use crate::superblock::{
    COPIES_BYTES, Copies, FORMAT_VERSION, Invalid, LogHead, Superblock, Superblocks, name, padded,
};
use crate::sync::thread;
use crate::{Error, LogMismatch, Medium, Options};

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
    /// Opens the files for a pool that goes on. Locks them; writes nothing. A persist barrier for
    /// each file, and one for their names.
    pub(crate) fn open(path: &Path, options: &Options) -> Result<Opened, Error> {
        let found = Found::open(path, |path| {
            let file = PoolFile::open_on(&options.system, path)?;
            settle(&file)?;
            Ok(file)
        })?;
        check_layout(&found, options)?;
        let medium = choose_medium(options.medium, found.medium)?;
        let Found { file, log_file, superblocks, log_head, action, .. } = found;
        // Before anything in it is acknowledged: whoever made the pool may have been killed between
        // giving it its name and making that durable. Both files are in one directory.
        if !planted(Mutant::NameNotSettled) {
            file.settle_name()?;
        }
        let storage = Storage::assemble(file, log_file, superblocks, medium, options)?;
        Ok(Opened { storage, log_head, action })
    }
}

impl Found {
    /// Opens the files for a look: others may look at the same time, nobody may go on.
    pub(crate) fn open_shared(path: &Path) -> Result<Found, Error> {
        Found::open(path, |path| PoolFile::open_shared(path))
    }

    fn open(
        path: &Path,
        open: impl Fn(&Path) -> Result<PoolFile, medium::Error>,
    ) -> Result<Found, Error> {
        Found::of(Arc::new(open(path)?), |log_path| open_log(log_path, &open))
    }

    /// What is in a pool's file that is open and locked. Its log is opened here, if it has one of
    /// its own; `open_log` answers nothing when there is none.
    pub(crate) fn of(
        file: Arc<PoolFile>,
        open_log: impl FnOnce(&Path) -> Result<Option<Arc<PoolFile>>, Error>,
    ) -> Result<Found, Error> {
        let superblocks = read_superblocks(&file)?;
        let superblock = *superblocks.current();
        check_areas(&superblock, &file)?;
        check_length(&superblock, &file)?;
        check_design(&superblock, &file)?;
        let medium = own_medium(&superblock, &file)?;
        let log_path = log_path(file.path());
        let log_file = match superblock.log_inside {
            true => None,
            false => open_log(&log_path)?,
        };
        let (state, log_head) = log_state(&superblock, log_file.as_deref())?;
        let action = decide(state, superblock.clean);
        if action == Action::Refuse {
            return Err(refusal(state, &superblock, log_file.as_deref(), log_head, &log_path));
        }
        let log_head = log_head.and_then(Result::ok);
        Ok(Found { file, log_file, superblocks, log_head, medium, action })
    }

    /// The file that holds the log.
    pub(crate) fn log_place(&self) -> &Arc<PoolFile> {
        self.log_file.as_ref().unwrap_or(&self.file)
    }
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

fn check_layout(found: &Found, options: &Options) -> Result<(), Error> {
    let superblock = found.superblocks.current();
    let asked = (options.layout_padded()?, options.layout_version);
    if asked == (superblock.layout, superblock.layout_version) {
        return Ok(());
    }
    Err(Error::Layout {
        path: found.file.path().into(),
        found: name(&superblock.layout),
        found_version: superblock.layout_version,
        expected: options.layout.clone(),
        expected_version: options.layout_version,
    })
}

fn read_superblocks(file: &Arc<PoolFile>) -> Result<Superblocks, Error> {
    let path = || file.path().to_path_buf();
    if file.len() < COPIES_BYTES {
        return Err(Error::NotAPool { path: path() });
    }
    Superblocks::read(file)?.map_err(|invalid| match invalid {
        Invalid::Damaged => Error::NotAPool { path: path() },
        Invalid::Contradiction => Error::Contradiction { path: path() },
        Invalid::Version(found) => {
            Error::FormatVersion { path: path(), found, expected: FORMAT_VERSION }
        }
    })
}

/// Whether the design that wrote it is one whose log this program can recover.
pub(crate) fn check_design(superblock: &Superblock, file: &PoolFile) -> Result<(), Error> {
    if super::begin::is_known(superblock) {
        return Ok(());
    }
    if padded(ideal::NAME) == Some(superblock.design) {
        return Err(Error::NotAtHome { path: file.path().into() });
    }
    Err(Error::UnknownDesign { path: file.path().into(), found: name(&superblock.design) })
}

/// Whether the areas lie in order and apart, and the numbers are those of a pool. They came from
/// the disk.
pub(crate) fn check_areas(superblock: &Superblock, file: &PoolFile) -> Result<(), Error> {
    let path = || file.path().to_path_buf();
    let Superblock { heap_offset, heap_bytes, log_offset, log_bytes, .. } = *superblock;
    let heap_end = heap_offset.checked_add(heap_bytes);
    let log_end = log_offset.checked_add(log_bytes);
    let (Some(heap_end), Some(log_end)) = (heap_end, log_end) else {
        return Err(Error::NotAPool { path: path() });
    };
    let heap_starts = if superblock.log_inside { log_end } else { COPIES_BYTES };
    let in_order = log_offset >= COPIES_BYTES
        && heap_offset >= heap_starts
        && heap_offset.is_multiple_of(AREA_ALIGN)
        && heap_bytes.is_multiple_of(lw_alloc::CHUNK_BYTES)
        && heap_bytes >= lw_alloc::HEAP_BYTES_MIN
        && heap_end <= 1 << words::ADDRESS_BITS
        && log_offset.is_multiple_of(4096)
        && log_bytes.is_multiple_of(4096)
        && log_bytes > 0
        && superblock.can_go_on()
        && superblock.log_sequence.is_multiple_of(if superblock.log_inside { 64 } else { 4096 });
    if in_order { Ok(()) } else { Err(Error::NotAPool { path: path() }) }
}

/// Whether the file is as long as its areas, which are in order.
fn check_length(superblock: &Superblock, file: &PoolFile) -> Result<(), Error> {
    let (expected, found) = (superblock.heap_offset + superblock.heap_bytes, file.len());
    let path = file.path().to_path_buf();
    match found.cmp(&expected) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Less => Err(Error::Truncated { path, expected, found }),
        std::cmp::Ordering::Greater => Err(Error::TooLong { path, expected, found }),
    }
}

/// The medium that the pool was last on.
pub(crate) fn own_medium(superblock: &Superblock, file: &PoolFile) -> Result<Medium, Error> {
    let found = name(&superblock.medium);
    Medium::named(&found)
        .filter(|medium| medium.log_inside() == superblock.log_inside)
        .ok_or_else(|| Error::UnknownMedium { path: file.path().into(), found })
}

/// What is mapped can go on as any medium that is; a file cannot become one.
fn choose_medium(asked: Option<Medium>, own: Medium) -> Result<Medium, Error> {
    match asked {
        None => Ok(own),
        Some(asked) if asked.log_inside() == own.log_inside() => Ok(asked),
        Some(_) => Err(Error::WrongMedium { own: own.name() }),
    }
}

/// How the log's head fits, and the head or what is wrong with it.
pub(crate) fn log_state(
    superblock: &Superblock,
    log_file: Option<&PoolFile>,
) -> Result<(LogState, Option<Result<LogHead, Invalid>>), Error> {
    if superblock.log_inside {
        return Ok((LogState::Inside, None));
    }
    let Some(file) = log_file else { return Ok((LogState::Missing, None)) };
    if file.len() < COPIES_BYTES {
        return Ok((LogState::Short, None));
    }
    let read = Copies::<LogHead>::read(file)?.current();
    let read = read.and_then(|head| if head.can_go_on() { read } else { Err(Invalid::Damaged) });
    let Ok(head) = read else { return Ok((LogState::Damaged, Some(read))) };
    let state = if head.pool != superblock.pool {
        LogState::OtherPool
    } else if file.len() != superblock.log_offset + superblock.log_bytes {
        LogState::Short
    } else if head.generation == superblock.generation {
        LogState::Same
    } else if head.generation.checked_sub(1) == Some(superblock.generation) {
        LogState::OneLater
    } else {
        LogState::OtherTime
    };
    Ok((state, Some(Ok(head))))
}

/// What to tell about a log that does not fit.
fn refusal(
    state: LogState,
    superblock: &Superblock,
    log_file: Option<&PoolFile>,
    log_head: Option<Result<LogHead, Invalid>>,
    path: &Path,
) -> Error {
    let path = path.to_path_buf();
    let why = match (state, log_head) {
        (LogState::Missing, _) => return Error::LogMissing { path },
        (LogState::Short, _) => LogMismatch::Length {
            found: log_file.map_or(0, PoolFile::len),
            expected: superblock.log_offset + superblock.log_bytes,
        },
        (LogState::OtherPool, Some(Ok(head))) => {
            LogMismatch::OtherPool { found: head.pool, expected: superblock.pool }
        }
        (_, Some(Ok(head))) => {
            let expected = superblock.generation;
            LogMismatch::Generation { found: head.generation, expected }
        }
        (_, Some(Err(Invalid::Version(found)))) => {
            LogMismatch::Version { found, expected: FORMAT_VERSION }
        }
        (_, Some(Err(Invalid::Contradiction))) => LogMismatch::Contradiction,
        (_, Some(Err(Invalid::Damaged)) | None) => LogMismatch::Damaged,
    };
    Error::WrongLog { path, why }
}
