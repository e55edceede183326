//! Repairs damage where that is safe: rewrites the damaged one of two copies from the current one,
//! and on request replaces a lost log that was empty (see `storage::renew`).
//!
//! Nothing else is repaired. Data stored once cannot be reconstructed, and a written guess would
//! pass for the truth later. A pool with any other damage is not touched at all, since the damaged
//! copy may then be the better evidence.
//!
//! A repair cannot make a pool worse:
//! - The files are locked exclusively: no process uses or checks the pool.
//! - No reader takes the overwritten copy, since it is invalid or older. A copy that a newer
//!   program wrote, or that contradicts the other one, is refused instead.
//! - The current copy is not touched, and its bytes are written. After a crash at any time the
//!   other copy is either still ignored or equal to the current one, so the repair can be repeated.
//! - Each write is durable before the next begins.

use std::path::Path;

use medium::System;

use super::check::examine;
use super::finding::{Finding, Problem, Severity};
use super::{CheckOptions, Report, check_with};
use crate::Error;
use crate::storage::{if_lost, open_settled};
use crate::superblock::COPIES_BYTES;

/// The result of a repair.
#[derive(Debug)]
#[non_exhaustive]
pub struct Repair {
    /// Repaired findings; the repair is durable.
    pub fixed: Vec<Finding>,
    /// Findings that were left, each with the reason.
    pub left: Vec<(Finding, &'static str)>,
    /// The report of a check after the repair.
    pub after: Report,
}

/// The reason to leave a copy that could be repaired.
const NOT_ALONE: &str = "something else is wrong, and this copy may show the earlier state";

/// Repairs a damaged or stale copy of a superblock or of the log's head, if the pool has no other
/// damage. Leaves every other finding, with a reason. Durable on return: one persist barrier for
/// each file and one for each copy. Takes as much memory as the heap.
///
/// ```
/// use lastword::{Options, Pool};
/// use std::os::unix::fs::FileExt;
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("bank.pool");
/// Pool::create(&path, Options::new().bytes(1 << 20).log_bytes(1 << 20))?.close()?;
/// std::fs::File::options().write(true).open(&path)?.write_all_at(b"oops", 4096)?;
/// assert_eq!(lastword::check(&path)?.findings[0].problem.name(), "superblock_copy");
///
/// let repair = lastword::repair(&path)?;
/// assert_eq!((repair.fixed.len(), repair.left.len()), (1, 0));
/// assert!(repair.after.findings.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The pool is in use, even if only by another check; a file cannot be read; a write failed. After
/// a failed write the copy is still damaged, and the other one still intact.
pub fn repair(path: impl AsRef<Path>) -> Result<Repair, Error> {
    repair_with(path, &CheckOptions::new())
}

/// Repairs a pool against expectations; see [`repair`]. [`CheckOptions::without_log`] replaces a
/// lost log, if the pool has no other damage and was closed cleanly; see
/// [`Options::without_log`](crate::Options::without_log).
///
/// # Errors
/// As [`repair`], and as creating a pool if it makes a log.
pub fn repair_with(path: impl AsRef<Path>, expected: &CheckOptions) -> Result<Repair, Error> {
    let path = path.as_ref();
    // Make durable what is read: otherwise a copy that exists only in the page cache would
    // overwrite the other one, and a crash would then lose it (A11).
    let system = System::kernel();
    let examined = examine(path, expected, |path| open_settled(&system, path))?;
    let survey = examined.survey;
    // Only copies of a superblock or head are written; a new log checks its own size.
    survey.file.check_size_limit(COPIES_BYTES)?;
    let alone = survey.findings.iter().all(|one| one.severity() <= Severity::Spare);
    let (mut fixed, mut left, mut renews) = (Vec::new(), Vec::new(), false);
    for finding in &survey.findings {
        if let Some(why) = finding.problem.why_left() {
            left.push((finding.clone(), why));
            continue;
        }
        if !alone {
            left.push((finding.clone(), NOT_ALONE));
            continue;
        }
        match finding.problem {
            Problem::Superblock { copy } | Problem::SuperblockBehind { copy, .. } => {
                let copies = survey.superblocks.as_ref().expect("the finding is about them");
                copies.repair(&survey.file, copy)?;
            }
            Problem::LogHead { copy } | Problem::LogHeadBehind { copy, .. } => {
                let copies = survey.log_heads.as_ref().expect("the finding is about them");
                let file = survey.log_file.as_ref().expect("its heads were read");
                copies.repair(file, copy)?;
            }
            Problem::LogLost { .. } => renews = true,
            _ => unreachable!("`why_left` gave a reason for every other problem"),
        }
        fixed.push(finding.clone());
    }
    if renews {
        survey.file.settle_name()?;
        drop(if_lost(survey.found()?)?);
    } else {
        drop(survey); // releases its locks
    }
    let after = check_with(path, expected)?;
    Ok(Repair { fixed, left, after })
}
