//! The committed transactions of a run: the oracle's side of a power failure.

use crate::machine::when::Time;

/// A transaction that committed or was about to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The core.
    pub core: usize,
    /// When its body ended; earlier, it must not be durable.
    pub ends: Time,
    /// When it was acknowledged; from then on, it must be durable. [`crate::machine::when::NEVER`]
    /// when the run ended earlier.
    pub acknowledged: Time,
    /// The numbers and final values of the words that it wrote.
    pub words: Vec<(u64, u64)>,
}

/// All transactions in the order of acknowledgement, followed by unacknowledged ones.
#[derive(Clone, Debug, Default)]
pub struct History {
    transactions: Vec<Transaction>,
}

impl History {
    /// Appends a transaction.
    pub fn push(&mut self, transaction: Transaction) {
        self.transactions.push(transaction);
    }

    /// Returns all transactions.
    pub fn transactions(&self) -> &[Transaction] {
        &self.transactions
    }
}
