//! Opening the files of a pool: everything is checked before it is trusted, and nothing is written.

use std::path::Path;
use std::time::{Duration, Instant};

use medium::PoolFile;
use medium::mutants::{Mutant, planted};
use medium::sync::Arc;

use super::{AREA_ALIGN, Storage, log_path};
use crate::recover::decide::{Action, LogState, decide};
use crate::superblock::{
    COPIES_BYTES, FORMAT_VERSION, Invalid, LogHead, Superblock, Superblocks, name, padded,
};
use crate::sync::thread;
use crate::{Decoupled, Design, Error, LogMismatch, Medium, Options};

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
    /// Opens the files for a pool that goes on. Locks them, and makes their names durable; writes
    /// nothing.
    pub(crate) fn open(path: &Path, options: &Options) -> Result<Opened, Error> {
        let found = Found::open(path, |path| PoolFile::open_on(&options.system, path))?;
        check_layout(&found, options)?;
        let medium = choose_medium(options.medium, found.medium)?;
        let Found { file, log_file, superblocks, log_head, action, .. } = found;
        // Whoever made the pool may have been killed before its names were durable. They are in one
        // directory.
        if !planted(Mutant::NameNotSettled) {
            file.settle_name()?;
        }
        let storage = Storage::assemble(file, log_file, superblocks, medium)?;
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
        let file = Arc::new(open(path)?);
        let superblocks = read_superblocks(&file)?;
        let superblock = *superblocks.current();
        check_areas(&superblock, &file)?;
        check_design(&superblock, &file)?;
        let medium = own_medium(&superblock, &file)?;
        let log_path = log_path(path);
        let log_file = match superblock.log_inside {
            true => None,
            false => match open_log(&log_path, &open) {
                Ok(file) => Some(Arc::new(file)),
                Err(medium::Error::NotFound { .. }) => None,
                Err(error) => return Err(error.into()),
            },
        };
        let (state, log_head) = log_state(&superblock, log_file.as_deref())?;
        let action = decide(state, superblock.clean);
        if action == Action::Refuse {
            return Err(refusal(state, &superblock, log_file.as_deref(), log_head, &log_path));
        }
        Ok(Found { file, log_file, superblocks, log_head, medium, action })
    }

    /// The file that holds the log.
    pub(crate) fn log_place(&self) -> &Arc<PoolFile> {
        self.log_file.as_ref().unwrap_or(&self.file)
    }
}

/// Opens the log. The pool's own file is locked by then, so whoever has the log's lock is a process
/// that was killed and whose last writes are still on their way, which takes the disk's time.
fn open_log(
    path: &Path,
    open: impl Fn(&Path) -> Result<PoolFile, medium::Error>,
) -> Result<PoolFile, medium::Error> {
    let start = Instant::now();
    loop {
        match open(path) {
            Err(medium::Error::InUse { .. }) if start.elapsed() < PATIENCE => {
                thread::sleep(Duration::from_millis(1));
            }
            opened => return opened,
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
        Invalid::Version(found) => {
            Error::FormatVersion { path: path(), found, expected: FORMAT_VERSION }
        }
    })
}

/// Whether the design that wrote it is one whose log this program can recover.
fn check_design(superblock: &Superblock, file: &PoolFile) -> Result<(), Error> {
    if superblock.design == padded(<Decoupled as Design>::NAME).expect("a design's name is short") {
        return Ok(());
    }
    Err(Error::UnknownDesign { path: file.path().into(), found: name(&superblock.design) })
}

/// Whether the areas lie in the file, in order and apart. Their sizes came from the disk.
fn check_areas(superblock: &Superblock, file: &PoolFile) -> Result<(), Error> {
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
        && superblock.log_sequence.is_multiple_of(64);
    if !in_order {
        return Err(Error::NotAPool { path: path() });
    }
    if file.len() != heap_end {
        return Err(Error::Truncated { path: path(), expected: heap_end, found: file.len() });
    }
    Ok(())
}

/// The medium that the pool was last on.
fn own_medium(superblock: &Superblock, file: &PoolFile) -> Result<Medium, Error> {
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

/// How the log's head fits.
fn log_state(
    superblock: &Superblock,
    log_file: Option<&PoolFile>,
) -> Result<(LogState, Option<LogHead>), Error> {
    if superblock.log_inside {
        return Ok((LogState::Inside, None));
    }
    let Some(file) = log_file else { return Ok((LogState::Missing, None)) };
    if file.len() < COPIES_BYTES {
        return Ok((LogState::Short, None));
    }
    let Ok(head) = LogHead::read(file)? else { return Ok((LogState::Damaged, None)) };
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
    Ok((state, Some(head)))
}

/// What to tell about a log that does not fit.
fn refusal(
    state: LogState,
    superblock: &Superblock,
    log_file: Option<&PoolFile>,
    log_head: Option<LogHead>,
    path: &Path,
) -> Error {
    let path = path.to_path_buf();
    let why = match (state, log_head) {
        (LogState::Missing, _) => return Error::LogMissing { path },
        (LogState::Short, _) => LogMismatch::Length {
            found: log_file.map_or(0, PoolFile::len),
            expected: superblock.log_offset + superblock.log_bytes,
        },
        (LogState::OtherPool, Some(head)) => {
            LogMismatch::OtherPool { found: head.pool, expected: superblock.pool }
        }
        (_, Some(head)) => {
            let expected = superblock.generation;
            LogMismatch::Generation { found: head.generation, expected }
        }
        (_, None) => LogMismatch::Damaged,
    };
    Error::WrongLog { path, why }
}
