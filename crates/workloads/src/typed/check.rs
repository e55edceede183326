//! The check of `typed`: each collection by itself, then all against the sessions.

use std::collections::{BTreeMap, BTreeSet};

use collections::hash_map::Cursor;
use collections::{btree_map, hash_map};
use words::{Stop, Transact};

use super::{Tables, Typed, length_key, number_of, text, value_of};
use crate::stamp::Stamp;
use crate::violation::Violations;
use crate::{CLIENTS_MAX, Violation};

/// Pairs that one transaction reads, and leaves.
const PAIRS: u64 = 128;
const LEAVES: u64 = 8;

/// The sessions that were found: number, stamped value, and key in `lengths`.
type Sessions = BTreeMap<u64, (u64, (u32, u32))>;

pub(super) fn check<T: Transact>(
    store: &Typed,
    worker: &mut T,
) -> Result<Vec<Violation>, T::Error> {
    let mut violations = Violations::default();
    check_structures(store.tables, worker, &mut violations)?;
    // A scan of a damaged collection may end in a less specific `Stop`.
    if violations.0.is_empty() {
        let sessions = sessions(store, worker, &mut violations)?;
        check_index(store, worker, &sessions, &mut violations)?;
        check_sets(store.tables, worker, &sessions, &mut violations)?;
        check_workers(store.tables, worker, &mut violations)?;
    }
    Ok(violations.0)
}

/// Checks each map and set by itself.
fn check_structures<T: Transact>(
    tables: Tables,
    worker: &mut T,
    violations: &mut Violations,
) -> Result<(), T::Error> {
    let Tables { sessions, expiries, online, lengths, latest, .. } = tables;
    let found = [
        hashed(worker, violations, |tx, from| sessions.check_step(tx, from, PAIRS))?,
        hashed(worker, violations, |tx, from| online.check_step(tx, from, PAIRS))?,
        hashed(worker, violations, |tx, from| latest.check_step(tx, from, PAIRS))?,
        ordered(worker, violations, |tx, from| expiries.check_step(tx, from, LEAVES))?,
        ordered(worker, violations, |tx, from| lengths.check_step(tx, from, LEAVES))?,
    ];
    let stored = worker.transact(|tx| {
        Ok([
            sessions.len(tx)?,
            online.len(tx)?,
            latest.len(tx)?,
            expiries.len(tx)?,
            lengths.len(tx)?,
        ])
    })?;
    for (found, stored) in found.into_iter().zip(stored) {
        violations.expect("the length of a collection", found, stored);
    }
    Ok(())
}

