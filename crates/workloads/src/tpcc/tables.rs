//! The sizes of the tables, their places, and their loading.

use words::{Allocate, Array, BLOCK_BYTES, BLOCK_STRIDE, Objects, Persist, Stop, Words};
use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

use super::rows::{
    Customer, CustomerText, District, Item, Line, Order, Stock, StockText, Terminal, Warehouse,
    text,
};
use super::{DISTRICTS, LINE_SLOTS, LINES_MAX, Tpcc, key};
use crate::index::Index;
use crate::keys::mix;
use crate::root::Build;
use crate::stamp::Stamp;
use crate::zipf::{scatter, scattering};
use crate::{CLIENTS_MAX, Options};

/// Customers of a district, and orders that it keeps, at scale 1.
const CUSTOMERS: u64 = 3000;

/// Fewest customers of a district.
const CUSTOMERS_MIN: u64 = 4;

/// Items for each 3 customers of a district: 100 000 for 3000.
const ITEMS_EACH_3: u64 = 100;

/// Most warehouses: a supplier is stored in 16 bits, a district in a key's upper 16.
const WAREHOUSES_MAX: u64 = 4000;

/// Blocks that one transaction of loading prepares.
const BLOCKS: u64 = 256;

/// Rows that one transaction of loading fills; an order with its lines counts as one.
const ROWS: u64 = 32;

/// Distance of the rows of two districts, such that no two share a stripe of the transactional
/// memory.
const DISTRICT_STRIDE: u64 = 3;

/// Indexes that all warehouses share: orders do not change them.
const COMMON: usize = 5;

/// Indexes of each warehouse.
const OWN: u64 = 3;

/// Arrays that loading prepares.
const ARRAYS: u64 = 11;

/// The sizes of all tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) warehouses: u64,
    customers: u64,
}

impl Shape {
    /// Returns the shape for these options. The scale gives the number of warehouses, rounded up. A
    /// fraction of one warehouse is divided among the workers that keep to their own.
    pub(super) fn of(options: &Options) -> Shape {
        let Options { scale, workers, low_conflict, .. } = *options;
        let own = if low_conflict && scale < 1.0 { workers as f64 } else { 1.0 };
        let warehouses = scale.ceil().max(own).clamp(1.0, WAREHOUSES_MAX as f64);
        let customers = (CUSTOMERS as f64 * scale / warehouses).round() as u64;
        let customers = customers.clamp(CUSTOMERS_MIN, CUSTOMERS);
        Shape { warehouses: warehouses as u64, customers }
    }

    /// Returns the number in the root that determines the shape.
    pub(super) fn size(self) -> u64 {
        self.warehouses << 32 | self.customers
    }

    /// Decodes that number; for any value of a damaged root, no product of two fields overflows.
    pub(super) fn of_size(size: u64) -> Shape {
        let warehouses = (size >> 32).clamp(1, WAREHOUSES_MAX);
        let customers = (size & 0xffff_ffff).clamp(CUSTOMERS_MIN, CUSTOMERS);
        Shape { warehouses, customers }
    }

    /// Customers of one district.
    pub(super) fn customers(self) -> u64 {
        self.customers
    }

    /// Orders that a district keeps: as many as it has customers.
    pub(super) fn kept(self) -> u64 {
        self.customers
    }

    /// Items, the same in all warehouses.
    pub(super) fn items(self) -> u64 {
        self.customers * ITEMS_EACH_3 / 3
    }

    /// Districts of all warehouses.
    pub(super) fn districts(self) -> u64 {
        self.warehouses * DISTRICTS
    }

    /// Rows of the orders.
    pub(super) fn orders(self) -> u64 {
        self.districts() * self.kept()
    }

    /// Rows of each common index.
    fn indexed(self) -> [u64; COMMON] {
        let Shape { warehouses, customers } = self;
        let (districts, items) = (self.districts(), self.items());
        [warehouses, districts, districts * customers, items, warehouses * items]
    }

    /// Most rows of each of a warehouse's own indexes.
    fn indexed_each(self) -> [u64; OWN as usize] {
        let orders = DISTRICTS * self.kept();
        [orders, orders, orders * LINES_MAX as u64]
    }

