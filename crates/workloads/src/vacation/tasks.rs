//! The three transactions.

use words::{Addr, Allocate, Stop, Words, work};

use super::locks::Held;
use super::tables::{FREE, HELD, PRICE, Reservations, key, of_key};
use super::{HELD_MAX, KINDS, PLACES, Thing, Vacation};

/// The dearest thing of a kind so far: its price, its ID, and the place of its row.
type Dearest = Option<(u64, u64, Addr)>;

impl Vacation {
    /// Looks at things and reserves the dearest of each kind, if it has a free place and the
    /// customer has no reservation of it. A missing customer is added when anything was found.
    #[inline(never)]
    pub(super) fn reserve<W: Allocate>(
        &self,
        customer: u64,
        things: &[Thing],
        tx: &mut W,
    ) -> Result<(), Stop> {
        let tables = &self.tables;
        things.iter().for_each(|thing| tables.things[thing.kind].will_get(tx, thing.id));
        tables.customers.will_get(tx, customer);
        self.lock_customer(customer, tx)?;
        let found = tables.customers.find(tx, customer)?;
        self.lock_for_reservations(found, things, tx)?;
        let mut dearest: [Dearest; KINDS] = [None; KINDS];
        for thing in things {
            tx.compute(work::FRAME);
            let Some(at) = tables.things[thing.kind].find(tx, thing.id)? else {
                continue;
            };
            let (price, best) = (tx.read(at.plus(PRICE))?, &mut dearest[thing.kind]);
            if best.is_none_or(|(dearest, ..)| price > dearest) {
                *best = Some((price, thing.id, at));
            }
        }
        if dearest.iter().all(Option::is_none) {
            return Ok(());
        }
        let customer = match found {
            Some(at) => at,
            None => {
                tables.customers.insert(tx, customer, &[0, 0])?;
                tables.customers.find(tx, customer)?.ok_or(Stop::BadValue)?
            }
        };
        for (kind, dearest) in dearest.into_iter().enumerate() {
            if let Some((price, id, row)) = dearest {
                self.book(customer, key(kind, id), price, row, tx)?;
            }
        }
        Ok(())
    }

    /// Reserves a place of a row for a customer.
    #[inline]
    fn book<W: Allocate>(
        &self,
        customer: Addr,
        key: u64,
        price: u64,
        row: Addr,
        tx: &mut W,
    ) -> Result<(), Stop> {
        let reservations = Reservations::at(customer);
        if reservations.find(tx, key)?.is_some() {
            return Ok(());
        }
        if tx.read(row.plus(FREE))? == 0 {
            return Ok(());
        }
        let held = tx.read(customer.plus(HELD))?;
        if held < HELD_MAX {
            tx.write(customer.plus(HELD), held + 1)?;
        } else {
            // The count stays, but the customer is written, so that its deletion conflicts.
            let (first, _) = reservations.first(tx)?.ok_or(Stop::BadValue)?;
            reservations.remove(tx, first)?;
            self.give_back(first, tx)?;
            tx.write(customer.plus(HELD), held)?;
        }
        reservations.insert(tx, key, &[price])?;
        let mut places = [0; 2];
        tx.read_words(row, &mut places)?;
        tx.write_words(row, &[places[0].wrapping_add(1), places[1].wrapping_sub(1)])
    }

    /// Frees one place of a thing.
    #[inline]
    fn give_back<W: Words>(&self, key: u64, tx: &mut W) -> Result<(), Stop> {
        let (kind, id) = of_key(key);
        let things = self.tables.things.get(kind).ok_or(Stop::BadValue)?;
        let row = things.find(tx, id)?.ok_or(Stop::BadValue)?;
        let mut places = [0; 2];
        tx.read_words(row, &mut places)?;
        tx.write_words(row, &[places[0].wrapping_sub(1), places[1].wrapping_add(1)])
    }

    /// Removes a customer, if present, and releases its reservations.
    #[inline(never)]
    pub(super) fn delete<W: Words>(&self, customer: u64, tx: &mut W) -> Result<(), Stop> {
        self.lock_customer(customer, tx)?;
        let Some(at) = self.tables.customers.find(tx, customer)? else {
            return Ok(());
        };
        let held = Held::of(at, tx)?;
        self.lock_held(&held, &[], tx)?;
        for &key in held.keys() {
            self.give_back(key, tx)?;
        }
        Reservations::at(at).free(tx, held.keys().len() as u64)?;
        self.tables.customers.remove(tx, customer)?;
        Ok(())
    }

    /// Adds places to things, or removes places where so many are free; a thing without any is
    /// removed.
    #[inline(never)]
    pub(super) fn change<W: Allocate>(&self, things: &[Thing], tx: &mut W) -> Result<(), Stop> {
        self.lock_things(things, tx)?;
        for thing in things {
            let table = self.tables.things[thing.kind];
            let Some(row) = table.find(tx, thing.id)? else {
                if let Some(price) = thing.price {
                    table.insert(tx, thing.id, &[0, PLACES, PLACES, price])?;
                }
                continue;
            };
            let mut places = [0; 2];
            tx.read_words(row.plus(FREE), &mut places)?;
            let [free, total] = places;
            match thing.price {
                Some(price) => {
                    let [free, total] = [free, total].map(|places| places.wrapping_add(PLACES));
                    tx.write_words(row.plus(FREE), &[free, total, price])?;
                }
                None if free < PLACES => {}
                None if total == PLACES => drop(table.remove(tx, thing.id)?),
                None => {
                    let fewer = [free, total].map(|places| places.wrapping_sub(PLACES));
                    tx.write_words(row.plus(FREE), &fewer)?;
                }
            }
        }
        Ok(())
    }
}
