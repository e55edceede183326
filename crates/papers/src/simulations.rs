//! Simulations by their requests. They are deterministic, so that each runs once and its stored
//! result stays valid.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::LazyLock;
use std::time::Instant;

use sim::machine::description::Description;
use sim::report::{Backlog, Caches, CyclesPerTransaction, Machine, NvmWrites, Outcome, Spread};
use sim::sweep::{Asked, Found, Point, Results};

use crate::error::Error;
use crate::points::{self, PROGRAM, Ran};
use crate::runner::Progress;

/// Directory of simulations, within that of all results.
const POINTS: &str = "points";

/// Results of simulations by request. A command would be no key: it leaves out settings without an
/// effect on its design.
#[derive(Debug, Default)]
pub(super) struct Simulations {
    /// The outcome, or why a simulation has none.
    by_asked: HashMap<String, Result<Outcome, String>>,
    /// The requests so far, while planning.
    planned: Option<RefCell<Vec<Asked>>>,
    /// The outcomes are made up, repetitions included.
    #[cfg(test)]
    invented: bool,
    /// Their total time.
    pub(super) seconds: f64,
    /// A simulation failed.
    pub(super) broken: bool,
}

/// Outcome of every simulation while planning.
static BLANK: LazyLock<Outcome> = LazyLock::new(blank);

impl Simulations {
    /// Returns an empty set that records requests and returns a blank outcome for each.
    pub(super) fn to_plan() -> Simulations {
        Simulations { planned: Some(RefCell::default()), ..Simulations::default() }
    }

    /// Returns the recorded requests.
    pub(super) fn planned(self) -> Vec<Asked> {
        self.planned.map(RefCell::into_inner).unwrap_or_default()
    }

    /// Returns the outcome of a request, or why there is none.
    ///
    /// # Panics
    /// The request is in no plan.
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

    /// Simulates a request again, in a thread of its own.
    pub(super) fn again(&self, asked: &Asked) -> Result<Outcome, String> {
        if self.planned.is_some() {
            return Ok(BLANK.clone());
        }
        #[cfg(test)]
        if self.invented {
            return self.of(asked).cloned().map_err(str::to_owned);
        }
        let point = resolved(asked)?;
        let once_more = std::thread::spawn(move || points::one(&point, None, &|| {}));
        let made = once_more.join().map_err(|_| "it panicked, see above".to_owned())?;
        made.map(|record| record.outcome)
    }

    /// Adds the stored simulations of a plan and returns true, if all of them are stored.
    pub(super) fn add_stored(&mut self, plan: Vec<Asked>, out: &Path) -> bool {
        let results = Results::at(&out.join(POINTS));
        let found = plan.into_iter().map(|asked| {
            // A design that this build lacks has no stored results.
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

    /// Changes every outcome.
    #[cfg(test)]
    pub(super) fn change(&mut self, change: impl Fn(&mut Outcome)) {
        self.by_asked.values_mut().flatten().for_each(change);
    }

    /// Returns made-up outcomes for the requests of a plan.
    #[cfg(test)]
    pub(super) fn invented(
        plan: Vec<Asked>,
        outcome: impl Fn(&Asked) -> Result<Outcome, String>,
    ) -> Simulations {
        let of = |asked: Asked| (key(&asked), outcome(&asked));
        let by_asked = plan.into_iter().map(of).collect();
        Simulations { by_asked, seconds: 1.0, invented: true, ..Simulations::default() }
    }

    /// Runs the requests of a plan, each made smaller.
    #[cfg(test)]
    pub(super) fn shrunk(plan: Vec<Asked>, shrink: impl Fn(Asked) -> Asked) -> Simulations {
        let small = |asked: &Asked| shrink(asked.clone());
        let made = all(plan.iter().map(small).collect(), None, crate::sample::silent).unwrap();
        let of = |asked: &Asked| {
            let found = made.of(&small(asked)).cloned().map_err(str::to_owned);
            (key(asked), found)
        };
        let by_asked = plan.iter().map(of).collect();
        Simulations { by_asked, invented: true, ..Simulations::default() }
    }
}

/// Runs the simulations of a plan that are not stored, on all cores of this machine. A failure
/// leaves the others unaffected.
///
/// # Errors
/// The directory of results cannot be created.
pub(super) fn all(
    plan: Vec<Asked>,
    out: Option<&Path>,
    progress: impl FnOnce(u64) -> Box<dyn Progress>,
) -> Result<Simulations, Error> {
    let begun = Instant::now();
    let mut simulations = Simulations::default();
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
                simulations.broken = true;
                simulations.by_asked.insert(key, Err(problem));
            }
        }
    }
    let results = out.filter(|_| !points.is_empty());
    let results = results.map(|out| Results::create(&out.join(POINTS))).transpose()?;
    let points: Vec<&Point> = points.iter().collect();
    let Ran { made, .. } = points::all(&points, results.as_ref(), &*progress(points.len() as u64));
    for (point, made) in points.iter().zip(made) {
        simulations.broken |= made.is_err();
        simulations.by_asked.insert(key(&point.asked), made.map(|record| record.outcome));
    }
    simulations.seconds = begun.elapsed().as_secs_f64();
    Ok(simulations)
}

