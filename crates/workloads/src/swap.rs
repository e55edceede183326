//! `swap`: exchanges two random entries of an array, a worker's own (ReDU, section V, table III);
//! `sps-1`: exchanges two words of a large array (SSP, table 3: 2 cache lines in 2 pages).
//!
//! ```text
//!   large:BYTES   | stamp, number, 6 words that follow | ...     each line of an entry; whole
//!                                                                entries change places
//! random:N      | word | 7 words that follow from the place |  N / 2 pairs of words change places
//! sps-1         | word | word | ...                            one pair of them does
//!
//!   a word   63    58 57   50 49     42 41         22 21     0
//!            | check | run   | worker  | sequence    | number |
//! ```
//!
//! `swap` has the data sets and the sizes of `vector` ([`puts`](crate::puts)): a copy for each
//! worker, up to 32, of 100 MB, or of 100 000 objects of 64 bytes. A transaction writes both
//! entries whole, or a word in each of N objects. `sps-1` has 2^20 words a copy times the scale, 8
//! MiB; with `--low-conflict` each worker has a copy, else all share one.
//!
//! A word has its number, and beside it as much of its last writer's stamp as fits: the run modulo
//! 255 and the sequence modulo 2^20, which are compared going round. A transaction is therefore
//! distinguished from earlier ones as long as fewer than half a million others of its worker lie
//! between.
//!
//! Entries are always present, in another order: the check looks for a permutation.

use rand_xoshiro::Xoshiro256PlusPlus;
use words::{Addr, Allocate, Array, BLOCK_STRIDE, Place, Stop, Transact, Words, work};

use crate::copies::{COPIES, Shape, lock_copy};
use crate::data::OBJECTS_MAX;
use crate::keys::{below, generator};
use crate::root::{self, Build};
use crate::slab::{Line, WORDS};
use crate::stamp::{SPREAD, Stamp, content};
use crate::violation::Violations;
use crate::zipf::Zipf;
use crate::{Options, Supported, Violation, Workload, scaled, with_slack};

/// Words of `sps-1` at scale 1.
const ELEMENTS: u64 = 1 << 20;

/// Widths of a number, of a sequence, of a worker, in bits.
const NUMBER_BITS: u32 = 22;
const SEQUENCE_BITS: u32 = 20;
const WORKER_BITS: u32 = 8;
const WORKER_SHIFT: u32 = NUMBER_BITS + SEQUENCE_BITS;
const RUN_SHIFT: u32 = WORKER_SHIFT + WORKER_BITS;
const CHECK_SHIFT: u32 = RUN_SHIFT + 8;

/// Distinguishable runs; 0 is loading's.
const RUNS: u64 = 255;

const _: () = assert!(CHECK_SHIFT == 58 && 1 << WORKER_BITS == crate::CLIENTS_MAX);

/// Blocks that one transaction of loading prepares; it writes four lines of each.
const STEP: u64 = 256;

/// Lines that one transaction of the check reads.
const CHECKED: u64 = 1024;

/// Arrays of entries, in copies; of single words if `SINGLE`.
#[derive(Clone, Copy, Debug)]
pub struct Swaps<const SINGLE: bool> {
    lines: Array<Line>,
    shape: Shape,
}

/// Entries of one data set or the other.
pub type Swap = Swaps<false>;

/// Words of a large array.
pub type Sps1 = Swaps<true>;

/// One worker's swaps.
#[derive(Clone, Debug)]
pub struct SwapClient {
    rng: Xoshiro256PlusPlus,
    stamp: Stamp,
    index: usize,
    update_percent: u64,
    zipf: Option<Zipf>,
    writes: bool,
    /// The entries to swap, in pairs.
    entries: [u64; OBJECTS_MAX],
}

/// Makes the word that a transaction puts at a place.
fn word(number: u64, stamp: Stamp, place: u64) -> u64 {
    let run = if stamp == Stamp::LOADED { 0 } else { 1 + (stamp.run() - 1) % RUNS };
    let sequence = stamp.sequence() % (1 << SEQUENCE_BITS);
    let word = run << RUN_SHIFT | stamp.worker() << WORKER_SHIFT | sequence << NUMBER_BITS | number;
    word | check(word, place) << CHECK_SHIFT
}

fn check(word: u64, place: u64) -> u64 {
    (word ^ place.rotate_left(32)).wrapping_add(1).wrapping_mul(SPREAD) >> CHECK_SHIFT
}

/// Returns the number of a word; `None` when no transaction has put it at this place.
fn number_of(found: u64, place: u64) -> Option<u64> {
    let word = found & ((1 << CHECK_SHIFT) - 1);
    (check(word, place) == found >> CHECK_SHIFT).then_some(word & ((1 << NUMBER_BITS) - 1))
}

