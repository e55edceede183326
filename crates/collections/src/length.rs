//! Exact lengths that many transactions change at once: one word, later stripes.
//!
//! ```text
//!   in the collection's header       slots: one object            stripes: objects of 512 bytes
//!   | count |                        | stripe | x 64     --->     | MARK | count | unused |
//!   | slots, or 0 without stripes |  8 neighbors share one, until it counts 2048
//! ```
//!
//! A small collection changes the one word `count`, and takes no further memory. Once `count`
//! reaches 512, every change goes to one of 8 stripes, and to one of 64 in a large collection. The
//! caller's `spread`, most often a hash, selects the stripe. Two stripes never share a lock: most
//! designs lock 512 bytes, and `snapshot` locks objects.
//!
//! Invariants:
//! - The length is the sum of `count` and of the stripes' counts. Each of these may be negative, as
//!   a count in two's complement: an entry may leave through another stripe.
//! - The 8 slots of a group hold one stripe, or 8 different ones. `count` is constant with stripes.
//! - Write skew: a change writes the word that it changes, and relies on the pointers that lead
//!   there. A transaction that frees a stripe writes it first. A split writes the stripe that it
//!   splits; a change that finds the old stripe afterwards is still part of the sum.

use words::{Addr, Allocate, Stop, Words};

/// The first word of a stripe: "stripe".
const MARK: u64 = 0x7374_7269_7065;

/// The first word of a freed stripe.
const DEAD: u64 = 0;

/// Most that is counted in the header alone. The stripes take 4.7 KiB, as much as half of the
/// smallest entries of so many.
const SINGLE_MAX: u64 = 512;

/// The count at which a stripe is replaced by 8: the collection then has about 16 thousand entries,
/// and 64 stripes take 34 KiB.
const SPLIT_AT: u64 = 2048;

/// Slots for stripes.
const SLOTS: usize = 64;

/// Slots that share one stripe at first.
const GROUP: usize = 8;

/// Bytes of a stripe, so that no two are in one unit of locking; also those of the slots.
const STRIPE_BYTES: usize = 512;

const _: () = assert!(8 * SLOTS == STRIPE_BYTES);

/// The place of a length: two words in the header of a collection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Length {
    at: Addr,
}

impl Length {
    /// Words of a length in the header.
    pub(crate) const WORDS: usize = 2;

    /// The content of these words in a new collection.
    pub(crate) const ZERO: [u64; Length::WORDS] = [0, 0];

    /// Returns the length at this place.
    #[inline]
    pub(crate) const fn at(at: Addr) -> Length {
        Length { at }
    }

    /// Adds to the length. The upper bits of `spread` select the stripe.
    ///
    /// # Errors
    /// As [`Words::write`]; as [`Allocate::allocate`] when stripes are made.
    #[inline]
    pub(crate) fn add<W: Allocate>(self, tx: &mut W, spread: u64, by: i64) -> Result<(), Stop> {
        let [count, slots] = self.header(tx)?;
        if slots == 0 {
            let count = count.wrapping_add_signed(by);
            tx.write(self.at, count)?;
            return if is_large(count, SINGLE_MAX) { self.stripe(tx) } else { Ok(()) };
        }
        let slot = (spread >> (u64::BITS - SLOTS.ilog2())) as usize;
        tx.after_last_read();
        let stripe = tx.read(Addr::new(slots, 8 * slot as u64))?;
        tx.after_last_read();
        let old = count_of(tx, stripe)?;
        let new = old.wrapping_add_signed(by);
        tx.write(Addr::new(stripe, 8), new)?;
        // At each multiple of the limit: a stripe of its own is not asked about at every change.
        if is_large(new, SPLIT_AT) && new / SPLIT_AT != old / SPLIT_AT {
            split(tx, slots, slot - slot % GROUP, stripe)?;
        }
        Ok(())
    }

    /// Returns the sum, which only a [`Counter`](crate::Counter) allows to be negative.
    ///
    /// # Errors
    /// As [`Words::read`], and [`Stop::BadValue`] when the slots hold something else.
    pub(crate) fn sum<W: Words>(self, tx: &mut W) -> Result<i64, Stop> {
        let [mut sum, slots] = self.header(tx)?;
        for stripe in stripes(tx, slots)? {
            sum = sum.wrapping_add(count_of(tx, stripe)?);
        }
        Ok(sum.cast_signed())
    }

    /// Returns the length of a collection.
    ///
    /// # Errors
    /// As [`sum`](Length::sum), and [`Stop::BadValue`] when it is negative.
    pub(crate) fn get<W: Words>(self, tx: &mut W) -> Result<u64, Stop> {
        u64::try_from(self.sum(tx)?).map_err(|_| Stop::BadValue)
    }

