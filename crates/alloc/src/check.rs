//! The check of a whole heap: does every byte belong to exactly one thing.
//!
//! One pass over the chunks, in order; what is not in order is kept aside: the cursors (at most one
//! for each arena and class) and one bit for each 16 bytes of heap, set where the pass finds a free
//! slot and cleared where a free list leads. Time and memory are bounded by the heap's size,
//! whatever is in it.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::blocks::{block, block_header};
use crate::classes::{CLASSES, payload_bytes};
use crate::header::{Kind, decode};
use crate::layout::{
    ARENA_PAYLOAD, CHUNK_BYTES, CHUNKS, FIRST_FREE, FIRST_SLOT, FRONTIER, HEAD, Head, LINE_PAYLOAD,
    LINE_WORDS, MAGIC, ROOT, ROOT_USER, VERSION, arena, is_slot, next_slot, own_header,
};
use crate::objects::free_header;
use crate::{ARENAS, Heap};

/// What is in a heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Chunks of the heap.
    pub chunks: u64,
    /// Chunks that were never used or are free again.
    pub chunks_free: u64,
    /// Live objects; blocks are counted apart.
    pub objects: u64,
    /// Bytes that were asked for in live objects.
    pub object_bytes: u64,
    /// Slots on free lists.
    pub slots_free: u64,
    /// Runs of blocks.
    pub runs: u64,
    /// Blocks in runs, prepared or not.
    pub blocks: u64,
    /// Prepared blocks.
    pub blocks_prepared: u64,
}

/// What kind of damage a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Wrong {
    /// The heap is smaller than [`HEAP_BYTES_MIN`](crate::HEAP_BYTES_MIN).
    #[error("the heap is too small to be one")]
    Size,
    /// No heap starts here.
    #[error("no heap starts here (magic)")]
    Magic,
    /// A format that this program does not know.
    #[error("unknown format version of the heap")]
    Version,
    /// A header of one of the allocator's own objects.
    #[error("wrong header of an allocator object")]
    OwnHeader,
    /// A word that is reserved and not zero.
    #[error("a reserved word is not zero")]
    Reserved,
    /// More chunks in use than there are, or none.
    #[error("impossible number of used chunks")]
    Frontier,
    /// The head of a chunk says something impossible.
    #[error("impossible word in the head of a chunk")]
    ChunkHead,
    /// The list of free runs does not lead to the next free run.
    #[error("the list of free runs leads elsewhere")]
    FreeRuns,
    /// An arena's cursor does not point to a slot of a slab that only it points to.
    #[error("an arena's cursor points to no slab of its own")]
    Cursor,
    /// A slot's header.
    #[error("wrong header of an object")]
    Object,
    /// A prepared block's header.
    #[error("wrong header of a block")]
    Block,
    /// A free list leads to something that is no free slot, or was met before.
    #[error("a free list leads to no free object")]
    FreeList,
    /// A free slot that no free list leads to.
    #[error("a free object on no free list")]
    Lost,
}

/// The first damage that a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{wrong}: heap offset {offset:#x}, expected {expected:#x}, found {found:#x}")]
pub struct Damage {
    /// What is wrong.
    pub wrong: Wrong,
    /// The word that is wrong, in bytes from the heap's start.
    pub offset: u64,
    /// What it should be; of several possibilities, one or a bound.
    pub expected: u64,
    /// What it is.
    pub found: u64,
}

impl Heap {
    /// Walks a heap in which no transaction runs and counts what is in it. `word` is asked for
    /// words inside the heap only, by their offset in bytes. The order of the walk is that of the
    /// heap, but for the free lists.
    ///
    /// # Errors
    /// The first [`Damage`] it meets.
    pub fn check(&self, word: impl FnMut(u64) -> u64) -> Result<Usage, Damage> {
        if self.chunks() < 2 {
            let (expected, found) = (crate::HEAP_BYTES_MIN, self.bytes);
            return Err(Damage { wrong: Wrong::Size, offset: 0, expected, found });
        }
        let mut check = Check {
            heap: *self,
            word,
            usage: Usage { chunks: self.chunks(), ..Usage::default() },
            cursors: BTreeMap::new(),
            free: Bits::default(),
        };
        let frontier = check.first_chunk()?;
        check.arenas(frontier)?;
        check.chunks(frontier)?;
        check.free_lists()?;
        Ok(check.usage)
    }
}