/// Returns whether a word found at a place is this transaction's or a later one's.
fn is_in(stamp: Stamp, found: u64, place: u64) -> bool {
    let mine = word(0, stamp, place);
    let run = |word: u64| word >> RUN_SHIFT & 0xff;
    let worker = |word: u64| word >> WORKER_SHIFT & ((1 << WORKER_BITS) - 1);
    let sequence = |word: u64| word >> NUMBER_BITS & ((1 << SEQUENCE_BITS) - 1);
    if number_of(found, place).is_none() || run(found) == 0 {
        return false;
    }
    let runs = (run(found) + RUNS - run(mine)) % RUNS;
    let passed = sequence(found).wrapping_sub(sequence(mine)) % (1 << SEQUENCE_BITS);
    match runs {
        0 => worker(found) != worker(mine) || passed < 1 << (SEQUENCE_BITS - 1),
        later => later <= RUNS / 2,
    }
}

/// Makes a line of a large entry, put at a place by a transaction.
fn line(number: u64, stamp: Stamp, place: u64) -> Line {
    let mut words = [stamp.value(place); WORDS];
    words[1..].copy_from_slice(&content::<{ WORDS - 1 }>(number, number));
    words
}

/// Makes a line of a small entry.
fn small(number: u64) -> Line {
    let mut words = content(number, !number);
    words[0] = word(number, Stamp::LOADED, number);
    words
}

impl<const SINGLE: bool> Swaps<SINGLE> {
    fn shape(options: &Options) -> Shape {
        let shape = Shape::of(options);
        if !SINGLE {
            return Shape { keys: shape.keys.min(1 << NUMBER_BITS), ..shape };
        }
        let keys = scaled(ELEMENTS, options, 128).min(1 << NUMBER_BITS).next_multiple_of(32);
        let copies = if options.low_conflict { options.workers.clamp(1, COPIES) as u64 } else { 1 };
        Shape { keys, copies, lines: 1, objects: 2 }
    }

    /// Returns the lines of a copy; copies share no block of four.
    fn lines(shape: Shape) -> u64 {
        let lines = if SINGLE { shape.keys.div_ceil(8) } else { shape.keys * shape.lines };
        lines.next_multiple_of(4)
    }

    /// Returns the place of a line, counted through a copy.
    #[inline]
    fn line(&self, copy: u64, line: u64) -> Result<Addr, Stop> {
        Ok(self.lines.at(copy * Self::lines(self.shape) + line)?.addr())
    }

    /// Returns the place of the word of a small entry.
    #[inline]
    fn word(&self, copy: u64, entry: u64) -> Result<Addr, Stop> {
        match SINGLE {
            true => Ok(self.line(copy, entry / 8)?.plus(entry % 8 * 8)),
            false => self.line(copy, entry),
        }
    }

    /// Returns the entries of a transaction.
    #[inline]
    fn about<'c>(&self, client: &'c SwapClient) -> &'c [u64] {
        // A pair at least; of large entries one.
        &client.entries[..(self.shape.objects & !1).max(2)]
    }

    /// Exchanges whole entries.
    #[inline(never)]
    fn swap_lines<W: Words>(&self, copy: u64, client: &SwapClient, tx: &mut W) -> Result<(), Stop> {
        let lines = self.shape.lines;
        let [one, other] = [client.entries[0], client.entries[1]].map(|entry| entry * lines);
        for first in [one, other] {
            for place in first..first + lines {
                tx.will_write(self.line(copy, place)?, 8 * WORDS);
            }
        }
        tx.compute(work::FRAME);
        for (one, other) in (one..one + lines).zip(other..) {
            let places = [(one, self.line(copy, one)?), (other, self.line(copy, other)?)];
            let mut found = [[0; WORDS]; 2];
            for ((_, at), words) in places.into_iter().zip(&mut found) {
                tx.read_words(at, words)?;
            }
            found.swap(0, 1);
            for ((place, at), mut words) in places.into_iter().zip(found) {
                words[0] = client.stamp.value(place);
                tx.write_words(at, &words)?;
            }
        }
        Ok(())
    }

    /// Exchanges words, pair by pair.
    #[inline(never)]
    fn swap_words<W: Words>(&self, copy: u64, client: &SwapClient, tx: &mut W) -> Result<(), Stop> {
        for &entry in self.about(client) {
            tx.will_write(self.word(copy, entry)?, 8);
        }
        for pair in self.about(client).chunks_exact(2) {
            tx.compute(work::FRAME);
            let places = [self.word(copy, pair[0])?, self.word(copy, pair[1])?];
            let found = [tx.read(places[0])?, tx.read(places[1])?];
            for (here, there) in [(0, 1), (1, 0)] {
                let number = number_of(found[there], pair[there]).ok_or(Stop::BadValue)?;
                tx.write(places[here], word(number, client.stamp, pair[here]))?;
            }
        }
        Ok(())
    }

    /// Reads entries.
    #[inline(never)]
    fn read<W: Words>(&self, copy: u64, client: &SwapClient, tx: &mut W) -> Result<(), Stop> {
        for &entry in self.about(client) {
            tx.compute(work::FRAME);
            if !self.shape.is_large() {
                std::hint::black_box(tx.read(self.word(copy, entry)?)?);
                continue;
            }
            for line in 0..self.shape.lines {
                let mut words = [0; WORDS];
                tx.read_words(self.line(copy, entry * self.shape.lines + line)?, &mut words)?;
                std::hint::black_box(words);
            }
        }
        Ok(())
    }

    /// Checks a line; adds its numbers to those found.
    fn check_line(
        &self,
        place: u64,
        found: &Line,
        numbers: &mut Vec<u64>,
        violations: &mut Violations,
    ) {
        if SINGLE {
            for (place, &found) in (place * 8..self.shape.keys).zip(found) {
                match number_of(found, place) {
                    Some(number) => numbers.push(number),
                    None => violations.add(Violation::Value { key: place, found }),
                }
            }
            return;
        }
        let (number, expected) = match self.shape.is_large() {
            true => {
                let stamp = Stamp::of(found[0], place);
                (stamp.map(|_| found[1]), stamp.map(|stamp| line(found[1], stamp, place)))
            }
            false => {
                let mut expected = small(place);
                expected[0] = found[0];
                (number_of(found[0], place), Some(expected))
            }
        };
        let (Some(number), Some(expected)) = (number, expected) else {
            violations.add(Violation::Value { key: place, found: found[0] });
            return;
        };
        numbers.push(number);
        if let Some(word) = (0..WORDS).find(|&word| found[word] != expected[word]) {
            let (expected, found) = (expected[word], found[word]);
            violations.add(Violation::Record { key: place, word, expected, found });
        }
    }
}

