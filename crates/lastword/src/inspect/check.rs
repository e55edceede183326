//! The check of a pool's files, which reports all damage and not only the first.
//!
//! `storage::survey` checks superblocks, lengths and log heads, as when the pool is opened. This
//! module adds the log's groups, the heap and the root.
//!
//! The checksums of pages find a changed value in a program's object. The heap check finds damage
//! to the allocator's words and to the headers of objects, also in a pool without checksums.

use std::ops::Range;
use std::path::Path;

use lw_log::Scan;
use medium::{HeapMedium, LogReader, PageChecksums, PoolFile, System};
use words::TxId;

use super::finding::{Finding, Problem};
use super::{CheckOptions, Image, word};
use crate::error::LogDamage;
use crate::ideal::Nowhere;
use crate::in_use::{self, Interrupted};
use crate::recover::decide::Action;
use crate::recover::{self, Replayed};
use crate::shadow::{PAGE_BYTES, ShadowHeap};
use crate::storage::{
    Replay, Storage, Survey, damaged_pages, heap, lost_checksums, page_checksums, replay, salvage,
};
use crate::superblock::{FORMAT_VERSION, Superblock};
use crate::{DesignInfo, Error, LogFormat, Medium};

/// The files of a pool, and the findings about them.
pub(super) struct Examined {
    /// The survey of the files. It collects the findings and the refusal of the whole check.
    pub(super) survey: Survey,
    /// The heap as opening the pool would show it; `None` if it cannot be determined.
    pub(super) image: Option<ShadowHeap>,
    /// The replay of the log. If it met damage: of the groups before it.
    pub(super) replayed: Option<Replayed>,
    /// The content of the heap, as far as it was checked.
    pub(super) usage: lw_alloc::Usage,
    /// Whether a process has the pool open.
    pub(super) in_use: bool,
    /// The pages that differ from their checksums, in ascending order.
    pub(super) damaged: Vec<usize>,
}

/// Checks a pool; `open` locks its files.
///
/// # Errors
/// The pool cannot be checked: a file is missing, in use, or cannot be read.
pub(super) fn examine(
    path: &Path,
    expected: &CheckOptions,
    open: impl Fn(&Path) -> Result<PoolFile, medium::Error>,
) -> Result<Examined, Error> {
    let mut examined = Examined::new(Survey::of(path, expected, open)?, false);
    let Survey { superblock, medium, action, .. } = examined.survey;
    let Some(superblock) = superblock else { return Ok(examined) };
    match medium {
        // After a clean shutdown the heap image is complete, whatever happened to the log.
        Some(medium) if action != Action::Refuse || superblock.clean || expected.salvages => {
            examined.contents(&superblock, medium, action, expected)?;
        }
        _ => examined.push(None, Problem::HeapUnchecked),
    }
    Ok(examined)
}

/// Checks a pool, also while a process has it open.
///
/// # Errors
/// As [`examine`]; [`Error::InUse`].
pub(super) fn examine_any(
    path: &Path,
    expected: &CheckOptions,
    system: &System,
) -> Result<Examined, Error> {
    let closed = || examine(path, expected, |path| PoolFile::open_shared_on(system, path));
    in_use::read(path, closed, || {
        let mut examined = Examined::new(Survey::beside(path, expected, system)?, true);
        examined.beside()?;
        Ok(examined)
    })
}

/// Checks the groups of a log that opening the pool would replay, and nothing else.
///
/// # Errors
/// The error that these groups cause when the pool is opened.
pub(super) fn check_groups(survey: &Survey) -> Result<(), Error> {
    replay_into(survey, &mut Nowhere)
}

/// Replays the log into this memory, if opening the pool would replay it.
///
/// # Errors
/// As [`check_groups`].
pub(super) fn replay_into(survey: &Survey, heap_image: &mut dyn HeapMedium) -> Result<(), Error> {
    let Survey { superblock: Some(superblock), medium: Some(medium), action, .. } = survey else {
        return Ok(());
    };
    if *action != Action::Replay {
        return Ok(());
    }
    let log = reader(survey, superblock, *medium)?;
    let path = survey.log_place().path();
    replay(superblock, &log, heap_image, path).map(drop)
}

/// Returns a reader of the log that never writes.
fn reader(survey: &Survey, superblock: &Superblock, medium: Medium) -> Result<LogReader, Error> {
    Storage::log_reader(survey.log_place(), superblock, medium)
}

