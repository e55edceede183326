//! The check of a pool's files: everything that can be found, not the first thing alone.
//!
//! Each part is looked at by itself as far as what it rests on can be trusted:
//!
//! ```text
//!   superblocks -> areas -> length -> design, medium
//!               -> log: length, heads -> its groups -> heap -> root
//! ```
//!
//! Home pages carry no checksum: a changed value in a program's object is not found. What is found
//! in the heap is damage to the allocator's words and to the headers of objects.

use std::path::{Path, PathBuf};

use lw_log::Scan;
use medium::{LogReader, PoolFile};
use words::TxId;

use super::finding::{Finding, Problem, Severity};
use super::{Image, word};
use crate::ideal::Nowhere;
use crate::recover::decide::{Action, LogState, decide};
use crate::recover::{self, Replayed};
use crate::shadow::ShadowHeap;
use crate::storage::{
    Found, Storage, check_areas, check_design, heap, log_path, log_state, open_log, own_medium,
    replay,
};
use crate::superblock::{
    COPIES_BYTES, COPY_BYTES, Copies, FORMAT_VERSION, Invalid, LogHead, Paired, Superblock, name,
};
use crate::sync::Arc;
use crate::{Decoupled, Design, Error, Medium};

/// A pool's files, and what was found in them.
pub(super) struct Examined {
    pub(super) findings: Vec<Finding>,
    /// What keeps the pool from being opened, as opening it says it.
    pub(super) refusal: Option<Error>,
    pub(super) file: Arc<PoolFile>,
    pub(super) log_file: Option<Arc<PoolFile>>,
    pub(super) superblocks: Option<Copies<Superblock>>,
    pub(super) log_heads: Option<Copies<LogHead>>,
    /// The pool, if it opens.
    pub(super) found: Option<Found>,
    /// What opening it would show; nothing when it does not open.
    pub(super) image: Option<ShadowHeap>,
    pub(super) replayed: Option<Replayed>,
    /// What is in the heap, as far as it is known.
    pub(super) usage: lw_alloc::Usage,
}

/// Looks at a pool; `open` locks its files.
///
/// # Errors
/// What keeps it from being looked at: a file that is not there or in use, a failed read.
pub(super) fn examine(
    path: &Path,
    open: impl Fn(&Path) -> Result<PoolFile, medium::Error>,
) -> Result<Examined, Error> {
    let mut examined = Examined::new(Arc::new(open(path)?));
    let Some(superblock) = examined.superblocks()? else {
        examined.refuse()?;
        return Ok(examined);
    };
    if check_areas(&superblock, &examined.file).is_err() {
        examined.push(None, Problem::Areas);
        examined.refuse()?;
        return Ok(examined);
    }
    let medium = examined.names(&superblock);
    let whole = examined.length(&superblock);
    let state = match superblock.log_inside {
        true => LogState::Inside,
        false => {
            examined.log_file = open_log(&log_path(path), &open)?;
            examined.log(&superblock)?
        }
    };
    let action = decide(state, superblock.clean);
    match medium {
        // Closed in good order everything is at home, whatever became of the log.
        Some(medium) if action != Action::Refuse || superblock.clean => {
            examined.contents(&superblock, medium, action, whole)?;
        }
        _ => examined.push(None, Problem::HeapUnchecked),
    }
    examined.refuse()?;
    Ok(examined)
}

impl Examined {
    fn new(file: Arc<PoolFile>) -> Examined {
        Examined {
            findings: Vec::new(),
            refusal: None,
            file,
            log_file: None,
            superblocks: None,
            log_heads: None,
            found: None,
            image: None,
            replayed: None,
            usage: lw_alloc::Usage::default(),
        }
    }

    /// Something about the pool's file.
    fn push(&mut self, at: Option<u64>, problem: Problem) {
        let path = self.file.path().to_path_buf();
        self.findings.push(Finding { path, at, problem });
    }

    /// Something about the file that the log is in, or should be.
    fn push_log(&mut self, at: Option<u64>, problem: Problem, inside: bool) {
        let own = self.file.path();
        let path: PathBuf = if inside { own.to_path_buf() } else { log_path(own) };
        self.findings.push(Finding { path, at, problem });
    }