impl<const SINGLE: bool> Build for Swaps<SINGLE> {
    const NAME: &'static str = if SINGLE { "sps-1" } else { "swap" };
    type Parts = Array<Line>;

    fn reserve<W: Allocate>(tx: &mut W, size: u64) -> Result<Array<Line>, Stop> {
        let shape = Shape::decode(size);
        Array::reserve(tx, shape.copies * Self::lines(shape))
    }

    /// Progress 0: preparing; 1 + n: line n is next, counted through all copies.
    fn step<W: Allocate>(
        lines: Array<Line>,
        tx: &mut W,
        size: u64,
        progress: u64,
    ) -> Result<Option<u64>, Stop> {
        let shape = Shape::decode(size);
        let Some(first) = progress.checked_sub(1) else {
            return Ok(Some(u64::from(lines.prepare(tx, STEP)?)));
        };
        let (each, loaded) = (Self::lines(shape), Stamp::LOADED);
        let end = (first + STEP).min(lines.len());
        for at in first..end {
            let place = at % each;
            let words = match (SINGLE, shape.is_large()) {
                (true, _) => std::array::from_fn(|i| {
                    let place = place * 8 + i as u64;
                    if place < shape.keys { word(place, loaded, place) } else { 0 }
                }),
                (false, true) => line(place, loaded, place),
                (false, false) => small(place),
            };
            tx.write_words(lines.at(at)?.addr(), &words)?;
        }
        Ok((end < lines.len()).then_some(1 + end))
    }

    fn free<W: Allocate>(lines: Array<Line>, tx: &mut W) -> Result<bool, Stop> {
        lines.free(tx).map(|()| true)
    }
}