    /// Returns whether changes go to stripes.
    ///
    /// # Errors
    /// As [`Words::read`].
    #[inline]
    pub(crate) fn has_stripes<W: Words>(self, tx: &mut W) -> Result<bool, Stop> {
        Ok(self.header(tx)?[1] != 0)
    }

    /// Makes stripes, if there are none.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    #[cold]
    pub(crate) fn stripe<W: Allocate>(self, tx: &mut W) -> Result<(), Stop> {
        if self.has_stripes(tx)? {
            return Ok(());
        }
        let mut all = [0; SLOTS];
        for group in all.chunks_mut(GROUP) {
            group.fill(new_stripe(tx)?);
        }
        let slots = tx.allocate(STRIPE_BYTES)?;
        tx.write_words(Addr::new(slots, 0), &all)?;
        tx.write(self.at.plus(8), slots)
    }

    /// Frees the stripes and keeps the sum in the header: the collection became small.
    ///
    /// # Errors
    /// As [`sum`](Length::sum) and [`Words::retire`].
    pub(crate) fn fold<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        let [_, slots] = self.header(tx)?;
        if slots == 0 {
            return Ok(());
        }
        let sum = self.sum(tx)?;
        self.free(tx)?;
        tx.write_words(self.at, &[sum.cast_unsigned(), 0])
    }

    /// Frees the stripes. The words in the header are invalid from then on.
    ///
    /// # Errors
    /// As [`sum`](Length::sum) and [`Words::retire`].
    pub(crate) fn free<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        let [_, slots] = self.header(tx)?;
        if slots == 0 {
            return Ok(());
        }
        for stripe in stripes(tx, slots)? {
            count_of(tx, stripe)?;
            // A concurrent change of this stripe conflicts with the write, in every design.
            tx.write(Addr::new(stripe, 0), DEAD)?;
            tx.retire(Addr::new(stripe, 0), STRIPE_BYTES as u64)?;
        }
        tx.write(Addr::new(slots, 0), DEAD)?;
        tx.retire(Addr::new(slots, 0), STRIPE_BYTES as u64)
    }

    /// Returns the sum, once no stripe is in two groups or twice in one.
    ///
    /// # Errors
    /// As [`sum`](Length::sum), and [`Stop::BadValue`] when the rule is broken.
    pub(crate) fn check<W: Words>(self, tx: &mut W) -> Result<i64, Stop> {
        let [_, slots] = self.header(tx)?;
        let mut all = stripes(tx, slots)?;
        let found = all.len();
        all.sort_unstable();
        all.dedup();
        if all.len() != found {
            return Err(Stop::BadValue);
        }
        self.sum(tx)
    }

    fn header<W: Words>(self, tx: &mut W) -> Result<[u64; Length::WORDS], Stop> {
        let mut words = Length::ZERO;
        tx.read_words(self.at, &mut words)?;
        Ok(words)
    }
}

/// Returns whether a count in two's complement is at least this far from zero.
const fn is_large(count: u64, limit: u64) -> bool {
    count.cast_signed().unsigned_abs() >= limit
}

fn new_stripe<W: Allocate>(tx: &mut W) -> Result<u64, Stop> {
    let stripe = tx.allocate(STRIPE_BYTES)?;
    tx.write_words(Addr::new(stripe, 0), &[MARK, 0])?;
    Ok(stripe)
}

fn count_of<W: Words>(tx: &mut W, stripe: u64) -> Result<u64, Stop> {
    let mut words = [0; 2];
    tx.read_words(Addr::new(stripe, 0), &mut words)?;
    if words[0] == MARK { Ok(words[1]) } else { Err(Stop::BadValue) }
}

/// Returns every stripe once; none without slots.
fn stripes<W: Words>(tx: &mut W, slots: u64) -> Result<Vec<u64>, Stop> {
    if slots == 0 {
        return Ok(Vec::new());
    }
    let mut all = [0; SLOTS];
    tx.read_words(Addr::new(slots, 0), &mut all)?;
    let mut found = Vec::with_capacity(SLOTS);
    for group in all.chunks(GROUP) {
        let shared = group.iter().all(|&stripe| stripe == group[0]);
        if !shared && group.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Stop::BadValue);
        }
        found.extend_from_slice(if shared { &group[..1] } else { group });
    }
    for &stripe in &found {
        tx.will_read(Addr::new(stripe, 0), 16);
    }
    Ok(found)
}

