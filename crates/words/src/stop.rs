//! The reasons that end an attempt of a transaction.

use thiserror::Error;

/// Ends the current attempt of a transaction; a body passes it on with `?`.
///
/// A `Stop` is sticky: after the first, every later access of the same attempt returns the same.
/// The attempt cannot commit, even when the body swallows it. The error that the surrounding `run`
/// returns has the details (address, limit).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum Stop {
    /// A conflict with another transaction. The body runs again; the program never sees this.
    #[error("conflict with another transaction")]
    Conflict,
    /// The heap has no room for the allocation.
    #[error("the pool is full")]
    Full,
    /// An address outside the heap, of another pool, not a multiple of 8, or not of a live object.
    #[error("a pointer that leads to no object of this pool")]
    BadPointer,
    /// A stored value that its type does not allow (an enum's or bool's unknown bit pattern).
    #[error("a stored value that its type does not allow")]
    BadValue,
    /// A range of a [`Bytes`](crate::Bytes) or [`Text`](crate::Text) that leaves it, or that
    /// divides a character of a text. Nothing was read or written.
    #[error("a range that leaves its string or divides a character")]
    BadRange,
    /// An index that is not less than the length of its [`Array`](crate::Array). Nothing was read
    /// or written.
    #[error("an index that is not less than the length of its array")]
    BadIndex,
    /// An object of no bytes, or of more than an object can have.
    #[error("an object has 1 to 1024 bytes")]
    BadSize,
    /// The transaction has written more than its worker's ring, the log, a slot of it or the memory
    /// for copies holds. The error of the surrounding `run` names the limit that it met.
    #[error("the transaction is larger than its worker's ring, memory or part of the log")]
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
    fn stop_reasons_have_messages() {
        assert_eq!(Stop::Full.to_string(), "the pool is full");
        assert!(Stop::BadPointer.to_string().contains("no object"));
    }
}