    /// Tables that loading prepares: arrays, then indexes; only the common ones if rows are placed.
    fn prepared(self, placed: bool) -> u64 {
        ARRAYS + COMMON as u64 + if placed { 0 } else { OWN * self.warehouses }
    }

    /// Returns the place of an order's row.
    pub(super) fn slot(self, district: u64, order: u64) -> u64 {
        (district - 1) * self.kept() + order % self.kept()
    }
}

/// An index, as encoded in the tables.
pub(super) type Place = [u64; 3];

/// An index that is not made yet.
const NOWHERE: Place = [0; 3];

/// The tables of the workload.
#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Tables {
    /// Warehouses, districts, customers, items, stock.
    pub(super) indexes: [Place; COMMON],
    /// For each warehouse: orders, new orders, lines.
    pub(super) own: Array<[Place; OWN as usize]>,
    pub(super) warehouses: Array<Warehouse>,
    pub(super) districts: Array<District>,
    pub(super) customers: Array<Customer>,
    customer_texts: Array<CustomerText>,
    pub(super) items: Array<Item>,
    pub(super) stock: Array<Stock>,
    stock_texts: Array<StockText>,
    pub(super) orders: Array<Order>,
    pub(super) lines: Array<Line>,
    pub(super) terminals: Array<Terminal>,
    /// Number of indexes freed.
    freed: Array<u64>,
}

impl Tables {
    /// Returns an index by its number, the common ones first; `None` after the last.
    fn index<W: Words>(&self, tx: &mut W, number: u64) -> Result<Option<Place>, Stop> {
        let Some(own) = number.checked_sub(COMMON as u64) else {
            return Ok(Some(self.indexes[number as usize]));
        };
        match own / OWN < self.own.len() {
            true => Ok(Some(tx.get(self.own.at(own / OWN)?)?[(own % OWN) as usize])),
            false => Ok(None),
        }
    }
}

/// Returns the heap bytes, headers included; where orders are placed they have no indexes.
pub(super) fn bytes<I: Index>(shape: Shape, placed: bool) -> u64 {
    fn rows<T>(rows: u64) -> u64 {
        rows.div_ceil(BLOCK_BYTES / size_of::<T>() as u64) * BLOCK_STRIDE
    }
    let [warehouses, districts, customers, items, stock] = shape.indexed();
    let orders = shape.orders();
    let common: u64 = shape.indexed().into_iter().map(I::heap_bytes).sum();
    let each = if placed { [0; OWN as usize] } else { shape.indexed_each().map(I::heap_bytes) };
    let own: u64 = each.into_iter().sum();
    common
        + own * warehouses
        + rows::<[Place; OWN as usize]>(warehouses)
        + rows::<Warehouse>(warehouses)
        + rows::<District>(districts * DISTRICT_STRIDE)
        + rows::<Customer>(customers)
        + rows::<CustomerText>(2 * customers)
        + rows::<Item>(items)
        + rows::<Stock>(stock)
        + rows::<StockText>(stock)
        + rows::<Order>(orders)
        + rows::<Line>(orders * LINE_SLOTS)
        + rows::<Terminal>(CLIENTS_MAX as u64)
}

impl<I: Index, const PLACED: bool> Build for Tpcc<I, PLACED> {
    const NAME: &'static str = if PLACED { "tpcc-rows" } else { I::TPCC_NAME };
    type Parts = Tables;

    fn reserve<W: Allocate>(tx: &mut W, size: u64) -> Result<Tables, Stop> {
        let shape = Shape::of_size(size);
        let mut indexes = [NOWHERE; COMMON];
        for (index, rows) in indexes.iter_mut().zip(shape.indexed()) {
            *index = I::reserve(tx, rows)?.to_words();
        }
        let [warehouses, districts, customers, items, stock] = shape.indexed();
        let orders = shape.orders();
        Ok(Tables {
            indexes,
            own: Array::reserve(tx, warehouses)?,
            warehouses: Array::reserve(tx, warehouses)?,
            districts: Array::reserve(tx, districts * DISTRICT_STRIDE)?,
            customers: Array::reserve(tx, customers)?,
            customer_texts: Array::reserve(tx, 2 * customers)?,
            items: Array::reserve(tx, items)?,
            stock: Array::reserve(tx, stock)?,
            stock_texts: Array::reserve(tx, stock)?,
            orders: Array::reserve(tx, orders)?,
            lines: Array::reserve(tx, orders * LINE_SLOTS)?,
            terminals: Array::reserve(tx, CLIENTS_MAX as u64)?,
            freed: Array::create(tx, 1)?,
        })
    }

