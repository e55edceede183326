//! Latencies of sampled transactions, at little cost to the others.
//!
//! ```text
//!   | sampled | up to 64 others | look at the durable ID | up to 64 others | look | ...
//!    start ... commit .................................. durable
//! ```
//!
//! One transaction in [`EVERY`] is timed, or one in [`EVERY_READ`] of a worker that only reads. A
//! worker that runs few transactions times at least [`SAMPLES_MIN`] of them, or all. The worker
//! polls the durable ID between other transactions. These are short, so polls are about 10
//! microseconds apart: the resolution of durable latencies. In sync mode every transaction is
//! timed, and both latencies are equal. With `--sample every` each transaction is timed and
//! followed by a poll, as in a program that acknowledges one by one.

use std::collections::VecDeque;

use hdrhistogram::Histogram;
use lastword::TxId;
use medium::cpu;

/// Sampling interval: two clock reads cost as much as a short transaction.
const EVERY: u64 = 1024;

/// Sampling interval of workers that only read: enough samples for a median within a few percent.
const EVERY_READ: u64 = 8;

/// Minimum samples of a worker whose number of transactions is known: ten samples lie beyond the
/// p99.
const SAMPLES_MIN: u64 = 1024;

/// Maximum transactions between two polls.
const STRIDE_MAX: u64 = 64;

/// Intended interval of polls, in nanoseconds.
const LOOK_NS: u64 = 10_000;

/// Significant digits of a histogram.
const DIGITS: u8 = 3;

/// Longest distinguishable latency: 100 s.
const NS_MAX: u64 = 100_000_000_000;

/// Transactions to time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sampling {
    /// None.
    Off,
    /// One transaction in [`EVERY`].
    Some,
    /// One transaction in [`EVERY_READ`].
    Often,
    /// Every transaction, which is durable when it returns.
    All,
    /// Every transaction, each followed by a poll.
    Watched,
}

impl Sampling {
    /// Returns the sampling of workers that only read.
    pub(crate) fn of_readers(self) -> Sampling {
        if self == Sampling::Some { Sampling::Often } else { self }
    }

    /// Returns the sampling interval of a worker that runs up to `quota` transactions.
    fn every(self, quota: u64) -> u64 {
        let at_most = (quota / SAMPLES_MIN).max(1);
        match self {
            Sampling::Off => u64::MAX,
            Sampling::Some => EVERY.min(at_most),
            Sampling::Often => EVERY_READ.min(at_most),
            Sampling::All | Sampling::Watched => 1,
        }
    }
}

/// Latencies in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Latencies {
    /// From the first attempt to the commit's return.
    pub(crate) commit: Histogram<u64>,
    /// From the first attempt until it was durable.
    pub(crate) durable: Histogram<u64>,
    /// Of those, the ones known to be durable when the next transaction had returned.
    by_next: u64,
    /// Whether every transaction was polled.
    watched: bool,
}

impl Latencies {
    pub(crate) fn new() -> Latencies {
        // With a fixed range: a growing histogram would allocate during the measurement.
        let empty = || Histogram::new_with_max(NS_MAX, DIGITS).expect("the bounds are allowed");
        Latencies { commit: empty(), durable: empty(), by_next: 0, watched: false }
    }

    pub(crate) fn add(&mut self, other: &Latencies) {
        let add = |to: &mut Histogram<u64>, from| to.add(from).expect("all have the same bounds");
        add(&mut self.commit, &other.commit);
        add(&mut self.durable, &other.durable);
        self.by_next += other.by_next;
        self.watched |= other.watched;
    }

    /// Returns the fraction known to be durable when the next transaction had returned; `None`
    /// unless every transaction was polled.
    pub(crate) fn durable_by_next(&self) -> Option<f64> {
        let count = self.durable.len();
        (self.watched && count > 0).then(|| self.by_next as f64 / count as f64)
    }
}

/// A sampled transaction that is not known to be durable.
#[derive(Clone, Copy, Debug)]
struct Pending {
    /// Cycles when it began.
    start: u64,
    id: TxId,
    number: u64,
}

/// One worker's samples.
#[derive(Debug)]
pub(crate) struct Sampler {
    sampling: Sampling,
    /// Sampling interval.
    every: u64,
    is_durable: bool,
    latencies: Latencies,
    /// Sampled and not yet durable.
    pending: VecDeque<Pending>,
    /// Number of the next sampled transaction, from 0.
    next: u64,
    /// Number of the transaction from which the clock is polled.
    next_look: u64,
    /// Cycles at the last sample.
    last: u64,
    stride: u64,
}

