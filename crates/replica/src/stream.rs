//! Streams of messages with compare-and-append.
//!
//! ```text
//!   position   first            last
//!              +----+----+----+----+
//!   messages   | 11 | 12 | 13 | 14 |   <- append(after 14) becomes 15
//!              +----+----+----+----+      append(after 13) is a conflict
//!   trimmed <-
//! ```
//!
//! Replication depends on this trait alone. An implementation keeps each message that it has
//! confirmed, except after the failures that its [`warnings`](LogStream::warnings) name.
//!
//! Invariants that every implementation keeps, and `tests/streams/contract.rs` checks:
//! - Positions begin at 1 and are dense. A message never changes, and never moves.
//! - `append` adds a message directly after the position that it names, or adds nothing.
//! - Old messages may be trimmed, from the first on. The last one stays.
//!
//! Compare-and-append protects from another writer only while a writer has *one* append
//! outstanding. A second one, sent before the first is confirmed, names a position that another
//! writer may have taken since: it would stand behind the other writer's message.

use std::time::Duration;

use thiserror::Error;

pub mod directory;
pub mod faulty;
#[cfg(feature = "nats")]
pub mod jetstream;
pub mod memory;
mod url;

pub use url::{create, open};

/// A stream of messages. Several handles, in several processes, may use one stream.
///
/// A call waits for the stream for a bounded time, which the implementation sets.
pub trait LogStream: Send + Sync {
    /// Appends a message directly after `after`, which is 0 for an empty stream. Returns its
    /// position, `after + 1`, when the stream has it durably.
    ///
    /// # Errors
    /// [`StreamError::Conflict`]: another message follows `after`. [`StreamError::Unknown`]: the
    /// stream may have the message, now or later. Repeat it, as the same bytes after the same
    /// position: at most one of the two is appended. Only a message at `after + 1` settles it.
    /// [`StreamError::TooLarge`], [`StreamError::Unreachable`], [`StreamError::Refused`]: the
    /// stream does not have it.
    fn append(&self, after: u64, message: &[u8]) -> Result<u64, StreamError>;

    /// Returns the positions of the oldest message that is kept, and of the last one. An empty
    /// stream has the bounds (1, 0). A stale reply may miss the newest messages: only an append
    /// shows that nothing follows.
    ///
    /// # Errors
    /// [`StreamError::Unreachable`], [`StreamError::Refused`].
    fn bounds(&self) -> Result<(u64, u64), StreamError>;

    /// Returns the message at a position, or `None` after the last one. A stale reply may miss the
    /// newest messages, but none that this handle knows: a call has returned its position or a
    /// later one. The call then fails, as [`Unreachable`](StreamError::Unreachable) if it may
    /// succeed later.
    ///
    /// # Errors
    /// [`StreamError::Trimmed`]; as [`bounds`](LogStream::bounds).
    fn get(&self, position: u64) -> Result<Option<Vec<u8>>, StreamError>;

    /// Returns a reader that begins with the message after `after`. Readers are independent.
    ///
    /// # Errors
    /// As [`get`](LogStream::get).
    fn read_from(&self, after: u64) -> Result<Box<dyn ReadStream>, StreamError>;

    /// Returns the size of the largest message that the stream takes, in bytes.
    fn message_bytes_max(&self) -> usize;

    /// Returns a sentence for each setting of the stream that makes a replicated transaction less
    /// durable than three copies on disk do. Each names the setting and the risk.
    ///
    /// # Errors
    /// As [`bounds`](LogStream::bounds).
    fn warnings(&self) -> Result<Vec<String>, StreamError>;
}

/// Reads the messages of a stream in order.
pub trait ReadStream: Send {
    /// Returns the next message and its position, or `None` if none comes within this time. After
    /// an error the next call continues with the same message.
    ///
    /// # Errors
    /// As [`LogStream::get`].
    fn next(&mut self, patience: Duration) -> Result<Option<(u64, Vec<u8>)>, StreamError>;
}

/// The reason why a stream has refused a call.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The last message is not at the position that an append named. Nothing was appended.
    #[error("the stream has another message after {after}: read it, and append after the last one")]
    Conflict {
        /// The position that the append named.
        after: u64,
    },

    /// No reply has come in time.
    #[error(
        "the stream may have the message after {after}, or not: no reply has come ({why}); read \
         the position after it"
    )]
    Unknown {
        /// The position that the append named.
        after: u64,
        /// The failure.
        why: String,
    },

    /// The stream cannot be reached. Nothing was appended.
    #[error("cannot reach the stream: {0}; check its servers and the network")]
    Unreachable(String),

    /// The stream refuses a call for a reason that time does not change.
    #[error("the stream refuses the call: {0}")]
    Refused(String),

    /// The message was trimmed.
    #[error(
        "message {position} was trimmed, and the stream begins with {first}: seed the follower \
         from a newer backup"
    )]
    Trimmed {
        /// The position.
        position: u64,
        /// The oldest message that is kept.
        first: u64,
    },

    /// The message is larger than the stream takes.
    #[error(
        "a message of {bytes} bytes is larger than the {bytes_max} bytes that the stream takes"
    )]
    TooLarge {
        /// The size of the message.
        bytes: usize,
        /// The largest size.
        bytes_max: usize,
    },
}

impl StreamError {
    /// Returns whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, StreamError::Unknown { .. } | StreamError::Unreachable(_))
    }
}
