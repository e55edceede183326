//! `tpcc-hash`, `tpcc-btree`, `tpcc-btree-32`, `tpcc-rows`: New Order of the TPC-C benchmark, over
//! hash maps and over B+-trees (DudeTM, section 5.1; Pisces, section 5.3; LAD, table 2; TPC-C's
//! specification, revision 5.11).
//!
//! ```text
//!   index (a map): key -> number of a row        rows (an array)
//!   warehouses   w                               W: tax, year to date
//!   districts    w, d                            D: next order, tax, year to date    the hot row
//!   customers    w, d, c                         C: discount, balance | 500 bytes of text
//!   items        i                               I: price, name, text
//!   stock        w, i                            S: quantity, counts, ten texts | text
//!
//!   of each warehouse
//!   orders       w, d, o                         O                    slot o modulo kept
//!   new orders   w, d, o                         only its key
//!   lines        w, d, o, number                 L                    16 slots an order
//! ```
//!
//! The three indexes that orders change are each warehouse's own, as in tables partitioned by
//! warehouse, with which their keys begin. The other indexes are only read.
//!
//! Loaded as the specification says (clause 4.3): a warehouse has 10 districts, each of 3000
//! customers and 3000 orders, and stock of 100 000 items; some 150 MB and some seconds of loading.
//! The scale is the number of warehouses. A fraction of one has fewer rows of everything except
//! districts, and with [`Options::low_conflict`] it is divided into a warehouse for each worker.
//! Money is in cents, taxes and discounts in basis points.
//!
//! # The transaction (clause 2.4)
//!
//! An order has 5 to 15 lines. Customers and items are drawn by `NURand`, the district uniformly.
//! Of 100 lines one is delivered by another warehouse, if several exist. Of 100 orders one ends
//! with an unused item and rolls back, after all other work ([`Workload::gives_up`]). Text that
//! only appears on the terminal is not computed (names, "brand" or "generic"); the order's total
//! is. Rows are looked up before the first write, so that a district is locked as briefly as
//! possible.
//!
//! New Order alone would make the tables grow for ever. Here a district keeps its last 3000 orders:
//! each new one removes the oldest, its lines and its row of the new orders, as if it had been
//! delivered long ago. The rows of the new one take the places of the old one's; the indexes do
//! three kinds of inserts and of removals. All orders are undelivered, also the loaded ones (in the
//! specification's load 2100 of 3000 are delivered).
//!
//! A transaction writes 156 words over hash maps and 181 over trees (`lastword run tpcc-hash
//! --design volatile`); the paper counts 156.5 and 183.5.
//!
//! Each worker has its own row, its *terminal*, with the stamp of its last order, and totals that
//! the stock must agree with: 6 words more.
//!
//! `tpcc-rows` has no indexes of the tables that orders change. An order and its lines are placed
//! by their numbers, where the other variants have their rows, too. An order without a carrier is a
//! new order. It writes the rows alone, 13 to 33 lines of 64 bytes (LAD: 10 to 35). Rows that are
//! only read are found through trees.
//!
//! With [`Options::low_conflict`] each worker serves one district (DudeTM, section 5.6), and its
//! own warehouse delivers all lines. With as many warehouses as workers (`--scale`) each worker has
//! its own, and no two write the same object (Pisces, section 5.3). `tpcc-btree-32` is that
//! paper's: its trees' nodes have at most 32 children.
//!
//! # The consistency conditions (clause 3.3.2)
//!
//! | | condition, here | |
//! |---|---|---|
//! | 1 | a warehouse's year to date is the sum of its districts' | untouched by New Order |
//! | 2 | the next order less one is the greatest order, and the greatest new order | |
//! | 3 | new orders have no gap | |
//! | 4 | the sum of the line counts in a district's orders is its number of lines | |
//! | 5 | an order has no carrier if and only if it is a new order | all are |
//! | 6 | each order has as many lines as it says | |
//! | 7 | a line has no date of delivery if and only if its order has no carrier | |
//! | 8, 9 | warehouse's and district's year to date against the history | vacuous: Payment's |
//! | 10 | balance = lines delivered - history: -10.00 as loaded | none is delivered |
//! | 11 | orders - new orders = 2100, here 0: all are undelivered | |
//! | 12 | balance + payments = lines delivered: 0 | none is delivered |
//!
//! Checked besides: the maps' structure; stock quantities between 10 and 100 that follow from the
//! orders; sums of stock against terminals, and terminals against districts' next orders; each
//! line's amount against the item's price, and the kept lines against the stock's counts.

mod check;
mod client;
mod order;
mod rows;
mod tables;
#[cfg(test)]
mod tests;

use collections::raw::{BTree32, BTreeMap, HashMap};
use words::{Allocate, Objects, Stop, Transact, Words, field, work};

pub use client::TpccClient;

use crate::index::Index;
use crate::root::{self, Build};
use crate::{CLIENTS_MAX, Options, Supported, Violation, Workload, with_slack};
use rows::Terminal;
use tables::{Shape, Tables};

/// Districts of a warehouse.
const DISTRICTS: u64 = 10;

/// Most lines of an order.
const LINES_MAX: usize = 15;

/// Slots for the lines of an order: four blocks of four.
const LINE_SLOTS: u64 = 16;

