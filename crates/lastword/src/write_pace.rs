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
    /// Pages that are due and not yet written.
    due: f64,
    /// Pages that a step writes a second, if one has written any.
    speed: Option<f64>,
}

/// The weight of the last slice in the speed of writes: a slow sync counts, and does not decide.
const SPEED_WEIGHT: f64 = 0.125;

/// The least rate that writers are slowed to, in bytes a second.
const RATE_MIN: f64 = (1 << 20) as f64;

impl WritePace {
    pub(crate) fn new(log_bytes: u64) -> WritePace {
        WritePace { log_bytes, due: 0.0, speed: None }
    }

    /// Returns the pages to write after `taken` bytes of log were taken in. `used`: the bytes of
    /// log in use. `pages`: the pages with words.
    pub(crate) fn pages(&mut self, taken: u64, used: u64, pages: usize) -> usize {
        if used < self.log_bytes / 4 {
            self.due = 0.0;
            return 0;
        }
        if pages == 0 {
            return 1; // the superblock alone frees the log
        }
        if used > self.log_bytes / 4 * 3 {
            self.due = 0.0;
            return pages.min(SLICE_PAGES);
        }
        let period = (self.log_bytes / 16 * 5).max(1);
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
        let used_max = self.log_bytes - self.log_bytes / 8;
        let rate = |start: u64, pages: usize| {
            let room = (start + used_max).saturating_sub(head) as f64;
            if pages == 0 { f64::INFINITY } else { room * speed / pages as f64 }
        };
        let next = waits.next_oldest.map_or(f64::INFINITY, |next| rate(next, waits.pages));
        let rate = rate(oldest, waits.sweep_pages).min(next);
        let (used, quarter) = (head.saturating_sub(oldest), self.log_bytes / 4);
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
