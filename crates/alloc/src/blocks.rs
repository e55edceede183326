//! Runs of blocks: what an array is made of.
//!
//! A run takes whole chunks. It is reserved at once and prepared in steps, each a transaction of
//! its own when the run is long; how far it has come stands in its head.

use words::{BLOCK_BYTES, BLOCK_STRIDE, Stop, Words};

use crate::Heap;
use crate::head::{HEAD_PREPARED, Head};
use crate::header::{Description, Kind, encode};
use crate::layout::{CHUNK_BYTES, HEAD, watch};
use crate::objects::Detached;

/// Blocks whose headers are cleared when a run is freed, so that a write through a pointer that was
/// forgotten is refused: all of a run of one chunk. Clearing every header of a long run could
/// outgrow the log; those behind still look live until their memory is used again.
const HEADERS_CLEARED: u64 = CHUNK_BYTES / BLOCK_STRIDE;

const ZEROS: [u64; BLOCK_BYTES as usize / 8] = [0; BLOCK_BYTES as usize / 8];

impl Heap {
    /// Room for a run of `blocks` blocks; answers the first one's first byte, tagged. It takes
    /// whole chunks: `blocks` * 272 (line-isolated: 256) + 64 bytes, rounded up to 64 KiB.
    ///
    /// # Errors
    /// [`Stop::Full`]; [`Stop::BadSize`] when `blocks` is 0; [`Stop::BadPointer`] when the heap is
    /// damaged; else as [`Words::write`].
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

    /// Makes up to `most` further blocks of the run ready, in order, filled with zeros; answers how
    /// many are still not ready. Writes two words, and one a block where the memory was never used,
    /// else 34; in a line-isolated heap one word, and 32 a block of memory that was used before.
    ///
    /// # Errors
    /// [`Stop::BadPointer`] when `first` is no reserved run; else as [`Words::write`].
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

    /// Gives back a run whose first block is at `object`.
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
        // The first one's header is there even when none is prepared.
        for index in 0..run.prepared.clamp(1, HEADERS_CLEARED) {
            self.label_block(tx, self.layout.block(chunk, index), 0)?;
        }
        // It is no run from here on, for who would give it back again.
        self.write_head(tx, chunk, Head::Free { chunks: run.chunks, next: 0 })?;
        Ok(Detached { chunk, chunks: run.chunks })
    }

    /// Writes a block's header where blocks have one.
    fn label_block<W: Words>(&self, tx: &mut W, object: u64, header: u64) -> Result<(), Stop> {
        if self.layout.has_headers() {
            tx.write(self.header_at(object), header)?;
        }
        Ok(())
    }

    /// The run in this chunk is about to change. Nothing rests on it where blocks have no headers;
    /// there the watches would be lines that arenas share.
    fn touch_watch<W: Words>(&self, tx: &mut W, chunk: u64) -> Result<(), Stop> {
        if self.layout.has_headers() {
            tx.write(self.addr(0, watch(chunk)), 0)?;
        }
        Ok(())
    }

    /// The run whose first block is at `object`, and its first chunk.
    fn read_run<W: Words>(&self, tx: &mut W, object: u64) -> Result<(u64, Run), Stop> {
        let chunk = object / CHUNK_BYTES;
        if object != self.layout.block(chunk, 0) {
            return Err(Stop::BadPointer);
        }
        // Not the frontier: reading that would set this against whoever takes a chunk.
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

/// The header word of a block.
pub(crate) const fn block_header(object: u64, kind: Kind) -> u64 {
    encode(object, Description { kind, class: 0, bytes: BLOCK_BYTES })
}
