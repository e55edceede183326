//! Agreement of describe, check, dump, repair and open on the same damaged files.
//!
//! Pools of all designs, on files and mapped, closed and abandoned, are edited at random. Edits
//! change words and names of superblocks and log heads with their checksums fixed or not, words of
//! log and heap, or lengths. They also remove or zero a log, or take one of another pool or time.
//! Then:
//!
//! - the pool opens if and only if a check says so, and only then describe succeeds;
//! - all refusals of a pool have the same text;
//! - a dump shows the pool if and only if a check without the log finds its heap sound, and the log
//!   is not that of a later opening;
//! - a repair changes neither;
//! - a pool refused for the content of its metadata is unchanged.

use std::collections::BTreeMap;

use lastword::{Addr, AnyDesign, CheckOptions, Error, LogMismatch, Medium, Options, Report};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::pool_files::{Contents, PoolFiles};
use super::seal;
use crate::designs;

const LAYOUT: (&str, u64) = ("ledger", 3);
/// Replacements of a name's first bytes, besides the names of designs.
const NAMES: [&[u8]; 12] = [
    b"ledger",
    b"",
    b"ledger\0x",
    b"\xff\xfe",
    b"led\xc3",
    b"a layout name that has 32 bytes.",
    b"decoupled-ideal",
    b"file",
    b"dax",
    b"persistent_cache",
    b"emulated",
    b"clay",
];
/// Words of a superblock where names begin, and the length of each in words.
const PLACES: [(usize, usize); 3] = [(6, 2), (8, 4), (21, 2)];
const COPY_BYTES: usize = 4096;
const BLOCK_WORDS: usize = 64;

/// Counts of outcomes.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Pools that opened.
    pub opened: u64,
    /// Of them, pools that opened with a new log in place of a lost one.
    pub renewed: u64,
    /// Pools that were refused, by the worst of their findings.
    pub refused: BTreeMap<&'static str, u64>,
}

/// A pool to begin with.
struct Sound {
    design: &'static AnyDesign,
    /// Both files: at the end, and some generations earlier.
    late: Contents,
    early: Contents,
}

struct Place {
    files: PoolFiles,
    sound: Vec<Sound>,
}

fn options(medium: Option<Medium>) -> Options {
    let options = Options::new().bytes(256 << 10).log_bytes(128 << 10).ring_entries(1 << 10);
    // A checksum of a page would hide the words that it covers.
    let options = options.background(false).page_checksums(false).layout(LAYOUT.0, LAYOUT.1);
    match medium {
        Some(medium) => options.medium(medium),
        None => options,
    }
}

impl Place {
    fn new() -> Place {
        let mut place = Place { files: PoolFiles::new(), sound: Vec::new() };
        let emulated = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
        for design in all() {
            for medium in [Medium::File, emulated] {
                for clean in [false, true] {
                    let sound = place.make(design, medium, clean);
                    place.sound.push(sound);
                }
            }
        }
        place
    }

    fn make(&self, design: &'static AnyDesign, medium: Medium, clean: bool) -> Sound {
        let works = "a small pool can be made and filled";
        self.files.write(&[None, None]);
        let path = &self.files.paths()[0];
        design.create(path, options(Some(medium))).expect(works).close().expect(works);
        let early = self.files.read();
        for turn in 0..3_u64 {
            let pool = design.open(path, options(None)).expect(works);
            let mut worker = pool.any_worker().expect(works);
            for n in 0..6 {
                let body = worker.run_any(false, &mut |tx| {
                    let object = tx.allocate(40)?;
                    tx.write(Addr::new(object, 0), n)?;
                    tx.set_root(object)
                });
                body.expect(works);
            }
            drop(worker);
            pool.flush().expect(works);
            if clean || turn < 2 { pool.close().expect(works) } else { pool.abandon() }
        }
        Sound { design, late: self.files.read(), early }
    }
}

