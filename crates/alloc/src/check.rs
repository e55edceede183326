//! The check of a whole heap: every byte must belong to exactly one object.
//!
//! One pass visits the chunks in order. Two sets hold the facts that come in another order: the
//! cursors (at most one for each arena and class), and one bit for each 16 bytes of heap. The pass
//! sets a bit at each free slot, and the walk of the free lists clears it. The heap's size bounds
//! time and memory, whatever its content.
//!
//! After damage the pass continues where it can separate later damage from consequences of the
//! first, so that each finding is damage and none is an echo of another:
//! - After an impossible head of a chunk, at the next chunk that has a head. The part between is
//!   *unknown*: cursors, free lists and the list of free runs may lead there.
//! - A slab with an impossible cursor is known up to its first slot without a valid label.
//! - A free list ends where it leads to damage. Free slots on no list are reported only when no
//!   list ended so.

use std::collections::{BTreeMap, BTreeSet};

use crate::blocks::block_header;
use crate::classes::CLASSES_MAX;
use crate::head::{BadWord, HEAD_CLASS, HEAD_NEXT, Head, own_header};
use crate::header::{Kind, decode};
use crate::layout::{
    ARENA_PAYLOAD, CHUNK_BYTES, FIRST_FREE, FRONTIER, HEAD, LINE_PAYLOAD, LINE_WORDS, Layout,
    ROOT_USER, VERSION,
};
use crate::survey::{Damage, Survey, Usage, Wrong};
use crate::{ARENAS, Heap};

/// Ends the walk: it has found as much damage as it may, or cannot go on.
struct Enough;

impl Heap {
    /// Checks a heap in which no transaction runs, and counts its objects. `word` is called only
    /// for words inside the heap, by their offset in bytes. The walk is in address order, except
    /// for the free lists.
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

    /// Checks a heap as [`check`](Heap::check) does, and continues after damage where it can.
    pub fn survey(&self, word: impl FnMut(u64) -> u64) -> Survey {
        self.walk(word, Survey::DAMAGE_MAX)
    }

    fn walk(&self, word: impl FnMut(u64) -> u64, most: usize) -> Survey {
        let usage = Usage { chunks: self.chunks(), ..Usage::default() };
        if !self.has_room() {
            let expected = (self.layout.own_chunks() + 1) * CHUNK_BYTES;
            let found = self.bytes;
            let damage = vec![Damage { wrong: Wrong::Size, offset: 0, expected, found }];
            return Survey { usage, damage, complete: false };
        }
        let mut check = Check {
            heap: *self,
            layout: self.layout,
            word,
            usage,
            damage: Vec::new(),
            most,
            cursors: BTreeMap::new(),
            lost_cursors: [0; CLASSES_MAX],
            free: Bits::default(),
            unknown: Unknown::default(),
        };
        let complete = check.all().is_ok() && !check.unknown.hides();
        Survey { usage: check.usage, damage: check.damage, complete }
    }
}

/// The parts of the heap that damage makes impossible to judge.
#[derive(Default)]
struct Unknown {
    /// Parts between an impossible head and the next head: first chunk to end.
    chunks: BTreeMap<u64, u64>,
    /// Slots with a wrong header.
    slots: BTreeSet<u64>,
    /// Slabs from one slot on: that slot to the chunk's end.
    tails: BTreeMap<u64, u64>,
    /// A free list ended at damage.
    lists: bool,
    /// A cursor is impossible, and slots without headers do not show its true position.
    cursors: bool,
}

