//! The check of a store.

use std::collections::HashSet;

use words::{Place, Transact, Words};

use super::{Kind, Puts, buffer_lines};
use crate::Violation;
use crate::slab::WORDS;
use crate::stamp::Stamp;
use crate::ticket_map::TicketMap;
use crate::violation::Violations;

/// Objects that one transaction reads.
const CHECKED: usize = 64;

pub(super) fn check<K: Kind, T: Transact>(
    store: &Puts<K>,
    worker: &mut T,
) -> Result<Violations, T::Error> {
    let (mut violations, shape, slab) = (Violations::default(), store.shape, store.tables.slab);
    let end = shape.keys + shape.passing();
    for copy in 0..shape.copies {
        let map = store.tables.map_of::<K>(copy);
        let Some(pairs) = map.pairs(worker, &mut violations.0)? else {
            continue;
        };
        let (mut taken, mut always) = (HashSet::new(), 0);
        for &(number, ticket) in &pairs {
            always += u64::from(number < shape.keys);
            if number >= end {
                violations.add(Violation::Key { end, found: number });
            }
            if ticket > shape.slots() || !taken.insert(ticket) {
                violations.add(Violation::Value { key: number, found: ticket });
            }
        }
        violations.expect("keys that are always there", shape.keys, always);
        if !violations.0.is_empty() {
            continue; // the objects would not be found
        }
        for pairs in pairs.chunks(CHECKED) {
            let found = worker.transact(|tx| {
                let mut found = Violations::default();
                for &pair in pairs {
                    slab.check(tx, (shape, copy), pair, &mut found)?;
                }
                Ok(found.0)
            })?;
            found.into_iter().for_each(|violation| violations.add(violation));
        }
        if shape.is_large() {
            let free = worker.transact(|tx| slab.free_tickets(tx, shape, copy))?;
            let all = |ticket: &u64| (1..=shape.slots()).contains(ticket);
            let free = free.into_iter().filter(|ticket| all(ticket) && taken.insert(*ticket));
            let free = free.count() as u64;
            violations.expect("places that are free", shape.slots() - pairs.len() as u64, free);
        }
    }
    Ok(violations)
}

/// Checks the buffers that gets copy to.
pub(super) fn buffers<K: Kind, T: Transact>(
    store: &Puts<K>,
    worker: &mut T,
    violations: &mut Violations,
) -> Result<(), T::Error> {
    let (shape, buffers) = (store.shape, store.tables.buffers);
    let lines = if shape.is_large() { shape.lines } else { (shape.objects as u64).div_ceil(8) };
    for copy in 0..shape.copies {
        let (time, sum, found) = worker.transact(|tx| {
            let first = copy * buffer_lines(shape);
            let (mut head, mut found) = ([0; 2], 0);
            tx.read_words(buffers.at(first)?.addr(), &mut head)?;
            for line in 1..=lines {
                let mut words = [0; WORDS];
                tx.read_words(buffers.at(first + line)?.addr(), &mut words)?;
                found = words.iter().fold(found, |sum, word| sum ^ word);
            }
            Ok((head[0], head[1], found))
        })?;
        if time != 0 && Stamp::of(time, copy).is_none() {
            violations.add(Violation::Value { key: copy, found: time });
        }
        violations.expect("the sum of the copied values", sum, found);
    }
    Ok(())
}
