//! The pace of page writes: how many pages a reproduce step writes while groups come in, and the
//! rate to which writers are slowed.
//!
//! Page writes that begin when the log is full stop every commit until they end. So they go on
//! beside the commits, in proportion to the log that is taken in.
//!
//! ```text
//!   log in use   0 ........ L/4 .................................. 3/4 L ........... L
//!   pages        none       |  pages * taken / (5/16 L)            |  slice after slice
//!   writers      as fast    |  slowed, at first at most twice as fast as the disk
//! ```
//!
//! Pages are written in sweeps: each writes all pages that had words when it began. A sweep takes
//! as long as 5/16 of the log are taken in, and the log of the sweep before is free when it ends.
//! So between 5/16 and 10/16 of the log are in use under a steady load. Every page is written once
//! in 5/16 of the log, so a larger log writes fewer pages. With more than three quarters of the log
//! in use pages are written as fast as the disk can: in proportion to writers that are slowed, they
//! would become slower too.
//!
//! With a limit for the time of a recovery, L is a part of the log: as much as a recovery can read,
//! and write the pages of, in this time. The speed of the page writes says how much that is.
//!
//! A step writes a slice: enough pages that the sync after it is worth its time, and few enough
//! that the step soon takes groups in again, and learns the speed of the disk.

use std::time::Duration;

use medium::Unwritten;

/// Most pages of a slice: 32 MiB, a fraction of a second on most disks.
pub(crate) const SLICE_PAGES: usize = 8 << 10;

/// The share of the pages with words that a slice has at least.
const SLICE_SHARE: usize = 32;

/// Pages of a slice above which the sync takes less time than the pages. A pool with fewer pages
/// writes a quarter of them at a time.
const SLICE_PAGES_MIN: usize = 512;

/// The pace of one pool.
#[derive(Debug)]
pub(crate) struct WritePace {
    log_bytes: u64,
    /// The part of the log that may be in use: all of it, or less for a short recovery.
    window: u64,
    /// The time that a recovery should take at most.
    recovery: Option<Duration>,
    /// Pages that are due and not yet written.
    due: f64,
    /// Pages that a step writes a second, if one has written any.
    speed: Option<f64>,
}

/// The weight of the last slice in the speed of writes: a slow sync counts, and does not decide.
const SPEED_WEIGHT: f64 = 0.125;

/// Bytes of log that a recovery reads in a second, with the words that it gathers: an estimate for
/// a disk. Its page writes take most of its time.
const READ_SPEED: f64 = (128 << 20) as f64;

/// The share of the log that is in use however short a recovery should be.
const LEAST_WINDOW: u64 = 64;

/// The least rate that writers are slowed to, in bytes a second.
const RATE_MIN: f64 = (1 << 20) as f64;

impl WritePace {
    pub(crate) fn new(log_bytes: u64) -> WritePace {
        WritePace { log_bytes, window: log_bytes, recovery: None, due: 0.0, speed: None }
    }

    /// Limits the time that a recovery should take.
    pub(crate) fn limit_recovery(&mut self, time: Option<Duration>) {
        self.recovery = time;
    }

    /// Adapts the window to the time that a recovery would take now, with so many bytes of log in
    /// use and pages that wait.
    fn fit(&mut self, used: u64, pages: usize) {
        let (Some(limit), Some(speed)) = (self.recovery, self.speed) else { return };
        if used < self.window / 4 || speed <= 0.0 {
            return; // too little for an estimate
        }
        let time = pages as f64 / speed + used as f64 / READ_SPEED;
        // At most seven eighths of the window are in use: see `rate_max`.
        let fits = used as f64 * limit.as_secs_f64() / time * (8.0 / 7.0);
        let least = (self.log_bytes / LEAST_WINDOW).max(1);
        let fits = (fits as u64).clamp(least, self.log_bytes);
        // In small steps, because the speed of writes varies.
        self.window = self.window - self.window / 8 + fits / 8;
        self.window = self.window.clamp(least, self.log_bytes);
    }

