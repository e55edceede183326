//! Runs of chunks: first fit over the free runs, merged with their neighbours when freed.
//!
//! Chunks are taken and freed rarely, once for 64 KiB of objects, so the structure is simple, one
//! list in ascending order, searched from its start. A transaction that changes the list first
//! locks and protects the chunks object. Two such transactions therefore exclude each other under
//! every isolation level.

use words::{Addr, LockId, Stop, Words};

use crate::head::{HEAD_NEXT, Head};
use crate::layout::{CHUNK_BYTES, FIRST_FREE, FRONTIER, HEAD};
use crate::{ARENAS, Heap};

/// Returns an arena's lock, for designs that isolate by named locks: the last [`ARENAS`] numbers.
#[inline]
pub(crate) const fn arena_lock(arena: usize) -> LockId {
    LockId(u64::MAX - arena as u64)
}

/// The lock of the chunks object: the number before the arenas'.
const CHUNKS_LOCK: LockId = LockId(u64::MAX - ARENAS as u64);

/// A place in the list of free runs.
struct Place {
    /// The free run before, with its length, or `None` at the list's start.
    before: Option<(u64, u64)>,
    /// The free run at this place, or 0 at the end.
    here: u64,
}

impl Heap {
    /// Takes `chunks` neighbouring chunks. Returns the first, and whether they were never used.
    /// The caller writes their head.
    pub(crate) fn take_chunks<W: Words>(
        &self,
        tx: &mut W,
        chunks: u64,
    ) -> Result<(u64, bool), Stop> {
        let frontier = self.lock_chunks(tx)?;
        let mut place = self.list_start(tx)?;
        while place.here != 0 {
            let chunk = place.here;
            let (found, next) = self.read_free(tx, chunk, frontier)?;
            if found >= chunks {
                // Take the front: the rest then keeps its place in the ascending list.
                let rest = if found == chunks { next } else { chunk + chunks };
                if found != chunks {
                    self.write_head(tx, rest, Head::Free { chunks: found - chunks, next })?;
                }
                self.link(tx, &place, rest)?;
                return Ok((chunk, false));
            }
            place = Place { before: Some((chunk, found)), here: next };
        }
        if chunks > self.chunks() - frontier {
            return Err(Stop::Full);
        }
        tx.write(self.chunks_at(FRONTIER), frontier + chunks)?;
        Ok((frontier, true))
    }

    /// Frees chunks that [`Heap::take_chunks`] returned.
    pub(crate) fn give_chunks<W: Words>(
        &self,
        tx: &mut W,
        chunk: u64,
        chunks: u64,
    ) -> Result<(), Stop> {
        let frontier = self.lock_chunks(tx)?;
        let mut place = self.list_start(tx)?;
        while place.here != 0 && place.here < chunk {
            let (found, next) = self.read_free(tx, place.here, frontier)?;
            place = Place { before: Some((place.here, found)), here: next };
        }
        let (mut free, mut next) = (chunks, place.here);
        if next != 0 {
            if next < chunk + chunks || next >= frontier {
                return Err(Stop::BadPointer);
            }
            if next == chunk + chunks {
                let (found, behind) = self.read_free(tx, next, frontier)?;
                (free, next) = (chunks + found, behind);
            }
        }
        // Mark it free in its own head even when it merges into the run before: that is how a
        // second free of the same chunk is recognised.
        self.write_head(tx, chunk, Head::Free { chunks: free, next })?;
        match place.before {
            Some((before, found)) if before + found > chunk => Err(Stop::BadPointer),
            Some((before, found)) if before + found == chunk => {
                self.write_head(tx, before, Head::Free { chunks: found + free, next })
            }
            _ => self.link(tx, &place, chunk),
        }
    }

    /// Locks the list of free runs against changes by others, and returns the frontier.
    fn lock_chunks<W: Words>(&self, tx: &mut W) -> Result<u64, Stop> {
        tx.lock(CHUNKS_LOCK)?;
        tx.protect(self.chunks_at(FRONTIER))?;
        self.frontier(tx)
    }

    /// Returns the first never-used chunk.
    pub(crate) fn frontier<W: Words>(&self, tx: &mut W) -> Result<u64, Stop> {
        let frontier = tx.read(self.chunks_at(FRONTIER))?;
        let possible = frontier >= self.layout.own_chunks() && frontier <= self.chunks();
        if possible { Ok(frontier) } else { Err(Stop::BadPointer) }
    }

    /// Returns the address of a word of the chunks object.
    const fn chunks_at(&self, offset: u64) -> Addr {
        self.addr(self.layout.chunks_object(), offset)
    }

    fn list_start<W: Words>(&self, tx: &mut W) -> Result<Place, Stop> {
        Ok(Place { before: None, here: tx.read(self.chunks_at(FIRST_FREE))? })
    }

    fn read_free<W: Words>(
        &self,
        tx: &mut W,
        chunk: u64,
        frontier: u64,
    ) -> Result<(u64, u64), Stop> {
        match self.read_head(tx, chunk, frontier)? {
            Head::Free { chunks, next } => Ok((chunks, next)),
            _ => Err(Stop::BadPointer),
        }
    }

    /// Links `run` into the list at this place.
    fn link<W: Words>(&self, tx: &mut W, place: &Place, run: u64) -> Result<(), Stop> {
        let at = match place.before {
            Some((before, _)) => self.addr(before * CHUNK_BYTES + HEAD, HEAD_NEXT),
            None => self.chunks_at(FIRST_FREE),
        };
        tx.write(at, run)
    }
}
