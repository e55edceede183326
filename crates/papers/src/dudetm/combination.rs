//! D6: log bytes saved by combining and compressing groups (section 5.4, figure 3).

use crate::budget::Budget;
use crate::sheet::{Sheet, curve, each, linear, log, middle, theirs};
use crate::trial::Trial;
use crate::trials::{Spec, Trials};

const GROUPS: [u64; 6] = [1, 10, 100, 1000, 10_000, 100_000];

/// Bytes of a write: its address and its value.
const WRITE_BYTES: f64 = 16.0;

/// Returns the command of a trial with groups of `group` writing transactions. Read-only ones take
/// no ID and no log space, so a group does not count them.
fn command(group: u64, compress: bool, budget: &Budget) -> String {
    // Half of the transactions write, which makes four of the largest groups; two in a quick run.
    let transactions = if budget.quick { 400_000 } else { 800_000 };
    let compress = if compress { " --compress" } else { "" };
    format!(
        "session-store --transactions {transactions} --medium emulated --group {group} --group-ms \
         10000{compress}"
    )
}

pub(super) fn plan(budget: &Budget) -> Vec<Spec> {
    let both = |&group: &u64| [false, true].map(|compress| command(group, compress, budget));
    GROUPS.iter().flat_map(both).map(|command| Spec::new("combination", command)).collect()
}

/// Returns the percentage of writes that combination removes.
fn saved(trial: &Trial) -> f64 {
    100.0 * (1.0 - trial.combined_words as f64 / trial.words_written as f64)
}

/// Returns the stored bytes in percent of all addresses and values.
fn stored(trial: &Trial) -> f64 {
    100.0 * trial.log_stored_bytes as f64 / (WRITE_BYTES * trial.words_written as f64)
}

/// Returns the remaining values alone, in the same percentage.
fn values(trial: &Trial) -> f64 {
    (100.0 - saved(trial)) / 2.0
}

pub(super) fn judge(budget: &Budget, trials: &Trials, sheet: &mut Sheet) {
    let of = |group, compress| trials.of(&command(group, compress, budget));
    for group in GROUPS {
        let combined = command(group, false, budget);
        sheet.row(format!("saved/{group}"), each(of(group, false), saved)).command(&combined);
        let compressed = command(group, true, budget);
        sheet
            .row(format!("stored/{group}"), each(of(group, true), stored))
            .note(format!(
                "The values that remain after combination are {:.0} %. They are random, so no \
                 compression shrinks them.",
                middle(each(of(group, true), values))
            ))
            .command(&compressed);
    }
    let points = |compress: bool, value: fn(&Trial) -> f64| {
        let point = |&group: &u64| (group as f64, each(of(group, compress), value));
        GROUPS.iter().map(point).collect()
    };
    let series = vec![
        curve("writes saved by combination", points(false, saved)),
        curve("log after LZ4, of 16 bytes a write", points(true, stored)),
        theirs("combination (paper)", &[(10.0, 7.0), (100_000.0, 93.0)]),
        theirs("after LZ4 (paper)", &[(10.0, 31.0), (100_000.0, 31.0)]),
    ];
    let axes = (log("transactions of a group"), linear("%"));
    sheet.figure("log", "Combination and compression of the log", axes, series);
}
