//! Runs of blocks, the memory of arrays.
//!
//! A run takes whole chunks. It is reserved at once and prepared in steps. The steps of a long run
//! are transactions of their own. The run's head records the progress.

use words::{BLOCK_BYTES, BLOCK_STRIDE, Stop, Words};

use crate::Heap;
use crate::head::{HEAD_PREPARED, Head};
use crate::header::{Description, Kind, encode};
use crate::layout::{CHUNK_BYTES, HEAD, watch};
use crate::objects::Detached;

/// Blocks whose headers are cleared when a run is freed, so that a write through a dangling pointer
/// is refused: all blocks of a run of one chunk. Clearing every header of a long run could outgrow
/// the log. The later blocks of such a run look live until their memory is reused.
const HEADERS_CLEARED: u64 = CHUNK_BYTES / BLOCK_STRIDE;

const ZEROS: [u64; BLOCK_BYTES as usize / 8] = [0; BLOCK_BYTES as usize / 8];

impl Heap {
    /// Reserves a run of `blocks` blocks; returns the first byte of the first, tagged. It takes
    /// whole chunks: `blocks` * 272 (line-isolated: 256) + 64 bytes, rounded up to 64 KiB.
    ///
    /// # Errors
    /// [`Stop::Full`]; [`Stop::BadSize`] when `blocks` is 0; [`Stop::BadPointer`] when the heap is
    /// damaged. Otherwise as [`Words::write`].
    pub fn reserve_blocks<W: Words>(&self, tx: &mut W, blocks: u64) -> Result<u64, Stop> {
        if blocks == 0 {
            return Err(Stop::BadSize);
        }
        let chunks = self.layout.chunks_for(blocks).ok_or(Stop::Full)?;
        let (chunk, fresh) = self.take_chunks(tx, chunks)?;
        self.write_head(tx, chunk, Head::Run { chunks, blocks, prepared: 0, fresh })?;
        let first = self.layout.block(chunk, 0);
        if self.layout.has_headers() {
            tx.write(self.link_at(first), 0)?;
        }
        self.label_block(tx, first, block_header(first, Kind::Reserved))?;
        Ok(self.tag | first)
    }

    /// Prepares up to `most` further blocks of the run, in order, filled with zeros; returns how
    /// many remain unprepared.
    ///
    /// Words written: two, and for each block 34, or one where the memory was never used. In a
    /// line-isolated heap: one, and 32 for each block whose memory was used before.
    ///
    /// # Errors
    /// [`Stop::BadPointer`] when `first` is not a reserved run. Otherwise as [`Words::write`].
    pub fn prepare_blocks<W: Words>(&self, tx: &mut W, first: u64, most: u64) -> Result<u64, Stop> {
        let object = self.untag(first)?;
        let (chunk, run) = self.read_run(tx, object)?;
        let ready = run.blocks.min(run.prepared.saturating_add(most));
        self.touch_watch(tx, chunk)?;
        for index in run.prepared..ready {
            let object = self.layout.block(chunk, index);
            self.label_block(tx, object, block_header(object, Kind::Block))?;
            // Never-used memory is zero: no committed transaction has written it.
            if !run.fresh {
                if self.layout.has_headers() {
                    tx.write(self.link_at(object), 0)?;
                }
                tx.write_words(self.addr(object, 0), &ZEROS)?;
            }
        }
        if ready != run.prepared {
            tx.write(self.addr(chunk * CHUNK_BYTES + HEAD, HEAD_PREPARED), ready)?;
        }
        Ok(run.blocks - ready)
    }

    /// Frees the run whose first block is at `object`.
    #[cold]
    pub(crate) fn detach_blocks<W: Words>(
        self,
        tx: &mut W,
        object: u64,
        bytes: u64,
    ) -> Result<Detached, Stop> {
        let (chunk, run) = self.read_run(tx, object)?;
        if run.blocks.checked_mul(BLOCK_BYTES) != Some(bytes) {
            return Err(Stop::BadPointer);
        }
        self.touch_watch(tx, chunk)?;
        // The first block has a header even when no block is prepared.
        for index in 0..run.prepared.clamp(1, HEADERS_CLEARED) {
            self.label_block(tx, self.layout.block(chunk, index), 0)?;
        }
        // Clear the run's head now: a second free of the run must not find it.
        self.write_head(tx, chunk, Head::Free { chunks: run.chunks, next: 0 })?;
        Ok(Detached { chunk, chunks: run.chunks })
    }

    /// Writes a block's header, in layouts whose blocks have one.
    fn label_block<W: Words>(&self, tx: &mut W, object: u64, header: u64) -> Result<(), Stop> {
        if self.layout.has_headers() {
            tx.write(self.header_at(object), header)?;
        }
        Ok(())
    }

    /// Writes the run's watch, before its head changes. Without headers no transaction relies on
    /// watches, and they would be lines that arenas share.
    fn touch_watch<W: Words>(&self, tx: &mut W, chunk: u64) -> Result<(), Stop> {
        if self.layout.has_headers() {
            tx.write(self.addr(0, watch(chunk)), 0)?;
        }
        Ok(())
    }

    /// Returns the run whose first block is at `object`, and its first chunk.
    fn read_run<W: Words>(&self, tx: &mut W, object: u64) -> Result<(u64, Run), Stop> {
        let chunk = object / CHUNK_BYTES;
        if object != self.layout.block(chunk, 0) {
            return Err(Stop::BadPointer);
        }
        // The bound is the heap's size, not the frontier: reading the frontier would conflict
        // with every transaction that takes a chunk.
        match self.read_head(tx, chunk, self.chunks())? {
            Head::Run { chunks, blocks, prepared, fresh } => {
                Ok((chunk, Run { chunks, blocks, prepared, fresh }))
            }
            _ => Err(Stop::BadPointer),
        }
    }
}

struct Run {
    chunks: u64,
    blocks: u64,
    prepared: u64,
    fresh: bool,
}

/// Returns the header word of a block.
pub(crate) const fn block_header(object: u64, kind: Kind) -> u64 {
    encode(object, Description { kind, class: 0, bytes: BLOCK_BYTES })
}
