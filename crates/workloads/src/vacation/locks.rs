//! The locks of the three transactions, for designs that isolate by them.

use words::{Addr, LockId, Stop, Words};

use super::tables::{HELD, Reservations, of_key};
use super::{HELD_MAX, KINDS, THINGS_MAX, Thing, Vacation};
use crate::lock::{self, Locks};

/// The keys of a customer's reservations.
pub(super) struct Held {
    keys: [u64; HELD_MAX as usize],
    count: usize,
}

impl Held {
    /// Reads the list of a customer.
    pub(super) fn of<W: Words>(customer: Addr, tx: &mut W) -> Result<Held, Stop> {
        let mut held = Held { keys: [0; HELD_MAX as usize], count: 0 };
        Reservations::at(customer).scan(tx, |key, _| {
            if let Some(place) = held.keys.get_mut(held.count) {
                *place = key;
            }
            held.count += 1;
        })?;
        if held.count > held.keys.len() { Err(Stop::BadValue) } else { Ok(held) }
    }

    pub(super) fn keys(&self) -> &[u64] {
        &self.keys[..self.count]
    }
}

impl Vacation {
    /// Locks a customer and all that it holds.
    #[inline]
    pub(super) fn lock_customer<W: Words>(&self, customer: u64, tx: &mut W) -> Result<(), Stop> {
        tx.lock(lock::chain(lock::ROWS, self.tables.customers.chain_of(customer)))
    }

    /// Locks the rows of things.
    #[inline]
    pub(super) fn lock_things<W: Words>(&self, things: &[Thing], tx: &mut W) -> Result<(), Stop> {
        let ids = things.iter().map(|thing| self.thing(thing.kind, thing.id));
        Locks::<THINGS_MAX>::of(ids).take(tx)
    }

    /// Locks the rows of things, and those that a locked customer may have to give back for them.
    #[inline]
    pub(super) fn lock_for_reservations<W: Words>(
        &self,
        customer: Option<Addr>,
        things: &[Thing],
        tx: &mut W,
    ) -> Result<(), Stop> {
        if let Some(customer) = customer {
            let held = tx.read(customer.plus(HELD))?;
            if held.saturating_add(things.len() as u64) > HELD_MAX {
                return self.lock_held(&Held::of(customer, tx)?, things, tx);
            }
        }
        self.lock_things(things, tx)
    }

    /// Locks the rows of things and of reservations.
    #[inline(never)]
    pub(super) fn lock_held<W: Words>(
        &self,
        held: &Held,
        things: &[Thing],
        tx: &mut W,
    ) -> Result<(), Stop> {
        const MOST: usize = THINGS_MAX + HELD_MAX as usize;
        if held.keys().iter().any(|&key| of_key(key).0 >= KINDS) {
            return Err(Stop::BadValue);
        }
        let held = held.keys().iter().map(|&key| of_key(key));
        let things = things.iter().map(|thing| (thing.kind, thing.id));
        let ids = held.chain(things).map(|(kind, id)| self.thing(kind, id));
        Locks::<MOST>::of(ids).take(tx)
    }

    fn thing(&self, kind: usize, id: u64) -> LockId {
        lock::chain(lock::FURTHER + kind as u8, self.tables.things[kind].chain_of(id))
    }
}
