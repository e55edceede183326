//! The check: structure, the specification's conditions, and further invariants.

use collections::raw::whole;
use words::{Array, Objects, Persist, Stop, Transact, Words};

use super::rows::{Customer, District, Item, Line, Order, Stock};
use super::tables::place_of_district;
use super::{DISTRICTS, LINE_SLOTS, LINES_MAX, Own, Tpcc, key, place_of_terminal};
use crate::CLIENTS_MAX;
use crate::Violation;
use crate::index::Index;
use crate::stamp::Stamp;
use crate::violation::Violations;

/// Placed orders that one transaction reads.
const ORDERS: u64 = 256;

/// The source of keys.
#[derive(Clone, Copy, Debug)]
enum Source<I> {
    Index(I),
    /// A warehouse's part of a table, by its index or by its rows.
    Own(OfOwn, u64),
}

/// A table of which each warehouse has its own part.
#[derive(Clone, Copy, Debug)]
enum OfOwn {
    Orders,
    NewOrders,
    Lines,
}

/// The numbers of orders in an index.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    count: u64,
    least: u64,
    most: u64,
}

impl Numbers {
    fn add(&mut self, number: u64) {
        self.least = if self.count == 0 { number } else { self.least.min(number) };
        self.most = self.most.max(number);
        self.count += 1;
    }

    /// Returns how many a range without gaps would have.
    fn span(self) -> u64 {
        if self.count == 0 { 0 } else { self.most - self.least + 1 }
    }
}

/// The findings of a district.
#[derive(Clone, Copy, Debug, Default)]
struct OfDistrict {
    next_order: u64,
    year_to_date: u64,
    orders: Numbers,
    new_orders: Numbers,
    /// The sum of the line counts in its orders.
    lines_said: u64,
    lines: u64,
}

/// The findings of the order in a slot.
#[derive(Clone, Copy, Debug, Default)]
struct OfOrder {
    id: u64,
    lines_said: u64,
    lines: u64,
    has_carrier: bool,
    is_new: bool,
    is_loaded: bool,
}

/// The findings of the lines for a row of stock, without the loaded ones.
#[derive(Clone, Copy, Debug, Default)]
struct OfStock {
    lines: u64,
    pieces: u64,
}

/// All findings.
struct Seen {
    districts: Vec<OfDistrict>,
    /// By the order's slot.
    orders: Vec<OfOrder>,
    /// By the row of stock.
    stock: Vec<OfStock>,
    violations: Violations,
}

impl Seen {
    /// Returns the district with this ID, if it exists.
    fn district(&mut self, id: u64) -> Option<&mut OfDistrict> {
        self.districts.get_mut(usize::try_from(id.checked_sub(1)?).ok()?)
    }
}

impl<I: Index, const PLACED: bool> Tpcc<I, PLACED> {
    pub(super) fn check_all<T: Transact>(
        &self,
        worker: &mut T,
    ) -> Result<Vec<Violation>, T::Error> {
        let shape = self.shape;
        let mut seen = Seen {
            districts: vec![OfDistrict::default(); shape.districts() as usize],
            orders: vec![OfOrder::default(); shape.orders() as usize],
            stock: vec![OfStock::default(); (shape.warehouses * shape.items()) as usize],
            violations: Violations::default(),
        };
        self.check_structure(worker, &mut seen.violations)?;
        if !seen.violations.0.is_empty() {
            // A walk over a damaged index may end in a less specific `Stop`.
            return Ok(seen.violations.0);
        }
        self.check_districts(worker, &mut seen)?;
        self.check_customers(worker, &mut seen)?;
        self.check_items(worker, &mut seen)?;
        for warehouse in 1..=shape.warehouses {
            self.check_orders(worker, warehouse, &mut seen)?;
            self.check_new_orders(worker, warehouse, &mut seen)?;
            self.check_lines(worker, warehouse, &mut seen)?;
        }
        judge_orders(shape.kept(), &mut seen);
        self.check_stock_and_terminals(worker, &mut seen)?;
        Ok(seen.violations.0)
    }

