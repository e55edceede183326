//! What must not happen.

use std::fmt;

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// An acknowledged transaction is gone.
    Lost {
        /// The last transaction that is there.
        found: u64,
        /// The last one that was acknowledged, or shown by an earlier recovery.
        acknowledged: u64,
    },
    /// A transaction is there that was never run.
    Invented {
        /// The last transaction that is there.
        found: u64,
        /// The last one that was committed.
        committed: u64,
    },
    /// The heap is not what the transactions up to the last one that is there have made of it.
    Torn {
        /// The last transaction that is there.
        found: u64,
        /// The first word that differs.
        word: usize,
        /// What it must be.
        expected: u64,
        /// What it is.
        value: u64,
    },
    /// The pool cannot be opened, or not made.
    Refused {
        /// What it says.
        error: String,
    },
    /// A pool that was made is gone.
    Vanished,
    /// An operation fails although nothing has gone wrong.
    Failed {
        /// Which.
        operation: &'static str,
        /// What it says.
        error: String,
    },
    /// What is committed never becomes durable.
    Stalled {
        /// The last transaction that is durable.
        durable: u64,
        /// The one that is waited for.
        awaited: u64,
    },
    /// `reproduced <= durable <= committed` does not hold.
    Order {
        /// The reproduced, durable and committed ID.
        ids: [u64; 3],
    },
    /// The allocator's check has found damage.
    Heap {
        /// What it says.
        damage: String,
    },
    /// The workload's own check has.
    Workload {
        /// What it says.
        wrong: String,
    },
    /// The program panicked.
    Panic {
        /// What it said.
        message: String,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Lost { found, acknowledged } => {
                write!(
                    f,
                    "lost: {acknowledged} was acknowledged, the last that is there is {found}"
                )
            }
            Violation::Invented { found, committed } => {
                write!(f, "invented: {found} is there, the last that was committed is {committed}")
            }
            Violation::Torn { found, word, expected, value } => {
                write!(f, "torn: after transaction {found} word {word} must be {expected:#x}")?;
                write!(f, " and is {value:#x}")
            }
            Violation::Refused { error } => write!(f, "refused: {error}"),
            Violation::Vanished => f.write_str("vanished: the pool that was made is not there"),
            Violation::Failed { operation, error } => write!(f, "failed: {operation}: {error}"),
            Violation::Stalled { durable, awaited } => {
                write!(f, "stalled: {awaited} is waited for, and nothing happens at {durable}")
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
