//! Checks that the names of an open pool's files still lead to them, and that the files are whole.
//!
//! A backup tool that renames a copy over a pool, or `rm`, leaves an open pool working on files
//! without a name. Reads, writes and syncs of such files succeed, and the kernel frees them at
//! their last close. Calls that report durability therefore check the names, too:
//!
//! | call | checks |
//! |---|---|
//! | `flush`, `checkpoint`, `close` | always |
//! | a ticket's `wait`, `await` and callback; `run` with `Durability::Sync` | periodically |
//! | `run` of a design that is durable on return | periodically |
//! | the persist thread of `decoupled`, before a step | after [`INTERVAL`] |
//! | `is_durable`, `durable_id` | never: a load |
//!
//! A ticket checks after [`IDS_DISK`] or [`IDS_MEMORY`] IDs, and always after a check that found a
//! loss. A check costs two system calls for each file, two microseconds for both files: an eighth
//! of a microsecond for each transaction on a disk, less in memory. With group commit a disk write
//! carries many transactions, so checks are more frequent than writes.
//!
//! A program may drop all tickets. Transactions that write are therefore refused once a check has
//! found a lost name ([`may_write`](FileCheck::may_write)). A transaction pays a load for this.
//!
//! Invariants:
//! - A lost name does not poison the pool. A poisoned pool persists nothing, and the commits before
//!   the check would be lost: no backup and no copy could have them. Commits become durable, views
//!   and backups work, and read-only transactions run. Each call above returns an error until the
//!   names are restored, and so does each transaction that writes.
//! - [`check_closed`](FileCheck::check_closed) keeps a descriptor of each unnamed file open until
//!   the process ends. The pool was closed cleanly by then, and its content can be copied.
//! - The same check compares lengths. A file that was cut has lost content, even if a later write
//!   past its end restores the length and leaves zeros between. So the first cut is sticky: every
//!   later result is [`Error::Cut`].
//! - A cut does not poison the pool either. A design that reads its log only at recovery loses
//!   nothing by a cut log: `decoupled` writes all commits to the heap image from memory, and `undo`
//!   has written them already. Closing is clean. Otherwise ([`Design::READS_LOG`], or a cut heap)
//!   closing leaves the pool as a crash would: a clean superblock would make zeros pass for words.
//! - Only a certain loss counts. A renamed file still has a name, and a failing call proves
//!   nothing.

mod findings;

use std::path::PathBuf;
use std::sync::Weak;
use std::time::{Duration, Instant};

use medium::mutants::{Mutant, injected};
use medium::{LogMedium, LostName, PoolFile};
use words::TxId;

use self::findings::Findings;
use crate::design::Design;
use crate::error::{CutFile, LostFile};
use crate::storage::Storage;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, lock};
use crate::{Error, Medium};

/// IDs between two checks by tickets, where a commit costs a disk write.
const IDS_DISK: u64 = 16;

/// IDs between two checks by tickets, where a commit costs stores to memory.
const IDS_MEMORY: u64 = 1024;

/// Time between two checks by the persist thread, while transactions commit.
const INTERVAL: Duration = Duration::from_secs(1);

/// Checks a pool's files against their names at the time of opening, and for cuts.
#[derive(Debug, Default)]
pub(crate) struct FileCheck {
    files: Vec<(Arc<PoolFile>, PathBuf)>,
    ids: u64,
    /// Whether the heap image needs the log while the pool is open.
    reads_log: bool,
    /// The ID of the last check.
    checked: AtomicU64,
    /// The time of the persist thread's last check.
    checked_at: Mutex<Option<Instant>>,
    findings: Findings<CutFile>,
    /// May hold the lock of the log's file. Weak, because the log closes with the design.
    log: Option<Weak<dyn LogMedium>>,
}

impl FileCheck {
    pub(crate) fn of<D: Design>(storage: &Storage) -> FileCheck {
        let files = [Some(&storage.file), storage.log_file.as_ref()].into_iter().flatten();
        let files = files.filter_map(|file| {
            // A relative path changes its meaning with the working directory.
            let path = std::path::absolute(file.path()).ok()?;
            // Skip a file whose name does not lead to it even now: the file system has no stable
            // inode numbers, so every later check would report a loss.
            file.lost(&path).0.is_none().then(|| (Arc::clone(file), path))
        });
        let files = files.collect();
        let in_memory = storage.file.file_system().is_ok_and(|system| system.is_in_memory());
        let is_disk = storage.medium == Medium::File && !in_memory;
        let ids = if is_disk { IDS_DISK } else { IDS_MEMORY };
        let log = Some(Arc::downgrade(&storage.log));
        FileCheck { files, ids, reads_log: D::READS_LOG, log, ..FileCheck::default() }
    }

