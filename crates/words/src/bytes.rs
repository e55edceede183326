//! Byte strings as heap objects.
//!
//! ```text
//!   up to 1024 bytes     first
//!                        | one object |
//!   longer               first                 first + 1024
//!                        | piece 0: 1008 bytes | header | piece 1 ...  | last piece: the rest |
//! ```
//!
//! The handle of a string is two words, its first byte and its length, and the length decides
//! between the two forms. Every piece but the last is full, so a byte's place is one division.
//!
//! A write in place changes only the words of its range. A change of the length keeps the memory
//! where it is if the allocator has room there ([`Allocate::resize`]), else it moves the string.
//! Either way the handle changes, and every copy of the old handle dangles. The functions that
//! change the length of a stored string therefore take the place of its handle and store the new
//! one there.

use std::ops::Range;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::part::{self, After};
use crate::{
    Addr, Allocate, BLOCK_BYTES, OBJECT_BYTES_MAX, Objects, PIECE_BYTES, PIECE_STRIDE, Place, Stop,
    Words, block_stride,
};

/// A byte string in the heap: a value of two words that objects can hold.
///
/// Up to 1 KiB it takes one object. A longer string occupies its length and at most 12 % and 32
/// bytes.
///
/// [`append`](Bytes::append), [`truncate`](Bytes::truncate) and [`resize`](Bytes::resize) change
/// the length of the string whose handle is at a place, and update the handle there:
///
/// ```
/// use words::{Bytes, Objects, Transact, field, mock::Mock};
/// # use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};
/// # #[derive(Clone, Copy, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
/// # #[repr(C)]
/// # struct Page { visits: u64, body: Bytes }
///
/// let mut mock = Mock::new(1 << 16);
/// let page = mock.transact(|tx| tx.alloc(Page { visits: 0, body: Bytes::EMPTY }))?;
/// let body = field!(page, Page, body);
/// mock.transact(|tx| Bytes::append(tx, body, b"good evening"))?;
/// mock.transact(|tx| {
///     tx.get(body)?.write_at(tx, 5, b"morning")?; // the length stays, and so does the handle
///     Bytes::truncate(tx, body, 12)
/// })?;
/// assert_eq!(mock.transact(|tx| tx.get(body)?.read(tx))?, b"good morning");
/// # Ok::<(), words::mock::Refused>(())
/// ```
///
/// A handle that is not at a place, such as the value of a map, is changed by
/// [`appended`](Bytes::appended), [`truncated`](Bytes::truncated), [`resized`](Bytes::resized) and
/// [`replaced`](Bytes::replaced). They return the new handle, which the program stores in the same
/// transaction.
#[must_use = "store the handle, or the string leaks; another handle of the string may dangle"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Bytes {
    first: u64,
    /// The length, with [`IN_PIECES`] for a string in pieces.
    form: u64,
}

/// The bit of a handle's second word that marks a string in pieces. Earlier versions kept a string
/// of more than 1 KiB in the blocks of an array, and a converted pool has such strings.
const IN_PIECES: u64 = 1 << 63;

impl Bytes {
    /// The empty string, which owns no memory.
    pub const EMPTY: Bytes = Bytes::of(0, 0);

    /// Allocates a string and copies `bytes` into it.
    ///
    /// # Errors
    /// [`Stop::Full`]; [`Stop::TooLarge`] when one transaction cannot write so much. A string of
    /// `n` bytes has to fit, with some words of the allocator for each KiB, into each of these:
    ///
    /// | design | limit | at most | raised by |
    /// |---|---|---|---|
    /// | `decoupled` | the worker's ring | half its bytes | `Options::ring_entries` |
    /// | | half the log | a quarter of its bytes | `Options::log_bytes` |
    /// | | one log record | 64 MiB | no option |
    /// | `undo` | the worker's slot, 1/64 of the log less 8 KiB | 70 % of its bytes | `log_bytes` |
    /// | `redo`, `snapshot` | the same | half its bytes, less 4 KiB on files | `log_bytes` |
    /// | `snapshot` | the worker's memory for copies | its bytes | `ring_entries` |
    ///
    /// The error of the surrounding `run` names the limit that the string met and the option. The
    /// limits hold for the whole string, because a string that grows in parts is moved, and the
    /// move writes all of it. Longer data is an [`Array`](crate::Array), which several
    /// transactions [prepare](crate::Array::prepare) and write.
    pub fn new<W: Allocate>(tx: &mut W, bytes: &[u8]) -> Result<Bytes, Stop> {
        Bytes::EMPTY.appended(tx, bytes)
    }

