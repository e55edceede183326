//! What a check can find, what it means and what can be done about it.
//!
//! | [`Severity`] | the pool | what to do |
//! |---|---|---|
//! | `Harmless` | opens, nothing is lost: what a crash leaves | nothing |
//! | `Spare` | opens, nothing is lost: a copy of two, or an empty log | `repair`, or open it |
//! | `Damage` | opens, and something in it is wrong | restore it |
//! | `Refused` | does not open | restore it, or as the finding says |

use std::path::PathBuf;

use thiserror::Error;
use words::TxId;

use crate::LogMismatch;

/// How bad a finding is; in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Severity {
    /// No damage: what a crash leaves.
    Harmless,
    /// One of two copies is damaged, or a log that held nothing is lost; nothing else is.
    /// [`repair`](crate::repair) fixes it.
    Spare,
    /// The pool opens, and something in it is wrong.
    Damage,
    /// The pool does not open.
    Refused,
}

/// One thing that a check has found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The file.
    pub path: PathBuf,
    /// The place in it, in bytes; nothing where it is about the file as a whole.
    pub at: Option<u64>,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong. `Display` says it in a few words.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// Neither superblock is one; the file may be no pool at all.
    #[error("neither copy of the superblock is valid")]
    NoSuperblock,
    /// One superblock is damaged, or its update was cut short; the other counts.
    #[error("copy {copy} of the superblock is damaged")]
    Superblock {
        /// 0 or 1.
        copy: usize,
    },
    /// One superblock is older than the other, which counts.
    #[error("copy {copy} of the superblock has edition {edition}, the other one {newer}")]
    SuperblockBehind {
        /// 0 or 1.
        copy: usize,
        /// Its edition.
        edition: u64,
        /// The other one's.
        newer: u64,
    },
    /// Both superblocks are whole, and no update has left one beside the other.
    #[error("the two superblocks contradict each other")]
    Superblocks,
    /// A superblock of a version, or with features, that this program does not know.
    #[error("copy {copy} of the superblock has format version {found:#x}, not {expected}")]
    Version {
        /// 0 or 1.
        copy: usize,
        /// The version and features that it names.
        found: u64,
        /// The version that this program knows.
        expected: u64,
    },
    /// The superblock describes areas, or has numbers, that no pool has.
    #[error("the superblock describes areas, or has numbers, that no pool has")]
    Areas,
    /// The pool's file is not as long as the superblock says.
    #[error("the file has {found} bytes, not {expected}: it was {}", if found < expected {
        "truncated" } else { "made longer" })]
    Length {
        /// Bytes that it has.
        found: u64,
        /// Bytes that it must have.
        expected: u64,
    },
    /// A design that this program does not know.
    #[error("design {found:?} is not known to this program")]
    Design {
        /// Its name.
        found: String,
    },
    /// A medium that this program does not know, or not with a log in this place.
    #[error("medium {found:?} is not known to this program")]
    Medium {
        /// Its name.
        found: String,
    },
    /// Another layout than the one that is expected.
    #[error(
        "its layout is {found:?} version {found_version}, not {expected:?} version \
         {expected_version}"
    )]
    Layout {
        /// The pool's layout.
        found: String,
        /// Its version.
        found_version: u64,
        /// The layout that is expected.
        expected: String,
        /// Its version.
        expected_version: u64,
    },
    /// A pool on a medium that cannot go on as the expected one.
    #[error("it is on medium `{own}`, and cannot be opened on the one that is expected")]
    OtherMedium {
        /// The pool's medium.
        own: &'static str,
    },
    /// A pool of persistent memory in a place outside of it.
    #[error("it is on medium `dax`, and this place is not in persistent memory")]
    NoDax,
    /// The log is lost, the pool was closed cleanly, and the check was asked to take it [without
    /// its log](crate::CheckOptions::without_log).
    #[error("the log is lost ({})", why.map_or("it is missing".into(), |why| why.to_string()))]
    LogLost {
        /// Why the file in its place is not the log; nothing when there is none.
        why: Option<LogMismatch>,
    },
    /// The log's file is not there.
    #[error("the log is missing")]
    LogMissing {
        /// Transactions after this one are only in the log; nothing when it holds none.
        needed_after: Option<TxId>,
    },
    /// The log's file is not as long as the superblock says.
    #[error("the log has {found} bytes, not {expected}")]
    LogLength {
        /// Bytes that it has.
        found: u64,
        /// Bytes that it must have.
        expected: u64,
        /// As in [`Problem::LogMissing`].
        needed_after: Option<TxId>,
    },
    /// Neither head of the log is valid.
    #[error("neither copy of the log's head is valid")]
    NoLogHead {
        /// As in [`Problem::LogMissing`].
        needed_after: Option<TxId>,
    },
    /// One head of the log is damaged, or its update was cut short; the other counts.
    #[error("copy {copy} of the log's head is damaged")]
    LogHead {
        /// 0 or 1.
        copy: usize,
    },
    /// One head of the log is older than the other, which counts.
    #[error("copy {copy} of the log's head has edition {edition}, the other one {newer}")]
    LogHeadBehind {
        /// 0 or 1.
        copy: usize,
        /// Its edition.
        edition: u64,
        /// The other one's.
        newer: u64,
    },
    /// Both heads of the log are whole, and no update has left one beside the other.
    #[error("the two copies of the log's head contradict each other")]
    LogHeads {
        /// As in [`Problem::LogMissing`].
        needed_after: Option<TxId>,
    },
    /// A head of the log of a version, or with features, that this program does not know.
    #[error("copy {copy} of the log's head has format version {found:#x}, not {expected}")]
    LogVersion {
        /// 0 or 1.
        copy: usize,
        /// The version and features that it names.
        found: u64,
        /// The version that this program knows.
        expected: u64,
    },
    /// The log of another pool.
    #[error("the log belongs to pool {found:016x}, this is pool {expected:016x}")]
    LogOfOtherPool {
        /// The pool that it names.
        found: u64,
        /// This pool.
        expected: u64,
        /// As in [`Problem::LogMissing`].
        needed_after: Option<TxId>,
    },
    /// The log of another time.
    #[error("the log is of generation {found}, the pool of generation {expected}")]
    LogOfOtherTime {
        /// The log's generation.
        found: u64,
        /// The pool's.
        expected: u64,
        /// As in [`Problem::LogMissing`].
        needed_after: Option<TxId>,
    },
    /// Groups of the log that were acknowledged are not what they were: whole groups behind them
    /// say so.
    #[error("groups of the log that were acknowledged are damaged")]
    LogGroups {
        /// Transactions that are lost: first and last of each gap.
        lost: Vec<(TxId, TxId)>,
        /// Transactions that are whole in the log and come after lost ones: first and last of each
        /// unbroken part.
        unreached: Vec<(TxId, TxId)>,
    },
    /// A whole group of the log that does not follow, or writes outside the heap.
    #[error("a group of the log is whole, and it does not follow or writes outside the heap")]
    LogGroup {
        /// Transactions after this one are only in the log.
        needed_after: TxId,
    },
    /// The log ends in a write that was cut short.
    #[error("the log ends in a write that was cut short")]
    TornEnd {
        /// The last transaction before it.
        last: TxId,
    },
    /// The allocator's words do not fit together. The place of the finding is in the file, that of
    /// the damage in the heap.
    #[error("{0}")]
    Heap(lw_alloc::Damage),
    /// The heap was not looked at as a whole: damage hides the rest, or the log cannot be replayed.
    #[error("not all of the heap could be checked")]
    HeapUnchecked,
    /// The root leads to no live object.
    #[error("the root is {root:#x}, which is no live object")]
    Root {
        /// The root.
        root: u64,
    },
}

