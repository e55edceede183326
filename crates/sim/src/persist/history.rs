//! What the program has done: the oracle's side of a power cut.

use crate::machine::when::Time;

/// A transaction that was committed, or tried to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Which core's.
    pub core: usize,
    /// Its body was over: before that it may not be durable.
    pub ends: Time,
    /// It was acknowledged: from then on it must be. [`crate::machine::when::NEVER`] when the run
    /// ended before.
    pub acknowledged: Time,
    /// The words that it left, each once, by number.
    pub words: Vec<(u64, u64)>,
}

/// All transactions, in the order in which they were acknowledged; those that were not come last.
#[derive(Clone, Debug, Default)]
pub struct History {
    transactions: Vec<Transaction>,
}

impl History {
    /// One more.
    pub fn push(&mut self, transaction: Transaction) {
        self.transactions.push(transaction);
    }

    /// All of them.
    pub fn transactions(&self) -> &[Transaction] {
        &self.transactions
    }
}