    /// Returns a copy of the string's bytes.
    ///
    /// # Errors
    /// As [`Words::read`], and [`Stop::BadPointer`] when [`Bytes::new`] did not make this value.
    pub fn read<W: Words>(self, tx: &mut W) -> Result<Vec<u8>, Stop> {
        self.read_range(tx, 0..self.len())
    }

    /// Returns a copy of a range of the string's bytes.
    ///
    /// # Errors
    /// [`Stop::BadRange`] when the range leaves the string; else as [`read`](Bytes::read).
    pub fn read_range<W: Words>(self, tx: &mut W, range: Range<u64>) -> Result<Vec<u8>, Stop> {
        let mut out = Vec::new();
        self.extend(tx, range, &mut out)?;
        Ok(out)
    }

    /// Copies the string into `out`, whose memory it reuses and whose content it replaces.
    ///
    /// # Errors
    /// As [`read`](Bytes::read); `out` then has a part of the string.
    pub fn copy_to<W: Words>(self, tx: &mut W, out: &mut Vec<u8>) -> Result<(), Stop> {
        out.clear();
        self.extend(tx, 0..self.len(), out)
    }

    /// Copies the bytes from `offset` on into `out`, all of which must be in the string.
    ///
    /// # Errors
    /// As [`read_range`](Bytes::read_range).
    pub fn read_at<W: Words>(self, tx: &mut W, offset: u64, out: &mut [u8]) -> Result<(), Stop> {
        let range = self.range(offset, out.len())?;
        let mut left = out;
        self.parts(range, |at, bytes| {
            let (out, rest) = std::mem::take(&mut left).split_at_mut(bytes);
            left = rest;
            part::read_bytes(tx, at, out)
        })
    }

    /// Replaces the bytes from `offset` on by `bytes`, within the string. The handle stays valid.
    ///
    /// # Errors
    /// [`Stop::BadRange`] when the range leaves the string; else as [`Words::write`].
    pub fn write_at<W: Words>(self, tx: &mut W, offset: u64, bytes: &[u8]) -> Result<(), Stop> {
        let range = self.range(offset, bytes.len())?;
        let (to_end, mut left) = (range.end == self.len(), bytes);
        self.parts(range, |at, bytes| {
            let (bytes, rest) = left.split_at(bytes);
            left = rest;
            let after = if to_end && rest.is_empty() { After::Unused } else { After::Kept };
            part::write_bytes(tx, at, bytes, after)
        })
    }

    /// Appends `bytes` to the string whose handle is at a place, and updates the handle.
    ///
    /// If the string has to move, the transaction writes all of it. Under `snapshot` the worker's
    /// memory for copies then also holds the old string.
    ///
    /// # Errors
    /// As [`new`](Bytes::new) and [`Objects::get`].
    pub fn append<W: Allocate>(
        tx: &mut W,
        handle: impl Place<Value = Bytes>,
        bytes: &[u8],
    ) -> Result<(), Stop> {
        let string = tx.get(handle)?;
        let longer = string.appended(tx, bytes)?;
        string.replace(tx, handle, longer)
    }

    /// Shortens the string whose handle is at a place to `len` bytes, and updates the handle. Does
    /// nothing when the string is not longer.
    ///
    /// A string of up to 32 KiB keeps its memory, for a later append; truncation to 0 frees it. A
    /// longer string moves into memory of its new length. So does a string that becomes short
    /// enough for one object.
    ///
    /// # Errors
    /// As [`append`](Bytes::append), since a full heap may have no room for a shortened string that
    /// moves.
    pub fn truncate<W: Allocate>(
        tx: &mut W,
        handle: impl Place<Value = Bytes>,
        len: u64,
    ) -> Result<(), Stop> {
        let string = tx.get(handle)?;
        let shorter = string.truncated(tx, len)?;
        string.replace(tx, handle, shorter)
    }

