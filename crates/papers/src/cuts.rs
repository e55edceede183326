//! C1 to C4: power cuts under every design of a paper.
//!
//! - C1 and C3 run the points of a sweep's file. So they use the results of
//!   `lastword sim sweep FILE --out DIR/points`. They take long, and run only when named.
//! - C2 stands for tests with injected bugs.
//! - C4 simulates a small point of each design twice. A test repeats more points.

use sim::report::Outcome;
use sim::sweep::{Asked, Sweep};

use crate::rows::{Rows, Uses, least};

/// Power cuts of a point in a quick run: enough to show that it can run.
const QUICK: u64 = 50;

/// Transactions of a point of C4.
const FEW: u64 = 100;

const LAD: &str = include_str!("../sweeps/lad-cuts.toml");
const REDU: &str = include_str!("../sweeps/redu-cuts.toml");
const SSP: &str = include_str!("../sweeps/ssp-cuts.toml");

pub(super) fn lad(rows: &mut Rows<'_>) {
    cuts(rows, LAD);
}

pub(super) fn redu(rows: &mut Rows<'_>) {
    cuts(rows, REDU);
}

pub(super) fn ssp(rows: &mut Rows<'_>) {
    cuts(rows, SSP);
}

/// C2: injected bugs.
pub(super) fn injected(rows: &mut Rows<'_>) {
    let why = "Nothing is run here: tests inject bugs, `cargo test -p lastword-sim --lib crash`; \
               docs/internals/mutants.md lists them.";
    rows.none("found", why);
}

/// C3 of LAD: conflicting writes of open transactions.
pub(super) fn lad_isolated(rows: &mut Rows<'_>) {
    isolated(rows, LAD);
}

pub(super) fn redu_isolated(rows: &mut Rows<'_>) {
    isolated(rows, REDU);
}

pub(super) fn ssp_isolated(rows: &mut Rows<'_>) {
    isolated(rows, SSP);
}

/// C4 of LAD: repeatability.
pub(super) fn lad_equal(rows: &mut Rows<'_>) {
    equal(rows, LAD);
}

pub(super) fn redu_equal(rows: &mut Rows<'_>) {
    equal(rows, REDU);
}

pub(super) fn ssp_equal(rows: &mut Rows<'_>) {
    equal(rows, SSP);
}

/// Returns the points of a sweep.
fn points(rows: &Rows<'_>, sweep: &str) -> Vec<Asked> {
    let mut points = Sweep::asked(sweep).expect("a test reads every sweep");
    if rows.budget.quick {
        points.iter_mut().for_each(|asked| asked.power_cuts = QUICK);
    }
    points
}

/// Fills a row for each design of a sweep: how often two open transactions wrote one line, over all
/// of its points. A point without that check leaves the row without a number.
fn isolated(rows: &mut Rows<'_>, sweep: &str) {
    let points = points(rows, sweep);
    for design in different(&points, |asked| &asked.design) {
        rows.row(format!("isolation/{design}"), |uses| {
            let of_design = points.iter().filter(|asked| asked.design == design);
            let hits = of_design.map(|asked| uses.of(asked.clone())?.isolation_hits);
            // Collected first: the plan needs every request, also after a missing number.
            let hits: Vec<Option<u64>> = hits.collect();
            hits.into_iter().sum::<Option<u64>>().map(|hits| hits as f64)
        });
    }
}

/// Returns a small point for each design of a sweep, and for `volatile`.
fn pairs(sweep: &str) -> Vec<Asked> {
    let points = Sweep::asked(sweep).expect("a test reads every sweep");
    let is_tiny =
        |asked: &&Asked| asked.machine.as_ref().is_some_and(|name| name.starts_with("tiny-"));
    let tiny: Vec<&Asked> = points.iter().filter(is_tiny).collect();
    let of = |design: &str| tiny.iter().find(|asked| asked.design == design).copied().cloned();
    let few = |asked: Asked| Asked { transactions: FEW, power_cuts: QUICK, ..asked };
    let designs = different(&points, |asked| &asked.design);
    let mut pairs: Vec<Asked> = designs.into_iter().filter_map(of).map(few).collect();
    if let Some(first) = pairs.first().cloned() {
        pairs.push(Asked { design: "volatile".to_owned(), power_cuts: 0, ..first });
    }
    pairs
}

