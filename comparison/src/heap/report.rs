//! The report of `comparison heap`: a row for each system, size, distribution and number of
//! workers.

use serde::Serialize;

use super::store::System;
use super::tally::least_second;
use super::{Setup, Slice};
use crate::failure::Failure;
use crate::report::{self, Conditions, Figure, Format, short};

/// One row, over all rounds.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    system: System,
    /// GiB of records.
    gib: f64,
    /// Exponent of Zipf's law; 0: uniform.
    zipf: f64,
    workers: usize,
    transactions_per_second: Figure,
    /// Fewest transactions of a second after the first ten, by the mean of its round; the least of
    /// all rounds.
    least_second: Option<f64>,
    /// Longest call of all workers and rounds, in milliseconds.
    longest_call_ms: f64,
    /// 99.9th percentile of the time from commit to durability, in milliseconds. `None`: the system
    /// does not report durability.
    durable_p999_ms: Option<Figure>,
    /// Bytes that the device was sent in the timed part, by bytes changed.
    device_amplification: Option<Figure>,
    /// The same, until the store was closed and the file system synced.
    closed_amplification: Option<Figure>,
    /// Bytes of the log by bytes changed, by the store's own count, in the timed part.
    own_log_amplification: Option<Figure>,
    /// The same for the heap image.
    own_heap_amplification: Option<Figure>,
    /// CPU time of the process for a transaction, in microseconds.
    cpu_us: Figure,
    close_seconds: Option<Figure>,
    /// Seconds until the first record was read: after a close, or with `--kill` after the kill.
    open_seconds: Figure,
}

impl Row {
    /// Returns the row of a system's rounds, at least one.
    pub(crate) fn new(system: System, setup: &Setup, slices: &[Slice]) -> Row {
        let figure = |of: fn(&Slice) -> f64| Figure::of(slices.iter().map(of));
        let option = |of: fn(&Slice) -> Option<f64>| {
            let found: Option<Vec<f64>> = slices.iter().map(of).collect();
            found.map(Figure::of)
        };
        let least = |slice: &Slice| {
            least_second(&slice.timed.by_second).map(|least| least as f64 / slice.timed.rate)
        };
        Row {
            system,
            gib: setup.gib,
            zipf: setup.zipf,
            workers: setup.workers,
            transactions_per_second: figure(|slice| slice.timed.rate),
            least_second: option(least).map(|least| least.min),
            longest_call_ms: figure(|slice| slice.timed.longest_ms).max,
            durable_p999_ms: option(|slice| slice.timed.durable_ms),
            device_amplification: option(|slice| slice.timed.device),
            closed_amplification: option(|slice| slice.closed?.device),
            own_log_amplification: option(|slice| slice.timed.own_log),
            own_heap_amplification: option(|slice| slice.timed.own_heap),
            cpu_us: figure(|slice| slice.timed.cpu_us),
            close_seconds: option(|slice| slice.closed.map(|closed| closed.seconds)),
            open_seconds: figure(|slice| slice.open_seconds),
        }
    }

    fn cells(&self) -> Vec<String> {
        let none = || "-".to_owned();
        let option = |figure: Option<Figure>| {
            figure.map_or_else(none, |figure| text(figure, |n| format!("{n:.2}")))
        };
        let durable = match (self.system, self.durable_p999_ms) {
            (System::Lastword, figure) => option(figure),
            _ => "not reported".into(),
        };
        vec![
            self.gib.to_string(),
            self.zipf.to_string(),
            self.workers.to_string(),
            self.system.name().to_owned(),
            text(self.transactions_per_second, short),
            self.least_second.map_or_else(none, |least| format!("{:.0} %", 100.0 * least)),
            format!("{:.1}", self.longest_call_ms),
            durable,
            option(self.device_amplification),
            option(self.closed_amplification),
            option(self.own_log_amplification),
            option(self.own_heap_amplification),
            text(self.cpu_us, |us| format!("{us:.2}")),
            option(self.close_seconds),
            text(self.open_seconds, |seconds| format!("{seconds:.2}")),
        ]
    }
}

/// A figure, with its spread if it has one.
fn text(figure: Figure, show: impl Fn(f64) -> String) -> String {
    if figure.min == figure.max { show(figure.median) } else { figure.text(show) }
}

/// The whole report.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) conditions: Conditions,
    pub(crate) record_bytes: u64,
    /// Length of the timed part.
    pub(crate) seconds: f64,
    /// Whether the processes were killed instead of closing their stores.
    pub(crate) is_killed: bool,
    /// Systems that this program was built without.
    pub(crate) left_out: Vec<System>,
    pub(crate) rows: Vec<Row>,
}

impl Report {
    pub(crate) fn print(&self, format: Format) -> Result<(), Failure> {
        report::print(format, self, || self.text())
    }

    fn text(&self) -> String {
        let header = [
            "GiB",
            "zipf",
            "workers",
            "system",
            "tx/s",
            "least second",
            "longest ms",
            "p99.9 durable ms",
            "device",
            "closed",
            "own log",
            "own heap",
            "CPU us",
            "close s",
            if self.is_killed { "recovery s" } else { "open s" },
        ];
        let rows = self.rows.iter().map(Row::cells).collect();
        let table = report::table(&header, 4, rows);
        let Report { conditions, record_bytes, seconds, .. } = self;
        let left_out: Vec<String> = self.left_out.iter().map(left_out).collect();
        format!(
            "{}\n{seconds} s a run; a transaction replaces 4 records of {record_bytes} bytes; \
             device, closed, own: bytes written by bytes changed\n{}{table}",
            conditions.text(),
            left_out.concat()
        )
    }
}

fn left_out(system: &System) -> String {
    format!("left out: {}, since this program was built without its header\n", system.name())
}

#[cfg(test)]
mod tests {
    use super::super::run::{Closed, Timed};
    use super::*;

    fn slice(by_second: Vec<u64>, longest_ms: f64, close_seconds: f64) -> Slice {
        let transactions: u64 = by_second.iter().sum();
        let seconds = by_second.len() as f64;
        let mut timed = Timed::for_tests(transactions, seconds, by_second);
        timed.longest_ms = longest_ms;
        let closed = Some(Closed { seconds: close_seconds, device: None });
        Slice { timed, closed, open_seconds: 1.0 }
    }

    #[test]
    fn row_keeps_the_worst_second_and_call_of_all_rounds() {
        let even = slice(vec![100; 20], 30.0, 1.0);
        let mut uneven = vec![100; 20];
        (uneven[3], uneven[15], uneven[16]) = (0, 50, 250);
        let uneven = slice(uneven, 20.0, 3.0);
        let row = Row::new(System::Lmdb, &Setup::for_tests(), &[even, uneven]);
        assert_eq!(row.least_second, Some(0.5));
        assert_eq!(row.longest_call_ms, 30.0);
        assert_eq!(row.close_seconds.map(|figure| figure.median), Some(2.0));
        assert_eq!(row.closed_amplification, None);
        assert_eq!(row.cells()[7], "not reported");
        assert_eq!(row.cells()[5], "50 %");
    }
}