    /// Gives the string whose handle is at a place `len` bytes, the new ones `fill`, and updates
    /// the handle.
    ///
    /// # Errors
    /// As [`append`](Bytes::append).
    pub fn resize<W: Allocate>(
        tx: &mut W,
        handle: impl Place<Value = Bytes>,
        len: u64,
        fill: u8,
    ) -> Result<(), Stop> {
        let string = tx.get(handle)?;
        let other = string.resized(tx, len, fill)?;
        string.replace(tx, handle, other)
    }

    /// Appends `bytes` and returns the new handle. Store it: this one dangles from now on.
    ///
    /// # Errors
    /// As [`new`](Bytes::new).
    pub fn appended<W: Allocate>(self, tx: &mut W, bytes: &[u8]) -> Result<Bytes, Stop> {
        let len = self.len().checked_add(bytes.len() as u64).ok_or(Stop::Full)?;
        let longer = self.with_len(tx, len)?;
        longer.write_at(tx, self.len(), bytes)?;
        Ok(longer)
    }

    /// Shortens the string to `len` bytes, if it is longer, and returns the new handle. Store it:
    /// this one dangles from now on.
    ///
    /// # Errors
    /// As [`truncate`](Bytes::truncate).
    pub fn truncated<W: Allocate>(self, tx: &mut W, len: u64) -> Result<Bytes, Stop> {
        self.with_len(tx, len.min(self.len()))
    }

    /// Gives the string `len` bytes, the new ones `fill`, and returns the new handle. Store it:
    /// this one dangles from now on.
    ///
    /// # Errors
    /// As [`new`](Bytes::new).
    pub fn resized<W: Allocate>(self, tx: &mut W, len: u64, fill: u8) -> Result<Bytes, Stop> {
        let other = self.with_len(tx, len)?;
        other.parts(self.len().min(len)..len, |at, bytes| {
            part::write_bytes(tx, at, &[fill; PIECE][..bytes], After::Unused)
        })?;
        Ok(other)
    }

    /// Replaces the whole string by `bytes` and returns the new handle. Store it: this one dangles
    /// from now on.
    ///
    /// The string keeps its memory if `bytes` have room there. The old bytes are not read.
    ///
    /// # Errors
    /// As [`new`](Bytes::new).
    pub fn replaced<W: Allocate>(self, tx: &mut W, bytes: &[u8]) -> Result<Bytes, Stop> {
        let len = bytes.len() as u64;
        let string = match self.resized_in_place(tx, len)? {
            Some(string) => string,
            None => {
                let other = Bytes::allocate(tx, len)?;
                self.free(tx)?;
                other
            }
        };
        string.write_at(tx, 0, bytes)?;
        Ok(string)
    }