/// Fills a row with the share of points that a second run reproduces, memory image included. It
/// runs in threads of its own and in reverse order.
fn equal(rows: &mut Rows<'_>, sweep: &str) {
    let pairs = pairs(sweep);
    rows.row("equal", |uses| {
        let found: Vec<_> = pairs.iter().map(|asked| uses.of(asked.clone())).collect();
        let again = pairs.iter().zip(&found).rev().map(|(asked, found)| {
            let (found, again) = ((*found)?, uses.again(asked)?);
            Some(u64::from(found.image_hash.is_some() && is_equal(found, &again)))
        });
        let equal: u64 = again.sum::<Option<u64>>()?;
        Some(100.0 * equal as f64 / pairs.len() as f64)
    });
}

/// Returns whether two outcomes are equal, apart from the time on this machine.
fn is_equal(one: &Outcome, other: &Outcome) -> bool {
    let timeless = |outcome: &Outcome| Outcome { host_seconds: 0.0, ..outcome.clone() };
    timeless(one) == timeless(other)
}

/// Fills the rows of each design of a sweep: power cuts in the workload with the fewest,
/// violations, cuts inside the least-cut rare path, and points whose checks held.
fn cuts(rows: &mut Rows<'_>, sweep: &str) {
    let points = points(rows, sweep);
    for design in different(&points, |asked| &asked.design) {
        let of_design: Vec<&Asked> = points.iter().filter(|asked| asked.design == design).collect();
        let found = |uses: &Uses<'_>, workload: Option<&str>, of: fn(&Outcome) -> u64| {
            let is_of = |asked: &&&Asked| workload.is_none_or(|name| asked.workload == name);
            let chosen = of_design.iter().filter(is_of);
            let found = chosen.map(|asked| Some(of(uses.of((*asked).clone())?)));
            found.sum::<Option<u64>>().map(|sum| sum as f64)
        };
        let workloads = different(&points, |asked| &asked.workload);
        rows.row(format!("cuts/{design}"), |uses| {
            let cuts = |workload| {
                found(uses, Some(workload), |outcome| outcome.power_cuts.unwrap_or_default())
            };
            least(workloads.iter().map(|workload| cuts(workload)))
        });
        rows.row(format!("violations/{design}"), |uses| {
            found(uses, None, |outcome| outcome.violations.unwrap_or_default())
        });
        rows.row(format!("checked/{design}"), |uses| {
            let held = found(uses, None, |outcome| u64::from(outcome.checked == Some(true)))?;
            Some(100.0 * held / of_design.len() as f64)
        });
        rows.row(format!("rare/{design}"), |uses| rarest(uses, &of_design));
    }
}

/// Returns the cuts inside the least-cut rare path, over all machines and workloads.
fn rarest(uses: &Uses<'_>, points: &[&Asked]) -> Option<f64> {
    let mut paths = std::collections::BTreeMap::new();
    for asked in points {
        for (path, cuts) in uses.of((*asked).clone())?.rare_paths_cut.iter().flatten() {
            *paths.entry(path.as_str()).or_insert(0) += cuts;
        }
    }
    least(paths.into_values().map(|cuts: u64| Some(cuts as f64)))
}

