//! Recipes: what an experiment needs, and how its rows follow from the results.

use sim::sweep::Asked;

use crate::budget::Budget;
use crate::rows::Rows;
use crate::sheet::Sheet;
use crate::simulations::Simulations;
use crate::trials::{Spec, Trials};

/// One experiment of a paper.
pub(crate) struct Recipe {
    pub(crate) id: &'static str,
    pub(crate) measure: Measure,
    /// Takes so long that it runs only when its ID is given.
    pub(crate) is_long: bool,
}

/// Source of an experiment's numbers.
pub(crate) enum Measure {
    /// Trials on this machine, in rounds.
    Trials { plan: fn(&Budget) -> Vec<Spec>, judge: fn(&Budget, &Trials, &mut Sheet) },
    /// Simulations, each run once: they are deterministic and independent of this machine.
    Simulations { fill: fn(&mut Rows<'_>) },
}

impl Recipe {
    pub(crate) const fn trials(
        id: &'static str,
        plan: fn(&Budget) -> Vec<Spec>,
        judge: fn(&Budget, &Trials, &mut Sheet),
    ) -> Recipe {
        Recipe { id, measure: Measure::Trials { plan, judge }, is_long: false }
    }

    pub(crate) const fn simulations(id: &'static str, fill: fn(&mut Rows<'_>)) -> Recipe {
        Recipe { id, measure: Measure::Simulations { fill }, is_long: false }
    }

    pub(crate) const fn only_when_named(self) -> Recipe {
        Recipe { is_long: true, ..self }
    }

    pub(crate) fn is_simulated(&self) -> bool {
        matches!(self.measure, Measure::Simulations { .. })
    }

    /// Returns the trials that it needs.
    pub(crate) fn plan_trials(&self, budget: &Budget) -> Vec<Spec> {
        match self.measure {
            Measure::Trials { plan, .. } => plan(budget),
            Measure::Simulations { .. } => Vec::new(),
        }
    }

    /// Returns the simulations that it needs.
    pub(crate) fn plan_simulations(&self, budget: &Budget) -> Vec<Asked> {
        match self.measure {
            Measure::Trials { .. } => Vec::new(),
            Measure::Simulations { fill } => {
                let (simulations, mut sheet) = (Simulations::to_plan(), Sheet::new(self.id));
                fill(&mut Rows::new(budget, &simulations, &mut sheet));
                simulations.planned()
            }
        }
    }

    /// Fills the sheet from the results.
    pub(crate) fn judge(&self, budget: &Budget, made: &Made, sheet: &mut Sheet) {
        match self.measure {
            Measure::Trials { judge, .. } => judge(budget, &made.trials, sheet),
            Measure::Simulations { fill } => fill(&mut Rows::new(budget, &made.simulations, sheet)),
        }
    }
}

/// All results of a run.
#[derive(Default)]
pub(crate) struct Made {
    pub(crate) trials: Trials,
    pub(crate) simulations: Simulations,
}
