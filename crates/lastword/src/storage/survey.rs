//! Surveys a pool's files and decides whether the pool opens, and if not, why.
//!
//! [`Survey::of`] reads the metadata of both files. Opening, describing, checking, dumping and
//! repairing a pool share this decision, so they cannot disagree. `open` returns the first refusal;
//! a check lists all of them.
//!
//! ```text
//!   superblocks -> areas -> length -> design, medium -> log: length, heads
//!               -> expectations: medium, layout
//! ```
//!
//! Invariants:
//! - A survey writes nothing.
//! - `refusal` is set if and only if a finding of severity `Refused` exists: `refuse` adds both.
//! - A survey does not read the log's groups. All callers replay them with the same function
//!   ([`replay`](super::replay)), which may still refuse a pool.

use std::path::{Path, PathBuf};
use std::time::Duration;

use medium::sync::Arc;
use medium::{Domain, PoolFile, System};
use words::TxId;

use super::open::{log_state, open_log};
use super::{AREA_ALIGN, Found, Storage, log_path};
use crate::error::{InUse, TransferError};
use crate::ideal;
use crate::in_use::{Interrupted, Source};
use crate::inspect::{CheckOptions, Finding, Problem, Severity};
use crate::recover::decide::{Action, LogState, decide};
use crate::superblock::{
    COPIES_BYTES, COPY_BYTES, EXPORT_MAGIC, FORMAT_VERSION, Invalid, LogHead, Paired, PairedBlock,
    Superblock, Superblocks, exact_name, name, padded,
};
use crate::sync::thread;
use crate::{DesignInfo, Error, LogFormat, LogMismatch, Medium};

/// Surveys of a pool in use until damage counts.
const SURVEYS: u32 = 5;

/// The metadata of a pool's files, and the resulting decision.
pub(crate) struct Survey {
    pub(crate) file: Arc<PoolFile>,
    /// The log's own file, if it has one and the file exists.
    pub(crate) log_file: Option<Arc<PoolFile>>,
    /// Both superblocks; `None` if the file is too short.
    pub(crate) superblocks: Option<PairedBlock<Superblock>>,
    /// Both log heads; `None` without them.
    pub(crate) log_heads: Option<PairedBlock<LogHead>>,
    /// The current superblock, if its areas are valid.
    pub(crate) superblock: Option<Superblock>,
    /// The pool's last medium, if this program can recover the pool.
    pub(crate) medium: Option<Medium>,
    /// The decision about the log.
    pub(crate) action: Action,
    /// All findings.
    pub(crate) findings: Vec<Finding>,
    /// The error that opening the pool returns.
    pub(crate) refusal: Option<Error>,
}

impl Survey {
    /// Opens the files with `open`, which locks them, and decides.
    ///
    /// # Errors
    /// A missing or locked file, or a failed read. Damage is in the survey, not an error.
    pub(crate) fn of(
        path: &Path,
        expected: &CheckOptions,
        open: impl Fn(&Path) -> Result<PoolFile, medium::Error>,
    ) -> Result<Survey, Error> {
        let mut survey = Survey {
            file: Arc::new(open(path).map_err(|error| unless_only_log(path, error, &open))?),
            log_file: None,
            superblocks: None,
            log_heads: None,
            superblock: None,
            medium: None,
            action: Action::Refuse,
            findings: Vec::new(),
            refusal: None,
        };
        let Some(superblock) = survey.superblocks(expected.converts)? else { return Ok(survey) };
        if !areas_are_in_order(&superblock) {
            let path = survey.path();
            survey.refuse(None, Problem::Areas, Error::BadAreas { path });
            return Ok(survey);
        }
        survey.superblock = Some(superblock);
        survey.length(&superblock);
        survey.names(&superblock);
        let state = match superblock.log_inside {
            true => LogState::Inside,
            false => {
                survey.log_file = open_log(&log_path(path), &open)?;
                survey.log(&superblock, expected.without_log)?
            }
        };
        survey.action = decide(state, superblock.clean, expected.without_log);
        survey.expected(&superblock, expected);
        Ok(survey)
    }

    /// Surveys the files of a pool that a process has open. Damage that a running owner causes for
    /// a moment, by a write or an opening, is gone in a later survey.
    ///
    /// # Errors
    /// As [`of`](Survey::of).
    pub(crate) fn beside(
        path: &Path,
        expected: &CheckOptions,
        system: &System,
    ) -> Result<Survey, Error> {
        let open = |path: &Path| PoolFile::open_unlocked_on(system, path);
        for _ in 1..SURVEYS {
            let survey = Survey::of(path, expected, open)?;
            if survey.findings.iter().all(|finding| finding.severity() <= Severity::Harmless) {
                return Ok(survey);
            }
            thread::sleep(Duration::from_millis(1));
        }
        Survey::of(path, expected, open)
    }