/// Returns the distinct values of points, in order.
fn different<'a>(points: &'a [Asked], of: impl Fn(&'a Asked) -> &'a String) -> Vec<&'a str> {
    let mut values: Vec<&str> = Vec::new();
    for value in points.iter().map(of) {
        if !values.contains(&value.as_str()) {
            values.push(value);
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::Made;
    use crate::registry::recipes;
    use crate::reproduce::judge;
    use crate::sample;
    use crate::simulations::{all, blank};
    use crate::targets::Paper;

    #[test]
    fn isolation_hits_are_summed_and_need_the_check() {
        let results = sample::judged_with("lad", true, |asked| {
            let isolation_hits = match &*asked.design {
                "lad" => None,
                "lad-llc" => Some(2),
                _ => Some(0),
            };
            Ok(Outcome { isolation_hits, ..blank() })
        });
        let found = ["lad", "lad-llc", "sw-undo"]
            .map(|design| sample::held(&results, "C3", &format!("isolation/{design}")));
        let points = Sweep::asked(LAD).unwrap();
        let points = points.iter().filter(|asked| asked.design == "lad-llc").count() as f64;
        let expected = [(None, None), (Some(2.0 * points), Some(false)), (Some(0.0), Some(true))];
        assert_eq!(found, expected);
    }

    #[test]
    fn points_with_power_cuts_are_not_called_unsteady() {
        let results = sample::judged_with("lad", true, |asked| {
            let power_cuts = (asked.power_cuts > 0).then_some(asked.power_cuts);
            Ok(Outcome { steady: false, power_cuts, isolation_hits: Some(0), ..blank() })
        });
        let unsteady = |id: &str| {
            let rows = results.rows.iter().filter(|row| row.id == id);
            rows.filter(|row| row.why.as_ref().is_some_and(|why| why.contains("Not steady")))
                .count()
        };
        assert_eq!((unsteady("C1"), unsteady("C3")), (0, 0));
        assert!(unsteady("L1") > 0);
    }

    #[test]
    fn repeated_simulations_are_equal_and_changes_are_found() {
        let budget = sample::budget(true);
        let recipe = recipes("ssp").iter().find(|recipe| recipe.id == "C4").unwrap();
        let plan = recipe.plan_simulations(&budget);
        let designs = different(&plan, |asked| &asked.design);
        assert_eq!(designs, ["ssp", "ssp-undo", "ssp-redo", "volatile"]);
        let mut made =
            Made { simulations: all(plan, None, sample::silent).unwrap(), ..Made::default() };
        let equal = |made: &Made| {
            let results = judge(&Paper::by_name("ssp").unwrap(), &[recipe], &budget, made);
            sample::held(&results, "C4", "equal")
        };
        assert_eq!(equal(&made), (Some(100.0), Some(true)));
        made.simulations.change(|outcome| {
            if outcome.design == "ssp-undo" {
                outcome.image_hash = Some("0123456789abcdef".to_owned());
            }
        });
        assert_eq!(equal(&made), (Some(75.0), Some(false)));
    }

    /// Ten thousand power cuts for every design and workload, half of them on the paper's machine.
    #[test]
    fn sweeps_cut_every_design_and_workload_often_enough() {
        for (sweep, machine, designs, workloads) in [
            (include_str!("../sweeps/lad-cuts.toml"), "lad", 4, 7),
            (include_str!("../sweeps/redu-cuts.toml"), "redu", 5, 9),
            (include_str!("../sweeps/ssp-cuts.toml"), "ssp", 3, 13),
        ] {
            let points = Sweep::asked(sweep).unwrap();
            let all = [
                different(&points, |asked| &asked.design),
                different(&points, |asked| &asked.workload),
            ];
            assert_eq!(all.each_ref().map(Vec::len), [designs, workloads], "{machine}");
            for (design, workload) in
                all[0].iter().flat_map(|design| all[1].iter().map(move |of| (design, of)))
            {
                let is_of = |asked: &&Asked| asked.design == *design && asked.workload == *workload;
                let cuts = |on: &str| -> u64 {
                    let here = points.iter().filter(is_of);
                    let here = here.filter(|asked| asked.machine.as_deref() == Some(on));
                    here.map(|asked| u64::from(asked.check) * asked.power_cuts).sum()
                };
                assert!(cuts(machine) >= 5000, "{design} {workload}");
                assert!(cuts(&format!("tiny-{machine}")) >= 5000, "{design} {workload}");
            }
        }
    }
}
