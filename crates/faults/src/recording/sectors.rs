//! File of a recorded machine: the possible contents of its sectors after a crash.
//!
//! ```text
//!   sector    | durable content | written since | written since | ...     the last is the current
//!   sync      the last becomes the durable one                                               (A5)
//!   failed    all of them stay possible, until it is written again and synced                (A8)
//!   crash     one of them, chosen when the sector is read                                (A5, A6)
//! ```
//!
//! Invariants:
//! - A sector without an entry certainly holds the page's bytes.
//! - `versions` has no two equal neighbours, and its last equals the page, unless `lost`.
//! - After a crash every entry is `lost`: its page is not read before one version is chosen.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;

use super::machine::{Ask, Machine, distinct};
use crate::sync::Arc;

/// Unit that is written whole or not at all (A5).
pub(super) const SECTOR_BYTES: u64 = 512;
pub(super) const PAGE_BYTES: u64 = 4096;

type Page = [u8; PAGE_BYTES as usize];
pub(super) type Content = [u8; SECTOR_BYTES as usize];

static ZEROS: Page = [0; PAGE_BYTES as usize];

/// Sector with more than one possible content.
#[derive(Clone, Debug, Default)]
struct Sector {
    versions: Vec<Content>,
    /// The next sync makes the last version durable. Not so after a sync that failed: the kernel
    /// takes the page for clean (A8).
    dirty: bool,
    /// The power failed, and one of the versions survived.
    lost: bool,
    /// When it was written last.
    written: u64,
    /// Durable writes of it in flight, by tests that distinguish a torn write from a whole one.
    in_flight: u32,
    /// Several of them at the same time: which one is the last is not known (A6).
    raced: bool,
    /// Its process ended meanwhile: no read has chosen one of the versions yet.
    unseen: bool,
}

/// Private mapping of a part: writes to the file appear in it, where the mapping itself was not
/// written.
#[derive(Clone, Debug)]
struct Mirror {
    offset: u64,
    bytes: u64,
    memory: Arc<File>,
}

/// A file, its name apart.
#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    number: usize,
    /// The lengths that a crash may leave, the oldest first (A10); the last is the current one.
    lengths: Vec<u64>,
    /// The next sync makes the last length durable; not so after a failed sync (A8).
    grown: bool,
    pages: Vec<Option<Arc<Page>>>,
    sectors: BTreeMap<u64, Sector>,
    mirrors: Vec<Mirror>,
    /// Holders of the lock: handles, and whether each is exclusive.
    locks: Vec<(u64, bool)>,
}

impl Inode {
    pub(super) fn numbered(number: usize) -> Inode {
        Inode { number, lengths: vec![0], ..Inode::default() }
    }

    pub(super) fn is_settled(&self) -> bool {
        self.lengths.len() == 1 && self.sectors.is_empty()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.lengths.last().copied().unwrap_or(0)
    }

    pub(super) fn lock(&mut self, handle: u64, exclusive: bool) -> Result<(), Errno> {
        let in_the_way = |(other, alone): &(u64, bool)| *other != handle && (exclusive || *alone);
        if self.locks.iter().any(in_the_way) {
            return Err(Errno::WOULDBLOCK);
        }
        self.unlock(handle);
        self.locks.push((handle, exclusive));
        Ok(())
    }

    pub(super) fn unlock(&mut self, handle: u64) {
        self.locks.retain(|(other, _)| *other != handle);
    }

    /// The process that has it open ends.
    pub(super) fn exit(&mut self) {
        self.locks.clear();
        self.mirrors.clear();
        for sector in self.sectors.values_mut() {
            // A write in flight is carried out, or in part, or not at all (A6).
            sector.unseen |= std::mem::take(&mut sector.in_flight) > 0;
            sector.raced = false;
        }
    }

    /// Reserves: the length, and zeros.
    pub(super) fn allocate(&mut self, bytes: u64) {
        if bytes > self.bytes() {
            self.lengths.push(bytes);
            self.grown = true;
            self.pages.resize(bytes.div_ceil(PAGE_BYTES) as usize, None);
        }
    }