    fn check_structure<T: Transact>(
        &self,
        worker: &mut T,
        violations: &mut Violations,
    ) -> Result<(), T::Error> {
        let Tpcc { warehouses, districts, customers, items, stock, .. } = *self;
        let mut all = vec![warehouses, districts, customers, items, stock];
        for warehouse in 1..=self.shape.warehouses {
            let own = worker.transact(|tx| self.own(tx, warehouse))?;
            all.extend(own.iter().flat_map(|own| [own.orders, own.new_orders, own.lines]));
        }
        for index in all {
            let answer = whole(worker, |tx, from| index.check(tx, from))?;
            violations.add_damage(answer.damage);
        }
        Ok(())
    }

    /// Reads some keys from `from` on, with their rows, and returns the next position.
    fn scan<W: Words>(
        &self,
        tx: &mut W,
        source: Source<I>,
        from: u64,
        mut visit: impl FnMut(u64, u64),
    ) -> Result<Option<u64>, Stop> {
        let (table, warehouse) = match source {
            Source::Index(index) => return index.scan(tx, from, visit),
            Source::Own(table, warehouse) => (table, warehouse),
        };
        if let Some(Own { orders, new_orders, lines }) = self.own(tx, warehouse)? {
            let index = match table {
                OfOwn::Orders => orders,
                OfOwn::NewOrders => new_orders,
                OfOwn::Lines => lines,
            };
            return index.scan(tx, from, visit);
        }
        let kept = self.shape.kept();
        let (first, end) = ((warehouse - 1) * DISTRICTS * kept, DISTRICTS * kept);
        let next = end.min(from + ORDERS);
        for slot in first + from..first + next {
            let row = tx.get(self.tables.orders.at(slot)?)?;
            let district = slot / kept + 1;
            match table {
                OfOwn::Orders => visit(key::order(district, row.id), slot),
                OfOwn::NewOrders if row.carrier == 0 => {
                    visit(key::order(district, row.id), row.id);
                }
                OfOwn::NewOrders => {}
                OfOwn::Lines => (1..=u64::from(row.lines)).for_each(|number| {
                    visit(key::line(district, row.id, number), slot * LINE_SLOTS + number - 1);
                }),
            }
        }
        Ok((next < end).then_some(next))
    }

    /// Calls `with` for all rows, each with its key; a row in a wrong place is a violation.
    fn visit<T: Transact, R: Persist>(
        &self,
        worker: &mut T,
        (source, rows): (Source<I>, Array<R>),
        place: impl Fn(u64) -> Option<u64>,
        seen: &mut Seen,
        mut with: impl FnMut(u64, R, &mut Seen),
    ) -> Result<u64, T::Error> {
        let (mut from, mut count) = (Some(0), 0);
        while let Some(here) = from {
            let (pairs, next) = worker.transact(|tx| {
                let mut pairs = Vec::new();
                let next = self.scan(tx, source, here, |key, at| pairs.push((key, at)))?;
                let mut found = Vec::with_capacity(pairs.len());
                for (key, at) in pairs {
                    let is_there = place(key) == Some(at);
                    found.push((
                        key,
                        at,
                        if is_there { Some(tx.get(rows.at(at)?)?) } else { None },
                    ));
                }
                Ok((found, next))
            })?;
            for (key, at, row) in pairs {
                count += 1;
                match (row, place(key)) {
                    (Some(row), _) => with(key, row, seen),
                    (None, Some(place)) => seen.violations.expect("place of a row", place, at),
                    (None, None) => seen.violations.add(Violation::Key { end: 0, found: key }),
                }
            }
            from = next;
        }
        Ok(count)
    }

