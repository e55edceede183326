//! Indexes from a row's number to its ID, over which one workload can run.

use collections::raw::{BTree, Checked, HashMap, Inserted};
use words::{Allocate, BLOCK_STRIDE, Stop, Words};
use zerocopy::transmute;

use crate::tree;

/// Blocks that one transaction prepares, or nodes that one frees.
const STEP: u64 = 256;

/// Buckets or leaves that one transaction of a check reads.
const CHECKED: u64 = 4096;

/// A map from numbers to row IDs.
pub trait Index: Copy + Send + Sync + 'static {
    /// The command-line name of TATP over it.
    const TATP_NAME: &'static str;

    /// A description of that of one line.
    const TATP_ABOUT: &'static str;

    /// The command-line name of TPC-C over it.
    const TPCC_NAME: &'static str;

    /// A description of that of one line.
    const TPCC_ABOUT: &'static str;

    /// Whether the place of a number is known before it is inserted or removed.
    const ANNOUNCES: bool;

    /// Returns the heap bytes for so many rows, headers included.
    fn heap_bytes(rows: u64) -> u64;

    /// Reserves an index for so many rows.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    fn reserve<W: Allocate>(tx: &mut W, rows: u64) -> Result<Self, Stop>;

    /// Prepares it by one step; returns whether it is ready.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    fn prepare<W: Allocate>(self, tx: &mut W) -> Result<bool, Stop>;

    /// Returns the ID of a number.
    ///
    /// # Errors
    /// As [`Words::read`].
    fn get<W: Words>(self, tx: &mut W, number: u64) -> Result<Option<u64>, Stop>;

    /// Looks up the IDs of several numbers together; `ids` is as long or longer.
    ///
    /// # Errors
    /// As [`Words::read`].
    fn get_all<W: Words>(
        self,
        tx: &mut W,
        numbers: &[u64],
        ids: &mut [Option<u64>],
    ) -> Result<(), Stop>;

    /// Hints that this number will be inserted or removed soon.
    fn will_change<W: Words>(self, tx: &mut W, number: u64);

    /// Removes a number; returns its ID.
    ///
    /// # Errors
    /// As [`Words::write`].
    fn remove<W: Allocate>(self, tx: &mut W, number: u64) -> Result<Option<u64>, Stop>;

    /// Calls `visit` with up to some thousand pairs from position `from` on (the first is 0);
    /// returns the next position, `None` at the end.
    ///
    /// # Errors
    /// As [`Words::read`].
    fn scan<W: Words>(
        self,
        tx: &mut W,
        from: u64,
        visit: impl FnMut(u64, u64),
    ) -> Result<Option<u64>, Stop>;

    /// Inserts a number that is not present yet.
    ///
    /// # Errors
    /// As [`Words::write`]; [`Stop::BadValue`] when it is present, or the index is full.
    fn insert<W: Allocate>(self, tx: &mut W, number: u64, id: u64) -> Result<(), Stop>;

    /// Checks one part of the structure.
    ///
    /// # Errors
    /// As [`Words::read`].
    fn check<W: Words>(self, tx: &mut W, from: u64) -> Result<Checked, Stop>;

    /// Frees a part; returns whether that was all.
    ///
    /// # Errors
    /// As [`Words::write`].
    fn free<W: Words>(self, tx: &mut W) -> Result<bool, Stop>;

    /// Encodes it for the workload's tables, which have one layout for every index.
    fn to_words(self) -> [u64; 3];

    /// Decodes it from the workload's tables.
    fn from_words(words: [u64; 3]) -> Self;
}

impl Index for HashMap {
    const TATP_NAME: &'static str = "tatp-hash";
    const TATP_ABOUT: &'static str = "TATP Update Location over a hash map: look up, write a field";
    const TPCC_NAME: &'static str = "tpcc-hash";
    const TPCC_ABOUT: &'static str = "TPC-C New Order over hash maps: 5 to 15 lines an order";
    const ANNOUNCES: bool = true;

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

    #[inline]
    fn get_all<W: Words>(
        self,
        tx: &mut W,
        numbers: &[u64],
        ids: &mut [Option<u64>],
    ) -> Result<(), Stop> {
        numbers.iter().for_each(|&number| self.will_get(tx, number));
        for (id, &number) in ids.iter_mut().zip(numbers) {
            *id = self.get(tx, number)?;
        }
        Ok(())
    }

    #[inline]
    fn will_change<W: Words>(self, tx: &mut W, number: u64) {
        self.will_insert(tx, number);
    }

    #[inline]
    fn remove<W: Allocate>(self, tx: &mut W, number: u64) -> Result<Option<u64>, Stop> {
        self.remove(tx, number)
    }

    fn scan<W: Words>(
        self,
        tx: &mut W,
        from: u64,
        visit: impl FnMut(u64, u64),
    ) -> Result<Option<u64>, Stop> {
        self.scan(tx, from, CHECKED, visit)
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

impl<const SLOTS: usize> Index for BTree<SLOTS> {
    const TATP_NAME: &'static str = "tatp-btree";
    const TATP_ABOUT: &'static str = "TATP Update Location over a b+-tree: look up, write a field";
    const TPCC_NAME: &'static str = if SLOTS == 28 { "tpcc-btree" } else { "tpcc-btree-32" };
    const TPCC_ABOUT: &'static str = if SLOTS == 28 {
        "TPC-C New Order over b+-trees: 5 to 15 lines an order"
    } else {
        "the same over b+-trees of at most 32 children"
    };
    const ANNOUNCES: bool = false;

    fn heap_bytes(rows: u64) -> u64 {
        tree::bytes::<SLOTS>(rows)
    }

    fn reserve<W: Allocate>(tx: &mut W, _rows: u64) -> Result<BTree<SLOTS>, Stop> {
        BTree::create(tx)
    }

    fn prepare<W: Allocate>(self, _tx: &mut W) -> Result<bool, Stop> {
        Ok(true)
    }

    #[inline]
    fn get<W: Words>(self, tx: &mut W, number: u64) -> Result<Option<u64>, Stop> {
        self.get(tx, number)
    }

    #[inline]
    fn get_all<W: Words>(
        self,
        tx: &mut W,
        numbers: &[u64],
        ids: &mut [Option<u64>],
    ) -> Result<(), Stop> {
        for (id, &number) in ids.iter_mut().zip(numbers) {
            *id = self.get(tx, number)?;
        }
        Ok(())
    }

    /// No hint: only the descent finds the place.
    #[inline]
    fn will_change<W: Words>(self, _tx: &mut W, _number: u64) {}

    #[inline]
    fn remove<W: Allocate>(self, tx: &mut W, number: u64) -> Result<Option<u64>, Stop> {
        self.remove(tx, number)
    }

    fn scan<W: Words>(
        self,
        tx: &mut W,
        from: u64,
        visit: impl FnMut(u64, u64),
    ) -> Result<Option<u64>, Stop> {
        let (mut visit, mut last) = (visit, 0);
        let Some(cursor) = self.cursor(from..) else { return Ok(None) };
        let more = cursor.read(tx, CHECKED, |key, value| {
            last = key;
            visit(key, value);
        })?;
        Ok(more.map(|_| last + 1)) // more keys follow, so the last one is not the greatest
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

    fn from_words([root, _, _]: [u64; 3]) -> BTree<SLOTS> {
        transmute!(root)
    }
}

fn buckets(rows: u64) -> u64 {
    (2 * rows).next_power_of_two().max(16)
}
