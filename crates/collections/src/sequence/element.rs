//! Elements as byte strings: reads, changes, pushes and pops of one.

use std::borrow::Cow;

use system::mutants::{Mutant, injected};
use words::{Allocate, Stop, Words};

use super::node::Node;
use super::{Sequence, Side};
use crate::entry::Entry;

/// The place of an element. It is valid until the transaction changes the sequence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    chunk: Node,
    slot: usize,
}

impl Place {
    /// Calls `with` on the bytes of the slot.
    fn slot<W: Words, R>(
        &self,
        tx: &mut W,
        with: impl FnOnce(&mut W, &[u8]) -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        self.chunk.with_slots(tx, self.slot, self.slot + 1, with)
    }
}

impl Sequence {
    /// Returns the place of an index, if there is an element.
    ///
    /// # Errors
    /// As [`Words::read`], and [`Stop::BadValue`] for damage.
    #[inline]
    pub(crate) fn find<W: Words>(self, tx: &mut W, index: u64) -> Result<Option<Place>, Stop> {
        match self.position(tx, index)? {
            Some(position) => self.find_at(tx, position),
            None => Ok(None),
        }
    }

    /// Returns the place of an index, for a change of its element. Protects all that the change
    /// relies on and does not write: the meaning of the index, and the absence of an element.
    ///
    /// # Errors
    /// As [`find`](Sequence::find) and [`Words::protect`].
    pub(crate) fn find_to_change<W: Words>(
        self,
        tx: &mut W,
        index: u64,
    ) -> Result<Option<Place>, Stop> {
        let place = self.find(tx, index)?;
        match place {
            None => self.protect_ends(tx)?,
            Some(_) if injected(Mutant::QueueFrontNotProtected) => {}
            Some(_) if self.is_queue => self.protect_end(tx, Side::Front)?,
            Some(_) => {}
        }
        Ok(place)
    }

    /// Returns the place of the first or the last element.
    ///
    /// # Errors
    /// As [`find`](Sequence::find).
    pub(crate) fn edge<W: Words>(self, tx: &mut W, side: Side) -> Result<Option<Place>, Stop> {
        let chunk = self.end(tx, side)?.map(|end| end.used().chunk);
        let used = chunk.filter(|chunk| chunk.count() > 0);
        used.map(|chunk| Ok(Place { chunk, slot: chunk.last(side)? })).transpose()
    }

    /// Calls `with` on the encoded element at a place.
    ///
    /// # Errors
    /// As [`Words::read`], and those of `with`.
    #[inline]
    pub(crate) fn value<W: Words, R>(
        self,
        tx: &mut W,
        place: &Place,
        with: impl FnOnce(Cow<'_, [u8]>) -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        if self.form.inline.is_some() {
            return place.slot(tx, |_, slot| with(Cow::Borrowed(slot)));
        }
        self.entry(tx, place)?.value(tx, with)
    }

    /// Replaces the element at a place. The chunk is written or protected: a concurrent swap may
    /// move the entry of the element.
    ///
    /// # Errors
    /// As [`Allocate::allocate`] and [`Words::write`].
    pub(crate) fn replace<W: Allocate>(
        self,
        tx: &mut W,
        place: &Place,
        bytes: &[u8],
    ) -> Result<(), Stop> {
        let Place { chunk, slot } = place;
        if self.form.inline.is_some() {
            self.check_length(bytes)?;
            return if bytes.is_empty() {
                chunk.protect(tx)
            } else {
                chunk.write(tx, *slot, bytes)
            };
        }
        match self.entry(tx, place)?.replace(tx, bytes)? {
            Some(moved) => chunk.write(tx, *slot, &moved.to_ne_bytes()),
            None => chunk.protect(tx),
        }
    }

    /// Adds an element at an end.
    ///
    /// # Errors
    /// As [`Allocate::allocate`], and [`Stop::BadValue`] for damage.
    pub(crate) fn push<W: Allocate>(
        self,
        tx: &mut W,
        side: Side,
        bytes: &[u8],
    ) -> Result<(), Stop> {
        if self.form.inline.is_some() {
            self.check_length(bytes)?;
            return self.add(tx, side, bytes);
        }
        let entry = Entry::create(tx, &[], bytes)?;
        self.add(tx, side, &entry.to_ne_bytes())
    }

