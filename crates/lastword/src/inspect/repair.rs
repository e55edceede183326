//! Repair, where it is safe: the damaged one of two copies is written again from the good one; and
//! on demand a log that held nothing is made anew (see `storage::renew`).
//!
//! Nothing else is: what is in one place only cannot be made from anything, and a guess that is
//! written looks like the truth afterwards. And nothing at all is touched while anything else is
//! wrong with the pool, for then the damaged copy may be the better evidence of what was there.
//!
//! Why it cannot make anything worse:
//! - The files are locked exclusively; nobody uses the pool, and nobody looks at it.
//! - The copy that is written over counts for nobody: it is not valid, or it is the older one. One
//!   that is newer than this program, or contradicts the other, is refused, not mended.
//! - The bytes written are those of the copy that counts, which is not touched. A crash at any
//!   time leaves that one, and in the other place something that counts for nobody, or the same. So
//!   doing it again does it.
//! - Each write is durable before the next begins.

use std::path::Path;

use medium::System;

use super::check::examine;
use super::finding::{Finding, Problem, Severity};
use super::{CheckOptions, Report, check_with};
use crate::Error;
use crate::storage::{if_lost, open_settled};
use crate::superblock::COPIES_BYTES;

/// What a repair has done.
#[derive(Debug)]
#[non_exhaustive]
pub struct Repair {
    /// What is mended; durable.
    pub mended: Vec<Finding>,
    /// What is left as it was, and why.
    pub left: Vec<(Finding, &'static str)>,
    /// What a check finds now.
    pub after: Report,
}

/// Why a copy is left that could be mended.
const NOT_ALONE: &str = "something else is wrong, and this copy may show what was there";

/// Mends what can be mended safely: a damaged or stale copy of a superblock or of the log's head,
/// when nothing else is wrong. Everything else is left as it is, with the reason. Durable on
/// return: one persist barrier for each file and one for each copy. Takes as much memory as the
/// heap.
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
/// assert_eq!((repair.mended.len(), repair.left.len()), (1, 0));
/// assert!(repair.after.findings.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// It is in use, by others who only look too; it cannot be read; a failed write: then the copy is
/// as bad as it was, the other as good.
pub fn repair(path: impl AsRef<Path>) -> Result<Repair, Error> {
    repair_with(path, &CheckOptions::new())
}

/// Repairs a pool of which something is expected; see [`repair`]. With
/// [`CheckOptions::without_log`] a log that is lost is made anew, when nothing else is wrong and
/// the pool was closed cleanly; see [`Options::without_log`](crate::Options::without_log).
///
/// # Errors
/// As [`repair`]; and as creating a pool, where a log is made.
pub fn repair_with(path: impl AsRef<Path>, expected: &CheckOptions) -> Result<Repair, Error> {
    let path = path.as_ref();
    // What is read must be durable: a copy that is in the page cache alone would be written over
    // the other one, and then be lost by a crash (A11).
    let system = System::kernel();
    let examined = examine(path, expected, |path| open_settled(&system, path))?;
    let survey = examined.survey;
    // Copies of a superblock or head are all that is written; a new log checks for itself.
    survey.file.check_size_limit(COPIES_BYTES)?;
    let alone = survey.findings.iter().all(|one| one.severity() <= Severity::Spare);
    let (mut mended, mut left, mut renews) = (Vec::new(), Vec::new(), false);
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
                let copies = survey.superblocks.as_ref().expect("it was found in them");
                copies.mend(&survey.file, copy)?;
            }
            Problem::LogHead { copy } | Problem::LogHeadBehind { copy, .. } => {
                let copies = survey.log_heads.as_ref().expect("it was found in them");
                let file = survey.log_file.as_ref().expect("its heads were read");
                copies.mend(file, copy)?;
            }
            Problem::LogLost { .. } => renews = true,
            _ => unreachable!("all else is left, with a reason"),
        }
        mended.push(finding.clone());
    }
    if renews {
        survey.file.settle_name()?;
        drop(if_lost(survey.found()?)?);
    } else {
        drop(survey); // its locks
    }
    let after = check_with(path, expected)?;
    Ok(Repair { mended, left, after })
}
