//! A heap without a machine: transactions run at once and take no simulated time.
//!
//! The layout isolates lines, because hardware designs make whole lines durable: no two objects
//! share a line, and no two arenas do.
//!
//! A simulation loads its program into such a heap, and checks the final state with one.

use lw_alloc::Heap;
use words::{Addr, Allocate, Stop, Transact, Words};

use crate::machine::sparse::Sparse;
use crate::program::Ended;

/// The tag of a simulated heap's pointers.
pub const TAG: u16 = 0x51ed;

/// A simulated heap's words.
#[derive(Clone, Debug)]
pub struct Image {
    words: Sparse,
    heap: Heap,
    /// The undo list of the running transaction, oldest entry first.
    undo: Vec<(usize, u64)>,
}

impl Image {
    /// Formats a heap for data that take `bytes` in a pool. Objects are aligned to lines here, so
    /// the heap is twice as large.
    ///
    /// # Errors
    /// [`Stop::Full`] when the heap is too small for its own metadata.
    pub fn format(bytes: u64) -> Result<Image, Ended> {
        let bytes = (2 * bytes).next_multiple_of(lw_alloc::CHUNK_BYTES);
        let mut image = Image::of(Sparse::zeros(bytes as usize / 8));
        let heap = image.heap;
        heap.format(&mut image).map_err(|stop| Ended { stop })?;
        image.undo.clear();
        Ok(image)
    }

    /// Returns the heap with these words.
    pub fn of(words: Sparse) -> Image {
        let heap = heap(8 * words.length() as u64);
        Image { words, heap, undo: Vec::new() }
    }

    /// Returns the damage of the heap that the allocator's check finds first, as text.
    pub fn damage(&self) -> Option<String> {
        let damage = self.heap.check(|offset| self.words.word(offset as usize / 8)).err()?;
        Some(format!("heap: {damage}"))
    }

    /// Returns the words.
    pub fn into_words(self) -> Sparse {
        self.words
    }

    fn index(&self, at: Addr) -> Result<usize, Stop> {
        let offset = at.byte().wrapping_sub(u64::from(TAG) << words::ADDRESS_BITS);
        let inside = offset < 8 * self.words.length() as u64 && offset.is_multiple_of(8);
        if inside { Ok(offset as usize / 8) } else { Err(Stop::BadPointer) }
    }
}

/// Returns the geometry of a simulated heap.
pub fn heap(bytes: u64) -> Heap {
    Heap::line_isolated(TAG, bytes)
}

impl Words for Image {
    fn read(&mut self, at: Addr) -> Result<u64, Stop> {
        self.index(at).map(|index| self.words.word(index))
    }

    fn write(&mut self, at: Addr, value: u64) -> Result<(), Stop> {
        let index = self.index(at)?;
        let old = self.words.replace(index, value);
        self.undo.push((index, old));
        Ok(())
    }

    fn retire(&mut self, at: Addr, bytes: u64) -> Result<(), Stop> {
        let heap = self.heap;
        heap.retire(self, 0, at, bytes).map(drop)
    }
}

impl Allocate for Image {
    fn allocate(&mut self, bytes: usize) -> Result<u64, Stop> {
        let heap = self.heap;
        heap.allocate(self, 0, bytes)
    }

    fn allocate_pieces(&mut self, bytes: u64) -> Result<u64, Stop> {
        let heap = self.heap;
        heap.allocate_pieces(self, 0, bytes)
    }

    fn resize(&mut self, first: u64, from: u64, to: u64) -> Result<bool, Stop> {
        let heap = self.heap;
        heap.resize(self, first, from, to)
    }

    fn reserve_blocks(&mut self, blocks: u64) -> Result<u64, Stop> {
        let heap = self.heap;
        heap.reserve_blocks(self, blocks)
    }

    fn prepare_blocks(&mut self, first: u64, most: u64) -> Result<u64, Stop> {
        let heap = self.heap;
        heap.prepare_blocks(self, first, most)
    }

    fn root(&mut self) -> Result<u64, Stop> {
        let heap = self.heap;
        heap.root(self)
    }

    fn set_root(&mut self, object: u64) -> Result<(), Stop> {
        let heap = self.heap;
        heap.set_root(self, object)
    }
}

impl Transact for Image {
    type Tx<'t> = Image;
    type Error = Ended;

    fn transact<R>(
        &mut self,
        mut body: impl FnMut(&mut Image) -> Result<R, Stop>,
    ) -> Result<R, Ended> {
        let done = body(self);
        if done.is_err() {
            while let Some((index, old)) = self.undo.pop() {
                self.words.replace(index, old);
            }
        }
        self.undo.clear();
        done.map_err(|stop| Ended { stop })
    }
}
