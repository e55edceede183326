//! The findings of a workload's check.

use std::fmt;

use collections::raw::Damage;
use collections::{btree_map, hash_map};

/// A violated invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// A map is damaged.
    Structure(Damage),
    /// A typed hash map or hash set is damaged.
    HashMap(hash_map::Damage),
    /// A typed ordered map or set is damaged.
    BTreeMap(btree_map::Damage),
    /// Two numbers that must be equal are not.
    Count {
        /// The counted quantity.
        what: &'static str,
        /// Its expected value.
        expected: u64,
        /// Its value.
        found: u64,
    },
    /// A key that no transaction inserts.
    Key {
        /// Keys are below this.
        end: u64,
        /// The key.
        found: u64,
    },
    /// A value that no transaction wrote under this key.
    Value {
        /// The key.
        key: u64,
        /// The value, whose check bits do not fit this key.
        found: u64,
    },
    /// A torn record: a word does not follow from its stamp.
    Record {
        /// The key.
        key: u64,
        /// The word, from 0.
        word: usize,
        /// Its expected value.
        expected: u64,
        /// Its value.
        found: u64,
    },
    /// A consistency condition of TPC-C (clause 3.3.2 of its specification).
    Condition {
        /// Its number there, 1 to 12.
        number: u8,
        /// The district, or the warehouse where the condition is about one; from 1.
        place: u64,
        /// The expected value.
        expected: u64,
        /// The value.
        found: u64,
    },
    /// A partial transaction: words that are always written together carry different stamps.
    Pair {
        /// The word's place.
        key: u64,
        /// The other's.
        other: u64,
        /// The other's value.
        expected: u64,
        /// The value.
        found: u64,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Violation::Structure(damage) => damage.fmt(f),
            Violation::HashMap(damage) => write!(f, "damage found in a hash map: {damage}"),
            Violation::BTreeMap(damage) => write!(f, "damage found in an ordered map: {damage}"),
            Violation::Count { what, expected, found } => {
                write!(f, "{what}: expected {expected}, found {found}")
            }
            Violation::Key { end, found } => {
                write!(f, "expected keys below {end}, found {found}")
            }
            Violation::Value { key, found } => {
                write!(f, "key {key}: expected a stamp of this key, found {found:#x}")
            }
            Violation::Record { key, word, expected, found } => {
                write!(f, "key {key}, word {word}: expected {expected:#x}, found {found:#x}")
            }
            Violation::Condition { number, place, expected, found } => {
                let about = if number == 1 { "warehouse" } else { "district" };
                write!(f, "TPC-C condition 3.3.2.{number}, {about} {place}: ")?;
                write!(f, "expected {expected}, found {found}")
            }
            Violation::Pair { key, other, expected, found } => {
                let (one, two) = (found, expected);
                write!(f, "word {key}: expected word {other}'s stamp, {two:#x}, found {one:#x}")
            }
        }
    }
}

/// Number of violations that a check lists at most.
const VIOLATIONS_MAX: usize = 100;

/// Collects the first violations.
#[derive(Default)]
pub(crate) struct Violations(pub(crate) Vec<Violation>);

impl Violations {
    pub(crate) fn add(&mut self, violation: Violation) {
        if self.0.len() < VIOLATIONS_MAX {
            self.0.push(violation);
        }
    }

    pub(crate) fn add_damage(&mut self, damage: Vec<Damage>) {
        damage.into_iter().for_each(|damage| self.add(Violation::Structure(damage)));
    }

    pub(crate) fn condition(&mut self, number: u8, place: u64, expected: u64, found: u64) {
        if expected != found {
            self.add(Violation::Condition { number, place, expected, found });
        }
    }

    pub(crate) fn expect(&mut self, what: &'static str, expected: u64, found: u64) {
        if expected != found {
            self.add(Violation::Count { what, expected, found });
        }
    }
}
