//! Sheets: values of one experiment's rows, by name, and its figures. A recipe fills them.

use std::collections::HashMap;

use crate::results::{Axis, Figure, Point, Series};
use crate::statistics::OverRounds;
use crate::trial::Trial;

/// The rows and figures of one experiment.
pub(super) struct Sheet {
    id: &'static str,
    values: HashMap<String, Value>,
    pub(super) figures: Vec<Figure>,
}

/// Value of a row.
#[derive(Debug, Default)]
pub(super) struct Value {
    /// Over rounds; `None` if it could not be measured.
    pub(super) over: Option<OverRounds>,
    /// Number of measured rounds.
    pub(super) rounds: u64,
    /// Remark for the reader.
    pub(super) note: Option<String>,
    /// Why it misses its target, if the measurements show it.
    pub(super) missed: Option<String>,
    /// Seed of a value that another program measured.
    pub(super) seed: Option<u64>,
    /// Arguments of `lastword` that run one of its trials or simulations.
    pub(super) command: Option<String>,
}

impl Value {
    pub(super) fn note(&mut self, text: String) -> &mut Value {
        self.note = Some(text);
        self
    }

    /// Sets the reason that is printed if the row misses its target.
    pub(super) fn missed(&mut self, why: Option<String>) -> &mut Value {
        self.missed = why;
        self
    }

    /// Sets the command of a trial, as arguments of `lastword run`.
    pub(super) fn command(&mut self, command: &str) -> &mut Value {
        self.command = Some(format!("run {command}"));
        self
    }

    /// Sets the command of a simulation, as arguments of `lastword`.
    pub(super) fn simulated(&mut self, command: &str) -> &mut Value {
        self.command = Some(command.to_owned());
        self
    }
}

impl Sheet {
    pub(super) fn new(id: &'static str) -> Sheet {
        Sheet { id, values: HashMap::new(), figures: Vec::new() }
    }

    /// Adds a row with one number a round.
    pub(super) fn row(&mut self, name: impl Into<String>, rounds: Vec<f64>) -> &mut Value {
        let count = rounds.len() as u64;
        // A quantile of no samples is NaN, and no result.
        let is_there = count > 0 && rounds.iter().all(|value| value.is_finite());
        self.put(name.into(), is_there.then(|| OverRounds::of(rounds)), count)
    }

    /// Adds a row that another program measured.
    pub(super) fn over(
        &mut self,
        name: impl Into<String>,
        over: OverRounds,
        (rounds, seed): (u64, u64),
    ) -> &mut Value {
        let value = self.put(name.into(), Some(over), rounds);
        value.seed = Some(seed);
        value
    }

    fn put(&mut self, name: String, over: Option<OverRounds>, rounds: u64) -> &mut Value {
        let value = self.values.entry(name).or_default();
        (value.over, value.rounds) = (over, rounds);
        value
    }

    /// Adds a row without a value, and why it has none.
    pub(super) fn none(&mut self, name: impl Into<String>, why: &str) {
        self.row(name, Vec::new()).note(why.to_owned());
    }

    /// Removes and returns the value of a row; `None` if the run leaves it out, as a quick one
    /// does.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.values.remove(name)
    }

    /// Checks that every value has found its row.
    ///
    /// # Panics
    /// A value is left, which no output would show: a recipe misspells the row's name.
    pub(super) fn assert_all_taken(&self) {
        let left: Vec<_> = self.values.keys().collect();
        assert!(left.is_empty(), "{} has no rows {left:?}", self.id);
    }

    /// Adds a figure.
    pub(super) fn figure(
        &mut self,
        name: &str,
        title: &str,
        (x, y): (Axis, Axis),
        series: Vec<Series>,
    ) {
        let (id, title) = (self.id.to_owned(), title.to_owned());
        let name = format!("{}-{name}", self.id.to_lowercase());
        self.figures.push(Figure { id, name, title, x, y, series });
    }
}

/// Returns a linear axis.
pub(super) fn linear(label: &str) -> Axis {
    Axis { label: label.into(), log: false }
}

/// Returns a logarithmic axis.
pub(super) fn log(label: &str) -> Axis {
    Axis { label: label.into(), log: true }
}

/// Returns a measured curve, with one number a round for each `x`.
pub(super) fn curve(name: impl Into<String>, points: Vec<(f64, Vec<f64>)>) -> Series {
    let points = points.into_iter().filter(|(_, rounds)| !rounds.is_empty());
    let points = points.map(|(x, rounds)| Point { x, y: OverRounds::of(rounds) }).collect();
    Series { name: name.into(), theirs: false, points }
}

/// Returns a curve of the paper.
pub(super) fn theirs(name: &str, points: &[(f64, f64)]) -> Series {
    let exactly = |value| OverRounds { median: value, min: value, max: value };
    let points = points.iter().map(|&(x, y)| Point { x, y: exactly(y) }).collect();
    Series { name: name.into(), theirs: true, points }
}

/// Returns one number a trial.
pub(super) fn each(trials: &[Trial], value: impl Fn(&Trial) -> f64) -> Vec<f64> {
    trials.iter().map(value).collect()
}

/// Returns the median of one number a round.
pub(super) fn middle(rounds: Vec<f64>) -> f64 {
    OverRounds::of(rounds).median
}

/// Returns the rate of a trial by that of another.
pub(super) fn ratio(trial: &Trial, base: &Trial) -> f64 {
    trial.rate() / base.rate()
}

/// Returns one number for each pair of trials of a round.
pub(super) fn pairs(
    ours: &[Trial],
    base: &[Trial],
    value: impl Fn(&Trial, &Trial) -> f64,
) -> Vec<f64> {
    ours.iter().zip(base).map(|(ours, base)| value(ours, base)).collect()
}
