//! The write set of one transaction: a copy of each written object, found by the object's ID.
//!
//! Every read of a writing transaction searches it. A 64-bit filter rejects most objects that are
//! not in the set. Then an index decides, by linear probing and at most half full.

use super::versions::Version;

/// An empty place: no transaction has this stamp.
const EMPTY: (u32, u32) = (0, 0);
/// Initial places of the index.
const PLACES: usize = 256;

/// The copy of one object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    pub(super) id: usize,
    /// The copy, in no list before the commit.
    pub(super) copy: Version,
    /// The version that it was made from.
    pub(super) from: Version,
    /// Bit i: word i was written.
    written: [u64; 3],
}

/// The objects that a transaction has written.
#[derive(Debug)]
pub(super) struct Writes {
    filter: u64,
    /// The stamp and the place of each object. An entry is empty unless it has the current stamp.
    index: Vec<(u32, u32)>,
    stamp: u32,
    all: Vec<Write>,
    /// Distinct words written.
    words: usize,
}

#[inline(always)]
fn hash(id: usize) -> u64 {
    (id as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Writes {
    pub(super) fn new() -> Writes {
        Writes { filter: 0, index: vec![EMPTY; PLACES], stamp: 1, all: Vec::new(), words: 0 }
    }

    pub(super) fn all(&self) -> &[Write] {
        &self.all
    }

    /// Returns the number of distinct words written.
    pub(super) fn words(&self) -> usize {
        self.words
    }

    /// Returns the place of the object's copy in the write set, if it has one.
    #[inline(always)]
    pub(super) fn find(&self, id: usize) -> Option<usize> {
        let hash = hash(id);
        if self.filter >> (hash >> 58) & 1 == 0 {
            return None;
        }
        self.probe(id).ok()
    }

    /// Returns the place of the object's copy in the write set, or the free place of the index.
    #[inline]
    fn probe(&self, id: usize) -> Result<usize, usize> {
        let mut place = (hash(id) >> 32) as usize & (self.index.len() - 1);
        loop {
            let (stamp, at) = self.index[place];
            if stamp != self.stamp {
                return Err(place);
            }
            if self.all[at as usize].id == id {
                return Ok(at as usize);
            }
            place = (place + 1) & (self.index.len() - 1);
        }
    }

    /// Adds the copy of an object that has none. Returns its place in the write set.
    pub(super) fn add(&mut self, id: usize, copy: Version, from: Version) -> usize {
        if 2 * (self.all.len() + 1) > self.index.len() {
            self.grow();
        }
        let place = self.probe(id).expect_err("an object has one copy");
        let at = self.all.len();
        self.index[place] = (self.stamp, at as u32); // fewer objects than words in a heap's arena
        self.filter |= 1 << (hash(id) >> 58);
        self.all.push(Write { id, copy, from, written: [0; 3] });
        at
    }

    /// Replaces a copy by one of another length.
    pub(super) fn replace(&mut self, at: usize, copy: Version) {
        self.all[at].copy = copy;
    }

    /// Marks a word of the copy as written.
    #[inline]
    pub(super) fn mark(&mut self, at: usize, word: usize) {
        let (bits, bit) = (&mut self.all[at].written[word / 64], 1 << (word % 64));
        self.words += usize::from(*bits & bit == 0);
        *bits |= bit;
    }

    #[cold]
    fn grow(&mut self) {
        self.index = vec![EMPTY; 2 * self.index.len()];
        for at in 0..self.all.len() {
            let place = self.probe(self.all[at].id).expect_err("an object has one copy");
            self.index[place] = (self.stamp, at as u32);
        }
    }

    /// Removes all objects, in constant time: a new stamp empties the index.
    #[inline]
    pub(super) fn clear(&mut self) {
        if self.all.is_empty() {
            return;
        }
        self.all.clear();
        (self.filter, self.words) = (0, 0);
        self.stamp = self.stamp.wrapping_add(1);
        if self.stamp == 0 {
            // The stamp has wrapped: entries of old transactions may have any stamp, so none may
            // stay.
            self.index.fill(EMPTY);
            self.stamp = 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clear_forgets_all_objects() {
        let mut writes = Writes::new();
        for objects in [1, 300, 5, 1000] {
            for id in 0..objects {
                assert_eq!(writes.find(7 * id), None);
                let at = writes.add(7 * id, Version::NONE, Version::NONE);
                assert_eq!(writes.find(7 * id), Some(at));
            }
            assert!((0..objects).all(|id| writes.all()[writes.find(7 * id).unwrap()].id == 7 * id));
            writes.clear();
        }
    }

    #[test]
    fn rewritten_word_counts_once() {
        let mut writes = Writes::new();
        let at = writes.add(9, Version::NONE, Version::NONE);
        for word in [0, 128, 0, 64] {
            writes.mark(at, word);
        }
        assert_eq!(writes.words(), 3);
    }
}
