//! `writes`, `scatter`: blind writes of words all over an array.
//!
//! ```text
//!   the array   | first half:  ... a ......... b ...  | second half:  ... a' ........ b' ...  |
//!                                  ^           ^                          ^           ^
//!                                  one transaction writes a, b, ..., then a', b', ...
//! ```
//!
//! `writes` writes 200 words of 64 MiB a transaction, for large write sets. `scatter` writes 4
//! words of 432 MiB, which with headers is a heap of 512 MiB. It loads the reproduce step, as no
//! two words of a batch are neighbours. Both sizes are multiplied by the scale. Places are uniform,
//! or by Zipf's law with `--zipf`: popular places are scattered all over each half.
//!
//! Words half the array apart are a pair, written by the same transactions. At any time both carry
//! the stamp of the same transaction. A transaction of which only a part is present therefore
//! shows, be it the first or the last part, in the order of writing or of addresses. No read is
//! needed for this. A word that was never written is 0.

use rand_xoshiro::Xoshiro256PlusPlus;
use words::{Allocate, Array, BLOCK_BYTES, BLOCK_STRIDE, Place, Stop, Transact, Words, work};

use crate::keys::{below, generator};
use crate::root::{self, Build};
use crate::stamp::Stamp;
use crate::violation::Violations;
use crate::zipf::Zipf;
use crate::{Options, Supported, Violation, Workload, lock, scaled, with_slack};

/// Blocks that one transaction of loading prepares: 70 KB.
const BLOCKS: u64 = 256;

/// Pairs that one transaction of the check reads.
const CHECKED: u64 = 4096;

/// An array with `PAIRS` pairs of words a transaction.
#[derive(Clone, Copy, Debug)]
pub struct Blind<const PAIRS: usize> {
    words: Array<u64>,
}

/// 200 words a transaction.
pub type Writes = Blind<100>;

/// 4 words a transaction.
pub type Scatter = Blind<2>;

/// One worker's transactions on an array.
#[derive(Clone, Debug)]
pub struct BlindClient<const PAIRS: usize> {
    rng: Xoshiro256PlusPlus,
    stamp: Stamp,
    /// `None`: places are uniform.
    zipf: Option<Zipf>,
    /// The words in the first half.
    places: [u64; PAIRS],
}

impl<const PAIRS: usize> Build for Blind<PAIRS> {
    const NAME: &'static str = if PAIRS == 2 { "scatter" } else { "writes" };
    type Parts = Array<u64>;

    fn reserve<W: Allocate>(tx: &mut W, size: u64) -> Result<Array<u64>, Stop> {
        Array::reserve(tx, size)
    }

    /// Progress counts the steps so far; the array itself records the rest.
    fn step<W: Allocate>(
        words: Array<u64>,
        tx: &mut W,
        _size: u64,
        progress: u64,
    ) -> Result<Option<u64>, Stop> {
        let prepared = words.prepare(tx, BLOCKS)?;
        Ok((!prepared).then_some(progress + 1))
    }

    fn free<W: Allocate>(words: Array<u64>, tx: &mut W) -> Result<bool, Stop> {
        words.free(tx).map(|()| true)
    }
}