    /// Returns the files of a pool in use; `None` if the survey refused the pool for damage.
    ///
    /// # Errors
    /// [`InUse::Design`].
    pub(crate) fn source(&self) -> Result<Option<Source>, Interrupted> {
        let (Some(superblock), Some(medium)) = (self.superblock, self.medium) else {
            return Ok(None);
        };
        // Its upper bound is checked: the owner may be making it longer.
        let is_whole = self.file.len() >= superblock.heap_offset + superblock.heap_bytes;
        match self.action {
            // The owner has a log, or makes one.
            Action::Renew => return Err(Interrupted::Changed),
            Action::Start | Action::Replay if is_whole => {}
            _ => return Ok(None),
        }
        let design = DesignInfo::in_superblock(&superblock);
        if let Some(design) = design.filter(|design| design.log != LogFormat::Groups) {
            let (path, design) = (self.path(), design.name);
            return Err(Interrupted::Failed(InUse::Design { path, design }.into()));
        }
        let (file, log_place) = (Arc::clone(&self.file), Arc::clone(self.log_place()));
        let log = Storage::log_reader(&log_place, &superblock, medium)?;
        let syncs = matches!(medium, Medium::File | Medium::Dax);
        Ok(Some(Source { file, log, log_place, superblock, syncs }))
    }

    /// Returns the pool, unless the survey refused it.
    ///
    /// # Errors
    /// The error that opening the pool returns.
    pub(crate) fn found(self) -> Result<Found, Error> {
        let Survey { file, log_file, superblocks, log_heads, medium, action, refusal, .. } = self;
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        let copies = superblocks.expect("what is not refused has superblocks");
        let superblocks = Superblocks::of(&file, &copies).expect("and one of them counts");
        let medium = medium.expect("and a medium");
        let log_head = log_heads.and_then(|heads| heads.current().ok());
        Ok(Found { file, log_file, superblocks, log_head, medium, action })
    }

    /// Returns name and version of the pool's layout, if a superblock is valid.
    pub(crate) fn layout_found(&self) -> Option<(String, u64)> {
        let superblock = self.superblocks.as_ref()?.current().ok()?;
        Some((exact_name(&superblock.layout), superblock.layout_version))
    }

    /// Returns the file that holds the log, or the pool's file if the log is missing.
    pub(crate) fn log_place(&self) -> &Arc<PoolFile> {
        self.log_file.as_ref().unwrap_or(&self.file)
    }

    fn path(&self) -> PathBuf {
        self.file.path().to_path_buf()
    }

    /// Adds a finding about the pool's file that does not refuse the pool.
    fn push(&mut self, at: Option<u64>, problem: Problem) {
        let path = self.path();
        self.findings.push(Finding { path, at, problem });
    }

    /// Adds a finding about the pool's file, and the error that opening the pool returns.
    fn refuse(&mut self, at: Option<u64>, problem: Problem, error: Error) {
        self.push(at, problem);
        self.refusal.get_or_insert(error);
    }

    /// Adds a finding about the log's file.
    fn push_log(&mut self, at: Option<u64>, problem: Problem) {
        let path = log_path(self.file.path());
        self.findings.push(Finding { path, at, problem });
    }

    /// Returns the refusal of a file without a valid superblock.
    ///
    /// # Errors
    /// The file is an export, or cannot be read.
    fn not_a_pool(&self, path: PathBuf) -> Result<Error, Error> {
        let mut first = [0];
        if self.file.len() >= 8 {
            self.file.read_at(0, &mut first)?;
        }
        Ok(match first {
            // Not damage: there is nothing to find or to repair.
            [EXPORT_MAGIC] => return Err(TransferError::IsAnExport { path }.into()),
            _ => Error::NotAPool { path },
        })
    }