    /// Checks the names if enough IDs have passed since the last check. For a caller that reports
    /// `id` as durable.
    ///
    /// # Errors
    /// [`Error::NameLost`], [`Error::Cut`].
    #[inline]
    pub(crate) fn check_sometimes(&self, id: TxId) -> Result<(), Error> {
        // Relaxed: no other memory depends on this value. Two threads may check at the same time.
        if !self.findings.is_lost()
            && id.0 < self.checked.load(Ordering::Relaxed).saturating_add(self.ids)
        {
            return Ok(());
        }
        self.check(id)
    }

    /// Checks the names if [`INTERVAL`] has passed since the last call that did. For the persist
    /// thread, which has no caller to report a loss to: later calls and transactions do.
    pub(crate) fn check_at_times(&self) {
        let mut checked_at = lock(&self.checked_at);
        let now = Instant::now();
        if checked_at.is_none_or(|last| now.duration_since(last) >= INTERVAL) {
            *checked_at = Some(now);
            drop(checked_at);
            self.lost();
        }
    }

    /// Checks whether a transaction may write: not while a file has lost its name. Looks at the
    /// names only if an earlier check has found a loss, which may have ended.
    ///
    /// # Errors
    /// [`Error::NameLost`].
    #[inline]
    pub(crate) fn may_write(&self) -> Result<(), Error> {
        if self.findings.is_lost() { self.refuse_write() } else { Ok(()) }
    }

    #[cold]
    fn refuse_write(&self) -> Result<(), Error> {
        // A file that was cut refuses nothing: its pool can close cleanly with further commits.
        let (files, _) = self.lost();
        if files.is_empty() { Ok(()) } else { Err(Error::NameLost { files, closed: false }) }
    }

    /// Returns whether a file has lost its name.
    pub(crate) fn has_lost_name(&self) -> bool {
        !self.lost().0.is_empty()
    }

    /// Checks names and lengths.
    ///
    /// # Errors
    /// [`Error::NameLost`], [`Error::Cut`].
    #[cold]
    pub(crate) fn check(&self, id: TxId) -> Result<(), Error> {
        let (files, cut) = self.lost();
        self.checked.fetch_max(id.0, Ordering::Relaxed);
        if let Some(file) = cut {
            return Err(Error::Cut { file, closed: false });
        }
        if files.is_empty() { Ok(()) } else { Err(Error::NameLost { files, closed: false }) }
    }

    /// Checks after the pool is closed, and keeps unnamed files open until the process ends.
    /// `is_clean`: the pool was marked as closed cleanly.
    ///
    /// # Errors
    /// [`Error::NameLost`], [`Error::Cut`].
    pub(crate) fn check_closed(&self, is_clean: bool) -> Result<(), Error> {
        let (mut lost, cut) = self.lost();
        if let Some(cut) = cut {
            return Err(Error::Cut { file: CutFile { is_clean, ..cut }, closed: true });
        }
        if lost.is_empty() {
            return Ok(());
        }
        for lost in &mut lost {
            if let LostName::Unlinked { descriptor } = &mut lost.how {
                let file = self.files.iter().find(|(file, _)| file.path() == lost.path);
                *descriptor = file.and_then(|(file, _)| file.keep_open());
            }
        }
        Err(Error::NameLost { files: lost, closed: true })
    }

    /// Releases the locks after a clean shutdown with nothing in flight. A forked child shares the
    /// descriptors, and its copies would keep the locks, as would a pool that is closed and not
    /// dropped.
    pub(crate) fn unlock(&self) {
        self.files.iter().for_each(|(file, _)| file.unlock());
        if let Some(log) = self.log.as_ref().and_then(Weak::upgrade) {
            log.unlock();
        }
    }

    /// Whether the heap image needs a file that was cut, so that closing must not mark the pool
    /// clean.
    pub(crate) fn must_abandon(&self) -> bool {
        self.lost().1.is_some_and(|cut| cut.is_needed)
    }

    fn lost(&self) -> (Vec<LostFile>, Option<CutFile>) {
        if injected(Mutant::NamesIgnored) {
            return (Vec::new(), None);
        }
        let (mut lost, mut seen) = (Vec::new(), Vec::new());
        for (number, (file, name)) in self.files.iter().enumerate() {
            let (how, found) = file.lost(name);
            lost.extend(how.map(|how| LostFile { path: file.path().into(), how }));
            seen.extend(found.map(|found| {
                let (path, expected, is_log) = (file.path().into(), file.len(), number > 0);
                let is_needed = !is_log || self.reads_log;
                CutFile { path, expected, found, is_log, is_needed, is_clean: false }
            }));
        }
        // A cut of the heap replaces a cut of the log.
        let cut = self.findings.add(!lost.is_empty(), seen, |old, new| old.is_log && !new.is_log);
        (lost, cut)
    }
}
