//! The oracle: the states that transactions have made, and which of them a crash may leave.
//!
//! The explorer runs one transaction after another, so the state after each is fully known: it is
//! copied when the transaction has committed. Recovery must show one of these states, no older than
//! the last one acknowledged or shown before. This verifies three facts at once: transactions are
//! atomic, the surviving ones are a prefix of the commit order, and their replay is correct. The
//! comparison includes the allocator's words.
//!
//! Where each worker commits its own transactions in groups, the surviving ones need not be a
//! prefix of the commit order; `apart` has the rules. Where transactions run concurrently,
//! [`history`] checks their reads.
//!
//! A transaction that meets a full heap makes the pool reclaim memory, in transactions that the
//! explorer does not see. `reclaim` repeats them on a copy of the words.
//!
//! A design that isolates objects keeps its own words beside them, and a crash may leave any value
//! there. In memory that is not used any more, nothing shows which words these were. Where a
//! workload frees memory under such a design, `meaning` compares their meaning.

mod apart;
pub mod history;
mod meaning;
mod reclaim;
mod words;

use crate::Violation;

pub(crate) use words::Words;

/// A committed transaction that is not known to be lost, and the state after it.
#[derive(Clone, Debug)]
struct State {
    id: u64,
    worker: usize,
    words: Words,
    /// The states after the transactions between the state before and this one, of which some may
    /// have committed: those that have reclaimed memory.
    between: Vec<Words>,
}

impl State {
    fn new(id: u64, worker: usize, words: Words) -> State {
        State { id, worker, words, between: Vec::new() }
    }
}

/// The number of survivors among transactions committed and not acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    /// Surviving transactions.
    pub(crate) there: usize,
    /// Their number before the crash.
    pub(crate) of: usize,
}

/// The states that recovery may show.
#[derive(Clone, Debug)]
pub(crate) struct States {
    /// In order. The first is the initial state, or the last one shown.
    states: Vec<State>,
    /// The states that the transactions after the last one may have made by reclaiming memory.
    unseen: Vec<Words>,
    /// Whether states are equal that mean the same.
    by_meaning: bool,
    /// Whether a crash may lose the last groups of each worker separately.
    apart: bool,
    /// The last transaction that was acknowledged, or shown by a recovery.
    acknowledged: u64,
    /// The last ID that was assigned.
    committed: u64,
}

impl States {
    /// Makes the oracle of an initial state.
    pub(crate) fn new(id: u64, words: Words) -> States {
        let (states, unseen) = (vec![State::new(id, 0, words)], Vec::new());
        let (apart, by_meaning) = (false, false);
        States { states, unseen, by_meaning, apart, acknowledged: id, committed: id }
    }

    /// Compares states from now on by their meaning, if `is_so`.
    pub(crate) fn by_meaning(mut self, is_so: bool) -> States {
        self.by_meaning = is_so;
        self
    }

    /// Returns the first word by which two states differ.
    pub(crate) fn first_difference(&self, a: &Words, b: &Words) -> Option<usize> {
        let differs = a.differences(b).next()?;
        if self.by_meaning { meaning::difference(&a.to_vec(), &b.to_vec()) } else { Some(differs) }
    }

    /// Returns the words of the last state.
    pub(crate) fn last_words(&self) -> &Words {
        &self.states.last().expect("the initial state stays").words
    }

    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Returns the last ID that was assigned.
    pub(crate) fn committed(&self) -> u64 {
        self.committed
    }

    /// Notes that this ID has committed; `words` returns the state after it, if it is a new ID.
    pub(crate) fn commit(&mut self, id: u64, words: impl FnOnce() -> Words) {
        if id > self.committed {
            self.committed = id;
            self.states.push(State::new(id, 0, words()));
        }
    }

    /// As [`commit`](States::commit), where transactions of one group may share an ID: `words`
    /// returns the state after the last of them.
    pub(crate) fn commit_again(&mut self, id: u64, words: impl FnOnce() -> Words) {
        if id == self.committed && id > self.acknowledged {
            let before = self.states.pop_if(|last| last.id == id);
            self.committed = id - 1;
            self.commit(id, words);
            if let (Some(before), Some(last)) = (before, self.states.last_mut()) {
                last.between = before.between;
            }
            return;
        }
        self.commit(id, words);
    }

    /// As [`commit`](States::commit), by a worker whose transactions become durable separately
    /// from those of others.
    pub(crate) fn commit_apart(&mut self, worker: usize, id: u64, words: Words) {
        self.apart = true;
        let last = self.states.last().expect("the initial state stays");
        if words != last.words {
            self.states.push(State::new(id, worker, words));
        }
        self.committed = self.committed.max(id);
    }

