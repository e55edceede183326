//! A trace: an execution of a program in one line.
//!
//! ```text
//!   decoupled file of=3f2a91c07d5e8b64 steps=1,3 choices=0*12,1
//! ```
//!
//! `of` is a digest of the design, the medium, and the names of workers, steps and invariants. So
//! an explorer knows its own traces, also where one test has several explorers.

use std::fmt::{self, Write};
use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;

use super::Plan;
use super::boots::Selected;
use crate::choices;

/// The part of a trace after the explorer's own.
pub(super) struct Line {
    pub(super) selected: Selected,
    pub(super) choices: Vec<u16>,
}

struct Choices<'a>(&'a [u16]);

impl fmt::Display for Choices<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        choices::write(f, self.0)
    }
}

/// Returns the part of a trace that names its explorer.
fn begin(plan: &Plan) -> String {
    let (design, medium) = (plan.opener.design().name, plan.medium.name());
    let mut digest = FxHasher::default();
    (design, medium, plan.crashes as u64, plan.repeats).hash(&mut digest);
    for worker in &plan.workers {
        worker.name.hash(&mut digest);
        worker.steps.iter().for_each(|step| step.name.hash(&mut digest));
    }
    plan.invariants.iter().for_each(|invariant| invariant.name.hash(&mut digest));
    format!("{design} {medium} of={:016x} ", digest.finish())
}

/// Writes a trace. Steps are numbered from 1 on, over all workers.
pub(super) fn write(plan: &Plan, selected: &Selected, choices: &[u16]) -> String {
    let mut line = begin(plan);
    if *selected != plan.all() {
        line.push_str("steps=");
        let (mut comma, mut first) = ("", 1);
        for (worker, steps) in plan.workers.iter().zip(selected) {
            for step in steps {
                let _ = write!(line, "{comma}{}", first + step);
                comma = ",";
            }
            first += worker.steps.len();
        }
        line.push(' ');
    }
    let _ = write!(line, "choices={}", Choices(choices));
    line
}

/// Reads a trace; `None` when it is not of this explorer.
pub(super) fn read(plan: &Plan, line: &str) -> Option<Line> {
    let rest = line.trim().strip_prefix(&begin(plan))?;
    let (steps, choices) = rest.rsplit_once("choices=")?;
    let choices = choices::parse(choices).ok()?;
    let Some(steps) = steps.trim().strip_prefix("steps=") else {
        return steps.trim().is_empty().then(|| Line { selected: plan.all(), choices });
    };
    let numbers: Option<Vec<usize>> =
        steps.split(',').filter(|step| !step.is_empty()).map(|step| step.parse().ok()).collect();
    let numbers = numbers?;
    let mut first = 1;
    let selected = plan.workers.iter().map(|worker| {
        let steps = (0..worker.steps.len()).filter(|step| numbers.contains(&(first + step)));
        let steps = steps.collect();
        first += worker.steps.len();
        steps
    });
    Some(Line { selected: selected.collect(), choices })
}