struct Check<F> {
    heap: Heap,
    word: F,
    usage: Usage,
    /// Slab's chunk to its cursor, the cursor's class, and where the cursor stands.
    cursors: BTreeMap<u64, (u64, usize, u64)>,
    /// Free slots that no free list has led to yet.
    free: Bits,
}

/// One bit for each 16 bytes of the heap.
#[derive(Default)]
struct Bits {
    bits: Vec<u64>,
    set: u64,
}

impl Bits {
    fn set(&mut self, object: u64) {
        let index = (object / 1024) as usize;
        if self.bits.len() <= index {
            self.bits.resize(index + 1, 0);
        }
        self.bits[index] |= 1 << (object / 16 % 64);
        self.set += 1;
    }

    /// Clears a bit; answers whether it was set.
    fn take(&mut self, object: u64) -> bool {
        let mask = 1 << (object / 16 % 64);
        match self.bits.get_mut((object / 1024) as usize) {
            Some(bits) if *bits & mask != 0 && object.is_multiple_of(16) => {
                *bits &= !mask;
                self.set -= 1;
                true
            }
            _ => false,
        }
    }

    fn first(&self) -> Option<u64> {
        let index = self.bits.iter().position(|&bits| bits != 0)?;
        Some(index as u64 * 1024 + u64::from(self.bits[index].trailing_zeros()) * 16)
    }
}

impl<F: FnMut(u64) -> u64> Check<F> {
    fn read(&mut self, offset: u64) -> u64 {
        (self.word)(offset)
    }

    fn expect(&mut self, wrong: Wrong, offset: u64, expected: u64) -> Result<(), Damage> {
        let found = self.read(offset);
        let right = found == expected;
        if right { Ok(()) } else { Err(Damage { wrong, offset, expected, found }) }
    }

    /// The root object and the chunks object; answers the frontier.
    fn first_chunk(&mut self) -> Result<u64, Damage> {
        self.expect(Wrong::Magic, ROOT, MAGIC)?;
        self.expect(Wrong::Version, ROOT + 8, VERSION)?;
        for object in [ROOT, CHUNKS] {
            self.expect(Wrong::OwnHeader, object - 8, own_header(object, LINE_PAYLOAD))?;
        }
        for offset in (ROOT + ROOT_USER + 8..ROOT + LINE_PAYLOAD).step_by(8) {
            self.expect(Wrong::Reserved, offset, 0)?;
        }
        for offset in (CHUNKS + FIRST_FREE + 8..CHUNKS + LINE_PAYLOAD).step_by(8) {
            self.expect(Wrong::Reserved, offset, 0)?;
        }
        let found = self.read(CHUNKS + FRONTIER);
        let (chunks, offset) = (self.heap.chunks(), CHUNKS + FRONTIER);
        if found == 0 || found > chunks {
            return Err(Damage { wrong: Wrong::Frontier, offset, expected: chunks, found });
        }
        self.usage.chunks_free = chunks - found;
        Ok(found)
    }

    /// The arenas' headers and cursors.
    fn arenas(&mut self, frontier: u64) -> Result<(), Damage> {
        for index in 0..ARENAS {
            let object = arena(index);
            self.expect(Wrong::OwnHeader, object - 8, own_header(object, ARENA_PAYLOAD))?;
            for class in 0..CLASSES {
                let offset = object + 16 * class as u64 + 8;
                let cursor = self.read(offset);
                if cursor == 0 {
                    continue;
                }
                let chunk = cursor / CHUNK_BYTES;
                let possible = is_slot(cursor, class) && chunk >= 1 && chunk < frontier;
                let first =
                    possible && self.cursors.insert(chunk, (cursor, class, offset)).is_none();
                if !first {
                    let wrong = Wrong::Cursor;
                    return Err(Damage { wrong, offset, expected: 0, found: cursor });
                }
            }
        }
        Ok(())
    }