    /// Reads both copies; returns the current one, if this program works with its version.
    fn superblocks(&mut self, converts: bool) -> Result<Option<Superblock>, Error> {
        let path = self.path();
        if self.file.len() < COPIES_BYTES {
            let error = self.not_a_pool(path)?;
            self.refuse(None, Problem::NoSuperblock, error);
            return Ok(None);
        }
        let copies = PairedBlock::<Superblock>::read(&self.file)?;
        self.superblocks = Some(copies);
        for (at, of_copy) in of_copies(&copies) {
            let problem = match of_copy {
                OfCopy::Damaged { copy } => Problem::Superblock { copy },
                OfCopy::Behind { copy, edition, newer } => {
                    Problem::SuperblockBehind { copy, edition, newer }
                }
                OfCopy::Version { copy, found } => {
                    Problem::Version { copy, found, expected: FORMAT_VERSION }
                }
            };
            self.push(Some(at), problem);
        }
        let invalid = match copies.current() {
            Ok(superblock) if superblock.version == FORMAT_VERSION || converts => {
                return Ok(Some(superblock));
            }
            Ok(superblock) => {
                let (copy, found, expected) = (0, superblock.version, FORMAT_VERSION);
                self.push(None, Problem::Version { copy, found, expected });
                Invalid::Version(found)
            }
            Err(invalid) => invalid,
        };
        match invalid {
            Invalid::Damaged => {
                let error = self.not_a_pool(path)?;
                self.refuse(None, Problem::NoSuperblock, error);
            }
            Invalid::Contradiction => {
                self.refuse(None, Problem::Superblocks, Error::Contradiction { path });
            }
            // The loop above added this copy's finding.
            Invalid::Version(found) => {
                let expected = FORMAT_VERSION;
                self.refusal.get_or_insert(Error::FormatVersion { path, found, expected });
            }
        }
        Ok(None)
    }

    /// Checks the file's length against its valid areas.
    fn length(&mut self, superblock: &Superblock) {
        let (expected, found) = (superblock.heap_offset + superblock.heap_bytes, self.file.len());
        let path = self.path();
        let error = match found {
            // An unfinished growth may have made the file longer.
            _ if (expected..=superblock.file_bytes_max()).contains(&found) => return,
            _ if found < expected => Error::Truncated { path, expected, found },
            _ => Error::TooLong { path, expected, found },
        };
        self.refuse(None, Problem::Length { found, expected }, error);
    }

    /// Checks that this program supports the design and the medium.
    fn names(&mut self, superblock: &Superblock) {
        let is_known = super::begin::is_known(superblock);
        if !is_known {
            let (path, found) = (self.path(), name(&superblock.design));
            let error = match padded(ideal::NAME) == Some(superblock.design) {
                true => crate::error::IdealError::NoContent { path }.into(),
                false => Error::UnknownDesign { path, found: found.clone() },
            };
            self.refuse(None, Problem::Design { found }, error);
        }
        let found = name(&superblock.medium);
        let medium =
            Medium::named(&found).filter(|medium| medium.log_inside() == superblock.log_inside);
        if medium.is_none() {
            let error = Error::UnknownMedium { path: self.path(), found: found.clone() };
            self.refuse(None, Problem::Medium { found }, error);
        }
        self.medium = medium.filter(|_| is_known);
    }

    /// Checks the log's own file: its length and its heads.
    fn log(&mut self, superblock: &Superblock, without_log: bool) -> Result<LogState, Error> {
        let log_file = self.log_file.clone();
        let (state, heads) = log_state(superblock, log_file.as_deref())?;
        self.log_heads = heads;
        let action = decide(state, superblock.clean, without_log);
        if action == Action::Renew {
            let why = mismatch(state, superblock, log_file.as_deref(), heads.as_ref());
            self.push_log(None, Problem::LogLost { why });
            return Ok(state);
        }
        for (at, of_copy) in heads.as_ref().map(of_copies).unwrap_or_default() {
            let problem = match of_copy {
                OfCopy::Damaged { copy } => Problem::LogHead { copy },
                OfCopy::Behind { copy, edition, newer } => {
                    Problem::LogHeadBehind { copy, edition, newer }
                }
                OfCopy::Version { copy, found } => {
                    Problem::LogVersion { copy, found, expected: FORMAT_VERSION }
                }
            };
            self.push_log(Some(at), problem);
        }
        if action != Action::Refuse {
            return Ok(state);
        }
        let needed_after = (!superblock.clean).then_some(TxId(superblock.reproduced));
        for problem in log_problems(superblock, log_file.as_deref(), heads.as_ref()) {
            self.push_log(None, problem);
        }
        let path = log_path(self.file.path());
        let error = match mismatch(state, superblock, log_file.as_deref(), heads.as_ref()) {
            None => Error::LogMissing { path, needed_after },
            Some(why) => Error::WrongLog { path, why, needed_after },
        };
        self.refusal.get_or_insert(error);
        Ok(state)
    }