/// Checks a hash map or set in parts; returns how many pairs were seen.
fn hashed<T: Transact>(
    worker: &mut T,
    violations: &mut Violations,
    mut part: impl FnMut(&mut T::Tx<'_>, Cursor) -> Result<hash_map::Checked, Stop>,
) -> Result<u64, T::Error> {
    let (mut entries, mut next) = (0, Some(Cursor::START));
    while let Some(from) = next {
        let checked = worker.transact(|tx| part(tx, from))?;
        entries += checked.entries;
        next = checked.next.filter(|next| *next > from);
        checked.damage.into_iter().for_each(|damage| violations.add(Violation::HashMap(damage)));
    }
    Ok(entries)
}

/// Checks a tree in parts, as [`hashed`] a hash map.
fn ordered<T: Transact>(
    worker: &mut T,
    violations: &mut Violations,
    mut part: impl FnMut(&mut T::Tx<'_>, Option<&[u8]>) -> Result<btree_map::Checked, Stop>,
) -> Result<u64, T::Error> {
    let (mut entries, mut from) = (0, None::<Vec<u8>>);
    loop {
        let checked = worker.transact(|tx| part(tx, from.as_deref()))?;
        entries += checked.entries;
        checked.damage.into_iter().for_each(|damage| violations.add(Violation::BTreeMap(damage)));
        match checked.next {
            next @ Some(_) if next > from => from = next,
            _ => return Ok(entries),
        }
    }
}

/// Reads all sessions, whose texts must be whole.
fn sessions<T: Transact>(
    store: &Typed,
    worker: &mut T,
    violations: &mut Violations,
) -> Result<Sessions, T::Error> {
    let (mut sessions, mut next) = (Sessions::new(), Some(Cursor::START));
    while let Some(from) = next {
        let (pairs, rest) = worker.transact(|tx| {
            let mut pairs = Vec::new();
            let visit = |name, text| pairs.push((name, text));
            let rest = store.tables.sessions.scan(tx, from, PAIRS, visit)?;
            Ok((pairs, rest))
        })?;
        for (name, found) in pairs {
            let number = number_of(&name).unwrap_or(u64::MAX);
            if number >= store.numbers {
                violations.add(Violation::Key { end: store.numbers, found: number });
                continue;
            }
            match value_of(&found, number) {
                None => violations.add(Violation::Value { key: number, found: head(&found, 0) }),
                Some(value) => {
                    check_text(number, &text(value), &found, violations);
                    sessions.insert(number, (value, length_key(&found, number)));
                }
            }
        }
        next = rest;
    }
    Ok(sessions)
}

/// Adds the first word in which a text differs from the expected one.
fn check_text(number: u64, expected: &str, found: &str, violations: &mut Violations) {
    if found == expected {
        return;
    }
    let words = expected.len().max(found.len()).div_ceil(8);
    let word = (0..words).find(|&word| head(expected, word) != head(found, word)).unwrap_or(words);
    let (expected, found) = (head(expected, word), head(found, word));
    violations.add(Violation::Record { key: number, word, expected, found });
}

/// Returns a word of a text, with zeros behind the end.
fn head(text: &str, word: usize) -> u64 {
    let rest = text.as_bytes().get(8 * word..).unwrap_or_default();
    let mut bytes = [0; 8];
    bytes.iter_mut().zip(rest).for_each(|(byte, &found)| *byte = found);
    u64::from_le_bytes(bytes)
}

/// Checks the index by expiry, which has each session once.
fn check_index<T: Transact>(
    store: &Typed,
    worker: &mut T,
    sessions: &Sessions,
    violations: &mut Violations,
) -> Result<(), T::Error> {
    let (mut indexed, mut rest) = (0, Some(store.tables.expiries.range(..)));
    while let Some(range) = rest {
        let (pairs, next) = worker.transact(|tx| range.page(tx, PAIRS as usize))?;
        for ((expiry, name), found) in pairs {
            let number = number_of(&name).unwrap_or(u64::MAX);
            let Some(&(value, _)) = sessions.get(&number) else {
                violations.add(Violation::Key { end: store.numbers, found: number });
                continue;
            };
            violations.expect("the stamp of a session in the index", value, found);
            violations.expect("the expiry of a session", store.expiry(value, number), expiry);
            indexed += 1;
        }
        rest = next;
    }
    violations.expect("sessions in the index", sessions.len() as u64, indexed);
    Ok(())
}

/// Checks the sets of numbers and of lengths, and the sum of the lengths.
fn check_sets<T: Transact>(
    tables: Tables,
    worker: &mut T,
    sessions: &Sessions,
    violations: &mut Violations,
) -> Result<(), T::Error> {
    let (mut online, mut next) = (BTreeSet::new(), Some(Cursor::START));
    while let Some(from) = next {
        let (numbers, rest) = worker.transact(|tx| {
            let mut numbers = Vec::new();
            let rest = tables.online.scan(tx, from, PAIRS, |number| numbers.push(number))?;
            Ok((numbers, rest))
        })?;
        online.extend(numbers);
        next = rest;
    }
    let (mut lengths, mut rest) = (BTreeSet::new(), Some(tables.lengths.range(..)));
    while let Some(range) = rest {
        let (keys, next) = worker.transact(|tx| range.page(tx, PAIRS as usize))?;
        lengths.extend(keys);
        rest = next;
    }
    let numbers = sessions.keys().copied().collect();
    let differences = online.symmetric_difference(&numbers).count();
    violations.expect("numbers online without a session, or the reverse", 0, differences as u64);
    let keys = sessions.values().map(|&(_, key)| key).collect();
    let differences = lengths.symmetric_difference(&keys).count();
    violations.expect("lengths without a session, or the reverse", 0, differences as u64);
    let bytes = worker.transact(|tx| tables.bytes.get(tx))?;
    let expected = keys.iter().map(|&(length, _)| u64::from(length)).sum();
    violations.expect("bytes of all texts", expected, bytes.cast_unsigned());
    Ok(())
}

/// Checks that each worker has a stamp of its own.
fn check_workers<T: Transact>(
    tables: Tables,
    worker: &mut T,
    violations: &mut Violations,
) -> Result<(), T::Error> {
    let mut latest = worker.transact(|tx| {
        let mut latest = Vec::new();
        tables.latest.for_each(tx, |worker, value| latest.push((worker, value)))?;
        Ok(latest)
    })?;
    latest.sort_unstable();
    let workers = latest.iter().map(|&(worker, _)| worker);
    let is_all = workers.eq(0..CLIENTS_MAX as u64);
    violations.expect("whether all workers have a stamp", 1, u64::from(is_all));
    for (worker, found) in latest {
        if Stamp::of(found, worker).is_none() {
            violations.add(Violation::Value { key: worker, found });
        }
    }
    Ok(())
}
