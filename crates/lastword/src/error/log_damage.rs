//! The damage of a log.

use std::fmt;

use words::TxId;

/// The reason why a log is refused. The error with it has the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogDamage {
    /// An intact group or record that no crash leaves there.
    Unexpected,
    /// The log ends there, and witnesses say that more was durable.
    EndLost {
        /// The first transaction that is missing.
        first: TxId,
        /// The last one.
        last: TxId,
    },
    /// A record of a slot is missing there, and a later record proves that it was durable.
    RecordLost {
        /// The byte offset of the later record in the file.
        proof: u64,
    },
    /// A slot ends there, and its witness says that more was durable.
    SlotEndLost,
    /// No slot has a transaction that a record of another one proves.
    Gap {
        /// The first transaction that is missing.
        missing: TxId,
        /// The byte offset of a record in the file that was written when it was durable.
        proof: u64,
    },
}

impl LogDamage {
    /// The remedy.
    pub(super) const REMEDY: &str = "`lastword pool check` lists the losses; restore both files \
        from the same backup, or save the intact objects with `lastword pool export --salvage`";
}

impl fmt::Display for LogDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogDamage::Unexpected => f.write_str(
                "an intact log group or record is there, and acknowledged ones before it are \
                 missing, or it is none of this pool",
            ),
            LogDamage::EndLost { first, last } if first == last => {
                write!(f, "the log ends there, and transaction {last} was durable")
            }
            LogDamage::EndLost { first, last } => {
                write!(f, "the log ends there, and transactions {first} to {last} were durable")
            }
            LogDamage::RecordLost { proof } => {
                write!(f, "a record is missing there, which the record at byte {proof} proves")
            }
            LogDamage::SlotEndLost => f.write_str(
                "the slot ends there, and its witness says that a later record was durable",
            ),
            LogDamage::Gap { missing, proof } => {
                write!(f, "no slot has transaction {missing}, which the record at byte {proof} ")?;
                f.write_str("proves")
            }
        }
    }
}