/// Edits pools `edits` times, and compares the results.
///
/// # Panics
/// When two results disagree.
pub fn run(seed: u64, edits: u64) -> Tally {
    let place = Place::new();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut tally = Tally::default();
    for edit in 0..edits {
        let sound = &place.sound[(edit % place.sound.len() as u64) as usize];
        let mut files = sound.late.clone();
        let mut draw = Draw(&mut random);
        let done: Vec<_> =
            (0..1 + draw.below(3)).map(|_| draw.edit(&place, sound, &mut files)).collect();
        place.files.write(&files);
        let (repairs, without_log) = (draw.below(2) == 0, draw.below(2) == 0);
        let context = format!("seed {seed}, edit {edit} of {}: {done:?}", sound.design.name);
        let opens = draw.design();
        compare(&place, opens, repairs, without_log, &context, &mut tally);
    }
    tally
}

/// The durable designs, each by its first type.
fn all() -> impl Iterator<Item = &'static AnyDesign> {
    designs::all().filter(|design| design.type_name == design.name)
}

struct Draw<'a>(&'a mut Xoshiro256PlusPlus);

impl Draw<'_> {
    fn design(&mut self) -> &'static AnyDesign {
        all().nth(self.below(all().count())).expect("the place is below the count")
    }

    fn below(&mut self, end: usize) -> usize {
        (self.0.next_u64() % end as u64) as usize
    }

    /// Returns a replacement of a value.
    fn value(&mut self, old: u64) -> u64 {
        match self.below(8) {
            0 => 0,
            1 => u64::MAX,
            2 => old.wrapping_add(1),
            3 => old.wrapping_sub(1),
            4 => old ^ 1 << self.below(64),
            5 => 1 << self.below(64),
            6 => old.wrapping_add(4096),
            _ => self.0.next_u64(),
        }
    }

    /// Makes one edit; returns its description.
    fn edit(&mut self, place: &Place, sound: &Sound, files: &mut Contents) -> &'static str {
        let (kind, file) = (self.below(12), self.below(2));
        let other = &place.sound[self.below(place.sound.len())];
        match (kind, &mut files[file]) {
            (0..=2, Some(bytes)) => {
                let word = self.below(BLOCK_WORDS - 1);
                let value = self.value(self.word(bytes, word));
                self.forge(bytes, word, &[value]);
                "a word of a head"
            }
            (3..=4, _) => {
                let Some(bytes) = &mut files[0] else { return "nothing" };
                let (first, words) = PLACES[self.below(PLACES.len())];
                let mut name = [0; 32];
                let designs = all().map(|design| design.name.as_bytes());
                let names: Vec<&[u8]> = NAMES.into_iter().chain(designs).collect();
                let new = names[self.below(names.len())];
                name[..new.len()].copy_from_slice(new);
                let word = |at: &[u8]| u64::from_le_bytes(at.try_into().expect("8 bytes"));
                let name: Vec<u64> = name.chunks(8).take(words).map(word).collect();
                self.forge(bytes, first, &name);
                "a name"
            }
            (5..=7, Some(bytes)) => {
                // Choose a word in a block that is not all zeros.
                let blocks = bytes.len() / COPY_BYTES;
                let start = self.below(blocks.max(1));
                let full = |block: &usize| {
                    bytes
                        .chunks(COPY_BYTES)
                        .nth(*block)
                        .is_some_and(|one| one.iter().any(|byte| *byte != 0))
                };
                let Some(block) = (start..blocks).chain(0..start).find(full) else {
                    return "nothing";
                };
                let near = 1 + self.below(512);
                let at = block * COPY_BYTES / 8 + self.below(near);
                let value = self.value(self.word(bytes, at));
                bytes[8 * at..8 * at + 8].copy_from_slice(&value.to_le_bytes());
                "a word"
            }
            (8, Some(bytes)) => {
                let length = match self.below(3) {
                    0 => self.below(20_000),
                    1 => bytes.len().saturating_sub(1 + self.below(8192)),
                    _ => bytes.len() + 1 + self.below(8192),
                };
                bytes.resize(length, 0);
                "a length"
            }
            (9, Some(bytes)) if file == 1 => {
                bytes.fill(0);
                "zeros"
            }
            (9 | 10, _) => {
                files[1] = if kind == 9 { None } else { other.late[1].clone() };
                "another log, or none"
            }
            (_, bytes) => {
                bytes.clone_from(&sound.early[file]);
                "another time"
            }
        }
    }

    fn word(&self, bytes: &[u8], at: usize) -> u64 {
        let word = bytes.get(8 * at..8 * at + 8);
        word.map_or(0, |word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
    }

    /// Sets words of one copy or both; usually fixes the checksum.
    fn forge(&mut self, bytes: &mut [u8], first: usize, new: &[u64]) {
        let (copies, seals) = (1 + self.below(3), self.below(8) > 0);
        for copy in (0..2).filter(|copy| copies & 1 << copy != 0) {
            let Some(block) = bytes.get_mut(copy * COPY_BYTES..copy * COPY_BYTES + 8 * BLOCK_WORDS)
            else {
                continue;
            };
            let mut words: Vec<u64> = (0..BLOCK_WORDS).map(|at| self.word(block, at)).collect();
            words[first..first + new.len()].copy_from_slice(new);
            if seals {
                seal::block(&mut words);
            }
            for (to, word) in block.chunks_mut(8).zip(words) {
                to.copy_from_slice(&word.to_le_bytes());
            }
        }
    }
}