    /// Returns the pages to write after `taken` bytes of log were taken in. `used`: the bytes of
    /// log in use. `pages`: the pages with words.
    pub(crate) fn pages(&mut self, taken: u64, used: u64, pages: usize) -> usize {
        self.fit(used, pages);
        if used < self.window / 4 {
            self.due = 0.0;
            return 0;
        }
        if pages == 0 {
            return 1; // the superblock alone frees the log
        }
        if used > self.window / 4 * 3 {
            self.due = 0.0;
            return pages.min(SLICE_PAGES);
        }
        let period = (self.window / 16 * 5).max(1);
        self.due += pages as f64 * taken as f64 / period as f64;
        self.due = self.due.min(pages as f64);
        let due = self.due as usize;
        let least = (pages / SLICE_SHARE).clamp(SLICE_PAGES_MIN.min(pages / 4), SLICE_PAGES);
        if due == 0 || due < least {
            return 0;
        }
        let slice = due.min(SLICE_PAGES);
        self.due -= slice as f64;
        slice
    }

    /// Notes that a step wrote so many pages in a time, its sync included.
    pub(crate) fn wrote(&mut self, pages: u64, time: Duration) {
        if pages == 0 || time.is_zero() {
            return;
        }
        let last = pages as f64 / time.as_secs_f64();
        let speed = self.speed.unwrap_or(last);
        self.speed = Some(speed + SPEED_WEIGHT * (last - speed));
    }

