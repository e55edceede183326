//! Medians, tables, and the header of every output: machine, commit, compilers.

use clap::ValueEnum;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::failure::Failure;

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For programs: one object.
    Json,
}

/// Origin of the figures: machine, commit and compilers.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Conditions {
    cpu: String,
    cores: usize,
    commit: Option<&'static str>,
    compilers: &'static str,
    rounds: usize,
    seed: u64,
}

impl Conditions {
    pub(crate) fn new(rounds: usize, seed: u64) -> Conditions {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == "model name").then(|| value.trim().to_owned())
        });
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (commit, compilers) = (option_env!("LASTWORD_COMMIT"), env!("COMPARISON_COMPILERS"));
        let cpu = model.unwrap_or_else(|| "unknown processor".into());
        Conditions { cpu, cores, commit, compilers, rounds, seed }
    }

    /// Two lines.
    pub(crate) fn text(&self) -> String {
        let Conditions { cpu, cores, commit, compilers, rounds, seed } = self;
        let commit = commit.unwrap_or("unknown");
        format!(
            "{cpu}, {cores} cores; commit {commit}; {rounds} interleaved rounds, seed {seed}\n\
             {compilers}"
        )
    }
}

/// Several rounds of one figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Figure {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Figure {
    /// Of at least one round.
    pub(crate) fn of(rounds: impl IntoIterator<Item = f64>) -> Figure {
        let mut rounds: Vec<f64> = rounds.into_iter().collect();
        rounds.sort_by(f64::total_cmp);
        let (low, high) = ((rounds.len() - 1) / 2, rounds.len() / 2);
        let median = f64::midpoint(rounds[low], rounds[high]);
        Figure { median, min: rounds[0], max: rounds[rounds.len() - 1] }
    }

    /// `median (min to max)`, each as `show` has it.
    pub(crate) fn text(&self, show: impl Fn(f64) -> String) -> String {
        format!("{} ({} to {})", show(self.median), show(self.min), show(self.max))
    }
}

/// A table with this header; all columns but the first `left` are numbers.
pub(crate) fn table(header: &[&str], left: usize, rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header.iter().copied());
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(left) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

/// Prints a report: the text for people, or the object for programs.
pub(crate) fn print<R: Serialize>(
    format: Format,
    report: &R,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    match format {
        Format::Table => println!("{}", text()),
        Format::Json => println!("{}", serde_json::to_string_pretty(report)?),
    }
    Ok(())
}

/// A number with three digits and its power of 1000.
pub(crate) fn short(number: f64) -> String {
    let (scaled, unit) = match number.abs() {
        n if n >= 1e6 => (number / 1e6, " M"),
        n if n >= 1e3 => (number / 1e3, " k"),
        _ => (number, ""),
    };
    let decimals = usize::from(scaled.abs() < 100.0) + usize::from(scaled.abs() < 10.0);
    format!("{scaled:.decimals$}{unit}")
}

/// A factor.
pub(crate) fn times(number: f64) -> String {
    format!("{number:.2}x")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_of_rounds_lies_between_the_two_in_the_middle() {
        let figure = Figure::of([4.0, 1.0, 3.0, 2.0]);
        assert_eq!(figure, Figure { median: 2.5, min: 1.0, max: 4.0 });
        assert_eq!(Figure::of([3.0, 9.0, 1.0]).median, 3.0);
    }

    #[test]
    fn numbers_are_shown_with_three_digits() {
        assert_eq!(short(5_712_345.0), "5.71 M");
        assert_eq!(short(51_200.0), "51.2 k");
        assert_eq!(times(2.5), "2.50x");
    }
}
