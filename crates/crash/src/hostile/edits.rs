//! Damage anywhere in a pool's files: no wrong answer.
//!
//! Pools of all designs, on files and mapped, closed and abandoned, get one edit each: as a disk
//! makes them that flips a bit, loses or misplaces a write, or returns garbage. Then:
//!
//! - The pool opens if and only if a check says so.
//! - A pool that opens has the content after the last acknowledged transaction. Only a damaged end
//!   of the log of a pool on files that was not closed can look as after a crash before the last
//!   transaction. The pool then has the content after the transaction before. A mapped log has
//!   witnesses of its end.
//! - On files each slot has such an end. If two workers had committed, the last transaction of one
//!   may be missing while a later one of the other is there.
//! - A pool that was not closed was in a transaction, of which no opening shows anything.
//! - The refusal of a pool changes no byte of its files, and a finding names the damage. A salvage
//!   shows nothing else than acknowledged values, and under `undo` with a damaged log those of
//!   unfinished transactions.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};

use lastword::{Addr, AnyDesign, AnyPool, CheckOptions, Error, HeapAtRest, Medium, Options};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::pool_files::{Contents, PoolFiles};
use crate::designs;

/// Objects, each of so many words with one value.
const OBJECTS: u64 = 60;
const WORDS: u64 = 12;
/// Transactions after the objects exist. Transaction n gives object n % `OBJECTS` the value n.
const TRANSACTIONS: u64 = 150;
/// Of them, those of the last process.
const LAST_PROCESS: u64 = 40;
/// The log of a mapped pool.
const LOG_OFFSET: usize = 2 << 20;
const LOG_BYTES: usize = 256 << 10;
const HEAP_BYTES: usize = 256 << 10;
/// The checksum table lies behind the superblocks.
const TABLE_OFFSET: usize = 8192;
const SECTOR: usize = 512;
const PAGE: usize = 4096;

/// Counts of outcomes.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Pools with all acknowledged transactions.
    pub whole: u64,
    /// Pools with fewer, of edits in a log that recovery reads, with a finding.
    pub shorter: u64,
    /// The same without a finding: what is left of the log could be that of a crash before the
    /// last transactions.
    pub unnamed: u64,
    /// The same without a finding, by two workers on files: the last transaction of one is missing,
    /// and a later one of the other is there.
    pub apart: u64,
    /// Edits of pages that no checksum protects, which are not made. On mapped media: pages that
    /// changed since the last checkpoint. On files: after a crash, pages that recovery writes to.
    pub uncovered: u64,
    /// Refused pools, by the worst of their findings.
    pub refused: BTreeMap<&'static str, u64>,
    /// Whole objects that salvages of refused pools have shown.
    pub salvaged: u64,
}

/// A pool to begin with.
struct Sound {
    design: &'static AnyDesign,
    is_closed: bool,
    is_mapped: bool,
    /// Workers of the last process. Each has a slot of the log.
    workers: usize,
    /// The place of the log in the pool's file, if it is there.
    log: Range<usize>,
    /// Both files: at the end, and some transactions earlier.
    late: Contents,
    early: Contents,
    /// Pages of the heap that no checksum protects, as offsets in the pool's file.
    uncovered: BTreeSet<usize>,
}

struct Place {
    files: PoolFiles,
    sound: Vec<Sound>,
}

fn options() -> Options {
    let options = Options::new().bytes(HEAP_BYTES as u64).log_bytes(LOG_BYTES as u64);
    let options = options.ring_entries(1 << 10);
    options.background(false)
}

impl Place {
    fn new() -> Place {
        let mut place = Place { files: PoolFiles::new(), sound: Vec::new() };
        let emulated = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
        for design in designs::all().filter(|design| design.type_name == design.name) {
            let file = Medium::File;
            for kind in [(file, 1), (file, 2), (emulated, 2), (Medium::PersistentCache, 2)] {
                for is_closed in [false, true] {
                    let sound = place.make(design, kind, is_closed);
                    place.sound.push(sound);
                }
            }
        }
        place
    }