impl<const PAIRS: usize> Workload for Blind<PAIRS> {
    const NAME: &'static str = <Self as Build>::NAME;
    const ABOUT: &'static str = if PAIRS == 2 {
        "4 words all over a heap of 512 MiB: the cost of the reproduce step"
    } else {
        "200 words all over 64 MiB: a large write set"
    };
    const SUPPORTS: Supported = Supported { zipf: true, ..Supported::NOTHING };
    const ANNOUNCES: bool = true;
    type Client = BlindClient<PAIRS>;

    fn heap_bytes(options: &Options) -> u64 {
        with_slack((8 * Self::len(options)).div_ceil(BLOCK_BYTES) * BLOCK_STRIDE)
    }

    fn load<T: Transact>(worker: &mut T, options: &Options) -> Result<Self, T::Error> {
        Ok(Blind { words: root::load::<Self, T>(worker, Self::len(options))? })
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Self>, T::Error> {
        Ok(root::open::<Self, T>(worker)?.map(|(_, words)| Blind { words }))
    }

    fn client(&self, index: usize, seed: u64) -> BlindClient<PAIRS> {
        let (rng, stamp) = (generator(index, seed), Stamp::first(index, seed));
        BlindClient { rng, stamp, zipf: None, places: [0; PAIRS] }
    }

    fn tune(&self, client: &mut BlindClient<PAIRS>, options: &Options) {
        let exponent = options.zipf.filter(|exponent| *exponent > 0.0);
        client.zipf = exponent.map(|exponent| Zipf::new(self.words.len() / 2, exponent));
    }

    #[inline]
    fn next(&self, client: &mut BlindClient<PAIRS>) {
        let half = self.words.len() / 2;
        let BlindClient { rng, zipf, places, .. } = client;
        places.fill_with(|| match zipf {
            Some(zipf) => zipf.scattered(rng),
            None => below(rng, half),
        });
        client.stamp.advance();
    }

    #[inline]
    fn run<W: Allocate>(&self, client: &BlindClient<PAIRS>, tx: &mut W) -> Result<(), Stop> {
        tx.compute(work::FRAME);
        tx.lock(lock::ALL)?;
        for first in [0, self.words.len() / 2] {
            for place in client.places {
                tx.will_write(self.words.at(first + place)?.addr(), 8);
            }
        }
        for first in [0, self.words.len() / 2] {
            for place in client.places {
                let at = first + place;
                tx.write(self.words.at(at)?.addr(), client.stamp.value(at))?;
            }
        }
        Ok(())
    }

    fn is_present<W: Words>(&self, client: &BlindClient<PAIRS>, tx: &mut W) -> Result<bool, Stop> {
        tx.lock(lock::ALL)?;
        for first in [0, self.words.len() / 2] {
            for place in client.places {
                let at = first + place;
                let found = tx.read(self.words.at(at)?.addr())?;
                if !client.stamp.is_in(found, at) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<Violation>, T::Error> {
        let mut violations = Violations::default();
        let half = self.words.len() / 2;
        for begin in (0..half).step_by(CHECKED as usize) {
            let places = begin..(begin + CHECKED).min(half);
            let pairs = worker.transact(|tx| {
                let mut pairs = Vec::new();
                for place in places.clone() {
                    let one = tx.read(self.words.at(place)?.addr())?;
                    pairs.push((one, tx.read(self.words.at(half + place)?.addr())?));
                }
                Ok(pairs)
            })?;
            for (place, (one, other)) in places.zip(pairs) {
                check_pair((place, one), (half + place, other), &mut violations);
            }
        }
        Ok(violations.0)
    }
}

impl<const PAIRS: usize> Blind<PAIRS> {
    /// Returns the number of words of the array, which is even.
    fn len(options: &Options) -> u64 {
        let words = if PAIRS == 2 { 54 << 20 } else { 8 << 20 };
        2 * scaled(words / 2, options, 64)
    }
}

/// Checks two words, each with its place: unwritten, or both of the same transaction.
fn check_pair(one: (u64, u64), other: (u64, u64), violations: &mut Violations) {
    if one.1 == 0 && other.1 == 0 {
        return;
    }
    let stamps = [one, other].map(|(place, value)| (place, value, Stamp::of(value, place)));
    for (place, value, stamp) in stamps {
        if value != 0 && stamp.is_none() {
            violations.add(Violation::Value { key: place, found: value });
            return;
        }
    }
    if one.1 == 0 || other.1 == 0 || stamps[0].2 != stamps[1].2 {
        let (key, expected, found) = (other.0, one.1, other.1);
        violations.add(Violation::Pair { key, other: one.0, expected, found });
    }
}
