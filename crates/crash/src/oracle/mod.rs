//! What must be true: the states that transactions have made, and which of them a crash may leave.
//!
//! The explorer runs one transaction after the other, so the state behind each is known to the
//! last word: it is copied when the transaction has committed. What a recovery shows must be one of
//! these states, no older than what was acknowledged or shown before. That says at once that
//! transactions are whole, that those which are there are a prefix of the commit order, and that
//! they were replayed rightly; the allocator's words are among the words that are compared.
//!
//! Where each worker commits its own transactions in groups, what is left need not be a prefix of
//! the commit order: `apart` says what else it may be.
//!
//! Where transactions run at the same time, [`history`] judges what they have read.

mod apart;
pub mod history;

use std::sync::Arc;

use crate::Violation;

/// The words of a heap.
pub(crate) type Words = Arc<Vec<u64>>;

/// A committed transaction that is not known to be lost, and the state behind it.
#[derive(Clone, Debug)]
struct State {
    id: u64,
    worker: usize,
    words: Words,
}

/// What a recovery has found of what was committed and not acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    /// Transactions that are there.
    pub(crate) there: usize,
    /// Of so many.
    pub(crate) of: usize,
}

/// The states that may be there.
#[derive(Clone, Debug)]
pub(crate) struct States {
    /// In order. The first is what was last shown, or there from the beginning.
    states: Vec<State>,
    /// A crash may take any worker's last ones.
    apart: bool,
    /// The last transaction that was acknowledged, or shown by a recovery.
    acknowledged: u64,
    /// The last ID that was drawn.
    committed: u64,
}

impl States {
    /// What there is at first: nothing but this.
    pub(crate) fn new(id: u64, words: Words) -> States {
        let states = vec![State { id, worker: 0, words }];
        States { states, apart: false, acknowledged: id, committed: id }
    }

    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// The last ID that was drawn.
    pub(crate) fn committed(&self) -> u64 {
        self.committed
    }

    /// Committed up to this ID; if that is a later one than before, this is the state behind it.
    pub(crate) fn commit(&mut self, id: u64, words: impl FnOnce() -> Words) {
        if id > self.committed {
            self.committed = id;
            self.states.push(State { id, worker: 0, words: words() });
        }
    }

    /// As [`commit`](States::commit), where transactions that are durable together may have one ID:
    /// this is the state behind the last of them.
    pub(crate) fn commit_again(&mut self, id: u64, words: impl FnOnce() -> Words) {
        if id == self.committed && id > self.acknowledged {
            self.states.pop_if(|last| last.id == id);
            self.committed = id - 1;
        }
        self.commit(id, words);
    }

    /// As [`commit`](States::commit), by a worker whose transactions are durable apart from those
    /// of others.
    pub(crate) fn commit_apart(&mut self, worker: usize, id: u64, words: Words) {
        self.apart = true;
        let last = self.states.last().expect("there is always a first");
        if words != last.words {
            self.states.push(State { id, worker, words });
        }
        self.committed = self.committed.max(id);
    }

    /// Acknowledged up to this ID.
    pub(crate) fn acknowledge(&mut self, id: u64) {
        self.acknowledged = self.acknowledged.max(id);
    }

    /// A recovery shows the transactions up to this ID. What came after never happened.
    pub(crate) fn recovered(
        &mut self,
        found: u64,
        words: impl Iterator<Item = u64>,
    ) -> Result<Left, Violation> {
        if found < self.acknowledged {
            return Err(Violation::Lost { found, acknowledged: self.acknowledged });
        }
        // The ends of groups are counted when they end: later than their transactions.
        if found > self.committed && !self.apart {
            return Err(Violation::Invented { found, committed: self.committed });
        }
        if self.apart {
            let words: Words = Arc::new(words.collect());
            let left = apart::left(&self.states, self.acknowledged, found, &words)?;
            *self = States::new(found, words);
            return Ok(left);
        }
        // An ID without a state of its own is one that an abort has used up.
        let open = |states: &[State]| states.iter().filter(|it| it.id > self.acknowledged).count();
        let of = open(&self.states);
        self.states.retain(|state| state.id <= found);
        let left = Left { there: open(&self.states), of };
        let expected = self.states.pop().expect("the first is never later than that").words;
        let mut both = expected.iter().zip(words).enumerate();
        if let Some((word, (&expected, value))) = both.find(|(_, (a, b))| *a != b) {
            return Err(Violation::Torn { found, word, expected, value });
        }
        *self = States::new(found, expected);
        Ok(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(value: u64) -> Words {
        Arc::new(vec![value; 4])
    }

    #[test]
    fn a_prefix_from_what_was_acknowledged_on_may_be_there_and_nothing_else() {
        let mut states = States::new(10, words(0));
        states.commit(11, || words(1));
        states.commit(13, || words(3)); // 12 was an abort's
        states.acknowledge(11);
        let recovered =
            |found, value| states.clone().recovered(found, words(value).iter().copied());
        assert!(matches!(recovered(10, 0), Err(Violation::Lost { .. })));
        let left = |there| Ok(Left { there, of: 1 });
        assert_eq!(recovered(11, 1), left(0));
        assert_eq!(recovered(12, 1), left(0));
        assert_eq!(recovered(13, 3), left(1));
        assert!(matches!(recovered(13, 1), Err(Violation::Torn { word: 0, expected: 3, .. })));
        assert!(matches!(recovered(14, 3), Err(Violation::Invented { .. })));
    }

    #[test]
    fn transactions_of_one_id_are_there_together() {
        let mut states = States::new(10, words(0));
        states.commit_again(11, || words(1));
        states.commit_again(11, || words(2));
        let recovered =
            |found, value| states.clone().recovered(found, words(value).iter().copied());
        assert!(recovered(10, 0).is_ok() && recovered(11, 2).is_ok());
        assert!(matches!(recovered(11, 1), Err(Violation::Torn { .. })));
        states.acknowledge(11);
        states.commit_again(11, || panic!("what is acknowledged does not change"));
    }

    #[test]
    fn what_a_recovery_has_shown_is_acknowledged() {
        let mut states = States::new(10, words(0));
        states.commit(11, || words(1));
        states.recovered(11, words(1).iter().copied()).unwrap();
        assert!(matches!(
            states.recovered(10, words(0).iter().copied()),
            Err(Violation::Lost { .. })
        ));
    }
}
