//! Arrays: runs of blocks.
//!
//! An array takes whole units. It is reserved at once and prepared in steps. The steps of a long
//! run are transactions of their own. The run's head records the progress.

use system::mutants::{Mutant, injected};
use words::{BLOCK_BYTES, Stop, Words};

use crate::Heap;
use crate::head::{HEAD_BEFORE, HEAD_PREPARED, Head, Run};
use crate::header::{Description, Kind, encode};
use crate::layout::{HEADERS_CLEARED, watch};
use crate::objects::Detached;
use crate::pages::PAGES_LOCK;

/// A block's header has 32 bits for its number.
const BLOCKS_MAX: u64 = 1 << 32;

const ZEROS: [u64; BLOCK_BYTES as usize / 8] = [0; BLOCK_BYTES as usize / 8];

impl Heap {
    /// Reserves an array of `blocks` blocks; returns the first byte of the first, tagged. It takes
    /// whole units: `blocks` * 272 (line-isolated: 256) + 64 bytes, rounded up to 1 KiB (64 KiB).
    ///
    /// # Errors
    /// [`Stop::Full`]; [`Stop::BadSize`] when `blocks` is 0 or more than 2^32; [`Stop::BadPointer`]
    /// when the heap is damaged. Otherwise as [`Words::write`].
    pub fn reserve_blocks<W: Words>(&self, tx: &mut W, blocks: u64) -> Result<u64, Stop> {
        if blocks == 0 || blocks > BLOCKS_MAX {
            return Err(Stop::BadSize);
        }
        let units = self.layout.units_for_blocks(blocks).ok_or(Stop::Full)?;
        let (unit, fresh) = self.take_units(tx, units)?;
        let fresh = fresh || injected(Mutant::UsedMemoryCountsAsFresh);
        let kind = Run::Array { blocks, prepared: 0, fresh };
        self.write_head(tx, unit, Head { units, before: 0, kind })?;
        let first = self.layout.block(unit, 0);
        if self.layout.has_headers() {
            tx.write(self.link_at(first), 0)?;
        }
        self.label(tx, first, block_header(first, Kind::Reserved, 0))?;
        Ok(self.tag | first)
    }

    /// Prepares up to `most` further blocks of the array, in order, filled with zeros; returns how
    /// many remain unprepared.
    ///
    /// Words written: two, and for each block 34, or one where the memory was never used. In a
    /// line-isolated heap: one, and 32 for each block whose memory was used before.
    ///
    /// # Errors
    /// [`Stop::BadPointer`] when `first` is not a reserved array. Otherwise as [`Words::write`].
    pub fn prepare_blocks<W: Words>(&self, tx: &mut W, first: u64, most: u64) -> Result<u64, Stop> {
        let object = self.untag(first)?;
        let (unit, array) = self.read_array(tx, object)?;
        let ready = array.blocks.min(array.prepared.saturating_add(most));
        self.touch_watch(tx, unit)?;
        for index in array.prepared..ready {
            let object = self.layout.block(unit, index);
            self.label(tx, object, block_header(object, Kind::Block, index))?;
            // Never-used memory is zero: no committed transaction has written it.
            if !array.fresh {
                if self.layout.has_headers() {
                    tx.write(self.link_at(object), 0)?;
                }
                tx.write_words(self.addr(object, 0), &ZEROS)?;
            }
        }
        if ready != array.prepared {
            tx.write(self.addr(self.head(unit), HEAD_PREPARED), ready)?;
        }
        Ok(array.blocks - ready)
    }

    /// Retires the array whose first block is at `object`.
    pub(crate) fn detach_array<W: Words>(
        self,
        tx: &mut W,
        object: u64,
        bytes: u64,
    ) -> Result<Detached, Stop> {
        let (unit, array) = self.read_array(tx, object)?;
        if array.blocks.checked_mul(BLOCK_BYTES) != Some(bytes) {
            return Err(Stop::BadPointer);
        }
        self.touch_watch(tx, unit)?;
        // The first block has a header even when no block is prepared.
        for index in 0..array.prepared.clamp(1, HEADERS_CLEARED) {
            if !injected(Mutant::BlockHeadersKept) {
                self.label(tx, self.layout.block(unit, index), 0)?;
            }
        }
        self.detach_run(tx, unit, array.units)
    }

    /// Marks a run as retired, so that a second free of it does not find it.
    pub(crate) fn detach_run<W: Words>(
        self,
        tx: &mut W,
        unit: u64,
        units: u64,
    ) -> Result<Detached, Stop> {
        let before = tx.read(self.addr(self.head(unit), HEAD_BEFORE))?;
        self.write_head(tx, unit, Head { units, before, kind: Run::Detached })?;
        Ok(Detached { unit, units })
    }

    /// Writes a header, in layouts whose objects have one.
    pub(crate) fn label<W: Words>(&self, tx: &mut W, object: u64, header: u64) -> Result<(), Stop> {
        if self.layout.has_headers() {
            tx.write(self.header_at(object), header)?;
        }
        Ok(())
    }

    /// Writes the array's watch, before its head changes. Without headers no transaction relies on
    /// watches, and they would be lines that arenas share.
    fn touch_watch<W: Words>(&self, tx: &mut W, unit: u64) -> Result<(), Stop> {
        if self.layout.has_headers() {
            tx.write(self.addr(0, watch(unit)), 0)?;
        }
        Ok(())
    }

    /// Returns the array whose first block is at `object`, and its first unit.
    fn read_array<W: Words>(&self, tx: &mut W, object: u64) -> Result<(u64, Array), Stop> {
        let unit = object / self.layout.unit_bytes();
        if object != self.layout.block(unit, 0) {
            return Err(Stop::BadPointer);
        }
        // The head's line has `before` too, which others change when they free the run before.
        tx.lock(PAGES_LOCK)?;
        // The bound is the heap's size, not the frontier: reading the frontier would conflict
        // with every transaction that takes a run.
        match self.read_head(tx, unit, self.units())? {
            Head { units, kind: Run::Array { blocks, prepared, fresh }, .. } => {
                Ok((unit, Array { units, blocks, prepared, fresh }))
            }
            _ => Err(Stop::BadPointer),
        }
    }
}

struct Array {
    units: u64,
    blocks: u64,
    prepared: u64,
    fresh: bool,
}

/// Returns the header word of a block.
pub(crate) const fn block_header(object: u64, kind: Kind, index: u64) -> u64 {
    encode(object, Description { kind, bytes: BLOCK_BYTES, position: index })
}