impl Sampler {
    /// Creates a sampler. `is_durable`: the design makes transactions durable. `quota`: the maximum
    /// number of the worker's transactions.
    pub(crate) fn new(sampling: Sampling, is_durable: bool, quota: u64) -> Sampler {
        let next = if sampling == Sampling::Off { u64::MAX } else { 0 };
        Sampler {
            sampling,
            every: sampling.every(quota),
            is_durable,
            latencies: Latencies::new(),
            pending: VecDeque::with_capacity(1024),
            next,
            next_look: 0,
            last: cpu::cycles(),
            stride: STRIDE_MAX,
        }
    }

    /// Returns whether the transaction with this number is timed.
    #[inline]
    pub(crate) fn is_due(&self, number: u64) -> bool {
        number >= self.next
    }

    /// Returns how many transactions may run before the next poll.
    #[inline]
    pub(crate) fn stride(&self, number: u64) -> u64 {
        self.stride.min(self.next.saturating_sub(number))
    }

    /// Returns whether transactions are so long that the clock may be read between two timed ones.
    /// It is read once for at most [`STRIDE_MAX`] transactions, so that short ones are not slowed.
    #[inline]
    pub(crate) fn is_slow(&mut self, number: u64) -> bool {
        let is_due = self.stride < STRIDE_MAX && number >= self.next_look;
        if is_due {
            self.next_look = number + STRIDE_MAX;
        }
        is_due
    }

    /// Records a timed transaction, in cycles.
    pub(crate) fn sampled(&mut self, number: u64, start: u64, end: u64, id: TxId) {
        let ns = cpu::cycles_to_ns(end.saturating_sub(start));
        self.latencies.commit.saturating_record(ns);
        if self.sampling == Sampling::All {
            if self.is_durable {
                self.latencies.durable.saturating_record(ns);
            }
            self.next = number + 1;
            return;
        }
        if self.is_durable {
            self.pending.push_back(Pending { start, id, number });
        }
        if self.sampling == Sampling::Watched {
            self.next = number + 1;
            return;
        }
        let every = self.every;
        let each_ns = cpu::cycles_to_ns(end.saturating_sub(self.last)) / every;
        if number > 0 {
            self.stride = (LOOK_NS / each_ns.max(1)).clamp(1, STRIDE_MAX);
        }
        self.last = end;
        self.next = number + every;
    }

    /// Skips a timed transaction that aborted itself: the next one is timed.
    pub(crate) fn skipped(&mut self, number: u64) {
        self.next = number + 1;
    }

    /// Records the samples that are durable by this ID, after this many transactions.
    #[inline]
    pub(crate) fn look(&mut self, count: u64, durable: impl FnOnce() -> TxId) {
        if let Some(first) = self.pending.front() {
            let durable = durable();
            if durable >= first.id {
                self.settle(durable, count, cpu::cycles());
            }
        }
    }

    fn settle(&mut self, durable: TxId, count: u64, now: u64) {
        while let Some(&sample) = self.pending.front().filter(|sample| durable >= sample.id) {
            let ns = cpu::cycles_to_ns(now.saturating_sub(sample.start));
            self.latencies.durable.saturating_record(ns);
            // The transaction's own return, or the next one's.
            self.latencies.by_next += u64::from(count <= sample.number + 2);
            self.pending.pop_front();
        }
    }

