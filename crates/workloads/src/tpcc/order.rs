//! The New Order transaction (clause 2.4.2 of the specification).

use words::{Allocate, Field, Objects, Place, Stop, Words, field, work};

use super::client::Wanted;
use super::rows::Warehouse;
use super::rows::{Customer, District, Done, Info, Item, Level, Line, Order, Stock, Terminal};
use super::{DISTRICTS, LINE_SLOTS, LINES_MAX, Own, Tpcc, TpccClient, key, place_of_terminal};
use crate::index::Index;

/// Basis points in one.
const ONE: u64 = 10_000;

/// The rows of an order's lines, looked up.
struct Found {
    /// `None`: an unused item.
    items: [Option<u64>; LINES_MAX],
    stock: [Option<u64>; LINES_MAX],
}

impl<I: Index, const PLACED: bool> Tpcc<I, PLACED> {
    /// Runs the body. It is large, and a call costs little beside it: all callers share one copy.
    #[inline(never)]
    pub(super) fn new_order<W: Allocate>(
        &self,
        client: &TpccClient,
        tx: &mut W,
    ) -> Result<(), Stop> {
        let found = self.look_up(client, tx)?;
        let row = self.warehouses.get(tx, client.warehouse)?.ok_or(Stop::BadValue)?;
        let warehouse = self.tables.warehouses.at(row)?;
        let customer = key::customer(client.district, client.customer);
        let row = self.customers.get(tx, customer)?.ok_or(Stop::BadValue)?;
        let customer = self.tables.customers.at(row)?;
        let row = self.districts.get(tx, client.district)?.ok_or(Stop::BadValue)?;
        let district = self.tables.districts.at(row)?;
        let own = self.own(tx, client.warehouse)?;
        self.announce(client, &found, tx)?;

        let discount = tx.get(field!(customer, Customer, discount))?;
        let tax =
            tx.get(field!(warehouse, Warehouse, tax))? + tx.get(field!(district, District, tax))?;
        let next_order = field!(district, District, next_order);
        let id = tx.get(next_order)?;
        tx.after_last_read();
        let place = self.tables.orders.at(self.shape.slot(client.district, id))?;
        let old = tx.get(place)?;
        tx.will_write(next_order.addr(), 8);
        self.announce_order(client, id, own, &old, tx)?;
        tx.set(next_order, id.wrapping_add(1))?;
        self.replace_order(client, id, own, &old, tx)?;

        let mut done = Done::default();
        for (n, wanted) in client.lines().iter().enumerate() {
            // Only now, after all other work, an unused item rolls the order back.
            let (Some(item), Some(stock)) = (found.items[n], found.stock[n]) else {
                return Err(if client.has_unused_item { Stop::Aborted } else { Stop::BadValue });
            };
            let number = n as u64 + 1;
            let row = (item, stock);
            let (place, amount) = self.add_line(client, (id, number), wanted, row, tx)?;
            if let Some(own) = own {
                own.lines.insert(tx, key::line(client.district, id, number), place)?;
            }
            done.total = done.total.wrapping_add(amount);
            done.quantity += wanted.quantity;
            done.lines += 1;
            done.remote += u64::from(wanted.supplier != client.warehouse);
        }
        // A damaged row may hold any number.
        let factor = u128::from(ONE.saturating_sub(discount)) * u128::from(ONE.saturating_add(tax));
        done.total = (u128::from(done.total) * factor / u128::from(ONE * ONE)) as u64;
        self.count(client, done, tx)
    }

    /// Looks the rows of all lines up.
    #[inline]
    fn look_up<W: Words>(&self, client: &TpccClient, tx: &mut W) -> Result<Found, Stop> {
        let (lines, mut keys) = (client.lines(), [0; LINES_MAX]);
        let mut found = Found { items: [None; LINES_MAX], stock: [None; LINES_MAX] };
        let keys = &mut keys[..lines.len()];
        for (key, line) in keys.iter_mut().zip(lines) {
            *key = line.item;
        }
        self.items.get_all(tx, keys, &mut found.items)?;
        for (key, line) in keys.iter_mut().zip(lines) {
            *key = key::stock(line.supplier, line.item);
        }
        self.stock.get_all(tx, keys, &mut found.stock)?;
        Ok(found)
    }

    /// Announces reads and writes of the rows of all lines.
    #[inline]
    fn announce<W: Words>(
        &self,
        client: &TpccClient,
        found: &Found,
        tx: &mut W,
    ) -> Result<(), Stop> {
        for n in 0..client.lines().len() {
            let (Some(item), Some(stock)) = (found.items[n], found.stock[n]) else {
                continue;
            };
            let item = self.tables.items.at(item)?;
            tx.will_read(field!(item, Item, price).addr(), 8);
            let stock = self.tables.stock.at(stock)?;
            tx.will_write(field!(stock, Stock, level).addr(), size_of::<Level>());
            tx.will_read(info(stock, client.district).addr(), size_of::<Info>());
        }
        Ok(())
    }