/// What a log that cannot be read means.
fn log_lost(needed_after: Option<TxId>) -> String {
    match needed_after {
        Some(TxId(last)) => {
            format!("acknowledged transactions after {last} may be in the log alone")
        }
        None => "no transaction: the pool was closed cleanly, so its heap is whole".into(),
    }
}

fn ranges(ranges: &[(TxId, TxId)]) -> String {
    const SHOWN: usize = 8;
    let one = |&(first, last): &(TxId, TxId)| match first == last {
        true => format!("{}", first.0),
        false => format!("{} to {}", first.0, last.0),
    };
    let shown: Vec<String> = ranges.iter().take(SHOWN).map(one).collect();
    let more = ranges.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more ranges") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

impl Problem {
    /// Its name for programs.
    pub fn name(&self) -> &'static str {
        match self {
            Problem::NoSuperblock => "no_superblock",
            Problem::Superblock { .. } => "superblock_copy",
            Problem::SuperblockBehind { .. } => "superblock_behind",
            Problem::Superblocks => "superblocks_contradict",
            Problem::Version { .. } => "format_version",
            Problem::Areas => "areas",
            Problem::Length { .. } => "length",
            Problem::Design { .. } => "unknown_design",
            Problem::Medium { .. } => "unknown_medium",
            Problem::Layout { .. } => "layout",
            Problem::OtherMedium { .. } => "other_medium",
            Problem::NoDax => "no_dax",
            Problem::LogLost { .. } => "log_lost",
            Problem::LogMissing { .. } => "log_missing",
            Problem::LogLength { .. } => "log_length",
            Problem::NoLogHead { .. } => "no_log_head",
            Problem::LogHead { .. } => "log_head_copy",
            Problem::LogHeadBehind { .. } => "log_head_behind",
            Problem::LogHeads { .. } => "log_heads_contradict",
            Problem::LogVersion { .. } => "log_format_version",
            Problem::LogOfOtherPool { .. } => "log_of_other_pool",
            Problem::LogOfOtherTime { .. } => "log_of_other_time",
            Problem::LogGroups { .. } => "log_groups",
            Problem::LogGroup { .. } => "log_group",
            Problem::TornEnd { .. } => "torn_end",
            Problem::Heap(_) => "heap",
            Problem::HeapUnchecked => "heap_unchecked",
            Problem::Root { .. } => "root",
        }
    }

    /// How bad it is.
    pub fn severity(&self) -> Severity {
        match self {
            // A crash between the two writes of an update leaves one copy one edition behind.
            Problem::SuperblockBehind { edition, newer, .. }
            | Problem::LogHeadBehind { edition, newer, .. }
                if edition + 1 == *newer =>
            {
                Severity::Harmless
            }
            Problem::TornEnd { .. } | Problem::HeapUnchecked => Severity::Harmless,
            Problem::Superblock { .. }
            | Problem::SuperblockBehind { .. }
            | Problem::LogHead { .. }
            | Problem::LogHeadBehind { .. }
            | Problem::LogLost { .. } => Severity::Spare,
            Problem::Heap(_) | Problem::Root { .. } => Severity::Damage,
            _ => Severity::Refused,
        }
    }

    /// What is affected.
    pub fn affected(&self) -> String {
        match self {
            Problem::NoSuperblock | Problem::Superblocks | Problem::Areas => {
                "the whole pool: nothing says where heap and log are".into()
            }
            Problem::Version { .. } | Problem::Design { .. } | Problem::Medium { .. } => {
                "the whole pool: another program has written it".into()
            }
            Problem::Superblock { .. }
            | Problem::LogHead { .. }
            | Problem::SuperblockBehind { .. }
            | Problem::LogHeadBehind { .. } => "nothing: the other copy counts".into(),
            Problem::Layout { .. } | Problem::OtherMedium { .. } | Problem::NoDax => {
                "nothing that is stored: the pool opens where it is expected as it is".into()
            }
            Problem::LogLost { .. } => log_lost(None),
            Problem::Length { found, expected } if found < expected => {
                format!("the heap's last {} bytes", expected - found)
            }
            Problem::Length { found, expected } => {
                format!("{} bytes that belong to nothing", found - expected)
            }
            Problem::LogMissing { needed_after }
            | Problem::LogLength { needed_after, .. }
            | Problem::NoLogHead { needed_after }
            | Problem::LogHeads { needed_after }
            | Problem::LogOfOtherPool { needed_after, .. }
            | Problem::LogOfOtherTime { needed_after, .. } => log_lost(*needed_after),
            Problem::LogVersion { .. } => "the log: another program has written it".into(),
            Problem::LogGroups { lost, unreached } => format!(
                "transactions {} are lost; {} are whole in the log, but rest on them",
                ranges(lost),
                ranges(unreached)
            ),
            Problem::LogGroup { needed_after } => log_lost(Some(*needed_after)),
            Problem::TornEnd { last } => {
                let last = last.0;
                format!("none that was acknowledged, if a crash left this; the last one is {last}")
            }
            Problem::Heap(damage) => match damage.object() {
                Some(object) => format!("the object at heap offset {object:#x}"),
                None => format!("the allocator, in chunk {}", damage.chunk()),
            },
            Problem::HeapUnchecked => "what was not looked at is neither sound nor damaged".into(),
            Problem::Root { .. } => "what the program reaches from its root".into(),
        }
    }

    /// What can be done.
    pub fn remedy(&self) -> &'static str {
        match self {
            Problem::SuperblockBehind { edition, newer, .. }
            | Problem::LogHeadBehind { edition, newer, .. }
                if edition + 1 == *newer =>
            {
                "nothing: a crash has interrupted an update, and the next open completes it"
            }
            Problem::Superblock { .. }
            | Problem::SuperblockBehind { .. }
            | Problem::LogHead { .. }
            | Problem::LogHeadBehind { .. } => {
                "repair it, or open the pool: both write the copy that counts over this one"
            }
            Problem::NoSuperblock | Problem::Superblocks | Problem::Areas => {
                "if it is a pool, restore both files from one copy"
            }
            Problem::Version { .. }
            | Problem::LogVersion { .. }
            | Problem::Design { .. }
            | Problem::Medium { .. } => "open it with the program that has written it",
            Problem::Length { found, expected } if found > expected => {
                "if something was added at its end, cut that off (`truncate -s`, to the bytes \
                 that it must have); if not, restore both files from one copy"
            }
            Problem::Length { .. } => "restore both files from one copy",
            Problem::Layout { .. } => "open it with the program that made it",
            Problem::OtherMedium { .. } => "open it on its own medium",
            Problem::NoDax => {
                "move it to a file system mounted with `-o dax`, or open it on another medium"
            }
            Problem::LogLost { .. } => {
                "repair it, or open the pool: both make a new log, and keep a file in its place as \
                 NAME.log.lost"
            }
            Problem::LogMissing { needed_after: None }
            | Problem::LogLength { needed_after: None, .. }
            | Problem::NoLogHead { needed_after: None }
            | Problem::LogHeads { needed_after: None }
            | Problem::LogOfOtherPool { needed_after: None, .. }
            | Problem::LogOfOtherTime { needed_after: None, .. } => {
                "bring back the log that was beside the pool; if there is none, let a new one be \
                 made: `lastword pool check --repair --without-log`, or open the pool with the \
                 option `without_log`"
            }
            Problem::LogMissing { .. }
            | Problem::LogOfOtherPool { .. }
            | Problem::LogOfOtherTime { .. } => {
                "bring back the log that was beside the pool, or restore both files from one copy"
            }
            Problem::LogLength { .. }
            | Problem::NoLogHead { .. }
            | Problem::LogHeads { .. }
            | Problem::LogGroups { .. }
            | Problem::LogGroup { .. } => "restore both files from one copy",
            Problem::TornEnd { .. } => "nothing: opening the pool recovers",
            Problem::Heap(_) => {
                "restore both files from one copy; until then read what is whole with the program"
            }
            Problem::HeapUnchecked => "mend what else was found, then check again",
            Problem::Root { .. } => {
                "let the program set its root again if it can, else restore both from one copy"
            }
        }
    }

    /// Why [`repair`](crate::repair) leaves it; nothing when it mends it.
    pub fn why_left(&self) -> Option<&'static str> {
        match self {
            Problem::Superblock { .. }
            | Problem::SuperblockBehind { .. }
            | Problem::LogHead { .. }
            | Problem::LogHeadBehind { .. }
            | Problem::LogLost { .. } => None,
            Problem::Layout { .. } | Problem::OtherMedium { .. } | Problem::NoDax => {
                Some("the pool is as it was made: what is expected of it differs")
            }
            Problem::LogMissing { needed_after: None }
            | Problem::LogLength { needed_after: None, .. }
            | Problem::NoLogHead { needed_after: None }
            | Problem::LogHeads { needed_after: None }
            | Problem::LogOfOtherPool { needed_after: None, .. }
            | Problem::LogOfOtherTime { needed_after: None, .. } => {
                Some("a new log is made only on demand: repair with `without_log`")
            }
            Problem::TornEnd { .. } => Some("it is no damage, and opening the pool deals with it"),
            Problem::HeapUnchecked => Some("it is no damage"),
            Problem::Version { .. }
            | Problem::LogVersion { .. }
            | Problem::Design { .. }
            | Problem::Medium { .. } => Some("what another program has written is not touched"),
            Problem::Heap(_) | Problem::Root { .. } => {
                Some("nothing else holds what these words were")
            }
            Problem::Length { .. } => {
                Some("the missing bytes are nowhere, and what there is stays")
            }
            _ => Some("nothing in the files says for sure what was there"),
        }
    }
}

