//! The problems that a check finds, each with its severity, its effect and a remedy.
//!
//! | [`Severity`] | the pool | remedy |
//! |---|---|---|
//! | `Unchecked` | as the other findings say: they hide a part | as they say |
//! | `Harmless` | opens, and lost nothing: the state after a crash | none needed |
//! | `Spare` | opens, and lost nothing: one of two copies, or an empty log | `repair`, or open it |
//! | `Damage` | opens, with damage inside | restore it |
//! | `Refused` | does not open | restore it, or as the finding says |

mod collection;
mod remedy;
mod shown;

use std::path::PathBuf;

use thiserror::Error;
use words::TxId;

pub use self::collection::CollectionDamage;
use self::shown::{groups_lost, log_lost, objects_shown};
use crate::error::{LogDamage, LogMismatch, commands, layout};
use crate::superblock::printable;

/// How bad a finding is, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Severity {
    /// No damage: a part was not checked, for the reason of another finding.
    Unchecked,
    /// No damage: the state after a crash.
    Harmless,
    /// One of two copies is damaged, or an empty log is lost, and nothing else.
    /// [`repair`](crate::repair) fixes it.
    Spare,
    /// The pool opens, but is damaged.
    Damage,
    /// The pool does not open.
    Refused,
}

/// One result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The file.
    pub path: PathBuf,
    /// The offset in the file, in bytes; `None` if the finding is about the whole file.
    pub at: Option<u64>,
    /// The problem at that place.
    pub problem: Problem,
}

