//! Exact lengths that many transactions change at once: one word, later stripes.
//!
//! ```text
//!   the collection's header      from 64 on            from 512 on
//!   | count   |                  stripe:               slots:
//!   | pointer |  ------------->  | MARK | count |  or  | MARK | stripe x 64 |  ---> stripes
//!                                | changes      |      8 neighbors share a stripe that
//!                                                      counts less than 2048
//! ```
//!
//! A length is in the header first, and takes no further memory. From 64 entries on it is in an
//! object of its own, a *stripe*, so that a change does not conflict with every reader of the
//! header. From 512 on each change goes to one of 8 stripes, and in a large collection to one of
//! 64. The caller's `spread`, most often a hash, selects the stripe. Two stripes never share a
//! lock: most designs lock 512 bytes, and `snapshot` locks objects.
//!
//! A [`Counter`](crate::Counter) may change often and stay small. Its shared stripes count their
//! changes, and are replaced by 8 after 1024.
//!
//! Invariants:
//! - The length is the sum of the header's count, which is constant once there are stripes, and of
//!   the stripes' counts. Each may be negative, as a count in two's complement: an entry may leave
//!   through another stripe.
//! - The 8 slots of a group hold one stripe, or 8 different ones.
//! - Write skew: a change writes the word that it changes, and relies on the pointers that lead
//!   there. A transaction that frees a stripe writes it first. New stripes are made by a change of
//!   the old one, which it writes and keeps: a change that finds the old one is part of the sum.

use system::mutants::{Mutant, injected};
use words::{Addr, Allocate, Stop, Words};

/// The first word of a stripe: "stripe".
const MARK: u64 = 0x7374_7269_7065;

/// The first word of the slots: "slots".
const SLOTS_MARK: u64 = 0x73_6c6f_7473;

/// The first word of a freed object.
const DEAD: u64 = 0;

/// The count in the header at which a stripe is made, of 512 bytes. The smallest entries of so many
/// take 1.5 KiB.
const HEADER_MAX: u64 = 64;

/// The count of the first stripe at which there are 8, and slots. Together they take 4.6 KiB, a
/// third of the smallest entries.
const SINGLE_MAX: u64 = 512 - HEADER_MAX;

/// The count at which a stripe is replaced by 8: the collection then has about 16 thousand entries,
/// and 64 stripes take 33 KiB.
const SPLIT_AT: u64 = 2048;

/// The number of a counter's changes in one stripe at which it is replaced by 8.
const CHANGES_MAX: u64 = 1024;

/// Slots for stripes.
const SLOTS: usize = 64;

/// Slots that share one stripe at first.
const GROUP: usize = 8;

/// Bytes of the slots.
const SLOTS_BYTES: usize = 8 * (1 + SLOTS);

/// Bytes of a stripe. With the header of 16 bytes, no two have their counts in one unit of locking.
const STRIPE_BYTES: usize = 496;

/// The place of a length: two words in the header of a collection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Length {
    at: Addr,
}