    /// Checks the pool against the expectations of the program.
    fn expected(&mut self, superblock: &Superblock, expected: &CheckOptions) {
        // A pool in migration opens with no layout alone, so it is refused without one, too.
        let own = (exact_name(&superblock.layout), superblock.layout_version);
        let (layout, version) = expected.layout.as_ref().unwrap_or(&own);
        self.layout(superblock, (layout, *version), expected);
        if let Some(own) = self.medium {
            self.place(own, expected.medium);
        }
    }

    /// Checks the layout.
    fn layout(
        &mut self,
        superblock: &Superblock,
        (layout, version): (&str, u64),
        expected: &CheckOptions,
    ) {
        let asked = padded(layout).filter(|_| !layout.contains('\0'));
        let is_same = expected.layout.is_none()
            || (asked, version) == (Some(superblock.layout), superblock.layout_version);
        if is_same && (superblock.migrating == 0 || expected.migrates) {
            return;
        }
        let (found, found_version) = (exact_name(&superblock.layout), superblock.content_version());
        let (expected, expected_version) = (layout.to_owned(), version);
        let problem = Problem::Layout {
            found: found.clone(),
            found_version,
            expected: expected.clone(),
            expected_version,
        };
        let path = self.path();
        let (found, expected) = (found.into(), expected.into());
        let migrating = superblock.migrating != 0;
        let error =
            Error::Layout { path, found, found_version, expected, expected_version, migrating };
        self.refuse(None, problem, error);
    }

    /// Checks that the pool can run here, on the requested medium or its own.
    fn place(&mut self, own: Medium, asked: Option<Medium>) {
        let Some(medium) = choose_medium(asked, own) else {
            let own = own.name();
            self.refuse(None, Problem::OtherMedium { own }, Error::WrongMedium { own });
            return;
        };
        if medium == Medium::Dax
            && let Err(error) = Domain::check_dax(&self.file)
        {
            self.refuse(None, Problem::NoDax, error.into());
        }
    }
}

/// Returns the medium for the next run. A mapped pool may change to another mapped medium; a pool
/// on files cannot.
pub(crate) fn choose_medium(asked: Option<Medium>, own: Medium) -> Option<Medium> {
    let medium = asked.unwrap_or(own);
    (medium.log_inside() == own.log_inside()).then_some(medium)
}

/// Whether the areas are disjoint and in order, and all numbers are within the limits of a pool.
/// The superblock came from the disk, so nothing else is assumed.
fn areas_are_in_order(superblock: &Superblock) -> bool {
    let Superblock { heap_offset, heap_bytes, log_offset, log_bytes, growing, .. } = *superblock;
    let log_growing = superblock.log_growing;
    let heap_end = heap_offset.checked_add(heap_bytes.max(growing));
    let log_end = log_offset.checked_add(log_bytes);
    let (Some(heap_end), Some(log_end)) = (heap_end, log_end) else { return false };
    let heap_starts = if superblock.log_inside { log_end } else { COPIES_BYTES };
    log_offset >= COPIES_BYTES
        && heap_offset >= heap_starts
        && heap_offset.is_multiple_of(AREA_ALIGN)
        && heap_bytes.is_multiple_of(lw_alloc::CHUNK_BYTES)
        && heap_bytes >= lw_alloc::HEAP_BYTES_MIN
        && growing.is_multiple_of(lw_alloc::CHUNK_BYTES)
        && log_growing.is_multiple_of(4096)
        && (log_growing == 0 || !superblock.log_inside)
        && heap_end <= 1 << words::ADDRESS_BITS
        && log_offset.is_multiple_of(4096)
        && log_bytes.is_multiple_of(4096)
        && log_bytes > 0
        && superblock.can_go_on()
        && superblock.log_sequence.is_multiple_of(if superblock.log_inside { 64 } else { 4096 })
}

/// Returns the error for a pool whose file cannot be opened. If it does not exist, a log in the
/// place of its log may hold acknowledged transactions, and must not be removed.
fn unless_only_log(
    path: &Path,
    error: medium::Error,
    open: impl Fn(&Path) -> Result<PoolFile, medium::Error>,
) -> Error {
    let log = log_path(path);
    match error {
        medium::Error::NotFound { .. } if open(&log).is_ok_and(|file| has_records(&file)) => {
            Error::OnlyLog { path: path.into(), log }
        }
        error => error.into(),
    }
}