    fn page(&self, at: u64) -> &Page {
        self.pages
            .get((at / PAGE_BYTES) as usize)
            .and_then(|page| page.as_deref())
            .unwrap_or(&ZEROS)
    }

    /// Returns the current bytes at `at`, up to the page's end.
    fn piece(&self, at: u64, bytes: usize) -> &[u8] {
        let first = (at % PAGE_BYTES) as usize;
        &self.page(at)[first..(first + bytes).min(PAGE_BYTES as usize)]
    }

    /// Returns the page's bytes at `at`, certain or not.
    pub(super) fn peek(&self, at: u64, bytes: usize) -> &[u8] {
        &self.piece(at, bytes)[..bytes]
    }

    /// Changes bytes inside a page, and in mappings of them.
    pub(super) fn poke(&mut self, at: u64, bytes: &[u8]) {
        if self.peek(at, bytes.len()) == bytes {
            return; // a page of zeros needs no memory
        }
        let page = self.pages[(at / PAGE_BYTES) as usize].get_or_insert_with(|| Arc::new(ZEROS));
        let first = (at % PAGE_BYTES) as usize;
        Arc::make_mut(page)[first..first + bytes.len()].copy_from_slice(bytes);
        for mirror in &self.mirrors {
            if at >= mirror.offset && at + bytes.len() as u64 <= mirror.offset + mirror.bytes {
                let written = mirror.memory.write_all_at(bytes, at - mirror.offset);
                written.expect("the mapped range has memory");
            }
        }
    }

    /// Makes a word that was stored through a mapping durable, independent of writes around it.
    pub(super) fn overlay(&mut self, at: u64, word: u64) {
        let first = (at % SECTOR_BYTES) as usize;
        if let Some(sector) = self.sectors.get_mut(&(at / SECTOR_BYTES)) {
            for version in &mut sector.versions {
                version[first..first + 8].copy_from_slice(&word.to_le_bytes());
            }
        }
    }

    fn content(&self, sector: u64) -> Content {
        let content = self.piece(sector * SECTOR_BYTES, SECTOR_BYTES as usize);
        content.try_into().expect("sectors do not cross pages")
    }

    /// Decides the contents of a range: lost contents for good, and writes in flight at the end of
    /// a process for the current boot.
    pub(super) fn decide(&mut self, machine: &mut Machine, range: Range<u64>) {
        let sectors = range.start / SECTOR_BYTES..range.end.div_ceil(SECTOR_BYTES);
        while let Some((&sector, _)) =
            self.sectors.range(sectors.clone()).find(|(_, sector)| sector.lost || sector.unseen)
        {
            let mut entry = self.sectors.remove(&sector).expect("it was found");
            let before = entry.versions[0];
            let mut contents = distinct(entry.versions.iter().copied());
            let chosen = machine.choose_about(Ask::Content, contents.len(), entry.written);
            let kept = contents.remove(chosen);
            machine.trace(|say| {
                let (at, number) = (sector * SECTOR_BYTES, self.number);
                say(format_args!("file {number}, sector at {at}: version {chosen} was there"));
            });
            if entry.lost {
                machine.digested((self.number, sector), before, kept);
            } else {
                // The chosen version is the current one, and no more durable than before (A11).
                // Later versions were not carried out, and never will be.
                let last = entry.versions.iter().rposition(|version| *version == kept);
                entry.versions.truncate(1 + last.expect("it was one of them"));
                entry.unseen = false;
                if entry.versions.len() > 1 {
                    self.sectors.insert(sector, entry);
                }
            }
            self.poke(sector * SECTOR_BYTES, &kept);
        }
    }

    /// Reads; returns the number of bytes.
    pub(super) fn read(&mut self, machine: &mut Machine, at: u64, out: &mut [u8]) -> usize {
        let bytes = self.bytes().saturating_sub(at).min(out.len() as u64) as usize;
        let (mut at, end) = (at, at + bytes as u64);
        self.decide(machine, at..end);
        machine.decide_lines(self, at..end);
        for out in pieces(&mut out[..bytes], at) {
            out.copy_from_slice(self.peek(at, out.len()));
            at += out.len() as u64;
        }
        bytes
    }