    /// Warehouses and districts; condition 1.
    fn check_districts<T: Transact>(
        &self,
        worker: &mut T,
        seen: &mut Seen,
    ) -> Result<(), T::Error> {
        let shape = self.shape;
        let place = |id: u64| in_range(id, shape.districts()).map(place_of_district);
        let table = (Source::Index(self.districts), self.tables.districts);
        let count = self.visit(worker, table, place, seen, |id, row: District, seen| {
            seen.violations.expect("id of a district", id, row.id);
            if let Some(district) = seen.district(id) {
                district.next_order = row.next_order;
                district.year_to_date = row.year_to_date;
            }
        })?;
        seen.violations.expect("districts", shape.districts(), count);
        let place = |id: u64| in_range(id, shape.warehouses).map(|id| id - 1);
        let table = (Source::Index(self.warehouses), self.tables.warehouses);
        let count = self.visit(worker, table, place, seen, |id, row, seen| {
            seen.violations.expect("id of a warehouse", id, row.id);
            let own = ((id - 1) * DISTRICTS) as usize..(id * DISTRICTS) as usize;
            let sum = seen.districts[own]
                .iter()
                .fold(0, |sum: u64, district| sum.wrapping_add(district.year_to_date));
            seen.violations.condition(1, id, sum, row.year_to_date);
        })?;
        seen.violations.expect("warehouses", shape.warehouses, count);
        Ok(())
    }

    /// Conditions 10 and 12: no line was ever delivered.
    fn check_customers<T: Transact>(
        &self,
        worker: &mut T,
        seen: &mut Seen,
    ) -> Result<(), T::Error> {
        let (customers, districts) = (self.shape.customers(), self.shape.districts());
        let place = |key: u64| {
            let district = in_range(key >> 16, districts)?;
            let customer = in_range(key & 0xffff, customers)?;
            Some((district - 1) * customers + customer - 1)
        };
        let table = (Source::Index(self.customers), self.tables.customers);
        let count = self.visit(worker, table, place, seen, |key, row: Customer, seen| {
            seen.violations.expect("id of a customer", key, row.id);
            seen.violations.condition(10, key >> 16, Customer::BALANCE, row.balance);
            seen.violations.condition(12, key >> 16, 0, row.balance.wrapping_add(row.paid));
        })?;
        seen.violations.expect("customers", customers * districts, count);
        Ok(())
    }

    fn check_items<T: Transact>(&self, worker: &mut T, seen: &mut Seen) -> Result<(), T::Error> {
        let items = self.shape.items();
        let place = |id: u64| in_range(id, items).map(|id| id - 1);
        let table = (Source::Index(self.items), self.tables.items);
        let count = self.visit(worker, table, place, seen, |id, row: Item, seen| {
            seen.violations.expect("id of an item", id, row.id);
            seen.violations.expect("price of an item", Item::price(id), row.price);
        })?;
        seen.violations.expect("items", items, count);
        Ok(())
    }

    fn check_orders<T: Transact>(
        &self,
        worker: &mut T,
        warehouse: u64,
        seen: &mut Seen,
    ) -> Result<(), T::Error> {
        let shape = self.shape;
        let place = |key: u64| {
            let (district, id) = key::of_order(key);
            Some(shape.slot(of_warehouse(district, warehouse)?, id))
        };
        let table = (Source::Own(OfOwn::Orders, warehouse), self.tables.orders);
        self.visit(worker, table, place, seen, |key, row: Order, seen| {
            let (district, id) = key::of_order(key);
            seen.violations.expect("id of an order", id, row.id);
            seen.violations.expect("district of an order", district, u64::from(row.district));
            let customer = u64::from(row.customer);
            let known = in_range(customer, shape.customers()).unwrap_or(0);
            seen.violations.expect("customer of an order", known, customer);
            if Stamp::of(row.entered, key).is_none() {
                seen.violations.add(Violation::Value { key, found: row.entered });
            }
            let lines_said = u64::from(row.lines);
            seen.orders[shape.slot(district, id) as usize] = OfOrder {
                id,
                lines_said,
                has_carrier: row.carrier != 0,
                is_loaded: Self::is_loaded(row.entered, key),
                ..OfOrder::default()
            };
            if let Some(district) = seen.district(district) {
                district.orders.add(id);
                district.lines_said += lines_said;
            }
        })?;
        Ok(())
    }

