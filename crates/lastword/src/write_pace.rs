//! The pace of page writes: how many pages a reproduce step writes while groups come in, and the
//! rate to which writers are slowed.
//!
//! Page writes that begin when the log is full stop every commit until they end. So they go on
//! beside the commits, in proportion to the log that is taken in.
//!
//! ```text
//!   log in use   0 ........ L/4 ............................ 3/4 L .. 13/16 L ........... L
//!   pages        none       |  as many as keep the log in use below 3/4   |  slice after slice
//!   writers      as fast    |  slowed, at first at most twice as fast as the disk
//! ```
//!
//! Pages are written in rounds over the heap. A place of the heap has words from the time since the
//! last round wrote its pages, so the pages that are written next have the oldest words, and each
//! slice frees log. The heap image reports the pages ahead in groups. The pages up to a group's end
//! must be written before the group's oldest words are 3/4 of the log old. The most urgent group
//! gives the pages to write for each byte that is taken in. Under a steady load a round
//! lasts for 11/16 of the log, and each page is written once in it. So a larger log writes fewer
//! pages. With more than 13/16 of the log in use pages are written as fast as the disk
//! can: in proportion to writers that are slowed, they would become slower too.
//!
//! With a limit for the time of a recovery, L is a part of the log: as much as a recovery can read,
//! and write the pages of, in this time. The speed of the page writes says how much that is.
//!
//! A step writes a slice: enough pages that the sync after it is worth its time, and few enough
//! that the step soon takes groups in again, and learns the speed of the disk.

use std::time::Duration;

use medium::{Ahead, Unwritten};

/// Most pages of a slice: 32 MiB, a fraction of a second on most disks.
pub(crate) const SLICE_PAGES: usize = 8 << 10;

/// The share of the pages with words that a slice has at least.
const SLICE_SHARE: usize = 32;

/// Pages of a slice above which the sync takes less time than the pages. A pool with fewer pages
/// writes a quarter of them at a time.
const SLICE_PAGES_MIN: usize = 512;

/// The log in use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogInUse {
    /// Its bytes, or the bytes that it decodes to if those are more.
    pub(crate) used: u64,
    /// The log sequences at its begin and at its end.
    pub(crate) begin: u64,
    pub(crate) end: u64,
}

