//! Iteration in both directions, a chunk at a time.

use std::borrow::Cow;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use words::{Addr, Stop, Words};

use super::{Sequence, Side};
use crate::entry::Entry;
use crate::value::Value;

/// Bytes of an entry to prefetch: head and value of a short element.
const ENTRY_BYTES: usize = 128;

/// The slots of a chunk, or of a part of it, that an iteration has yet to give.
#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    stride: usize,
    from: usize,
    to: usize,
}

impl Batch {
    const fn is_empty(&self) -> bool {
        self.from == self.to
    }

    /// Takes the slot at a side.
    fn take(&mut self, side: Side) -> Option<&[u8]> {
        if self.is_empty() {
            return None;
        }
        let slot = match side {
            Side::Front => {
                self.from += 1;
                self.from - 1
            }
            Side::Back => {
                self.to -= 1;
                self.to
            }
        };
        Some(&self.bytes[self.stride * slot..][..self.stride])
    }
}

/// The elements that are in no batch.
#[derive(Clone, Copy, Debug)]
enum Rest {
    /// The indices of all, which may be greater than the length. Nothing was read.
    Indices(u64, u64),
    /// The positions, and the number of a chunk at position 0.
    Positions(u64, u64, u64),
}

/// The slots of elements, from both ends.
#[derive(Debug)]
pub(crate) struct Slots {
    sequence: Sequence,
    rest: Rest,
    front: Batch,
    back: Batch,
}

impl Slots {
    pub(crate) fn new(sequence: Sequence, indices: impl RangeBounds<u64>) -> Slots {
        let begin = match indices.start_bound() {
            Bound::Included(&index) => index,
            Bound::Excluded(&index) => index.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match indices.end_bound() {
            Bound::Included(&index) => index.saturating_add(1),
            Bound::Excluded(&index) => index,
            Bound::Unbounded => u64::MAX,
        };
        let (front, back) = (Batch::default(), Batch::default());
        Slots { sequence, rest: Rest::Indices(begin, end), front, back }
    }

    /// Calls `with` on the next element from the front.
    ///
    /// # Errors
    /// As [`Words::read`], [`Stop::BadValue`] for damage, and those of `with`.
    pub(crate) fn next<W: Words, R>(
        &mut self,
        tx: &mut W,
        with: impl FnOnce(Cow<'_, [u8]>) -> Result<R, Stop>,
    ) -> Result<Option<R>, Stop> {
        let sequence = self.sequence;
        let slot = self.step(tx, Side::Front)?;
        slot.map(|slot| element(tx, sequence, slot, with)).transpose()
    }

    /// Ends the iteration.
    fn end(&mut self) {
        self.rest = Rest::Positions(0, 0, 0);
        (self.front, self.back) = (Batch::default(), Batch::default());
    }

    /// Returns the slot at a side.
    fn step<W: Words>(&mut self, tx: &mut W, side: Side) -> Result<Option<&[u8]>, Stop> {
        while self.batch(side).is_empty() {
            let (begin, end, label) = self.positions(tx)?;
            if begin == end {
                // The rest is in the batch of the other side.
                return Ok(self.batch_mut(side.other()).take(side));
            }
            self.fill(tx, side, (begin, end, label))?;
        }
        Ok(self.batch_mut(side).take(side))
    }

    const fn batch(&self, side: Side) -> &Batch {
        match side {
            Side::Front => &self.front,
            Side::Back => &self.back,
        }
    }

    const fn batch_mut(&mut self, side: Side) -> &mut Batch {
        match side {
            Side::Front => &mut self.front,
            Side::Back => &mut self.back,
        }
    }

    fn positions<W: Words>(&mut self, tx: &mut W) -> Result<(u64, u64, u64), Stop> {
        match self.rest {
            Rest::Positions(begin, end, label) => Ok((begin, end, label)),
            Rest::Indices(begin, end) => {
                let bounds = self.sequence.bounds(tx)?;
                let end = end.min(bounds.len());
                let begin = begin.min(end);
                let (begin, end) = (bounds.first + begin, bounds.first + end);
                self.rest = Rest::Positions(begin, end, bounds.label);
                Ok((begin, end, bounds.label))
            }
        }
    }

    /// Reads the chunk at a side of these positions.
    fn fill<W: Words>(
        &mut self,
        tx: &mut W,
        side: Side,
        (begin, end, label): (u64, u64, u64),
    ) -> Result<(), Stop> {
        let form = self.sequence.form;
        let position = if side == Side::Front { begin } else { end - 1 };
        let spot = self.sequence.seek(tx, position)?.ok_or(Stop::BadValue)?;
        let used = spot.base + spot.chunk.from as u64..spot.base + spot.chunk.to as u64;
        if !used.contains(&position) || spot.label(tx, form)? != label {
            return Err(Stop::BadValue);
        }
        let (from, to) = (used.start.max(begin), used.end.min(end));
        let slot = |position: u64| (position - spot.base) as usize;
        let bytes = spot.chunk.with_slots(tx, slot(from), slot(to), |tx, bytes| {
            if form.inline.is_none() {
                for pointer in bytes.chunks_exact(8) {
                    tx.will_read(Addr::new(pointer_of(pointer)?, 0), ENTRY_BYTES);
                }
            }
            Ok(bytes.to_vec())
        })?;
        let batch = Batch { bytes, stride: form.stride, from: 0, to: slot(to) - slot(from) };
        match side {
            Side::Front => {
                self.front = batch;
                self.rest = Rest::Positions(to, end, label);
            }
            Side::Back => {
                self.back = batch;
                self.rest = Rest::Positions(begin, from, label);
            }
        }
        Ok(())
    }
}

/// An iterator over elements, from both ends.
///
/// It borrows the transaction, which therefore writes nothing meanwhile. It ends after the first
/// [`Stop`].
#[derive(Debug)]
pub struct Iter<'t, W, T: ?Sized> {
    tx: &'t mut W,
    slots: Slots,
    kind: PhantomData<fn(&T)>,
}

impl<'t, W: Words, T: Value + ?Sized> Iter<'t, W, T> {
    pub(crate) fn new(
        tx: &'t mut W,
        sequence: Sequence,
        indices: impl RangeBounds<u64>,
    ) -> Iter<'t, W, T> {
        Iter { tx, slots: Slots::new(sequence, indices), kind: PhantomData }
    }

