//! Keys that a worker inserts and later removes again, so that a table keeps its size.
//!
//! ```text
//!   the worker's own numbers    | ... | removed | present: LAG of them | to be inserted | ... |
//!                                an update removes ^   the next inserts ^
//! ```
//!
//! The first `lag` updates only insert. From then on removals of the oldest key and inserts
//! alternate. After the last number the first follows again. Workers share no number, and a run
//! removes only keys that it has inserted itself. The data therefore show for each update whether
//! it committed. A key that an earlier run left is inserted again, or stays.

use crate::options::{CLIENTS_MAX, Options};
use crate::stamp::Stamp;
use crate::zipf::{scatter, scattering};

/// Most keys that a worker has inserted and not yet removed: enough that a removed key has left a
/// core's own caches.
const LAG_MAX: u64 = 1024;

/// Fewest numbers of a worker.
const LEN_MIN: u64 = 4;

/// Fewest keys that a worker has inserted and not yet removed, once it has begun to remove. One of
/// them is present at any time, which proves that the key of an earlier run was removed, not lost.
const LAG_MIN: u64 = 2;

/// Fewest numbers for all workers together.
pub(crate) const NUMBERS_MIN: u64 = LEN_MIN * CLIENTS_MAX as u64;

/// An update: an insert or a removal of a number below the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    In(u64),
    Out(u64),
}

/// Returns how many workers share the data: as many as the options say, or the maximum when this
/// worker is not one of those.
pub(crate) fn workers_of(index: usize, options: &Options) -> usize {
    if index < options.workers { options.workers } else { CLIENTS_MAX }
}

/// A worker's share of items numbered from 0 on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Every `parts`-th from `part` on.
    part: u64,
    parts: u64,
}

impl Share {
    /// Returns the share of one of so many workers.
    pub(crate) fn of(index: usize, workers: usize) -> Share {
        let parts = workers as u64;
        Share { part: index as u64 % parts, parts }
    }

    pub(crate) fn part(self) -> u64 {
        self.part
    }

    pub(crate) fn parts(self) -> u64 {
        self.parts
    }

    /// Returns the item after `current`, going round below `end`; the first one after `u64::MAX`.
    #[inline]
    pub(crate) fn next(self, current: u64, end: u64) -> u64 {
        let next = current.saturating_add(self.parts);
        if next < end { next } else { self.part }
    }
}

/// One worker's updates, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Churn {
    share: Share,
    len: u64,
    lag: u64,
    /// Permutes the worker's numbers.
    factor: u64,
    /// The first number, and the updates generated so far.
    first: u64,
    drawn: u64,
}

impl Churn {
    /// Returns the updates of one of so many workers, on numbers below `end`, in random order.
    pub(crate) fn new(index: usize, workers: usize, end: u64, random: u64) -> Churn {
        let share = Share::of(index, workers);
        let len = (end / share.parts).max(LEN_MIN);
        let lag = (len / 16).clamp(LAG_MIN, LAG_MAX);
        Churn { share, len, lag, factor: scattering(len), first: random % len, drawn: 0 }
    }

    /// The same in ascending order.
    pub(crate) fn in_order(index: usize, workers: usize, end: u64, random: u64) -> Churn {
        Churn { factor: 1, ..Churn::new(index, workers, end, random) }
    }

    /// Generates the next update.
    #[inline]
    pub(crate) fn advance(&mut self) -> Change {
        self.drawn += 1;
        self.current()
    }

    /// Returns the update generated last.
    #[inline]
    pub(crate) fn current(&self) -> Change {
        let nth = self.drawn.saturating_sub(1);
        match nth.checked_sub(self.lag) {
            None => Change::In(self.number(nth)),
            Some(past) if past % 2 == 0 => Change::Out(self.number(past / 2)),
            Some(past) => Change::In(self.number(self.lag + past / 2)),
        }
    }

    /// Returns whether the last update committed; `found` returns the stamped value of a number,
    /// with the key that it was stamped for.
    pub(crate) fn is_done<E>(
        &self,
        stamp: Stamp,
        mut found: impl FnMut(u64) -> Result<(Option<u64>, u64), E>,
    ) -> Result<bool, E> {
        let mut is_in = |number| {
            let (value, key) = found(number)?;
            Ok(value.map(|value| stamp.is_in(value, key)))
        };
        match self.current() {
            Change::Out(number) => Ok(is_in(number)?.unwrap_or(true)),
            Change::In(number) => {
                if is_in(number)? == Some(true) {
                    return Ok(true);
                }
                // A later update may have removed it: then a key inserted later is present.
                let place = self.drawn.saturating_sub(1);
                let place = place.checked_sub(self.lag).map_or(place, |past| self.lag + past / 2);
                // About `lag` keys inserted one after another are present. Long steps find one at
                // once; if not, look at each number.
                for step in [self.lag / 2, 1] {
                    for later in (place + 1..place + self.len).step_by(step as usize) {
                        if is_in(self.number(later))? == Some(true) {
                            return Ok(true);
                        }
                    }
                }
                Ok(false)
            }
        }
    }

    /// Returns the number that is inserted the `nth` time.
    #[inline]
    fn number(&self, nth: u64) -> u64 {
        let place = scatter((self.first + nth) % self.len, self.factor, self.len);
        place * self.share.parts + self.share.part
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Applies updates to a model of the present numbers.
    fn run(churn: &mut Churn, stamp: &mut Stamp, there: &mut HashMap<u64, u64>, updates: usize) {
        for _ in 0..updates {
            stamp.advance();
            match churn.advance() {
                Change::In(number) => drop(there.insert(number, stamp.value(number))),
                Change::Out(number) => drop(there.remove(&number).expect("the key was inserted")),
            }
        }
    }

    fn is_done(churn: &Churn, stamp: Stamp, there: &HashMap<u64, u64>) -> bool {
        let found = |number| Ok::<_, ()>((there.get(&number).copied(), number));
        churn.is_done(stamp, found).unwrap()
    }

    #[test]
    fn every_update_is_recognised_as_done() {
        for (workers, end) in [(1, 1000), (3, 1000), (256, NUMBERS_MIN)] {
            let mut there = HashMap::new();
            let mut all: Vec<(Churn, Stamp)> = (0..3.min(workers))
                .map(|index| (Churn::new(index, workers, end, 77), Stamp::first(index, 1)))
                .collect();
            if workers == 1 {
                all[0].0 = Churn::in_order(0, 1, end, 77);
            }
            for _ in 0..5000 {
                for (churn, stamp) in &mut all {
                    run(churn, stamp, &mut there, 1);
                    let (mut next, mut at) = (churn.clone(), *stamp);
                    assert!(is_done(&next, at, &there));
                    next.advance();
                    at.advance();
                    assert!(!is_done(&next, at, &there), "the update has not run yet");
                    assert!(churn.number(0) < end);
                }
                assert!(there.len() as u64 <= all.iter().map(|(churn, _)| churn.lag).sum());
            }
        }
    }

    #[test]
    fn overwritten_update_counts_as_done() {
        let (mut churn, mut stamp) = (Churn::new(0, 1, 64, 5), Stamp::first(0, 1));
        let mut there = HashMap::new();
        run(&mut churn, &mut stamp, &mut there, 50);
        let (early, at) = (churn.clone(), stamp);
        for _ in 0..500 {
            run(&mut churn, &mut stamp, &mut there, 1);
            assert!(is_done(&early, at, &there));
        }
    }
}
