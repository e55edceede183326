//! The check of a whole heap: every byte must belong to exactly one object.
//!
//! One pass visits the runs in order, and each slab with its list of free slots. Walks of the
//! arenas' caches, of the bins and of the lists of partly used slabs follow. Each step of a walk
//! removes an entry from the set that the pass found, so every walk ends. The heap's size bounds
//! time and memory, whatever its content.
//!
//! After damage the pass continues where it can separate later damage from consequences of the
//! first, so that each finding is damage and none is an echo of another:
//! - After an impossible head, at the next intact one. The part between is *unknown*: arenas, bins
//!   and lists may lead there.
//! - A slab with an impossible state, or without a known owner, is known by its head only.
//! - A bin, list or cache ends where it leads to damage. Entries that none reaches are reported
//!   only when no walk of their kind ended so.

use std::collections::{BTreeMap, BTreeSet};

use words::PIECE_STRIDE;

use crate::Heap;
use crate::blocks::block_header;
use crate::classes::pieces;
use crate::head::{
    BadWord, HEAD_BEFORE, HEAD_BIN_NEXT, HEAD_BIN_PREVIOUS, HEAD_NEXT, HEAD_PREVIOUS, HEAD_STATE,
    Head, Run, class_in, own_header,
};
use crate::header::Kind;
use crate::layout::{
    BIN_MAP, BINS, FRONTIER, LINE_PAYLOAD, LINE_WORDS, LIST_PARTIAL, LIST_SPARSE, Layout,
    NEVER_USED, PAGES_PAYLOAD, ROOT_PROGRESS, VERSION,
};
use crate::pages::bin_of;
use crate::state::Status;
use crate::strings::{first_header, piece_header};
use crate::survey::{Damage, Survey, Usage, Wrong};

mod slots;

use slots::{Cached, Owned};

/// Ends the walk: it has found as much damage as it may, or cannot go on.
struct Enough;

impl Heap {
    /// Checks a heap in which no transaction runs, and counts its objects. `word` is called only
    /// for words inside the heap, by their offset in bytes. The walk is in address order, except
    /// for bins and lists.
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
        let usage = Usage { heap_bytes: self.bytes, ..Usage::default() };
        if !self.has_room() {
            let expected = (self.layout.own_units() + 1) * self.layout.unit_bytes();
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
            owned: BTreeMap::new(),
            ownerless: Vec::new(),
            lost_owners: 0,
            cached: Vec::new(),
            loose: BTreeMap::new(),
            wrong_slots: BTreeSet::new(),
            lists_cut: false,
            unread: BTreeMap::new(),
            free_runs: BTreeMap::new(),
            listed: BTreeMap::new(),
            unknown: BTreeMap::new(),
            hidden: false,
        };
        let complete = check.all().is_ok() && check.unknown.is_empty() && !check.hidden;
        Survey { usage: check.usage, damage: check.damage, complete }
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
    /// The arenas' slabs that the pass has not met yet, by their first units.
    owned: BTreeMap<u64, Owned>,
    /// Slabs that belong to an arena by their state, and to none by the arenas: the damage.
    ownerless: Vec<Damage>,
    /// Damage of arenas that lead to no slab: each may be the owner of one of those.
    lost_owners: usize,
    /// Caches of arenas.
    cached: Vec<Cached>,
    /// Class of each free slot that no list has reached yet, by object. Each must be in a cache.
    loose: BTreeMap<u64, usize>,
    /// Slots with a wrong label, by their objects.
    wrong_slots: BTreeSet<u64>,
    /// Whether a slab's list of free slots ended at damage.
    lists_cut: bool,
    /// Slabs whose slots the check skipped: first unit to end.
    unread: BTreeMap<u64, u64>,
    /// Free runs that no bin has reached yet: first unit to length.
    free_runs: BTreeMap<u64, u64>,
    /// Slabs that no list has reached yet: first unit to class and list.
    listed: BTreeMap<u64, (usize, Status)>,
    /// Parts between an impossible head and the next head: first unit to end.
    unknown: BTreeMap<u64, u64>,
    /// Damage may hide other damage.
    hidden: bool,
}

