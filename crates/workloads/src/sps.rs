//! `sps`: eight swaps of two random elements of an array, 64 bytes each, a transaction (LAD, table
//! 2: 16 cache blocks written).
//!
//! ```text
//!   the array   | element | element | ...        4 to a block of 256 bytes, each a cache line
//!                   | the stamp of its last writer, for this place
//!                   | its number, and 6 words that follow from it
//! ```
//!
//! 2^18 elements times the scale, 16 MiB: twice the last-level cache of the target machines. At
//! first element n is at place n; swaps permute them, so all are always present. A transaction
//! writes 128 words and changes each of them.

use rand_xoshiro::Xoshiro256PlusPlus;
use words::{Addr, Allocate, Array, BLOCK_STRIDE, Place, Stop, Transact, Words, work};

use crate::keys::{below, generator};
use crate::lock::{self, Locks};
use crate::root::{self, Build};
use crate::stamp::{Stamp, content};
use crate::violation::Violations;
use crate::{Options, Violation, Workload, scaled, with_slack};

/// Elements at scale 1.
const ELEMENTS: u64 = 1 << 18;

/// Swaps of a transaction.
const SWAPS: usize = 8;

/// Words of an element; the first is its stamp.
const WORDS: usize = 8;
type Element = [u64; WORDS];

/// Blocks that one transaction of loading prepares, and elements that one writes.
const STEP: u64 = 256;

/// Elements that one transaction of the check reads.
const CHECKED: u64 = 1024;

/// An array.
#[derive(Clone, Copy, Debug)]
pub struct Sps {
    elements: Array<Element>,
}

/// One worker's swaps.
#[derive(Clone, Debug)]
pub struct SpsClient {
    rng: Xoshiro256PlusPlus,
    stamp: Stamp,
    /// The pairs of places to swap.
    swaps: [[u64; 2]; SWAPS],
    locks: Locks<{ 2 * SWAPS }>,
}

/// Makes an element, put at a place by a transaction.
fn element(number: u64, stamp: Stamp, place: u64) -> Element {
    let mut words = [stamp.value(place); WORDS];
    words[1..].copy_from_slice(&content::<{ WORDS - 1 }>(number, number));
    words
}

impl Build for Sps {
    const NAME: &'static str = "sps";
    type Parts = Array<Element>;

    fn reserve<W: Allocate>(tx: &mut W, size: u64) -> Result<Array<Element>, Stop> {
        Array::reserve(tx, size)
    }

    /// Progress 0: preparing; 1 + n: element n is next.
    fn step<W: Allocate>(
        elements: Array<Element>,
        tx: &mut W,
        size: u64,
        progress: u64,
    ) -> Result<Option<u64>, Stop> {
        let Some(first) = progress.checked_sub(1) else {
            return Ok(Some(u64::from(elements.prepare(tx, STEP)?)));
        };
        let end = (first + STEP).min(size);
        for number in first..end {
            let words = element(number, Stamp::LOADED, number);
            tx.write_words(elements.at(number)?.addr(), &words)?;
        }
        Ok((end < size).then_some(1 + end))
    }

    fn free<W: Allocate>(elements: Array<Element>, tx: &mut W) -> Result<bool, Stop> {
        elements.free(tx).map(|()| true)
    }
}

impl Workload for Sps {
    const NAME: &'static str = <Sps as Build>::NAME;
    const ABOUT: &'static str = "swap elements of 64 bytes of an array, 8 pairs a transaction";
    const ANNOUNCES: bool = true;
    type Client = SpsClient;

    fn heap_bytes(options: &Options) -> u64 {
        with_slack(scaled(ELEMENTS, options, 64).div_ceil(4) * BLOCK_STRIDE)
    }

    fn load<T: Transact>(worker: &mut T, options: &Options) -> Result<Sps, T::Error> {
        let size = scaled(ELEMENTS, options, 64);
        Ok(Sps { elements: root::load::<Sps, T>(worker, size)? })
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Sps>, T::Error> {
        Ok(root::open::<Sps, T>(worker)?.map(|(_, elements)| Sps { elements }))
    }

    fn client(&self, index: usize, seed: u64) -> SpsClient {
        let (rng, stamp) = (generator(index, seed), Stamp::first(index, seed));
        SpsClient { rng, stamp, swaps: [[0; 2]; SWAPS], locks: Locks::NONE }
    }

    #[inline]
    fn next(&self, client: &mut SpsClient) {
        let len = self.elements.len().max(2); // fewer only in a damaged pool
        for [one, other] in &mut client.swaps {
            *one = below(&mut client.rng, len);
            // Any place except the first.
            *other = (*one + 1 + below(&mut client.rng, len - 1)) % len;
        }
        client.locks = Locks::of(client.swaps.as_flattened().iter().map(|&at| lock::stripe(at)));
        client.stamp.advance();
    }

    #[inline]
    fn run<W: Allocate>(&self, client: &SpsClient, tx: &mut W) -> Result<(), Stop> {
        tx.compute(work::FRAME);
        client.locks.take(tx)?;
        for &place in client.swaps.as_flattened() {
            tx.will_write(self.at(place)?, size_of::<Element>());
        }
        for &[one, other] in &client.swaps {
            tx.compute(work::FRAME);
            let places = [(one, self.at(one)?), (other, self.at(other)?)];
            let mut words = [[0; WORDS]; 2];
            for ((_, at), words) in places.into_iter().zip(&mut words) {
                tx.read_words(at, words)?;
            }
            words.swap(0, 1);
            for ((place, at), mut words) in places.into_iter().zip(words) {
                words[0] = client.stamp.value(place);
                tx.write_words(at, &words)?;
            }
        }
        Ok(())
    }

    fn is_present<W: Words>(&self, client: &SpsClient, tx: &mut W) -> Result<bool, Stop> {
        client.locks.take(tx)?;
        for &place in client.swaps.as_flattened() {
            if !client.stamp.is_in(tx.read(self.at(place)?)?, place) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<Violation>, T::Error> {
        let (mut violations, len) = (Violations::default(), self.elements.len());
        let (mut seen, mut different) = (std::collections::HashSet::new(), 0);
        for first in (0..len).step_by(CHECKED as usize) {
            let places = first..(first + CHECKED).min(len);
            let found = worker.transact(|tx| {
                let mut found = Vec::new();
                for place in places.clone() {
                    let mut words = [0; WORDS];
                    tx.read_words(self.at(place)?, &mut words)?;
                    found.push(words);
                }
                Ok(found)
            })?;
            for (place, words) in places.zip(found) {
                check_element(place, &words, &mut violations);
                different += u64::from(words[1] < len && seen.insert(words[1]));
            }
        }
        violations.expect("different elements", len, different);
        Ok(violations.0)
    }
}

impl Sps {
    #[inline]
    fn at(&self, place: u64) -> Result<Addr, Stop> {
        Ok(self.elements.at(place)?.addr())
    }
}

fn check_element(place: u64, words: &Element, violations: &mut Violations) {
    let Some(stamp) = Stamp::of(words[0], place) else {
        violations.add(Violation::Value { key: place, found: words[0] });
        return;
    };
    let expected = element(words[1], stamp, place);
    if let Some(word) = (0..WORDS).find(|&word| words[word] != expected[word]) {
        let (expected, found) = (expected[word], words[word]);
        violations.add(Violation::Record { key: place, word, expected, found });
    }
}
