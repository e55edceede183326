//! Whether a history of transactions is serializable in the order of its IDs.
//!
//! The IDs of transactions that wrote are dense. Replaying their writes in that order gives the
//! states that a serial execution has gone through, one behind each ID, and:
//! - the last state is the heap's;
//! - a transaction that committed read what stands in the state before its ID;
//! - one that only read, or that was rolled back, read what stands in the state of the ID that it
//!   names: one moment, however it ended (opacity).

/// What one attempt did.
#[derive(Clone, Debug, Default)]
pub struct Attempt {
    /// What it drew; 0 when it drew none.
    pub id: u64,
    /// The state that it read: the ID before its own when it committed writes, else what it named.
    pub saw: u64,
    /// Word and value, as they stood before its own writes.
    pub reads: Vec<(usize, u64)>,
    /// Word and value, as its record has them; empty for a hole.
    pub writes: Vec<(usize, u64)>,
}

/// Checks a history against the heap that it has left, which began as zeros.
///
/// # Panics
/// When the history is not serializable in the order of its IDs; the message says "history".
pub fn check(history: &[Attempt], heap: &[u64]) {
    let mut drawn: Vec<&Attempt> = history.iter().filter(|attempt| attempt.id > 0).collect();
    drawn.sort_by_key(|attempt| attempt.id);
    let dense = drawn.iter().map(|attempt| attempt.id).eq(1..=drawn.len() as u64);
    assert!(dense, "history: IDs are missing or drawn twice: {drawn:?}");
    let mut state = vec![0; heap.len()];
    let mut states = vec![state.clone()];
    for attempt in drawn {
        for &(word, value) in &attempt.writes {
            state[word] = value;
        }
        states.push(state.clone());
    }
    assert_eq!(state, heap, "history: replayed in ID order it gives another heap");
    for attempt in history {
        let seen = &states[attempt.saw as usize];
        let holds = attempt.reads.iter().all(|&(word, value)| seen[word] == value);
        assert!(holds, "history: {attempt:?} read what stands in no state {seen:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(id: u64, saw: u64, read: (usize, u64), write: (usize, u64)) -> Attempt {
        Attempt { id, saw, reads: vec![read], writes: vec![write] }
    }

    #[test]
    fn a_serial_history_passes() {
        let reader = Attempt { saw: 1, reads: vec![(0, 1), (1, 0)], ..Attempt::default() };
        let hole = Attempt { id: 2, ..Attempt::default() };
        check(
            &[attempt(3, 2, (0, 1), (1, 5)), hole, reader, attempt(1, 0, (1, 0), (0, 1))],
            &[1, 5],
        );
    }

    #[test]
    #[should_panic(expected = "read what stands in no state")]
    fn write_skew_is_noticed() {
        check(&[attempt(1, 0, (0, 0), (1, 1)), attempt(2, 1, (1, 0), (0, 1))], &[1, 1]);
    }

    #[test]
    #[should_panic(expected = "missing")]
    fn a_missing_id_is_noticed() {
        check(&[attempt(2, 1, (0, 0), (1, 1))], &[0, 1]);
    }

    #[test]
    #[should_panic(expected = "another heap")]
    fn a_lost_record_is_noticed() {
        check(&[attempt(1, 0, (0, 0), (1, 1))], &[0, 2]);
    }
}
