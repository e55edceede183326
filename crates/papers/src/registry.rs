//! The papers by name.

use std::collections::HashSet;

use sim::sweep::Asked;

use crate::budget::Budget;
use crate::recipe::Recipe;
use crate::{dudetm, lad, pisces, redu, simulations, ssp};

/// Short names of the papers.
pub const NAMES: [&str; 5] = ["dudetm", "pisces", "lad", "redu", "ssp"];

/// Returns the recipes of a paper, in the order of its targets; none for an unknown name.
pub(crate) fn recipes(paper: &str) -> &'static [Recipe] {
    match paper {
        "dudetm" => dudetm::RECIPES,
        "pisces" => pisces::RECIPES,
        "lad" => lad::RECIPES,
        "redu" => redu::RECIPES,
        "ssp" => ssp::RECIPES,
        _ => &[],
    }
}

/// Everything that all experiments of a paper run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Arguments of `lastword run`, pools' own commands included.
    pub commands: Vec<String>,
    /// Points of the simulator, each once.
    pub simulations: Vec<Asked>,
}

/// Returns the plan of a paper, so that the program can test that it supports every command.
pub fn plan(paper: &str, quick: bool) -> Plan {
    let budget = Budget { quick, rounds: 3, seed: 1, comparison: None };
    let recipes = recipes(paper).iter();
    let specs = recipes.clone().flat_map(|recipe| recipe.plan_trials(&budget));
    let commands = specs.flat_map(|spec| [Some(spec.command), spec.pool]).flatten().collect();
    let mut seen = HashSet::new();
    let simulations = recipes.flat_map(|recipe| recipe.plan_simulations(&budget));
    let simulations = simulations.filter(|asked| seen.insert(simulations::key(asked))).collect();
    Plan { commands, simulations }
}