/// A wholesale supplier whose tables are found through maps of type `I`. If `PLACED`, orders and
/// their lines are placed by their numbers instead.
#[derive(Clone, Copy, Debug)]
pub struct Tpcc<I, const PLACED: bool = false> {
    shape: Shape,
    tables: Tables,
    warehouses: I,
    districts: I,
    customers: I,
    items: I,
    stock: I,
}

/// A warehouse's own indexes.
#[derive(Clone, Copy, Debug)]
struct Own<I> {
    orders: I,
    new_orders: I,
    lines: I,
}

/// TPC-C's New Order over hash maps.
pub type TpccHash = Tpcc<HashMap>;

/// TPC-C's New Order over B+-trees.
pub type TpccBtree = Tpcc<BTreeMap>;

/// TPC-C's New Order over B+-trees of at most 32 children.
pub type TpccBtree32 = Tpcc<BTree32>;

/// The same, orders and their lines placed by their numbers.
pub type TpccRows = Tpcc<BTreeMap, true>;

impl<I: Index, const PLACED: bool> Workload for Tpcc<I, PLACED> {
    const NAME: &'static str = <Self as Build>::NAME;
    const ABOUT: &'static str = match PLACED {
        true => "TPC-C New Order, rows placed by their numbers: 5 to 15 lines an order",
        false => I::TPCC_ABOUT,
    };
    const SUPPORTS: Supported = Supported { low_conflict: true, ..Supported::NOTHING };
    const ANNOUNCES: bool = PLACED || I::ANNOUNCES;
    type Client = TpccClient;

    fn heap_bytes(options: &Options) -> u64 {
        with_slack(tables::bytes::<I>(Shape::of(options), PLACED))
    }

    fn load<T: Transact>(worker: &mut T, options: &Options) -> Result<Self, T::Error> {
        let shape = Shape::of(options);
        Ok(Self::of(shape, root::load::<Self, T>(worker, shape.size())?))
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Self>, T::Error> {
        let found = root::open::<Self, T>(worker)?;
        Ok(found.map(|(size, tables)| Self::of(Shape::of_size(size), tables)))
    }

    fn client(&self, index: usize, seed: u64) -> TpccClient {
        TpccClient::new(self.shape, index, seed)
    }

    fn tune(&self, client: &mut TpccClient, options: &Options) {
        client.keep_to_one_district(options.low_conflict, self.shape);
    }

    #[inline]
    fn next(&self, client: &mut TpccClient) {
        client.advance(self.shape);
    }

    #[inline]
    fn gives_up(&self, client: &TpccClient) -> bool {
        client.has_unused_item
    }

    #[inline]
    fn run<W: Allocate>(&self, client: &TpccClient, tx: &mut W) -> Result<(), Stop> {
        tx.compute(work::FRAME);
        client.locks.take(tx)?;
        self.new_order(client, tx)
    }

    fn is_present<W: Words>(&self, client: &TpccClient, tx: &mut W) -> Result<bool, Stop> {
        if client.has_unused_item {
            return Ok(true);
        }
        let terminal = self.tables.terminals.at(place_of_terminal(client.index))?;
        let found = tx.get(field!(terminal, Terminal, stamp))?;
        Ok(client.stamp.is_in(found, client.index))
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<Violation>, T::Error> {
        self.check_all(worker)
    }
}

impl<I: Index, const PLACED: bool> Tpcc<I, PLACED> {
    fn of(shape: Shape, tables: Tables) -> Self {
        let [warehouses, districts, customers, items, stock] = tables.indexes.map(I::from_words);
        Tpcc { shape, tables, warehouses, districts, customers, items, stock }
    }

    /// Returns the own indexes of a warehouse, counted from 1; `None` where rows are placed.
    #[inline]
    fn own<W: Words>(&self, tx: &mut W, warehouse: u64) -> Result<Option<Own<I>>, Stop> {
        if PLACED {
            return Ok(None);
        }
        let found = tx.get(self.tables.own.at(warehouse.wrapping_sub(1))?)?;
        let [orders, new_orders, lines] = found.map(I::from_words);
        Ok(Some(Own { orders, new_orders, lines }))
    }
}

/// Returns the place of a worker's terminal. Neighbours in number are far apart, because two blocks
/// side by side share a stripe of the transactional memory.
fn place_of_terminal(index: u64) -> u64 {
    const BITS: u32 = CLIENTS_MAX.trailing_zeros();
    index.reverse_bits() >> (u64::BITS - BITS)
}

/// Keys of the indexes. Warehouses, customers and items count from 1, as the specification has it;
/// districts too, through all warehouses.
mod key {
    pub(super) fn customer(district: u64, customer: u64) -> u64 {
        district << 16 | customer
    }

    pub(super) fn stock(warehouse: u64, item: u64) -> u64 {
        warehouse << 32 | item
    }

    pub(super) fn order(district: u64, order: u64) -> u64 {
        district << 44 | order
    }

    /// Returns the key of a line; `number` is from 1 to 15.
    pub(super) fn line(district: u64, order: u64, number: u64) -> u64 {
        district << 48 | order << 4 | number
    }

    /// Returns district and order of an order's key.
    pub(super) fn of_order(key: u64) -> (u64, u64) {
        (key >> 44, key & ((1 << 44) - 1))
    }

    /// Returns district, order and number of a line's key.
    pub(super) fn of_line(key: u64) -> (u64, u64, u64) {
        (key >> 48, key << 16 >> 20, key & 15)
    }
}