    /// Returns the used pages of the heap in which a flipped bit has no finding: after a crash, and
    /// never many.
    fn uncovered(&self, sound: &Contents, is_closed: bool) -> BTreeSet<usize> {
        let (mut files, mut uncovered, mut used) = (sound.clone(), BTreeSet::new(), 0);
        let bytes = sound[0].as_ref().expect("a pool has a file");
        for at in (bytes.len() - HEAP_BYTES..bytes.len()).step_by(PAGE) {
            if bytes[at..at + PAGE].iter().all(|byte| *byte == 0) {
                continue;
            }
            used += 1;
            // The last word of a page is no head or header that a check would find.
            files[0].as_mut().expect("the same files")[at + PAGE - 9] ^= 4;
            self.files.write(&files);
            files[0].as_mut().expect("the same files")[at + PAGE - 9] ^= 4;
            let report = lastword::check(&self.files.paths()[0]).expect("a pool can be checked");
            if report.findings.iter().all(|one| one.problem.name() != "damaged_pages") {
                uncovered.insert(at);
            }
        }
        let most = if is_closed { 0 } else { used / 2 };
        assert!(uncovered.len() <= most, "{} of {used} pages are not protected", uncovered.len());
        uncovered
    }

    fn make(
        &self,
        design: &'static AnyDesign,
        (medium, workers): (Medium, usize),
        is_closed: bool,
    ) -> Sound {
        let works = "a small pool can be made and filled";
        self.files.write(&[None, None]);
        let path = &self.files.paths()[0];
        let pool = design.create(path, options().medium(medium)).expect(works);
        make_objects(&*pool);
        transact(&*pool, 1..=TRANSACTIONS - LAST_PROCESS, 1, &mut || ());
        pool.close().expect(works);
        let pool = design.open(path, options()).expect(works);
        let (middle, last) = (TRANSACTIONS - LAST_PROCESS / 2, TRANSACTIONS);
        let is_mapped = medium != Medium::File;
        transact(&*pool, TRANSACTIONS - LAST_PROCESS + 1..=middle, workers, &mut || ());
        let early = self.files.read();
        transact(&*pool, middle + 1..=last, workers, &mut || ());
        let mut late = None;
        if is_closed {
            pool.close().expect(works)
        } else {
            transact(&*pool, last + 1..=last + 1, 1, &mut || late = Some(self.files.read()));
            pool.abandon()
        }
        let log = match medium {
            Medium::File => 0..0,
            _ => LOG_OFFSET..LOG_OFFSET + LOG_BYTES,
        };
        let late = late.unwrap_or_else(|| self.files.read());
        let uncovered = self.uncovered(&late, is_closed);
        Sound { design, is_closed, is_mapped, workers, log, late, early, uncovered }
    }
}

/// Makes the objects, and a root with their pointers.
fn make_objects(pool: &dyn AnyPool) {
    let mut worker = pool.any_worker().expect("there is room for a worker");
    let mut objects = Vec::new();
    for _ in 0..OBJECTS {
        let made = worker.run_any(false, &mut |tx| {
            objects.push(tx.allocate(8 * WORDS as usize)?);
            Ok(())
        });
        made.expect("the heap has room");
    }
    let made = worker.run_any(false, &mut |tx| {
        let root = tx.allocate(8 * (1 + OBJECTS as usize))?;
        for (index, object) in (1..).zip(&objects) {
            tx.write(Addr::new(root, 8 * index), *object)?;
        }
        tx.set_root(root)
    });
    made.expect("the heap has room");
}

/// Runs transactions by several workers in turn, and waits for each until it is durable. `inside`
/// runs in each body after its writes.
fn transact(
    pool: &dyn AnyPool,
    numbers: RangeInclusive<u64>,
    workers: usize,
    inside: &mut dyn FnMut(),
) {
    let worker = |_| pool.any_worker().expect("there is room for a worker");
    let mut workers: Vec<_> = (0..workers).map(worker).collect();
    for number in numbers {
        let turn = number as usize % workers.len();
        let done = workers[turn].run_any(false, &mut |tx| {
            let root = tx.root()?;
            let object = tx.read(Addr::new(root, 8 * (1 + number % OBJECTS)))?;
            for word in 0..WORDS {
                tx.write(Addr::new(object, 8 * word), number)?;
            }
            tx.write(Addr::new(root, 0), number)?;
            inside();
            Ok(())
        });
        done.expect("a sound pool commits");
        pool.flush().expect("a sound pool is durable");
    }
}

/// Returns the value of an object after so many transactions.
fn value(object: u64, transactions: u64) -> u64 {
    let back = (transactions + OBJECTS - object) % OBJECTS;
    transactions.saturating_sub(back)
}

/// The values that a pool shows.
struct Shown {
    /// The word that each transaction sets.
    last: u64,
    /// The value of each object; `None` if it has several.
    objects: Vec<Option<u64>>,
}

impl Shown {
    /// Whether this is the content after the last transaction shown.
    fn is_prefix(&self) -> bool {
        (0..).zip(&self.objects).all(|(object, found)| *found == Some(value(object, self.last)))
    }

