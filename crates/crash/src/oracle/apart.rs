//! The states that a crash may leave where each worker makes its own transactions durable, in
//! groups.
//!
//! ```text
//!   worker 0   a1   a2 | a3        a prefix of each worker's groups
//!   worker 1   b1 | b2             all acknowledged ones are present
//!                                  with a transaction, those that it has overwritten are present
//!   heap       the state before, and the writes of these, in commit order
//! ```
//!
//! The oracle tries all such sets. Transactions of a worker with one ID are of one group, and are
//! present together, since no timestamp was assigned between them. This module checks, word by
//! word, that a set is closed under overwritten writes. The workload's own check covers reads.

use std::collections::BTreeMap;

use super::{Left, State, Words};
use crate::Violation;

/// The writes of transactions: words and their values.
type Writes = BTreeMap<usize, u64>;

/// Finds which of these transactions are present; the first entry is the state before them.
pub(super) fn left(
    states: &[State],
    acknowledged: u64,
    found: u64,
    words: &Words,
) -> Result<Left, Violation> {
    let writes: Vec<Writes> = states.windows(2).map(|two| written(&two[0], &two[1])).collect();
    let before = &states[0].words;
    let made = &states[1..];
    let (mut lost, mut best) = (false, None);
    for set in sets(made) {
        // New IDs are above all that are present.
        let is_known = made.iter().zip(&set).all(|(state, is_in)| !is_in || state.id <= found);
        if !is_known
            || !is_closed(&set, &writes)
            || first_wrong(&set, &writes, before, words).is_some()
        {
            continue;
        }
        if made.iter().zip(&set).any(|(state, is_in)| state.id <= acknowledged && !is_in) {
            lost = true;
            continue;
        }
        best = best.max(Some(set.iter().filter(|is_in| **is_in).count()));
    }
    let sure = made.iter().filter(|state| state.id <= acknowledged).count();
    match best {
        Some(there) => Ok(Left { there: there - sure, of: made.len() - sure }),
        None if lost => Err(Violation::Lost { found, acknowledged }),
        None => {
            let all = vec![true; made.len()];
            let (word, expected) = first_wrong(&all, &writes, before, words).unwrap_or_default();
            Err(Violation::Torn { found, word, expected, value: words.at(word) })
        }
    }
}

/// Returns the writes of a transaction, from the states before and after it.
fn written(before: &State, after: &State) -> Writes {
    before.words.differences(&after.words).map(|at| (at, after.words.at(at))).collect()
}

/// Returns all sets with a prefix of each worker's groups.
fn sets(made: &[State]) -> Vec<Vec<bool>> {
    let mut workers: Vec<usize> = made.iter().map(|state| state.worker).collect();
    workers.sort_unstable();
    workers.dedup();
    let mut sets = vec![vec![false; made.len()]];
    for worker in workers {
        let before = sets.clone();
        let mut more = Vec::new();
        for (at, _) in made.iter().enumerate().filter(|(_, state)| state.worker == worker) {
            more.push(at);
            let behind = made[at + 1..].iter().find(|state| state.worker == worker);
            if behind.is_some_and(|state| state.id == made[at].id) {
                continue;
            }
            sets.extend(before.iter().map(|set| {
                let mut set = set.clone();
                more.iter().for_each(|&at| set[at] = true);
                set
            }));
        }
    }
    sets
}

/// Returns whether every last writer of a word is present only with all earlier writers.
fn is_closed(set: &[bool], writes: &[Writes]) -> bool {
    (0..set.len()).filter(|&later| set[later]).all(|later| {
        let meets = |earlier: &Writes| writes[later].keys().any(|word| earlier.contains_key(word));
        (0..later).all(|earlier| set[earlier] || !meets(&writes[earlier]))
    })
}

