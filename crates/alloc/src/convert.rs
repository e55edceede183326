//! The conversion of a heap of format 1: every object keeps its place, and only the allocator's own
//! words and the headers change.
//!
//! Format 1 had chunks of 64 KiB. Slabs had one chunk and 15 size classes, all of which exist in
//! format 2. Arrays and free runs had whole chunks. The first chunk held 128 arenas with free
//! lists. A chunk is 64 units, so a slab or an array starts where one of format 2 may start. An
//! array keeps the units that its blocks need, and the rest becomes free.

use system::mutants::{Mutant, injected};
use words::{BLOCK_BYTES, OBJECT_BYTES_MAX};

use crate::blocks::block_header;
use crate::classes::SLOT_BYTES;
use crate::head::{Head, Run, own_header};
use crate::header::Kind;
use crate::layout::{
    BIN_MAP, CHUNK_BYTES, FRONTIER, LIST_PARTIAL, LIST_SPARSE, Layout, NEVER_USED, ROOT_USER,
    VERSION,
};
use crate::pages::bin_of;
use crate::slabs::list_of;
use crate::state::{State, Status};
use crate::{Damage, Heap, Wrong};

const LAYOUT: Layout = Layout::Ordinary;
const UNITS: u64 = CHUNK_BYTES / 1024;

/// Slot size of each class of format 1.
const CLASSES_1: [u64; 15] =
    [32, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512, 640, 768, 1040];
/// Places in the first chunk of format 1.
const ARENAS_1: u64 = 128;
const ROOT_1: u64 = 80;
const FRONTIER_1: u64 = 144;
const ARENA_1: u64 = 272;

/// A run of the new heap: its first unit, its length, and its kind.
type NewRun = (u64, u64, Run);

impl Heap {
    /// Returns whether the words are those of a heap of format 1. `word` returns the word at a heap
    /// offset.
    pub fn is_format_1(word: impl Fn(u64) -> u64) -> bool {
        word(ROOT_1) == LAYOUT.magic() && word(ROOT_1 + 8) == 1
    }

    /// Converts the words of a heap of format 1 in which no transaction runs.
    ///
    /// # Errors
    /// Damage of the heap of format 1. The words are then partly converted: work on a copy.
    pub fn convert_format_1(&self, words: &mut [u64]) -> Result<(), Damage> {
        let mut old = Old { words };
        old.expect(Wrong::Magic, ROOT_1, LAYOUT.magic())?;
        old.expect(Wrong::Version, ROOT_1 + 8, 1)?;
        let chunks = self.bytes / CHUNK_BYTES;
        let frontier = old.word(FRONTIER_1);
        if frontier == 0 || frontier > chunks || 8 * old.words.len() as u64 != self.bytes {
            return Err(old.damage(Wrong::Frontier, FRONTIER_1, chunks));
        }
        let root = old.word(ROOT_1 + ROOT_USER);
        let cursors = old.cursors();
        let mut runs: Vec<NewRun> = Vec::new();
        let mut chunk = 1;
        while chunk < frontier {
            chunk += old.run(chunk, frontier, &cursors, &mut runs)?;
        }
        self.write_runs(words, runs, frontier * UNITS, root);
        Ok(())
    }

