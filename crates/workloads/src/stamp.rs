//! Stamps: values that identify the transaction that wrote them.
//!
//! ```text
//!   63      58 57           44 43      36 35                        0
//!   | check   | run           | worker   | transaction in this run   |
//! ```
//!
//! Run 0 is loading. The check bits depend on the rest and on the key. A value that strayed to
//! another key, or was never written, is therefore recognised 63 times out of 64.

use crate::options::CLIENTS_MAX;

const SEQUENCE_BITS: u32 = 36;
const WORKER_BITS: u32 = 8;
const RUN_BITS: u32 = 14;
const CHECK_SHIFT: u32 = SEQUENCE_BITS + WORKER_BITS + RUN_BITS;

/// Spreads numbers over all words: the fractional part of the golden ratio, odd.
pub(crate) const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

const _: () = assert!(CLIENTS_MAX == 1 << WORKER_BITS && CHECK_SHIFT == 58);

/// The identity of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(u64);

impl Stamp {
    /// The stamp of loading.
    pub(crate) const LOADED: Stamp = Stamp(0);

    /// Returns the stamp before the first transaction of a client.
    pub(crate) fn first(index: usize, seed: u64) -> Stamp {
        assert!(index < CLIENTS_MAX, "client {index} of {CLIENTS_MAX}");
        // Never 0, which is loading's.
        let run = 1 + seed % ((1 << RUN_BITS) - 1);
        Stamp((run << WORKER_BITS | index as u64) << SEQUENCE_BITS)
    }

    /// Advances to the client's next transaction. After 2^36 (hours at any rate) they start again.
    #[inline]
    pub(crate) fn advance(&mut self) {
        let sequence = (self.sequence() + 1) & ((1 << SEQUENCE_BITS) - 1);
        self.0 = self.0 >> SEQUENCE_BITS << SEQUENCE_BITS | sequence;
    }

    /// Returns the value to write under a key.
    #[inline]
    pub(crate) fn value(self, key: u64) -> u64 {
        self.0 | check_bits(self.0, key) << CHECK_SHIFT
    }

    /// Returns the stamp in a value found under a key; `None` when no transaction wrote it there.
    #[inline]
    pub(crate) fn of(value: u64, key: u64) -> Option<Stamp> {
        let stamp = Stamp(value & ((1 << CHECK_SHIFT) - 1));
        (stamp.value(key) == value).then_some(stamp)
    }

    /// Returns whether `found` under the key is this transaction's value or a later one's.
    pub(crate) fn is_in(self, found: u64, key: u64) -> bool {
        Stamp::of(found, key).is_some_and(|found| {
            if found.run() != self.run() {
                found.run() > self.run()
            } else {
                found.worker() != self.worker() || found.sequence() >= self.sequence()
            }
        })
    }

    /// Returns whether `found` under the key is this transaction's value, or proves that the same
    /// worker committed a later transaction or a later run began. Unlike with
    /// [`is_in`](Stamp::is_in), other workers of the run prove nothing.
    pub(crate) fn is_passed_by(self, found: u64, key: u64) -> bool {
        self.is_in(found, key)
            && Stamp::of(found, key)
                .is_some_and(|found| found.run() > self.run() || found.worker() == self.worker())
    }

    /// Returns whether this transaction is its client's first write under the key, where no other
    /// client writes at the same time. `found` was written before.
    pub(crate) fn begins_a_run(self, found: u64, key: u64) -> bool {
        Stamp::of(found, key).is_none_or(|found| {
            (found.run(), found.worker()) != (self.run(), self.worker())
                || found.sequence() >= self.sequence()
        })
    }

    pub(crate) fn run(self) -> u64 {
        self.0 >> (SEQUENCE_BITS + WORKER_BITS)
    }

    pub(crate) fn worker(self) -> u64 {
        self.0 >> SEQUENCE_BITS & ((1 << WORKER_BITS) - 1)
    }

    /// Returns worker and run as one number; 0 is loading's.
    pub(crate) fn author(self) -> u64 {
        self.0 >> SEQUENCE_BITS
    }

    /// Returns how many transactions its client has generated, with this one.
    pub(crate) fn sequence(self) -> u64 {
        self.0 & ((1 << SEQUENCE_BITS) - 1)
    }
}

/// Returns the words of a value that is larger than its stamp. The stamp is the first; all follow
/// from it and the key.
#[inline]
pub(crate) fn content<const WORDS: usize>(stamped: u64, key: u64) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    for (i, word) in words.iter_mut().enumerate() {
        *word = (stamped ^ key.rotate_left(32)).wrapping_add(i as u64).wrapping_mul(SPREAD);
    }
    words[0] = stamped;
    words
}

#[inline]
fn check_bits(stamp: u64, key: u64) -> u64 {
    (stamp ^ key.rotate_left(32)).wrapping_add(1).wrapping_mul(SPREAD) >> 58
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nth(index: usize, seed: u64, sequence: u64) -> Stamp {
        let mut stamp = Stamp::first(index, seed);
        (0..sequence).for_each(|_| stamp.advance());
        stamp
    }

    #[test]
    fn value_is_present_until_an_older_one_replaces_it() {
        let mine = nth(3, 7, 10);
        assert!(mine.is_in(mine.value(99), 99));
        assert!(mine.is_in(nth(3, 7, 11).value(99), 99), "my later transaction");
        assert!(mine.is_in(nth(4, 7, 1).value(99), 99), "another worker");
        assert!(mine.is_in(nth(3, 8, 1).value(99), 99), "a later run");
        assert!(!mine.is_in(nth(3, 7, 9).value(99), 99), "my earlier transaction");
        assert!(!mine.is_in(nth(4, 6, 50).value(99), 99), "an earlier run");
        assert!(!mine.is_in(Stamp::LOADED.value(99), 99), "loading's value");
        assert!(!nth(0, 0, 1).is_in(Stamp::LOADED.value(99), 99), "run 0 is loading's alone");
        assert!(!nth(5, 16_383, 1).is_in(Stamp::LOADED.value(99), 99));
    }

    #[test]
    fn stray_value_is_recognised() {
        let mut passed = 0;
        for key in 0..1000 {
            let value = nth(1, 1, key).value(key);
            assert_eq!(Stamp::of(value, key), Some(nth(1, 1, key)));
            passed += usize::from(Stamp::of(value, key + 1).is_some());
            passed += usize::from(Stamp::of(value ^ 1 << (key % 64), key).is_some());
        }
        assert!(passed < 100, "{passed} of 2000 wrong values passed");
    }
}
