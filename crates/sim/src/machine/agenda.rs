//! What is to come, earliest first: what is on its way to a controller or a core, or under way
//! there.
//!
//! A sorted queue and no tree: there are few of them, and most come behind all that are there.

use std::collections::VecDeque;

/// Things in the order of their keys; among equal keys in that of their coming.
#[derive(Clone, Debug)]
pub(crate) struct Agenda<K, T> {
    coming: VecDeque<(K, T)>,
}

impl<K: Copy + Ord, T> Agenda<K, T> {
    /// Nothing is to come.
    pub(crate) fn new() -> Agenda<K, T> {
        Agenda { coming: VecDeque::new() }
    }

    /// Adds something behind all whose key is not larger.
    #[inline]
    pub(crate) fn add(&mut self, key: K, thing: T) {
        let later = self.coming.iter().rev().take_while(|(other, _)| *other > key).count();
        match later {
            0 => self.coming.push_back((key, thing)),
            later => self.coming.insert(self.coming.len() - later, (key, thing)),
        }
    }

    /// The key of what comes first.
    #[inline]
    pub(crate) fn first(&self) -> Option<K> {
        self.coming.front().map(|(key, _)| *key)
    }

    /// Takes what comes first.
    #[inline]
    pub(crate) fn take_first(&mut self) -> Option<T> {
        self.coming.pop_front().map(|(_, thing)| thing)
    }

    /// All that is to come, in order.
    pub(crate) fn things(&self) -> impl Iterator<Item = &T> {
        self.coming.iter().map(|(_, thing)| thing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_earlier_comes_first_and_among_equals_what_was_added_first() {
        let mut agenda = Agenda::new();
        for (thing, key) in (0..).zip([5, 9, 5, 1, 9, 7, 5, 0]) {
            agenda.add(key, thing);
        }
        assert_eq!(agenda.first(), Some(0));
        let mut order = Vec::new();
        while let Some(thing) = agenda.take_first() {
            order.push(thing);
        }
        assert_eq!(order, [7, 3, 0, 2, 6, 5, 1, 4]);
        assert_eq!(agenda.first(), None);
    }
}