impl Unknown {
    /// Returns whether damage may be hidden. A slot with a wrong header hides only its own.
    fn hides(&self) -> bool {
        !self.chunks.is_empty() || !self.tails.is_empty() || self.lists || self.cursors
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
    layout: Layout,
    word: F,
    usage: Usage,
    damage: Vec<Damage>,
    /// Number of findings that ends the walk.
    most: usize,
    /// Slab's chunk to its cursor, the cursor's class, and the cursor's own place.
    cursors: BTreeMap<u64, (u64, usize, u64)>,
    /// Per class, the number of impossible cursors. Each leaves one slab partly used, up to an
    /// unknown slot.
    lost_cursors: [usize; CLASSES_MAX],
    /// Free slots that no free list has reached yet.
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

    /// Clears a bit; returns whether it was set.
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

    /// Returns whether the word has its expected value.
    fn expect(&mut self, wrong: Wrong, offset: u64, expected: u64) -> Result<bool, Enough> {
        let found = self.read(offset);
        if found != expected {
            self.found(Damage { wrong, offset, expected, found })?;
        }
        Ok(found == expected)
    }

    /// Checks the root object and the chunks object; returns the frontier.
    fn first_chunk(&mut self) -> Result<u64, Enough> {
        let (root, chunks) = (self.layout.root(), self.layout.chunks_object());
        let magic = self.expect(Wrong::Magic, root, self.layout.magic())?;
        let version = self.expect(Wrong::Version, root + 8, VERSION)?;
        let mut headers = true;
        for object in [root, chunks] {
            let own = own_header(object, LINE_PAYLOAD);
            headers &= self.expect(Wrong::OwnHeader, object - 8, own)?;
        }
        if !version || (!magic && !headers) {
            return Err(Enough); // no heap, or another program's: no other word means anything
        }
        for offset in (root + ROOT_USER + 8..root + LINE_PAYLOAD).step_by(8) {
            self.expect(Wrong::Reserved, offset, 0)?;
        }
        for offset in (chunks + FIRST_FREE + 8..chunks + LINE_PAYLOAD).step_by(8) {
            self.expect(Wrong::Reserved, offset, 0)?;
        }
        let offset = chunks + FRONTIER;
        let (chunks, found) = (self.heap.chunks(), self.read(offset));
        if found < self.layout.own_chunks() || found > chunks {
            self.found(Damage { wrong: Wrong::Frontier, offset, expected: chunks, found })?;
            // The arenas' check works with an unknown frontier; that of the chunks does not.
            self.arenas(chunks)?;
            return Err(Enough);
        }
        self.usage.chunks_free = chunks - found;
        Ok(found)
    }

    /// Checks the arenas' headers and cursors.
    fn arenas(&mut self, frontier: u64) -> Result<(), Enough> {
        for index in 0..ARENAS {
            let object = self.layout.arena(index);
            if index < self.layout.arenas_with_header() {
                self.expect(Wrong::OwnHeader, object - 8, own_header(object, ARENA_PAYLOAD))?;
            }
            for class in 0..self.layout.classes() {
                let offset = object + 16 * class as u64 + 8;
                let cursor = self.read(offset);
                if cursor == 0 {
                    continue;
                }
                let chunk = cursor / CHUNK_BYTES;
                let possible = self.layout.is_slot(cursor, class)
                    && (self.layout.own_chunks()..frontier).contains(&chunk);
                let mut place = (cursor, class, offset);
                if possible {
                    let Some(other) = self.cursors.insert(chunk, place) else { continue };
                    // Two cursors in one slab: the wrong one is of another class, or the later.
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
        self.unknown.cursors |= !self.layout.has_headers();
        self.found(Damage { wrong: Wrong::Cursor, offset, expected: 0, found })
    }

    /// Checks every chunk below the frontier.
    fn chunks(&mut self, frontier: u64) -> Result<(), Enough> {
        let mut chunk = 0;
        // The word that leads to the next free run; `None` when its place is unknown.
        let mut link = Some(self.layout.chunks_object() + FIRST_FREE);
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
                Head::First { chunks } => chunks,
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

    /// Reads the head of a chunk; `None` when it is impossible.
    fn head(&mut self, chunk: u64, frontier: u64) -> Result<Option<Head>, Enough> {
        let object = chunk * CHUNK_BYTES + HEAD;
        let words = self.head_words(chunk);
        match Head::decode(self.layout, words, chunk, frontier) {
            Ok(mut head) => {
                if !self.expect(Wrong::OwnHeader, object - 8, head.header(chunk))? {
                    // Two words give a slab's class: believe the header, which has a check.
                    let slab = decode(self.read(object - 8), object);
                    let slab = slab.filter(|slab| slab.kind == Kind::Slab);
                    if let (Some(slab), Head::Slab { .. }) = (slab, head)
                        && usize::from(slab.class) < self.layout.classes()
                    {
                        head = Head::Slab { class: slab.class.into() };
                    }
                }
                Ok(Some(head))
            }
            Err(BadWord { offset, expected }) => {
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

    /// Returns the next chunk with an intact head, header word included; the frontier without one.
    /// Data in the chunks of a run pass for a head as rarely as for a header.
    fn next_head(&mut self, mut chunk: u64, frontier: u64) -> u64 {
        while chunk < frontier {
            let header = self.read(chunk * CHUNK_BYTES + HEAD - 8);
            match Head::decode(self.layout, self.head_words(chunk), chunk, frontier) {
                Ok(head) if head.header(chunk) == header => break,
                _ => chunk += 1,
            }
        }
        chunk
    }

    fn slab(&mut self, chunk: u64, class: usize) -> Result<(), Enough> {
        let first = chunk * CHUNK_BYTES + self.layout.first_slot();
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
                    // The lost cursor may have stood here: no slot was allocated from here on.
                    self.lost_cursors[class] -= 1;
                    self.unknown.tails.insert(chunk, object);
                    return Ok(());
                }
                self.unknown.slots.insert(object);
                let (offset, found) = self.label(object);
                let (wrong, expected) = (Wrong::Object, self.layout.free_label(object, class));
                self.found(Damage { wrong, offset, expected, found })?;
            }
            object = self.layout.next_slot(object, class);
        }
        Ok(())
    }

    /// Returns the word that labels a slot, and its place.
    fn label(&mut self, object: u64) -> (u64, u64) {
        let offset = object.wrapping_add(self.layout.label());
        (offset, self.read(offset))
    }

    /// Counts a slot; returns whether its label is valid.
    fn slot(&mut self, object: u64, class: usize) -> bool {
        let (_, label) = self.label(object);
        if label == self.layout.free_label(object, class) {
            self.usage.slots_free += 1;
            self.free.set(object);
            return true;
        }
        let Some(bytes) = self.layout.live_bytes(label, object, class) else { return false };
        self.usage.objects += 1;
        self.usage.object_bytes += bytes;
        true
    }

    fn run(&mut self, chunk: u64, blocks: u64, prepared: u64) -> Result<(), Enough> {
        self.usage.runs += 1;
        self.usage.blocks += blocks;
        self.usage.blocks_prepared += prepared;
        if !self.layout.has_headers() {
            return Ok(());
        }
        for index in 0..prepared {
            let object = self.layout.block(chunk, index);
            self.expect(Wrong::Block, object - 8, block_header(object, Kind::Block))?;
        }
        if prepared == 0 {
            let object = self.layout.block(chunk, 0);
            self.expect(Wrong::Block, object - 8, block_header(object, Kind::Reserved))?;
        }
        Ok(())
    }

    /// Walks every free list. Each step clears a bit or ends its list, so all walks end.
    fn free_lists(&mut self) -> Result<(), Enough> {
        for index in 0..ARENAS {
            for class in 0..self.layout.classes() {
                let mut at = self.layout.arena(index) + 16 * class as u64;
                loop {
                    let object = self.read(at);
                    if object == 0 {
                        break;
                    }
                    let is_free = self.free.has(object)
                        && self.label(object).1 == self.layout.free_label(object, class);
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
                let (offset, found) = self.label(object);
                self.found(Damage { wrong: Wrong::Lost, offset, expected: 0, found })?;
            }
        }
        Ok(())
    }
}