impl LogInUse {
    /// Returns how much of it, in the unit of `used`, is after a sequence.
    fn age(&self, sequence: u64) -> u64 {
        let (after, all) = (self.end.saturating_sub(sequence), self.end.saturating_sub(self.begin));
        let scaled = u128::from(self.used) * u128::from(after) / u128::from(all.max(1));
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }
}

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

    /// Sets the size of the log, which has grown.
    pub(crate) fn set_log_bytes(&mut self, bytes: u64) {
        // A window that a short recovery has narrowed stays as it is, and then widens in small
        // steps.
        if self.window == self.log_bytes {
            self.window = bytes;
        }
        self.log_bytes = bytes;
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

    /// Returns the pages to write after `taken` bytes of log were taken in. `waits`: the pages with
    /// words.
    pub(crate) fn pages(&mut self, taken: u64, log: &LogInUse, waits: &Unwritten) -> usize {
        let (pages, used) = (waits.pages, log.used);
        self.fit(used, pages);
        if used < self.window / 4 {
            self.due = 0.0;
            return 0;
        }
        if pages == 0 {
            return 1; // the superblock alone frees the log
        }
        if self.is_nearly_full(used) {
            // More than wait now: pages that get words in this step are written, too.
            self.due = 0.0;
            return SLICE_PAGES;
        }
        let due = |group: &Ahead| {
            let room = (self.window / 4 * 3).saturating_sub(log.age(group.oldest));
            group.pages as f64 * taken as f64 / room.max(taken).max(1) as f64
        };
        self.due += waits.groups().map(due).fold(0.0, f64::max);
        self.due = self.due.min(pages as f64);
        if !self.is_slice_due(pages) {
            return 0;
        }
        let slice = (self.due as usize).min(SLICE_PAGES);
        self.due -= slice as f64;
        slice
    }

    /// Whether a step is to write pages now, however little it takes in. `used`: the log in use.
    /// `pages`: the pages with words.
    pub(crate) fn is_due(&self, used: u64, pages: usize) -> bool {
        pages > 0
            && used >= self.window / 4
            && (self.is_nearly_full(used) || self.is_slice_due(pages))
    }

    fn is_nearly_full(&self, used: u64) -> bool {
        used > self.window / 16 * 13
    }

    /// Whether enough pages are due for a slice.
    fn is_slice_due(&self, pages: usize) -> bool {
        let least = (pages / SLICE_SHARE).clamp(SLICE_PAGES_MIN.min(pages / 4), SLICE_PAGES);
        self.due as usize >= least.max(1)
    }

    /// Notes that a step wrote so many pages in a time, its sync included.
    pub(crate) fn wrote(&mut self, pages: u64, time: Duration) {
        if pages == 0 || time.is_zero() {
            return;
        }
        let last = pages as f64 / time.as_secs_f64();
        let speed = self.speed.unwrap_or(last);
        // The sync decides the time of a few pages.
        let weight = SPEED_WEIGHT * (pages as f64 / SLICE_PAGES_MIN as f64).min(1.0);
        self.speed = Some(speed + weight * (last - speed));
    }

    /// Returns the bytes of log a second that writers may fill, if they are to be slowed. `head`:
    /// the log sequence after the last group. `waits`: the words that wait.
    ///
    /// The log of a group is free when the pages up to its end are written. At this rate the log in
    /// use is at most seven eighths until then. While less than half of it is in use, writers may
    /// fill up to twice as much: a rate that fell at once would be as bad as a full log.
    pub(crate) fn rate_max(&self, head: u64, waits: &Unwritten) -> Option<f64> {
        let (speed, oldest) = (self.speed?, waits.oldest()?);
        let used_max = self.window - self.window / 8;
        let rate = |group: &Ahead| {
            let room = (group.oldest + used_max).saturating_sub(head);
            room as f64 * speed / group.pages as f64
        };
        let rate = waits.groups().map(rate).fold(f64::INFINITY, f64::min);
        let (used, quarter) = (head.saturating_sub(oldest), self.window / 4);
        let ease = (2 * quarter).saturating_sub(used) as f64 / quarter.max(1) as f64;
        (used >= quarter).then_some((rate * (1.0 + ease)).max(RATE_MIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: u64 = 1 << 20;

    fn used(used: u64) -> LogInUse {
        LogInUse { used, begin: 0, end: used }
    }

    /// Groups of pages, each with the pages up to its end and the sequence before its words.
    fn waiting(groups: &[(usize, u64)]) -> Unwritten {
        let mut waits = Unwritten { pages: groups.last().unwrap().0, ..Unwritten::default() };
        for (group, &(pages, oldest)) in waits.ahead.iter_mut().zip(groups) {
            *group = Ahead { pages, oldest };
        }
        waits
    }

    #[test]
    fn pages_left_by_a_slice_are_due_at_once() {
        let mut pace = WritePace::new(LOG);
        let (pages, log) = (40 * SLICE_PAGES, used(LOG / 2));
        // A step that took much in owes more pages than a slice.
        let waits = waiting(&[(pages, 0)]);
        assert_eq!(pace.pages(LOG / 8, &log, &waits), SLICE_PAGES);
        assert!(pace.is_due(log.used, pages));
        let mut slices = 1;
        while pace.is_due(log.used, pages) {
            assert_eq!(pace.pages(0, &log, &waits), SLICE_PAGES);
            slices += 1;
        }
        assert_eq!(slices, 20); // an eighth of the log of the quarter that is left
        assert!(pace.is_due(LOG / 8 * 7, pages) && !pace.is_due(LOG / 8 * 7, 0));
        assert!(!pace.is_due(LOG / 8, pages));
    }

    #[test]
    fn pace_follows_log_that_has_grown() {
        let mut pace = WritePace::new(LOG);
        let waits = waiting(&[(1 << 20, 0)]);
        assert!(pace.pages(LOG / 16, &used(LOG / 2), &waits) > 0);
        pace.set_log_bytes(4 * LOG);
        assert_eq!(pace.pages(LOG / 16, &used(LOG / 2), &waits), 0);
    }

    #[test]
    fn little_log_in_use_writes_no_page() {
        let mut pace = WritePace::new(LOG);
        let pages = |pace: &mut WritePace, taken, bytes, pages| {
            pace.pages(taken, &used(bytes), &waiting(&[(pages, 0)]))
        };
        assert_eq!(pages(&mut pace, LOG / 8, LOG / 4 - 1, 1000), 0);
        assert_eq!(pace.pages(LOG / 8, &used(LOG / 4), &Unwritten::default()), 1);
        assert_eq!(pages(&mut pace, LOG / 16, LOG / 4, 1400), 0);
        assert_eq!(pages(&mut pace, LOG / 16, LOG / 4, 1400), 350, "of 8 sixteenths two");
        assert_eq!(pages(&mut pace, 0, LOG / 16 * 13 + 1, 700), SLICE_PAGES);
        assert_eq!(pages(&mut pace, LOG / 4, LOG, 10 * SLICE_PAGES), SLICE_PAGES);
    }

    #[test]
    fn most_urgent_group_gives_the_pages() {
        let in_use =
            |log| move |groups: &[_]| WritePace::new(LOG).pages(LOG / 16, &log, &waiting(groups));
        let pages = in_use(used(LOG / 2));
        // Four sixteenths are free up to the limit, and more before the words of later groups.
        assert_eq!(pages(&[(1200, 0), (1201, LOG / 4)]), 300);
        assert_eq!(pages(&[(300, 0), (8000, LOG / 4)]), 1000);
        // A log that decodes to four times as much ages four times as fast.
        let pages = in_use(LogInUse { used: LOG / 2, begin: LOG, end: LOG + LOG / 8 });
        assert_eq!(pages(&[(300, LOG), (8000, LOG + LOG / 16)]), 1000);
    }

    #[test]
    fn log_lasts_until_each_group_is_written() {
        const MIB: u64 = 1 << 20;
        let mut pace = WritePace::new(64 * MIB);
        let waits = |groups: [(usize, u64); 2]| waiting(&groups.map(|(at, mib)| (at, mib * MIB)));
        let two = waits([(1000, 0), (2000, 16)]);
        assert_eq!(pace.rate_max(48 * MIB, &two), None, "no speed is known");
        pace.wrote(500, Duration::from_millis(500));
        assert_eq!(pace.rate_max(15 * MIB, &two), None, "little is in use");
        assert_eq!(pace.rate_max(48 * MIB, &Unwritten::default()), None);
        let rate = |pace: &WritePace, head, groups| {
            pace.rate_max(head * MIB, &waits(groups)).map(|rate| rate / MIB as f64)
        };
        // 8 MiB are free up to 56, and the pages of the first group take two seconds.
        assert_eq!(rate(&pace, 48, [(2000, 0), (3000, 40)]), Some(4.0));
        // 16 MiB are free after it, and all pages take eight seconds.
        assert_eq!(rate(&pace, 48, [(2000, 0), (8000, 8)]), Some(2.0));
        assert_eq!(rate(&pace, 24, [(2000, 0), (2500, 20)]), Some(1.5 * 16.0));
        assert_eq!(rate(&pace, 64, [(2000, 0), (3000, 60)]), Some(RATE_MIN / MIB as f64));
        pace.wrote(0, Duration::from_secs(9));
        pace.wrote(500, Duration::from_millis(250));
        assert_eq!(
            rate(&pace, 48, [(2250, 0), (2300, 40)]),
            rate(&pace, 48, [(2250, 0), (2251, 40)])
        );
        assert!(rate(&pace, 48, [(2250, 0), (2300, 40)]) > Some(3.9));
        // A sync of a few pages says little.
        pace.wrote(2, Duration::from_secs(1));
        assert!(rate(&pace, 48, [(2250, 0), (2300, 40)]) > Some(3.9));
    }

    #[test]
    fn short_recovery_uses_a_part_of_the_log() {
        let mut pace = WritePace::new(64 * LOG);
        pace.limit_recovery(Some(Duration::from_secs(2)));
        pace.wrote(500, Duration::from_secs(1));
        // 4000 pages take 8 s for 32 MiB of log: 2 s fit in 8 MiB, of which 7/8 are in use.
        let steps = |pace: &mut WritePace, pages| {
            for _ in 0..200 {
                pace.pages(0, &used(32 * LOG), &waiting(&[(pages, 0)]));
            }
        };
        steps(&mut pace, 4000);
        let window = pace.window as f64 / LOG as f64;
        assert!((8.0..9.2).contains(&window), "{window} MiB");
        let waits = waiting(&[(900, 0)]);
        assert_eq!(
            pace.pages(0, &used(8 * LOG), &waits),
            SLICE_PAGES,
            "it writes when much is in use"
        );
        // No log is too small for progress, and none is larger than it is.
        steps(&mut pace, 1 << 20);
        assert!((LOG..LOG + 8).contains(&pace.window), "{}", pace.window);
        steps(&mut pace, 1);
        assert!(pace.window > 63 * LOG, "{}", pace.window);
    }

    /// The pages that get words.
    #[derive(Clone, Copy, Debug)]
    enum Load {
        Random,
        /// One page after another.
        InTurn,
    }

    /// A heap of `pages` pages. `taken` bytes of log have `words` words. Returns the greatest and
    /// the last use of the log, and the pages written for each log that was taken in.
    fn simulated(load: Load, pages: usize, words: usize, taken: u64) -> (u64, u64, f64) {
        const LOGS: u64 = 15;
        let mut pace = WritePace::new(LOG);
        let mut oldest: Vec<Option<u64>> = vec![None; pages];
        let (mut count, mut hand, mut written, mut random) = (0, 0, 0, 1_usize);
        let (mut head, mut most, mut waits) = (0, 0, Unwritten::default());
        for word in 0..(LOGS * LOG / taken) as usize * words {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let page = match load {
                Load::Random => (random >> 33) % pages,
                Load::InTurn => word % pages,
            };
            count += usize::from(oldest[page].is_none());
            oldest[page].get_or_insert(head);
            if (word + 1) % words > 0 {
                continue;
            }
            // As in the product, the pages are those before this step.
            head += taken;
            let begin = waits.oldest().unwrap_or(head);
            most = most.max(head - begin);
            let log = LogInUse { used: head - begin, begin, end: head };
            for _ in 0..pace.pages(taken, &log, &waits).min(count) {
                while oldest[hand].take().is_none() {
                    hand = (hand + 1) % pages;
                }
                (count, written) = (count - 1, written + 1);
            }
            waits = Unwritten { pages: count, ..Unwritten::default() };
            let starts = (0..pages).filter_map(|page| oldest[(hand + page) % pages]);
            for (before, start) in starts.enumerate() {
                let group = &mut waits.ahead[before * Unwritten::GROUPS / count];
                *group = Ahead { pages: before + 1, oldest: group.oldest.min(start) };
            }
        }
        (most, head - waits.oldest().unwrap_or(head), written as f64 / LOGS as f64)
    }

    #[test]
    fn log_in_use_settles_and_never_fills() {
        // Pages with many words, with a few, and with one in each round of 11/16 of the log.
        for load in [Load::Random, Load::InTurn] {
            for (pages, words) in [(100, 100), (2000, 100), (5000, 100), (20_000, 100)] {
                let (most, last, written) = simulated(load, pages, words, LOG / 256);
                let case =
                    format!("{load:?}, {pages} pages, {words} words: {most}, {last}, {written}");
                assert!(most <= LOG * 14 / 16 && last <= LOG * 13 / 16, "{case}");
                // A slice is up to a quarter of the pages, which is written early.
                let round = 256.0 * words as f64 * 11.0 / 16.0 / pages as f64;
                let share = match load {
                    Load::Random => 1.0 - (-round).exp(),
                    Load::InTurn => round.min(1.0),
                };
                let least = pages as f64 * share * 16.0 / 11.0;
                assert!((0.8 * least..1.4 * least).contains(&written), "{case}: {least}");
            }
        }
    }
}