/// Gives each slot of the group from `first` on its own stripe, if they share `stripe`.
#[cold]
fn split<W: Allocate>(tx: &mut W, slots: u64, first: usize, stripe: u64) -> Result<(), Stop> {
    let at = Addr::new(slots, 8 * first as u64);
    let mut group = [0; GROUP];
    tx.read_words(at, &mut group)?;
    if group != [stripe; GROUP] {
        return Ok(());
    }
    for slot in &mut group[1..] {
        *slot = new_stripe(tx)?;
    }
    tx.write_words(at, &group)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use words::mock::Mock;
    use words::{Objects, Place, Transact};

    use super::*;

    fn create(mock: &mut Mock) -> Length {
        let header = mock.transact(|tx| tx.alloc(Length::ZERO)).unwrap();
        Length::at(header.addr())
    }

    fn add(mock: &mut Mock, length: Length, spread: u64, by: i64) {
        mock.transact(|tx| length.add(tx, spread, by)).unwrap();
    }

    /// A number whose upper bits are those of a hash.
    fn spread(n: u64) -> u64 {
        n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn small_length_is_one_word() {
        let mut mock = Mock::new(1 << 16);
        let length = create(&mut mock);
        for n in 1..SINGLE_MAX {
            add(&mut mock, length, spread(n), 1);
            assert_eq!(mock.words_written(), 1);
        }
        assert_eq!(mock.objects(), 1);
        add(&mut mock, length, 0, 1);
        assert_eq!(mock.objects(), 1 + 1 + 8, "slots and 8 stripes");
        assert_eq!(mock.transact(|tx| length.get(tx)).unwrap(), SINGLE_MAX);
        add(&mut mock, length, 0, 1);
        assert_eq!(mock.words_written(), 1);
    }

    #[test]
    fn large_length_has_64_stripes() {
        let mut mock = Mock::new(1 << 20);
        let length = create(&mut mock);
        for n in 0..30_000 {
            add(&mut mock, length, spread(n), 1);
        }
        assert_eq!(mock.objects(), 1 + 1 + 64);
        let objects: BTreeMap<u64, u64> = mock.live().into_iter().collect();
        let starts: Vec<u64> = objects.keys().copied().skip(1).collect();
        assert!(starts.windows(2).all(|pair| pair[0] / 512 != pair[1] / 512), "no lock in common");
        assert_eq!(mock.transact(|tx| length.check(tx)).unwrap(), 30_000);
        mock.transact(|tx| length.fold(tx)).unwrap();
        assert_eq!(mock.objects(), 1);
        assert_eq!(mock.transact(|tx| length.get(tx)).unwrap(), 30_000);
    }

    #[test]
    fn negative_length_is_refused() {
        let mut mock = Mock::new(1 << 16);
        let length = create(&mut mock);
        add(&mut mock, length, 0, -1);
        assert_eq!(mock.transact(|tx| length.sum(tx)).unwrap(), -1);
        assert_eq!(mock.transact(|tx| length.get(tx)).unwrap_err().stop, Stop::BadValue);
    }

    #[test]
    fn damaged_stripes_are_refused() {
        let mut mock = Mock::forgiving(1 << 16);
        let length = create(&mut mock);
        mock.transact(|tx| length.stripe(tx)).unwrap();
        let slots = mock.transact(|tx| tx.read(length.at.plus(8))).unwrap();
        let all = mock.transact(|tx| stripes(tx, slots)).unwrap();
        let refused = |mock: &mut Mock| mock.transact(|tx| length.check(tx)).unwrap_err().stop;
        // A stripe that two groups share, slots in a stripe's place, one stripe often in a group of
        // several, and no stripe.
        for (count, value, stop) in [
            (8, all[1], Stop::BadValue),
            (8, slots, Stop::BadValue),
            (1, all[1], Stop::BadValue),
            (8, 12345, Stop::BadPointer),
        ] {
            let mut old = [0; 8];
            let at = Addr::new(slots, 0);
            mock.transact(|tx| {
                tx.read_words(at, &mut old)?;
                tx.write_words(at, &[value; 8][..count])
            })
            .unwrap();
            assert_eq!(refused(&mut mock), stop);
            mock.transact(|tx| tx.write_words(at, &old)).unwrap();
        }
        let into_slots = mock.transact(|tx| {
            tx.write(Addr::new(slots, 0), slots)?;
            length.add(tx, 0, 1)
        });
        assert_eq!(into_slots.unwrap_err().stop, Stop::BadValue, "nothing else is overwritten");
        assert_eq!(mock.transact(|tx| length.check(tx)).unwrap(), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn length_is_the_sum_of_all_changes(
            changes in vec((any::<u64>(), -3000..4000_i64), 0..200), conflict in 0..2000_u64,
        ) {
            let mut mock = Mock::new(1 << 19);
            let length = create(&mut mock);
            mock.conflict_after(conflict);
            let mut expected = 0;
            for (n, &(spread, by)) in changes.iter().enumerate() {
                add(&mut mock, length, spread, by);
                expected += by;
                prop_assert_eq!(mock.transact(|tx| length.check(tx)).unwrap(), expected);
                if n % 97 == 96 {
                    mock.transact(|tx| length.fold(tx)).unwrap();
                    prop_assert_eq!(mock.objects(), 1);
                }
            }
            mock.transact(|tx| length.free(tx)).unwrap();
            prop_assert_eq!(mock.objects(), 1);
        }
    }
}
