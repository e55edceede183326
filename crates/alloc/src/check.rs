//! The check of a whole heap: does every byte belong to exactly one thing.
//!
//! One pass over the chunks, in order; what is not in order is kept aside: the cursors (at most one
//! for each arena and class) and one bit for each 16 bytes of heap, set where the pass finds a free
//! slot and cleared where a free list leads. Time and memory are bounded by the heap's size,
//! whatever is in it.
//!
//! Behind damage the pass goes on where what follows can still be told from what the damage made
//! look wrong, so that each finding is damage and none an echo of another:
//! - Behind the head of a chunk that cannot be, at the next chunk that has a head. What is between
//!   is *unknown*: cursors, free lists and the list of free runs may lead there.
//! - A slab whose cursor cannot be is known up to its first slot that is none.
//! - A free list ends where it leads to damage; free slots that no list leads to are found only
//!   when no list ended so.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::blocks::{block, block_header};
use crate::classes::{CLASSES, payload_bytes};
use crate::header::{Kind, decode};
use crate::layout::{
    ARENA_PAYLOAD, CHUNK_BYTES, CHUNKS, FIRST_FREE, FIRST_SLOT, FRONTIER, HEAD, HEAD_CLASS,
    HEAD_NEXT, Head, LINE_PAYLOAD, LINE_WORDS, MAGIC, ROOT, ROOT_USER, VERSION, arena, is_slot,
    next_slot, own_header,
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

/// Damage that a check found.
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

impl Damage {
    /// The chunk that it is in.
    pub fn chunk(&self) -> u64 {
        self.offset / CHUNK_BYTES
    }

    /// The program's object or block whose header is wrong, in bytes from the heap's start.
    pub fn object(&self) -> Option<u64> {
        matches!(self.wrong, Wrong::Object | Wrong::Block).then_some(self.offset + 8)
    }
}

/// All that a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Survey {
    /// What is in the heap, as far as it is known.
    pub usage: Usage,
    /// The damage, in the order of the walk; at most [`Survey::DAMAGE_MAX`].
    pub damage: Vec<Damage>,
    /// Whether everything was looked at. Damage may hide what lies behind it.
    pub complete: bool,
}

impl Survey {
    /// The walk ends when it has found so much damage: there is no sense left to be made of it.
    pub const DAMAGE_MAX: usize = 256;
}

/// The walk has found all that it may, or cannot go on.
struct Enough;

impl Heap {
    /// Walks a heap in which no transaction runs and counts what is in it. `word` is asked for
    /// words inside the heap only, by their offset in bytes. The order of the walk is that of the
    /// heap, but for the free lists.
    ///
    /// # Errors
    /// The first [`Damage`] it meets; [`survey`](Heap::survey) finds more.
    pub fn check(&self, word: impl FnMut(u64) -> u64) -> Result<Usage, Damage> {
        let survey = self.walk(word, 1);
        match survey.damage.first() {
            None => Ok(survey.usage),
            Some(damage) => Err(*damage),
        }
    }

    /// Walks a heap as [`check`](Heap::check) does, and goes on behind damage where it can.
    pub fn survey(&self, word: impl FnMut(u64) -> u64) -> Survey {
        self.walk(word, Survey::DAMAGE_MAX)
    }

    fn walk(&self, word: impl FnMut(u64) -> u64, most: usize) -> Survey {
        let usage = Usage { chunks: self.chunks(), ..Usage::default() };
        if self.chunks() < 2 {
            let (expected, found) = (crate::HEAP_BYTES_MIN, self.bytes);
            let damage = vec![Damage { wrong: Wrong::Size, offset: 0, expected, found }];
            return Survey { usage, damage, complete: false };
        }
        let mut check = Check {
            heap: *self,
            word,
            usage,
            damage: Vec::new(),
            most,
            cursors: BTreeMap::new(),
            lost_cursors: [0; CLASSES],
            free: Bits::default(),
            unknown: Unknown::default(),
        };
        let complete = check.all().is_ok() && !check.unknown.hides();
        Survey { usage: check.usage, damage: check.damage, complete }
    }
}

/// What damage has made impossible to judge.
#[derive(Default)]
struct Unknown {
    /// First chunks of parts between a head that cannot be and the next one, and their ends.
    chunks: BTreeMap<u64, u64>,
    /// Slots with a wrong header.
    slots: BTreeSet<u64>,
    /// Slabs from one slot on, to the chunk's end.
    tails: BTreeMap<u64, u64>,
    /// A free list ended at damage.
    lists: bool,
}

impl Unknown {
    /// Whether damage may be hidden. A slot with a wrong header hides none but its own.
    fn hides(&self) -> bool {
        !self.chunks.is_empty() || !self.tails.is_empty() || self.lists
    }

    fn has_chunk(&self, chunk: u64) -> bool {
        self.chunks.range(..=chunk).next_back().is_some_and(|(_, &end)| chunk < end)
    }

    fn has_slot(&self, object: u64) -> bool {
        let chunk = object / CHUNK_BYTES;
        let in_tail = self.tails.get(&chunk).is_some_and(|&first| object >= first);
        in_tail || self.slots.contains(&object) || self.has_chunk(chunk)
    }
}

