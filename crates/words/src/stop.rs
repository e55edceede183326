//! Why a transaction's body must end.

use thiserror::Error;

/// Ends the current attempt of a transaction; a body hands it on with `?`.
///
/// It is sticky: once an access has answered `Stop`, every later access of the same attempt answers
/// the same, and the attempt cannot commit, even when the body swallows it. Details (which address,
/// which limit) are in the error that the surrounding `run` returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum Stop {
    /// Another transaction was in the way. The body is run again; the program never sees this.
    #[error("another transaction was in the way")]
    Conflict,
    /// The heap has no room for what was asked.
    #[error("the pool is full")]
    Full,
    /// An address outside the heap, of another pool, not a multiple of 8, or not of a live object.
    #[error("a pointer that leads to no object of this pool")]
    BadPointer,
    /// A stored value that its type does not allow (an enum's or bool's unknown bit pattern).
    #[error("a stored value that its type does not allow")]
    BadValue,
    /// An object of no bytes, or of more than an object can have.
    #[error("an object has 1 to 1024 bytes")]
    BadSize,
    /// The transaction has written more than one may: than its worker's ring, the log, a slot of
    /// it or memory for copies holds. The error of the surrounding `run` names which.
    #[error("the transaction is larger than its worker's ring or part of the log")]
    TooLarge,
    /// A write in a transaction that was begun as read-only.
    #[error("a write in a read-only transaction")]
    ReadOnly,
    /// The body ended the transaction itself.
    #[error("ended by the program")]
    Aborted,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_says_what_happened() {
        assert_eq!(Stop::Full.to_string(), "the pool is full");
        assert!(Stop::BadPointer.to_string().contains("no object"));
    }
}
