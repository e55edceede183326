//! The form of a tree: where its nodes keep keys and values.
//!
//! | keys | values | a leaf's slot | an inner node's slot |
//! |---|---|---|---|
//! | of one length, up to 8 bytes | of one length, up to 32 bytes | head, value | head, child |
//! | of one length, up to 8 bytes | others | head, entry | head, child |
//! | others | any | head, entry | head, separator or 0, child |
//!
//! A head is 8 bytes of the key, so a short key is all there. An entry is a pointer to an object
//! that has key and value.

use crate::key::Key;
use crate::value::Value;

/// Bytes of a key that a head holds.
pub(crate) const HEAD_BYTES: usize = 8;

/// Most words of a value that a leaf holds itself.
pub(super) const VALUE_WORDS: usize = 4;

/// The form of a tree, which the types of its keys and values decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// Length of the keys, if a head holds a whole key.
    key: Option<usize>,
    /// Length of the values, if the leaves hold them.
    value: Option<usize>,
    /// Words of a slot after its head, in a leaf and in an inner node.
    width: [usize; 2],
    /// Slots of a node of full size, the same.
    slots: [usize; 2],
}

impl Form {
    /// Returns the form for these types.
    pub(crate) const fn of<K, V>() -> Form
    where
        K: Key + ?Sized,
        V: Value + ?Sized,
    {
        Form::of_lengths(K::FIXED, V::FIXED)
    }

    /// Returns the form for keys and values of these lengths, or of any.
    pub(crate) const fn of_lengths(key: Option<usize>, value: Option<usize>) -> Form {
        let key = match key {
            Some(len) if len <= HEAD_BYTES => Some(len),
            _ => None,
        };
        let value = match (key, value) {
            (Some(_), Some(len)) if len <= 8 * VALUE_WORDS => Some(len),
            _ => None,
        };
        let leaf = match value {
            Some(len) => len.div_ceil(8),
            None => 1,
        };
        // With its header a node takes up to 512 bytes, or 1024 with objects of separators.
        let slots = [54, 28, 19, 14, 11][leaf];
        match key {
            Some(_) => Form { key, value, width: [leaf, 1], slots: [slots, 28] },
            None => Form { key, value, width: [leaf, 2], slots: [slots, 40] },
        }
    }

    /// Returns the length of the keys, if a head holds a whole key.
    #[inline]
    pub(super) const fn key(self) -> Option<usize> {
        self.key
    }

    /// Returns the length of the values, if the leaves hold them.
    #[inline]
    pub(super) const fn value(self) -> Option<usize> {
        self.value
    }

    /// Returns whether a head holds a whole key.
    #[inline]
    pub(super) const fn is_exact(self) -> bool {
        self.key.is_some()
    }

    /// Returns the words of a slot after its head.
    #[inline]
    pub(super) const fn width(self, level: usize) -> usize {
        self.width[(level > 0) as usize]
    }

    /// Returns the slots of a node of full size.
    #[inline]
    pub(super) const fn slots(self, level: usize) -> usize {
        self.slots[(level > 0) as usize]
    }

    /// Returns the slots of the next larger size of a leaf.
    pub(super) const fn larger(self, slots: usize) -> usize {
        let most = self.slots(0);
        // A last step by a third or less is not worth its copy.
        if 8 * slots >= 3 * most { most } else { 2 * slots }
    }
}

#[cfg(test)]
mod tests {
    use super::super::node::{SLOTS_LEAST, bytes};
    use super::*;

    #[test]
    fn full_nodes_take_one_size_class() {
        for value in [None, Some(0), Some(1), Some(8), Some(9), Some(24), Some(32)] {
            let form = Form::of_lengths(Some(8), value);
            let taken = bytes(form.slots(0), form.width(0)) + words::HEADER_BYTES as usize;
            let more = bytes(form.slots(0) + 1, form.width(0)) + words::HEADER_BYTES as usize;
            assert!(taken <= 512 && more > 512, "{value:?}: {taken}");
        }
        let form = Form::of_lengths(None, None);
        assert_eq!(bytes(form.slots(1), form.width(1)) + words::HEADER_BYTES as usize, 1024);
    }

    #[test]
    fn leaf_reaches_full_size_in_four_steps() {
        for value in [None, Some(0), Some(16), Some(32)] {
            let form = Form::of_lengths(Some(8), value);
            let mut slots = SLOTS_LEAST;
            for _ in 0..4 {
                slots = form.larger(slots);
            }
            assert_eq!(slots, form.slots(0));
        }
    }
}