    /// Gives the element at a side.
    fn step(&mut self, side: Side) -> Result<Option<T::Owned>, Stop> {
        let sequence = self.slots.sequence;
        let slot = self.slots.step(self.tx, side)?;
        slot.map(|slot| element(self.tx, sequence, slot, T::decode)).transpose()
    }

    fn give(&mut self, side: Side) -> Option<Result<T::Owned, Stop>> {
        let next = self.step(side).transpose();
        if let Some(Err(_)) = next {
            self.slots.end();
        }
        next
    }
}

impl<W: Words, T: Value + ?Sized> Iterator for Iter<'_, W, T> {
    type Item = Result<T::Owned, Stop>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.give(Side::Front)
    }
}

impl<W: Words, T: Value + ?Sized> DoubleEndedIterator for Iter<'_, W, T> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.give(Side::Back)
    }
}

impl<W: Words, T: Value + ?Sized> FusedIterator for Iter<'_, W, T> {}

/// Calls `with` on the bytes of the element of a slot.
///
/// # Errors
/// As [`Words::read`], [`Stop::BadValue`] when there is no entry, and those of `with`.
#[inline]
pub(super) fn element<W: Words, R>(
    tx: &mut W,
    sequence: Sequence,
    slot: &[u8],
    with: impl FnOnce(Cow<'_, [u8]>) -> Result<R, Stop>,
) -> Result<R, Stop> {
    if sequence.form.inline.is_some() {
        return with(slot.into());
    }
    Entry::open(tx, pointer_of(slot)?)?.value(tx, with)
}

fn pointer_of(slot: &[u8]) -> Result<u64, Stop> {
    slot.try_into().map(u64::from_ne_bytes).map_err(|_| Stop::BadValue)
}