/// Returns whether this is a log that was written to. The log of an interrupted creation has a head
/// alone.
pub(super) fn has_records(log: &PoolFile) -> bool {
    let is_log = || PairedBlock::<LogHead>::read(log).is_ok_and(|head| head.current().is_ok());
    let is_empty = || log.is_zero(COPIES_BYTES).is_ok_and(|is_zero| is_zero);
    log.len() >= COPIES_BYTES && is_log() && !is_empty()
}

/// Returns all findings about a log that does not fit, except a single damaged copy.
fn log_problems(
    superblock: &Superblock,
    log_file: Option<&PoolFile>,
    heads: Option<&PairedBlock<LogHead>>,
) -> Vec<Problem> {
    let needed_after = (!superblock.clean).then_some(TxId(superblock.reproduced));
    let Some(file) = log_file else { return vec![Problem::LogMissing { needed_after }] };
    let mut problems = Vec::new();
    let (expected, found) = (superblock.log_file_bytes(), file.len());
    if !superblock.is_log_file_length(found) {
        problems.push(Problem::LogLength { found, expected, needed_after });
    }
    let generation = superblock.generation;
    problems.extend(match heads.map(PairedBlock::current) {
        None | Some(Err(Invalid::Version(_))) => None, // found earlier, once for each copy
        Some(Err(Invalid::Damaged)) => Some(Problem::NoLogHead { needed_after }),
        Some(Err(Invalid::Contradiction)) => Some(Problem::LogHeads { needed_after }),
        Some(Ok(head)) if !head.can_go_on() => Some(Problem::NoLogHead { needed_after }),
        Some(Ok(LogHead { pool: found, .. })) if found != superblock.pool => {
            let expected = superblock.pool;
            Some(Problem::LogOfOtherPool { found, expected, needed_after })
        }
        Some(Ok(head))
            if head.generation != generation && !head.is_before_superblock(generation) =>
        {
            let found = head.generation;
            Some(Problem::LogOfOtherTime { found, expected: generation, needed_after })
        }
        Some(Ok(_)) => None,
    });
    problems
}

/// Returns the reason why a log does not fit; `None` if it is missing.
fn mismatch(
    state: LogState,
    superblock: &Superblock,
    log_file: Option<&PoolFile>,
    heads: Option<&PairedBlock<LogHead>>,
) -> Option<LogMismatch> {
    Some(match (state, heads.map(PairedBlock::current)) {
        (LogState::Missing, _) => return None,
        (LogState::Short, _) => LogMismatch::Length {
            found: log_file.map_or(0, PoolFile::len),
            expected: superblock.log_file_bytes(),
        },
        (LogState::OtherPool, Some(Ok(head))) => {
            LogMismatch::OtherPool { found: head.pool, expected: superblock.pool }
        }
        (LogState::OtherTime, Some(Ok(head))) => {
            let expected = superblock.generation;
            LogMismatch::Generation { found: head.generation, expected }
        }
        (_, Some(Err(Invalid::Version(found)))) => {
            LogMismatch::Version { found, expected: FORMAT_VERSION }
        }
        (_, Some(Err(Invalid::Contradiction))) => LogMismatch::Contradiction,
        _ => LogMismatch::Damaged,
    })
}

/// A problem with one copy of a pair.
enum OfCopy {
    Damaged { copy: usize },
    Behind { copy: usize, edition: u64, newer: u64 },
    Version { copy: usize, found: u64 },
}

/// Returns the problem of each copy, with its offset in the file. If both copies are damaged, or
/// contradict each other, no problem belongs to one copy alone.
fn of_copies<T: Paired>(copies: &PairedBlock<T>) -> Vec<(u64, OfCopy)> {
    let mut found = Vec::new();
    let current = copies.current();
    for (copy, decoded) in copies.decoded.iter().enumerate() {
        let of_copy = match (decoded, current) {
            (Err(Invalid::Version(found)), _) => OfCopy::Version { copy, found: *found },
            (Err(_), Ok(_)) => OfCopy::Damaged { copy },
            (Ok(one), Ok(current)) if one.edition() < current.edition() => {
                OfCopy::Behind { copy, edition: one.edition(), newer: current.edition() }
            }
            _ => continue,
        };
        found.push((copy as u64 * COPY_BYTES, of_copy));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heap_beyond_the_range_of_addresses_is_refused() {
        let mut superblock = crate::superblock::tests::superblock();
        superblock.heap_bytes = (1 << words::ADDRESS_BITS) - superblock.heap_offset;
        assert!(areas_are_in_order(&superblock));
        superblock.heap_bytes += lw_alloc::CHUNK_BYTES;
        assert!(!areas_are_in_order(&superblock));
    }
}
