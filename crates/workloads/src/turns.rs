//! Keys that a worker puts in and later takes out again, so that a table stays as large as it is.
//!
//! ```text
//!   the worker's own numbers    | ... | taken out | there: LAG of them | to be put in | ... |
//!                                       an update takes out ^      the next puts in ^
//! ```
//!
//! The first `lag` updates only put in; from then on one takes out what was put in longest ago and
//! one puts in. When all numbers have had their turn they come again. Workers share no number, and
//! a run takes out only what it has put in itself: so for each update it can be told whether it was
//! done. What an earlier run left is put in again, or stays.

use crate::stamp::Stamp;
use crate::zipf::{scatter, scattering};
use crate::{CLIENTS_MAX, Options};

/// The most that a worker has put in and not yet taken out: enough that what is taken out has left
/// a core's own caches.
const LAG_MAX: u64 = 1024;

/// Fewest numbers of a worker.
const LEN_MIN: u64 = 4;

/// The least that a worker has put in and not yet taken out, once it has begun to. One of them is
/// there at any time, then: it tells that what an earlier run put in was taken out, not lost.
const LAG_MIN: u64 = 2;

/// Fewest numbers for all workers together.
pub(crate) const NUMBERS_MIN: u64 = LEN_MIN * CLIENTS_MAX as u64;

/// What an update does, to which of the numbers below the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    In(u64),
    Out(u64),
}

/// How many workers share what is shared out: as many as the options say, or as many as there may
/// be when this is not one of those.
pub(crate) fn workers_of(index: usize, options: &Options) -> usize {
    if index < options.workers { options.workers } else { CLIENTS_MAX }
}

/// A worker's share of what is numbered from 0 on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Every `parts`-th from `part` on.
    part: u64,
    parts: u64,
}

impl Share {
    /// Of one of so many workers.
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

    /// The one behind `current`, again and again through those below `end`; the first behind
    /// `u64::MAX`.
    #[inline]
    pub(crate) fn next(self, current: u64, end: u64) -> u64 {
        let next = current.saturating_add(self.parts);
        if next < end { next } else { self.part }
    }
}

/// One worker's updates, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    share: Share,
    len: u64,
    lag: u64,
    /// Permutes the worker's numbers.
    factor: u64,
    /// The first number, and updates drawn so far.
    first: u64,
    drawn: u64,
}

impl Turns {
    /// Of one of so many workers, on numbers below `end`, from any one on.
    pub(crate) fn new(index: usize, workers: usize, end: u64, random: u64) -> Turns {
        let share = Share::of(index, workers);
        let len = (end / share.parts).max(LEN_MIN);
        let lag = (len / 16).clamp(LAG_MIN, LAG_MAX);
        Turns { share, len, lag, factor: scattering(len), first: random % len, drawn: 0 }
    }

    /// The same, one number behind the other.
    pub(crate) fn in_order(index: usize, workers: usize, end: u64, random: u64) -> Turns {
        Turns { factor: 1, ..Turns::new(index, workers, end, random) }
    }

    /// The next update.
    #[inline]
    pub(crate) fn advance(&mut self) -> Turn {
        self.drawn += 1;
        self.current()
    }

    /// The update drawn last.
    #[inline]
    pub(crate) fn current(&self) -> Turn {
        let nth = self.drawn.saturating_sub(1);
        match nth.checked_sub(self.lag) {
            None => Turn::In(self.number(nth)),
            Some(past) if past % 2 == 0 => Turn::Out(self.number(past / 2)),
            Some(past) => Turn::In(self.number(self.lag + past / 2)),
        }
    }

    /// Whether the update drawn last was done; `found` tells the stamped value of a number, with
    /// the key that it was stamped for.
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
            Turn::Out(number) => Ok(is_in(number)?.unwrap_or(true)),
            Turn::In(number) => {
                if is_in(number)? == Some(true) {
                    return Ok(true);
                }
                // A later update may have taken it out: then something put in later is there.
                let place = self.drawn.saturating_sub(1);
                let place = place.checked_sub(self.lag).map_or(place, |past| self.lag + past / 2);
                // What is there was put in one behind the other, about `lag` of them: long steps
                // find it at once, if not each number is looked at.
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

    /// The number that is put in the `nth` time.
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

    /// Does updates on a model of the numbers that are there.
    fn run(turns: &mut Turns, stamp: &mut Stamp, there: &mut HashMap<u64, u64>, updates: usize) {
        for _ in 0..updates {
            stamp.advance();
            match turns.advance() {
                Turn::In(number) => drop(there.insert(number, stamp.value(number))),
                Turn::Out(number) => drop(there.remove(&number).expect("it was put in")),
            }
        }
    }

    fn is_done(turns: &Turns, stamp: Stamp, there: &HashMap<u64, u64>) -> bool {
        let found = |number| Ok::<_, ()>((there.get(&number).copied(), number));
        turns.is_done(stamp, found).unwrap()
    }

    #[test]
    fn numbers_come_and_go_and_each_update_can_be_told() {
        for (workers, end) in [(1, 1000), (3, 1000), (256, NUMBERS_MIN)] {
            let mut there = HashMap::new();
            let mut all: Vec<(Turns, Stamp)> = (0..3.min(workers))
                .map(|index| (Turns::new(index, workers, end, 77), Stamp::first(index, 1)))
                .collect();
            if workers == 1 {
                all[0].0 = Turns::in_order(0, 1, end, 77);
            }
            for _ in 0..5000 {
                for (turns, stamp) in &mut all {
                    run(turns, stamp, &mut there, 1);
                    let (mut next, mut at) = (turns.clone(), *stamp);
                    assert!(is_done(&next, at, &there));
                    next.advance();
                    at.advance();
                    assert!(!is_done(&next, at, &there), "it did not run yet");
                    assert!(turns.number(0) < end);
                }
                assert!(there.len() as u64 <= all.iter().map(|(turns, _)| turns.lag).sum());
            }
        }
    }

    #[test]
    fn an_update_that_later_ones_undid_was_done() {
        let (mut turns, mut stamp) = (Turns::new(0, 1, 64, 5), Stamp::first(0, 1));
        let mut there = HashMap::new();
        run(&mut turns, &mut stamp, &mut there, 50);
        let (early, at) = (turns.clone(), stamp);
        for _ in 0..500 {
            run(&mut turns, &mut stamp, &mut there, 1);
            assert!(is_done(&early, at, &there));
        }
    }
}