/// Returns a request as one text.
pub(crate) fn key(asked: &Asked) -> String {
    serde_json::to_string(asked).expect("requests have plain keys")
}

/// Returns the point of a request, or why it is invalid.
fn resolved(asked: &Asked) -> Result<Point, String> {
    points::known_workload(asked).map_err(|error| error.to_string())?;
    asked.clone().resolve(Path::new("."), &PROGRAM).map_err(|error| error.to_string())
}

/// Returns a blank outcome.
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
        channels: Vec::new(),
        caches: Caches::default(),
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
    use crate::sample::silent;

    fn small(design: &str) -> Asked {
        let few = Asked { transactions: 100, cores: Some(1), ..Asked::new("hashtable", design) };
        Asked { scale: 0.001, ..few }
    }

    #[test]
    fn stored_simulation_is_not_repeated() {
        let room = tempfile::tempdir().unwrap();
        let (out, plan) = (room.path(), || vec![small("volatile"), small("sw-undo")]);
        let mut stored = Simulations::default();
        assert!(!stored.add_stored(plan(), out));
        let made = all([plan(), plan()].concat(), Some(out), silent).unwrap();
        assert_eq!(std::fs::read_dir(out.join(POINTS)).unwrap().count(), 2);
        assert!(stored.add_stored(plan(), out));
        let again = all(plan(), Some(out), silent).unwrap();
        let nowhere = all(plan(), None, silent).unwrap();
        for asked in plan() {
            assert!(made.of(&asked).unwrap().cycles > 0);
            for other in [&stored, &again, &nowhere] {
                assert_eq!(other.of(&asked), made.of(&asked));
            }
        }
    }

    #[test]
    fn failed_simulation_has_its_reason_and_leaves_others_intact() {
        let mut remote = small("volatile");
        remote.cores = Some(16);
        let none = [small("lad-nothing"), Asked::new("hastable", "volatile"), remote];
        let simulations = all([&none[..], &[small("volatile")]].concat(), None, silent).unwrap();
        let said = none.each_ref().map(|asked| simulations.of(asked).unwrap_err());
        assert!(said[0].starts_with("there is no design `lad-nothing`; there are: volatile"));
        assert!(said[1].starts_with("there is no workload `hastable`"), "{}", said[1]);
        assert!(said[2].contains("has 15 cores, not 16"), "{}", said[2]);
        assert!(simulations.broken && simulations.of(&small("volatile")).unwrap().cycles > 0);
        assert!(!Simulations::default().add_stored(vec![small("lad-nothing")], Path::new(".")));
    }
}