    /// Writes the first run and all heads.
    fn write_runs(&self, words: &mut [u64], runs: Vec<NewRun>, used: u64, root: u64) {
        words[..(CHUNK_BYTES / 8) as usize].fill(0);
        let mut put = |at: u64, word: u64| words[(at / 8) as usize] = word;
        for (object, payload) in LAYOUT.own_objects() {
            put(object - 8, own_header(object, payload));
        }
        put(LAYOUT.root(), LAYOUT.magic());
        put(LAYOUT.root() + 8, VERSION);
        put(LAYOUT.root() + ROOT_USER, root);

        let mut merged: Vec<NewRun> = vec![(0, LAYOUT.own_units(), Run::First)];
        for run in runs {
            match (merged.last_mut(), run) {
                (Some((_, units, Run::Free { .. })), (_, more, Run::Free { .. })) => *units += more,
                _ => merged.push(run),
            }
        }
        // No free run touches the frontier.
        let free_end = merged.pop_if(|(_, _, kind)| matches!(kind, Run::Free { .. }));
        put(LAYOUT.pages() + FRONTIER, free_end.map_or(used, |(unit, _, _)| unit));
        put(LAYOUT.pages() + NEVER_USED, used);

        let mut firsts = std::collections::BTreeMap::new();
        let mut before = 0;
        // From the last run on, each becomes the first of its list.
        let lists: Vec<Option<u64>> =
            merged.iter().map(|&(_, units, kind)| list(units, kind)).collect();
        let mut previous = vec![0; merged.len()];
        let mut next = vec![0; merged.len()];
        for (at, list) in lists.iter().enumerate().rev() {
            let Some(list) = list else { continue };
            if let Some(first) = firsts.insert(*list, at) {
                (next[at], previous[first]) = (merged[first].0, merged[at].0);
            }
        }
        for (&list, &at) in &firsts {
            put(list, merged[at].0);
        }
        for (at, &(unit, units, kind)) in merged.iter().enumerate() {
            let kind = kind.linked(next[at], previous[at]);
            let free = matches!(kind, Run::Free { .. });
            let head = Head { units, before, kind };
            before = if free { units } else { 0 };
            let object = self.head(unit);
            put(object - 16, 0);
            put(object - 8, head.header(object));
            for (word, value) in head.encode().into_iter().enumerate() {
                put(object + 8 * word as u64, value);
            }
        }
        for &(_, units, kind) in &merged {
            if matches!(kind, Run::Free { .. }) {
                let bin = bin_of(units);
                let map = (LAYOUT.pages() + BIN_MAP) / 8 + bin as u64 / 64;
                words[map as usize] |= 1 << (bin % 64);
            }
        }
    }
}

/// Returns the place of the word that begins the list of runs of this kind.
fn list(units: u64, kind: Run) -> Option<u64> {
    match kind {
        Run::Free { .. } => {
            let (object, offset) = LAYOUT.bin(bin_of(units));
            Some(object + offset)
        }
        Run::Slab { class, state, .. } => match state.status {
            Status::Partial => Some(LAYOUT.list(class) + LIST_PARTIAL),
            Status::Sparse => Some(LAYOUT.list(class) + LIST_SPARSE),
            Status::Full | Status::Owned => None,
        },
        _ => None,
    }
}

/// The words of a heap of format 1, of which chunk after chunk is converted.
struct Old<'w> {
    words: &'w mut [u64],
}