/// A problem with a pool. `Display` is a short description.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// Neither superblock is valid. The file may be no pool at all.
    #[error("neither copy of the superblock is valid")]
    NoSuperblock,
    /// One superblock is damaged, or its update was interrupted. The other one is current.
    #[error("copy {copy} of the superblock is damaged")]
    Superblock {
        /// 0 or 1.
        copy: usize,
    },
    /// One superblock is older than the other one, which is current.
    #[error("copy {copy} of the superblock has edition {edition}, the other one {newer}")]
    SuperblockBehind {
        /// 0 or 1.
        copy: usize,
        /// Its edition.
        edition: u64,
        /// The other one's.
        newer: u64,
    },
    /// Both superblocks are valid, and no update leaves such a pair.
    #[error("the two superblocks contradict each other")]
    Superblocks,
    /// A superblock has a version or feature bits that this program does not support.
    #[error("copy {copy} of the superblock has format version {found:#x}, not {expected}")]
    Version {
        /// 0 or 1.
        copy: usize,
        /// The version and feature bits in the file.
        found: u64,
        /// The version that this program reads.
        expected: u64,
    },
    /// The superblock describes areas or numbers that no pool has.
    #[error("the superblock describes areas or numbers that no pool has")]
    Areas,
    /// The length of the pool's file differs from the superblock's.
    #[error("the file has {found} bytes, not {expected}: it was {}", if found < expected {
        "truncated" } else { "extended" })]
    Length {
        /// The actual length in bytes.
        found: u64,
        /// The required length in bytes.
        expected: u64,
    },
    /// This program does not support the design.
    #[error("this program does not support design {found:?}")]
    Design {
        /// Its name.
        found: String,
    },
    /// This program does not support the medium, or not with a log in this place.
    #[error("this program does not support medium {found:?}")]
    Medium {
        /// Its name.
        found: String,
    },
    /// The layout differs from the expected one.
    #[error("the layout is {}, not {}", layout(found, *found_version),
        layout(expected, *expected_version))]
    Layout {
        /// The pool's layout.
        found: String,
        /// Its version.
        found_version: u64,
        /// The expected layout.
        expected: String,
        /// Its version.
        expected_version: u64,
    },
    /// The pool's medium cannot change to the expected one.
    #[error("the pool is on medium `{own}`, which the expected one cannot replace")]
    OtherMedium {
        /// The pool's medium.
        own: &'static str,
    },
    /// A pool on persistent memory is stored outside of it.
    #[error("the pool is on medium `dax`, but this place is not in persistent memory")]
    NoDax,
    /// The log is lost, but the pool was closed cleanly, and the check accepts it [without its
    /// log](crate::CheckOptions::without_log).
    #[error("the log is lost ({})", why.map_or("it is missing".into(), |why| why.to_string()))]
    LogLost {
        /// Why the file in its place is not the log; `None` if there is no file.
        why: Option<LogMismatch>,
    },
    /// The log file does not exist.
    #[error("the log is missing")]
    LogMissing {
        /// Transactions after this one are in the log alone; `None` if the log holds none.
        needed_after: Option<TxId>,
    },
    /// The length of the log file differs from the superblock's.
    #[error("the log has {found} bytes, not {expected}")]
    LogLength {
        /// The actual length in bytes.
        found: u64,
        /// The required length in bytes.
        expected: u64,
        /// As in [`Problem::LogMissing`].
        needed_after: Option<TxId>,
    },
    /// Neither copy of the log's head is valid.
    #[error("neither copy of the log's head is valid")]
    NoLogHead {
        /// As in [`Problem::LogMissing`].
        needed_after: Option<TxId>,
    },
    /// One copy of the log's head is damaged, or its update was interrupted. The other one is
    /// current.
    #[error("copy {copy} of the log's head is damaged")]
    LogHead {
        /// 0 or 1.
        copy: usize,
    },
    /// One copy of the log's head is older than the other one, which is current.
    #[error("copy {copy} of the log's head has edition {edition}, the other one {newer}")]
    LogHeadBehind {
        /// 0 or 1.
        copy: usize,
        /// Its edition.
        edition: u64,
        /// The other one's.
        newer: u64,
    },
    /// Both copies of the log's head are valid, and no update leaves such a pair.
    #[error("the two copies of the log's head contradict each other")]
    LogHeads {
        /// As in [`Problem::LogMissing`].
        needed_after: Option<TxId>,
    },
    /// A copy of the log's head has a version or feature bits that this program does not support.
    #[error("copy {copy} of the log's head has format version {found:#x}, not {expected}")]
    LogVersion {
        /// 0 or 1.
        copy: usize,
        /// The version and feature bits in the file.
        found: u64,
        /// The version that this program reads.
        expected: u64,
    },
    /// The log belongs to another pool.
    #[error("the log belongs to pool {found:016x}, and this is pool {expected:016x}")]
    LogOfOtherPool {
        /// The pool ID in the log head.
        found: u64,
        /// The ID of this pool.
        expected: u64,
        /// As in [`Problem::LogMissing`].
        needed_after: Option<TxId>,
    },
    /// The log belongs to another generation of the pool.
    #[error("the log has generation {found}, and the pool has generation {expected}")]
    LogOfOtherTime {
        /// The log's generation.
        found: u64,
        /// The pool's.
        expected: u64,
        /// As in [`Problem::LogMissing`].
        needed_after: Option<TxId>,
    },
    /// Acknowledged groups of the log are damaged: intact groups follow them, or witnesses say that
    /// they were durable.
    #[error("acknowledged groups of the log are damaged")]
    LogGroups {
        /// Lost transactions: first and last of each gap.
        lost: Vec<(TxId, TxId)>,
        /// Transactions intact in the log that follow lost ones: first and last of each contiguous
        /// range.
        unreached: Vec<(TxId, TxId)>,
    },
    /// The log is in a state that no crash leaves.
    #[error("{why}")]
    LogGroup {
        /// Transactions after this one are in the log alone.
        needed_after: TxId,
        /// The damage.
        why: LogDamage,
    },
    /// The log ends in a torn write.
    #[error("the log ends in a torn write")]
    TornEnd {
        /// The last transaction before it.
        last: TxId,
    },
    /// Neighboring pages of the heap differ from their checksums: the disk or another program has
    /// changed them.
    #[error("{pages} {} of the heap {}", if *.pages == 1 { "page" } else { "pages" },
        if *.pages == 1 { "differs from its checksum" } else { "differ from their checksums" })]
    DamagedPages {
        /// How many.
        pages: usize,
        /// The live objects of which a part lies there, as far as the heap shows them.
        objects: Vec<u64>,
    },
    /// A part of the checksum table is damaged, so pages have no checksum.
    #[error("the checksums of {pages} pages of the heap, from byte {first} on, are damaged")]
    PageChecksums {
        /// First byte of the first of these pages in the file.
        first: u64,
        /// How many pages.
        pages: usize,
        /// Whether a crash may have left the table so.
        may_be_torn: bool,
    },
    /// The allocator's words are inconsistent. The finding has the offset in the file, the damage
    /// the offset in the heap.
    #[error("{0}")]
    Heap(lw_alloc::Damage),
    /// The heap was not checked completely: damage hides the rest, or the log cannot be replayed.
    #[error("the heap could not be checked completely")]
    HeapUnchecked,
    /// The root does not lead to a live object.
    #[error("the root is {root:#x}, which is not a live object")]
    Root {
        /// The root.
        root: u64,
    },
    /// The catalog of collections with names is damaged.
    #[error("the catalog of collections is damaged: {0}")]
    Catalog(CollectionDamage),
    /// A collection with a name is damaged.
    #[error("collection `{}` is damaged: {damage}", printable(name))]
    Collection {
        /// The name.
        name: String,
        /// The first damage found.
        damage: CollectionDamage,
    },
    /// A collection was not checked: this program does not know its types.
    #[error(
        "collection `{}` was not checked: this program does not know {}",
        printable(name),
        printable(types)
    )]
    CollectionUnchecked {
        /// The name.
        name: String,
        /// The types in the catalog.
        types: String,
    },
}

