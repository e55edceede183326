//! Simulations by what is asked for, each made once: nothing of them depends on when it is made.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::LazyLock;
use std::time::Instant;

use sim::machine::description::Description;
use sim::report::{Backlog, CyclesPerTransaction, Machine, NvmWrites, Outcome, Spread};
use sim::sweep::{Asked, Found, Point, Results};

use crate::failure::Failure;
use crate::report::json;
use crate::sim::sweep::{self, PROGRAM, Ran};

/// The directory of their results, within that of all results.
const POINTS: &str = "points";

/// All simulations that were made, by what was asked for: a command does not say all of it.
#[derive(Debug, Default)]
pub(super) struct Sims {
    /// What was found; or why nothing was.
    by_asked: HashMap<String, Result<Outcome, String>>,
    /// What was asked for, where that is all that is wanted.
    planned: Option<RefCell<Vec<Asked>>>,
    /// What is simulated once more was not simulated before.
    #[cfg(test)]
    invented: bool,
    /// How long they took.
    pub(super) seconds: f64,
    /// Whether one could not be made.
    pub(super) broken: bool,
}

/// What is answered while nothing was simulated yet.
static BLANK: LazyLock<Outcome> = LazyLock::new(blank);

impl Sims {
    /// None yet: every one is answered with an outcome that says nothing, and is remembered.
    pub(super) fn to_plan() -> Sims {
        Sims { planned: Some(RefCell::default()), ..Sims::default() }
    }

    /// What was asked for.
    pub(super) fn planned(self) -> Vec<Asked> {
        self.planned.map(RefCell::into_inner).unwrap_or_default()
    }

    /// What was found, or why nothing was.
    ///
    /// # Panics
    /// It is in no plan.
    pub(super) fn of(&self, asked: &Asked) -> Result<&Outcome, &str> {
        if let Some(planned) = &self.planned {
            planned.borrow_mut().push(asked.clone());
            return Ok(&BLANK);
        }
        let key = key(asked);
        let found = self.by_asked.get(&key);
        let found = found.unwrap_or_else(|| panic!("no plan has {key}"));
        found.as_ref().map_err(String::as_str)
    }

    /// What is found when it is simulated once more, in a thread of its own; or why nothing is.
    pub(super) fn again(&self, asked: &Asked) -> Result<Outcome, String> {
        if self.planned.is_some() {
            return Ok(BLANK.clone());
        }
        #[cfg(test)]
        if self.invented {
            return self.of(asked).cloned().map_err(str::to_owned);
        }
        let point = resolved(asked)?;
        let once_more = std::thread::spawn(move || sweep::one(&point, None, &|| {}));
        let made = once_more.join().map_err(|_| "it panicked, see above".to_owned())?;
        made.map(|record| record.outcome)
    }

    /// Adds those of a plan that earlier runs have left, if all of them are there.
    pub(super) fn add_stored(&mut self, plan: Vec<Asked>, out: &Path) -> bool {
        let results = Results::at(&out.join(POINTS));
        let found = plan.into_iter().map(|asked| {
            // A design that this build does not have leaves nothing.
            let point = resolved(&asked).ok()?;
            match results.record(&point) {
                Found::Whole(record) => Some((key(&asked), Ok(record.outcome))),
                Found::Missing | Found::Damaged(_) => None,
            }
        });
        let Some(found) = found.collect::<Option<Vec<_>>>() else { return false };
        self.by_asked.extend(found);
        true
    }

    /// Changes what was found.
    #[cfg(test)]
    pub(super) fn change(&mut self, change: impl Fn(&mut Outcome)) {
        self.by_asked.values_mut().flatten().for_each(change);
    }

    /// Simulations that were never made.
    #[cfg(test)]
    pub(super) fn invented(
        plan: Vec<Asked>,
        outcome: impl Fn(&Asked) -> Result<Outcome, String>,
    ) -> Sims {
        let of = |asked: Asked| (key(&asked), outcome(&asked));
        let by_asked = plan.into_iter().map(of).collect();
        Sims { by_asked, seconds: 1.0, invented: true, ..Sims::default() }
    }