impl<F: FnMut(u64) -> u64> Check<F> {
    fn all(&mut self) -> Result<(), Enough> {
        let frontier = self.first_run()?;
        self.arenas(frontier)?;
        self.runs(frontier)?;
        self.caches()?;
        self.bins()?;
        self.lists()
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

    fn is_unknown(&self, unit: u64) -> bool {
        contains(&self.unknown, unit)
    }

    /// Checks the allocator's own objects in the first run; returns the frontier.
    fn first_run(&mut self) -> Result<u64, Enough> {
        let (layout, units) = (self.layout, self.heap.units());
        let (root, pages, owners) = (layout.root(), layout.pages(), layout.owners());
        let magic = self.expect(Wrong::Magic, root, layout.magic())?;
        let version = self.expect(Wrong::Version, root + 8, VERSION)?;
        let mut headers = true;
        for (object, payload) in layout.own_objects() {
            let own = own_header(object, payload);
            headers &= self.expect(Wrong::OwnHeader, object - 8, own)?;
        }
        if !version || (!magic && !headers) {
            return Err(Enough); // no heap, or another program's: no other word means anything
        }
        let map_end = BIN_MAP + 8 * BINS.div_ceil(64) as u64;
        let reserved = [
            root + ROOT_PROGRESS + 8..root + LINE_PAYLOAD,
            pages + map_end..pages + PAGES_PAYLOAD,
            owners + 8..owners + LINE_PAYLOAD,
        ];
        for offset in reserved.into_iter().flat_map(|words| words.step_by(8)) {
            self.expect(Wrong::Reserved, offset, 0)?;
        }
        let offset = pages + FRONTIER;
        let frontier = self.read(offset);
        if frontier < layout.own_units() || frontier > units {
            let (wrong, expected, found) = (Wrong::Frontier, units, frontier);
            self.found(Damage { wrong, offset, expected, found })?;
            return Err(Enough);
        }
        let (offset, used) = (pages + NEVER_USED, self.read(pages + NEVER_USED));
        if used < frontier || used > units {
            let (wrong, expected, found) = (Wrong::Frontier, frontier, used);
            self.found(Damage { wrong, offset, expected, found })?;
        }
        self.usage.add_free((units - frontier) * layout.unit_bytes());
        Ok(frontier)
    }

    /// Checks every run below the frontier.
    fn runs(&mut self, frontier: u64) -> Result<(), Enough> {
        let mut unit = 0;
        // The length of the free run before; `None` after an unknown part.
        let mut before = Some(0);
        while unit < frontier {
            let Some(head) = self.head(unit, frontier)? else {
                let end = self.next_head(unit + 1, frontier);
                self.unknown.insert(unit, end);
                (unit, before) = (end, None);
                continue;
            };
            let head_at = self.heap.head(unit);
            let is_free = matches!(head.kind, Run::Free { .. });
            match before {
                Some(length) if is_free && length != 0 => {
                    let (wrong, offset) = (Wrong::Unmerged, head_at);
                    self.found(Damage { wrong, offset, expected: 0, found: 3 })?;
                }
                Some(length) => {
                    self.expect(Wrong::Before, head_at + HEAD_BEFORE, length)?;
                }
                None => {}
            }
            self.run(unit, head)?;
            before = Some(if is_free { head.units } else { 0 });
            unit += head.units;
        }
        if before.is_some_and(|before| before != 0) {
            let (wrong, offset) = (Wrong::Unmerged, self.layout.pages() + FRONTIER);
            let expected = frontier - before.unwrap_or(0);
            self.found(Damage { wrong, offset, expected, found: frontier })?;
        }
        for (unit, owned) in std::mem::take(&mut self.owned) {
            if !self.is_unknown(unit) {
                let found = self.read(owned.at);
                self.lose_owner(owned.at, found)?;
            }
        }
        // An arena whose pair is damaged explains one slab without owner.
        let more = std::mem::take(&mut self.ownerless);
        more.into_iter().skip(self.lost_owners).try_for_each(|damage| self.found(damage))
    }

    fn run(&mut self, unit: u64, head: Head) -> Result<(), Enough> {
        match head.kind {
            Run::First => Ok(()),
            Run::Slab { class, state, .. } => self.slab(unit, head.units, class, state),
            Run::Array { blocks, prepared, .. } => {
                self.usage.add_array(head.units * self.layout.unit_bytes(), blocks, prepared);
                self.array(unit, prepared)
            }
            Run::String { bytes } => {
                self.usage.add_long_string(head.units * self.layout.unit_bytes());
                self.usage.object_bytes += bytes;
                let object = self.layout.offset(unit) + self.layout.first_object();
                if !self.layout.has_headers() {
                    return Ok(());
                }
                self.expect(Wrong::Object, object - 8, first_header(object, bytes))?;
                self.pieces(object, bytes)
            }
            Run::Free { .. } => {
                self.free_runs.insert(unit, head.units);
                self.usage.add_free(head.units * self.layout.unit_bytes());
                Ok(())
            }
            Run::Detached => {
                let (wrong, offset) = (Wrong::RunHead, self.heap.head(unit));
                self.found(Damage { wrong, offset, expected: 3, found: 6 })
            }
        }
    }

    /// Reads the head of a run; `None` when it is impossible.
    fn head(&mut self, unit: u64, frontier: u64) -> Result<Option<Head>, Enough> {
        let object = self.heap.head(unit);
        let (words, class) = self.head_words(unit);
        match Head::decode(self.layout, words, class, unit, frontier) {
            Ok(head) => {
                self.expect(Wrong::OwnHeader, object - 8, head.header(object))?;
                Ok(Some(head))
            }
            Err(BadWord { offset, expected }) => {
                let found = words[offset as usize / 8];
                let (wrong, offset) = match words[0] {
                    // The first word is that of a slab's head, and only the header differs.
                    1 if class.is_none() && unit != 0 => (Wrong::OwnHeader, object - 8),
                    _ => (Wrong::RunHead, object + offset),
                };
                let found = if wrong == Wrong::OwnHeader { self.read(offset) } else { found };
                self.found(Damage { wrong, offset, expected, found })?;
                Ok(None)
            }
        }
    }

    /// Returns the words of a head, and its class by its header.
    fn head_words(&mut self, unit: u64) -> ([u64; LINE_WORDS], Option<usize>) {
        let object = self.heap.head(unit);
        let class = class_in(self.read(object - 8), object);
        let words = std::array::from_fn(|i| self.read(object + 8 * i as u64));
        (words, class.filter(|&class| class < self.layout.classes()))
    }

    /// Returns the next unit with an intact head, header word included, or the frontier. Data in
    /// the units of a run pass for a head as rarely as for a header.
    fn next_head(&mut self, mut unit: u64, frontier: u64) -> u64 {
        while unit < frontier && self.heap.head_below(unit, frontier, &mut self.word).is_none() {
            unit += 1;
        }
        unit
    }

    /// Checks the headers of a string's later pieces.
    fn pieces(&mut self, object: u64, bytes: u64) -> Result<(), Enough> {
        for index in 1..pieces(bytes) {
            let piece = object + index * PIECE_STRIDE;
            self.expect(Wrong::Piece, piece - 8, piece_header(piece, index, bytes))?;
        }
        Ok(())
    }

    fn array(&mut self, unit: u64, prepared: u64) -> Result<(), Enough> {
        if !self.layout.has_headers() {
            return Ok(());
        }
        for index in 0..prepared {
            let object = self.layout.block(unit, index);
            self.expect(Wrong::Block, object - 8, block_header(object, Kind::Block, index))?;
        }
        if prepared == 0 {
            let object = self.layout.block(unit, 0);
            self.expect(Wrong::Block, object - 8, block_header(object, Kind::Reserved, 0))?;
        }
        Ok(())
    }

    /// Walks the bins of free runs.
    fn bins(&mut self) -> Result<(), Enough> {
        let mut complete = true;
        for bin in 0..BINS {
            let (object, offset) = self.layout.bin(bin);
            let first = self.read(object + offset);
            let map_at = self.layout.pages() + BIN_MAP + 8 * (bin / 64) as u64;
            let map = self.read(map_at);
            if (map >> (bin % 64) & 1 == 1) != (first != 0) {
                let (wrong, expected) = (Wrong::BinMap, map ^ 1 << (bin % 64));
                self.found(Damage { wrong, offset: map_at, expected, found: map })?;
            }
            let (mut at, mut previous) = (object + offset, 0);
            loop {
                let unit = self.read(at);
                if unit == 0 {
                    break;
                }
                let units = self.free_runs.get(&unit).copied();
                if units.is_none_or(|units| bin_of(units) != bin) {
                    complete = false;
                    if !self.is_unknown(unit) {
                        let (wrong, found) = (Wrong::Bin, unit);
                        self.found(Damage { wrong, offset: at, expected: 0, found })?;
                    }
                    break;
                }
                self.free_runs.remove(&unit);
                let head = self.heap.head(unit);
                if !self.is_unknown(previous) {
                    self.expect(Wrong::Bin, head + HEAD_BIN_PREVIOUS, previous)?;
                }
                (at, previous) = (head + HEAD_BIN_NEXT, unit);
            }
        }
        self.hidden |= !complete;
        for unit in std::mem::take(&mut self.free_runs).into_keys() {
            if complete && self.unknown.is_empty() {
                let (wrong, offset) = (Wrong::LostRun, self.heap.head(unit));
                self.found(Damage { wrong, offset, expected: 0, found: 3 })?;
            }
        }
        Ok(())
    }

    /// Walks the lists of partly used slabs.
    fn lists(&mut self) -> Result<(), Enough> {
        let mut complete = true;
        for class in 0..self.layout.classes() {
            let object = self.layout.list(class);
            let reserved = object + LIST_SPARSE + 8..object + LINE_PAYLOAD;
            for offset in reserved.step_by(8) {
                self.expect(Wrong::Reserved, offset, 0)?;
            }
            complete &= self.list(object + LIST_PARTIAL, (class, Status::Partial))?;
            complete &= self.list(object + LIST_SPARSE, (class, Status::Sparse))?;
        }
        self.hidden |= !complete;
        for unit in std::mem::take(&mut self.listed).into_keys() {
            if complete && self.unknown.is_empty() {
                let (wrong, offset) = (Wrong::LostSlab, self.heap.head(unit) + HEAD_STATE);
                let found = self.read(offset);
                self.found(Damage { wrong, offset, expected: 0, found })?;
            }
        }
        Ok(())
    }

    /// Walks one list; returns false when it ended at damage.
    fn list(&mut self, list: u64, kind: (usize, Status)) -> Result<bool, Enough> {
        let (mut at, mut previous) = (list, 0);
        loop {
            let unit = self.read(at);
            if unit == 0 {
                return Ok(true);
            }
            if self.listed.get(&unit) != Some(&kind) {
                if !self.is_unknown(unit) {
                    let (wrong, found) = (Wrong::SlabList, unit);
                    self.found(Damage { wrong, offset: at, expected: 0, found })?;
                }
                return Ok(false);
            }
            self.listed.remove(&unit);
            let head = self.heap.head(unit);
            self.expect(Wrong::SlabList, head + HEAD_PREVIOUS, previous)?;
            (at, previous) = (head + HEAD_NEXT, unit);
        }
    }
}

/// Returns whether one of the ranges, first unit to end, contains the unit.
fn contains(ranges: &BTreeMap<u64, u64>, unit: u64) -> bool {
    ranges.range(..=unit).next_back().is_some_and(|(_, &end)| unit < end)
}