    /// Returns the bytes of log a second that writers may fill, if they are to be slowed. `head`:
    /// the log sequence after the last group. `waits`: the words that wait.
    ///
    /// Log up to the words that wait for the next sweep is free when this sweep ends, and log up to
    /// the head when the next one does. At this rate the log in use is at most seven eighths until
    /// then. While less than half of it is in use, writers may fill up to twice as much: a rate
    /// that fell at once would be as bad as a full log.
    pub(crate) fn rate_max(&self, head: u64, waits: &Unwritten) -> Option<f64> {
        let (speed, oldest) = (self.speed?, waits.oldest?);
        let used_max = self.window - self.window / 8;
        let rate = |start: u64, pages: usize| {
            let room = (start + used_max).saturating_sub(head) as f64;
            if pages == 0 { f64::INFINITY } else { room * speed / pages as f64 }
        };
        let next = waits.next_oldest.map_or(f64::INFINITY, |next| rate(next, waits.pages));
        let rate = rate(oldest, waits.sweep_pages).min(next);
        let (used, quarter) = (head.saturating_sub(oldest), self.window / 4);
        let ease = (2 * quarter).saturating_sub(used) as f64 / quarter.max(1) as f64;
        (used >= quarter).then_some((rate * (1.0 + ease)).max(RATE_MIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: u64 = 1 << 20;

    #[test]
    fn little_log_in_use_writes_no_page() {
        let mut pace = WritePace::new(LOG);
        assert_eq!(pace.pages(LOG / 8, LOG / 4 - 1, 1000), 0);
        assert_eq!(pace.pages(LOG / 8, LOG / 4, 0), 1);
        assert_eq!(pace.pages(LOG / 16, LOG / 4, 1000), 0);
        assert_eq!(pace.pages(LOG / 16, LOG / 4, 1000), 400);
        assert_eq!(pace.pages(0, LOG / 4 * 3 + 1, 700), 700);
        assert_eq!(pace.pages(LOG / 4, LOG, 10 * SLICE_PAGES), SLICE_PAGES);
    }

    #[test]
    fn log_lasts_until_both_sweeps_end() {
        const MIB: u64 = 1 << 20;
        let mut pace = WritePace::new(64 * MIB);
        let waits = |oldest, sweep_pages, next: u64, pages| Unwritten {
            pages,
            oldest: Some(oldest),
            sweep_pages,
            next_oldest: Some(next * MIB),
        };
        assert_eq!(pace.rate_max(48 * MIB, &waits(0, 1000, 16, 2000)), None, "no speed is known");
        pace.wrote(500, Duration::from_millis(500));
        assert_eq!(pace.rate_max(15 * MIB, &waits(0, 1000, 8, 2000)), None, "little is in use");
        assert_eq!(pace.rate_max(48 * MIB, &Unwritten::default()), None);
        let rate = |pace: &WritePace, head, waits: &Unwritten| {
            pace.rate_max(head * MIB, waits).map(|rate| rate / MIB as f64)
        };
        // 8 MiB are free up to 56, and the pages of the sweep take two seconds.
        assert_eq!(rate(&pace, 48, &waits(0, 2000, 40, 3000)), Some(4.0));
        // 16 MiB are free after it, and both sweeps take eight seconds.
        assert_eq!(rate(&pace, 48, &waits(0, 2000, 8, 8000)), Some(2.0));
        assert_eq!(rate(&pace, 24, &waits(0, 2000, 20, 2500)), Some(1.5 * 16.0));
        assert_eq!(rate(&pace, 64, &waits(0, 2000, 60, 3000)), Some(RATE_MIN / MIB as f64));
        pace.wrote(0, Duration::from_secs(9));
        pace.wrote(500, Duration::from_millis(250));
        assert_eq!(rate(&pace, 48, &waits(0, 2250, 40, 2300)), Some(4.0));
    }

    #[test]
    fn short_recovery_uses_a_part_of_the_log() {
        let mut pace = WritePace::new(64 * LOG);
        pace.limit_recovery(Some(Duration::from_secs(2)));
        pace.wrote(500, Duration::from_secs(1));
        // 4000 pages take 8 s for 32 MiB of log: 2 s fit in 8 MiB, of which 7/8 are in use.
        let steps = |pace: &mut WritePace, pages| {
            for _ in 0..200 {
                pace.pages(0, 32 * LOG, pages);
            }
        };
        steps(&mut pace, 4000);
        let window = pace.window as f64 / LOG as f64;
        assert!((8.0..9.2).contains(&window), "{window} MiB");
        assert_eq!(pace.pages(0, 7 * LOG, 900), 900, "it writes when three quarters are in use");
        // No log is too small for progress, and none is larger than it is.
        steps(&mut pace, 1 << 20);
        assert!((LOG..LOG + 8).contains(&pace.window), "{}", pace.window);
        steps(&mut pace, 1);
        assert!(pace.window > 63 * LOG, "{}", pace.window);
    }

    /// Takes the log in by pieces of `taken` bytes. Each writes one word of each of `pages` pages
    /// in turn, `words` in a piece. Returns the greatest and the last use of the log.
    fn simulated(pages: usize, words: usize, taken: u64) -> (u64, u64) {
        let (mut pace, mut has_words) = (WritePace::new(LOG), vec![false; pages]);
        let (mut sweep, mut order, mut oldest) = (Vec::new(), Vec::new(), 0);
        let (mut head, mut used, mut most) = (0, 0, 0);
        for word in 0..100 * LOG as usize / taken as usize * words {
            if !std::mem::replace(&mut has_words[word % pages], true) {
                order.push((word % pages, head));
            }
            if (word + 1) % words > 0 {
                continue;
            }
            head += taken;
            for _ in 0..pace.pages(taken, used, sweep.len() + order.len()) {
                if sweep.is_empty() {
                    oldest = order.first().map_or(head, |(_, start)| *start);
                    sweep.append(&mut order);
                }
                if let Some((page, _)) = sweep.pop() {
                    has_words[page] = false;
                }
            }
            let next = order.first().map_or(head, |(_, start)| *start);
            used = head - if sweep.is_empty() { next } else { oldest };
            most = most.max(used);
        }
        (most, used)
    }

    #[test]
    fn log_in_use_settles_and_never_fills() {
        for (pages, words) in [(3, 10), (100, 1000), (5000, 100), (100_000, 300), (1 << 18, 4000)] {
            let (most, last) = simulated(pages, words, LOG / 256);
            assert!(most <= LOG * 13 / 16, "{pages} pages, {words} words: {most}");
            assert!(last <= LOG * 12 / 16, "{pages} pages, {words} words: {last}");
        }
    }
}