impl Old<'_> {
    fn word(&self, offset: u64) -> u64 {
        self.words.get((offset / 8) as usize).copied().unwrap_or(0)
    }

    fn put(&mut self, offset: u64, word: u64) {
        self.words[(offset / 8) as usize] = word;
    }

    fn damage(&self, wrong: Wrong, offset: u64, expected: u64) -> Damage {
        Damage { wrong, offset, expected, found: self.word(offset) }
    }

    fn expect(&self, wrong: Wrong, offset: u64, expected: u64) -> Result<(), Damage> {
        if self.word(offset) == expected {
            Ok(())
        } else {
            Err(self.damage(wrong, offset, expected))
        }
    }

    /// Returns the arenas' cursors: the first slot of a slab that was never used.
    fn cursors(&self) -> Vec<u64> {
        let pairs = (0..ARENAS_1).flat_map(|arena| (0..15_u64).map(move |class| (arena, class)));
        let cursor = |(arena, class)| self.word(ARENA_1 + 256 * arena + 16 * class + 8);
        pairs.map(cursor).filter(|&cursor| cursor != 0).collect()
    }

    /// Converts the run that starts with this chunk; returns its length in chunks.
    fn run(
        &mut self,
        chunk: u64,
        frontier: u64,
        cursors: &[u64],
        runs: &mut Vec<NewRun>,
    ) -> Result<u64, Damage> {
        let (begin, unit) = (chunk * CHUNK_BYTES, chunk * UNITS);
        let [kind, chunks, third, fourth, fifth] =
            [16, 24, 32, 40, 48].map(|offset| self.word(begin + offset));
        if chunks == 0 || chunks > frontier - chunk {
            return Err(self.damage(Wrong::RunHead, begin + 24, frontier - chunk));
        }
        match kind {
            1 => {
                let slab = self.slab(chunk, third, cursors)?;
                runs.push((unit, UNITS, slab));
            }
            2 => {
                let units = LAYOUT.units_for_blocks(third);
                let units = units.filter(|&units| third != 0 && units <= chunks * UNITS);
                let Some(units) = units else {
                    return Err(self.damage(Wrong::RunHead, begin + 32, 1));
                };
                if fourth > third {
                    return Err(self.damage(Wrong::RunHead, begin + 40, third));
                }
                self.blocks(unit, fourth)?;
                // A block's memory was never used, but that of the rest may have been.
                let array = Run::Array { blocks: third, prepared: fourth, fresh: fifth == 1 };
                runs.push((unit, units, array));
                if units != chunks * UNITS {
                    runs.push((unit + units, chunks * UNITS - units, Run::NO_LINKS));
                }
            }
            3 => runs.push((unit, chunks * UNITS, Run::NO_LINKS)),
            _ => return Err(self.damage(Wrong::RunHead, begin + 16, 3)),
        }
        Ok(chunks)
    }

    /// Converts the headers of a slab's slots; returns the slab.
    fn slab(&mut self, chunk: u64, class: u64, cursors: &[u64]) -> Result<Run, Damage> {
        let begin = chunk * CHUNK_BYTES;
        let slot_bytes = CLASSES_1.get(class as usize).copied();
        let class = slot_bytes.and_then(|bytes| SLOT_BYTES.iter().position(|&slot| slot == bytes));
        let (Some(slot_bytes), Some(class)) = (slot_bytes, class) else {
            return Err(self.damage(Wrong::RunHead, begin + 32, 0));
        };
        let (unit, slots) = (chunk * UNITS, LAYOUT.slots(UNITS, class));
        let cursor = cursors.iter().find(|&&cursor| cursor / CHUNK_BYTES == chunk);
        let carved = match cursor {
            None => slots,
            Some(cursor) => {
                (cursor % CHUNK_BYTES).saturating_sub(LAYOUT.first_object()) / slot_bytes
            }
        };
        let carved = carved.min(slots);
        let (mut first, mut link, mut count) = (0, 0, 0);
        for number in (0..carved).rev() {
            let object = LAYOUT.slot(unit, class, number);
            if slot_bytes == 1040 && injected(Mutant::ClassNotConverted) {
                continue;
            }
            match decode_1(self.word(object - 8), object) {
                Some((1, _)) => {
                    self.put(object - 8, LAYOUT.free_label(object, class, number));
                    self.put(object, link);
                    (first, link, count) = (number + 1, object, count + 1);
                }
                Some((8, bytes)) if (1..=OBJECT_BYTES_MAX as u64).contains(&bytes) => {
                    let label = LAYOUT.live_label(object, class, number, bytes as usize);
                    self.put(object - 8, label);
                }
                _ => return Err(self.damage(Wrong::Object, object - 8, 0)),
            }
            self.put(object - 16, 0);
        }
        if count == carved {
            return Ok(Run::NO_LINKS);
        }
        let free = slots - carved + count;
        let status = if free == 0 { Status::Full } else { list_of(free, slots) };
        let state = State { first, carved, count, status };
        Ok(Run::Slab { class, state, next: 0, previous: 0 })
    }

    /// Converts the headers of an array's blocks.
    fn blocks(&mut self, unit: u64, prepared: u64) -> Result<(), Damage> {
        for index in 0..prepared.max(1) {
            let object = LAYOUT.block(unit, index);
            let (kind, old) = if prepared == 0 { (Kind::Reserved, 2) } else { (Kind::Block, 9) };
            if decode_1(self.word(object - 8), object) != Some((old, BLOCK_BYTES)) {
                return Err(self.damage(Wrong::Block, object - 8, 0));
            }
            self.put(object - 8, block_header(object, kind, index));
            self.put(object - 16, 0);
        }
        Ok(())
    }
}

/// Decodes a header of format 1: its kind, and its size in bytes.
fn decode_1(header: u64, object: u64) -> Option<(u64, u64)> {
    let description = header & 0xf_ffff;
    let check = (object << 16 ^ description).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
    let valid = header == check << 48 | description;
    valid.then_some((description >> 12 & 0xf, description & 0xfff))
}

impl Run {
    /// Returns the run with its neighbors in its list.
    fn linked(self, next: u64, previous: u64) -> Run {
        match self {
            Run::Slab { class, state, .. } => Run::Slab { class, state, next, previous },
            Run::Free { .. } => Run::Free { next, previous },
            other => other,
        }
    }
}
