//! The oracle: checks that a history of transactions is serializable in the order of its IDs.
//!
//! The IDs of transactions that wrote are dense. Replaying their writes in that order gives the
//! states of a serial execution, one after each ID:
//! - The last state is the heap's.
//! - A committed transaction read the state before its ID.
//! - A read-only or rolled-back transaction read the state of the ID that it reports: a consistent
//!   snapshot, however the transaction ended (opacity).

/// The reads and writes of one attempt.
#[derive(Clone, Debug, Default)]
pub struct Attempt {
    /// The assigned ID; 0 for none.
    pub id: u64,
    /// The state that it read: the ID before its own if it committed writes, else the reported ID.
    pub saw: u64,
    /// Words and values read, before its own writes to them.
    pub reads: Vec<(usize, u64)>,
    /// Words and values of its record; empty for a no-op record.
    pub writes: Vec<(usize, u64)>,
}

/// Checks a history against the final heap. The initial heap is zeros.
///
/// # Panics
/// When the history is not serializable in the order of its IDs; the message says "history".
pub fn check(history: &[Attempt], heap: &[u64]) {
    let mut assigned: Vec<&Attempt> = history.iter().filter(|attempt| attempt.id > 0).collect();
    assigned.sort_by_key(|attempt| attempt.id);
    let dense = assigned.iter().map(|attempt| attempt.id).eq(1..=assigned.len() as u64);
    assert!(dense, "history: IDs are missing or assigned twice: {assigned:?}");
    let mut state = vec![0; heap.len()];
    let mut states = vec![state.clone()];
    for attempt in assigned {
        for &(word, value) in &attempt.writes {
            state[word] = value;
        }
        states.push(state.clone());
    }
    assert_eq!(state, heap, "history: replayed in ID order it gives another heap");
    for attempt in history {
        let seen = &states[attempt.saw as usize];
        let holds = attempt.reads.iter().all(|&(word, value)| seen[word] == value);
        assert!(holds, "history: {attempt:?} read a value that is not in its state {seen:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(id: u64, saw: u64, read: (usize, u64), write: (usize, u64)) -> Attempt {
        Attempt { id, saw, reads: vec![read], writes: vec![write] }
    }

    #[test]
    fn serial_history_passes() {
        let reader = Attempt { saw: 1, reads: vec![(0, 1), (1, 0)], ..Attempt::default() };
        let no_op = Attempt { id: 2, ..Attempt::default() };
        check(
            &[attempt(3, 2, (0, 1), (1, 5)), no_op, reader, attempt(1, 0, (1, 0), (0, 1))],
            &[1, 5],
        );
    }

    #[test]
    #[should_panic(expected = "read a value that is not in its state")]
    fn write_skew_is_detected() {
        check(&[attempt(1, 0, (0, 0), (1, 1)), attempt(2, 1, (1, 0), (0, 1))], &[1, 1]);
    }

    #[test]
    #[should_panic(expected = "missing")]
    fn missing_id_is_detected() {
        check(&[attempt(2, 1, (0, 0), (1, 1))], &[0, 1]);
    }

    #[test]
    #[should_panic(expected = "another heap")]
    fn lost_record_is_detected() {
        check(&[attempt(1, 0, (0, 0), (1, 1))], &[0, 2]);
    }
}