    /// Both copies; answers the one that counts.
    fn superblocks(&mut self) -> Result<Option<Superblock>, Error> {
        if self.file.len() < COPIES_BYTES {
            self.push(None, Problem::NoSuperblock);
            return Ok(None);
        }
        let copies = Copies::<Superblock>::read(&self.file)?;
        for (at, of_copy) in of_copies(&copies) {
            self.push(
                Some(at),
                match of_copy {
                    OfCopy::Damaged { copy } => Problem::Superblock { copy },
                    OfCopy::Behind { copy, edition, newer } => {
                        Problem::SuperblockBehind { copy, edition, newer }
                    }
                    OfCopy::Version { copy, found } => {
                        Problem::Version { copy, found, expected: FORMAT_VERSION }
                    }
                },
            );
        }
        match copies.current() {
            Err(Invalid::Damaged) => self.push(None, Problem::NoSuperblock),
            Err(Invalid::Contradiction) => self.push(None, Problem::Superblocks),
            Err(Invalid::Version(_)) | Ok(_) => {} // told of each copy
        }
        self.superblocks = Some(copies);
        Ok(copies.current().ok())
    }

    /// Design and medium; answers the medium when the pool is one that this program can recover.
    fn names(&mut self, superblock: &Superblock) -> Option<Medium> {
        let design = check_design(superblock, &self.file).is_ok();
        if !design {
            self.push(None, Problem::Design { found: name(&superblock.design) });
        }
        let medium = own_medium(superblock, &self.file).ok();
        if medium.is_none() {
            self.push(None, Problem::Medium { found: name(&superblock.medium) });
        }
        medium.filter(|_| design)
    }

    /// Whether the file is as long as its areas.
    fn length(&mut self, superblock: &Superblock) -> bool {
        let (found, expected) = (self.file.len(), superblock.heap_offset + superblock.heap_bytes);
        if found != expected {
            self.push(None, Problem::Length { found, expected });
        }
        found == expected
    }

    /// The log's own file: its length and its heads.
    fn log(&mut self, superblock: &Superblock) -> Result<LogState, Error> {
        let needed_after = (!superblock.clean).then_some(TxId(superblock.reproduced));
        let log_file = self.log_file.clone();
        let Some(file) = &log_file else {
            self.push_log(None, Problem::LogMissing { needed_after }, false);
            return Ok(LogState::Missing);
        };
        let (expected, found) = (superblock.log_offset + superblock.log_bytes, file.len());
        if found != expected {
            self.push_log(None, Problem::LogLength { found, expected, needed_after }, false);
        }
        if found < COPIES_BYTES {
            return Ok(LogState::Short);
        }
        let copies = Copies::<LogHead>::read(file)?;
        for (at, of_copy) in of_copies(&copies) {
            let problem = match of_copy {
                OfCopy::Damaged { copy } => Problem::LogHead { copy },
                OfCopy::Behind { copy, edition, newer } => {
                    Problem::LogHeadBehind { copy, edition, newer }
                }
                OfCopy::Version { copy, found } => {
                    Problem::LogVersion { copy, found, expected: FORMAT_VERSION }
                }
            };
            self.push_log(Some(at), problem, false);
        }
        let expected = superblock.generation;
        self.log_heads = Some(copies);
        let problem = match copies.current() {
            Err(Invalid::Damaged) => Some(Problem::NoLogHead { needed_after }),
            Err(Invalid::Contradiction) => Some(Problem::LogHeads { needed_after }),
            Err(Invalid::Version(_)) => None, // told of each copy
            Ok(head) if !head.can_go_on() => Some(Problem::NoLogHead { needed_after }),
            Ok(LogHead { pool: found, .. }) if found != superblock.pool => {
                let expected = superblock.pool;
                Some(Problem::LogOfOtherPool { found, expected, needed_after })
            }
            Ok(LogHead { generation: found, .. })
                if found != expected && found.checked_sub(1) != Some(expected) =>
            {
                Some(Problem::LogOfOtherTime { found, expected, needed_after })
            }
            Ok(_) => None,
        };
        if let Some(problem) = problem {
            self.push_log(None, problem, false);
        }
        Ok(log_state(superblock, Some(file))?.0)
    }

    /// The log's groups and the heap. `whole`: the heap is all there.
    fn contents(
        &mut self,
        superblock: &Superblock,
        medium: Medium,
        action: Action,
        whole: bool,
    ) -> Result<(), Error> {
        let Superblock { heap_offset, heap_bytes, .. } = *superblock;
        let image = match whole {
            true => Some(ShadowHeap::load(&self.file, heap_offset, heap_bytes)?),
            false => None,
        };
        let replayed = action != Action::Replay || self.groups(superblock, medium, &image)?;
        match image {
            Some(image) if replayed => {
                self.heap(superblock, &image);
                self.image = Some(image);
            }
            _ => self.push(None, Problem::HeapUnchecked),
        }
        Ok(())
    }