    /// Announces the writes of the order's own rows, in the place of the old one.
    #[inline]
    fn announce_order<W: Words>(
        &self,
        client: &TpccClient,
        id: u64,
        own: Option<Own<I>>,
        old: &Order,
        tx: &mut W,
    ) -> Result<(), Stop> {
        let (district, slot) = (client.district, self.shape.slot(client.district, id));
        tx.will_write(self.tables.orders.at(slot)?.addr(), size_of::<Order>());
        let (first_line, lines) = (slot * LINE_SLOTS, client.lines().len());
        for line in (0..lines).step_by(4) {
            let first = self.tables.lines.at(first_line + line as u64)?;
            tx.will_write(first.addr(), (lines - line).min(4) * size_of::<Line>());
        }
        let changed = [(id, lines as u64), (old.id, u64::from(old.lines))];
        for (own, (id, lines)) in changed.into_iter().filter_map(|of| Some((own?, of))) {
            own.orders.will_change(tx, key::order(district, id));
            own.new_orders.will_change(tx, key::order(district, id));
            for number in 1..=lines {
                own.lines.will_change(tx, key::line(district, id, number));
            }
        }
        let terminal = self.tables.terminals.at(place_of_terminal(client.index))?;
        tx.will_write(terminal.addr(), size_of::<u64>() + size_of::<Done>());
        Ok(())
    }

    /// Writes the new order in the place of the district's oldest one, and removes that one.
    #[inline]
    fn replace_order<W: Allocate>(
        &self,
        client: &TpccClient,
        id: u64,
        own: Option<Own<I>>,
        old: &Order,
        tx: &mut W,
    ) -> Result<(), Stop> {
        let (district, slot) = (client.district, self.shape.slot(client.district, id));
        let place = self.tables.orders.at(slot)?;
        if let Some(own) = own {
            let old_key = key::order(district, old.id);
            own.orders.remove(tx, old_key)?.ok_or(Stop::BadValue)?;
            own.new_orders.remove(tx, old_key)?.ok_or(Stop::BadValue)?;
            for number in 1..=u64::from(old.lines) {
                own.lines.remove(tx, key::line(district, old.id, number))?.ok_or(Stop::BadValue)?;
            }
        }
        let all_local = client.lines().iter().all(|line| line.supplier == client.warehouse);
        let key = key::order(district, id);
        let order = Order {
            id,
            entered: client.stamp.value(key),
            customer: client.customer as u32,
            district: district as u32,
            lines: client.lines().len() as u16,
            all_local: u16::from(all_local),
            carrier: 0,
        };
        tx.set(place, order)?;
        let Some(own) = own else { return Ok(()) };
        own.orders.insert(tx, key, slot)?;
        own.new_orders.insert(tx, key, id)
    }

    /// Takes a line's pieces from the stock and writes the line; returns its place and amount.
    #[inline]
    fn add_line<W: Words>(
        &self,
        client: &TpccClient,
        (id, number): (u64, u64),
        wanted: &Wanted,
        (item, stock): (u64, u64),
        tx: &mut W,
    ) -> Result<(u64, u64), Stop> {
        tx.compute(work::FRAME);
        let price = tx.get(field!(self.tables.items.at(item)?, Item, price))?;
        let stock = self.tables.stock.at(stock)?;
        let level = field!(stock, Stock, level);
        let is_remote = wanted.supplier != client.warehouse;
        let before = tx.get(level)?;
        let info = tx.get(info(stock, client.district))?;
        tx.set(level, before.take(wanted.quantity, is_remote))?;
        let amount = price.wrapping_mul(wanted.quantity);
        let line = Line {
            order: id,
            item: wanted.item as u32,
            supplier: wanted.supplier as u16,
            number: number as u8,
            quantity: wanted.quantity as u8,
            amount: amount as u32,
            district: client.district as u32,
            delivered: 0,
            info,
        };
        let place = self.shape.slot(client.district, id) * LINE_SLOTS + number - 1;
        tx.set(self.tables.lines.at(place)?, line)?;
        Ok((place, amount))
    }

    /// Counts the order in the worker's terminal.
    #[inline]
    fn count<W: Words>(&self, client: &TpccClient, order: Done, tx: &mut W) -> Result<(), Stop> {
        let terminal = self.tables.terminals.at(place_of_terminal(client.index))?;
        let place = field!(terminal, Terminal, done);
        let before = tx.get(place)?;
        tx.set(
            place,
            Done {
                orders: before.orders.wrapping_add(1),
                lines: before.lines.wrapping_add(order.lines),
                quantity: before.quantity.wrapping_add(order.quantity),
                remote: before.remote.wrapping_add(order.remote),
                total: order.total,
            },
        )?;
        tx.set(field!(terminal, Terminal, stamp), client.stamp.value(client.index))
    }
}

/// The text of a district in a row of stock.
#[inline]
fn info(stock: Field<Stock>, district: u64) -> Field<Info> {
    let first = field!(stock, Stock, infos).addr();
    Field::new(first.plus((district - 1) % DISTRICTS * size_of::<Info>() as u64))
}