/// The object to which the header points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// None: the header counts.
    Header,
    /// One stripe, with this count.
    Stripe(u64, u64),
    /// The slots.
    Slots(u64),
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
    pub(crate) fn add<W: Allocate>(self, tx: &mut W, spread: u64, by: i64) -> Result<(), Stop> {
        let (count, form) = self.open(tx)?;
        match form {
            Form::Header => {
                let count = count.wrapping_add_signed(by);
                tx.write(self.at, count)?;
                if is_large(count, HEADER_MAX) {
                    let stripe = new_stripe(tx)?;
                    tx.write(self.at.plus(8), stripe)?;
                }
                Ok(())
            }
            Form::Stripe(stripe, count) => {
                let count = count.wrapping_add_signed(by);
                tx.write(Addr::new(stripe, 8), count)?;
                if is_large(count, SINGLE_MAX) { self.stripe(tx) } else { Ok(()) }
            }
            Form::Slots(slots) => {
                let slot = slot_of(spread);
                tx.after_last_read();
                let stripe = tx.read(slot_at(slots, slot))?;
                tx.after_last_read();
                let old = count_of(tx, stripe)?;
                let new = old.wrapping_add_signed(by);
                tx.write(Addr::new(stripe, 8), new)?;
                // At each multiple of the limit: the slots are not read at every change.
                if is_large(new, SPLIT_AT) && new / SPLIT_AT != old / SPLIT_AT {
                    split(tx, slots, slot - slot % GROUP, stripe)?;
                }
                Ok(())
            }
        }
    }

    /// Subtracts one, which was added with the same `spread`. It allocates nothing.
    ///
    /// # Errors
    /// As [`Words::write`].
    pub(crate) fn subtract<W: Words>(self, tx: &mut W, spread: u64) -> Result<(), Stop> {
        let (count, form) = self.open(tx)?;
        let (at, count) = match form {
            Form::Header => (self.at, count),
            Form::Stripe(stripe, count) => (Addr::new(stripe, 8), count),
            Form::Slots(slots) => {
                tx.after_last_read();
                let stripe = tx.read(slot_at(slots, slot_of(spread)))?;
                tx.after_last_read();
                (Addr::new(stripe, 8), count_of(tx, stripe)?)
            }
        };
        if injected(Mutant::StripeNotUpdated) && form != Form::Header {
            return Ok(());
        }
        tx.write(at, count.wrapping_sub(1))
    }

    /// Adds to the sum of a counter that has slots. Stripes split by their number of changes.
    ///
    /// # Errors
    /// As [`add`](Length::add).
    pub(crate) fn add_often<W: Allocate>(
        self,
        tx: &mut W,
        spread: u64,
        by: i64,
    ) -> Result<(), Stop> {
        let (_, Form::Slots(slots)) = self.open(tx)? else {
            return self.add(tx, spread, by);
        };
        let slot = slot_of(spread);
        let first = slot - slot % GROUP;
        let mut group = [0; GROUP];
        tx.after_last_read();
        tx.read_words(slot_at(slots, first), &mut group)?;
        let stripe = group[slot % GROUP];
        let mut words = [0; 3];
        tx.after_last_read();
        tx.read_words(Addr::new(stripe, 0), &mut words)?;
        let [MARK, count, changes] = words else {
            return Err(Stop::BadValue);
        };
        let count = count.wrapping_add_signed(by);
        if group != [stripe; GROUP] {
            return tx.write(Addr::new(stripe, 8), count);
        }
        tx.write_words(Addr::new(stripe, 8), &[count, changes.wrapping_add(1)])?;
        if changes >= CHANGES_MAX { split(tx, slots, first, stripe) } else { Ok(()) }
    }

    /// Returns the sum, which only a [`Counter`](crate::Counter) allows to be negative.
    ///
    /// # Errors
    /// As [`Words::read`], and [`Stop::BadValue`] when the pointers lead to something else.
    pub(crate) fn sum<W: Words>(self, tx: &mut W) -> Result<i64, Stop> {
        let (mut sum, form) = self.open(tx)?;
        for stripe in stripes(tx, form)? {
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

    /// Returns whether changes go to several stripes.
    ///
    /// # Errors
    /// As [`sum`](Length::sum).
    pub(crate) fn has_stripes<W: Words>(self, tx: &mut W) -> Result<bool, Stop> {
        Ok(matches!(self.open(tx)?.1, Form::Slots(_)))
    }

    /// Makes 8 stripes, if there are none or one.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    #[cold]
    pub(crate) fn stripe<W: Allocate>(self, tx: &mut W) -> Result<(), Stop> {
        let mut first = match self.open(tx)?.1 {
            Form::Header => None,
            Form::Stripe(stripe, _) => Some(stripe),
            Form::Slots(_) => return Ok(()),
        };
        let mut words = [SLOTS_MARK; 1 + SLOTS];
        for group in words[1..].chunks_mut(GROUP) {
            let stripe = match first.take() {
                Some(stripe) => stripe,
                None => new_stripe(tx)?,
            };
            group.fill(stripe);
        }
        let slots = tx.allocate(SLOTS_BYTES)?;
        tx.write_words(Addr::new(slots, 0), &words)?;
        tx.write(self.at.plus(8), slots)
    }

    /// Frees the stripes and keeps the sum in the header: the collection became small.
    ///
    /// # Errors
    /// As [`sum`](Length::sum) and [`Words::retire`].
    pub(crate) fn fold<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        if self.open(tx)?.1 == Form::Header {
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
        let (_, form) = self.open(tx)?;
        for stripe in stripes(tx, form)? {
            count_of(tx, stripe)?;
            discard(tx, stripe, STRIPE_BYTES)?;
        }
        match form {
            Form::Slots(slots) => discard(tx, slots, SLOTS_BYTES),
            Form::Header | Form::Stripe(..) => Ok(()),
        }
    }

    /// Returns the sum, once no stripe is in two groups or twice in one.
    ///
    /// # Errors
    /// As [`sum`](Length::sum), and [`Stop::BadValue`] when the rule is broken.
    pub(crate) fn check<W: Words>(self, tx: &mut W) -> Result<i64, Stop> {
        let (_, form) = self.open(tx)?;
        let mut all = stripes(tx, form)?;
        let found = all.len();
        all.sort_unstable();
        all.dedup();
        if all.len() != found {
            return Err(Stop::BadValue);
        }
        self.sum(tx)
    }

    /// Reads the header, and the head of the object to which it points.
    #[inline]
    fn open<W: Words>(self, tx: &mut W) -> Result<(u64, Form), Stop> {
        let mut header = Length::ZERO;
        tx.read_words(self.at, &mut header)?;
        let [count, object] = header;
        if object == 0 {
            return Ok((count, Form::Header));
        }
        tx.after_last_read();
        let mut words = [0; 2];
        tx.read_words(Addr::new(object, 0), &mut words)?;
        match words {
            [MARK, own] => Ok((count, Form::Stripe(object, own))),
            [SLOTS_MARK, _] => Ok((count, Form::Slots(object))),
            _ => Err(Stop::BadValue),
        }
    }
}

/// Returns whether a count in two's complement is at least this far from zero.
const fn is_large(count: u64, limit: u64) -> bool {
    count.cast_signed().unsigned_abs() >= limit
}

fn new_stripe<W: Allocate>(tx: &mut W) -> Result<u64, Stop> {
    let stripe = tx.allocate(STRIPE_BYTES)?;
    tx.write_words(Addr::new(stripe, 0), &[MARK, 0, 0])?;
    Ok(stripe)
}

fn count_of<W: Words>(tx: &mut W, stripe: u64) -> Result<u64, Stop> {
    let mut words = [0; 2];
    tx.read_words(Addr::new(stripe, 0), &mut words)?;
    if words[0] == MARK { Ok(words[1]) } else { Err(Stop::BadValue) }
}

/// Returns the slot that a spread selects.
const fn slot_of(spread: u64) -> usize {
    (spread >> (u64::BITS - SLOTS.ilog2())) as usize
}

const fn slot_at(slots: u64, slot: usize) -> Addr {
    Addr::new(slots, 8 * (1 + slot) as u64)
}

/// Returns every stripe once.
fn stripes<W: Words>(tx: &mut W, form: Form) -> Result<Vec<u64>, Stop> {
    let slots = match form {
        Form::Header => return Ok(Vec::new()),
        Form::Stripe(stripe, _) => return Ok(vec![stripe]),
        Form::Slots(slots) => slots,
    };
    let mut all = [0; SLOTS];
    tx.read_words(slot_at(slots, 0), &mut all)?;
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

/// Frees an object. A concurrent change of it conflicts with the write, in every design.
fn discard<W: Words>(tx: &mut W, object: u64, bytes: usize) -> Result<(), Stop> {
    tx.write(Addr::new(object, 0), DEAD)?;
    tx.retire(Addr::new(object, 0), bytes as u64)
}

/// Gives each slot of the group from `first` on its own stripe, if they share `stripe`.
#[cold]
fn split<W: Allocate>(tx: &mut W, slots: u64, first: usize, stripe: u64) -> Result<(), Stop> {
    let mut group = [0; GROUP];
    tx.read_words(slot_at(slots, first), &mut group)?;
    if group != [stripe; GROUP] {
        return Ok(());
    }
    for slot in &mut group[1..] {
        *slot = new_stripe(tx)?;
    }
    tx.write_words(slot_at(slots, first), &group)
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
        for n in 1..512 {
            add(&mut mock, length, spread(n), 1);
            assert_eq!(mock.objects(), if n < HEADER_MAX { 1 } else { 2 }, "one stripe");
            assert_eq!(mock.words_written() == 1, n != HEADER_MAX);
        }
        add(&mut mock, length, 0, 1);
        assert_eq!(mock.objects(), 1 + 1 + 8, "slots and 8 stripes");
        assert_eq!(mock.transact(|tx| length.get(tx)).unwrap(), 512);
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
        let all = mock.transact(|tx| stripes(tx, Form::Slots(slots))).unwrap();
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
            let at = slot_at(slots, 0);
            mock.transact(|tx| {
                tx.read_words(at, &mut old)?;
                tx.write_words(at, &[value; 8][..count])
            })
            .unwrap();
            assert_eq!(refused(&mut mock), stop);
            mock.transact(|tx| tx.write_words(at, &old)).unwrap();
        }
        let into_slots = mock.transact(|tx| {
            tx.write(slot_at(slots, 0), slots)?;
            length.add(tx, 0, 1)
        });
        assert_eq!(into_slots.unwrap_err().stop, Stop::BadValue, "nothing else is overwritten");
        let into_header = mock.transact(|tx| {
            tx.write(length.at.plus(8), length.at.object)?;
            length.add(tx, 0, 1)
        });
        assert_eq!(into_header.unwrap_err().stop, Stop::BadValue);
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
