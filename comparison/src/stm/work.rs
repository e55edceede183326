//! Work of the comparison: operations, their order, and the expected contents.
//!
//! | work | structure | transaction |
//! |---|---|---|
//! | `hash` | 2^22 buckets of 16 bytes, every second of 2^21 keys there | insert or overwrite |
//! | `tatp` | 100 000 rows of 64 bytes, a hash table of 2^18 buckets | look up, write one word |
//! | `tree` | B+-tree of 512-byte nodes, every second of 2^22 keys there | insert or overwrite |
//! | `writes` | 64 MiB of words | write 200 words |
//! | `announced` | the same | prefetch 200 words, then write them |
//!
//! Keys and words are uniform, generated 256 transactions at a time, and passed to each system
//! alike. The low half of a value depends on its key, so the expected contents follow from the keys
//! in any order of commits.

use clap::ValueEnum;
use serde::Serialize;

use crate::draw::{Draw, mix};

/// Words that a transaction of `writes` writes.
pub(crate) const WRITES_EACH: u64 = 200;

/// Transactions generated at a time: 4 KiB of them.
pub(crate) const BATCH: usize = 256;

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// One transaction. For `writes` the key is a seed; see [`word`].
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Call {
    pub(crate) key: u64,
    pub(crate) value: u64,
}

/// One of the comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Work {
    /// Insert into a hash table.
    Hash,
    /// TATP's Update Location.
    Tatp,
    /// Insert into a B+-tree.
    Tree,
    /// 200 random words.
    Writes,
    /// 200 random words, announced first.
    Announced,
}

impl Work {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Work::Hash => "hash insert",
            Work::Tatp => "TATP update",
            Work::Tree => "B+-tree insert",
            Work::Writes => "200 writes",
            Work::Announced => "200 writes, announced",
        }
    }

    /// Buckets, subscribers, keys or words of a structure that is one of `shards`.
    pub(crate) fn size(self, shards: u64) -> u64 {
        let whole = match self {
            Work::Hash | Work::Tree => 1 << 22,
            Work::Tatp => 100_000,
            Work::Writes | Work::Announced => 1 << 23,
        };
        whole / shards
    }

    /// Keys are 1 up to this.
    pub(crate) fn keys(self, shards: u64) -> u64 {
        match self {
            Work::Hash => self.size(shards) / 2,
            _ => self.size(shards),
        }
    }

    /// Transactions for each second of the run, of all threads: about libitm's rate on one.
    pub(crate) fn per_second(self) -> f64 {
        match self {
            Work::Hash => 4e6,
            Work::Tatp => 7e6,
            Work::Tree => 1.4e6,
            Work::Writes | Work::Announced => 5e4,
        }
    }

    /// How many times libitm's rate DESIGN asks for.
    pub(crate) fn target(self) -> f64 {
        match self {
            Work::Hash => 2.5,
            Work::Tatp => 2.3,
            Work::Tree => 2.0,
            Work::Writes | Work::Announced => 3.4,
        }
    }

    fn is_writes(self) -> bool {
        matches!(self, Work::Writes | Work::Announced)
    }

    /// Loads the structure before timing: about every second key, in four rounds of ascending keys,
    /// which leave a tree's leaves as full as random order would.
    pub(crate) fn load(self, shards: u64, mut put: impl FnMut(Call)) {
        if !matches!(self, Work::Hash | Work::Tree) {
            return;
        }
        for round in 0..4 {
            for key in 1..=self.keys(shards) {
                if is_loaded(key) && (mix(key) >> 1) & 3 == round {
                    put(Call { key, value: low(key) });
                }
            }
        }
    }
}

/// The place of the k-th word of a transaction of `writes`; `mask` is the number of words less one.
#[inline]
pub(crate) fn word(seed: u64, k: u64, mask: u64) -> u64 {
    let at = seed.wrapping_add(k.wrapping_mul(GOLDEN));
    (at ^ at >> 32).wrapping_mul(GOLDEN) >> 32 & mask
}

/// The phone number of a subscriber.
#[inline]
pub(crate) fn number(id: u64) -> u64 {
    id.wrapping_mul(0x1_2345_6789_abcd) & ((1 << 49) - 1)
}

fn is_loaded(key: u64) -> bool {
    mix(key) & 1 == 0
}

/// The low half of every value that is ever written under a key.
#[inline]
fn low(key: u64) -> u64 {
    u64::from(mix(key) as u32) | 1
}

/// Generator of one thread's transactions.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    draw: Draw,
    work: Work,
    keys: u64,
    sequence: u64,
}

impl Source {
    pub(crate) fn new(work: Work, shards: u64, draw: Draw) -> Source {
        Source { draw, work, keys: work.keys(shards), sequence: 0 }
    }

    /// The next transactions.
    #[inline]
    pub(crate) fn fill(&mut self, calls: &mut [Call]) {
        for call in calls {
            self.sequence += 1;
            let stamp = self.sequence << 32;
            *call = match self.work.is_writes() {
                true => Call { key: self.draw.number(), value: stamp },
                false => {
                    let key = 1 + self.draw.below(self.keys);
                    Call { key, value: stamp | low(key) }
                }
            };
        }
    }
}

/// Sums of a structure's contents; `tatp` and `writes` count the rows or words written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    /// Whether the structure's invariants hold.
    pub(crate) sound: bool,
    pub(crate) count: u64,
    /// Sum of keys.
    pub(crate) keys: u64,
    /// Sum of the low halves of values.
    pub(crate) values: u64,
}

impl Content {
    pub(crate) const EMPTY: Content = Content { sound: true, count: 0, keys: 0, values: 0 };

    #[inline]
    pub(crate) fn add(&mut self, key: u64, value: u64) {
        self.count += 1;
        self.keys = self.keys.wrapping_add(key);
        self.values = self.values.wrapping_add(u64::from(value as u32));
    }

    /// Returns the expected contents after each source has run `each` transactions on a structure.
    pub(crate) fn expected(work: Work, shards: u64, sources: &[Source], each: u64) -> Content {
        let mut there = vec![false; work.keys(shards) as usize];
        work.load(shards, |call| there[call.key as usize - 1] = true);
        let mask = work.size(shards) - 1;
        let mut call = [Call::default()];
        for source in sources {
            let mut source = source.clone();
            for _ in 0..each {
                source.fill(&mut call);
                let key = call[0].key;
                match work.is_writes() {
                    true => (0..WRITES_EACH).for_each(|k| {
                        there[word(key, k, mask) as usize] = true;
                    }),
                    false => there[key as usize - 1] = true,
                }
            }
        }
        let mut content = Content::EMPTY;
        for key in (1..).zip(&there).filter_map(|(key, there)| there.then_some(key)) {
            content.add(key, if work.is_writes() { key } else { low(key) });
        }
        content
    }
}