    /// Writes to the page cache, or past it. Not durable yet, though it may be in flight to disk.
    /// Makes the file longer.
    pub(super) fn write(
        &mut self,
        machine: &mut Machine,
        at: u64,
        mut bytes: &[u8],
        durable: bool,
    ) {
        self.allocate(at + bytes.len() as u64);
        machine.decide_lines(self, at..at + bytes.len() as u64);
        let mut at = at;
        while !bytes.is_empty() {
            let room = (SECTOR_BYTES - at % SECTOR_BYTES) as usize;
            let (these, rest) = bytes.split_at(room.min(bytes.len()));
            self.write_sector(machine, at, these, durable);
            (at, bytes) = (at + these.len() as u64, rest);
        }
        machine.changed();
    }

    fn write_sector(&mut self, machine: &mut Machine, at: u64, bytes: &[u8], durable: bool) {
        let sector = at / SECTOR_BYTES;
        let whole = bytes.len() as u64 == SECTOR_BYTES;
        if !whole {
            self.decide(machine, at..at + 1);
        }
        if !self.sectors.contains_key(&sector) {
            // A crash leaves the same bytes either way, except where it leaves garbage (A7).
            let garbage = durable && machine.model.garbage;
            if self.peek(at, bytes.len()) == bytes && !garbage {
                return;
            }
            let versions = vec![self.content(sector)];
            self.sectors.insert(sector, Sector { versions, ..Sector::default() });
        }
        self.poke(at, bytes);
        let content = self.content(sector);
        let entry = self.sectors.get_mut(&sector).expect("it is there");
        (entry.dirty, entry.lost, entry.written) = (true, false, machine.tick());
        entry.unseen = false;
        if durable {
            entry.raced |= entry.in_flight > 0;
            entry.in_flight += 1;
        }
        if entry.versions.last() != Some(&content) {
            entry.versions.push(content);
        }
    }

    /// Completes a durable write of this range.
    pub(super) fn land(&mut self, range: Range<u64>) {
        let sectors = range.start / SECTOR_BYTES..range.end.div_ceil(SECTOR_BYTES);
        for (_, entry) in self.sectors.range_mut(sectors) {
            entry.in_flight = entry.in_flight.saturating_sub(1);
            if entry.in_flight == 0 && std::mem::take(&mut entry.raced) {
                entry.dirty = false; // any of them may have been the last
            }
        }
    }

    /// Makes completed writes to this range durable, with the file length that they need.
    pub(super) fn settle(&mut self, machine: &mut Machine, range: Range<u64>) {
        let sectors = range.start / SECTOR_BYTES..range.end.div_ceil(SECTOR_BYTES);
        let durable =
            |entry: &Sector| entry.dirty && !entry.lost && !entry.unseen && entry.in_flight == 0;
        let settled: Vec<u64> = self
            .sectors
            .range(sectors)
            .filter(|(_, entry)| durable(entry))
            .map(|(sector, _)| *sector)
            .collect();
        for sector in settled {
            let entry = self.sectors.remove(&sector).expect("it was found");
            let last = *entry.versions.last().expect("an entry has a version");
            machine.digested((self.number, sector), entry.versions[0], last);
        }
        if self.grown {
            let needed = range.end.min(self.bytes());
            self.lengths.retain(|bytes| *bytes >= needed);
            self.grown = self.lengths.len() > 1;
        }
    }

    /// Decides writes in flight at the end of a process, for a sync, which comes after all of them.
    pub(super) fn see(&mut self, machine: &mut Machine) {
        let unseen = self.sectors.iter().filter(|(_, sector)| sector.unseen && !sector.lost);
        let unseen: Vec<u64> = unseen.map(|(sector, _)| *sector).collect();
        for sector in unseen {
            let at = sector * SECTOR_BYTES;
            self.decide(machine, at..at + SECTOR_BYTES);
        }
    }