fn text<T>(result: &Result<T, Error>) -> Option<String> {
    result.as_ref().err().map(Error::to_string)
}

/// Returns whether a log is of a later opening than the pool's file.
fn is_later(why: &LogMismatch) -> bool {
    match why {
        LogMismatch::Generation { found, expected } => found > expected,
        _ => false,
    }
}

/// Returns the check's reason why the pool does not open.
fn refusal(report: &Report) -> Option<String> {
    let refused = report.findings.iter().any(|one| one.severity() == lastword::Severity::Refused);
    assert_eq!(refused, !report.opens(), "{:?}", report.findings);
    report.refusal.as_ref().map(Error::to_string)
}

fn compare(
    place: &Place,
    design: &AnyDesign,
    repairs: bool,
    without_log: bool,
    context: &str,
    tally: &mut Tally,
) {
    let path = &place.files.paths()[0];
    let options = options(None).without_log(without_log);
    let expected = CheckOptions::from(&options);
    let look = "an existing file that is not in use can be checked";
    let report = lastword::check_with(path, &expected).expect(look);
    let refused = refusal(&report);
    let info = lastword::inspect_with(path, &expected);
    assert_eq!(text(&info), refused, "info and check: {context}");
    let anyhow = CheckOptions::new().without_log(true);
    // The log of a later opening has transactions that the pool's file lacks.
    let strict = lastword::check(path).expect(look).sound();
    let is_older = matches!(&strict, Err(Error::WrongLog { why, .. }) if is_later(why));
    let sound = match is_older {
        true => strict,
        false => lastword::check_with(path, &anyhow).expect(look).sound(),
    };
    let dump = lastword::HeapAtRest::load(path);
    assert_eq!(text(&dump), text(&sound), "dump and check: {context}");
    if refused.is_none() {
        let damaged = report.findings.iter().any(|one| one.problem.name() == "heap");
        assert_eq!(
            dump.is_err(),
            damaged || is_older,
            "a pool that opens can be dumped, if its heap is sound: {context}"
        );
    }
    let mut renewed = report.findings.iter().any(|one| one.problem.name() == "log_lost");
    if repairs {
        let repair = lastword::repair_with(path, &expected).expect(look);
        assert_eq!(refusal(&repair.after), refused, "repair and check: {context}");
        renewed &= repair.left.iter().any(|(one, _)| one.problem.name() == "log_lost");
    }
    let before = place.files.read();
    let opened = design.open(path, options);
    assert_eq!(text(&opened), refused, "open and check: {context}");
    match opened {
        Ok(pool) => {
            pool.close().unwrap_or_else(|error| panic!("{error}: {context}"));
            tally.opened += 1;
            tally.renewed += u64::from(renewed);
        }
        Err(error) => {
            // Damage in the log's groups is found only during replay, which may have written.
            let replayed = matches!(error, Error::DamagedLog { .. });
            assert!(
                replayed || place.files.read() == before,
                "a refused pool was written: {context}"
            );
            let worst = report.findings.iter().max_by_key(|one| one.severity());
            let worst = worst.expect("a refusal has its finding").problem.name();
            *tally.refused.entry(worst).or_default() += 1;
        }
    }
}