    /// Returns the missing transaction if all others are there: the last of one of two workers.
    /// A rollback of it also sets the common word back.
    fn missing(&self) -> Option<u64> {
        [TRANSACTIONS - 1, TRANSACTIONS].into_iter().find(|missing| {
            let expected = |object| match object == missing % OBJECTS {
                true => value(object, missing - 1),
                false => value(object, TRANSACTIONS),
            };
            let objects = (0..).zip(&self.objects);
            (missing - 1..=TRANSACTIONS).contains(&self.last)
                && objects.into_iter().all(|(object, found)| *found == Some(expected(object)))
        })
    }
}

fn shown(pool: &dyn AnyPool, context: &str) -> Shown {
    let mut worker = pool.any_worker().expect("there is room for a worker");
    let (mut last, mut objects) = (0, Vec::new());
    let read = worker.run_any(true, &mut |tx| {
        let root = tx.root()?;
        last = tx.read(Addr::new(root, 0))?;
        for object in 0..OBJECTS {
            let at = tx.read(Addr::new(root, 8 * (1 + object)))?;
            let first = tx.read(Addr::new(at, 0))?;
            let mut is_one = true;
            for word in 1..WORDS {
                is_one &= tx.read(Addr::new(at, 8 * word))? == first;
            }
            objects.push(is_one.then_some(first));
        }
        Ok(())
    });
    read.unwrap_or_else(|error| panic!("{error}: {context}"));
    Shown { last, objects }
}

/// An edit of a file.
struct Edit {
    text: String,
    /// A part of the file has its content of an earlier moment.
    is_lost_write: bool,
    in_log: bool,
    /// In the checksum table.
    in_table: bool,
    /// The page of the heap that it has changed, as an offset in the file.
    page: Option<usize>,
}

struct Draw<'a>(&'a mut Xoshiro256PlusPlus);

impl Draw<'_> {
    fn below(&mut self, end: usize) -> usize {
        (self.0.next_u64() % end as u64) as usize
    }

    /// Returns the offset of a sector or page that is not all zeros.
    fn used(&mut self, bytes: &[u8], unit: usize) -> usize {
        let is_used = |(_, bytes): &(usize, &[u8])| bytes.iter().any(|byte| *byte != 0);
        let used: Vec<usize> =
            bytes.chunks_exact(unit).enumerate().filter(is_used).map(|(at, _)| at).collect();
        unit * used[self.below(used.len())]
    }

    /// Makes one edit; returns it. `None`: no checksum protects the page.
    fn edit(&mut self, sound: &Sound, files: &mut Contents) -> Option<Edit> {
        let file = match files[1] {
            Some(_) => self.below(2),
            None => 0,
        };
        let (early, kind) = (sound.early[file].clone(), self.below(8));
        let bytes = files[file].as_mut()?;
        let unit = if kind.is_multiple_of(2) { SECTOR } else { PAGE };
        let at = self.used(bytes, unit);
        if file == 0 && sound.uncovered.contains(&(at / PAGE * PAGE)) {
            return None;
        }
        let name = match kind {
            0 | 1 => {
                let at = at + self.below(unit);
                bytes[at] ^= 1 << self.below(8);
                "a flipped bit"
            }
            2 => {
                let at = at + 8 * self.below(unit / 8);
                bytes[at..at + 8].copy_from_slice(&self.0.next_u64().to_le_bytes());
                "a word"
            }
            3 => {
                self.0.fill_bytes(&mut bytes[at..at + unit]);
                "garbage"
            }
            4 | 5 => {
                bytes[at..at + unit].fill(0);
                "zeros"
            }
            6 => {
                let from = self.used(bytes, unit);
                bytes.copy_within(from..from + unit, at);
                "a misplaced write"
            }
            _ => {
                let early = early.expect("the same files");
                bytes[at..at + unit].copy_from_slice(&early[at..at + unit]);
                "a lost write"
            }
        };
        let in_heap = file == 0 && at >= bytes.len() - HEAP_BYTES;
        let in_log = file == 1 || sound.log.contains(&at);
        let is_new = files[file] != sound.late[file];
        let page = (in_heap && is_new).then_some(at / PAGE * PAGE);
        let text = format!("{name} at byte {at} of file {file}");
        let in_table = file == 0 && (TABLE_OFFSET..LOG_OFFSET).contains(&at);
        Some(Edit { text, is_lost_write: kind == 7, in_log, in_table, page })
    }
}

fn text<T>(result: &Result<T, Error>) -> Option<String> {
    result.as_ref().err().map(Error::to_string)
}

