//! Runs of units: taken from bins by their length, merged with their neighbors when freed.
//!
//! ```text
//!   take 5 units    bin of 5 -> next bin that holds a run, by the bitmap -> the frontier
//!                   the rest of a longer run returns to the bin of its length
//!   give a run      the head behind it, and its own word `before`, name the free neighbors
//! ```
//!
//! Each takes constant time: a bin is found by arithmetic, and a run knows its neighbors. Slabs
//! take runs rarely, once for 32 KiB of objects. A transaction that takes or gives first locks and
//! protects the page object. Two such transactions therefore exclude each other under every
//! isolation level.
//!
//! Under snapshot isolation, neighboring runs would conflict without it: each change writes the
//! heads beside its run. `snapshot` needs the page object for another reason. A transaction that
//! gives a run keeps it until its writes are in the heap image, so no transaction takes the run
//! before. Otherwise a copy of a word of the freed array could be applied to the run's next owner
//! (`write_back` of `dual_version`).

use system::mutants::{Mutant, injected};
use words::{Addr, LockId, Stop, Words};

use crate::head::{HEAD_BEFORE, HEAD_BIN_NEXT, HEAD_BIN_PREVIOUS, Head, Run};
use crate::layout::{BIN_MAP, BINS, FRONTIER, NEVER_USED};
use crate::{ARENAS, Heap};

/// Returns an arena's lock, for designs that isolate by named locks: the last [`ARENAS`] numbers.
#[inline]
pub(crate) const fn arena_lock(arena: usize) -> LockId {
    LockId(u64::MAX - arena as u64)
}

/// The lock of the page object, of all lists and of all heads. A transaction takes it after the
/// lock of its arena, so no two transactions wait for each other.
pub(crate) const PAGES_LOCK: LockId = LockId(u64::MAX - ARENAS as u64);

/// Runs of the bin of the wanted length that are tried before longer ones. From 8 units on, a bin
/// has runs of different lengths.
const TRIES: usize = 8;
/// The same before the heap counts as full.
const TRIES_WHEN_FULL: usize = 1000;

/// Returns the bin of the free runs of `units` units.
pub(crate) const fn bin_of(units: u64) -> usize {
    if units < 8 {
        return units as usize;
    }
    let power = units.ilog2();
    (8 * (power - 2)) as usize + (units >> (power - 3) & 7) as usize
}

/// The page object, locked by this transaction.
struct Pages {
    frontier: u64,
    never_used: u64,
}

impl Heap {
    /// Takes a run of `units` units. Returns the first, and whether their memory was never used.
    /// The caller writes the head, with `before` 0: nothing free is before a run that was taken.
    ///
    /// # Errors
    /// [`Stop::Full`] when no free run is so long. Otherwise as [`Words::write`].
    pub(crate) fn take_units<W: Words>(&self, tx: &mut W, units: u64) -> Result<(u64, bool), Stop> {
        let pages = self.lock_pages(tx)?;
        match self.find(tx, &pages, units)? {
            Some((unit, head)) => self.take_from(tx, &pages, unit, head, units),
            None => match self.extend(tx, &pages, units) {
                // The bin may have a long run behind those that were tried.
                Err(Stop::Full) => match self.find_among(tx, &pages, units, TRIES_WHEN_FULL)? {
                    (Some((unit, head)), _) => self.take_from(tx, &pages, unit, head, units),
                    _ => Err(Stop::Full),
                },
                result => result,
            },
        }
    }

