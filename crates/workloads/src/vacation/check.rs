//! The consistency check: used places must equal the customers' reservations.

use std::collections::HashMap;

use collections::raw::whole;
use words::{Place, Stop, Transact, Words};

use super::tables::{HELD, Reservations, key, mark};
use super::{KINDS, Vacation};
use crate::stamp::Stamp;
use crate::violation::Violations;
use crate::{CLIENTS_MAX, Violation};

/// Chains that one transaction reads.
const CHECKED: u64 = 256;

/// Checks all tables.
pub(super) fn check<T: Transact>(
    vacation: &Vacation,
    worker: &mut T,
) -> Result<Vec<Violation>, T::Error> {
    let (mut violations, tables) = (Violations::default(), &vacation.tables);
    let customers = tables.customers;
    for things in tables.things {
        let answer = whole(worker, |tx, from| things.check(tx, from, CHECKED))?;
        violations.add_damage(answer.damage);
    }
    let answer = whole(worker, |tx, from| customers.check(tx, from, CHECKED))?;
    violations.add_damage(answer.damage);
    if !violations.0.is_empty() {
        return Ok(violations.0); // a scan would end in a less specific `Stop`
    }
    let mut used = check_rows(vacation, worker, &mut violations)?;
    let mut from = Some(0);
    while let Some(chain) = from {
        let (held, next) = worker.transact(|tx| {
            let mut ids = Vec::new();
            let next = customers.scan(tx, chain, CHECKED, |id, _| ids.push(id))?;
            let mut held = Vec::new();
            for id in ids {
                let at = customers.find(tx, id)?.ok_or(Stop::BadValue)?;
                let mut keys = Vec::new();
                Reservations::at(at).scan(tx, |key, &[price]| keys.push((key, price)))?;
                held.push((id, tx.read(at.plus(HELD))?, keys));
            }
            Ok((held, next))
        })?;
        for (id, count, keys) in held {
            check_id(vacation, id, &mut violations);
            violations.expect("reservations of a customer", count, keys.len() as u64);
            for (key, price) in keys {
                check_price(key, price, &mut violations);
                let left = used.entry(key).or_default();
                *left = left.wrapping_sub(1);
            }
        }
        from = next;
    }
    for (_, left) in used {
        violations.expect("places used without a reservation", 0, left);
    }
    for index in 0..CLIENTS_MAX as u64 {
        let found = worker.transact(|tx| tx.read(mark(tables, index)?.addr()))?;
        if found != 0 && Stamp::of(found, index).is_none() {
            violations.add(Violation::Value { key: index, found });
        }
    }
    Ok(violations.0)
}

/// Checks the rows of cars, flights and rooms; returns the places used of each.
fn check_rows<T: Transact>(
    vacation: &Vacation,
    worker: &mut T,
    violations: &mut Violations,
) -> Result<HashMap<u64, u64>, T::Error> {
    let mut used = HashMap::new();
    for kind in 0..KINDS {
        let mut from = Some(0);
        while let Some(chain) = from {
            let (rows, next) = worker.transact(|tx| {
                let mut rows = Vec::new();
                let visit = |id: u64, row: &[u64; 4]| rows.push((id, *row));
                let next = vacation.tables.things[kind].scan(tx, chain, CHECKED, visit)?;
                Ok((rows, next))
            })?;
            for (id, [taken, free, total, price]) in rows {
                check_id(vacation, id, violations);
                violations.expect("places of a row", total, taken.wrapping_add(free));
                check_price(key(kind, id), price, violations);
                used.insert(key(kind, id), taken);
            }
            from = next;
        }
    }
    Ok(used)
}

fn check_id(vacation: &Vacation, id: u64, violations: &mut Violations) {
    if id == 0 || id > vacation.rows {
        violations.add(Violation::Key { end: vacation.rows + 1, found: id });
    }
}

fn check_price(key: u64, price: u64, violations: &mut Violations) {
    if !(50..=90).contains(&price) || !price.is_multiple_of(10) {
        violations.add(Violation::Value { key, found: price });
    }
}
