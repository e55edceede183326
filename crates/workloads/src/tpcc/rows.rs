//! The rows, of the specification's sizes (clause 1.3) in whole words, and their loaded content,
//! which follows from their keys.

use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

use super::DISTRICTS;
use crate::keys::mix;
use crate::stamp::Stamp;

/// The text of one district in a row of stock.
pub(super) type Info = [u64; 3];

#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Warehouse {
    pub(super) id: u64,
    /// Basis points.
    pub(super) tax: u64,
    /// Cents.
    pub(super) year_to_date: u64,
    /// Name, address.
    text: [u8; 72],
}

#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct District {
    /// The ID of the district's next order.
    pub(super) next_order: u64,
    /// Basis points.
    pub(super) tax: u64,
    /// Number through all warehouses, from 1.
    pub(super) id: u64,
    /// Cents.
    pub(super) year_to_date: u64,
    /// Name, address.
    text: [u8; 72],
}

#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Customer {
    /// The key.
    pub(super) id: u64,
    /// Basis points.
    pub(super) discount: u64,
    /// Cents, two's complement.
    pub(super) balance: u64,
    /// Cents.
    pub(super) paid: u64,
    payments: u32,
    deliveries: u32,
    /// Names, address, phone, credit.
    text: [u8; 128],
}

/// The customer's long text, half of it.
pub(super) type CustomerText = [u64; 32];

#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Item {
    /// Cents.
    pub(super) price: u64,
    pub(super) id: u64,
    /// Image, name.
    text: [u8; 32],
    /// Text in which the word "ORIGINAL" may occur.
    data: [u8; 48],
}

/// The changing part of a row of stock.
#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Level {
    /// Pieces in stock, 10 to 100, in the lowest byte; above it, pieces ever ordered.
    amounts: u64,
    /// Orders, and those from other warehouses.
    pub(super) orders: u32,
    pub(super) remote: u32,
}

#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Stock {
    pub(super) level: Level,
    /// The texts for each district of the warehouse.
    pub(super) infos: [Info; 10],
}

/// The text of a row of stock that no order reads.
pub(super) type StockText = [u64; 7];

#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Order {
    pub(super) id: u64,
    /// The date: the stamp of the transaction stands for it.
    pub(super) entered: u64,
    pub(super) customer: u32,
    pub(super) district: u32,
    pub(super) lines: u16,
    /// 1 when no line is delivered by another warehouse.
    pub(super) all_local: u16,
    /// 0: none.
    pub(super) carrier: u32,
}

#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Line {
    pub(super) order: u64,
    pub(super) item: u32,
    pub(super) supplier: u16,
    pub(super) number: u8,
    pub(super) quantity: u8,
    /// Cents.
    pub(super) amount: u32,
    pub(super) district: u32,
    /// 0: not yet.
    pub(super) delivered: u64,
    pub(super) info: Info,
}

/// One worker's totals, a block of its own.
#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Terminal {
    /// Stamp of its last order.
    pub(super) stamp: u64,
    pub(super) done: Done,
    reserved: [u64; 26],
}

#[derive(Clone, Copy, Debug, Default, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Done {
    pub(super) orders: u64,
    pub(super) lines: u64,
    /// Pieces of everything.
    pub(super) quantity: u64,
    /// Lines that another warehouse delivers.
    pub(super) remote: u64,
    /// The last order's total in cents, as the terminal shows it.
    pub(super) total: u64,
}

const _: () = assert!(size_of::<Stock>() == 256);
const _: () = assert!(size_of::<Terminal>() == 256 && size_of::<Line>() == 56);

impl Level {
    pub(super) fn quantity(self) -> u64 {
        self.amounts & 0xff
    }

    pub(super) fn ordered(self) -> u64 {
        self.amounts >> 8
    }

    /// Takes so many pieces; refills by 91 when fewer than 10 would be left.
    #[inline]
    pub(super) fn take(self, pieces: u64, is_remote: bool) -> Level {
        let there = self.quantity();
        let left = if there >= pieces + 10 { there - pieces } else { there + 91 - pieces };
        Level {
            amounts: self.ordered().wrapping_add(pieces) << 8 | left & 0xff,
            orders: self.orders.wrapping_add(1),
            remote: self.remote.wrapping_add(u32::from(is_remote)),
        }
    }
}

impl Warehouse {
    /// 300 000.00.
    const YEAR_TO_DATE: u64 = 30_000_000;

    pub(super) fn loaded(id: u64) -> Warehouse {
        let tax = mix(id) % 2001;
        Warehouse { id, tax, year_to_date: Warehouse::YEAR_TO_DATE, text: text(id) }
    }
}

impl District {
    pub(super) fn loaded(id: u64, next_order: u64) -> District {
        let tax = mix(!id) % 2001;
        let year_to_date = Warehouse::YEAR_TO_DATE / DISTRICTS;
        District { next_order, tax, id, year_to_date, text: text(id) }
    }
}

impl Customer {
    /// -10.00.
    pub(super) const BALANCE: u64 = 1000_u64.wrapping_neg();

    /// 10.00.
    pub(super) const PAID: u64 = 1000;

    pub(super) fn loaded(key: u64) -> Customer {
        let (discount, text) = (mix(key) % 5001, text(key));
        let (balance, paid) = (Customer::BALANCE, Customer::PAID);
        Customer { id: key, discount, balance, paid, payments: 1, deliveries: 0, text }
    }
}

impl Item {
    /// 1.00 to 100.00.
    #[inline]
    pub(super) fn price(id: u64) -> u64 {
        100 + mix(id) % 9901
    }

    pub(super) fn loaded(id: u64) -> Item {
        Item { price: Item::price(id), id, text: text(id), data: text(!id) }
    }
}

impl Stock {
    /// 10 to 100.
    pub(super) fn quantity(key: u64) -> u64 {
        10 + mix(key) % 91
    }

    /// Returns the text of a district, from 0.
    pub(super) fn info(key: u64, district: u64) -> Info {
        let bytes: [u8; 24] = text(key << 4 | district);
        zerocopy::transmute!(bytes)
    }

    pub(super) fn loaded(key: u64) -> Stock {
        let level = Level { amounts: Stock::quantity(key), orders: 0, remote: 0 };
        Stock { level, infos: std::array::from_fn(|district| Stock::info(key, district as u64)) }
    }
}

impl Order {
    /// 5 to 15.
    pub(super) fn loaded_lines(key: u64) -> u64 {
        5 + mix(key) % 11
    }

    pub(super) fn loaded(key: u64, id: u64, district: u64, customer: u64) -> Order {
        Order {
            id,
            entered: Stamp::LOADED.value(key),
            customer: customer as u32,
            district: district as u32,
            lines: Order::loaded_lines(key) as u16,
            all_local: 1,
            carrier: 0,
        }
    }
}

impl Terminal {
    pub(super) fn is_unused(&self) -> bool {
        let Done { orders, lines, quantity, remote, total } = self.done;
        [self.stamp, orders, lines, quantity, remote, total] == [0; 6]
    }
}

/// Returns letters that follow from a number; `BYTES` is a multiple of 8.
pub(super) fn text<const BYTES: usize>(from: u64) -> [u8; BYTES] {
    let mut text = [0; BYTES];
    for (i, chunk) in text.chunks_exact_mut(8).enumerate() {
        let letters = mix(from.wrapping_add((i as u64) << 56)) & 0x0f0f_0f0f_0f0f_0f0f;
        chunk.copy_from_slice(&(letters + 0x6161_6161_6161_6161).to_le_bytes());
    }
    text
}
