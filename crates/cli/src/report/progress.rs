//! Progress of long work: on a terminal a bar, elsewhere a line now and then.
//!
//! ```text
//!   37 of 172 points, 12 min
//! ```
//! What ends within seconds prints nothing. Lines come when another twentieth is done, at least
//! half a minute apart; and after some minutes though nothing more is done, so that one sees that
//! it is still alive.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Nothing is printed before.
const FIRST: Duration = Duration::from_secs(10);

/// Between two lines, at least, and at most while somebody tells of progress.
const LEAST: Duration = Duration::from_secs(30);
const MOST: Duration = Duration::from_secs(300);

/// A line for each of so many parts.
const PARTS: u64 = 20;

/// A line on a terminal that names the work in flight. Dropping it clears the line.
pub(crate) struct Spinner(ProgressBar);

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

pub(crate) fn spinner(doing: &'static str) -> Spinner {
    let bar = ProgressBar::new_spinner().with_message(doing);
    // One tick and no ticking thread: starting that thread panics at a process limit.
    bar.tick();
    Spinner(bar)
}

/// The length of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Whole {
    Seconds(f64),
    Transactions(u64),
}

/// The progress of a measured run, on a terminal. Elsewhere it prints nothing, since a program may
/// read the output. It has no thread of its own.
pub(crate) struct RunLine {
    bar: ProgressBar,
    all: Whole,
}

impl RunLine {
    pub(crate) fn new(all: Whole) -> RunLine {
        let style = ProgressStyle::with_template("{spinner} {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        RunLine { bar: ProgressBar::new_spinner().with_style(style), all }
    }

    /// Shows the elapsed time and the number of transactions that wrote.
    pub(crate) fn at(&self, elapsed: Duration, written: u64) {
        self.bar.set_message(run_line(self.all, elapsed, written));
        self.bar.tick();
    }
}

impl Drop for RunLine {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// As in `running: 4 of 10 s, 1 234 567 transactions that wrote`.
fn run_line(all: Whole, elapsed: Duration, written: u64) -> String {
    let elapsed = elapsed.as_secs();
    let time = match all {
        Whole::Seconds(seconds) => format!("running: {elapsed} of {seconds:.0} s"),
        Whole::Transactions(_) => format!("running: {elapsed} s"),
    };
    // Some designs give no IDs, and a workload may only read.
    let done = match written {
        0 => String::new(),
        done => format!(", {} transactions that wrote", super::table::grouped(done)),
    };
    let of = match all {
        Whole::Transactions(all) => format!(", of {} in all", super::table::grouped(all)),
        Whole::Seconds(_) => String::new(),
    };
    time + &done + &of
}

/// How far work is. It is shown only when it is told to: no thread of its own while something is
/// measured.
pub(crate) struct Progress {
    /// Which is not drawn where there is no terminal.
    bar: ProgressBar,
    /// What is printed instead.
    lines: Option<Mutex<Lines>>,
}

/// Of so many things, none is done yet.
pub(crate) fn bar(doing: &'static str, length: u64) -> Progress {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(length).with_style(style).with_message(doing);
    let lines = (!io::stderr().is_terminal()).then(|| Mutex::new(Lines::of(doing)));
    Progress { bar, lines }
}

impl Progress {
    /// One more is done.
    pub(crate) fn inc(&self) {
        self.bar.inc(1);
        self.tell();
    }

    /// So many are done of these. Where there are more than were asked for, so many times as many
    /// were meant.
    pub(crate) fn at(&self, doing: &'static str, done: u64, asked: u64) {
        if self.bar.message() != doing {
            self.bar.set_message(doing);
            if let Some(mut lines) = self.lines() {
                lines.doing = doing;
            }
        }
        self.bar.set_length(asked * done.div_ceil(asked.max(1)).max(1));
        self.bar.set_position(done);
        self.tell();
    }

    /// No more is done, but this is under way.
    pub(crate) fn begins(&self, what: &str) {
        self.bar.set_message(what.to_owned());
        self.tell();
    }

    /// No more is done, but something is under way.
    pub(crate) fn alive(&self) {
        self.tell();
    }

