//! A counter that many threads change at once.
//!
//! ```text
//!   | count | pointer | changes |        count and pointer: see `length`
//! ```
//!
//! Each of the first 65 changes writes the counter's own object. Afterwards threads change 8
//! stripes and, once these change often, 64. So up to 64 threads do not conflict with each other.
//!
//! Invariant: `changes` is constant once there are stripes.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use words::{Addr, Allocate, Field, Objects, Place, Ptr, Stop, Words};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::length::Length;

/// Words of a counter.
const WORDS: usize = Length::WORDS + 1;

/// Changes until a counter has stripes: 4.6 KiB are for counters that change often.
const CHANGES_MAX: u64 = 64;

/// A sum of integers: a value of one word that objects can hold.
///
/// [`add`](Counter::add) of two threads rarely conflicts. [`get`](Counter::get) reads up to 64
/// words, and conflicts with every concurrent change in designs that validate reads.
///
/// ```
/// use collections::Counter;
/// use words::{Transact, mock::Mock};
///
/// let mut mock = Mock::new(1 << 16);
/// let visits = mock.transact(|tx| Counter::create(tx))?;
/// for _ in 0..1000 {
///     mock.transact(|tx| visits.add(tx, 1))?;
/// }
/// mock.transact(|tx| visits.add(tx, -1))?;
/// assert_eq!(mock.transact(|tx| visits.get(tx))?, 999);
/// # Ok::<(), words::mock::Refused>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct Counter {
    object: Ptr<[u64; WORDS]>,
}

impl Counter {
    /// Creates a counter that is 0.
    ///
    /// # Errors
    /// As [`Allocate::allocate`].
    pub fn create<W: Allocate>(tx: &mut W) -> Result<Counter, Stop> {
        Ok(Counter { object: tx.alloc([0; WORDS])? })
    }

    /// Returns the counter with this object.
    pub(crate) const fn at_object(object: u64) -> Counter {
        Counter { object: Ptr::from_bits(object) }
    }

    /// Adds a number, which may be negative. The sum wraps at the limits of `i64`.
    ///
    /// # Errors
    /// As [`Words::write`]; as [`Allocate::allocate`] when the counter gets stripes.
    #[inline]
    pub fn add<W: Allocate>(self, tx: &mut W, by: i64) -> Result<(), Stop> {
        self.add_at(tx, thread_number(), by)
    }

    /// Adds a number in the stripe of worker `worker`, counted from 0. Use it where one thread runs
    /// several workers, or where an execution must be repeated exactly.
    ///
    /// # Errors
    /// As [`add`](Counter::add).
    pub fn add_at<W: Allocate>(self, tx: &mut W, worker: u64, by: i64) -> Result<(), Stop> {
        let length = self.length();
        if !length.has_stripes(tx)? {
            let changes = Field::<u64>::new(self.at(Length::WORDS));
            let before = tx.get(changes)?;
            tx.set(changes, before.wrapping_add(1))?;
            if before >= CHANGES_MAX {
                length.stripe(tx)?;
            }
        }
        // Neighboring workers get stripes that are far apart, since neighbors may share one.
        length.add_often(tx, worker.reverse_bits(), by)
    }

    /// Returns the sum.
    ///
    /// # Errors
    /// As [`Words::read`], and [`Stop::BadValue`] when the object is no counter.
    pub fn get<W: Words>(self, tx: &mut W) -> Result<i64, Stop> {
        self.length().sum(tx)
    }

    /// Frees the memory. Every copy of this value dangles from then on.
    ///
    /// # Errors
    /// [`Stop::BadPointer`] when the counter was freed before.
    pub fn free<W: Words>(self, tx: &mut W) -> Result<(), Stop> {
        self.length().free(tx)?;
        tx.free(self.object)
    }

    fn length(self) -> Length {
        Length::at(self.at(0))
    }

    fn at(self, word: usize) -> Addr {
        self.object.addr().plus(8 * word as u64)
    }
}

/// Returns the number of this thread: threads are counted from 0 as each first changes a counter.
fn thread_number() -> u64 {
    static THREADS: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static NUMBER: Cell<Option<u64>> = const { Cell::new(None) };
    }
    NUMBER.with(|number| {
        number.get().unwrap_or_else(|| {
            // Relaxed: the number publishes nothing else.
            let new = THREADS.fetch_add(1, Ordering::Relaxed);
            number.set(Some(new));
            new
        })
    })
}

#[cfg(test)]
mod tests {
    use words::Transact;
    use words::mock::Mock;

    use super::*;

    #[test]
    fn counter_is_the_sum_of_all_workers() {
        let mut mock = Mock::new(1 << 20);
        let counter = mock.transact(Counter::create).unwrap();
        assert_eq!(mock.bytes_live(), 24);
        let mut expected = 0;
        for n in 0..2000_i64 {
            let by = n * 7919 % 1001 - 600;
            mock.transact(|tx| counter.add_at(tx, n as u64 % 100, by)).unwrap();
            expected += by;
            assert_eq!(mock.transact(|tx| counter.get(tx)).unwrap(), expected);
        }
        mock.transact(|tx| counter.free(tx)).unwrap();
        assert_eq!(mock.objects(), 0);
    }

    #[test]
    fn gauge_gets_a_stripe_for_each_worker() {
        let mut mock = Mock::new(1 << 20);
        let counter = mock.transact(Counter::create).unwrap();
        for n in 0..40_000 {
            mock.transact(|tx| counter.add_at(tx, n / 2 % 16, 1 - (n % 2 * 2) as i64)).unwrap();
        }
        assert_eq!(mock.objects(), 1 + 1 + 64, "although it is never far from 0");
        assert_eq!(mock.words_written(), 1);
        assert_eq!(mock.transact(|tx| counter.get(tx)).unwrap(), 0);
    }

    #[test]
    fn often_changed_counter_writes_one_word() {
        let mut mock = Mock::new(1 << 16);
        let counter = mock.transact(Counter::create).unwrap();
        for n in 0..200 {
            mock.transact(|tx| counter.add(tx, 1 - n % 2 * 2)).unwrap();
        }
        assert_eq!(mock.words_written(), 2, "a count, and the number of changes of a stripe");
        assert_eq!(mock.objects(), 1 + 1 + 8, "although it is never far from 0");
    }
}