    /// Takes the longest run of at most `most` and at least `least` units; returns its first unit
    /// and its length.
    ///
    /// # Errors
    /// As [`take_units`](Heap::take_units).
    pub(crate) fn take_longest<W: Words>(
        &self,
        tx: &mut W,
        most: u64,
        least: u64,
    ) -> Result<(u64, u64), Stop> {
        let pages = self.lock_pages(tx)?;
        if let Some((unit, head)) = self.find(tx, &pages, most)? {
            return Ok((self.take_from(tx, &pages, unit, head, most)?.0, most));
        }
        let left = self.units() - pages.frontier;
        if left >= most {
            return Ok((self.extend(tx, &pages, most)?.0, most));
        }
        // The highest bin that holds a run has the longest ones.
        if let Some(bin) = self.last_bin(tx)? {
            let (unit, head) = self.first_in(tx, &pages, bin)?;
            let units = head.units.min(most);
            if units >= least && units >= left {
                return Ok((self.take_from(tx, &pages, unit, head, units)?.0, units));
            }
        }
        if left < least {
            // That bin's first run may be too short, or longer ones be in a lower bin's list behind
            // shorter ones.
            return Ok((self.take_units(tx, least)?.0, least));
        }
        Ok((self.extend(tx, &pages, left)?.0, left))
    }

    /// Frees a run, merged with the free runs beside it.
    pub(crate) fn give_units<W: Words>(
        &self,
        tx: &mut W,
        unit: u64,
        units: u64,
    ) -> Result<(), Stop> {
        let pages = self.lock_pages(tx)?;
        let frontier = pages.frontier;
        let end = unit.checked_add(units).filter(|&end| end <= frontier);
        let mut end = end.ok_or(Stop::BadPointer)?;
        let before = tx.read(self.addr(self.head(unit), HEAD_BEFORE))?;
        // A head inside a longer run would pass for that of a run. A second free of the
        // same run looks for its header and finds none.
        self.clear_header(tx, unit)?;
        if end < frontier
            && let Head { units, kind: Run::Free { next, previous }, .. } =
                self.read_head(tx, end, frontier)?
        {
            if !injected(Mutant::NeighborNotUnlinked) {
                self.unlink_run(tx, &pages, units, (next, previous))?;
            }
            self.clear_header(tx, end)?;
            end += units;
        }
        let mut first = unit;
        if before != 0 {
            first = unit.checked_sub(before).ok_or(Stop::BadPointer)?;
            match self.read_head(tx, first, frontier)? {
                Head { units, kind: Run::Free { next, previous }, .. } if units == before => {
                    self.unlink_run(tx, &pages, units, (next, previous))?;
                    self.clear_header(tx, first)?;
                }
                _ => return Err(Stop::BadPointer),
            }
        }
        if end == frontier {
            // No free run touches the frontier, so the next run there needs no `before`.
            return tx.write(self.pages_at(FRONTIER), first);
        }
        self.link_run(tx, first, end - first)?;
        self.set_before(tx, end, end - first)
    }

    /// Locks the page object against changes by others.
    fn lock_pages<W: Words>(&self, tx: &mut W) -> Result<Pages, Stop> {
        tx.lock(PAGES_LOCK)?;
        if !injected(Mutant::PagesNotProtected) {
            tx.protect(self.pages_at(FRONTIER))?;
        }
        let frontier = self.frontier(tx)?;
        let never_used = tx.read(self.pages_at(NEVER_USED))?;
        if never_used < frontier || never_used > self.units() {
            return Err(Stop::BadPointer);
        }
        Ok(Pages { frontier, never_used })
    }

    /// Returns the unit after the last run.
    pub(crate) fn frontier<W: Words>(&self, tx: &mut W) -> Result<u64, Stop> {
        let frontier = tx.read(self.pages_at(FRONTIER))?;
        let possible = frontier >= self.layout.own_units() && frontier <= self.units();
        if possible { Ok(frontier) } else { Err(Stop::BadPointer) }
    }

    /// Returns the address of a word of the page object.
    const fn pages_at(&self, offset: u64) -> Addr {
        self.addr(self.layout.pages(), offset)
    }

    const fn bin_at(&self, bin: usize) -> Addr {
        let (object, offset) = self.layout.bin(bin);
        self.addr(object, offset)
    }

    /// Finds a free run of at least `units` units.
    fn find<W: Words>(
        &self,
        tx: &mut W,
        pages: &Pages,
        units: u64,
    ) -> Result<Option<(u64, Head)>, Stop> {
        let (found, bin) = self.find_among(tx, pages, units, TRIES)?;
        if found.is_some() || bin >= BINS {
            return Ok(found);
        }
        match self.next_bin(tx, bin + 1)? {
            Some(bin) => self.first_in(tx, pages, bin).map(Some),
            None => Ok(None),
        }
    }

