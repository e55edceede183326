//! The content of a heap at rest: its allocations and their words.

use std::io::Write;

use lw_alloc::{Allocation, Heap};
use words::{Stop, TxId};

use super::stream::{Header, Writer};
use crate::error::{Error, TransferError};

/// A heap at rest, and the description of its pool for an export.
pub(crate) struct Content<F> {
    /// Root, migration progress and counts are 0 before [`survey`](Content::survey).
    pub(crate) header: Header,
    pub(crate) heap: Heap,
    /// Returns the word at an offset in bytes.
    pub(crate) word: F,
    /// Whether the page of the root and of the migration progress is intact.
    pub(crate) has_root: bool,
}

impl<F: FnMut(u64) -> Result<u64, Stop>> Content<F> {
    /// Returns the allocations that `keep` accepts, and completes the header.
    pub(super) fn survey(
        &mut self,
        keep: impl Fn(&Allocation) -> bool,
    ) -> Result<Vec<Allocation>, Stop> {
        let (mut stop, heap, word) = (None, self.heap, &mut self.word);
        // After an error the walk reads zeros, which end it.
        let mut word = |offset| match word(offset) {
            Ok(word) if stop.is_none() => word,
            Ok(_) => 0,
            Err(found) => {
                stop.get_or_insert(found);
                0
            }
        };
        if self.has_root {
            self.header.root = heap.root_at_rest(&mut word);
            self.header.migrated = heap.migrated_at_rest(&mut word);
        }
        let mut left_out = 0;
        let keep = |it: &Allocation| {
            // A damaged heap may have other sizes.
            let keeps = it.size.is_valid() && keep(it);
            left_out += u64::from(!keeps);
            keeps
        };
        let all: Vec<_> = heap.allocations(&mut word).filter(keep).collect();
        self.header.left_out = left_out;
        self.header.allocations = all.len() as u64;
        self.header.words = all.iter().map(|it| it.size.words()).sum();
        stop.map_or(Ok(all), Err)
    }

    /// Returns the words of the allocations' contents.
    pub(super) fn words<'a>(
        &'a mut self,
        allocations: &'a [Allocation],
    ) -> impl Iterator<Item = Result<u64, Stop>> + 'a {
        allocations.iter().flat_map(Allocation::parts).flatten().map(|at| (self.word)(8 * at))
    }

    /// Writes the export, except for its last frame.
    pub(super) fn write<W: Write>(
        &mut self,
        out: W,
        keep: impl Fn(&Allocation) -> bool,
    ) -> Result<Written<W>, Error> {
        let stopped = |stop| Error::Stopped { stop };
        let allocations = self.survey(keep).map_err(stopped)?;
        let mut writer = Writer::new(out, &self.header)?;
        allocations.iter().try_for_each(|it| writer.allocation(it))?;
        for word in self.words(&allocations) {
            writer.word(word.map_err(stopped)?)?;
        }
        let exported = Exported {
            last: TxId(self.header.last),
            allocations: self.header.allocations,
            left_out: self.header.left_out,
            has_root: self.header.root != 0,
        };
        Ok(Written { writer, exported })
    }
}

/// The result of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exported {
    /// The last transaction in the export. After a [salvage](crate::HeapAtRest::salvage) without a
    /// usable log: the superblock's reproduced ID; the content may have later transactions.
    pub last: TxId,
    /// Number of objects, byte strings and arrays.
    pub allocations: u64,
    /// Number of those that a salvage has left out, because a part of them is damaged.
    pub left_out: u64,
    /// Whether it has a root. A salvage has none if the root's page is damaged.
    pub has_root: bool,
}

/// An export without its last frame.
pub(super) struct Written<W> {
    writer: Writer<W>,
    exported: Exported,
}

impl<W: Write> Written<W> {
    /// Writes the last frame; returns the numbers of the export.
    pub(super) fn finish(self) -> Result<Exported, TransferError> {
        self.writer.finish()?;
        Ok(self.exported)
    }
}
