//! Rows computed from simulations.
//!
//! A recipe computes each row from outcomes and requests these one by one. It runs twice: on blank
//! outcomes, which collects the requests, and on the real ones, which fills the sheet. So plan and
//! evaluation cannot disagree, and each row knows its command, its unsteady simulations and its
//! failed ones.

use std::cell::RefCell;
use std::fmt::Write;

use sim::report::{Channel, Outcome};
use sim::sweep::Asked;

use crate::budget::Budget;
use crate::points::{command, own_settings};
use crate::results::{Axis, Series};
use crate::sheet::{Sheet, Value, curve};
use crate::simulations::Simulations;

/// Limit of the simulations that a row's remark names.
const NAMED: usize = 6;

/// Limit of the simulations whose counters stand beside a row.
const COUNTED: usize = 2;

/// The rows and figures of one experiment, while its recipe runs.
pub(super) struct Rows<'a> {
    pub(super) budget: &'a Budget,
    simulations: &'a Simulations,
    sheet: &'a mut Sheet,
}

impl<'a> Rows<'a> {
    pub(super) fn new(
        budget: &'a Budget,
        simulations: &'a Simulations,
        sheet: &'a mut Sheet,
    ) -> Rows<'a> {
        Rows { budget, simulations, sheet }
    }

    /// Adds a row with one number and returns the number. A row without one names the simulations
    /// that failed.
    pub(super) fn row(
        &mut self,
        name: impl Into<String>,
        value: impl FnOnce(&Uses<'a>) -> Option<f64>,
    ) -> Option<f64> {
        let uses =
            Uses { budget: self.budget, simulations: self.simulations, asked: RefCell::default() };
        let value = value(&uses).filter(|value| value.is_finite());
        uses.annotate(self.sheet.row(name, value.into_iter().collect()));
        value
    }

    /// Adds a row that simulations cannot show; `why` names the evidence instead.
    pub(super) fn none(&mut self, name: &str, why: &str) {
        self.sheet.none(name, why);
    }

    /// Adds a figure of named curves, without the points that have no number.
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

/// Points of a curve.
pub(super) type Points = Vec<(f64, Option<f64>)>;

/// The simulations of a row, recorded as the recipe requests them.
pub(super) struct Uses<'a> {
    pub(super) budget: &'a Budget,
    simulations: &'a Simulations,
    asked: RefCell<Vec<Asked>>,
}

