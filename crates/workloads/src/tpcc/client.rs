//! The parameters of a client's orders: clauses 2.4.1 and 2.1.6 of the specification.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;
use words::LockId;

use super::tables::Shape;
use super::{DISTRICTS, LINES_MAX};
use crate::keys::{below, generator};
use crate::lock::{self, Locks};
use crate::stamp::Stamp;

/// The constants C of the specification's `NURand`, one for customers and one for items; any
/// number is allowed.
const C_CUSTOMER: u64 = 259;
const C_ITEM: u64 = 7911;

/// One worker's orders.
#[derive(Clone, Debug)]
pub struct TpccClient {
    rng: Xoshiro256PlusPlus,
    pub(super) index: u64,
    pub(super) stamp: Stamp,
    /// The client's own warehouse (TPC-C: home warehouse).
    pub(super) warehouse: u64,
    /// The one district that it serves, in its warehouse, from 0; `None`: any.
    only: Option<u64>,
    /// Whether other warehouses deliver some lines.
    sends_away: bool,
    /// The district's number through all warehouses.
    pub(super) district: u64,
    pub(super) customer: u64,
    pub(super) has_unused_item: bool,
    count: usize,
    lines: [Wanted; LINES_MAX],
    /// The locks of the order: those of its own warehouse and of the delivering ones. Its other
    /// writes are its worker's alone.
    pub(super) locks: Locks<{ 1 + LINES_MAX }>,
}

/// A line of an order, as the customer requests it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted {
    pub(super) item: u64,
    pub(super) supplier: u64,
    pub(super) quantity: u64,
}

impl TpccClient {
    pub(super) fn new(shape: Shape, index: usize, seed: u64) -> TpccClient {
        let (rng, stamp) = (generator(index, seed), Stamp::first(index, seed));
        TpccClient {
            rng,
            index: index as u64,
            stamp,
            warehouse: 1 + index as u64 % shape.warehouses,
            only: None,
            sends_away: true,
            district: 0,
            customer: 0,
            has_unused_item: false,
            count: 0,
            lines: [Wanted::default(); LINES_MAX],
            locks: Locks::NONE,
        }
    }

    /// Restricts the client to one district of its own warehouse, if wanted: a different one for
    /// each worker, while enough exist.
    pub(super) fn keep_to_one_district(&mut self, is_wanted: bool, shape: Shape) {
        self.sends_away = !is_wanted;
        // Neighbours in number are in different warehouses, if several exist.
        let rank = self.index / shape.warehouses % DISTRICTS;
        // First every other district: of two districts next to each other in an index one would
        // insert where the other removes, in one leaf of a tree.
        self.only = is_wanted.then_some((2 * rank + rank / (DISTRICTS / 2)) % DISTRICTS);
    }

    pub(super) fn lines(&self) -> &[Wanted] {
        &self.lines[..self.count]
    }

    #[inline]
    pub(super) fn advance(&mut self, shape: Shape) {
        let rng = &mut self.rng;
        let district = self.only.unwrap_or_else(|| below(rng, DISTRICTS));
        self.district = 1 + (self.warehouse - 1) * DISTRICTS + district;
        self.customer = uneven(rng, 1023, C_CUSTOMER, shape.customers());
        self.count = 5 + below(rng, 11) as usize;
        for line in &mut self.lines[..self.count] {
            let item = uneven(rng, 8191, C_ITEM, shape.items());
            let random = rng.next_u64();
            let quantity = 1 + (random & 0xffff_ffff) * 10 / (1 << 32);
            let is_remote =
                self.sends_away && shape.warehouses > 1 && (random >> 32) * 100 / (1 << 32) == 0;
            *line = Wanted { item, supplier: self.warehouse, quantity };
            if is_remote {
                let other = below(rng, shape.warehouses - 1);
                line.supplier = 1 + (self.warehouse + other) % shape.warehouses;
            }
        }
        self.has_unused_item = below(rng, 100) == 0;
        if self.has_unused_item {
            self.lines[self.count - 1].item = shape.items() + 1;
        }
        let suppliers = self.lines[..self.count].iter().map(|line| line.supplier);
        let others = suppliers.filter(|&supplier| supplier != self.warehouse);
        let warehouses = others.chain([self.warehouse]);
        self.locks = Locks::of(warehouses.map(|warehouse| LockId::of(lock::ROWS, warehouse)));
        self.stamp.advance();
    }
}

/// Draws `NURand(a, 1, end)`: some numbers from 1 to `end` more often than others.
#[inline]
fn uneven(rng: &mut Xoshiro256PlusPlus, a: u64, c: u64, end: u64) -> u64 {
    let random = rng.next_u64();
    // Of `a + 1` numbers, a power of two; and of `end`, which is far below 2^32.
    let even = ((random >> 32) * end) >> 32;
    ((random & a | even) + c) % end + 1
}