/// Returns the first word that differs from the writes of these transactions, and its expected
/// value.
fn first_wrong(
    set: &[bool],
    writes: &[Writes],
    before: &Words,
    words: &Words,
) -> Option<(usize, u64)> {
    let these = writes.iter().zip(set).filter(|(_, is_in)| **is_in);
    let made: BTreeMap<usize, u64> =
        these.flat_map(|(writes, _)| writes).map(|(&a, &b)| (a, b)).collect();
    let expected = |at: usize| made.get(&at).copied().unwrap_or_else(|| before.at(at));
    // All others are the same words before and now.
    let changed = made.keys().copied().chain(before.differences(words));
    changed.filter(|&at| words.at(at) != expected(at)).min().map(|at| (at, expected(at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the states after transactions, each of a worker, that write one word of four each.
    fn states(writes: &[(usize, usize, u64)]) -> Vec<State> {
        let mut words = vec![0; 4];
        let mut states = vec![State::new(10, 0, words.clone().into())];
        for (id, &(worker, word, value)) in (11..).zip(writes) {
            words[word] = value;
            states.push(State::new(id, worker, words.clone().into()));
        }
        states
    }

    fn judge(
        writes: &[(usize, usize, u64)],
        acknowledged: u64,
        words: [u64; 4],
    ) -> Result<Left, Violation> {
        left(&states(writes), acknowledged, 13, &words.to_vec().into())
    }

    #[test]
    fn crash_may_lose_each_workers_last_groups() {
        let writes = [(0, 0, 1), (1, 1, 2), (0, 2, 3)];
        let left = |there| Ok(Left { there, of: 3 });
        assert_eq!(judge(&writes, 10, [0; 4]), left(0));
        assert_eq!(judge(&writes, 10, [1, 0, 3, 0]), left(2));
        assert_eq!(judge(&writes, 10, [0, 2, 0, 0]), left(1));
        assert_eq!(judge(&writes, 10, [1, 2, 3, 0]), left(3));
        // Not the first worker's second transaction without its first.
        assert!(matches!(judge(&writes, 10, [0, 0, 3, 0]), Err(Violation::Torn { word: 0, .. })));
        // Nor a value without a writer.
        assert!(matches!(judge(&writes, 10, [1, 2, 3, 4]), Err(Violation::Torn { word: 3, .. })));
    }

    #[test]
    fn group_is_recovered_whole_or_not_at_all() {
        let mut states = states(&[(0, 0, 1), (1, 1, 2), (0, 2, 3)]);
        states.iter_mut().skip(1).for_each(|state| state.id = 11);
        let judge = |found, words: [u64; 4]| left(&states, 10, found, &words.to_vec().into());
        assert_eq!(judge(11, [1, 0, 3, 0]), Ok(Left { there: 2, of: 3 }));
        assert_eq!(judge(11, [0, 2, 0, 0]), Ok(Left { there: 1, of: 3 }));
        assert!(matches!(judge(11, [1, 0, 0, 0]), Err(Violation::Torn { .. })));
        assert!(matches!(judge(10, [0, 2, 0, 0]), Err(Violation::Torn { .. })));
    }

    #[test]
    fn acknowledged_transaction_of_any_worker_survives() {
        let writes = [(0, 0, 1), (1, 1, 2), (0, 2, 3)];
        assert!(matches!(judge(&writes, 12, [1, 0, 3, 0]), Err(Violation::Lost { .. })));
        assert_eq!(judge(&writes, 12, [1, 2, 0, 0]), Ok(Left { there: 0, of: 1 }));
    }

    #[test]
    fn overwriting_transaction_needs_the_overwritten_one() {
        // The second overwrites the first's word, and writes another.
        let writes = [(0, 0, 1), (1, 0, 2), (1, 2, 3), (0, 1, 4)];
        assert_eq!(judge(&writes, 10, [2, 0, 3, 0]), Ok(Left { there: 3, of: 4 }));
        // As if the second had been replayed before the first.
        assert!(matches!(judge(&writes, 10, [1, 0, 3, 0]), Err(Violation::Torn { .. })));
        // The second is lost, but its worker's next transaction is not.
        assert!(matches!(judge(&writes, 10, [0, 0, 3, 0]), Err(Violation::Torn { .. })));
    }
}