    /// Frees the memory. Every copy of this handle dangles from then on.
    ///
    /// # Errors
    /// [`Stop::BadPointer`] when the string was freed before.
    pub fn free<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        let bytes = match self.len() {
            0 => return Ok(()),
            len if self.is_in_blocks() => len.div_ceil(BLOCK_BYTES) * BLOCK_BYTES,
            len => len,
        };
        tx.retire(Addr::new(self.first, 0), bytes)
    }

    /// Returns the length in bytes.
    pub const fn len(self) -> u64 {
        self.form & !IN_PIECES
    }

    /// Returns whether the string has no bytes.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Makes the handle of a string in one object or in pieces.
    const fn of(first: u64, len: u64) -> Bytes {
        Bytes { first, form: if is_piecewise(len) { len | IN_PIECES } else { len } }
    }

    /// Returns whether the string lies in the blocks of an array: one of a converted pool.
    const fn is_in_blocks(self) -> bool {
        is_piecewise(self.form)
    }

    /// Allocates a string whose content is undefined.
    fn allocate<W: Allocate>(tx: &mut W, len: u64) -> Result<Bytes, Stop> {
        let first = match len {
            0 => 0,
            _ if is_piecewise(len) => tx.allocate_pieces(len)?,
            _ => tx.allocate(len as usize)?,
        };
        Ok(Bytes::of(first, len))
    }

    /// Changes the length and returns the new handle. Bytes that the string gains are undefined.
    fn with_len<W: Allocate>(self, tx: &mut W, len: u64) -> Result<Bytes, Stop> {
        if let Some(string) = self.resized_in_place(tx, len)? {
            return Ok(string);
        }
        // Free the old string last: this transaction itself may be given its memory at once.
        let other = Bytes::allocate(tx, len)?;
        let copied = 0..len.min(self.len());
        if self.is_in_blocks() {
            // Under snapshot isolation another transaction may write a block beside this copy. Both
            // would commit, and its bytes would be lost: the free of an array writes only some of
            // the blocks. The free of a string in another form locks each of its objects.
            self.parts(copied.clone(), |at, _| tx.protect(at))?;
        }
        let mut from = 0;
        other.parts(copied, |at, bytes| {
            let mut buffer = [0; PIECE];
            self.read_at(tx, from, &mut buffer[..bytes])?;
            from += bytes as u64;
            part::write_bytes(tx, at, &buffer[..bytes], After::Unused)
        })?;
        self.free(tx)?;
        Ok(other)
    }

    /// Changes the length, if the string's memory has room. Bytes that it gains are undefined.
    fn resized_in_place<W: Allocate>(self, tx: &mut W, len: u64) -> Result<Option<Bytes>, Stop> {
        if len == self.len() {
            return Ok(Some(self));
        }
        let is_kept = len > 0 && !self.is_empty() && !self.is_in_blocks();
        let has_room = is_kept && tx.resize(self.first, self.len(), len)?;
        Ok(has_room.then_some(Bytes::of(self.first, len)))
    }

    /// Stores the handle that has replaced this one.
    fn replace<W: Words>(
        self,
        tx: &mut W,
        handle: impl Place<Value = Bytes>,
        other: Bytes,
    ) -> Result<(), Stop> {
        if other == self { Ok(()) } else { tx.set(handle, other) }
    }

    /// Appends a range of the string to `out`, which grows with the bytes that were read. The
    /// length is not trusted, because it may come from a damaged pool.
    fn extend<W: Words>(
        self,
        tx: &mut W,
        range: Range<u64>,
        out: &mut Vec<u8>,
    ) -> Result<(), Stop> {
        if range.start > range.end || range.end > self.len() {
            return Err(Stop::BadRange);
        }
        self.parts(range, |at, bytes| {
            let from = out.len();
            out.resize(from + bytes, 0);
            part::read_bytes(tx, at, &mut out[from..])
        })
    }

    /// Returns the range of `bytes` bytes from `offset` on, if it is inside the string.
    fn range(self, offset: u64, bytes: usize) -> Result<Range<u64>, Stop> {
        match offset.checked_add(bytes as u64) {
            Some(end) if end <= self.len() => Ok(offset..end),
            _ => Err(Stop::BadRange),
        }
    }

    /// Returns the bytes of the string in each of its objects but the last, and their distance.
    fn part_bytes(self) -> (u64, u64) {
        if self.is_in_blocks() {
            return (BLOCK_BYTES, block_stride(self.first));
        }
        let size = if is_piecewise(self.len()) { PIECE_BYTES } else { OBJECT_BYTES_MAX as u64 };
        (size, PIECE_STRIDE)
    }

    /// Calls `each` for each object that has a part of the range: the address of the part and its
    /// bytes.
    fn parts(
        self,
        range: Range<u64>,
        mut each: impl FnMut(Addr, usize) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let ((size, stride), mut from) = (self.part_bytes(), range.start);
        while from < range.end {
            let (piece, offset) = (from / size, from % size);
            let bytes = (size - offset).min(range.end - from);
            // Wrapping: a length read from a damaged pool must not panic. The access is refused.
            let object = self.first.wrapping_add(piece.wrapping_mul(stride));
            each(Addr::new(object, offset), bytes as usize)?;
            from += bytes;
        }
        Ok(())
    }
}

/// Most bytes of a string in one object.
const PIECE: usize = OBJECT_BYTES_MAX;

/// Returns whether a string of this length is in pieces instead of one object. False for a handle's
/// second word with [`IN_PIECES`].
const fn is_piecewise(len: u64) -> bool {
    len > OBJECT_BYTES_MAX as u64 && len < IN_PIECES
}

#[cfg(test)]
mod tests;