    /// Progress below [`Shape::prepared`]: the table that is prepared; from there on: the next row.
    fn step<W: Allocate>(
        tables: Tables,
        tx: &mut W,
        size: u64,
        progress: u64,
    ) -> Result<Option<u64>, Stop> {
        let shape = Shape::of_size(size);
        let this = Self::of(shape, tables);
        let Some(first) = progress.checked_sub(shape.prepared(PLACED)) else {
            let is_prepared = this.prepare(tx, progress)?;
            return Ok(Some(progress + u64::from(is_prepared)));
        };
        for row in first..first + ROWS {
            if !this.load_row(tx, row)? {
                return Ok(None);
            }
        }
        Ok(Some(progress + ROWS))
    }

    fn free<W: Allocate>(tables: Tables, tx: &mut W) -> Result<bool, Stop> {
        let freed = tables.freed.at(0)?;
        let count = tx.get(freed)?;
        // An unprepared array cannot be read.
        if !tables.own.prepare(tx, BLOCKS)? {
            return Ok(false);
        }
        if let Some(index) = tables.index(tx, count)? {
            let is_gone = index == NOWHERE || I::from_words(index).free(tx)?;
            tx.set(freed, count + u64::from(is_gone))?;
            return Ok(false);
        }
        tables.own.free(tx)?;
        tables.warehouses.free(tx)?;
        tables.districts.free(tx)?;
        tables.customers.free(tx)?;
        tables.customer_texts.free(tx)?;
        tables.items.free(tx)?;
        tables.stock.free(tx)?;
        tables.stock_texts.free(tx)?;
        tables.orders.free(tx)?;
        tables.lines.free(tx)?;
        tables.terminals.free(tx)?;
        tables.freed.free(tx)?;
        Ok(true)
    }
}

/// Returns the place of a district's row.
pub(super) fn place_of_district(id: u64) -> u64 {
    id.wrapping_sub(1).wrapping_mul(DISTRICT_STRIDE)
}

impl<I: Index, const PLACED: bool> Tpcc<I, PLACED> {
    /// Prepares an index or an array by one step; returns whether it is ready.
    fn prepare<W: Allocate>(&self, tx: &mut W, which: u64) -> Result<bool, Stop> {
        fn array<W: Allocate, T: Persist>(tx: &mut W, array: Array<T>) -> Result<bool, Stop> {
            array.prepare(tx, BLOCKS)
        }
        let tables = &self.tables;
        match which {
            0 => array(tx, tables.own),
            1 => array(tx, tables.warehouses),
            2 => array(tx, tables.districts),
            3 => array(tx, tables.customers),
            4 => array(tx, tables.customer_texts),
            5 => array(tx, tables.items),
            6 => array(tx, tables.stock),
            7 => array(tx, tables.stock_texts),
            8 => array(tx, tables.orders),
            9 => array(tx, tables.lines),
            10 => array(tx, tables.terminals),
            _ => self.prepare_index(tx, which - ARRAYS),
        }
    }

    /// Prepares an index by its number; makes a warehouse's own one first.
    fn prepare_index<W: Allocate>(&self, tx: &mut W, number: u64) -> Result<bool, Stop> {
        let found = self.tables.index(tx, number)?.ok_or(Stop::BadValue)?;
        if found != NOWHERE {
            return I::from_words(found).prepare(tx);
        }
        let (warehouse, which) = ((number - COMMON as u64) / OWN, (number - COMMON as u64) % OWN);
        let made = I::reserve(tx, self.shape.indexed_each()[which as usize])?;
        let place = self.tables.own.at(warehouse)?;
        let mut own = tx.get(place)?;
        own[which as usize] = made.to_words();
        tx.set(place, own)?;
        Ok(false)
    }