    /// Finds a free run of at least `units` units among the first `tries` of the bin of that
    /// length. Returns it with the bin.
    fn find_among<W: Words>(
        &self,
        tx: &mut W,
        pages: &Pages,
        units: u64,
        tries: usize,
    ) -> Result<(Option<(u64, Head)>, usize), Stop> {
        let bin = bin_of(units);
        if bin >= BINS {
            return Ok((None, bin));
        }
        let mut unit = tx.read(self.bin_at(bin))?;
        for _ in 0..tries {
            if unit == 0 {
                break;
            }
            let head = self.read_head(tx, unit, pages.frontier)?;
            let Run::Free { next, .. } = head.kind else { return Err(Stop::BadPointer) };
            if head.units >= units {
                return Ok((Some((unit, head)), bin));
            }
            unit = next;
        }
        Ok((None, bin))
    }

    /// Returns the first bin from `from` on that holds a run.
    fn next_bin<W: Words>(&self, tx: &mut W, from: usize) -> Result<Option<usize>, Stop> {
        let mut mask = u64::MAX << (from % 64);
        for word in from / 64..BINS.div_ceil(64) {
            let bits = tx.read(self.pages_at(BIN_MAP + 8 * word as u64))? & mask;
            if bits != 0 {
                return Ok(Some(64 * word + bits.trailing_zeros() as usize));
            }
            mask = u64::MAX;
        }
        Ok(None)
    }

    /// Returns the last bin that holds a run.
    fn last_bin<W: Words>(&self, tx: &mut W) -> Result<Option<usize>, Stop> {
        for word in (0..BINS.div_ceil(64)).rev() {
            let bits = tx.read(self.pages_at(BIN_MAP + 8 * word as u64))?;
            if bits != 0 {
                return Ok(Some(64 * word + bits.ilog2() as usize));
            }
        }
        Ok(None)
    }

    /// Returns the first run of a bin whose bit is set in the bitmap.
    fn first_in<W: Words>(
        &self,
        tx: &mut W,
        pages: &Pages,
        bin: usize,
    ) -> Result<(u64, Head), Stop> {
        if bin >= BINS {
            return Err(Stop::BadPointer);
        }
        let unit = tx.read(self.bin_at(bin))?;
        let head = self.read_head(tx, unit, pages.frontier)?;
        match head.kind {
            Run::Free { .. } if bin_of(head.units) == bin => Ok((unit, head)),
            _ => Err(Stop::BadPointer),
        }
    }

    /// Takes the front of a free run, and returns the rest to its bin.
    fn take_from<W: Words>(
        &self,
        tx: &mut W,
        pages: &Pages,
        unit: u64,
        head: Head,
        units: u64,
    ) -> Result<(u64, bool), Stop> {
        let Run::Free { next, previous } = head.kind else { return Err(Stop::BadPointer) };
        self.unlink_run(tx, pages, head.units, (next, previous))?;
        let rest = head.units - units;
        if rest != 0 {
            self.link_run(tx, unit + units, rest)?;
        }
        // A free run does not touch the frontier, so a head follows.
        if !injected(Mutant::BeforeNotSet) {
            self.set_before(tx, unit + head.units, rest)?;
        }
        tx.took_run(units * self.layout.unit_bytes());
        Ok((unit, false))
    }

    /// Takes a run at the frontier.
    fn extend<W: Words>(&self, tx: &mut W, pages: &Pages, units: u64) -> Result<(u64, bool), Stop> {
        let Pages { frontier, never_used } = *pages;
        if units > self.units() - frontier {
            return Err(Stop::Full);
        }
        let end = frontier + units;
        tx.write(self.pages_at(FRONTIER), end)?;
        if end > never_used {
            tx.write(self.pages_at(NEVER_USED), end)?;
        }
        tx.took_run(units * self.layout.unit_bytes());
        Ok((frontier, frontier >= never_used))
    }

