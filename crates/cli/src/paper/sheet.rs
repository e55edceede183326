//! What a recipe fills in: the values of its rows, by name, and its figures.

use std::collections::HashMap;

use super::laps::Lap;
use super::results::{Axis, Figure, Point, Series};
use crate::report::OverRounds;

/// The rows and figures of one experiment.
pub(super) struct Sheet {
    id: &'static str,
    values: HashMap<String, Value>,
    pub(super) figures: Vec<Figure>,
}

/// What a row has to show.
#[derive(Debug, Default)]
pub(super) struct Value {
    /// Over rounds; nothing when it could not be measured.
    pub(super) over: Option<OverRounds>,
    /// Rounds that were measured.
    pub(super) rounds: u64,
    /// What there is to know about it.
    pub(super) note: Option<String>,
    /// Why it misses its mark, if what was measured tells.
    pub(super) missed: Option<String>,
    /// That of who has measured it, if it was somebody else.
    pub(super) seed: Option<u64>,
    /// What makes one of its laps or simulations, as behind `lastword`.
    pub(super) command: Option<String>,
}

impl Value {
    pub(super) fn note(&mut self, text: String) -> &mut Value {
        self.note = Some(text);
        self
    }

    /// What is said if it misses its mark, if it can be told.
    pub(super) fn missed(&mut self, why: Option<String>) -> &mut Value {
        self.missed = why;
        self
    }

    /// What makes a lap, as behind `lastword run`.
    pub(super) fn command(&mut self, command: &str) -> &mut Value {
        self.command = Some(format!("run {command}"));
        self
    }

    /// What makes a simulation, as behind `lastword`.
    pub(super) fn simulated(&mut self, command: &str) -> &mut Value {
        self.command = Some(command.to_owned());
        self
    }
}

impl Sheet {
    pub(super) fn new(id: &'static str) -> Sheet {
        Sheet { id, values: HashMap::new(), figures: Vec::new() }
    }

    /// A row with one number a round.
    pub(super) fn row(&mut self, name: impl Into<String>, rounds: Vec<f64>) -> &mut Value {
        let count = rounds.len() as u64;
        // A quantile of nothing is no number, and no result.
        let is_there = count > 0 && rounds.iter().all(|value| value.is_finite());
        self.put(name.into(), is_there.then(|| OverRounds::of(rounds)), count)
    }

    /// A row that somebody else has measured.
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

    /// A row that cannot be measured, and why.
    pub(super) fn none(&mut self, name: impl Into<String>, why: &str) {
        self.row(name, Vec::new()).note(why.to_owned());
    }

    /// The value of this row; nothing when it was not asked for, as in a quick run.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.values.remove(name)
    }

    /// A value without a row would be shown to nobody.
    ///
    /// # Panics
    /// When there is one.
    pub(super) fn assert_all_taken(&self) {
        let left: Vec<_> = self.values.keys().collect();
        assert!(left.is_empty(), "{} has no rows {left:?}", self.id);
    }

    /// A figure.
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

/// An axis whose steps add.
pub(super) fn linear(label: &str) -> Axis {
    Axis { label: label.into(), log: false }
}

/// An axis whose steps multiply.
pub(super) fn log(label: &str) -> Axis {
    Axis { label: label.into(), log: true }
}

/// A curve of what was measured here: for each `x` one number a round.
pub(super) fn curve(name: impl Into<String>, points: Vec<(f64, Vec<f64>)>) -> Series {
    let points = points.into_iter().filter(|(_, rounds)| !rounds.is_empty());
    let points = points.map(|(x, rounds)| Point { x, y: OverRounds::of(rounds) }).collect();
    Series { name: name.into(), theirs: false, points }
}

/// A curve of the paper.
pub(super) fn theirs(name: &str, points: &[(f64, f64)]) -> Series {
    let exactly = |value| OverRounds { median: value, min: value, max: value };
    let points = points.iter().map(|&(x, y)| Point { x, y: exactly(y) }).collect();
    Series { name: name.into(), theirs: true, points }
}

/// One number a round of laps.
pub(super) fn each(laps: &[Lap], value: impl Fn(&Lap) -> f64) -> Vec<f64> {
    laps.iter().map(value).collect()
}

/// The median of one number a round.
pub(super) fn middle(rounds: Vec<f64>) -> f64 {
    OverRounds::of(rounds).median
}

/// How many times as fast as the base a lap was.
pub(super) fn ratio(lap: &Lap, base: &Lap) -> f64 {
    lap.rate() / base.rate()
}

/// One number a round of two laps that were made in it.
pub(super) fn pairs(ours: &[Lap], base: &[Lap], value: impl Fn(&Lap, &Lap) -> f64) -> Vec<f64> {
    ours.iter().zip(base).map(|(ours, base)| value(ours, base)).collect()
}
