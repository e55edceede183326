//! The errors of a pool that is copied to a stream, or that follows one.

use thiserror::Error;
use words::TxId;

/// The reason why a pool cannot be replicated, or cannot follow another one.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReplicationError {
    /// Another primary has begun a later term. The pool is poisoned with this.
    #[error(
        "another primary has begun term {term}: the transactions of this pool after {replicated} \
         may be in no replica; use the new primary, and open this pool as its follower"
    )]
    Fenced {
        /// The term of the other primary.
        term: u64,
        /// The last transaction that the stream has.
        replicated: TxId,
    },

    /// No more transactions can reach the stream. The pool is poisoned with this.
    #[error("the stream gets no more transactions of this pool after {replicated}: {why}")]
    Stopped {
        /// The last transaction that the stream has.
        replicated: TxId,
        /// The cause, and the remedy.
        why: String,
    },

    /// The stream does not have a transaction yet.
    #[error(
        "transaction {id} is durable here and not replicated: the stream has confirmed \
         transactions up to {replicated}; {}",
        cause(*fed)
    )]
    Behind {
        /// The transaction.
        id: TxId,
        /// The last transaction that the stream has.
        replicated: TxId,
        /// Whether a feed exists.
        fed: bool,
    },

    /// A transaction could not begin: the log is full of transactions that the stream lacks, or the
    /// lag has reached [`Options::max_lag`](crate::Options::max_lag). It had no effect.
    #[error(
        "the log is full (or `max_lag` is reached), and the stream has confirmed nothing after \
         {replicated} for the pool's patience: check the stream, and run the transaction again"
    )]
    Stalled {
        /// The last transaction that the stream has.
        replicated: TxId,
    },

    /// A committed transaction is not durable yet, since the log is full of transactions that the
    /// stream lacks. It may become durable later. Do not run it again.
    #[error(
        "transaction {id} is committed and not durable yet: the log is full (or `max_lag` is \
         reached), and the stream has confirmed nothing after {replicated} for the pool's \
         patience; check the stream, and wait again"
    )]
    Undurable {
        /// The transaction.
        id: TxId,
        /// The last transaction that the stream has.
        replicated: TxId,
    },

    /// The pool was opened without [`Options::replicated`](crate::Options::replicated).
    #[error("the pool does not wait for a stream: open it with `Options::replicated`")]
    NotReplicated,

    /// The pool was opened without [`Options::following`](crate::Options::following).
    #[error("the pool does not follow another one: open it with `Options::following`")]
    NotFollowing,

    /// A pool has one feed, or one applier.
    #[error("the pool has a {0} already: drop that first")]
    Taken(&'static str),

    /// A transaction of the program would write to a pool that follows another one.
    #[error("the pool follows another one, and only its applier may write: write to the primary")]
    Following,

    /// The heap image of a pool that rejoins has transactions that it should drop.
    #[error(
        "the heap image has transactions up to {reproduced}, and the stream ends with {last}: \
         replace the pool by a backup of the primary"
    )]
    Ahead {
        /// The last transaction in the heap image.
        reproduced: TxId,
        /// The last transaction that the pool should keep.
        last: TxId,
    },

    /// A pool that rejoins should drop a part of a group. Groups enter the stream whole.
    #[error(
        "the log has a group of transactions {first} to {last_of_group}, and the stream should end \
         with {kept}: pass the last transaction of a group of this pool"
    )]
    Inside {
        /// The first transaction of the group.
        first: TxId,
        /// The last transaction of the group.
        last_of_group: TxId,
        /// The last transaction that the pool should keep.
        kept: TxId,
    },

    /// A group does not continue the pool.
    #[error(
        "the next group begins with transaction {found}, and the pool ends with {last}: seed the \
         follower from a newer backup"
    )]
    Gap {
        /// The first transaction of the group.
        found: TxId,
        /// The last transaction of the pool.
        last: TxId,
    },

    /// An attempt of the applier has spent a transaction ID. The pool is poisoned with this.
    #[error(
        "the follower has transaction {found} in place of {expected}, and no longer has the IDs of \
         the primary: replace it by a backup of the primary"
    )]
    Diverged {
        /// The last transaction that the pool should have.
        expected: TxId,
        /// The last transaction that it has.
        found: TxId,
    },

    /// The log of a closed pool has a combined group, which has no transactions of their own.
    #[error(
        "the log has a combined group of transactions {first} to {last}, which is not replicated: \
         open the pool once without `Options::replicated`, close it, and make new followers from a \
         backup"
    )]
    Combined {
        /// The first transaction of the group.
        first: TxId,
        /// The last transaction of the group.
        last: TxId,
    },

    /// The group is malformed.
    #[error("group {first} to {last} is damaged: {why}; read it from the stream again")]
    DamagedGroup {
        /// The first transaction of the group.
        first: TxId,
        /// The last transaction of the group.
        last: TxId,
        /// The fault.
        why: &'static str,
    },
}

fn cause(fed: bool) -> &'static str {
    match fed {
        true => "check the stream, and try again",
        false => "no feed reads the pool; start one, or pass its log on with `read_log`",
    }
}
