//! Progress of long work, on a terminal; nothing elsewhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// How often a spinner turns. Only while nothing is measured.
const TURN: Duration = Duration::from_millis(200);

/// A spinner that is gone when it is dropped.
pub(crate) struct Spinner(ProgressBar);

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

pub(crate) fn spinner(doing: &'static str) -> Spinner {
    let bar = ProgressBar::new_spinner().with_message(doing);
    bar.enable_steady_tick(TURN);
    Spinner(bar)
}

/// A bar that moves only when it is told to: no thread of its own while something is measured.
pub(crate) fn bar(doing: &'static str, length: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length).with_style(style).with_message(doing)
}
