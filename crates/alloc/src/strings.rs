//! Byte strings that are longer than an object: pieces of 1008 bytes, in a slot or in a run.
//!
//! ```text
//!   slot or run   | header | piece 0: 1008 bytes | header | piece 1 ... | header | last |
//!                            1024 apart                                   shorter
//! ```
//!
//! A design that isolates objects isolates pieces: a write copies one piece, not the string. Up to
//! 32 KiB a string takes a slot of a string class, and beyond that a run of its own.

use system::mutants::{Mutant, injected};
use words::{OBJECT_BYTES_MAX, PIECE_BYTES, PIECE_STRIDE, Stop, Words};

use crate::Heap;
use crate::classes::{SLOT_BYTES, SLOT_STRING_BYTES_MAX, pieces, string_bytes, string_class};
use crate::head::{HEAD_STRING, Head, Run};
use crate::header::{Description, Kind, Slot, decode, encode};
use crate::layout::HEADERS_CLEARED;
use crate::objects::{Detached, Taken};
use crate::pages::PAGES_LOCK;

/// A live object or string, and where it lies.
enum Place {
    Object(Slot),
    Slot(Slot),
    /// First unit, and number of units.
    Run(u64, u64),
}

impl Heap {
    /// Allocates a byte string of `bytes` bytes, more than [`words::OBJECT_BYTES_MAX`]; returns the
    /// first byte of the first piece, tagged. Its content is undefined. Writes two words for each
    /// piece, and those of an object or of a run.
    ///
    /// # Errors
    /// As [`allocate`](Heap::allocate).
    ///
    /// # Panics
    /// When `arena` is not less than [`ARENAS`](crate::ARENAS).
    pub fn allocate_pieces<W: Words>(
        &self,
        tx: &mut W,
        arena: usize,
        bytes: u64,
    ) -> Result<u64, Stop> {
        let layout = self.layout;
        if bytes <= OBJECT_BYTES_MAX as u64 {
            return Err(Stop::BadSize);
        }
        if bytes > self.bytes {
            return Err(Stop::Full);
        }
        let class = string_class(bytes).filter(|_| layout.has_headers());
        let object = match class {
            Some(class) => {
                let (Taken { object, number }, class) = match self.take_slot(tx, arena, class)? {
                    Some(taken) => (taken, class),
                    None => self.refill(tx, arena, class)?,
                };
                let label = layout.string_label(object, class, number, bytes);
                tx.write(self.label_at(object), label)?;
                object
            }
            None => {
                let units = layout.units_for_string(bytes).ok_or(Stop::Full)?;
                let (unit, _) = self.take_units(tx, units)?;
                let kind = Run::String { bytes };
                self.write_head(tx, unit, Head { units, before: 0, kind })?;
                let object = layout.offset(unit) + layout.first_object();
                self.clear_link(tx, object)?;
                self.label(tx, object, first_header(object, bytes))?;
                object
            }
        };
        self.label_pieces(tx, object, 1, bytes)?;
        Ok(self.tag | object)
    }

    /// Changes the size of an object or a byte string in place, if its memory has room. An object
    /// stays within its slot, a string within its slot or run. The new bytes have undefined
    /// content. Returns false, without a change, when there is no room, or when one of the sizes is
    /// an object's and the other a string's.
    ///
    /// # Errors
    /// [`Stop::BadPointer`] when no live object or string of `from` bytes begins at `first`;
    /// [`Stop::BadSize`] when `to` is 0. Otherwise as [`Words::write`].
    pub fn resize<W: Words>(
        &self,
        tx: &mut W,
        first: u64,
        from: u64,
        to: u64,
    ) -> Result<bool, Stop> {
        let layout = self.layout;
        let object = self.untag(first)?;
        if to == 0 {
            return Err(Stop::BadSize);
        }
        if from.max(to) > self.bytes {
            return if from > self.bytes { Err(Stop::BadPointer) } else { Ok(false) };
        }
        let place = self.find_string(tx, object, from)?;
        let is_object = |bytes: u64| bytes <= OBJECT_BYTES_MAX as u64;
        if is_object(from) != is_object(to) {
            return Ok(false);
        }
        match place {
            Place::Object(Slot { class, number, .. }) => {
                if to > layout.payload_bytes(class) {
                    return Ok(false);
                }
                if layout.has_headers() {
                    let label = layout.live_label(object, class, number, to as usize);
                    tx.write(self.label_at(object), label)?;
                }
                return Ok(true);
            }
            Place::Slot(Slot { class, number, .. }) => {
                // The largest slots have some more room, but the length decides the place.
                if string_bytes(to) > layout.slot_bytes(class) || to > SLOT_STRING_BYTES_MAX {
                    return Ok(false);
                }
                tx.write(self.label_at(object), layout.string_label(object, class, number, to))?;
            }
            Place::Run(unit, units) => {
                let is_short = layout.has_headers() && to <= SLOT_STRING_BYTES_MAX;
                if is_short || layout.units_for_string(to) != Some(units) {
                    return Ok(false);
                }
                tx.write(self.addr(self.head(unit), HEAD_STRING), to)?;
            }
        }
        for index in pieces(to)..pieces(from) {
            self.label(tx, object + index * PIECE_STRIDE, 0)?;
        }
        let is_wrong = match to < from {
            true => injected(Mutant::ShorterStringKeepsPiece),
            false => injected(Mutant::LongerStringWithoutPieces),
        };
        if is_wrong {
            return Ok(true);
        }
        // The last piece of the shorter string changes its size.
        self.label_pieces(tx, object, pieces(from.min(to)).max(2) - 1, to)?;
        Ok(true)
    }