impl Problem {
    /// Returns its name for programs.
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
            Problem::DamagedPages { .. } => "damaged_pages",
            Problem::PageChecksums { .. } => "page_checksums",
            Problem::Heap(_) => "heap",
            Problem::HeapUnchecked => "heap_unchecked",
            Problem::Root { .. } => "root",
            Problem::Catalog(_) => "catalog",
            Problem::Collection { .. } => "collection",
            Problem::CollectionUnchecked { .. } => "collection_unchecked",
        }
    }

    /// Returns its severity.
    pub fn severity(&self) -> Severity {
        match self {
            // A crash between the two writes of an update leaves one copy one edition behind.
            Problem::SuperblockBehind { edition, newer, .. }
            | Problem::LogHeadBehind { edition, newer, .. }
                if edition + 1 == *newer =>
            {
                Severity::Harmless
            }
            Problem::HeapUnchecked | Problem::CollectionUnchecked { .. } => Severity::Unchecked,
            Problem::TornEnd { .. } | Problem::PageChecksums { may_be_torn: true, .. } => {
                Severity::Harmless
            }
            Problem::Superblock { .. }
            | Problem::SuperblockBehind { .. }
            | Problem::LogHead { .. }
            | Problem::LogHeadBehind { .. }
            | Problem::LogLost { .. } => Severity::Spare,
            Problem::PageChecksums { .. }
            | Problem::Heap(_)
            | Problem::Root { .. }
            | Problem::Catalog(_)
            | Problem::Collection { .. } => Severity::Damage,
            _ => Severity::Refused,
        }
    }

    /// Returns its effect on the pool.
    pub fn affected(&self) -> String {
        match self {
            Problem::NoSuperblock | Problem::Superblocks | Problem::Areas => {
                "the whole pool: the places of heap and log are unknown".into()
            }
            Problem::Version { .. } | Problem::Design { .. } | Problem::Medium { .. } => {
                "the whole pool: another program wrote it".into()
            }
            Problem::Superblock { .. }
            | Problem::LogHead { .. }
            | Problem::SuperblockBehind { .. }
            | Problem::LogHeadBehind { .. } => "nothing: the other copy is current".into(),
            Problem::Layout { .. } | Problem::OtherMedium { .. } | Problem::NoDax => {
                "no stored data: the pool differs only from the expectations".into()
            }
            Problem::LogLost { .. } => log_lost(None),
            Problem::Length { found, expected } if found < expected => {
                format!("the heap's last {} bytes", expected - found)
            }
            Problem::Length { found, expected } => {
                format!("{} bytes past the end of the pool", found - expected)
            }
            Problem::LogMissing { needed_after }
            | Problem::LogLength { needed_after, .. }
            | Problem::NoLogHead { needed_after }
            | Problem::LogHeads { needed_after }
            | Problem::LogOfOtherPool { needed_after, .. } => log_lost(*needed_after),
            Problem::LogOfOtherTime { found, expected, .. } if found > expected => {
                "acknowledged transactions after this copy of the pool's file was made".into()
            }
            Problem::LogOfOtherTime { needed_after, .. } => log_lost(*needed_after),
            Problem::LogVersion { .. } => "the log: another program wrote it".into(),
            Problem::LogGroups { lost, unreached } => groups_lost(lost, unreached),
            Problem::LogGroup { needed_after, .. } => log_lost(Some(*needed_after)),
            Problem::TornEnd { last } => {
                let last = last.0;
                format!("no acknowledged transaction, if a crash left it; the last one is {last}")
            }
            Problem::DamagedPages { objects, .. } => objects_shown(objects),
            Problem::PageChecksums { .. } => "damage to these pages is not found".into(),
            Problem::Heap(damage) => match damage.object() {
                Some(object) => format!("the object at heap offset {object:#x}"),
                None => format!("the allocator, at heap offset {:#x}", damage.offset),
            },
            Problem::HeapUnchecked => "unknown: the rest of the heap was not checked".into(),
            Problem::Root { .. } => "all data that the program reaches from its root".into(),
            Problem::Catalog(_) => "the collections that the program opens by name".into(),
            Problem::Collection { name, .. } | Problem::CollectionUnchecked { name, .. } => {
                format!("the collection `{}`", printable(name))
            }
        }
    }

    /// Returns the reason why [`repair`](crate::repair) leaves the problem; `None` if it fixes it.
    pub fn why_left(&self) -> Option<&'static str> {
        match self {
            Problem::Superblock { .. }
            | Problem::SuperblockBehind { .. }
            | Problem::LogHead { .. }
            | Problem::LogHeadBehind { .. }
            | Problem::LogLost { .. } => None,
            Problem::Layout { .. } | Problem::OtherMedium { .. } | Problem::NoDax => {
                Some("the pool is intact: only the expectations differ")
            }
            Problem::LogMissing { needed_after: None }
            | Problem::LogLength { needed_after: None, .. }
            | Problem::NoLogHead { needed_after: None }
            | Problem::LogHeads { needed_after: None }
            | Problem::LogOfOtherPool { needed_after: None, .. }
            | Problem::LogOfOtherTime { needed_after: None, .. } => {
                Some("a new log is made only on demand: repair with `without_log`")
            }
            Problem::TornEnd { .. } => Some("it is no damage, and opening the pool handles it"),
            Problem::HeapUnchecked | Problem::CollectionUnchecked { .. } => Some("it is no damage"),
            Problem::PageChecksums { .. } => Some("no copy shows whether these pages are intact"),
            Problem::Version { .. }
            | Problem::LogVersion { .. }
            | Problem::Design { .. }
            | Problem::Medium { .. } => Some("another program wrote it"),
            Problem::DamagedPages { .. }
            | Problem::Heap(_)
            | Problem::Root { .. }
            | Problem::Catalog(_)
            | Problem::Collection { .. } => Some("the files hold no second copy of these words"),
            Problem::Length { .. } => {
                Some("the missing bytes have no second copy, and existing bytes are kept")
            }
            _ => Some("the files do not prove what the correct content was"),
        }
    }
}