impl<'a> Uses<'a> {
    /// Returns the outcome of a request; `None` if the simulation failed.
    pub(super) fn of(&self, asked: Asked) -> Option<&'a Outcome> {
        let found = self.simulations.of(&asked).ok();
        self.asked.borrow_mut().push(asked);
        found
    }

    /// Simulates a request again; `None` if that fails.
    pub(super) fn again(&self, asked: &Asked) -> Option<Outcome> {
        self.simulations.again(asked).ok()
    }

    /// Sets the command and the remark of a row.
    fn annotate(self, row: &mut Value) {
        let asked = self.asked.into_inner();
        let (mut unsteady, mut failed) = (Vec::new(), Vec::new());
        let mut fallen = Fallen::default();
        for asked in &asked {
            match self.simulations.of(asked) {
                // With power cuts the measurement begins at the first transaction, before the
                // steady state, and fallbacks are forced so that cuts hit them.
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
        row.missed(counters(&asked, self.simulations));
        let software = format!("{} of {} transactions in software", fallen.count, fallen.of);
        let remarks = [
            ("Could not be simulated", failed),
            ("Not steady", unsteady),
            (&software, fallen.names),
        ];
        let remarks = remarks.into_iter().filter(|(_, names)| !names.is_empty());
        let remarks: Vec<String> =
            remarks.map(|(subject, names)| sentence(subject, &names)).collect();
        if !remarks.is_empty() {
            row.note(remarks.join(" "));
        }
    }
}

/// Returns the counters of a row's first simulations, for a row that misses its target.
fn counters(asked: &[Asked], simulations: &Simulations) -> Option<String> {
    let mut named = Vec::new();
    for asked in asked {
        if let Ok(outcome) = simulations.of(asked)
            && named.len() < COUNTED
        {
            push_new(&mut named, format!("{}: {}", label(asked), counted(outcome)));
        }
    }
    (!named.is_empty()).then(|| format!("Counters of a transaction. {}.", named.join(". ")))
}

/// Returns what a transaction took and wrote, and the load of the busiest channel.
fn counted(outcome: &Outcome) -> String {
    let each = |lines: u64| lines as f64 / outcome.transactions.max(1) as f64;
    let cycles = &outcome.cycles_per_transaction;
    let parts = [
        ("begin", cycles.begin),
        ("log", cycles.log_stall),
        ("prepare", cycles.prepare),
        ("commit", cycles.commit),
        ("abort", cycles.abort),
        ("locks", cycles.locks),
    ];
    let parts = parts.into_iter().filter(|(_, cycles)| *cycles >= 0.5);
    let parts: Vec<String> = parts.map(|(name, cycles)| format!("{name} {cycles:.0}")).collect();
    let writes = outcome.nvm_writes.by_class().into_iter().filter(|(_, lines)| *lines > 0);
    let writes: Vec<String> =
        writes.map(|(name, lines)| format!("{name} {:.2}", each(lines))).collect();
    let mut text = format!("{:.0} cycles ({})", cycles.total, parts.join(", "));
    write!(text, ", {:.2} reads", each(outcome.nvm_reads)).expect("a string accepts all text");
    write!(text, ", written lines: {}", writes.join(", ")).expect("a string accepts all text");
    if outcome.fallbacks > 0 {
        write!(text, ", {:.2} fallbacks", each(outcome.fallbacks)).expect("as above");
    }
    let nvm = || outcome.channels.iter().filter(|channel| channel.memory == "nvm");
    let load = |channel: &Channel| channel.reads + channel.writes;
    let all: u64 = nvm().map(load).sum();
    if let Some(busiest) = nvm().max_by_key(|channel| load(channel)).filter(|_| all > 0) {
        let percent = |part: u64, of: u64| 100.0 * part as f64 / of.max(1) as f64;
        write!(
            text,
            ", busiest of {} channels: {:.0} % of accesses, {:.0} % of the time, {:.0} % row hits, \
             queue {:.1} slots of {}, {:.1} % of writes waited for one",
            nvm().count(),
            percent(load(busiest), all),
            100.0 * busiest.busy,
            percent(busiest.row_hits, load(busiest)),
            busiest.queue.mean,
            outcome.description.mc.wq,
            percent(busiest.queue.waited, busiest.writes),
        )
        .expect("a string accepts all text");
    }
    text
}

/// Simulations in which transactions exceeded the design's capacity and ran in software. Their
/// numbers say little about the design.
#[derive(Default)]
struct Fallen {
    names: Vec<String>,
    count: u64,
    of: u64,
}

impl Fallen {
    fn add(&mut self, asked: &Asked, outcome: &Outcome) {
        // LAD's controllers log single lines instead, and its counter counts lines.
        let falls = outcome.fallbacks > 0 && !asked.design.starts_with("lad");
        let name = label(asked);
        if falls && !self.names.contains(&name) {
            self.count += outcome.fallbacks;
            self.of += outcome.transactions;
            self.names.push(name);
        }
    }
}

/// Returns the short description of a simulation.
fn label(asked: &Asked) -> String {
    let mut label = format!("{} on {}", asked.workload, asked.design);
    let more = asked.data.iter().cloned();
    let settings = own_settings(asked).map(|(key, value)| format!("{key}={value}"));
    let more: Vec<String> = more.chain(settings).collect();
    if !more.is_empty() {
        write!(label, " ({})", more.join(", ")).expect("writing to a string cannot fail");
    }
    label
}

fn push_new(names: &mut Vec<String>, name: String) {
    if !names.contains(&name) {
        names.push(name);
    }
}

fn sentence(subject: &str, names: &[String]) -> String {
    let some = names[..names.len().min(NAMED)].join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => format!("{subject}: {some}."),
        more => format!("{subject}: {some} and {more} more."),
    }
}

/// Returns the geometric mean; `None` if a number is missing.
pub(super) fn geomean(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    mean(values.into_iter().map(|value| value.map(f64::ln))).map(f64::exp)
}

/// Returns the arithmetic mean; `None` if a number is missing.
pub(super) fn mean(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.into_iter().collect::<Option<_>>()?;
    Some(values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the minimum; `None` if a number is missing.
pub(super) fn least(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.into_iter().collect::<Option<_>>()?;
    values.into_iter().reduce(f64::min)
}

/// Returns the maximum; `None` if a number is missing.
pub(super) fn most(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.into_iter().collect::<Option<_>>()?;
    values.into_iter().reduce(f64::max)
}

/// Returns by how many percent a ratio is below 1.
pub(super) fn percent_below(ratio: f64) -> f64 {
    100.0 * (1.0 - ratio)
}

/// Returns by how many percent a ratio is above 1.
pub(super) fn percent_above(ratio: f64) -> f64 {
    100.0 * (ratio - 1.0)
}
