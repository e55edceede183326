//! Shrinking: it shortens a failing execution that keeps the same kind of violation.

use std::mem::discriminant;

use crate::choices::trimmed;
use crate::{Picker, Policy, Prepared, Trace, Violation};

/// Returns a trace, no longer than this one, that ends with the same kind of violation. It has
/// fewer moves, fewer choices other than 0, or an earlier end.
pub fn shrink(trace: &Trace, prepared: &Prepared, violation: &Violation) -> Trace {
    let mut best = trace.clone();
    let fails = |trace: &Trace| {
        let picker = Picker::new(trace.choices.clone(), Policy::AllOld);
        let (report, picker) = prepared.run(&trace.case, picker);
        let same = |found: &Violation| discriminant(found) == discriminant(violation);
        report
            .violation
            .as_ref()
            .is_some_and(same)
            .then(|| picker.made().iter().map(|made| made.chosen).collect::<Vec<u16>>())
    };
    loop {
        let smaller = candidates(&best).find_map(|candidate| {
            let choices = fails(&candidate)?;
            let shrunk = Trace { case: candidate.case, choices: trimmed(choices) };
            (size(&shrunk) < size(&best)).then_some(shrunk)
        });
        match smaller {
            Some(smaller) => best = smaller,
            None => return best,
        }
    }
}

/// Returns the measure that shrinking reduces.
fn size(trace: &Trace) -> (usize, usize, usize, usize, u64) {
    let not_zero = trace.choices.iter().filter(|choice| **choice > 0).count();
    let sum = trace.choices.iter().map(|choice| u64::from(*choice)).sum();
    let Trace { case, choices } = trace;
    (case.transactions, case.moves, not_zero, choices.len(), sum)
}

/// Returns slightly smaller traces.
fn candidates(trace: &Trace) -> impl Iterator<Item = Trace> + '_ {
    let fewer = [(1, 0), (0, 1)].into_iter().filter_map(|(transactions, moves)| {
        let mut fewer = trace.clone();
        fewer.case.transactions = trace.case.transactions.checked_sub(transactions)?;
        fewer.case.moves = trace.case.moves.checked_sub(moves)?;
        Some(fewer)
    });
    let with = |change: &dyn Fn(&mut Vec<u16>)| {
        let mut changed = trace.clone();
        change(&mut changed.choices);
        changed
    };
    let length = trace.choices.len();
    let cut = (0..length).map(move |at| with(&|choices| choices.truncate(at)));
    let zero = (0..length).rev().filter(|&at| trace.choices[at] > 0);
    let zero = zero.map(move |at| with(&|choices| choices[at] = 0));
    let without = (0..length).rev().map(move |at| {
        with(&|choices| {
            choices.remove(at);
        })
    });
    fewer.chain(cut).chain(zero).chain(without)
}