    fn check_new_orders<T: Transact>(
        &self,
        worker: &mut T,
        warehouse: u64,
        seen: &mut Seen,
    ) -> Result<(), T::Error> {
        let source = Source::Own(OfOwn::NewOrders, warehouse);
        let mut from = Some(0);
        while let Some(here) = from {
            let (pairs, next) = worker.transact(|tx| {
                let mut pairs = Vec::new();
                let next = self.scan(tx, source, here, |key, id| pairs.push((key, id)))?;
                Ok((pairs, next))
            })?;
            for (key, value) in pairs {
                let (district, id) = key::of_order(key);
                seen.violations.expect("id of a new order", id, value);
                let known = of_warehouse(district, warehouse);
                let Some(found) = known.and_then(|district| seen.district(district)) else {
                    seen.violations.add(Violation::Key { end: 0, found: key });
                    continue;
                };
                found.new_orders.add(id);
                let order = &mut seen.orders[self.shape.slot(district, id) as usize];
                order.is_new |= order.id == id;
            }
            from = next;
        }
        Ok(())
    }

    /// Condition 7, and the lines' own content.
    fn check_lines<T: Transact>(
        &self,
        worker: &mut T,
        warehouse: u64,
        seen: &mut Seen,
    ) -> Result<(), T::Error> {
        let shape = self.shape;
        let place = |key: u64| {
            let (district, id, number) = key::of_line(key);
            let slot = shape.slot(of_warehouse(district, warehouse)?, id);
            Some(slot * LINE_SLOTS + in_range(number, LINES_MAX as u64)? - 1)
        };
        let table = (Source::Own(OfOwn::Lines, warehouse), self.tables.lines);
        self.visit(worker, table, place, seen, |key, row: Line, seen| {
            let (district, id, number) = key::of_line(key);
            if let Some(district) = seen.district(district) {
                district.lines += 1;
            }
            let order = &mut seen.orders[shape.slot(district, id) as usize];
            let OfOrder { id: known, has_carrier, is_loaded, .. } = *order;
            order.lines += u64::from(known == id);
            let is_delivered = row.delivered != 0;
            seen.violations.expect("order of a line", known, id);
            seen.violations.condition(7, district, has_carrier.into(), is_delivered.into());
            let says = (row.order, u64::from(row.district), u64::from(row.number));
            let agrees = says == (id, district, number);
            seen.violations.expect("key in a line's row", 1, agrees.into());
            self.check_line(district, &row, is_loaded, seen);
        })?;
        Ok(())
    }

    /// A line's item, amount and text; the district is the key's, whatever the row says.
    fn check_line(&self, district: u64, row: &Line, is_loaded: bool, seen: &mut Seen) {
        let violations = &mut seen.violations;
        let (item, supplier) = (u64::from(row.item), u64::from(row.supplier));
        let (items, warehouses) = (self.shape.items(), self.shape.warehouses);
        if in_range(item, items).is_none() || in_range(supplier, warehouses).is_none() {
            violations.add(Violation::Key { end: items + 1, found: item });
            return;
        }
        let info = Stock::info(key::stock(supplier, item), (district - 1) % 10);
        for (expected, found) in info.into_iter().zip(row.info) {
            violations.expect("a district's text in a line", expected, found);
        }
        if is_loaded {
            violations.expect("pieces of a loaded line", 5, row.quantity.into());
            return;
        }
        let amount = Item::price(item).wrapping_mul(row.quantity.into());
        violations.expect("amount of a line", amount, row.amount.into());
        let stock = &mut seen.stock[((supplier - 1) * items + item - 1) as usize];
        stock.lines += 1;
        stock.pieces += u64::from(row.quantity);
    }

