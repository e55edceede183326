//! D6: what combining and compressing groups saves (section 5.4, figure 3).

use super::super::Budget;
use super::super::laps::{Lap, Laps, Spec};
use super::super::sheet::{Sheet, curve, each, linear, log, middle, theirs};

const GROUPS: [u64; 6] = [1, 10, 100, 1000, 10_000, 100_000];

/// Bytes of a write: its address and its value.
const WRITE_BYTES: f64 = 16.0;

/// Groups of so many transactions that write. Those that only read take no ID, and none of the
/// log: they are not counted.
fn command(group: u64, compress: bool, budget: &Budget) -> String {
    // Half of the transactions write: four of the largest groups, two in a quick run.
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

/// Percent of writes that combination has left out.
fn saved(lap: &Lap) -> f64 {
    100.0 * (1.0 - lap.combined_words as f64 / lap.words_written as f64)
}

/// Percent of what the writes take as addresses and values.
fn stored(lap: &Lap) -> f64 {
    100.0 * lap.log_stored_bytes as f64 / (WRITE_BYTES * lap.words_written as f64)
}

/// Percent that the values alone take which combination has left.
fn values(lap: &Lap) -> f64 {
    (100.0 - saved(lap)) / 2.0
}

pub(super) fn judge(budget: &Budget, laps: &Laps, sheet: &mut Sheet) {
    let of = |group, compress| laps.of(&command(group, compress, budget));
    for group in GROUPS {
        let combined = command(group, false, budget);
        sheet.row(format!("saved/{group}"), each(of(group, false), saved)).command(&combined);
        let compressed = command(group, true, budget);
        sheet
            .row(format!("stored/{group}"), each(of(group, true), stored))
            .note(format!(
                "The values alone that combination leaves are {:.0} %: random, so nothing \
                 compresses them.",
                middle(each(of(group, true), values))
            ))
            .command(&compressed);
    }
    let points = |compress: bool, value: fn(&Lap) -> f64| {
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
