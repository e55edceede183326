//! A checker of histories: whether an order of the operations explains every reply.
//!
//! A history is *linearizable* if each operation can take effect at one instant between its call
//! and its return, so that all replies are those of one copy of the data. An operation without a
//! reply may take effect at any time after its call, or never.
//!
//! Keys are independent, so each is checked alone. The search is that of Wing and Gong ("Testing
//! and Verifying Concurrent Objects", 1993) with the memory of Lowe ("Testing for Linearizability",
//! 2017). It extends an order by any operation that no remaining one precedes, and steps back where
//! a reply fits none. It visits each pair of a set of operations and a value once.
//!
//! ```text
//!   replied    [ A ]  [   B   ]            A precedes B: it returned before B was called
//!                 [ C ]     [  D  ]
//!   unknown      [ E ...                   E may follow any operation after its call
//! ```
//!
//! Invariants of the search:
//! - Replied operations are in order of their calls, and all before `low` are in the order.
//! - The order ends when it has all replied operations. Unknown ones outside of it took effect
//!   later, or never.
//! - Unknown operations are tried last, since most have no effect that a reply shows.
//! - The order has no unknown operation without which the next operation has the same reply and
//!   leaves the same value. An order with it is right only if the order without it is. Otherwise
//!   every set of unknown operations would be visited.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use crate::history::{Operation, Value};

/// Sets of operations that the search of one key may visit. More need too much memory.
const VISITS_MAX: usize = 3_000_000;

/// The reason why a history was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No order explains the replies. The longest order ends before this operation.
    NotLinearizable { blocked: Operation },
    /// The search has ended without a result.
    Undecided { key: u32 },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NotLinearizable { blocked } => write!(
                f,
                "not linearizable: no order of the operations on key {} explains the reply of \
                 {blocked}",
                blocked.key
            ),
            Refusal::Undecided { key } => write!(
                f,
                "undecided: the operations on key {key} have too many orders; use more keys, or \
                 fewer clients"
            ),
        }
    }
}

/// Checks whether a history is linearizable. Every key begins without a value.
pub(crate) fn check(history: &[Operation]) -> Result<(), Refusal> {
    let mut keys = BTreeMap::<u32, Vec<&Operation>>::new();
    for operation in history {
        keys.entry(operation.key).or_default().push(operation);
    }
    keys.into_values().try_for_each(|operations| Search::new(operations).run())
}

/// The operations of a key, and the order that the search has reached.
struct Search<'h> {
    replied: Vec<&'h Operation>,
    unknown: Vec<&'h Operation>,
    /// Whether the order has an operation: the replied ones, then the unknown ones.
    taken: Vec<bool>,
    low: usize,
    visited: HashSet<Visit>,
}

/// A set of operations, and the value after them.
#[derive(PartialEq, Eq, Hash)]
struct Visit {
    value: Value,
    unshown: Option<Value>,
    low: usize,
    /// The numbers of the operations in the set, without the replied ones before `low`.
    others: Box<[usize]>,
}

/// A step of the search.
struct Step {
    value: Value,
    /// The value before the last operation, if that is unknown.
    unshown: Option<Value>,
    /// The operations that may be the next.
    candidates: Vec<usize>,
    tried: usize,
    /// The operation that the step has appended.
    appended: Option<usize>,
}

impl<'h> Search<'h> {
    fn new(operations: Vec<&'h Operation>) -> Search<'h> {
        let (mut replied, unknown): (Vec<_>, Vec<_>) =
            operations.into_iter().partition(|operation| operation.returned.is_some());
        replied.sort_by_key(|operation| operation.invoked);
        let taken = vec![false; replied.len() + unknown.len()];
        Search { replied, unknown, taken, low: 0, visited: HashSet::new() }
    }

    fn run(mut self) -> Result<(), Refusal> {
        let mut furthest = 0;
        let mut steps = vec![self.step(None, None, None)];
        while self.low < self.replied.len() {
            furthest = furthest.max(self.low);
            let Some(step) = steps.last_mut() else {
                let blocked = self.replied[furthest].clone();
                return Err(Refusal::NotLinearizable { blocked });
            };
            let Some(&next) = step.candidates.get(step.tried) else {
                if let Some(appended) = step.appended {
                    self.drop(appended);
                }
                steps.pop();
                continue;
            };
            step.tried += 1;
            let operation = self.operation(next);
            let Some(value) = operation.after(step.value) else { continue };
            if step.unshown.is_some_and(|before| operation.after(before) == Some(value)) {
                continue;
            }
            let unshown = operation.returned.is_none().then_some(step.value);
            self.append(next);
            if self.visited.insert(self.visit(value, unshown)) {
                steps.push(self.step(value, unshown, Some(next)));
            } else {
                self.drop(next);
            }
            if self.visited.len() > VISITS_MAX {
                return Err(Refusal::Undecided { key: operation.key });
            }
        }
        Ok(())
    }

    fn append(&mut self, number: usize) {
        self.taken[number] = true;
        while self.low < self.replied.len() && self.taken[self.low] {
            self.low += 1;
        }
    }

    /// Drops the last operation of the order.
    fn drop(&mut self, number: usize) {
        self.taken[number] = false;
        self.low = self.low.min(number);
    }

    fn operation(&self, number: usize) -> &'h Operation {
        let unknown = || self.unknown[number - self.replied.len()];
        self.replied.get(number).copied().unwrap_or_else(unknown)
    }

    /// Returns the step after an operation. A candidate is called before any remaining operation
    /// has returned.
    fn step(&self, value: Value, unshown: Option<Value>, appended: Option<usize>) -> Step {
        let mut first_return = u64::MAX;
        let mut candidates = Vec::new();
        for number in self.low..self.replied.len() {
            let operation = self.replied[number];
            if operation.invoked > first_return {
                break;
            }
            if !self.taken[number] {
                let (returned, _) = operation.returned.expect("a replied operation");
                first_return = first_return.min(returned);
                candidates.push(number);
            }
        }
        let unknown = (self.replied.len()..self.taken.len()).filter(|&number| !self.taken[number]);
        candidates.extend(unknown);
        candidates.retain(|&number| self.operation(number).invoked <= first_return);
        Step { value, unshown, candidates, tried: 0, appended }
    }

    fn visit(&self, value: Value, unshown: Option<Value>) -> Visit {
        let replied = self.low..self.replied.len();
        // A candidate was called before the operation at `low` had returned. Later ones are not in
        // the order.
        let end = self.replied.get(self.low).and_then(|operation| operation.returned);
        let (end, _) = end.unwrap_or_default();
        let replied = replied.take_while(|&number| self.replied[number].invoked <= end);
        let unknown = self.replied.len()..self.taken.len();
        let others = replied.chain(unknown).filter(|&number| self.taken[number]).collect();
        Visit { value, unshown, low: self.low, others }
    }
}