impl Finding {
    /// How bad it is; see [`Problem::severity`].
    pub fn severity(&self) -> Severity {
        self.problem.severity()
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(at) = self.at {
            write!(f, " at byte {at}")?;
        }
        write!(f, ": {} (affects {})", self.problem, self.problem.affected())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_shown_as_far_as_somebody_reads_them() {
        let id = |from, to| (TxId(from), TxId(to));
        assert_eq!(ranges(&[id(3, 3), id(5, 9)]), "3, 5 to 9");
        let many: Vec<_> = (0..11).map(|n| id(10 * n, 10 * n + 1)).collect();
        assert!(ranges(&many).ends_with("70 to 71 and 3 more ranges"), "{}", ranges(&many));
    }

    #[test]
    fn what_is_mended_is_harmless_or_spare() {
        let mended = [
            Problem::Superblock { copy: 0 },
            Problem::LogHead { copy: 1 },
            Problem::SuperblockBehind { copy: 1, edition: 1, newer: 2 },
            Problem::LogHeadBehind { copy: 0, edition: 1, newer: 2 },
        ];
        assert!(mended.iter().all(|one| one.why_left().is_none()));
        assert!(mended.iter().all(|one| one.severity() <= Severity::Spare));
        let left = [Problem::NoSuperblock, Problem::Root { root: 1 }, Problem::Areas];
        assert!(
            left.iter().all(|one| one.why_left().is_some() && one.severity() > Severity::Spare)
        );
    }
}
