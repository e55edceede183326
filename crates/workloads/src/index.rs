//! What finds a row by its number: the maps that one workload can be run over.

use collections::{BTreeMap, Checked, HashMap, Inserted};
use words::{Allocate, BLOCK_STRIDE, Stop, Words};
use zerocopy::transmute;

use crate::tree;

/// Blocks that one transaction prepares, or nodes that one gives back.
const STEP: u64 = 256;

/// Buckets or leaves that one transaction of a check reads.
const CHECKED: u64 = 4096;

/// A map from numbers to row ids.
pub trait Index: Copy + Send + Sync {
    /// What a user calls TATP over it.
    const TATP_NAME: &'static str;

    /// One line about that.
    const TATP_ABOUT: &'static str;

    /// Bytes of the heap for so many rows, headers included.
    fn heap_bytes(rows: u64) -> u64;

    /// Room for so many rows.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    fn reserve<W: Allocate>(tx: &mut W, rows: u64) -> Result<Self, Stop>;

    /// One step of making it ready; whether it is.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    fn prepare<W: Allocate>(self, tx: &mut W) -> Result<bool, Stop>;

    /// The id of a number.
    ///
    /// # Errors
    /// As [`Words::read`].
    fn get<W: Words>(self, tx: &mut W, number: u64) -> Result<Option<u64>, Stop>;

    /// Puts a number that is not there yet.
    ///
    /// # Errors
    /// As [`Words::write`]; [`Stop::BadValue`] when it is there, or there is no room.
    fn insert<W: Allocate>(self, tx: &mut W, number: u64, id: u64) -> Result<(), Stop>;

    /// One part of the structure's own check.
    ///
    /// # Errors
    /// As [`Words::read`].
    fn check<W: Words>(self, tx: &mut W, from: u64) -> Result<Checked, Stop>;

    /// Gives a part back; whether that was all.
    ///
    /// # Errors
    /// As [`Words::write`].
    fn free<W: Words>(self, tx: &mut W) -> Result<bool, Stop>;

    /// As it stands in the workload's tables: one layout for every index.
    fn to_words(self) -> [u64; 3];

    /// The index that stands there.
    fn from_words(words: [u64; 3]) -> Self;
}

impl Index for HashMap {
    const TATP_NAME: &'static str = "tatp-hash";
    const TATP_ABOUT: &'static str = "TATP Update Location over a hash map: look up, write a field";

    fn heap_bytes(rows: u64) -> u64 {
        (buckets(rows) / 16 + 1) * BLOCK_STRIDE
    }

    fn reserve<W: Allocate>(tx: &mut W, rows: u64) -> Result<HashMap, Stop> {
        HashMap::reserve(tx, buckets(rows), 0)
    }

    fn prepare<W: Allocate>(self, tx: &mut W) -> Result<bool, Stop> {
        self.prepare(tx, STEP)
    }

    #[inline]
    fn get<W: Words>(self, tx: &mut W, number: u64) -> Result<Option<u64>, Stop> {
        self.get(tx, number)
    }

    fn insert<W: Allocate>(self, tx: &mut W, number: u64, id: u64) -> Result<(), Stop> {
        let done = self.insert(tx, number, id)?;
        if done == Inserted::New { Ok(()) } else { Err(Stop::BadValue) }
    }

    fn check<W: Words>(self, tx: &mut W, from: u64) -> Result<Checked, Stop> {
        self.check(tx, from, CHECKED)
    }

    fn free<W: Words>(self, tx: &mut W) -> Result<bool, Stop> {
        self.free(tx).map(|()| true)
    }

    fn to_words(self) -> [u64; 3] {
        transmute!(self)
    }

    fn from_words(words: [u64; 3]) -> HashMap {
        transmute!(words)
    }
}

impl Index for BTreeMap {
    const TATP_NAME: &'static str = "tatp-btree";
    const TATP_ABOUT: &'static str = "TATP Update Location over a b+-tree: look up, write a field";

    fn heap_bytes(rows: u64) -> u64 {
        tree::bytes(rows)
    }

    fn reserve<W: Allocate>(tx: &mut W, _rows: u64) -> Result<BTreeMap, Stop> {
        BTreeMap::create(tx)
    }

    fn prepare<W: Allocate>(self, _tx: &mut W) -> Result<bool, Stop> {
        Ok(true)
    }

    #[inline]
    fn get<W: Words>(self, tx: &mut W, number: u64) -> Result<Option<u64>, Stop> {
        self.get(tx, number)
    }

    fn insert<W: Allocate>(self, tx: &mut W, number: u64, id: u64) -> Result<(), Stop> {
        let before = self.insert(tx, number, id)?;
        if before.is_none() { Ok(()) } else { Err(Stop::BadValue) }
    }

    fn check<W: Words>(self, tx: &mut W, from: u64) -> Result<Checked, Stop> {
        self.check(tx, from, CHECKED / 16)
    }

    fn free<W: Words>(self, tx: &mut W) -> Result<bool, Stop> {
        self.free(tx, STEP)
    }

    fn to_words(self) -> [u64; 3] {
        [transmute!(self), 0, 0]
    }

    fn from_words([root, _, _]: [u64; 3]) -> BTreeMap {
        transmute!(root)
    }
}

fn buckets(rows: u64) -> u64 {
    (2 * rows).next_power_of_two().max(16)
}
