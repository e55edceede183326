//! Errors of primaries and followers: the pool or the stream, the reason and the remedy.

use std::time::Duration;

use lastword::TxId;
use thiserror::Error;

use crate::message::Writer;
use crate::stream::StreamError;

/// The reason why a replica cannot go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the pool.
    #[error(transparent)]
    Pool(#[from] lastword::Error),

    /// An error of the stream.
    #[error(transparent)]
    Stream(#[from] StreamError),

    /// A message of the stream cannot be used.
    #[error("message {position} of the stream is damaged: {damage}")]
    Damaged {
        /// The position of the message.
        position: u64,
        /// The fault.
        damage: Damage,
    },

    /// Another primary has begun a term.
    #[error(
        "another primary has begun term {term} of the stream: this pool is deposed; open it as a \
         follower"
    )]
    Fenced {
        /// The term of the other primary.
        term: u64,
    },

    /// Another pool is the primary of the stream.
    #[error(
        "pool {:#x} is the primary of the stream since term {term}: open this pool as a follower, \
         and promote it if that primary is lost",
        writer.pool
    )]
    NotPrimary {
        /// The term.
        term: u64,
        /// The primary.
        writer: Writer,
    },

    /// The pool of a follower is the last primary of the stream.
    #[error(
        "this pool is the primary of the stream since term {term}: open it as the primary, or \
         promote a follower first"
    )]
    IsPrimary {
        /// The term.
        term: u64,
    },

    /// The stream is of another pool.
    #[error(
        "the stream has the log of another pool, {found:#x}, of which this one, {pool:#x}, is no \
         copy: give the right stream, or seed the follower from a backup"
    )]
    OtherPool {
        /// This pool's ID.
        pool: u64,
        /// The ID of the stream's last primary.
        found: u64,
    },

    /// The pool lacks transactions that it has appended itself.
    #[error(
        "the stream has transactions of this pool up to {replicated}, and the pool ends with \
         {last}: it is an older copy; promote a follower, or seed it from a backup"
    )]
    OlderCopy {
        /// The last transaction of the stream.
        replicated: TxId,
        /// The last transaction of the pool.
        last: TxId,
    },

    /// The heap image has transactions that the stream lacks and the log no longer has.
    #[error(
        "the heap image has transactions up to {reproduced}, and the stream up to {replicated}: \
         the pool was open without the stream; begin a new stream with it, and seed each follower \
         from its backup"
    )]
    Ahead {
        /// The last transaction of the heap image.
        reproduced: TxId,
        /// The last transaction of the stream.
        replicated: TxId,
    },

    /// The stream has lost its end.
    #[error(
        "the stream has lost messages: it ends with {last}, and had confirmed {confirmed}; begin \
         a new stream, and seed each follower from a backup of this pool"
    )]
    Lost {
        /// The position of its last message.
        last: u64,
        /// The last position that it has confirmed.
        confirmed: u64,
    },

    /// The pool was opened by another call between two steps of this one.
    #[error("another program has opened the pool meanwhile: close it there, and open it again")]
    Opened,

    /// The stream has no primary yet.
    #[error(
        "the stream has no message: give the right stream, or begin this one with \
         `Primary::begin`"
    )]
    Empty,

    /// The stream has a primary already.
    #[error(
        "the stream has messages already: open the primary with `Primary::open`, or give an empty \
         stream"
    )]
    Begun,

    /// A follower's transaction does not come within the time.
    #[error(
        "the follower has not applied transaction {id} within {waited:?}, and ends with {last}: \
         check the primary and the stream, and wait again"
    )]
    Late {
        /// The transaction.
        id: TxId,
        /// The last transaction that the follower has applied.
        last: TxId,
        /// The time.
        waited: Duration,
    },

    /// The stream has not confirmed within the time that this is the only primary.
    #[error("the stream has confirmed nothing for {0:?}: check it, and try again")]
    Unconfirmed(Duration),

    /// A follower has not reached the end of the stream within the time.
    #[error(
        "the follower has not reached the end of the stream in {0:?}: a primary may still append; \
         stop it, and try again"
    )]
    NotAtEnd(Duration),

    /// The background thread has ended with an error that an earlier call has returned.
    #[error("the replica has stopped: {0}")]
    Stopped(String),
}

impl Error {
    /// Whether the error may come from a server that lags and hides the end of the stream.
    pub(crate) fn may_be_stale(&self) -> bool {
        matches!(
            self,
            Error::Ahead { .. }
                | Error::IsPrimary { .. }
                | Error::NotPrimary { .. }
                | Error::Fenced { .. }
        )
    }
}

impl From<lastword::ReplicationError> for Error {
    fn from(error: lastword::ReplicationError) -> Error {
        Error::Pool(error.into())
    }
}

/// The fault of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Damage {
    /// The bytes are no message of Lastword.
    #[error("it is no message of Lastword; give the name of the right stream")]
    NoMessage,

    /// The checksum is wrong.
    #[error("its checksum is wrong; restore the stream's servers from their replicas")]
    Checksum,

    /// The format has another version.
    #[error(
        "its format has version {found}, and this program reads version {expected}; use the \
         version of Lastword that wrote it"
    )]
    Version {
        /// The version of the message.
        found: u16,
        /// The version that this program reads.
        expected: u16,
    },

    /// The fields contradict each other.
    #[error("its fields contradict each other; report this")]
    Malformed,

    /// The message does not belong to the term before it.
    #[error(
        "it is of term {found} after term {expected}, so its writer ignored the fence; stop that \
         writer, and begin a new stream"
    )]
    Term {
        /// The term of the message.
        found: u64,
        /// The term before it.
        expected: u64,
    },

    /// The message does not continue the one before it.
    #[error(
        "it does not continue the message before it, so the stream lacks messages; begin a new \
         stream, and seed each follower from a backup"
    )]
    Gap,
}
