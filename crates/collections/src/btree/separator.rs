//! Separators: the least keys of an inner node's children.
//!
//! The separator between two leaves is the shortest string that is above all keys of the left one
//! and not above those of the right one. An inner node has it in one of two forms:
//!
//! ```text
//!   | head   |      0 | child |       up to 8 bytes after those that the node skips, and no 0 at
//!                                     the end: the head without its zeros
//!   | head   | object | child |       any other: an entry without a value has it
//! ```
//!
//! A key whose head equals a separator's of the first form is not below it. The first separator of
//! a node is not stored: its head is 0, the empty string, which is above no key.
//!
//! Invariants:
//! - A node skips no more bytes than its two bounds share, so all its keys begin with these bytes.
//! - Each separator's object belongs to one slot. It moves with the separator from level to level.

use words::{Addr, Allocate, Stop, Words};

use super::form::{Form, HEAD_BYTES, VALUE_WORDS};
use super::node::{Item, head_at};
use crate::entry::{Entry, KEY_BYTES};

/// A node skips more bytes of its keys only if these are so many more: else the inline heads would
/// be written anew for little.
const SKIP_STEP: usize = HEAD_BYTES / 2;

/// A separator outside of a node.
#[derive(Debug)]
pub(super) struct Separator {
    pub(super) bytes: Vec<u8>,
    /// The object that has the bytes already, or 0.
    object: u64,
}

impl Separator {
    /// Returns the shortest separator of two keys, the first below the second.
    pub(super) fn between(form: Form, low: &[u8], high: &[u8]) -> Separator {
        let len = if form.is_exact() { high.len() } else { high.len().min(common(low, high) + 1) };
        Separator { bytes: high[..len].to_vec(), object: 0 }
    }

    /// Returns the separator that a node's item has. `prefix` begins with the bytes that the node
    /// skips.
    pub(super) fn of<W: Words>(
        tx: &mut W,
        form: Form,
        item: &Item,
        (skip, prefix): (usize, &[u8]),
    ) -> Result<Separator, Stop> {
        if !form.is_exact() && item.rest[0] != 0 {
            let object = item.rest[0];
            let bytes = Entry::open(tx, object)?.key(tx, |key| Ok(key.into_owned()))?;
            return Ok(Separator { bytes, object });
        }
        let head = item.head.to_be_bytes();
        let len = form.key().unwrap_or(HEAD_BYTES - item.head.trailing_zeros() as usize / 8);
        let skipped = prefix.get(..skip).ok_or(Stop::BadValue)?;
        Ok(Separator { bytes: [skipped, &head[..len]].concat(), object: 0 })
    }

    /// Returns the item for a node that skips `skip` bytes. Creates the separator's object if it
    /// needs one there, or frees the object that it no longer needs.
    pub(super) fn item<W: Allocate>(
        self,
        tx: &mut W,
        form: Form,
        skip: usize,
        child: u64,
    ) -> Result<Item, Stop> {
        let head = head_at(&self.bytes, skip);
        if form.is_exact() {
            return Ok(Item { head, rest: first_words([child, 0]) });
        }
        let is_inline = self.bytes.len() <= skip + HEAD_BYTES && self.bytes.last() != Some(&0);
        let object = match (self.object, is_inline) {
            (object, true) => {
                free_object(tx, object)?;
                0
            }
            (0, false) => Entry::create(tx, &self.bytes, &[])?,
            (object, false) => object,
        };
        Ok(Item { head, rest: first_words([object, child]) })
    }

    /// Frees the object, if there is one.
    pub(super) fn free<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        free_object(tx, self.object)
    }
}

/// Frees the object of an inner node's item.
pub(super) fn free_separator<W: Words>(tx: &mut W, form: Form, item: &Item) -> Result<(), Stop> {
    if form.is_exact() { Ok(()) } else { free_object(tx, item.rest[0]) }
}

fn free_object<W: Words>(tx: &mut W, object: u64) -> Result<(), Stop> {
    if object == 0 { Ok(()) } else { Entry::open(tx, object)?.free(tx) }
}

/// Returns the first item of an inner node.
pub(super) const fn first_item(form: Form, child: u64) -> Item {
    let rest = if form.is_exact() { [child, 0] } else { [0, child] };
    Item { head: 0, rest: first_words(rest) }
}

const fn first_words(words: [u64; 2]) -> [u64; VALUE_WORDS] {
    [words[0], words[1], 0, 0]
}

/// Returns the child of an inner node's item.
pub(super) const fn child(form: Form, item: &Item) -> u64 {
    if form.is_exact() { item.rest[0] } else { item.rest[1] }
}