    /// Retires a string in a slot.
    pub(crate) fn detach_slot_string<W: Words>(
        self,
        tx: &mut W,
        arena: usize,
        object: u64,
        bytes: u64,
    ) -> Result<Option<Detached>, Stop> {
        let Place::Slot(slot) = self.find_string(tx, object, bytes)? else {
            return Err(Stop::BadPointer);
        };
        for index in 1..pieces(bytes) {
            self.label(tx, object + index * PIECE_STRIDE, 0)?;
        }
        self.push(tx, arena, object, slot)
    }

    /// Retires a string in a run of its own.
    pub(crate) fn detach_run_string<W: Words>(
        self,
        tx: &mut W,
        object: u64,
        bytes: u64,
    ) -> Result<Detached, Stop> {
        let Place::Run(unit, units) = self.find_string(tx, object, bytes)? else {
            return Err(Stop::BadPointer);
        };
        let count = pieces(bytes);
        for index in 0..count.min(HEADERS_CLEARED) {
            self.label(tx, object + index * PIECE_STRIDE, 0)?;
        }
        // Under snapshot isolation a transaction that writes a piece must conflict with this one,
        // which may have copied the piece. The cleared headers ensure that for the first pieces.
        // Without the locks on the others, both transactions would commit, and the write would be
        // lost with the old string.
        for index in HEADERS_CLEARED..count {
            if !injected(Mutant::FreedPiecesNotProtected) {
                tx.protect(self.addr(object + index * PIECE_STRIDE, 0))?;
            }
        }
        self.detach_run(tx, unit, units)
    }

    /// Returns where the live object or string of `bytes` bytes at `object` lies.
    fn find_string<W: Words>(self, tx: &mut W, object: u64, bytes: u64) -> Result<Place, Stop> {
        let layout = self.layout;
        if bytes > self.bytes {
            return Err(Stop::BadPointer);
        }
        if bytes <= OBJECT_BYTES_MAX as u64 {
            let slot = self.slot_at(tx, object, bytes)?;
            return slot.map(Place::Object).ok_or(Stop::BadPointer);
        }
        let header = if layout.has_headers() { tx.read(self.header_at(object))? } else { 0 };
        if let Some(Description { kind: Kind::SlotString, position, .. }) = decode(header, object) {
            let slot = Slot::decode(position);
            let fits = layout.is_string_class(slot.class)
                && slot.class < layout.classes()
                && slot.pieces == pieces(bytes)
                && string_bytes(bytes) <= layout.slot_bytes(slot.class);
            let last = object + (pieces(bytes) - 1) * PIECE_STRIDE;
            if fits
                && tx.read(self.header_at(last))? == piece_header(last, pieces(bytes) - 1, bytes)
            {
                return Ok(Place::Slot(slot));
            }
            return Err(Stop::BadPointer);
        }
        let unit = object / layout.unit_bytes();
        let begins = object == layout.offset(unit) + layout.first_object()
            && (!layout.has_headers() || header == first_header(object, bytes));
        if !begins {
            return Err(Stop::BadPointer);
        }
        // The head's line has `before` too, which others change when they free the run before.
        tx.lock(PAGES_LOCK)?;
        match self.read_head(tx, unit, self.units())? {
            Head { units, kind: Run::String { bytes: found }, .. } if found == bytes => {
                Ok(Place::Run(unit, units))
            }
            _ => Err(Stop::BadPointer),
        }
    }

    /// Writes the headers of a string's pieces from `index` (not 0) on.
    fn label_pieces<W: Words>(
        self,
        tx: &mut W,
        object: u64,
        index: u64,
        bytes: u64,
    ) -> Result<(), Stop> {
        if !self.layout.has_headers() {
            return Ok(());
        }
        for index in index..pieces(bytes) {
            let piece = object + index * PIECE_STRIDE;
            self.clear_link(tx, piece)?;
            tx.write(self.header_at(piece), piece_header(piece, index, bytes))?;
        }
        Ok(())
    }

    /// Clears the link that an earlier use of the memory may have left.
    fn clear_link<W: Words>(self, tx: &mut W, object: u64) -> Result<(), Stop> {
        if self.layout.has_headers() { tx.write(self.link_at(object), 0) } else { Ok(()) }
    }
}

/// Returns the header of the first piece of a string in a run.
pub(crate) const fn first_header(object: u64, bytes: u64) -> u64 {
    let bytes = if bytes < PIECE_BYTES { bytes } else { PIECE_BYTES };
    encode(object, Description { kind: Kind::RunString, bytes, position: 0 })
}

/// Returns the header of a later piece of a string of `bytes` bytes.
pub(crate) const fn piece_header(object: u64, index: u64, bytes: u64) -> u64 {
    let left = bytes - index * PIECE_BYTES;
    let bytes = if left < PIECE_BYTES { left } else { PIECE_BYTES };
    encode(object, Description { kind: Kind::Piece, bytes, position: index })
}

/// Returns the length of the string in a slot of this class with this label, from its last piece.
pub(crate) fn string_length(
    label: u64,
    object: u64,
    class: usize,
    word: &mut impl FnMut(u64) -> u64,
) -> Option<u64> {
    let found = decode(label, object).filter(|found| found.kind == Kind::SlotString)?;
    let count = Slot::decode(found.position).pieces;
    let last = object + count.checked_sub(1)? * PIECE_STRIDE;
    if count * PIECE_STRIDE > SLOT_BYTES[class] + PIECE_STRIDE {
        return None;
    }
    let piece = decode(word(last - 8), last).filter(|piece| {
        piece.kind == Kind::Piece && piece.position == count - 1 && piece.bytes <= PIECE_BYTES
    })?;
    let bytes = (count - 1) * PIECE_BYTES + piece.bytes;
    (string_bytes(bytes) <= SLOT_BYTES[class]).then_some(bytes)
}