    /// Removes the element at an end, and calls `with` on its encoded value before. Protects the
    /// ends of a sequence without elements.
    ///
    /// # Errors
    /// As [`Words::write`], those of `with`, and [`Stop::BadValue`] for damage.
    pub(crate) fn pop<W: Words, R>(
        self,
        tx: &mut W,
        side: Side,
        with: impl FnOnce(Cow<'_, [u8]>) -> Result<R, Stop>,
    ) -> Result<Option<R>, Stop> {
        let end = self.end(tx, side)?;
        let Some(end) = end.filter(|end| end.used().chunk.count() > 0) else {
            self.protect_ends(tx)?;
            return Ok(None);
        };
        let chunk = end.used().chunk;
        let place = Place { chunk, slot: chunk.last(side)? };
        let value = self.take(tx, &place, with)?;
        self.remove(tx, side, &end, 1)?;
        Ok(Some(value))
    }

    /// Removes an element, whose place the last one takes, and calls `with` on its encoded value
    /// before.
    ///
    /// # Errors
    /// As [`pop`](Sequence::pop).
    pub(crate) fn swap_remove<W: Words, R>(
        self,
        tx: &mut W,
        index: u64,
        with: impl FnOnce(Cow<'_, [u8]>) -> Result<R, Stop>,
    ) -> Result<Option<R>, Stop> {
        let Some(place) = self.find_to_change(tx, index)? else {
            return Ok(None);
        };
        let end = self.end(tx, Side::Back)?.ok_or(Stop::BadValue)?;
        let chunk = end.used().chunk;
        let last = Place { chunk, slot: chunk.last(Side::Back)? };
        let value = self.take(tx, &place, with)?;
        // Before the removal, as the chunk that was found is read until it is written.
        last.slot(tx, |tx, slot| place.chunk.write(tx, place.slot, slot))?;
        self.remove(tx, Side::Back, &end, 1)?;
        Ok(Some(value))
    }

    /// Exchanges two elements. Returns false, and changes nothing, when there is none at an index.
    ///
    /// # Errors
    /// As [`Words::write`], and [`Stop::BadValue`] for damage.
    pub(crate) fn swap<W: Words>(self, tx: &mut W, one: u64, other: u64) -> Result<bool, Stop> {
        let (Some(first), Some(second)) =
            (self.find_to_change(tx, one)?, self.find_to_change(tx, other)?)
        else {
            return Ok(false);
        };
        if one == other || self.form.stride == 0 {
            first.chunk.protect(tx)?;
            second.chunk.protect(tx)?;
            return Ok(true);
        }
        first.slot(tx, |tx, of_first| {
            second.slot(tx, |tx, of_second| first.chunk.write(tx, first.slot, of_second))?;
            // Found again: the first write may have been into the same chunk.
            let second = self.find(tx, other)?.ok_or(Stop::BadValue)?;
            second.chunk.write(tx, second.slot, of_first)
        })?;
        Ok(true)
    }

    /// Protects all on which an operation relied that found no element: both ends, or the root of a
    /// sequence without chunks.
    ///
    /// # Errors
    /// As [`Words::protect`], and [`Stop::BadValue`] for damage.
    pub(crate) fn protect_ends<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        if self.is_queue {
            self.protect_end(tx, Side::Front)?;
        }
        self.protect_end(tx, Side::Back)
    }

    fn protect_end<W: Words>(self, tx: &mut W, side: Side) -> Result<(), Stop> {
        match self.end(tx, side)? {
            Some(end) => end.protect(tx),
            None => tx.protect(self.start()),
        }
    }

    fn find_at<W: Words>(self, tx: &mut W, position: u64) -> Result<Option<Place>, Stop> {
        let Some(spot) = self.seek(tx, position)? else {
            return Ok(None);
        };
        // Less than the slots of a chunk.
        let slot = (position - spot.base) as usize;
        let is_used = (spot.chunk.from..spot.chunk.to).contains(&slot);
        Ok(is_used.then_some(Place { chunk: spot.chunk, slot }))
    }

    /// Calls `with` on the encoded element at a place, and frees its entry.
    fn take<W: Words, R>(
        self,
        tx: &mut W,
        place: &Place,
        with: impl FnOnce(Cow<'_, [u8]>) -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        if self.form.inline.is_some() {
            return self.value(tx, place, with);
        }
        let entry = self.entry(tx, place)?;
        let value = entry.value(tx, with)?;
        entry.free(tx)?;
        Ok(value)
    }

    /// Opens the entry of an element that is not in its slot.
    fn entry<W: Words>(self, tx: &mut W, place: &Place) -> Result<Entry, Stop> {
        let entry = place.chunk.pointer(tx, place.slot)?;
        Entry::open(tx, entry)
    }

    /// Checks the length of an element that goes into a slot: a type of the program may be wrong.
    fn check_length(self, bytes: &[u8]) -> Result<(), Stop> {
        if bytes.len() == self.form.stride { Ok(()) } else { Err(Stop::BadValue) }
    }
}
