//! Rows that follow from simulations.
//!
//! A recipe makes each row from outcomes, and asks for them by what is to be simulated. Run on
//! nothing it tells which ones it needs; run on those that were made it fills the sheet. So what a
//! row is made of is said once, and every row knows it: which command makes it, what of it is not
//! steady, what could not be simulated.

use std::cell::RefCell;
use std::fmt::Write;

use sim::report::Outcome;
use sim::sweep::Asked;

use super::Budget;
use super::results::{Axis, Series};
use super::sheet::{Sheet, Value, curve};
use super::sims::Sims;
use crate::sim::sweep::{command, own_settings};

/// Simulations that a row names at most when something is wrong with them.
const NAMED: usize = 6;

/// The rows and figures of one experiment, to be made.
pub(super) struct Rows<'a> {
    pub(super) budget: &'a Budget,
    sims: &'a Sims,
    sheet: &'a mut Sheet,
}

impl<'a> Rows<'a> {
    pub(super) fn new(budget: &'a Budget, sims: &'a Sims, sheet: &'a mut Sheet) -> Rows<'a> {
        Rows { budget, sims, sheet }
    }

    /// A row of one number, which is answered. Without one it says what could not be simulated.
    pub(super) fn row(
        &mut self,
        name: impl Into<String>,
        value: impl FnOnce(&Uses<'a>) -> Option<f64>,
    ) -> Option<f64> {
        let uses = Uses { budget: self.budget, sims: self.sims, asked: RefCell::default() };
        let value = value(&uses).filter(|value| value.is_finite());
        uses.tell(self.sheet.row(name, value.into_iter().collect()));
        value
    }

    /// A row that is not for simulations to show, and what shows it.
    pub(super) fn none(&mut self, name: &str, why: &str) {
        self.sheet.none(name, why);
    }

    /// Curves, each of a name and points; those without a number are left out.
    pub(super) fn figure(
        &mut self,
        name: &str,
        title: &str,
        axes: (Axis, Axis),
        curves: Vec<(String, Points)>,
    ) {
        let rounds = |(x, y): (f64, Option<f64>)| (x, y.into_iter().collect());
        let one = |(name, points): (String, Points)| -> Series {
            curve(name, points.into_iter().map(rounds).collect())
        };
        self.sheet.figure(name, title, axes, curves.into_iter().map(one).collect());
    }
}

/// Of a curve.
pub(super) type Points = Vec<(f64, Option<f64>)>;

/// The simulations that a row is made of, as it asks for them.
pub(super) struct Uses<'a> {
    pub(super) budget: &'a Budget,
    sims: &'a Sims,
    asked: RefCell<Vec<Asked>>,
}

impl<'a> Uses<'a> {
    /// What was found; nothing where it could not be simulated.
    pub(super) fn of(&self, asked: Asked) -> Option<&'a Outcome> {
        let found = self.sims.of(&asked).ok();
        self.asked.borrow_mut().push(asked);
        found
    }

    /// What is found when it is simulated once more; nothing where it cannot be.
    pub(super) fn again(&self, asked: &Asked) -> Option<Outcome> {
        self.sims.again(asked).ok()
    }

    /// Says of a row what it is made of.
    fn tell(self, row: &mut Value) {
        let asked = self.asked.into_inner();
        let (mut unsteady, mut failed) = (Vec::new(), Vec::new());
        let mut fallen = Fallen::default();
        for asked in &asked {
            match self.sims.of(asked) {
                // One that is cut is measured from its first transaction on, and falls back so that
                // it is cut there, too.
                Ok(Outcome { power_cuts: Some(_), .. }) => {}
                Ok(outcome) => {
                    if !outcome.steady {
                        push_new(&mut unsteady, label(asked));
                    }
                    fallen.add(asked, outcome);
                }
                Err(why) => push_new(&mut failed, format!("{}: {why}", label(asked))),
            }
        }
        if let Some(first) = asked.first() {
            row.simulated(&command(first));
        }
        let software = format!("{} of {} transactions in software", fallen.count, fallen.of);
        let told = [
            ("Could not be simulated", failed),
            ("Not steady", unsteady),
            (&software, fallen.names),
        ];
        let told = told.into_iter().filter(|(_, names)| !names.is_empty());
        let told: Vec<String> = told.map(|(what, names)| sentence(what, &names)).collect();
        if !told.is_empty() {
            row.note(told.join(" "));
        }
    }
}

/// Simulations some of whose transactions the design could not hold: they ran in software, and a
/// number of them says little about the design.
#[derive(Default)]
struct Fallen {
    names: Vec<String>,
    count: u64,
    of: u64,
}

impl Fallen {
    fn add(&mut self, asked: &Asked, outcome: &Outcome) {
        // LAD's controllers log lines instead, and count these.
        let falls = outcome.fallbacks > 0 && !asked.design.starts_with("lad");
        let name = label(asked);
        if falls && !self.names.contains(&name) {
            self.count += outcome.fallbacks;
            self.of += outcome.transactions;
            self.names.push(name);
        }
    }
}

/// A simulation, as a reader of its row wants to be told.
fn label(asked: &Asked) -> String {
    let mut label = format!("{} on {}", asked.workload, asked.design);
    let more = asked.data.iter().cloned();
    let settings = own_settings(asked).map(|(key, value)| format!("{key}={value}"));
    let more: Vec<String> = more.chain(settings).collect();
    if !more.is_empty() {
        write!(label, " ({})", more.join(", ")).expect("a string takes everything");
    }
    label
}

fn push_new(names: &mut Vec<String>, name: String) {
    if !names.contains(&name) {
        names.push(name);
    }
}

fn sentence(what: &str, names: &[String]) -> String {
    let some = names[..names.len().min(NAMED)].join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => format!("{what}: {some}."),
        more => format!("{what}: {some} and {more} more."),
    }
}

/// The geometric mean, if there are all of its numbers.
pub(super) fn geomean(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    mean(values.into_iter().map(|value| value.map(f64::ln))).map(f64::exp)
}

/// The arithmetic mean, likewise.
pub(super) fn mean(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.into_iter().collect::<Option<_>>()?;
    Some(values.iter().sum::<f64>() / values.len() as f64)
}

/// The smallest, likewise.
pub(super) fn least(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.into_iter().collect::<Option<_>>()?;
    values.into_iter().reduce(f64::min)
}

/// The largest, likewise.
pub(super) fn most(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.into_iter().collect::<Option<_>>()?;
    values.into_iter().reduce(f64::max)
}

/// So many of a hundred that something is below one.
pub(super) fn percent_below(ratio: f64) -> f64 {
    100.0 * (1.0 - ratio)
}

/// So many of a hundred that something is above one.
pub(super) fn percent_above(ratio: f64) -> f64 {
    100.0 * (ratio - 1.0)
}