impl Examined {
    fn new(survey: Survey, in_use: bool) -> Examined {
        let usage = lw_alloc::Usage::default();
        let damaged = Vec::new();
        Examined { survey, image: None, replayed: None, usage, in_use, damaged }
    }

    /// Checks the content of a pool that a process has open.
    fn beside(&mut self) -> Result<(), Interrupted> {
        let Some(source) = self.survey.source()? else {
            self.push(None, Problem::HeapUnchecked);
            return Ok(());
        };
        match source.load(&mut || ()) {
            Ok((image, replayed)) => {
                let image = ShadowHeap::of(image);
                self.heap(&source.superblock, &image);
                (self.image, self.replayed) = (Some(image), Some(replayed));
            }
            Err(Interrupted::Damaged { path, at, why }) => {
                let needed_after = TxId(source.superblock.reproduced);
                let problem = match why {
                    LogDamage::EndLost { first, last } => {
                        Problem::LogGroups { lost: vec![(first, last)], unreached: Vec::new() }
                    }
                    why => Problem::LogGroup { needed_after, why },
                };
                self.push_log(at, problem);
                self.survey.refusal.get_or_insert(Error::DamagedLog { path, at, why });
                self.push(None, Problem::HeapUnchecked);
            }
            Err(interrupted) => return Err(interrupted),
        }
        Ok(())
    }

    /// Adds a finding about the pool's file that does not refuse the pool.
    fn push(&mut self, at: Option<u64>, problem: Problem) {
        let path = self.survey.file.path().to_path_buf();
        self.survey.findings.push(Finding { path, at, problem });
    }

    /// Adds a finding about the file that holds the log.
    fn push_log(&mut self, at: u64, problem: Problem) {
        let path = self.survey.log_place().path().to_path_buf();
        self.survey.findings.push(Finding { path, at: Some(at), problem });
    }

    /// Checks the log's groups and the heap.
    fn contents(
        &mut self,
        superblock: &Superblock,
        medium: Medium,
        action: Action,
        expected: &CheckOptions,
    ) -> Result<(), Error> {
        let Superblock { heap_offset, heap_bytes, .. } = *superblock;
        let whole = self.survey.file.len() >= heap_offset + heap_bytes;
        let image = match whole {
            true => {
                let file = &self.survey.file;
                Some(ShadowHeap::load(file, heap_offset, heap_bytes, heap_bytes, &|_| ())?)
            }
            false => None,
        };
        // In the order of opening the pool.
        let has_pages = whole && superblock.version == FORMAT_VERSION;
        if has_pages && let Some(sums) = page_checksums(&self.survey.file, superblock)? {
            self.pages(superblock, medium, &sums, expected)?;
        }
        let replayed =
            action != Action::Replay || self.groups(superblock, medium, &image, expected)?;
        // For a salvage the groups before the damage are enough.
        let image = image.filter(|_| replayed || expected.salvages);
        self.damaged_pages(superblock, image.as_ref());
        match image {
            Some(image) => {
                if superblock.version == FORMAT_VERSION {
                    self.heap(superblock, &image);
                }
                self.image = Some(image);
            }
            None => self.push(None, Problem::HeapUnchecked),
        }
        Ok(())
    }

    /// Compares the pages with their checksums.
    fn pages(
        &mut self,
        superblock: &Superblock,
        medium: Medium,
        sums: &PageChecksums,
        expected: &CheckOptions,
    ) -> Result<(), Error> {
        for pages in lost_checksums(&self.survey.file, sums, superblock)? {
            let first = superblock.heap_offset + pages.start as u64 * PAGE_BYTES;
            let may_be_torn = superblock.log_inside && !superblock.clean;
            let problem = Problem::PageChecksums { first, pages: pages.len(), may_be_torn };
            self.push(None, problem);
        }
        let survey = &self.survey;
        let replay = |heap_image: &mut dyn HeapMedium| replay_into(survey, heap_image);
        let replay: Option<Replay<'_>> = if medium == Medium::File { Some(&replay) } else { None };
        let differing = match expected.ignores_pages {
            true => sums.marked_pages(),
            false => sums.differing(&survey.file, superblock.heap_offset, &|_| ())?,
        };
        let all = differing.clone();
        let damaged = match damaged_pages((&survey.file, superblock), sums, differing, replay) {
            // `groups` adds the finding. Without a readable log, no page can be shown to be
            // damaged, and none to be whole.
            Err(Error::DamagedLog { .. }) => {
                self.damaged = if expected.salvages { all } else { Vec::new() };
                return Ok(());
            }
            damaged => damaged?,
        };
        if let Err(error) = damaged.check() {
            self.survey.refusal.get_or_insert(error);
        }
        self.damaged = damaged.pages().to_vec();
        Ok(())
    }