    /// Loads a row, counted through all tables; returns whether it exists.
    fn load_row<W: Allocate>(&self, tx: &mut W, row: u64) -> Result<bool, Stop> {
        let mut left = row;
        let rows = self.shape.indexed().into_iter().chain([self.shape.orders()]);
        let table = { rows }.position(|rows| {
            let is_here = left < rows;
            left -= if is_here { 0 } else { rows };
            is_here
        });
        match table {
            Some(0) => self.load_warehouse(tx, left)?,
            Some(1) => self.load_district(tx, left)?,
            Some(2) => self.load_customer(tx, left)?,
            Some(3) => self.load_item(tx, left)?,
            Some(4) => self.load_stock(tx, left)?,
            Some(_) => self.load_order(tx, left)?,
            None => return Ok(false),
        }
        Ok(true)
    }

    fn load_warehouse<W: Allocate>(&self, tx: &mut W, row: u64) -> Result<(), Stop> {
        self.warehouses.insert(tx, row + 1, row)?;
        tx.set(self.tables.warehouses.at(row)?, Warehouse::loaded(row + 1))
    }

    fn load_district<W: Allocate>(&self, tx: &mut W, row: u64) -> Result<(), Stop> {
        let (id, place) = (row + 1, place_of_district(row + 1));
        self.districts.insert(tx, id, place)?;
        let loaded = District::loaded(id, self.shape.kept() + 1);
        tx.set(self.tables.districts.at(place)?, loaded)
    }

    fn load_customer<W: Allocate>(&self, tx: &mut W, row: u64) -> Result<(), Stop> {
        let customers = self.shape.customers();
        let key = key::customer(row / customers + 1, row % customers + 1);
        self.customers.insert(tx, key, row)?;
        tx.set(self.tables.customers.at(row)?, Customer::loaded(key))?;
        for half in 0..2 {
            let bytes: [u8; 256] = text(key << 8 | half);
            let place = self.tables.customer_texts.at(2 * row + half)?;
            tx.set(place, zerocopy::transmute!(bytes))?;
        }
        Ok(())
    }

    fn load_item<W: Allocate>(&self, tx: &mut W, row: u64) -> Result<(), Stop> {
        self.items.insert(tx, row + 1, row)?;
        tx.set(self.tables.items.at(row)?, Item::loaded(row + 1))
    }

    fn load_stock<W: Allocate>(&self, tx: &mut W, row: u64) -> Result<(), Stop> {
        let items = self.shape.items();
        let key = key::stock(row / items + 1, row % items + 1);
        self.stock.insert(tx, key, row)?;
        tx.set(self.tables.stock.at(row)?, Stock::loaded(key))?;
        let bytes: [u8; 56] = text(!key);
        tx.set(self.tables.stock_texts.at(row)?, zerocopy::transmute!(bytes))
    }

    /// Loads an order, its row of the new orders and its lines.
    fn load_order<W: Allocate>(&self, tx: &mut W, row: u64) -> Result<(), Stop> {
        let kept = self.shape.kept();
        let (district, id) = (row / kept + 1, row % kept + 1);
        let key = key::order(district, id);
        let slot = self.shape.slot(district, id);
        // Each customer has one order, in a scattered sequence.
        let customer = 1 + scatter((id + district) % kept, scattering(kept), kept);
        let order = Order::loaded(key, id, district, customer);
        let supplier = (district - 1) / DISTRICTS + 1;
        let own = self.own(tx, supplier)?;
        if let Some(own) = own {
            own.orders.insert(tx, key, slot)?;
            own.new_orders.insert(tx, key, id)?;
        }
        tx.set(self.tables.orders.at(slot)?, order)?;
        for number in 1..=u64::from(order.lines) {
            let key = key::line(district, id, number);
            let item = 1 + mix(key) % self.shape.items();
            let line = Line {
                order: id,
                item: item as u32,
                supplier: supplier as u16,
                number: number as u8,
                quantity: 5,
                amount: 1 + (mix(!key) % 999_999) as u32,
                district: district as u32,
                delivered: 0,
                info: Stock::info(key::stock(supplier, item), (district - 1) % DISTRICTS),
            };
            let place = slot * LINE_SLOTS + number - 1;
            if let Some(own) = own {
                own.lines.insert(tx, key, place)?;
            }
            tx.set(self.tables.lines.at(place)?, line)?;
        }
        Ok(())
    }

    /// Returns whether a stamp is loading's for an order of this key.
    pub(super) fn is_loaded(entered: u64, key: u64) -> bool {
        entered == Stamp::LOADED.value(key)
    }
}
