//! A heap without isolation and without durability: the least that the maps can run on.

use words::{Addr, Allocate, BLOCK_STRIDE, HEADER_BYTES, Stop, Transact, Words};

/// Words, a bump allocator with a free list a size, and counters.
#[derive(Debug)]
pub(crate) struct Plain {
    words: Vec<u64>,
    next: u64,
    free: Vec<Vec<u64>>,
    root: u64,
    reads: u64,
    writes: u64,
}

impl Plain {
    /// A heap of so many bytes, touched.
    pub(crate) fn new(bytes: usize) -> Plain {
        let mut words = Vec::new();
        words.resize_with(bytes / 8, || std::hint::black_box(0)); // touched, not mapped on demand
        let next = 64 - HEADER_BYTES;
        Plain { words, next, free: vec![Vec::new(); 129], root: 0, reads: 0, writes: 0 }
    }

    /// Words read and written so far.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.reads, self.writes)
    }

    fn take(&mut self, bytes: u64) -> Result<u64, Stop> {
        let object = self.next + HEADER_BYTES;
        self.next = object + bytes;
        if self.next > 8 * self.words.len() as u64 { Err(Stop::Full) } else { Ok(object) }
    }
}

impl Words for Plain {
    #[inline]
    fn read(&mut self, at: Addr) -> Result<u64, Stop> {
        self.reads += 1;
        self.words.get(at.byte() as usize / 8).copied().ok_or(Stop::BadPointer)
    }
    #[inline]
    fn write(&mut self, at: Addr, value: u64) -> Result<(), Stop> {
        self.writes += 1;
        *self.words.get_mut(at.byte() as usize / 8).ok_or(Stop::BadPointer)? = value;
        Ok(())
    }
    fn retire(&mut self, at: Addr, bytes: u64) -> Result<(), Stop> {
        if let Some(list) = self.free.get_mut(bytes.div_ceil(8) as usize) {
            list.push(at.object);
        }
        Ok(())
    }
    #[inline]
    fn will_write(&mut self, at: Addr, bytes: usize) {
        // The safe stand-in for a prefetch: independent loads that nobody waits for.
        for line in (0..bytes).step_by(64) {
            let word = (at.byte() as usize + line) / 8;
            std::hint::black_box(self.words.get(word).copied());
        }
    }
}

impl Allocate for Plain {
    fn allocate(&mut self, bytes: usize) -> Result<u64, Stop> {
        match self.free[bytes.div_ceil(8)].pop() {
            Some(object) => Ok(object),
            None => self.take(bytes.next_multiple_of(16) as u64),
        }
    }
    fn reserve_blocks(&mut self, blocks: u64) -> Result<u64, Stop> {
        self.take(blocks * BLOCK_STRIDE)
    }
    fn prepare_blocks(&mut self, _first: u64, _most: u64) -> Result<u64, Stop> {
        Ok(0)
    }
    fn root(&mut self) -> Result<u64, Stop> {
        Ok(self.root)
    }
    fn set_root(&mut self, object: u64) -> Result<(), Stop> {
        self.root = object;
        Ok(())
    }
}

/// A transaction that failed; what it did stays done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failed(Stop);

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
impl std::error::Error for Failed {}

impl Transact for Plain {
    type Tx<'t> = Plain;
    type Error = Failed;

    #[inline]
    fn transact<R>(
        &mut self,
        mut body: impl FnMut(&mut Plain) -> Result<R, Stop>,
    ) -> Result<R, Failed> {
        body(self).map_err(Failed)
    }
}
