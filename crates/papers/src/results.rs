//! Results of a paper's experiments: rows held against their targets, and curves.
//!
//! Every output is made from them: the terminal table, the page, the charts and the files for
//! programs. The names of the fields are the keys of the JSON.

use serde::Serialize;

use crate::machine::Machine;
use crate::statistics::OverRounds;

/// Results of the requested experiments of one paper.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// Short name of the paper, as on the command line.
    pub paper: String,
    /// Title of the paper.
    pub title: String,
    /// Hardware of the paper's measurements.
    pub setup: String,
    /// Machine of this run.
    pub machine: Machine,
    /// Commit of the program.
    pub commit: Option<&'static str>,
    /// Shorter trials, fewer rounds, smaller sweeps; the targets are the same.
    pub quick: bool,
    /// Time of all trials and simulations, loading included, whenever they ran.
    pub seconds: f64,
    /// Rounds of trials.
    pub rounds: u64,
    /// Seed of the first round's clients.
    pub seed: u64,
    /// In the paper's order.
    pub experiments: Vec<Experiment>,
    /// Rows of all experiments, in order.
    pub rows: Vec<Row>,
    /// Figures of all experiments, in order.
    pub figures: Vec<Figure>,
}

impl Results {
    /// Returns the results as a JSON object on several lines.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("results have plain keys")
    }
}

/// One table or figure of the paper.
#[derive(Clone, Debug, Serialize)]
pub struct Experiment {
    /// As on the command line.
    pub id: String,
    /// In our words.
    pub title: String,
    /// Section, and table or figure of the paper.
    pub source: String,
    /// Finding of the paper, in our words.
    pub found: String,
    /// Setup here, and its differences from the paper's.
    pub here: String,
    /// Whether all rows with a target hold; `None` where no row could be judged.
    pub held: Option<bool>,
}

/// One number beside the paper's.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// ID of its experiment.
    pub id: String,
    /// Name within the experiment, as in `ratio/hashtable/16`.
    pub name: String,
    /// Quantity, in words.
    pub what: String,
    /// The paper's value, as printed there.
    pub paper: Option<String>,
    /// Value over rounds; `None` where this machine cannot run it.
    pub ours: Option<OverRounds>,
    /// Unit of the value.
    pub unit: String,
    /// Target of the row, as in `>= 0.97`; `None` where a number is only reported.
    pub target: Option<String>,
    /// Whether the median meets the target; `None` without a target or a value.
    pub held: Option<bool>,
    /// Why it does not hold, why it was not measured, or a remark about it.
    pub why: Option<String>,
    /// Number of measured rounds.
    pub rounds: u64,
    /// Seed of the first round's clients.
    pub seed: u64,
    /// A command that runs one of its trials or simulations.
    pub command: Option<String>,
}

/// Curves, as the paper plots them.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// ID of its experiment.
    pub id: String,
    /// Unique among all figures; a valid file name.
    pub name: String,
    /// Caption.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Curves, in the order of the legend.
    pub series: Vec<Series>,
}

/// Axis of a figure.
#[derive(Clone, Debug, Serialize)]
pub struct Axis {
    /// Quantity and unit.
    pub label: String,
    /// Logarithmic scale.
    pub log: bool,
}

/// One curve.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// As in the legend.
    pub name: String,
    /// Published by the paper, not measured here; charts show it thin.
    pub theirs: bool,
    /// In ascending order of `x`.
    pub points: Vec<Point>,
}

/// Point of a curve.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Point {
    /// Position on the horizontal axis.
    pub x: f64,
    /// Value over rounds.
    pub y: OverRounds,
}

/// One experiment of a paper, for an overview.
#[derive(Clone, Debug, Serialize)]
pub struct Listed {
    /// As on the command line.
    pub id: String,
    /// In our words.
    pub title: String,
    /// Section, and table or figure of the paper.
    pub source: String,
    /// Number of its rows.
    pub rows: usize,
    /// Takes so long that it runs only when its ID is given.
    pub named_only: bool,
}