    /// Every chunk below the frontier.
    fn chunks(&mut self, frontier: u64) -> Result<(), Damage> {
        let mut chunk = 0;
        // The word that leads to the next free run.
        let mut link = CHUNKS + FIRST_FREE;
        while chunk < frontier {
            let head = self.head(chunk, frontier)?;
            chunk += match head {
                Head::First => 1,
                Head::Slab { class } => {
                    self.slab(chunk, class as usize)?;
                    1
                }
                Head::Run { chunks, blocks, prepared, .. } => {
                    self.run(chunk, blocks, prepared)?;
                    chunks
                }
                Head::Free { chunks, .. } => {
                    self.expect(Wrong::FreeRuns, link, chunk)?;
                    link = chunk * CHUNK_BYTES + HEAD + crate::layout::HEAD_NEXT;
                    self.usage.chunks_free += chunks;
                    chunks
                }
            };
        }
        self.expect(Wrong::FreeRuns, link, 0)?;
        match self.cursors.pop_first() {
            None => Ok(()),
            Some((_, (found, _, offset))) => {
                Err(Damage { wrong: Wrong::Cursor, offset, expected: 0, found })
            }
        }
    }

    fn head(&mut self, chunk: u64, frontier: u64) -> Result<Head, Damage> {
        let object = chunk * CHUNK_BYTES + HEAD;
        let mut words = [0; LINE_WORDS];
        for (i, word) in words.iter_mut().enumerate() {
            *word = self.read(object + 8 * i as u64);
        }
        let head = match Head::decode(words, chunk, frontier) {
            Ok(head) if chunk == 0 && head != Head::First => Err((0, Head::First.encode()[0])),
            Ok(head) => Ok(head),
            Err(bad) => Err((bad.offset, bad.expected)),
        };
        let head = head.map_err(|(offset, expected)| Damage {
            wrong: Wrong::ChunkHead,
            offset: object + offset,
            expected,
            found: words[offset as usize / 8],
        })?;
        self.expect(Wrong::OwnHeader, object - 8, head.header(chunk))?;
        Ok(head)
    }

    fn slab(&mut self, chunk: u64, class: usize) -> Result<(), Damage> {
        let mut end = (chunk + 1) * CHUNK_BYTES;
        if let Some((cursor, of, offset)) = self.cursors.remove(&chunk) {
            if of != class {
                let wrong = Wrong::Cursor;
                return Err(Damage { wrong, offset, expected: 0, found: cursor });
            }
            end = cursor;
        }
        let mut object = chunk * CHUNK_BYTES + FIRST_SLOT;
        while object != 0 && object < end {
            self.slot(object, class)?;
            object = next_slot(object, class);
        }
        Ok(())
    }

    fn slot(&mut self, object: u64, class: usize) -> Result<(), Damage> {
        let found = self.read(object - 8);
        if found == free_header(object, class) {
            self.usage.slots_free += 1;
            self.free.set(object);
            return Ok(());
        }
        match decode(found, object) {
            Some(live)
                if live.kind == Kind::Object
                    && live.class as usize == class
                    && (1..=payload_bytes(class)).contains(&live.bytes) =>
            {
                self.usage.objects += 1;
                self.usage.object_bytes += live.bytes;
                Ok(())
            }
            _ => {
                let (wrong, expected) = (Wrong::Object, free_header(object, class));
                Err(Damage { wrong, offset: object - 8, expected, found })
            }
        }
    }

    fn run(&mut self, chunk: u64, blocks: u64, prepared: u64) -> Result<(), Damage> {
        self.usage.runs += 1;
        self.usage.blocks += blocks;
        self.usage.blocks_prepared += prepared;
        for index in 0..prepared {
            let object = block(chunk, index);
            self.expect(Wrong::Block, object - 8, block_header(object, Kind::Block))?;
        }
        if prepared == 0 {
            let object = block(chunk, 0);
            self.expect(Wrong::Block, object - 8, block_header(object, Kind::Reserved))?;
        }
        Ok(())
    }

    /// Every free list: each step clears a bit or is damage, so it ends.
    fn free_lists(&mut self) -> Result<(), Damage> {
        for index in 0..ARENAS {
            for class in 0..CLASSES {
                let mut at = arena(index) + 16 * class as u64;
                loop {
                    let object = self.read(at);
                    if object == 0 {
                        break;
                    }
                    let known = self.free.take(object);
                    if !known || self.read(object - 8) != free_header(object, class) {
                        let wrong = Wrong::FreeList;
                        return Err(Damage { wrong, offset: at, expected: 0, found: object });
                    }
                    at = object;
                }
            }
        }
        match self.free.first() {
            None => Ok(()),
            Some(object) => {
                let found = self.read(object - 8);
                let (wrong, offset) = (Wrong::Lost, object - 8);
                Err(Damage { wrong, offset, expected: 0, found })
            }
        }
    }
}