    /// All is done.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn tell(&self) {
        let Some(mut lines) = self.lines() else { return };
        let (done, length) = (self.bar.position(), self.bar.length().unwrap_or_default());
        let after = lines.begun.elapsed();
        if let Some(line) = lines.due(after, done, length) {
            // Nobody to tell when it cannot be written.
            let _ = writeln!(io::stderr(), "{line}");
        }
    }

    fn lines(&self) -> Option<MutexGuard<'_, Lines>> {
        self.lines.as_ref().map(|lines| lines.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl papers::Progress for Progress {
    fn begins(&self, step: &str) {
        self.begins(step);
    }

    fn inc(&self) {
        self.inc();
    }

    fn alive(&self) {
        self.alive();
    }

    fn finish(&self) {
        self.finish();
    }
}

/// What was printed of some work.
struct Lines {
    /// What is done.
    doing: &'static str,
    begun: Instant,
    /// How long after that the last line was.
    told: Option<Duration>,
    /// Parts that were done then.
    parts: u64,
}

impl Lines {
    fn of(doing: &'static str) -> Lines {
        Lines { doing, begun: Instant::now(), told: None, parts: 0 }
    }

    /// The line that is to be printed after this time, if one is.
    fn due(&mut self, after: Duration, done: u64, length: u64) -> Option<String> {
        let parts = done.saturating_mul(PARTS) / length.max(1);
        let wait = if parts == self.parts { MOST } else { LEAST };
        if after < self.told.map_or(FIRST, |told| told + wait) {
            return None;
        }
        (self.told, self.parts) = (Some(after), parts);
        Some(format!("{done} of {length} {}, {}", self.doing, long(after)))
    }
}

/// A time that somebody waits.
fn long(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_line_says_time_and_transactions() {
        let of = |all| run_line(all, Duration::from_millis(4700), 1_234_567);
        let text = of(Whole::Seconds(10.0));
        assert_eq!(text, "running: 4 of 10 s, 1 234 567 transactions that wrote");
        let text = of(Whole::Transactions(2_000_000));
        assert_eq!(text, "running: 4 s, 1 234 567 transactions that wrote, of 2 000 000 in all");
        let text = run_line(Whole::Seconds(3.0), Duration::from_secs(1), 0);
        assert_eq!(text, "running: 1 of 3 s");
    }

    /// What is printed when so many of 172 points are done after so many seconds.
    fn printed(points: &[(u64, u64)]) -> Vec<String> {
        let mut lines = Lines::of("points");
        let line = |&(after, done): &(u64, u64)| lines.due(Duration::from_secs(after), done, 172);
        points.iter().filter_map(line).collect()
    }

    #[test]
    fn what_ends_within_seconds_prints_nothing() {
        assert!(printed(&[(0, 1), (5, 80), (9, 172)]).is_empty());
    }

    #[test]
    fn a_line_is_printed_for_each_twentieth_and_when_nothing_more_is_done_for_long() {
        let told = [(11, 1), (20, 30), (42, 31), (80, 32), (100, 37), (399, 38), (400, 38)];
        let lines = ["1 of 172 points, 11 s", "31 of 172 points, 42 s", "37 of 172 points, 1 min"];
        assert_eq!(printed(&told)[..3], lines);
        assert_eq!(printed(&told)[3..], ["38 of 172 points, 6 min"]);
        // However long it takes, and however often it is told.
        let day: Vec<(u64, u64)> = (0..86_400).map(|at| (at, at * 172 / 86_400)).collect();
        let lines = printed(&day);
        assert!((200..400).contains(&lines.len()), "{}", lines.len());
        assert!(lines.iter().any(|line| line.ends_with("of 172 points, 12 h 0 min")), "{lines:?}");
        let hour: Vec<(u64, u64)> = (0..3600).map(|at| (at, at * 172 / 3600)).collect();
        assert!((15..=22).contains(&printed(&hour).len()), "{:?}", printed(&hour));
    }

    #[test]
    fn more_than_was_asked_for_is_a_part_of_what_was_meant_then() {
        let progress = bar("transactions", 1000);
        let of = |done| {
            progress.at("transactions", done, 1000);
            progress.bar.length()
        };
        assert_eq!([0, 1000, 1001, 4000].map(of), [1000, 1000, 2000, 4000].map(Some));
        progress.at("power cuts", 7, 50);
        assert_eq!((progress.bar.length(), &*progress.bar.message()), (Some(50), "power cuts"));
    }
}
