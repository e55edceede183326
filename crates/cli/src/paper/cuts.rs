//! C1 to C4: power cuts under every design of a paper.
//!
//! C1 and C3 are the points of a sweep's file, so what `lastword sim sweep FILE --out DIR/points`
//! has left is taken. They take long, and are run when they are named. C2 and C4 are tests.

use sim::report::Outcome;
use sim::sweep::{Asked, Sweep};

use super::rows::{Rows, Uses, least};

/// Cuts of a point in a quick run: enough to see that it can be run.
const QUICK: u64 = 50;

pub(super) fn lad(rows: &mut Rows<'_>) {
    cuts(rows, include_str!("../../sweeps/lad-cuts.toml"));
}

pub(super) fn redu(rows: &mut Rows<'_>) {
    cuts(rows, include_str!("../../sweeps/redu-cuts.toml"));
}

pub(super) fn ssp(rows: &mut Rows<'_>) {
    cuts(rows, include_str!("../../sweeps/ssp-cuts.toml"));
}

/// C2: planted bugs.
pub(super) fn planted(rows: &mut Rows<'_>) {
    rows.none("found", "A test plants them: `cargo test -p lastword-sim --lib crash`.");
}

/// C4: equal seeds.
pub(super) fn equal(rows: &mut Rows<'_>) {
    rows.none("equal", "A test runs them twice: `cargo test -p lastword-sim equal_runs`.");
}

/// For each design of a sweep: cuts of the workload that has the fewest, violations, the rare path
/// that was cut inside least often, and points whose checks held.
fn cuts(rows: &mut Rows<'_>, sweep: &str) {
    let mut points = Sweep::asked(sweep).expect("a test reads it");
    if rows.budget.quick {
        points.iter_mut().for_each(|asked| asked.power_cuts = QUICK);
    }
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

/// Cuts inside of the rare path that has the fewest, on all machines and workloads.
fn rarest(uses: &Uses<'_>, points: &[&Asked]) -> Option<f64> {
    let mut paths = std::collections::BTreeMap::new();
    for asked in points {
        for (path, cuts) in uses.of((*asked).clone())?.rare_paths_cut.iter().flatten() {
            *paths.entry(path.as_str()).or_insert(0) += cuts;
        }
    }
    least(paths.into_values().map(|cuts: u64| Some(cuts as f64)))
}

/// The values that points have, in their order.
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

    /// Ten thousand for every design and workload, half of them on the paper's machine.
    #[test]
    fn every_design_and_workload_is_cut_as_often_as_it_must_be() {
        for (sweep, machine, designs, workloads) in [
            (include_str!("../../sweeps/lad-cuts.toml"), "lad", 4, 6),
            (include_str!("../../sweeps/redu-cuts.toml"), "redu", 5, 8),
            (include_str!("../../sweeps/ssp-cuts.toml"), "ssp", 3, 9),
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
