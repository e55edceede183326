//! The violations that the explorer reports.

use std::fmt;

/// A violated promise.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// An acknowledged transaction is lost.
    Lost {
        /// The last transaction that is present.
        found: u64,
        /// The last transaction acknowledged, or shown by an earlier recovery.
        acknowledged: u64,
    },
    /// A transaction is present that was never run.
    Invented {
        /// The last transaction that is present.
        found: u64,
        /// The last transaction that was committed.
        committed: u64,
    },
    /// The heap differs from the writes of the transactions that are present.
    Torn {
        /// The last transaction that is present.
        found: u64,
        /// The first word that differs.
        word: usize,
        /// Its expected value.
        expected: u64,
        /// Its value.
        value: u64,
    },
    /// The pool cannot be opened, or not created.
    Refused {
        /// The error's text.
        error: String,
    },
    /// A pool that was created is missing.
    Vanished,
    /// An operation fails without a fault.
    Failed {
        /// The operation.
        operation: &'static str,
        /// The error's text.
        error: String,
    },
    /// A committed transaction never becomes durable.
    Stalled {
        /// The last transaction that is durable.
        durable: u64,
        /// The awaited transaction.
        awaited: u64,
    },
    /// `reproduced <= durable <= committed` does not hold.
    Order {
        /// The reproduced, durable and committed ID.
        ids: [u64; 3],
    },
    /// The allocator's check has found damage.
    Heap {
        /// Its text.
        damage: String,
    },
    /// The workload's check has found damage.
    Workload {
        /// Its text.
        wrong: String,
    },
    /// The program panicked.
    Panic {
        /// The panic message.
        message: String,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Lost { found, acknowledged } => {
                write!(f, "lost: {acknowledged} was acknowledged, the last recovered is {found}")
            }
            Violation::Invented { found, committed } => {
                write!(f, "invented: {found} was recovered, the last committed is {committed}")
            }
            Violation::Torn { found, word, expected, value } => {
                write!(f, "torn: after transaction {found} word {word} is {value:#x},")?;
                write!(f, " expected {expected:#x}")
            }
            Violation::Refused { error } => write!(f, "refused: {error}"),
            Violation::Vanished => f.write_str("vanished: the pool that was created is missing"),
            Violation::Failed { operation, error } => write!(f, "failed: {operation}: {error}"),
            Violation::Stalled { durable, awaited } => {
                write!(f, "stalled: {awaited} is awaited, but durability stays at {durable}")
            }
            Violation::Order { ids: [reproduced, durable, committed] } => {
                write!(f, "order: reproduced {reproduced}, durable {durable}, ")?;
                write!(f, "committed {committed}")
            }
            Violation::Heap { damage } => write!(f, "heap: {damage}"),
            Violation::Workload { wrong } => write!(f, "workload: {wrong}"),
            Violation::Panic { message } => write!(f, "panic: {message}"),
        }
    }
}
