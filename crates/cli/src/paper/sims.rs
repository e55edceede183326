//! Simulations by what is asked for, each made once: nothing of them depends on when it is made.

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use sim::report::Outcome;
use sim::sweep::{Asked, Found, Record, Results, Sweep};

use crate::failure::Failure;
use crate::sim::sweep::{self, PROGRAM, Ran, command};

/// The directory of their results, within that of all results.
const POINTS: &str = "points";

/// All simulations that were made, by their commands.
#[derive(Debug, Default)]
pub(super) struct Sims {
    by_command: HashMap<String, Outcome>,
    /// How long they took.
    pub(super) seconds: f64,
}

impl Sims {
    /// What was found.
    ///
    /// # Panics
    /// It is in no plan.
    pub(super) fn of(&self, asked: &Asked) -> &Outcome {
        let command = command(asked);
        self.by_command.get(&command).unwrap_or_else(|| panic!("no plan has `{command}`"))
    }

    /// Adds those of a plan that earlier runs have left, if all of them are there.
    pub(super) fn add_stored(&mut self, plan: Vec<Asked>, out: &Path) -> bool {
        let results = Results::at(&out.join(POINTS));
        // A design that this build does not have leaves nothing.
        let Ok(sweep) = sweep_of(plan) else { return false };
        let found = sweep.points().iter().map(|point| match results.record(point) {
            Found::Whole(record) => Some((command(&point.asked), record.outcome)),
            Found::Missing | Found::Damaged(_) => None,
        });
        let Some(found) = found.collect::<Option<Vec<_>>>() else { return false };
        self.by_command.extend(found);
        true
    }

    /// Simulations that were never made.
    #[cfg(test)]
    pub(super) fn invented(plan: Vec<Asked>, outcome: impl Fn(&Asked) -> Outcome) -> Sims {
        let of = |asked: Asked| (command(&asked), outcome(&asked));
        Sims { by_command: plan.into_iter().map(of).collect(), seconds: 1.0 }
    }
}

/// Makes all simulations of a plan, on all of this machine's cores, but for those whose results are
/// there.
///
/// # Errors
/// There is no such design; or what kept one from being made.
pub(super) fn all(plan: Vec<Asked>, out: Option<&Path>) -> Result<Sims, Failure> {
    if plan.is_empty() {
        return Ok(Sims::default());
    }
    let sweep = sweep_of(plan)?;
    let results = out.map(|out| Results::create(&out.join(POINTS))).transpose()?;
    let begun = Instant::now();
    let points: Vec<_> = sweep.points().iter().collect();
    let Ran { done, failed, .. } = sweep::all(&points, results.as_ref());
    if let Some((point, problem)) = failed.into_iter().next() {
        let command = command(&point.asked);
        return Err(Failure::SimulationFailed { command, problem });
    }
    let of =
        |(point, record): (&&sim::sweep::Point, Record)| (command(&point.asked), record.outcome);
    let by_command = points.iter().zip(done).map(of).collect();
    Ok(Sims { by_command, seconds: begun.elapsed().as_secs_f64() })
}

/// The points of a plan, each once.
fn sweep_of(plan: Vec<Asked>) -> Result<Sweep, Failure> {
    plan.iter().try_for_each(sweep::known_workload)?;
    Ok(Sweep::of(plan, Path::new("."), &PROGRAM)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(design: &str) -> Asked {
        let few = Asked { transactions: 100, cores: Some(1), ..Asked::new("hashtable", design) };
        Asked { scale: 0.001, ..few }
    }

    #[test]
    fn what_was_simulated_once_is_taken_from_its_file() {
        let room = tempfile::tempdir().unwrap();
        let (out, plan) = (room.path(), || vec![small("volatile"), small("sw-undo")]);
        let mut stored = Sims::default();
        assert!(!stored.add_stored(plan(), out));
        let made = all([plan(), plan()].concat(), Some(out)).unwrap();
        assert_eq!(std::fs::read_dir(out.join(POINTS)).unwrap().count(), 2);
        assert!(stored.add_stored(plan(), out));
        let again = all(plan(), Some(out)).unwrap();
        let nowhere = all(plan(), None).unwrap();
        for asked in plan() {
            assert!(made.of(&asked).cycles > 0);
            for other in [&stored, &again, &nowhere] {
                assert_eq!(other.of(&asked), made.of(&asked));
            }
        }
    }

    #[test]
    fn a_design_or_a_workload_that_there_is_not_is_named() {
        let refusal = |asked| all(vec![small("volatile"), asked], None).err().unwrap().to_string();
        let said = refusal(small("lad-nothing"));
        assert!(said.starts_with("there is no design `lad-nothing`; there are: volatile"));
        let said = refusal(Asked::new("hastable", "volatile"));
        assert!(said.starts_with("there is no workload `hastable`"), "{said}");
        assert!(!Sims::default().add_stored(vec![small("lad-nothing")], Path::new(".")));
    }
}