    /// Fails a sync of this range: its writes are durable or not, for good (A8).
    pub(super) fn fail_sync(&mut self, range: Range<u64>) {
        let sectors = range.start / SECTOR_BYTES..range.end.div_ceil(SECTOR_BYTES);
        for (_, sector) in self.sectors.range_mut(sectors) {
            sector.dirty = false;
        }
        self.grown = false;
    }

    /// Drops the pages that the page cache treats as clean; reads then return the disk's bytes.
    pub(super) fn forget(&mut self, machine: &mut Machine) {
        for sector in self.sectors.values_mut() {
            sector.lost |= !sector.dirty;
        }
        self.decide(machine, 0..u64::MAX);
    }

    /// The power goes.
    pub(super) fn crash(&mut self, machine: &mut Machine) {
        for sector in self.sectors.values_mut() {
            if machine.model.garbage && sector.in_flight > 0 && !sector.lost {
                let last = *sector.versions.last().expect("an entry has a version");
                sector.versions.push(last.map(|byte| byte ^ 0xa5)); // A7
            }
            (sector.lost, sector.dirty) = (true, false);
        }
        self.exit();
        let chosen = machine.choose(Ask::Content, self.lengths.len());
        self.lengths = vec![self.lengths.get(chosen).copied().unwrap_or(0)];
        self.grown = false;
        self.pages.truncate(self.bytes().div_ceil(PAGE_BYTES) as usize);
        let end = self.bytes().div_ceil(SECTOR_BYTES);
        self.sectors.retain(|sector, _| *sector < end);
    }

    /// The next page from `at` on that may be other than zero, or the next that is not.
    pub(super) fn next_page(&self, at: u64, data: bool) -> Option<u64> {
        let first = at / PAGE_BYTES;
        let has_data = |page: u64| {
            let sectors =
                page * (PAGE_BYTES / SECTOR_BYTES)..(page + 1) * (PAGE_BYTES / SECTOR_BYTES);
            self.pages[page as usize].is_some() || self.sectors.range(sectors).next().is_some()
        };
        let page = (first..self.pages.len() as u64).find(|&page| has_data(page) == data)?;
        Some(at.max(page * PAGE_BYTES))
    }

    /// A file of the kernel's with the content of a part, kept equal to it until the power goes.
    pub(super) fn mirror(
        &mut self,
        machine: &mut Machine,
        offset: u64,
        bytes: u64,
    ) -> Result<Arc<File>, Errno> {
        // A mapping may be longer than the file, which may grow.
        let end = self.bytes().max(offset).min(offset + bytes);
        self.decide(machine, offset..end);
        machine.decide_lines(self, offset..end);
        let memory = rustix::fs::memfd_create("recorded", rustix::fs::MemfdFlags::CLOEXEC)?;
        let memory = system::above_standard(memory)?;
        rustix::fs::ftruncate(&memory, bytes)?;
        let memory = Arc::new(File::from(memory));
        for at in (offset..end).step_by(PAGE_BYTES as usize) {
            if self.pages[(at / PAGE_BYTES) as usize].is_some() {
                let page = self.peek(at, PAGE_BYTES as usize);
                memory.write_all_at(page, at - offset).map_err(|_| Errno::NOMEM)?;
            }
        }
        self.mirrors.push(Mirror { offset, bytes, memory: Arc::clone(&memory) });
        Ok(memory)
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }
}

/// Bytes from `at` on, cut at the ends of pages.
fn pieces(mut bytes: &mut [u8], mut at: u64) -> impl Iterator<Item = &mut [u8]> {
    std::iter::from_fn(move || {
        let rest = std::mem::take(&mut bytes);
        if rest.is_empty() {
            return None;
        }
        let room = ((PAGE_BYTES - at % PAGE_BYTES) as usize).min(rest.len());
        let (piece, rest) = rest.split_at_mut(room);
        (bytes, at) = (rest, at + room as u64);
        Some(piece)
    })
}