/// Edits pools `edits` times.
///
/// # Panics
/// When a pool shows a wrong content, or a loss outside a log has no finding.
pub fn run(seed: u64, edits: u64) -> Tally {
    let place = Place::new();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut tally = Tally::default();
    for edit in 0..edits {
        let sound = &place.sound[(edit % place.sound.len() as u64) as usize];
        let mut files = sound.late.clone();
        let Some(done) = Draw(&mut random).edit(sound, &mut files) else {
            tally.uncovered += 1;
            continue;
        };
        place.files.write(&files);
        let name = sound.design.name;
        let context = format!("seed {seed}, edit {edit} of {name}, {}", done.text);
        judge((&place, sound), (&files, &done), &context, &mut tally);
    }
    tally
}

fn judge(
    (place, sound): (&Place, &Sound),
    (files, edit): (&Contents, &Edit),
    context: &str,
    tally: &mut Tally,
) {
    let path = &place.files.paths()[0];
    let report = lastword::check_with(path, &CheckOptions::from(&options()));
    let report = report.unwrap_or_else(|error| panic!("{error}: {context}"));
    let opened = sound.design.open(path, options());
    let refused = report.refusal.as_ref().map(Error::to_string);
    assert_eq!(text(&opened), refused, "open and check: {context}");
    // A page of the heap that differs from its checksum is named by its place.
    let pages = report.findings.iter().filter(|one| one.problem.name() == "damaged_pages");
    let named: Vec<Option<u64>> = pages.map(|one| one.at).collect();
    let expected: Vec<Option<u64>> = edit.page.iter().map(|page| Some(*page as u64)).collect();
    // Old checksums are valid ones, so pages that changed since then differ from them.
    let agrees = named == expected || edit.in_table && edit.is_lost_write;
    assert!(agrees, "{named:?}, not {expected:?}: {context}");
    let Ok(pool) = opened else {
        assert!(place.files.read() == *files, "a refused opening has written: {context}");
        let worst = report.findings.iter().max_by_key(|one| one.severity());
        let worst = worst.unwrap_or_else(|| panic!("no finding: {context}"));
        *tally.refused.entry(worst.problem.name()).or_default() += 1;
        tally.salvaged += salvaged(place, context);
        return;
    };
    let shown = shown(&*pool, context);
    pool.close().unwrap_or_else(|error| panic!("{error}: {context}"));
    let after = lastword::check(path).unwrap_or_else(|error| panic!("{error}: {context}"));
    assert!(after.is_sound(), "{:?} after it was open: {context}", after.findings);
    let last = shown.last;
    if last == TRANSACTIONS && shown.is_prefix() {
        tally.whole += 1;
        return;
    }
    assert!(!sound.is_closed && edit.in_log, "{last} transactions: {context}");
    if !shown.is_prefix() {
        // On files the last record of a slot has no witness, and each worker has a slot.
        let may_mix = !sound.is_mapped && sound.workers > 1 && sound.design.name != "decoupled";
        let missing = shown.missing().filter(|_| may_mix);
        assert!(missing.is_some(), "a mixture, {last}, {:?}: {context}", shown.objects);
        match report.findings.is_empty() {
            false => tally.shorter += 1,
            true => tally.apart += 1,
        }
        return;
    }
    let may_lose = if sound.is_mapped { 0 } else { 1 };
    assert!(TRANSACTIONS - last <= may_lose, "{last} transactions: {context}");
    match report.findings.is_empty() {
        false => tally.shorter += 1,
        true => tally.unnamed += 1,
    }
}

/// Returns the number of whole objects that are left of a refused pool. Each has one value, unless
/// a part of the log is missing.
fn salvaged(place: &Place, context: &str) -> u64 {
    let Ok((heap, report)) = HeapAtRest::salvage(&place.files.paths()[0]) else { return 0 };
    // Damage that no checksum covers may be anywhere.
    if report.findings.iter().any(|one| one.problem.name() == "heap") {
        return 0;
    }
    let mixes = matches!(report.refusal, Some(Error::DamagedLog { .. } | Error::WrongLog { .. }));
    let whole = heap.objects().filter(|live| live.bytes == 8 * WORDS && heap.is_whole(live));
    let mut count = 0;
    for live in whole {
        let words: Vec<u64> = heap.words(&live).collect();
        assert!(mixes || words.iter().all(|word| *word == words[0]), "{words:?}: {context}");
        // Under `undo` the words of an unfinished transaction are in place until a rollback, which
        // a damaged log prevents.
        let last = TRANSACTIONS + u64::from(mixes);
        assert!(words.iter().all(|word| *word <= last), "{words:?}: {context}");
        count += 1;
    }
    count
}