    /// Records all outstanding samples: everything is durable.
    pub(crate) fn finish(mut self, now: u64) -> Latencies {
        self.latencies.watched = self.sampling == Sampling::Watched;
        self.settle(TxId(u64::MAX), u64::MAX, now);
        self.latencies
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_transaction_in_1024_is_timed() {
        let mut sampler = Sampler::new(Sampling::Some, true, u64::MAX);
        let (mut number, mut timed) = (0, 0);
        while number < 10_000 {
            if sampler.is_due(number) {
                sampler.sampled(number, 0, 100, TxId(number));
                (number, timed) = (number + 1, timed + 1);
            }
            number += sampler.stride(number);
        }
        assert_eq!(timed, 10);
        assert_eq!(sampler.latencies.commit.len(), 10);
    }

    /// Counts the timed ones of `count` transactions.
    fn timed_of(sampling: Sampling, count: u64) -> u64 {
        let mut sampler = Sampler::new(sampling, true, count);
        let (mut number, mut timed) = (0, 0);
        while number < count {
            if sampler.is_due(number) {
                sampler.sampled(number, 0, 100, TxId(number));
                (number, timed) = (number + 1, timed + 1);
            }
            number += sampler.stride(number).min(count - number);
        }
        timed
    }

    #[test]
    fn short_run_is_sampled_more_often() {
        assert_eq!(timed_of(Sampling::Some, 1), 1);
        assert_eq!(timed_of(Sampling::Some, 1000), 1000);
        assert_eq!(timed_of(Sampling::Some, 2048), 1024);
        assert_eq!(timed_of(Sampling::Some, 100_000), 1031); // one in 97
        assert_eq!(timed_of(Sampling::Some, 1 << 21), 2048);
        assert_eq!(timed_of(Sampling::Often, 1024), 1024);
        assert_eq!(timed_of(Sampling::Off, 1000), 0);
    }

    #[test]
    fn of_a_reader_many_more_are_timed() {
        assert_eq!(Sampling::Some.of_readers(), Sampling::Often);
        assert_eq!(Sampling::All.of_readers(), Sampling::All);
        let mut sampler = Sampler::new(Sampling::Often, true, u64::MAX);
        let mut number = 0;
        while number < 1000 {
            if sampler.is_due(number) {
                sampler.sampled(number, 0, 100, TxId(0));
                number += 1;
            }
            number += sampler.stride(number);
            sampler.look(number, || TxId(0));
        }
        assert_eq!((sampler.latencies.commit.len(), sampler.pending.len()), (125, 0));
    }

    #[test]
    fn a_sample_is_durable_when_its_id_is_and_never_before() {
        let mut sampler = Sampler::new(Sampling::Some, true, u64::MAX);
        sampler.sampled(0, 0, 100, TxId(7));
        sampler.look(1, || TxId(6));
        assert_eq!(sampler.latencies.durable.len(), 0);
        sampler.look(2, || TxId(7));
        assert_eq!(sampler.latencies.durable.len(), 1);
        let ns = cpu::cycles_to_ns(cpu::cycles()).min(NS_MAX);
        assert!(
            sampler.latencies.durable.max() >= ns / 2,
            "from the start, 0 cycles, until the look"
        );
        sampler.look(3, || unreachable!("nothing is pending"));
        sampler.sampled(1024, 0, 100, TxId(9));
        assert_eq!(sampler.finish(200).durable.len(), 2);
    }

    #[test]
    fn designs_that_keep_nothing_have_no_durable_latency() {
        for sampling in [Sampling::Some, Sampling::All] {
            let mut sampler = Sampler::new(sampling, false, u64::MAX);
            sampler.sampled(0, 0, 100, TxId(1));
            let latencies = sampler.finish(200);
            assert_eq!((latencies.commit.len(), latencies.durable.len()), (1, 0));
        }
    }

    #[test]
    fn in_sync_mode_every_transaction_is_timed() {
        let mut sampler = Sampler::new(Sampling::All, true, u64::MAX);
        for number in 0..100 {
            assert!(sampler.is_due(number));
            sampler.sampled(number, 0, 100, TxId(number));
            assert_eq!(sampler.stride(number + 1), 0);
        }
        assert_eq!(sampler.finish(200).durable.len(), 100);
    }

    #[test]
    fn watched_sampling_counts_transactions_durable_by_next() {
        let mut sampler = Sampler::new(Sampling::Watched, true, u64::MAX);
        // Transactions 0 to 3; durable after each poll: none, 0 and 1, none, 2.
        for (number, durable) in [(0, 0), (1, 2), (2, 2), (3, 3)] {
            assert!(sampler.is_due(number));
            sampler.sampled(number, 0, 100, TxId(number + 1));
            assert_eq!(sampler.stride(number + 1), 0);
            sampler.look(number + 1, || TxId(durable));
        }
        sampler.sampled(4, 0, 100, TxId(5));
        sampler.look(5, || TxId(3)); // 3 is late
        let latencies = sampler.finish(200);
        assert_eq!((latencies.durable.len(), latencies.durable_by_next()), (5, Some(0.6)));
        assert_eq!(Sampler::new(Sampling::Some, true, u64::MAX).finish(1).durable_by_next(), None);
    }

    #[test]
    fn transaction_after_aborted_one_is_timed() {
        for sampling in [Sampling::Some, Sampling::All, Sampling::Watched] {
            let mut sampler = Sampler::new(sampling, true, u64::MAX);
            assert!(sampler.is_due(0));
            sampler.skipped(0);
            assert_eq!(sampler.stride(1), 0);
            assert!(sampler.is_due(1));
        }
    }

    #[test]
    fn the_clock_is_looked_at_between_slow_transactions_only() {
        let ms = cpu::cycles_per_second() / 1000;
        for (each, looks) in [(ms / 1_000_000, 0), (ms, 15)] {
            let mut sampler = Sampler::new(Sampling::Some, true, u64::MAX);
            sampler.last = 0;
            sampler.sampled(1024, 0, 1024 * each, TxId(1));
            let looked = (1025..2048).filter(|&number| sampler.is_slow(number)).count();
            assert!((looks..=looks + 1).contains(&looked), "{looked}");
        }
    }

    #[test]
    fn nothing_is_timed_when_it_is_off() {
        let sampler = Sampler::new(Sampling::Off, true, u64::MAX);
        assert!(!sampler.is_due(1 << 40));
        assert_eq!(sampler.stride(5), STRIDE_MAX);
    }
}
