//! A heap in a `Vec<u64>` for tests: it rolls back, injects conflicts and counts accesses.

use words::{Addr, Allocate, Stop, Words};

use crate::layout::Layout;
use crate::{CHUNK_BYTES, Damage, Heap, Live, Plan, Survey, Usage};

pub(crate) const TAG: u16 = 0x1a5e;

pub(crate) const LAYOUTS: [Layout; 2] = [Layout::Ordinary, Layout::LineIsolated];

/// The view that a design gives the allocator; one transaction at a time.
pub(crate) struct TestHeap {
    pub(crate) heap: Heap,
    pub(crate) words: Vec<u64>,
    /// The arena that allocates and frees.
    pub(crate) arena: usize,
    undo: Vec<(usize, u64)>,
    conflict_after: Option<u64>,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    /// Offsets of accessed words in order, reads and writes alike.
    pub(crate) touched: Vec<u64>,
}

impl TestHeap {
    /// Makes a formatted heap of a pool, with `chunks` - 1 chunks of 64 KiB behind the first run.
    pub(crate) fn new(chunks: u64) -> TestHeap {
        TestHeap::laid_out(Layout::Ordinary, chunks)
    }

    /// Makes a formatted heap with `chunks` - 1 chunks of 64 KiB behind those of the first run.
    pub(crate) fn laid_out(layout: Layout, chunks: u64) -> TestHeap {
        let mut this = TestHeap::zeros(layout, chunks);
        this.run(|tx| tx.format()).unwrap();
        this
    }

    /// Makes a heap of a pool from a golden image: a line for each non-zero word, with its offset
    /// and its value, hexadecimal.
    pub(crate) fn of_image(image: &str, chunks: u64) -> TestHeap {
        let mut this = TestHeap::zeros(Layout::Ordinary, chunks);
        for line in image.lines() {
            let (offset, word) = line.split_once(' ').unwrap();
            let offset = usize::from_str_radix(offset, 16).unwrap();
            this.words[offset / 8] = u64::from_str_radix(word, 16).unwrap();
        }
        this
    }

    pub(crate) fn zeros(layout: Layout, chunks: u64) -> TestHeap {
        let own = layout.offset(layout.own_units()).next_multiple_of(CHUNK_BYTES);
        TestHeap::zeros_of(layout, own + (chunks - 1) * CHUNK_BYTES)
    }

    pub(crate) fn zeros_of(layout: Layout, bytes: u64) -> TestHeap {
        let heap = match layout {
            Layout::Ordinary => Heap::new(TAG, bytes),
            Layout::LineIsolated => Heap::line_isolated(TAG, bytes),
        };
        TestHeap {
            heap,
            words: vec![0; bytes as usize / 8],
            arena: 0,
            undo: Vec::new(),
            conflict_after: None,
            reads: 0,
            writes: 0,
            touched: Vec::new(),
        }
    }

    pub(crate) fn layout(&self) -> Layout {
        self.heap.layout
    }

    pub(crate) fn format(&mut self) -> Result<(), Stop> {
        let heap = self.heap;
        heap.format(self)
    }

    /// Runs one transaction; a failed one is rolled back.
    pub(crate) fn run<R>(
        &mut self,
        body: impl FnOnce(&mut TestHeap) -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        self.undo.clear();
        (self.reads, self.writes) = (0, 0);
        self.touched.clear();
        let result = body(self);
        if result.is_err() {
            while let Some((index, value)) = self.undo.pop() {
                self.words[index] = value;
            }
        }
        result
    }

    /// Runs one transaction with [`Stop::Conflict`] at the access after so many; returns whether it
    /// reached that access.
    pub(crate) fn run_with_conflict<R>(
        &mut self,
        accesses: u64,
        body: impl FnOnce(&mut TestHeap) -> Result<R, Stop>,
    ) -> bool {
        self.conflict_after = Some(accesses);
        let result = self.run(body);
        let met = self.conflict_after.take().is_none();
        assert_eq!(met, result.err() == Some(Stop::Conflict), "the conflict was passed on");
        met
    }

    /// Writes as a program: only where it may.
    pub(crate) fn program_writes(&mut self, at: Addr, value: u64) -> Result<(), Stop> {
        if !self.heap.permits(at, |offset| self.word(offset)) {
            return Err(Stop::BadPointer);
        }
        self.write(at, value)
    }

    /// Takes the slabs and the free slots of all arenas.
    pub(crate) fn reclaim(&mut self) {
        let heap = self.heap;
        let owners = self.run(|tx| heap.owners(tx)).unwrap();
        let mut plan = Plan::new(heap.classes(), owners);
        while let Some(step) = plan.step() {
            plan.done(Some(self.run(|tx| heap.reclaim(tx, step)).unwrap()));
        }
    }

    /// Runs a body, and once more after a reclaim if the heap is full.
    pub(crate) fn run_reclaiming<R>(
        &mut self,
        mut body: impl FnMut(&mut TestHeap) -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        match self.run(&mut body) {
            Err(Stop::Full) => {
                self.reclaim();
                self.run(&mut body)
            }
            result => result,
        }
    }

    pub(crate) fn check(&self) -> Result<Usage, Damage> {
        self.heap.check(|offset| self.word(offset))
    }

    /// Returns all damage.
    pub(crate) fn survey(&self) -> Survey {
        self.heap.survey(|offset| self.word(offset))
    }

    /// Returns the live objects in address order.
    pub(crate) fn live(&self) -> Vec<Live> {
        self.heap.live(|offset| self.word(offset)).collect()
    }

    /// Returns the words that the last transaction wrote, in order.
    pub(crate) fn written(&self) -> Vec<u64> {
        self.undo.iter().map(|&(index, _)| 8 * index as u64).collect()
    }

    pub(crate) fn word(&self, offset: u64) -> u64 {
        let bytes = 8 * self.words.len() as u64;
        assert!(offset.is_multiple_of(8) && offset < bytes, "only words of the heap are requested");
        self.words[offset as usize / 8]
    }

    fn access(&mut self, at: Addr) -> Result<usize, Stop> {
        match &mut self.conflict_after {
            Some(0) => {
                self.conflict_after = None;
                return Err(Stop::Conflict);
            }
            Some(left) => *left -= 1,
            None => {}
        }
        let offset = at.byte().wrapping_sub(u64::from(TAG) << words::ADDRESS_BITS);
        if !offset.is_multiple_of(8) || offset >= 8 * self.words.len() as u64 {
            return Err(Stop::BadPointer);
        }
        self.touched.push(offset);
        Ok(offset as usize / 8)
    }
}

impl Words for TestHeap {
    fn read(&mut self, at: Addr) -> Result<u64, Stop> {
        let index = self.access(at)?;
        self.reads += 1;
        Ok(self.words[index])
    }

    fn write(&mut self, at: Addr, value: u64) -> Result<(), Stop> {
        let index = self.access(at)?;
        self.writes += 1;
        self.undo.push((index, self.words[index]));
        self.words[index] = value;
        Ok(())
    }

    fn retire(&mut self, at: Addr, bytes: u64) -> Result<(), Stop> {
        let (heap, arena) = (self.heap, self.arena);
        heap.retire(self, arena, at, bytes).map(drop)
    }
}

impl Allocate for TestHeap {
    fn allocate(&mut self, bytes: usize) -> Result<u64, Stop> {
        let (heap, arena) = (self.heap, self.arena);
        heap.allocate(self, arena, bytes)
    }

    fn allocate_pieces(&mut self, bytes: u64) -> Result<u64, Stop> {
        let (heap, arena) = (self.heap, self.arena);
        heap.allocate_pieces(self, arena, bytes)
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
