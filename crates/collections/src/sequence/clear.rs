//! Removal of many elements, in steps that allocate nothing.
//!
//! The first step of a clear takes the whole tree away from the header's root, and the sequence is
//! empty for all transactions after it. The steps then pop from the end of that tree, so a step may
//! follow after a crash.
//!
//! Write skew: the first step protects both ends, so a concurrent push or pop conflicts. Each step
//! writes the chunks that it frees. A concurrent change of an element in another chunk may commit
//! and precedes.

use system::mutants::{Mutant, injected};
use words::{Addr, Stop, Words};

use super::descend::End;
use super::{CLEARED, HEADER_BYTES, ROOT, Sequence, Side};
use crate::entry::Entry;

impl Sequence {
    /// Frees up to `most` elements. Returns whether the sequence is empty and all is freed.
    ///
    /// # Errors
    /// As [`Words::write`], and [`Stop::BadValue`] for damage.
    pub(crate) fn clear<W: Words>(self, tx: &mut W, most: u64) -> Result<bool, Stop> {
        let cleared = self.cleared();
        if tx.read(cleared.start())? == 0 {
            self.detach(tx)?;
        }
        let mut left = most.max(1);
        while let Some(end) = cleared.end(tx, Side::Back)? {
            let chunk = end.used().chunk;
            if chunk.count() == 0 {
                chunk.discard(tx)?;
                cleared.set_root(tx, 0)?;
            } else if left == 0 {
                return Ok(false);
            } else {
                left -= cleared.free_last(tx, &end, left)?;
            }
        }
        let is_empty = tx.read(self.start())? == 0;
        if is_empty {
            // Nothing was written if it was empty before.
            tx.protect(self.start())?;
        }
        Ok(is_empty)
    }

    /// Frees up to `most` elements, and the header if there were no more. Returns whether it did.
    ///
    /// # Errors
    /// As [`clear`](Sequence::clear).
    pub(crate) fn free<W: Words>(self, tx: &mut W, most: u64) -> Result<bool, Stop> {
        if !self.clear(tx, most)? {
            return Ok(false);
        }
        // The root is written, so that a concurrent first push conflicts.
        self.set_root(tx, 0)?;
        tx.retire(Addr::new(self.header, 0), HEADER_BYTES as u64)?;
        Ok(true)
    }

    /// Removes up to `most` elements from the back, as long as there are more than `len`. Returns
    /// whether there are no more.
    ///
    /// # Errors
    /// As [`clear`](Sequence::clear).
    pub(crate) fn truncate<W: Words>(self, tx: &mut W, len: u64, most: u64) -> Result<bool, Stop> {
        let mut excess = self.bounds(tx)?.len().saturating_sub(len);
        if excess == 0 {
            // The result relies on the absence of more elements.
            self.protect_ends(tx)?;
            return Ok(true);
        }
        let mut left = most.max(1);
        while excess > 0 {
            if left == 0 {
                return Ok(false);
            }
            let end = self.end(tx, Side::Back)?.ok_or(Stop::BadValue)?;
            let freed = self.free_last(tx, &end, left.min(excess))?;
            if freed == 0 {
                return Err(Stop::BadValue);
            }
            (excess, left) = (excess.saturating_sub(freed), left.saturating_sub(freed));
        }
        Ok(true)
    }

    /// Returns the tree that is cleared and has yet to be freed.
    pub(super) const fn cleared(self) -> Sequence {
        Sequence { start: CLEARED, ..self }
    }

    /// Takes the tree away from the root, to be freed.
    fn detach<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        let root = tx.read(self.start())?;
        if root == 0 {
            return Ok(());
        }
        if !injected(Mutant::ClearedEndsNotProtected) {
            self.protect_ends(tx)?;
        }
        tx.write_words(Addr::new(self.header, ROOT), &[0, root])
    }

    /// Frees up to `most` elements of the chunk at the back. Returns their number.
    fn free_last<W: Words>(self, tx: &mut W, end: &End, most: u64) -> Result<u64, Stop> {
        let chunk = end.used().chunk;
        let count = chunk.count().min(usize::try_from(most).unwrap_or(usize::MAX));
        if self.form.inline.is_none() {
            for slot in (chunk.to - count..chunk.to).rev() {
                let entry = chunk.pointer(tx, slot)?;
                Entry::open(tx, entry)?.free(tx)?;
            }
        }
        self.remove(tx, Side::Back, end, count)?;
        Ok(count as u64)
    }
}