impl<const SINGLE: bool> Workload for Swaps<SINGLE> {
    const NAME: &'static str = <Self as Build>::NAME;
    const ABOUT: &'static str = if SINGLE {
        "swap two words of a large array"
    } else {
        "swap two entries of an array of objects, a worker's own"
    };
    const SUPPORTS: Supported = if SINGLE {
        Supported { low_conflict: true, ..Supported::NOTHING }
    } else {
        Supported { update_percent: true, zipf: true, data: true, ..Supported::NOTHING }
    };
    const READS: bool = !SINGLE;
    const ANNOUNCES: bool = true;
    type Client = SwapClient;

    fn heap_bytes(options: &Options) -> u64 {
        let shape = Self::shape(options);
        with_slack(shape.copies * Self::lines(shape) / 4 * BLOCK_STRIDE)
    }

    fn load<T: Transact>(worker: &mut T, options: &Options) -> Result<Self, T::Error> {
        let shape = Self::shape(options);
        Ok(Swaps { lines: root::load::<Self, T>(worker, shape.encode())?, shape })
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Self>, T::Error> {
        let found = root::open::<Self, T>(worker)?;
        Ok(found.map(|(size, lines)| Swaps { lines, shape: Shape::decode(size) }))
    }

    fn client(&self, index: usize, seed: u64) -> SwapClient {
        let (rng, stamp) = (generator(index, seed), Stamp::first(index, seed));
        let entries = [0; OBJECTS_MAX];
        SwapClient { rng, stamp, index, update_percent: 100, zipf: None, writes: true, entries }
    }

    fn tune(&self, client: &mut SwapClient, options: &Options) {
        client.update_percent = u64::from(options.update_percent.unwrap_or(100));
        let exponent = options.zipf.filter(|&exponent| exponent > 0.0);
        client.zipf = exponent.map(|exponent| Zipf::new(self.shape.keys, exponent));
    }

    #[inline]
    fn next(&self, client: &mut SwapClient) {
        client.stamp.advance();
        let percent = client.update_percent;
        client.writes = percent >= 100 || below(&mut client.rng, 100) < percent;
        for place in 0..self.about(client).len() {
            let mut entry = match &client.zipf {
                None => below(&mut client.rng, self.shape.keys),
                Some(zipf) => zipf.scattered(&mut client.rng),
            };
            // The loop ends: a copy has more entries than a transaction uses.
            while client.entries[..place].contains(&entry) {
                entry = (entry + 1) % self.shape.keys;
            }
            client.entries[place] = entry;
        }
    }

    #[inline]
    fn reads_only(&self, client: &SwapClient) -> bool {
        !client.writes
    }

    #[inline]
    fn run<W: Allocate>(&self, client: &SwapClient, tx: &mut W) -> Result<(), Stop> {
        tx.compute(work::FRAME);
        let copy = self.shape.copy(client.index);
        lock_copy(tx, copy)?;
        match (client.writes, self.shape.is_large()) {
            (false, _) => self.read(copy, client, tx),
            (true, true) => self.swap_lines(copy, client, tx),
            (true, false) => self.swap_words(copy, client, tx),
        }
    }

    fn is_present<W: Words>(&self, client: &SwapClient, tx: &mut W) -> Result<bool, Stop> {
        let copy = self.shape.copy(client.index);
        lock_copy(tx, copy)?;
        for &entry in self.about(client).iter().filter(|_| client.writes) {
            let is_in = match self.shape.is_large() {
                true => {
                    let place = entry * self.shape.lines;
                    client.stamp.is_in(tx.read(self.line(copy, place)?)?, place)
                }
                false => is_in(client.stamp, tx.read(self.word(copy, entry)?)?, entry),
            };
            if !is_in {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<Violation>, T::Error> {
        let (mut violations, shape) = (Violations::default(), self.shape);
        let units = if SINGLE { shape.keys } else { shape.keys * shape.lines };
        for copy in 0..shape.copies {
            let (mut numbers, end) = (Vec::new(), Self::lines(shape));
            let end = if SINGLE { end } else { units };
            for first in (0..end).step_by(CHECKED as usize) {
                let places = first..(first + CHECKED).min(end);
                let found = worker.transact(|tx| {
                    let mut found = Vec::new();
                    for place in places.clone() {
                        let mut words = [0; WORDS];
                        tx.read_words(self.line(copy, place)?, &mut words)?;
                        found.push(words);
                    }
                    Ok(found)
                })?;
                for (place, words) in places.zip(found) {
                    self.check_line(place, &words, &mut numbers, &mut violations);
                }
            }
            numbers.sort_unstable();
            numbers.dedup();
            let different = numbers.iter().filter(|&&number| number < units).count() as u64;
            violations.expect("different entries", units, different);
        }
        Ok(violations.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_identifies_its_last_writer() {
        let nth = |index, seed, sequence: u64| {
            let mut stamp = Stamp::first(index, seed);
            (0..sequence).for_each(|_| stamp.advance());
            stamp
        };
        let mine = nth(3, 7, 10);
        assert_eq!(number_of(word(1234, mine, 99), 99), Some(1234));
        assert!(is_in(mine, word(5, mine, 99), 99));
        assert!(is_in(mine, word(5, nth(3, 7, 11), 99), 99), "my later transaction");
        assert!(is_in(mine, word(5, nth(4, 7, 1), 99), 99), "another worker");
        assert!(is_in(mine, word(5, nth(3, 8, 1), 99), 99), "a later run");
        assert!(!is_in(mine, word(5, nth(3, 7, 9), 99), 99), "my earlier transaction");
        assert!(!is_in(mine, word(5, nth(4, 6, 50), 99), 99), "an earlier run");
        assert!(!is_in(mine, word(5, Stamp::LOADED, 99), 99), "loading's word");
        assert!(!is_in(nth(1, 254, 1), word(5, Stamp::LOADED, 99), 99), "run 255 is not loading's");
        let strayed = (0..1000).filter(|&at| number_of(word(at, mine, at), at + 1).is_some());
        assert!(strayed.count() < 50);
    }
}