    /// Checks stock against the orders, and against the workers' terminals.
    fn check_stock_and_terminals<T: Transact>(
        &self,
        worker: &mut T,
        seen: &mut Seen,
    ) -> Result<(), T::Error> {
        let (warehouses, items) = (self.shape.warehouses, self.shape.items());
        let place = |key: u64| {
            let warehouse = in_range(key >> 32, warehouses)?;
            Some((warehouse - 1) * items + in_range(key & 0xffff_ffff, items)? - 1)
        };
        let (mut ordered, mut orders, mut remote) = (0_u64, 0_u32, 0_u32);
        let table = (Source::Index(self.stock), self.tables.stock);
        let count = self.visit(worker, table, place, seen, |key, row: Stock, seen| {
            let level = row.level;
            ordered = ordered.wrapping_add(level.ordered());
            orders = orders.wrapping_add(level.orders);
            remote = remote.wrapping_add(level.remote);
            check_stock(key, &row, seen.stock[place(key).unwrap_or(0) as usize], seen);
        })?;
        let violations = &mut seen.violations;
        violations.expect("rows of stock", warehouses * items, count);
        let (mut sums, kept) = ([0_u64; 4], self.shape.kept());
        for index in 0..CLIENTS_MAX as u64 {
            let place = self.tables.terminals.at(place_of_terminal(index));
            let terminal = worker.transact(|tx| tx.get(place?))?;
            if !terminal.is_unused() && Stamp::of(terminal.stamp, index).is_none() {
                violations.add(Violation::Value { key: index, found: terminal.stamp });
            }
            let done = terminal.done;
            let parts = [done.orders, done.lines, done.quantity, done.remote];
            sums.iter_mut().zip(parts).for_each(|(sum, part)| *sum = sum.wrapping_add(part));
        }
        let taken = seen.districts.iter().fold(0, |sum: u64, district| {
            sum.wrapping_add(district.next_order).wrapping_sub(kept + 1)
        });
        violations.expect("orders that the districts took", sums[0], taken);
        // A row counts its orders in 32 bits.
        violations.expect("orders in all rows of stock", sums[1] & 0xffff_ffff, orders.into());
        violations.expect("pieces ordered in all rows of stock", sums[2], ordered);
        violations.expect("remote orders in the stock", sums[3] & 0xffff_ffff, remote.into());
        Ok(())
    }
}

fn in_range(id: u64, end: u64) -> Option<u64> {
    (1..=end).contains(&id).then_some(id)
}

/// Returns the district, if it is one of this warehouse's.
fn of_warehouse(district: u64, warehouse: u64) -> Option<u64> {
    (district.checked_sub(1)? / DISTRICTS + 1 == warehouse).then_some(district)
}

/// Checks the row of stock of this key against the lines that are kept.
fn check_stock(key: u64, row: &Stock, kept: OfStock, seen: &mut Seen) {
    let (level, violations) = (row.level, &mut seen.violations);
    let quantity = level.quantity();
    violations.expect("a quantity in stock", quantity.clamp(10, 100), quantity);
    // Stock is refilled by 91 pieces at a time.
    let left = (Stock::quantity(key) + 91 - level.ordered() % 91) % 91;
    violations.expect("a quantity in stock, modulo 91", left, quantity % 91);
    for (district, info) in row.infos.into_iter().enumerate() {
        let expected = Stock::info(key, district as u64);
        let is_whole = info == expected;
        violations.expect("a district's text in the stock", 1, is_whole.into());
    }
    let remote = u64::from(level.remote);
    violations.expect("remote orders of an item", remote.min(level.orders.into()), remote);
    let pieces = kept.pieces.min(level.ordered());
    violations.expect("pieces in lines, not more than in stock", kept.pieces, pieces);
    // Each line is of 10 pieces or fewer.
    let lines = kept.lines.min(level.ordered());
    violations.expect("lines, not more than pieces in stock", kept.lines, lines);
}

/// Conditions 2 to 6 and 11.
fn judge_orders(kept: u64, seen: &mut Seen) {
    let Seen { districts, orders, violations, .. } = seen;
    for ((id, district), own) in (1..).zip(districts).zip(orders.chunks(kept as usize)) {
        let OfDistrict { next_order, orders, new_orders, lines_said, lines, .. } = *district;
        violations.condition(2, id, next_order.wrapping_sub(1), orders.most);
        violations.condition(2, id, next_order.wrapping_sub(1), new_orders.most);
        violations.condition(3, id, new_orders.span(), new_orders.count);
        violations.condition(4, id, lines_said, lines);
        for order in own {
            violations.condition(5, id, u64::from(!order.has_carrier), order.is_new.into());
            violations.condition(6, id, order.lines_said, order.lines);
        }
        violations.condition(11, id, 0, orders.count.wrapping_sub(new_orders.count));
        violations.expect("orders of a district", kept, orders.count);
    }
}