    /// Notes that memory was reclaimed, up to this ID and these words.
    ///
    /// # Errors
    /// The words are not those that reclaiming makes.
    pub(crate) fn reclaimed(&mut self, id: u64, words: Words) -> Result<(), Violation> {
        let last = self.states.last().expect("the initial state stays");
        if self.first_difference(&last.words, &words).is_none() {
            return Ok(());
        }
        let mut between = reclaim::states(&last.words.to_vec());
        let is_there = |state: &Words| self.first_difference(state, &words).is_none();
        let Some(at) = between.iter().position(is_there) else {
            let wrong = "reclaiming memory has made another state than its steps".to_owned();
            return Err(Violation::Workload { wrong });
        };
        between.truncate(at);
        self.committed = self.committed.max(id);
        self.states.push(State { between, ..State::new(id, 0, words) });
        Ok(())
    }

    /// Notes that the power failed while memory was reclaimed, with this ID as the last one.
    pub(crate) fn cut_while_reclaiming(&mut self, id: u64) {
        let last = self.states.last().expect("the initial state stays");
        self.unseen = reclaim::states(&last.words.to_vec());
        self.committed = self.committed.max(id);
    }

    /// Notes that transactions up to this ID are acknowledged.
    pub(crate) fn acknowledge(&mut self, id: u64) {
        self.acknowledged = self.acknowledged.max(id);
    }

    /// Checks a recovery that shows the transactions up to this ID, and drops all later states.
    pub(crate) fn recovered(&mut self, found: u64, words: Words) -> Result<Left, Violation> {
        if found < self.acknowledged {
            return Err(Violation::Lost { found, acknowledged: self.acknowledged });
        }
        // The ends of groups are counted when they end, later than their transactions.
        if found > self.committed && !self.apart {
            return Err(Violation::Invented { found, committed: self.committed });
        }
        if self.apart {
            let left = apart::left(&self.states, self.acknowledged, found, &words)?;
            *self = States::new(found, words).by_meaning(self.by_meaning);
            return Ok(left);
        }
        // An ID without its own state was used by an abort.
        let open = |states: &[State]| states.iter().filter(|it| it.id > self.acknowledged).count();
        let of = open(&self.states);
        let later = self.states.iter().position(|state| state.id > found);
        let unseen = later.map_or(&self.unseen, |later| &self.states[later].between).clone();
        self.states.truncate(later.unwrap_or(self.states.len()));
        let left = Left { there: open(&self.states), of };
        let State { id, words: expected, .. } =
            self.states.pop().expect("the first state is never later");
        let differs = |state: &Words| self.first_difference(state, &words);
        if let Some(word) = differs(&expected)
            && !unseen.iter().any(|state| found > id && differs(state).is_none())
        {
            let (expected, value) = (expected.at(word), words.at(word));
            return Err(Violation::Torn { found, word, expected, value });
        }
        *self = States::new(found, words).by_meaning(self.by_meaning);
        Ok(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(value: u64) -> Words {
        vec![value; 4].into()
    }

    #[test]
    fn recovery_shows_a_prefix_with_all_acknowledged() {
        let mut states = States::new(10, words(0));
        states.commit(11, || words(1));
        states.commit(13, || words(3)); // 12 was an abort's
        states.acknowledge(11);
        let recovered = |found, value| states.clone().recovered(found, words(value));
        assert!(matches!(recovered(10, 0), Err(Violation::Lost { .. })));
        let left = |there| Ok(Left { there, of: 1 });
        assert_eq!(recovered(11, 1), left(0));
        assert_eq!(recovered(12, 1), left(0));
        assert_eq!(recovered(13, 3), left(1));
        assert!(matches!(recovered(13, 1), Err(Violation::Torn { word: 0, expected: 3, .. })));
        assert!(matches!(recovered(14, 3), Err(Violation::Invented { .. })));
    }

    #[test]
    fn transactions_of_one_id_survive_together() {
        let mut states = States::new(10, words(0));
        states.commit_again(11, || words(1));
        states.commit_again(11, || words(2));
        let recovered = |found, value| states.clone().recovered(found, words(value));
        assert!(recovered(10, 0).is_ok() && recovered(11, 2).is_ok());
        assert!(matches!(recovered(11, 1), Err(Violation::Torn { .. })));
        states.acknowledge(11);
        states.commit_again(11, || panic!("an acknowledged state does not change"));
    }

    #[test]
    fn recovered_state_counts_as_acknowledged() {
        let mut states = States::new(10, words(0));
        states.commit(11, || words(1));
        states.recovered(11, words(1)).unwrap();
        assert!(matches!(states.recovered(10, words(0)), Err(Violation::Lost { .. })));
    }
}