    /// Adds a finding for each run of damaged pages, with the live objects there. `image`: the heap
    /// after recovery, if that succeeded.
    fn damaged_pages(&mut self, superblock: &Superblock, image: Option<&ShadowHeap>) {
        let bytes = |run: &[usize]| {
            let begin = run[0] as u64 * PAGE_BYTES;
            begin..begin + run.len() as u64 * PAGE_BYTES
        };
        let runs = self.damaged.chunk_by(|page, next| page + 1 == *next);
        let runs: Vec<Range<u64>> = runs.map(bytes).collect();
        let mut objects = vec![Vec::new(); runs.len()];
        if let Some(image) = image.filter(|_| !runs.is_empty()) {
            for live in heap(superblock).live(|offset| word(image, offset)) {
                let extent = live.extent();
                let first = runs.partition_point(|run| run.end <= extent.start);
                let there = runs[first..].iter().take_while(|run| run.start < extent.end);
                objects[first..first + there.count()]
                    .iter_mut()
                    .for_each(|objects| objects.push(live.object));
            }
        }
        for (run, objects) in runs.into_iter().zip(objects) {
            let pages = ((run.end - run.start) / PAGE_BYTES) as usize;
            self.push(
                Some(superblock.heap_offset + run.start),
                Problem::DamagedPages { pages, objects },
            );
        }
    }

    /// Replays the log in memory; returns whether that succeeded.
    fn groups(
        &mut self,
        superblock: &Superblock,
        medium: Medium,
        image: &Option<ShadowHeap>,
        expected: &CheckOptions,
    ) -> Result<bool, Error> {
        // The pool's file was truncated inside its log.
        let Ok(log) = reader(&self.survey, superblock, medium) else { return Ok(false) };
        let path = self.survey.log_place().path().to_path_buf();
        // The check writes nothing, so its reads need not be durable.
        let result = match image {
            Some(image) => replay(superblock, &log, &mut Image(image), &path),
            None => replay(superblock, &log, &mut Nowhere, &path),
        };
        match result {
            Ok(replayed) => {
                if replayed.torn {
                    let path = self.survey.log_place().path().to_path_buf();
                    let problem = Problem::TornEnd { last: replayed.last };
                    self.survey.findings.push(Finding { path, at: None, problem });
                }
                self.replayed = Some(replayed);
                Ok(true)
            }
            Err(error @ Error::DamagedLog { at, why, .. }) => {
                let (problem, last) = damage(superblock, &log, why)?;
                if let Some(image) = image.as_ref().filter(|_| expected.salvages) {
                    salvage(superblock, &log, &mut Image(image), &path)?;
                }
                self.replayed = Some(Replayed { last, transactions: 0, torn: false });
                self.push_log(at, problem);
                self.survey.refusal.get_or_insert(error);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Checks the allocator's words, the headers of objects, and the root.
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
}

/// Determines the loss at the place where the replay stopped. Returns the last transaction before
/// it, too, as far as it is known.
fn damage(
    superblock: &Superblock,
    log: &LogReader,
    why: LogDamage,
) -> Result<(Problem, TxId), Error> {
    // A slot shows no ID that follows an unreadable record; a group's head has its IDs.
    let design = DesignInfo::in_superblock(superblock);
    if design.is_none_or(|design| design.log != LogFormat::Groups) {
        let last = TxId(superblock.reproduced);
        return Ok((Problem::LogGroup { needed_after: last, why }, last));
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
            // An intact group with IDs that were already read: it is out of sequence.
            return Ok((Problem::LogGroup { needed_after: last, why }, last));
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
    let durable = recover::witnessed(superblock, log)?;
    if durable.0 > behind {
        lost.push((TxId(behind + 1), durable));
    }
    let problem = match lost.is_empty() {
        true => Problem::LogGroup { needed_after: last, why },
        false => Problem::LogGroups { lost, unreached },
    };
    Ok((problem, last))
}