impl Finding {
    /// Returns its severity; see [`Problem::severity`].
    pub fn severity(&self) -> Severity {
        self.problem.severity()
    }

    /// Returns the remedy, as [`Problem::remedy`] does, with the paths in its commands.
    pub fn remedy(&self) -> String {
        let (general, command) = match self.problem {
            Problem::Length { expected, .. } => {
                ("`truncate`, to the required length", commands::truncate(&self.path, expected))
            }
            _ => (
                "`lastword pool check --repair --without-log`",
                commands::repair_without_log(&self.path),
            ),
        };
        self.problem.remedy().replace(general, &format!("`{command}`"))
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
    use super::shown::ranges;
    use super::*;

    #[test]
    fn ranges_beyond_eight_are_counted() {
        let id = |from, to| (TxId(from), TxId(to));
        assert_eq!(ranges(&[id(3, 3), id(5, 9)]), "3, 5 to 9");
        let many: Vec<_> = (0..11).map(|n| id(10 * n, 10 * n + 1)).collect();
        assert!(ranges(&many).ends_with("70 to 71 and 3 more ranges"), "{}", ranges(&many));
    }

    #[test]
    fn repairable_problems_are_at_most_spare() {
        let repairable = [
            Problem::Superblock { copy: 0 },
            Problem::LogHead { copy: 1 },
            Problem::SuperblockBehind { copy: 1, edition: 1, newer: 2 },
            Problem::LogHeadBehind { copy: 0, edition: 1, newer: 2 },
        ];
        assert!(repairable.iter().all(|one| one.why_left().is_none()));
        assert!(repairable.iter().all(|one| one.severity() <= Severity::Spare));
        let left = [Problem::NoSuperblock, Problem::Root { root: 1 }, Problem::Areas];
        assert!(
            left.iter().all(|one| one.why_left().is_some() && one.severity() > Severity::Spare)
        );
    }
}