/// Returns the key of a leaf's item.
pub(super) fn key_of<W: Words>(tx: &mut W, form: Form, item: &Item) -> Result<Vec<u8>, Stop> {
    match form.key() {
        Some(len) => Ok(item.head.to_be_bytes()[..len].to_vec()),
        None => Entry::open(tx, item.rest[0])?.key(tx, |key| Ok(key.into_owned())),
    }
}

/// Returns a node's items with heads for another number of skipped bytes. `prefix` begins with the
/// bytes that the node skips.
pub(super) fn with_skip<W: Allocate>(
    tx: &mut W,
    form: Form,
    level: usize,
    items: &[Item],
    (from, to, prefix): (usize, usize, &[u8]),
) -> Result<Vec<Item>, Stop> {
    let mut changed = items.to_vec();
    if from == to {
        return Ok(changed);
    }
    if level == 0 {
        for item in &changed {
            tx.will_read(Addr::new(item.rest[0], 0), 64);
        }
    }
    for (position, item) in changed.iter_mut().enumerate() {
        if level == 0 {
            let entry = Entry::open(tx, item.rest[0])?;
            item.head = entry.key(tx, |key| Ok(head_at(&key, to)))?;
        } else if position > 0 {
            let separator = Separator::of(tx, form, item, (from, prefix))?;
            *item = separator.item(tx, form, to, child(form, item))?;
        }
    }
    Ok(changed)
}

/// Returns how many bytes a new half of a node skips, given those of the node and the half's
/// bounds.
pub(super) fn raised(form: Form, skip: usize, bounds: (Option<&[u8]>, Option<&[u8]>)) -> usize {
    let most = skip_most(form, bounds);
    if most >= skip + SKIP_STEP { most } else { skip }
}

/// Returns the most bytes that a node of these bounds can skip.
pub(super) fn skip_most(form: Form, bounds: (Option<&[u8]>, Option<&[u8]>)) -> usize {
    match bounds {
        (Some(low), Some(high)) if !form.is_exact() => common(low, high).min(KEY_BYTES),
        _ => 0,
    }
}

fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use words::Transact;
    use words::mock::Mock;

    use super::*;

    const STRINGS: Form = Form::of::<[u8], [u8]>();

    fn keys() -> impl Strategy<Value = Vec<u8>> {
        (0..12_usize, vec(0..3_u8, 0..12)).prop_map(|(same, rest)| [vec![1; same], rest].concat())
    }

    /// Compares a key with a stored separator as a search does.
    fn is_not_above(tx: &mut Mock, item: &Item, skip: usize, key: &[u8]) -> Result<bool, Stop> {
        match item.head.cmp(&head_at(key, skip)) {
            Ordering::Equal if item.rest[0] == 0 => Ok(true),
            Ordering::Equal => {
                Ok(Entry::open(tx, item.rest[0])?.compare(tx, key)? != Ordering::Greater)
            }
            other => Ok(other == Ordering::Less),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn separators_separate_in_every_form(
            mut some in vec(keys(), 2..8), at in 0..8_usize, skip in 0..12_usize, to in 0..12_usize
        ) {
            some.sort();
            some.dedup();
            prop_assume!(some.len() > 1);
            let at = 1 + at % (some.len() - 1);
            let most = skip_most(STRINGS, (Some(&some[0]), some.last().map(Vec::as_slice)));
            let (skip, to) = (skip.min(most), to.min(most));
            let mut mock = Mock::new(1 << 16);
            let separator = Separator::between(STRINGS, &some[at - 1], &some[at]);
            prop_assert!(some[at - 1] < separator.bytes && separator.bytes <= some[at]);
            let bytes = separator.bytes.clone();
            mock.transact(|tx| {
                let separator = Separator { bytes: bytes.clone(), object: 0 };
                let first = separator.item(tx, STRINGS, skip, 16)?;
                for key in &some {
                    assert_eq!(is_not_above(tx, &first, skip, key)?, bytes <= *key, "{key:?}");
                }
                let changed = with_skip(
                    tx, STRINGS, 1, &[first_item(STRINGS, 8), first], (skip, to, &some[0])
                )?;
                assert_eq!(changed[0], first_item(STRINGS, 8));
                assert_eq!(child(STRINGS, &changed[1]), 16);
                let stored = Separator::of(tx, STRINGS, &changed[1], (to, &some[0]))?;
                assert_eq!(stored.bytes, bytes);
                for key in &some {
                    assert_eq!(is_not_above(tx, &changed[1], to, key)?, bytes <= *key, "{key:?}");
                }
                free_separator(tx, STRINGS, &changed[1])
            }).unwrap();
            prop_assert_eq!(mock.objects(), 0);
        }
    }
}
