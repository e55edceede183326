//! A queue of future events of one controller or core, sorted by key.
//!
//! Each queue is short, and most new entries have the largest key. A sorted `VecDeque` is therefore
//! cheaper than a tree or a heap.

use std::collections::VecDeque;

/// Events in the order of their keys; events of equal keys keep their order of insertion.
#[derive(Clone, Debug)]
pub(crate) struct Agenda<K, T> {
    coming: VecDeque<(K, T)>,
}

impl<K: Copy + Ord, T> Agenda<K, T> {
    /// An empty queue.
    pub(crate) fn new() -> Agenda<K, T> {
        Agenda { coming: VecDeque::new() }
    }

    /// Inserts an event after all events whose key is not larger.
    #[inline]
    pub(crate) fn add(&mut self, key: K, thing: T) {
        // Search from the back: a new event nearly always belongs there.
        let later = self.coming.iter().rev().take_while(|(other, _)| *other > key).count();
        match later {
            0 => self.coming.push_back((key, thing)),
            later => self.coming.insert(self.coming.len() - later, (key, thing)),
        }
    }

    /// Returns the smallest key.
    #[inline]
    pub(crate) fn first(&self) -> Option<K> {
        self.coming.front().map(|(key, _)| *key)
    }

    /// Removes and returns the earliest event.
    #[inline]
    pub(crate) fn take_first(&mut self) -> Option<T> {
        self.coming.pop_front().map(|(_, thing)| thing)
    }

    /// Iterates over all pending events in order.
    pub(crate) fn things(&self) -> impl Iterator<Item = &T> {
        self.coming.iter().map(|(_, thing)| thing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_equal_keys_keep_insertion_order() {
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
