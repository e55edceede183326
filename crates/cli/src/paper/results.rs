//! What came of a paper's experiments: rows that are held against marks, and curves. Everything
//! that is printed, plotted or written for programs is made from this.

use serde::Serialize;

use crate::machine::Machine;
use crate::report::OverRounds;

/// All that was asked for of one paper.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Results {
    /// Its short name, as on the command line.
    pub(crate) paper: String,
    /// Its title.
    pub(crate) title: String,
    /// On what the paper was measured.
    pub(crate) setup: String,
    pub(crate) machine: Machine,
    pub(crate) commit: Option<&'static str>,
    /// Shorter laps, fewer rounds, smaller sweeps; the marks are the same.
    pub(crate) quick: bool,
    /// How long the laps took, loading included, whenever they were made.
    pub(crate) seconds: f64,
    pub(crate) rounds: u64,
    pub(crate) seed: u64,
    pub(crate) experiments: Vec<Experiment>,
    pub(crate) rows: Vec<Row>,
    pub(crate) figures: Vec<Figure>,
}

/// One table or figure of the paper.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Experiment {
    pub(crate) id: String,
    pub(crate) title: String,
    /// Section, and table or figure.
    pub(crate) source: String,
    /// What the paper found, in our words.
    pub(crate) found: String,
    /// What is run here, and how it differs.
    pub(crate) here: String,
    /// Whether all of its rows with a mark hold; nothing where none could be judged.
    pub(crate) held: Option<bool>,
}

/// One number beside the paper's.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// Of its experiment.
    pub(crate) id: String,
    /// Within the experiment, as in `ratio/hashtable/16`.
    pub(crate) name: String,
    pub(crate) what: String,
    /// The paper's value, as it is printed there.
    pub(crate) paper: Option<String>,
    /// Over rounds; nothing where this machine cannot run it.
    pub(crate) ours: Option<OverRounds>,
    pub(crate) unit: String,
    /// What must be shown, as in `>= 0.97`; nothing where a number is only reported.
    pub(crate) mark: Option<String>,
    /// Whether the median keeps to the mark; nothing where there is none of either.
    pub(crate) held: Option<bool>,
    /// Why it does not hold, why it was not measured, or what there is to know about it.
    pub(crate) why: Option<String>,
    /// Rounds that were measured.
    pub(crate) rounds: u64,
    pub(crate) seed: u64,
    /// A command that makes one of the laps behind it.
    pub(crate) command: Option<String>,
}

/// Curves, as the paper plots them.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    /// Of its experiment.
    pub(crate) id: String,
    /// Within all figures, fit for a file's name.
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Axis {
    pub(crate) label: String,
    /// Each step multiplies.
    pub(crate) log: bool,
}

/// One curve.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// From the paper, not from here: drawn thin.
    pub(crate) theirs: bool,
    /// In ascending order of `x`.
    pub(crate) points: Vec<Point>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: OverRounds,
}
