//! Progress of long work: a bar on a terminal, occasional lines elsewhere.
//!
//! ```text
//!   37 of 172 points, 12 min
//! ```
//! Work that ends within seconds prints nothing. A line follows each further twentieth of the work,
//! at least half a minute after the last. Without progress a line is printed every five minutes, to
//! show that the process is alive.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Delay of the first line.
const FIRST: Duration = Duration::from_secs(10);

/// Minimum and maximum interval of lines; the maximum applies while the work reports progress.
const LEAST: Duration = Duration::from_secs(30);
const MOST: Duration = Duration::from_secs(300);

/// Number of parts that get a line.
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

/// Progress of counted work. The display changes only with an update: a thread of its own would
/// disturb measurements.
pub(crate) struct Progress {
    /// Hidden without a terminal.
    bar: ProgressBar,
    /// Lines printed instead of the bar.
    lines: Option<Mutex<Lines>>,
}

/// Creates the progress of `length` items, none done.
pub(crate) fn bar(doing: &'static str, length: u64) -> Progress {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(length).with_style(style).with_message(doing);
    let lines = (!io::stderr().is_terminal()).then(|| Mutex::new(Lines::of(doing)));
    Progress { bar, lines }
}

impl Progress {
    /// Advances by one item.
    pub(crate) fn inc(&self) {
        self.bar.inc(1);
        self.print_due();
    }

    /// Sets the position. If `done` exceeds `asked`, the length grows to a multiple of `asked`: a
    /// simulation extends its measurement by whole rounds.
    pub(crate) fn at(&self, doing: &'static str, done: u64, asked: u64) {
        if self.bar.message() != doing {
            self.bar.set_message(doing);
            if let Some(mut lines) = self.lines() {
                lines.doing = doing;
            }
        }
        self.bar.set_length(asked * done.div_ceil(asked.max(1)).max(1));
        self.bar.set_position(done);
        self.print_due();
    }

    /// Shows a new item in flight, without an advance.
    pub(crate) fn begins(&self, message: &str) {
        self.bar.set_message(message.to_owned());
        self.print_due();
    }

    /// Reports that work continues, without an advance.
    pub(crate) fn alive(&self) {
        self.print_due();
    }

    /// Ends the display.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn print_due(&self) {
        let Some(mut lines) = self.lines() else { return };
        let (done, length) = (self.bar.position(), self.bar.length().unwrap_or_default());
        let after = lines.begun.elapsed();
        if let Some(line) = lines.due(after, done, length) {
            // A failed write to stderr cannot be reported anywhere.
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

/// Schedule of the lines of one piece of work.
struct Lines {
    /// Description of the work.
    doing: &'static str,
    begun: Instant,
    /// Time of the last line.
    printed: Option<Duration>,
    /// Parts done at the last line.
    parts: u64,
}

impl Lines {
    fn of(doing: &'static str) -> Lines {
        Lines { doing, begun: Instant::now(), printed: None, parts: 0 }
    }

    /// Returns the line to print after this time, if one is due.
    fn due(&mut self, after: Duration, done: u64, length: u64) -> Option<String> {
        let parts = done.saturating_mul(PARTS) / length.max(1);
        let wait = if parts == self.parts { MOST } else { LEAST };
        if after < self.printed.map_or(FIRST, |printed| printed + wait) {
            return None;
        }
        (self.printed, self.parts) = (Some(after), parts);
        Some(format!("{done} of {length} {}, {}", self.doing, long(after)))
    }
}

/// Formats a long duration.
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

    /// Prints nothing or a line, for 172 points and pairs of items done and seconds.
    fn printed(points: &[(u64, u64)]) -> Vec<String> {
        let mut lines = Lines::of("points");
        let line = |&(after, done): &(u64, u64)| lines.due(Duration::from_secs(after), done, 172);
        points.iter().filter_map(line).collect()
    }

    #[test]
    fn short_work_prints_nothing() {
        assert!(printed(&[(0, 1), (5, 80), (9, 172)]).is_empty());
    }

    #[test]
    fn lines_follow_twentieths_and_long_pauses() {
        let points = [(11, 1), (20, 30), (42, 31), (80, 32), (100, 37), (399, 38), (400, 38)];
        let lines = ["1 of 172 points, 11 s", "31 of 172 points, 42 s", "37 of 172 points, 1 min"];
        assert_eq!(printed(&points)[..3], lines);
        assert_eq!(printed(&points)[3..], ["38 of 172 points, 6 min"]);
        // The number of lines is bounded, however long it takes and however often progress is
        // reported.
        let day: Vec<(u64, u64)> = (0..86_400).map(|at| (at, at * 172 / 86_400)).collect();
        let lines = printed(&day);
        assert!((200..400).contains(&lines.len()), "{}", lines.len());
        assert!(lines.iter().any(|line| line.ends_with("of 172 points, 12 h 0 min")), "{lines:?}");
        let hour: Vec<(u64, u64)> = (0..3600).map(|at| (at, at * 172 / 3600)).collect();
        assert!((15..=22).contains(&printed(&hour).len()), "{:?}", printed(&hour));
    }

    #[test]
    fn excess_progress_extends_length_by_whole_multiples() {
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
