//! The remedies of problems.

use super::Problem;

impl Problem {
    /// Returns the remedy.
    pub fn remedy(&self) -> &'static str {
        match self {
            Problem::SuperblockBehind { edition, newer, .. }
            | Problem::LogHeadBehind { edition, newer, .. }
                if edition + 1 == *newer =>
            {
                "none needed: a crash interrupted an update, and the next opening completes it"
            }
            Problem::Superblock { .. }
            | Problem::SuperblockBehind { .. }
            | Problem::LogHead { .. }
            | Problem::LogHeadBehind { .. } => {
                "repair it, or open the pool: both overwrite this copy with the current one"
            }
            Problem::NoSuperblock | Problem::Superblocks | Problem::Areas => {
                "if the file is a pool, restore both files from the same backup"
            }
            Problem::Version { .. }
            | Problem::LogVersion { .. }
            | Problem::Design { .. }
            | Problem::Medium { .. } => "open it with the program that wrote it",
            Problem::Length { found, expected } if found > expected => {
                "remove the appended bytes (`truncate`, to the required length); if nothing was \
                 appended, restore both files from the same backup"
            }
            Problem::Length { .. } => "restore both files from the same backup",
            Problem::Layout { .. } => "open it with the program that created or migrates it",
            Problem::OtherMedium { .. } => "open it on its own medium",
            Problem::NoDax => {
                "move it to a file system mounted with `-o dax`, or open it on another medium"
            }
            Problem::LogLost { .. } => {
                "repair it, or open the pool: both make a new log, and rename a file in its place \
                 to `NAME.log.lost`"
            }
            Problem::LogOfOtherTime { found, expected, .. } if found > expected => {
                "the pool's file is an older copy: put back the file that belongs to this log, or \
                 restore both files from the same backup"
            }
            Problem::LogMissing { needed_after: None }
            | Problem::LogLength { needed_after: None, .. }
            | Problem::NoLogHead { needed_after: None }
            | Problem::LogHeads { needed_after: None }
            | Problem::LogOfOtherPool { needed_after: None, .. }
            | Problem::LogOfOtherTime { needed_after: None, .. } => {
                "put back the log that belongs to the pool; if it is lost, make a new one with \
                 `lastword pool check --repair --without-log`, or open the pool with the option \
                 `without_log`"
            }
            Problem::LogMissing { .. }
            | Problem::LogOfOtherPool { .. }
            | Problem::LogOfOtherTime { .. } => {
                "put back the log that belongs to the pool, or restore both files from the same \
                 backup"
            }
            Problem::LogLength { .. }
            | Problem::NoLogHead { .. }
            | Problem::LogHeads { .. }
            | Problem::LogGroups { .. }
            | Problem::LogGroup { .. } => "restore both files from the same backup",
            Problem::TornEnd { .. } => "none needed: opening the pool recovers",
            Problem::DamagedPages { .. }
            | Problem::PageChecksums { .. }
            | Problem::Heap(_)
            | Problem::HeapUnchecked
            | Problem::Root { .. }
            | Problem::Catalog(_)
            | Problem::Collection { .. }
            | Problem::CollectionUnchecked { .. } => self.heap_remedy(),
        }
    }

    /// Returns the remedy of a problem with the heap.
    fn heap_remedy(&self) -> &'static str {
        match self {
            Problem::DamagedPages { objects, .. } if objects.is_empty() => {
                "replace the disk, and copy the pool with `lastword pool copy --leave-damaged`; if \
                 that refuses, restore both files from the same backup, or save the intact \
                 objects with `lastword pool export --salvage`"
            }
            Problem::DamagedPages { .. } => {
                "restore both files from the same backup, or save the intact objects with \
                 `lastword pool export --salvage`"
            }
            Problem::PageChecksums { may_be_torn: true, .. } => {
                "none needed: opening and closing the pool computes new checksums"
            }
            Problem::PageChecksums { .. } => {
                "restore both files from the same backup; opening and closing the pool accepts \
                 these pages as they are"
            }
            Problem::HeapUnchecked => "fix the other findings, then check again",
            Problem::Root { .. } => {
                "set the root again with the program, or restore both files from the same backup"
            }
            Problem::Catalog(_) => "restore both files from the same backup",
            Problem::Collection { .. } => {
                "restore both files from the same backup, or save the intact entries with \
                 `lastword pool dump --collection NAME`"
            }
            Problem::CollectionUnchecked { .. } => "check it with the program that created it",
            _ => {
                "restore both files from the same backup, or save the intact objects with \
                 `lastword pool export --salvage`"
            }
        }
    }
}