struct Check<F> {
    heap: Heap,
    word: F,
    usage: Usage,
    damage: Vec<Damage>,
    /// Findings after which it ends.
    most: usize,
    /// Slab's chunk to its cursor, the cursor's class, and where the cursor stands.
    cursors: BTreeMap<u64, (u64, usize, u64)>,
    /// Of each class, cursors that cannot be: so many slabs are not full and do not show where.
    lost_cursors: [usize; CLASSES],
    /// Free slots that no free list has led to yet.
    free: Bits,
    unknown: Unknown,
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

    fn has(&self, object: u64) -> bool {
        let bits = self.bits.get((object / 1024) as usize);
        object.is_multiple_of(16) && bits.is_some_and(|bits| bits & 1 << (object / 16 % 64) != 0)
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
    fn all(&mut self) -> Result<(), Enough> {
        let frontier = self.first_chunk()?;
        self.arenas(frontier)?;
        self.chunks(frontier)?;
        self.free_lists()
    }

    fn read(&mut self, offset: u64) -> u64 {
        (self.word)(offset)
    }

    fn found(&mut self, damage: Damage) -> Result<(), Enough> {
        self.damage.push(damage);
        if self.damage.len() < self.most { Ok(()) } else { Err(Enough) }
    }

    /// Answers whether the word is as it must be.
    fn expect(&mut self, wrong: Wrong, offset: u64, expected: u64) -> Result<bool, Enough> {
        let found = self.read(offset);
        if found != expected {
            self.found(Damage { wrong, offset, expected, found })?;
        }
        Ok(found == expected)
    }

    /// The root object and the chunks object; answers the frontier.
    fn first_chunk(&mut self) -> Result<u64, Enough> {
        let magic = self.expect(Wrong::Magic, ROOT, MAGIC)?;
        let version = self.expect(Wrong::Version, ROOT + 8, VERSION)?;
        let mut headers = true;
        for object in [ROOT, CHUNKS] {
            let own = own_header(object, LINE_PAYLOAD);
            headers &= self.expect(Wrong::OwnHeader, object - 8, own)?;
        }
        if !version || (!magic && !headers) {
            return Err(Enough); // no heap, or one of another program: nothing else means anything
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
            self.found(Damage { wrong: Wrong::Frontier, offset, expected: chunks, found })?;
            // The arenas do not need it; the chunks do.
            self.arenas(chunks)?;
            return Err(Enough);
        }
        self.usage.chunks_free = chunks - found;
        Ok(found)
    }

    /// The arenas' headers and cursors.
    fn arenas(&mut self, frontier: u64) -> Result<(), Enough> {
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
                let mut place = (cursor, class, offset);
                if possible {
                    let Some(other) = self.cursors.insert(chunk, place) else { continue };
                    // One slab, two cursors: the wrong one is that of another class, or the later.
                    let of_slab = |place: (u64, usize, u64), slab| place.1 as u64 == slab;
                    let slab = self.read(chunk * CHUNK_BYTES + HEAD + HEAD_CLASS);
                    if of_slab(other, slab) || !of_slab(place, slab) {
                        self.cursors.insert(chunk, other);
                    } else {
                        place = other;
                    }
                }
                self.lost_cursor(place.2, place.0, place.1)?;
            }
        }
        Ok(())
    }

    fn lost_cursor(&mut self, offset: u64, found: u64, class: usize) -> Result<(), Enough> {
        self.lost_cursors[class] += 1;
        self.found(Damage { wrong: Wrong::Cursor, offset, expected: 0, found })
    }

    /// Every chunk below the frontier.
    fn chunks(&mut self, frontier: u64) -> Result<(), Enough> {
        let mut chunk = 0;
        // The word that leads to the next free run; nothing when that is unknown.
        let mut link = Some(CHUNKS + FIRST_FREE);
        while chunk < frontier {
            let Some(head) = self.head(chunk, frontier)? else {
                let end = self.next_head(chunk + 1, frontier);
                self.unknown.chunks.insert(chunk, end);
                let next = link.map(|link| self.read(link));
                if next.is_some_and(|next| (chunk..end).contains(&next)) {
                    link = None;
                }
                chunk = end;
                continue;
            };
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
                    if let Some(link) = link {
                        self.expect(Wrong::FreeRuns, link, chunk)?;
                    }
                    link = Some(chunk * CHUNK_BYTES + HEAD + HEAD_NEXT);
                    self.usage.chunks_free += chunks;
                    chunks
                }
            };
        }
        if let Some(link) = link {
            self.expect(Wrong::FreeRuns, link, 0)?;
        }
        for (chunk, (found, _, offset)) in std::mem::take(&mut self.cursors) {
            if !self.unknown.has_chunk(chunk) {
                self.found(Damage { wrong: Wrong::Cursor, offset, expected: 0, found })?;
            }
        }
        Ok(())
    }

    /// The head of a chunk; nothing when it cannot be.
    fn head(&mut self, chunk: u64, frontier: u64) -> Result<Option<Head>, Enough> {
        let object = chunk * CHUNK_BYTES + HEAD;
        let words = self.head_words(chunk);
        let head = match Head::decode(words, chunk, frontier) {
            Ok(head) if chunk == 0 && head != Head::First => Err((0, Head::First.encode()[0])),
            Ok(head) => Ok(head),
            Err(bad) => Err((bad.offset, bad.expected)),
        };
        match head {
            Ok(mut head) => {
                if !self.expect(Wrong::OwnHeader, object - 8, head.header(chunk))? {
                    // Two words name a slab's class, and one is wrong: headers have a check.
                    let slab = decode(self.read(object - 8), object);
                    let slab = slab.filter(|slab| slab.kind == Kind::Slab);
                    if let (Some(slab), Head::Slab { .. }) = (slab, head)
                        && usize::from(slab.class) < CLASSES
                    {
                        head = Head::Slab { class: slab.class.into() };
                    }
                }
                Ok(Some(head))
            }
            Err((offset, expected)) => {
                let found = words[offset as usize / 8];
                let (wrong, offset) = (Wrong::ChunkHead, object + offset);
                self.found(Damage { wrong, offset, expected, found })?;
                Ok(None)
            }
        }
    }

    fn head_words(&mut self, chunk: u64) -> [u64; LINE_WORDS] {
        std::array::from_fn(|i| self.read(chunk * CHUNK_BYTES + HEAD + 8 * i as u64))
    }

    /// The next chunk with a head that is whole, header word and all; the frontier when there is
    /// none. Data in the chunks of a run pass for one as rarely as for a header.
    fn next_head(&mut self, mut chunk: u64, frontier: u64) -> u64 {
        while chunk < frontier {
            let header = self.read(chunk * CHUNK_BYTES + HEAD - 8);
            match Head::decode(self.head_words(chunk), chunk, frontier) {
                Ok(head) if head.header(chunk) == header => break,
                _ => chunk += 1,
            }
        }
        chunk
    }

    fn slab(&mut self, chunk: u64, class: usize) -> Result<(), Enough> {
        let first = chunk * CHUNK_BYTES + FIRST_SLOT;
        let mut end = (chunk + 1) * CHUNK_BYTES;
        let mut is_full = true;
        if let Some((cursor, of, offset)) = self.cursors.remove(&chunk) {
            if of == class {
                (end, is_full) = (cursor, false);
            } else {
                self.lost_cursor(offset, cursor, of)?;
                self.unknown.tails.insert(chunk, first);
                return Ok(());
            }
        }
        let mut object = first;
        while object != 0 && object < end {
            if !self.slot(object, class) {
                if is_full && self.lost_cursors[class] > 0 {
                    // This is where a cursor was, perhaps: nothing was given out from here on.
                    self.lost_cursors[class] -= 1;
                    self.unknown.tails.insert(chunk, object);
                    return Ok(());
                }
                self.unknown.slots.insert(object);
                let found = self.read(object - 8);
                let (wrong, expected) = (Wrong::Object, free_header(object, class));
                self.found(Damage { wrong, offset: object - 8, expected, found })?;
            }
            object = next_slot(object, class);
        }
        Ok(())
    }

    /// Counts a slot; answers whether its header is one.
    fn slot(&mut self, object: u64, class: usize) -> bool {
        let found = self.read(object - 8);
        if found == free_header(object, class) {
            self.usage.slots_free += 1;
            self.free.set(object);
            return true;
        }
        match decode(found, object) {
            Some(live)
                if live.kind == Kind::Object
                    && live.class as usize == class
                    && (1..=payload_bytes(class)).contains(&live.bytes) =>
            {
                self.usage.objects += 1;
                self.usage.object_bytes += live.bytes;
                true
            }
            _ => false,
        }
    }

    fn run(&mut self, chunk: u64, blocks: u64, prepared: u64) -> Result<(), Enough> {
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

    /// Every free list: each step clears a bit or ends it, so all end.
    fn free_lists(&mut self) -> Result<(), Enough> {
        for index in 0..ARENAS {
            for class in 0..CLASSES {
                let mut at = arena(index) + 16 * class as u64;
                loop {
                    let object = self.read(at);
                    if object == 0 {
                        break;
                    }
                    let is_free = self.free.has(object)
                        && self.read(object - 8) == free_header(object, class);
                    if !is_free || !self.free.take(object) {
                        self.unknown.lists = true;
                        if !self.unknown.has_slot(object) {
                            let (wrong, found) = (Wrong::FreeList, object);
                            self.found(Damage { wrong, offset: at, expected: 0, found })?;
                        }
                        break;
                    }
                    at = object;
                }
            }
        }
        if !self.unknown.lists {
            while let Some(object) = self.free.first() {
                self.free.take(object);
                let found = self.read(object - 8);
                let (wrong, offset) = (Wrong::Lost, object - 8);
                self.found(Damage { wrong, offset, expected: 0, found })?;
            }
        }
        Ok(())
    }
}
