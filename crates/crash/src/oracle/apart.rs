//! What a crash may leave where each worker's transactions are made durable by themselves, some of
//! them at a time.
//!
//! ```text
//!   worker 0   a1   a2 | a3        each worker's first ones, as many as there are of it
//!   worker 1   b1 | b2             what was acknowledged is there
//!                                  who has overwritten another is there with that one
//!   heap       what was there before, and what these have written, in the order of their commits
//! ```
//!
//! All such sets are tried. Transactions of a worker with one ID are of one group, and there
//! together: no time was drawn between them. That a set is closed under what was written is checked
//! here, word by word; that it is under what was read is for the workload's own check.

use std::collections::BTreeMap;

use super::{Left, State, Words};
use crate::Violation;

/// What transactions have written: words and their values.
type Writes = BTreeMap<usize, u64>;

/// What is there of these transactions, the first of which is the state before them.
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
        // IDs go on above all that are there.
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
            Err(Violation::Torn { found, word, expected, value: words[word] })
        }
    }
}

/// What a transaction has written, between two states.
fn written(before: &State, after: &State) -> Writes {
    let both = before.words.iter().zip(after.words.iter()).enumerate();
    both.filter(|(_, (before, after))| before != after).map(|(at, (_, &word))| (at, word)).collect()
}

/// All sets that have of each worker its first groups.
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

/// Whether who has written a word is there only with all who had written it before.
fn is_closed(set: &[bool], writes: &[Writes]) -> bool {
    (0..set.len()).filter(|&later| set[later]).all(|later| {
        let meets = |earlier: &Writes| writes[later].keys().any(|word| earlier.contains_key(word));
        (0..later).all(|earlier| set[earlier] || !meets(&writes[earlier]))
    })
}

/// The first word that is not what these transactions have made of it, and what that is.
fn first_wrong(
    set: &[bool],
    writes: &[Writes],
    before: &Words,
    words: &Words,
) -> Option<(usize, u64)> {
    let these = writes.iter().zip(set).filter(|(_, is_in)| **is_in);
    let made: BTreeMap<usize, u64> =
        these.flat_map(|(writes, _)| writes).map(|(&a, &b)| (a, b)).collect();
    let expected = |at: usize| made.get(&at).copied().unwrap_or(before[at]);
    (0..before.len()).find(|&at| words[at] != expected(at)).map(|at| (at, expected(at)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// The states behind transactions, each of a worker, that write one word of four each.
    fn states(writes: &[(usize, usize, u64)]) -> Vec<State> {
        let mut words = vec![0; 4];
        let mut states = vec![State { id: 10, worker: 0, words: Arc::new(words.clone()) }];
        for (id, &(worker, word, value)) in (11..).zip(writes) {
            words[word] = value;
            states.push(State { id, worker, words: Arc::new(words.clone()) });
        }
        states
    }

    fn judge(
        writes: &[(usize, usize, u64)],
        acknowledged: u64,
        words: [u64; 4],
    ) -> Result<Left, Violation> {
        left(&states(writes), acknowledged, 13, &Arc::new(words.to_vec()))
    }

    #[test]
    fn each_worker_may_lose_its_last_ones() {
        let writes = [(0, 0, 1), (1, 1, 2), (0, 2, 3)];
        let left = |there| Ok(Left { there, of: 3 });
        assert_eq!(judge(&writes, 10, [0; 4]), left(0));
        assert_eq!(judge(&writes, 10, [1, 0, 3, 0]), left(2));
        assert_eq!(judge(&writes, 10, [0, 2, 0, 0]), left(1));
        assert_eq!(judge(&writes, 10, [1, 2, 3, 0]), left(3));
        // Not the first one's second without its first.
        assert!(matches!(judge(&writes, 10, [0, 0, 3, 0]), Err(Violation::Torn { word: 0, .. })));
        // Nor anything that nobody wrote.
        assert!(matches!(judge(&writes, 10, [1, 2, 3, 4]), Err(Violation::Torn { word: 3, .. })));
    }

    #[test]
    fn a_group_is_there_whole_or_not_at_all_and_below_what_is_said_to_be_there() {
        let mut states = states(&[(0, 0, 1), (1, 1, 2), (0, 2, 3)]);
        states.iter_mut().skip(1).for_each(|state| state.id = 11);
        let judge = |found, words: [u64; 4]| left(&states, 10, found, &Arc::new(words.to_vec()));
        assert_eq!(judge(11, [1, 0, 3, 0]), Ok(Left { there: 2, of: 3 }));
        assert_eq!(judge(11, [0, 2, 0, 0]), Ok(Left { there: 1, of: 3 }));
        assert!(matches!(judge(11, [1, 0, 0, 0]), Err(Violation::Torn { .. })));
        assert!(matches!(judge(10, [0, 2, 0, 0]), Err(Violation::Torn { .. })));
    }

    #[test]
    fn what_was_acknowledged_is_there_whoever_it_is_of() {
        let writes = [(0, 0, 1), (1, 1, 2), (0, 2, 3)];
        assert!(matches!(judge(&writes, 12, [1, 0, 3, 0]), Err(Violation::Lost { .. })));
        assert_eq!(judge(&writes, 12, [1, 2, 0, 0]), Ok(Left { there: 0, of: 1 }));
    }

    #[test]
    fn who_has_overwritten_is_there_with_what_was_overwritten() {
        // The second writes what the first wrote, and then something else.
        let writes = [(0, 0, 1), (1, 0, 2), (1, 2, 3), (0, 1, 4)];
        assert_eq!(judge(&writes, 10, [2, 0, 3, 0]), Ok(Left { there: 3, of: 4 }));
        // As if the second had been replayed, and the first behind it.
        assert!(matches!(judge(&writes, 10, [1, 0, 3, 0]), Err(Violation::Torn { .. })));
        // The second is gone, and what its worker did behind it is not.
        assert!(matches!(judge(&writes, 10, [0, 0, 3, 0]), Err(Violation::Torn { .. })));
    }
}
