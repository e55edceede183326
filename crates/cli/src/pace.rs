//! Evenness of a run: its worst 100 ms.
//!
//! Each worker records its number of transactions about once a millisecond:
//!
//! ```text
//!   marks of worker 0   | ....|....|..........stall..........|....|....|
//!   marks of worker 1   |..|....|....|....|....|....|....|....|....|....|
//!   all, each ms        | | | | | | | | | | | | | | | | | | | | | | | | |
//!                             <------------ 100 ms ------------>
//! ```
//!
//! Between two marks a worker's transactions are interpolated evenly. A stall has a mark shortly
//! before it and one at its end, so no transaction is interpolated into it. Windows lie where every
//! worker was running.

use medium::cpu;

/// Length of a window, in milliseconds.
const WINDOW_MS: usize = 100;

/// Initial capacity: the marks of ten seconds.
const MARKS: usize = 10_000;

/// One worker's marks.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Pairs of a cycle count and the transactions done by then; both ascend.
    marks: Vec<(u64, u64)>,
    /// The last observation, recorded or not.
    last: (u64, u64),
    next: u64,
    /// Cycles of a millisecond.
    tick: u64,
}

impl Pace {
    /// Creates the record of a worker that starts now.
    pub(crate) fn start(now: u64) -> Pace {
        Pace::with_tick(now, cpu::cycles_per_second() / 1000)
    }

    fn with_tick(now: u64, tick: u64) -> Pace {
        let mut marks = Vec::with_capacity(MARKS);
        marks.push((now, 0));
        Pace { marks, last: (now, 0), next: now + tick, tick }
    }

    /// Observes the number of transactions done by now.
    #[inline]
    pub(crate) fn mark(&mut self, now: u64, count: u64) {
        if now >= self.next {
            self.push(now, count);
        }
        self.last = (now, count);
    }

    #[cold]
    fn push(&mut self, now: u64, count: u64) {
        if self.last.0 > self.marks.last().map_or(0, |mark| mark.0) {
            self.marks.push(self.last);
        }
        self.marks.push((now, count));
        self.next = now + self.tick;
    }

    /// Ends the record.
    pub(crate) fn end(mut self, now: u64, count: u64) -> Pace {
        self.push(now, count);
        self
    }

    /// Adds the transactions done by tick `from + i` to `sums[i]`, interpolated between marks.
    fn add_to(&self, sums: &mut [f64], from: u64) {
        let mut after = 1;
        for (i, sum) in sums.iter_mut().enumerate() {
            let at = from + i as u64 * self.tick;
            while after + 1 < self.marks.len() && self.marks[after].0 < at {
                after += 1;
            }
            let ((t0, c0), (t1, c1)) = (self.marks[after - 1], self.marks[after]);
            let share = (at - t0) as f64 / (t1 - t0).max(1) as f64;
            *sum += c0 as f64 + (c1 - c0) as f64 * share;
        }
    }
}

/// Returns the fewest transactions of all workers in any 100 ms during which all were running;
/// `None` if no such window exists.
pub(crate) fn worst_100ms(paces: &[Pace]) -> Option<u64> {
    let tick = paces.first()?.tick;
    let from = paces.iter().map(|pace| pace.marks[0].0).max()?;
    let until = paces.iter().filter_map(|pace| pace.marks.last()).map(|mark| mark.0).min()?;
    let ticks = until.checked_sub(from)? / tick.max(1);
    let mut sums = vec![0.0; ticks as usize + 1];
    for pace in paces {
        pace.add_to(&mut sums, from);
    }
    let windows = sums.iter().zip(sums.iter().skip(WINDOW_MS));
    windows.map(|(before, after)| (after - before).round() as u64).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a worker that does `each` transactions a millisecond of 1000 cycles, observes each,
    /// and stalls between `stall.0` and `stall.1` milliseconds.
    fn worker(start_ms: u64, end_ms: u64, each: u64, stall: (u64, u64)) -> Pace {
        let mut pace = Pace::with_tick(1000 * start_ms, 1000);
        let mut count = 0;
        for number in 1..=(end_ms - start_ms) * each {
            let now = 1000 * start_ms + number * 1000 / each;
            if now <= 1000 * stall.0 || now > 1000 * stall.1 {
                count += 1;
                pace.mark(now, count);
            }
        }
        pace.end(1000 * end_ms, count)
    }

    #[test]
    fn even_run_has_even_worst_window() {
        let paces = [worker(0, 1000, 10, (0, 0)), worker(0, 1000, 30, (0, 0))];
        let worst = worst_100ms(&paces).unwrap();
        assert!((3990..=4000).contains(&worst), "{worst}");
    }

    #[test]
    fn stall_of_one_worker_leaves_other_work() {
        let paces = [worker(0, 1000, 10, (300, 450)), worker(0, 1000, 30, (0, 0))];
        let worst = worst_100ms(&paces).unwrap();
        assert!((2990..=3001).contains(&worst), "{worst}");
    }

    #[test]
    fn stall_shorter_than_window_is_seen_in_full() {
        // A stall of 60 ms between two marks leaves 40 ms of work.
        let worst = worst_100ms(&[worker(0, 1000, 10, (301, 361))]).unwrap();
        assert!((390..=410).contains(&worst), "{worst}");
    }

    #[test]
    fn start_and_end_are_not_stalls() {
        // Workers start late and end early: only the time common to all counts.
        let paces = [worker(50, 1000, 10, (0, 0)), worker(0, 900, 10, (0, 0))];
        let worst = worst_100ms(&paces).unwrap();
        assert!((1990..=2000).contains(&worst), "{worst}");
    }

    #[test]
    fn short_run_has_no_worst_window() {
        assert_eq!(worst_100ms(&[]), None);
        assert_eq!(worst_100ms(&[worker(0, 99, 10, (0, 0))]), None);
        assert_eq!(worst_100ms(&[worker(0, 60, 10, (0, 0)), worker(60, 200, 10, (0, 0))]), None);
        assert!(worst_100ms(&[worker(0, 101, 10, (0, 0))]).is_some());
    }
}
