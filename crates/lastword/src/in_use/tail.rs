//! The end of a log that another process is writing.

use lw_log::{Found, Scan};
use medium::mutants::{Mutant, injected};
use medium::{HeapMedium, ReadLog};
use words::TxId;

use super::{Interrupted, Source};
use crate::error::LogDamage;
use crate::recover::{Replayed, identity, witnessed};
use crate::superblock::Superblock;

/// Reads the groups after a superblock as the owner writes them.
pub(crate) struct Tail<'s> {
    source: &'s Source,
    scan: Scan<'s>,
    replayed: Replayed,
}

impl Tail<'_> {
    pub(crate) fn new(source: &Source) -> Tail<'_> {
        let Superblock { reproduced, log_sequence, heap_bytes, .. } = source.superblock;
        let (last, words) = (TxId(reproduced), heap_bytes / 8);
        let identity = identity(&source.superblock);
        let scan = Scan::new(&source.log, identity, log_sequence, last, words);
        Tail { source, scan, replayed: Replayed { last, transactions: 0, torn: false } }
    }

    /// Returns the last transaction read.
    pub(crate) fn replayed(&self) -> Replayed {
        self.replayed
    }

    /// Applies the groups up to the end of the log, but at least those that were in the log at the
    /// call.
    ///
    /// # Errors
    /// As [`Source::load`].
    pub(crate) fn read_on(&mut self, image: &mut dyn HeapMedium) -> Result<(), Interrupted> {
        // After a clean shutdown the heap image is complete, and no generation has begun since.
        if self.source.superblock.clean {
            return self.source.check_unchanged(u64::MAX);
        }
        // Before the log is read: these groups were durable, and so they are there.
        let durable = witnessed(&self.source.superblock, &self.source.log)?;
        // The log has no room for more, so later groups were written after the call. Without this
        // bound a fast owner would keep the reader here.
        let tail = self.source.now()?.log_sequence.max(self.scan.sequence());
        let end = tail + self.source.log.bytes();
        while self.scan.sequence() < end {
            if !self.next(image)? {
                return self.check_end(durable);
            }
        }
        self.source.check_unchanged(u64::MAX)
    }

    /// Checks that the log does not end before this transaction. Its end was not reused.
    fn check_end(&self, durable: TxId) -> Result<(), Interrupted> {
        if durable <= self.replayed.last || injected(Mutant::ReaderIgnoresWitness) {
            return Ok(());
        }
        let first = TxId(self.replayed.last.0 + 1);
        let at = self.scan.sequence() % self.source.log.bytes();
        Err(self.damaged(at, LogDamage::EndLost { first, last: durable }))
    }

    /// Applies the next group. Returns false at the end of the log.
    fn next(&mut self, image: &mut dyn HeapMedium) -> Result<bool, Interrupted> {
        let sequence = self.scan.sequence();
        let found = self.scan.next_written()?;
        if let Found::Group { first, last } = found {
            return self.apply(first, last, image);
        }
        let overtaken = match self.source.check_unchanged(sequence) {
            Ok(()) => {
                return match found {
                    Found::Damaged { at } => Err(self.damaged(at, LogDamage::Unexpected)),
                    // A torn group is in flight, or the owner has died.
                    _ => Ok(false),
                };
            }
            Err(overtaken @ Interrupted::Overtaken { .. }) => overtaken,
            Err(interrupted) => return Err(interrupted),
        };
        // The group was written meanwhile, and its space can be reused. It may still be there.
        self.source.forget_pages();
        match self.scan.next_written()? {
            Found::Group { first, last } => self.apply(first, last, image),
            _ => Err(overtaken),
        }
    }

    /// Applies the group that was read.
    fn apply(
        &mut self,
        first: TxId,
        last: TxId,
        image: &mut dyn HeapMedium,
    ) -> Result<bool, Interrupted> {
        image.write_back(self.scan.payload())?;
        self.replayed.transactions += last.0 - first.0 + 1;
        self.replayed.last = last;
        Ok(true)
    }

    /// Reads on when all of the heap was read, and makes the groups durable.
    ///
    /// # Errors
    /// As [`Source::load`].
    pub(super) fn finish(&mut self, image: &mut dyn HeapMedium) -> Result<(), Interrupted> {
        self.source.forget_pages();
        self.read_on(image)?;
        if self.source.superblock.clean {
            return Ok(());
        }
        // A later group may prove that the log did not end here. The owner may have written the
        // missing one just now, so look there again before it counts as lost.
        if let Some(at) = self.scan.later_group()? {
            if !self.next(image)? {
                return Err(self.damaged(at, LogDamage::Unexpected));
            }
            self.read_on(image)?;
        }
        match self.source.syncs {
            true => Ok(self.source.log_place.sync()?),
            false => Ok(()),
        }
    }

    fn damaged(&self, at: u64, why: LogDamage) -> Interrupted {
        let path = self.source.log_place.path().to_path_buf();
        Interrupted::Damaged { path, at: self.source.superblock.log_offset + at, why }
    }
}