    /// Those of a plan, each made smaller than it is asked for.
    #[cfg(test)]
    pub(super) fn shrunk(plan: Vec<Asked>, shrink: impl Fn(Asked) -> Asked) -> Sims {
        let small = |asked: &Asked| shrink(asked.clone());
        let made = all(plan.iter().map(small).collect(), None).unwrap();
        let of = |asked: &Asked| {
            let found = made.of(&small(asked)).cloned().map_err(str::to_owned);
            (key(asked), found)
        };
        let by_asked = plan.iter().map(of).collect();
        Sims { by_asked, invented: true, ..Sims::default() }
    }
}

/// Makes all simulations of a plan, on all of this machine's cores, but for those whose results are
/// there. One that cannot be made keeps no other from it.
///
/// # Errors
/// There is no room for results.
pub(super) fn all(plan: Vec<Asked>, out: Option<&Path>) -> Result<Sims, Failure> {
    let begun = Instant::now();
    let mut sims = Sims::default();
    let mut points: Vec<Point> = Vec::new();
    let mut known = HashSet::new();
    for asked in plan {
        let key = key(&asked);
        if !known.insert(key.clone()) {
            continue;
        }
        match resolved(&asked) {
            Ok(point) => points.push(point),
            Err(problem) => {
                sims.broken = true;
                sims.by_asked.insert(key, Err(problem));
            }
        }
    }
    let results = out.filter(|_| !points.is_empty());
    let results = results.map(|out| Results::create(&out.join(POINTS))).transpose()?;
    let points: Vec<&Point> = points.iter().collect();
    let Ran { made, .. } = sweep::all(&points, results.as_ref());
    for (point, made) in points.iter().zip(made) {
        sims.broken |= made.is_err();
        sims.by_asked.insert(key(&point.asked), made.map(|record| record.outcome));
    }
    sims.seconds = begun.elapsed().as_secs_f64();
    Ok(sims)
}

/// All that is asked for, in one text.
fn key(asked: &Asked) -> String {
    json::line(asked)
}

/// The point that is asked for, or why there is none.
fn resolved(asked: &Asked) -> Result<Point, String> {
    sweep::known_workload(asked).map_err(|error| error.to_string())?;
    asked.clone().resolve(Path::new("."), &PROGRAM).map_err(|error| error.to_string())
}

/// An outcome of nothing.
pub(super) fn blank() -> Outcome {
    let description = Description::builtin("lad").expect("it is built in");
    let spread = Spread { mean: 1.0, max: 1 };
    Outcome {
        workload: String::new(),
        design: String::new(),
        machine: Machine::of(&description),
        cores: 1,
        seed: 1,
        transactions: 1,
        cycles: 1,
        cycles_per_transaction: CyclesPerTransaction { total: 1.0, ..Default::default() },
        nvm_reads: 0,
        nvm_writes: NvmWrites::default(),
        dram_reads: 0,
        dram_writes: 0,
        lines_per_transaction: spread,
        pages_per_transaction: spread,
        fallbacks: 0,
        design_counts: BTreeMap::new(),
        backlog: Backlog::default(),
        steady: true,
        simulated_accesses: 0,
        host_seconds: 0.0,
        power_cuts: None,
        violations: None,
        rare_paths_taken: None,
        rare_paths_cut: None,
        checked: None,
        isolation_hits: None,
        image_hash: Some(String::new()),
        description,
        complaints: Vec::new(),
    }
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
            assert!(made.of(&asked).unwrap().cycles > 0);
            for other in [&stored, &again, &nowhere] {
                assert_eq!(other.of(&asked), made.of(&asked));
            }
        }
    }

    #[test]
    fn what_cannot_be_simulated_says_why_and_keeps_nothing_else_from_it() {
        let mut remote = small("volatile");
        remote.cores = Some(16);
        let none = [small("lad-nothing"), Asked::new("hastable", "volatile"), remote];
        let sims = all([&none[..], &[small("volatile")]].concat(), None).unwrap();
        let said = none.each_ref().map(|asked| sims.of(asked).unwrap_err());
        assert!(said[0].starts_with("there is no design `lad-nothing`; there are: volatile"));
        assert!(said[1].starts_with("there is no workload `hastable`"), "{}", said[1]);
        assert!(said[2].contains("has 15 cores, not 16"), "{}", said[2]);
        assert!(sims.broken && sims.of(&small("volatile")).unwrap().cycles > 0);
        assert!(!Sims::default().add_stored(vec![small("lad-nothing")], Path::new(".")));
    }
}