    /// Replays the log in memory; answers whether it could be.
    fn groups(
        &mut self,
        superblock: &Superblock,
        medium: Medium,
        image: &Option<ShadowHeap>,
    ) -> Result<bool, Error> {
        let place = Arc::clone(self.log_file.as_ref().unwrap_or(&self.file));
        let Superblock { log_offset, log_bytes, log_inside, .. } = *superblock;
        let block_bytes = Storage::block_bytes(medium);
        let path = place.path().to_path_buf();
        // A log in a pool's file that was cut off before its end.
        let Ok(log) = LogReader::new(place, log_offset, log_bytes, block_bytes) else {
            return Ok(false);
        };
        // Nothing is written, so nothing that is read needs to be durable.
        let result = match image {
            Some(image) => replay(superblock, &log, &mut Image(image), &path),
            None => replay(superblock, &log, &mut Nowhere, &path),
        };
        match result {
            Ok(replayed) => {
                if replayed.torn {
                    self.push_log(None, Problem::TornEnd { last: replayed.last }, log_inside);
                }
                self.replayed = Some(replayed);
                Ok(true)
            }
            Err(error @ Error::DamagedLog { at, .. }) => {
                let problem = damage(superblock, &log)?;
                self.push_log(Some(at), problem, log_inside);
                self.refusal = Some(error);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// The allocator's words, the headers of objects, and where the root leads.
    fn heap(&mut self, superblock: &Superblock, image: &ShadowHeap) {
        let heap = heap(superblock);
        let survey = heap.survey(|offset| word(image, offset));
        for damage in survey.damage {
            self.push(Some(superblock.heap_offset + damage.offset), Problem::Heap(damage));
        }
        if !survey.complete {
            self.push(None, Problem::HeapUnchecked);
        }
        let mut at = 0;
        let root = heap.root_at_rest(|offset| {
            at = offset;
            word(image, offset)
        });
        if root != 0 && !heap.is_live_at_rest(root, |offset| word(image, offset)) {
            self.push(Some(superblock.heap_offset + at), Problem::Root { root });
        }
        self.usage = survey.usage;
    }

    /// What opening the pool would say. One look at the files decides both, so that the answers
    /// are of one moment; the locks keep them so.
    fn refuse(&mut self) -> Result<(), Error> {
        let log_file = self.log_file.clone();
        match Found::of(Arc::clone(&self.file), |_| Ok(log_file)) {
            Ok(found) => self.found = Some(found),
            Err(error) => self.refusal = Some(error),
        }
        let refused = self.findings.iter().any(|one| one.severity() == Severity::Refused);
        debug_assert_eq!(refused, self.refusal.is_some(), "{:?}", self.findings);
        Ok(())
    }
}

/// What is wrong with one copy of a pair, of which another one counts, or none.
enum OfCopy {
    Damaged { copy: usize },
    Behind { copy: usize, edition: u64, newer: u64 },
    Version { copy: usize, found: u64 },
}

/// What is wrong with each copy by itself, and its place in the file. Where both are damaged, or
/// contradict each other, there is nothing to say of one alone.
fn of_copies<T: Paired>(copies: &Copies<T>) -> Vec<(u64, OfCopy)> {
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

/// What was lost with the groups at the place where the replay refuses to go on.
fn damage(superblock: &Superblock, log: &LogReader) -> Result<Problem, Error> {
    if name(&superblock.design) != <Decoupled as Design>::NAME {
        return Ok(Problem::LogGroup { needed_after: TxId(superblock.reproduced) });
    }
    let identity = recover::identity(superblock);
    let mut last = TxId(superblock.reproduced);
    let words = superblock.heap_bytes / 8;
    let mut scan = Scan::new(log, identity, superblock.log_sequence, last, words);
    while let lw_log::Found::Group { last: found, .. } = scan.next_group()? {
        last = found;
    }
    let groups = scan.unreached()?;
    let (mut lost, mut unreached) = (Vec::new(), Vec::<(TxId, TxId)>::new());
    let mut behind = last.0;
    for group in groups {
        if group.first.0 <= behind {
            // Whole, of IDs that we have: it does not follow, whatever it is.
            return Ok(Problem::LogGroup { needed_after: last });
        }
        if group.first.0 > behind + 1 {
            lost.push((TxId(behind + 1), TxId(group.first.0 - 1)));
        }
        match unreached.last_mut() {
            Some(part) if part.1.0 + 1 == group.first.0 => part.1 = group.last,
            _ => unreached.push((group.first, group.last)),
        }
        behind = group.last.0;
    }
    Ok(match lost.is_empty() {
        true => Problem::LogGroup { needed_after: last },
        false => Problem::LogGroups { lost, unreached },
    })
}