    /// Writes the head of a free run and puts it into its bin, first.
    fn link_run<W: Words>(&self, tx: &mut W, unit: u64, units: u64) -> Result<(), Stop> {
        let bin = bin_of(units);
        if bin >= BINS {
            return Err(Stop::BadPointer);
        }
        let next = tx.read(self.bin_at(bin))?;
        let kind = Run::Free { next, previous: 0 };
        self.write_head(tx, unit, Head { units, before: 0, kind })?;
        tx.write(self.bin_at(bin), unit)?;
        if next != 0 {
            return tx.write(self.free_at(next, HEAD_BIN_PREVIOUS)?, unit);
        }
        self.set_bit(tx, bin, true)
    }

    /// Takes a free run of `units` units out of its bin, by its links.
    fn unlink_run<W: Words>(
        &self,
        tx: &mut W,
        pages: &Pages,
        units: u64,
        (next, previous): (u64, u64),
    ) -> Result<(), Stop> {
        let bin = bin_of(units);
        if bin >= BINS {
            return Err(Stop::BadPointer);
        }
        // The neighbors must be free runs: a wrong link would change other memory.
        for neighbor in [next, previous] {
            if neighbor != 0 {
                match self.read_head(tx, neighbor, pages.frontier)?.kind {
                    Run::Free { .. } => {}
                    _ => return Err(Stop::BadPointer),
                }
            }
        }
        if next != 0 {
            tx.write(self.free_at(next, HEAD_BIN_PREVIOUS)?, previous)?;
        }
        if previous != 0 {
            return tx.write(self.free_at(previous, HEAD_BIN_NEXT)?, next);
        }
        tx.write(self.bin_at(bin), next)?;
        let is_empty = next == 0 && !injected(Mutant::EmptyBinNotCleared);
        if is_empty { self.set_bit(tx, bin, false) } else { Ok(()) }
    }

    /// Sets or clears a bin's bit in the bitmap.
    fn set_bit<W: Words>(&self, tx: &mut W, bin: usize, to: bool) -> Result<(), Stop> {
        let at = self.pages_at(BIN_MAP + 8 * (bin / 64) as u64);
        let (word, bit) = (tx.read(at)?, 1 << (bin % 64));
        tx.write(at, if to { word | bit } else { word & !bit })
    }

    /// Returns the address of a word in the head of a free run.
    fn free_at(&self, unit: u64, word: u64) -> Result<Addr, Stop> {
        if unit >= self.units() {
            return Err(Stop::BadPointer);
        }
        Ok(self.addr(self.head(unit), word))
    }

    /// Sets the length of the free run before the run that begins with `unit`.
    fn set_before<W: Words>(&self, tx: &mut W, unit: u64, before: u64) -> Result<(), Stop> {
        // A damaged length would lead to memory that is no head.
        let object = self.head(unit);
        if unit >= self.units() || !self.is_head(tx, object)? {
            return Err(Stop::BadPointer);
        }
        tx.write(self.addr(object, HEAD_BEFORE), before)
    }

    /// Clears the header of a head that begins no run any more.
    fn clear_header<W: Words>(&self, tx: &mut W, unit: u64) -> Result<(), Stop> {
        tx.write(self.header_at(self.head(unit)), 0)
    }

    /// Returns whether the header word before this object is that of a run's head.
    fn is_head<W: Words>(&self, tx: &mut W, object: u64) -> Result<bool, Stop> {
        let header = tx.read(self.header_at(object))?;
        Ok(crate::head::is_header(header, object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_cover_every_length_in_ascending_order() {
        let mut last = 0;
        for units in 1..100_000_u64 {
            let bin = bin_of(units);
            assert!(bin == last || bin == last + 1, "{units} units are in bin {bin} after {last}");
            last = bin;
        }
        assert_eq!(bin_of(7), 7);
        assert_eq!(bin_of(8), 8);
        assert_eq!(bin_of(15), 15);
        assert_eq!(bin_of(16), 16);
        assert_eq!(bin_of(17), 16);
        assert_eq!(bin_of((1 << 38) - 1), BINS - 1, "the longest run of an ordinary heap");
    }
}
