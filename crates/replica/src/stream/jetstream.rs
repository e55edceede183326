//! A stream of a NATS server with JetStream, which keeps it on several machines.
//!
//! ```text
//!   append(after, m) --> publish, Nats-Expected-Last-Sequence: after --> leader --> Raft, 3 copies
//!         Ok(after+1) <-- sequence = after + 1          \
//!         Conflict    <-- wrong last sequence            > replies of the leader
//!         Unknown     <-- none in time                  /
//! ```
//!
//! The position of a message is its sequence in the stream. The header makes a publish
//! compare-and-append on the last sequence of the whole stream.
//!
//! **A reply can be lost.** The leader may have died before or after it stored the message. The
//! client may also hold a publish while it reconnects, and send it seconds after `append` returned.
//! `append` then returns `Unknown`: the message may still appear in the stream. It returns
//! `Unreachable` only if the client has no copy of the publish, or if a server has replied that no
//! server takes the subject. A late publish still names its position, and each position has one
//! message. So a late publish takes its own position or is refused:
//!
//! - A writer that repeats the same message at the same position has one of the two appended.
//! - After a message of another writer, a new primary's first one for example, a late publish is
//!   refused.
//!
//! The client sends each publish once. It does not repeat one whose connection was lost, so that
//! the reply to a second copy, a conflict, cannot hide that the first one was appended.
//!
//! **A conflict is checked.** Servers since 2.12 compare with messages that they have proposed, and
//! a leader that is deposed may drop those. `append` therefore reads the last position: if it is
//! still `after`, the result is `Unknown`, and a writer repeats the append.
//!
//! **Reads go to the leader**, with `allow_direct` off. A leader that is cut off from the others
//! may not know yet that it is deposed. So `bounds` and `get` may miss the newest messages for a
//! few seconds, but they never return a message that is not committed. Only an append proves that
//! nothing newer exists. `get` returns `None` only beyond each position that this handle has seen:
//! a message that was there, and is missing, is a transient error.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{
    CreateStreamErrorKind, GetStreamErrorKind, PublishError, PublishErrorKind,
};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Info, RawMessageErrorKind, Stream};

use self::address::Address;
use self::connection::{Connection, REPLY, reason};
use super::{LogStream, ReadStream, StreamError};

pub(super) mod address;
mod connection;
mod reader;
mod settings;

/// Bytes that are left for the headers of a message: two of NATS, and a stream's name.
const HEADER_BYTES: usize = 512;

/// Error codes of the server for a message that it has not stored.
const NOT_STORED: [ErrorCode; 3] = [
    ErrorCode::STREAM_NOT_MATCH,
    ErrorCode::STREAM_SEALED,
    ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM,
];

/// A stream of a NATS server. Clones share a connection.
#[derive(Clone)]
pub struct JetStream {
    shared: Arc<Shared>,
}

struct Shared {
    connection: Connection,
    stream: Stream<()>,
    name: String,
    subject: String,
    /// The stream's own limit, if it has one.
    bytes_max: Option<usize>,
    monitors: Vec<String>,
    /// The last position that a reply has shown. A server that lags shows an earlier one.
    reached: AtomicU64,
}

impl JetStream {
    /// Creates an empty stream with 3 copies on disk, unless the URL has `replicas`. Its subject is
    /// `lastword.` and its name. Nothing trims it, until an operator sets limits.
    ///
    /// # Errors
    /// [`StreamError::Refused`]: the URL is wrong, the stream exists, or the cluster has too few
    /// servers. [`StreamError::Unreachable`].
    pub fn create(url: &str) -> Result<JetStream, StreamError> {
        let address = Address::parse(url)?;
        let connection = Connection::open(&address)?;
        if info_of(&connection, &address.stream)?.is_some() {
            let why = format!("stream {} exists: open it, or name another one", address.stream);
            return Err(StreamError::Refused(why));
        }
        let (context, config) = (connection.context.clone(), settings::config(&address));
        let created =
            connection.call(2 * REPLY, async move { context.create_stream(config).await });
        match created {
            None => return Err(no_reply("create the stream")),
            Some(Err(error)) => {
                let why = format!("cannot create stream {}: {}", address.stream, reason(&error));
                return Err(match error.kind() {
                    CreateStreamErrorKind::JetStream(error) if error.code() < 500 => {
                        StreamError::Refused(why)
                    }
                    CreateStreamErrorKind::JetStream(error)
                        if error.error_code() == ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED =>
                    {
                        StreamError::Refused(why)
                    }
                    _ => StreamError::Unreachable(why),
                });
            }
            Some(Ok(_)) => (),
        }
        JetStream::over(connection, address)
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// [`StreamError::Refused`]: the URL is wrong, the stream does not exist, or its settings
    /// exclude compare-and-append. [`StreamError::Unreachable`].
    pub fn open(url: &str) -> Result<JetStream, StreamError> {
        let address = Address::parse(url)?;
        JetStream::over(Connection::open(&address)?, address)
    }

    fn over(connection: Connection, address: Address) -> Result<JetStream, StreamError> {
        let name = address.stream;
        let Some(info) = info_of(&connection, &name)? else {
            let why = format!("stream {name} does not exist: create it, or name another one");
            return Err(StreamError::Refused(why));
        };
        if let Some(why) = settings::refusal(&info.config) {
            return Err(StreamError::Refused(format!("stream {name} cannot be used: {why}")));
        }
        let context = connection.context.clone();
        let stream = {
            let name = name.clone();
            connection.call(REPLY, async move { context.get_stream_no_info(name).await })
        };
        let stream = stream.ok_or_else(|| no_reply("open the stream"))?;
        let stream = stream.map_err(|error| StreamError::Refused(reason(&error)))?;
        let subject = info.config.subjects[0].clone();
        let bytes_max = usize::try_from(info.config.max_message_size).ok().filter(|max| *max > 0);
        let (monitors, reached) = (address.monitors, AtomicU64::new(0));
        let shared = Shared { connection, stream, name, subject, bytes_max, monitors, reached };
        Ok(JetStream { shared: Arc::new(shared) })
    }

    /// Returns the name of the server that leads the stream. `None`: no server does at the moment,
    /// or the server is in no cluster.
    ///
    /// # Errors
    /// [`StreamError::Unreachable`], [`StreamError::Refused`].
    pub fn leader(&self) -> Result<Option<String>, StreamError> {
        Ok(self.info()?.cluster.and_then(|cluster| cluster.leader))
    }

    fn info(&self) -> Result<Info, StreamError> {
        let info = info_of(&self.shared.connection, &self.shared.name)?;
        info.ok_or_else(|| {
            StreamError::Refused(format!("stream {} does not exist any more", self.shared.name))
        })
    }

    fn has_reached(&self, position: u64) {
        self.shared.reached.fetch_max(position, Ordering::Relaxed);
    }

    /// Returns the error of an append whose position another message has taken, or may take.
    fn conflict(&self, after: u64) -> StreamError {
        let unknown = |why: String| StreamError::Unknown { after, why };
        match self.bounds() {
            Ok((_, last)) if last == after => {
                unknown("the server has refused it for a message that is not committed".to_owned())
            }
            Ok(_) => StreamError::Conflict { after },
            Err(error) => unknown(format!("a conflict could not be checked: {error}")),
        }
    }

    /// Returns the error of an append that a server, or the client, has refused.
    fn refusal(&self, after: u64, bytes: usize, error: &PublishError) -> StreamError {
        let too_large = StreamError::TooLarge { bytes, bytes_max: self.message_bytes_max() };
        match error.kind() {
            PublishErrorKind::WrongLastSequence => return self.conflict(after),
            PublishErrorKind::MaxPayloadExceeded => return too_large,
            PublishErrorKind::StreamNotFound => {
                let why = format!("no server leads stream {}", self.shared.name);
                return StreamError::Unreachable(why);
            }
            _ => (),
        }
        let code = error.source().and_then(|source| {
            source.downcast_ref::<async_nats::jetstream::Error>().map(|error| error.error_code())
        });
        let why = reason(error);
        match code {
            Some(ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM) => too_large,
            Some(code) if NOT_STORED.contains(&code) => StreamError::Refused(why),
            // A leader whose own disk failed, for example: the others may have the message.
            _ => StreamError::Unknown { after, why },
        }
    }

    /// Reads a message from the leader, without a look at the bounds.
    fn fetch(&self, position: u64) -> Result<Option<Vec<u8>>, StreamError> {
        let stream = self.shared.stream.clone();
        let fetched = self
            .shared
            .connection
            .call(REPLY, async move { stream.get_raw_message(position).await });
        match fetched {
            None => Err(no_reply("read a message")),
            Some(Ok(message)) => Ok(Some(message.payload.into())),
            Some(Err(error)) => match error.kind() {
                RawMessageErrorKind::NoMessageFound => Ok(None),
                _ => Err(StreamError::Unreachable(reason(&error))),
            },
        }
    }
}

impl LogStream for JetStream {
    fn append(&self, after: u64, message: &[u8]) -> Result<u64, StreamError> {
        let (bytes, bytes_max) = (message.len(), self.message_bytes_max());
        if bytes > bytes_max {
            return Err(StreamError::TooLarge { bytes, bytes_max });
        }
        let Shared { connection, name, subject, .. } = &*self.shared;
        connection.wait_until_connected()?;
        let publish = PublishMessage::build()
            .payload(message.to_vec().into())
            .expected_last_sequence(after)
            .expected_stream(name);
        let (context, subject) = (connection.context.clone(), subject.clone());
        let reply = connection
            .call(REPLY, async move { context.send_publish(subject, publish).await?.await });
        let unknown = |why: String| StreamError::Unknown { after, why };
        match reply {
            None => Err(unknown("no reply in time".to_owned())),
            Some(Err(error)) => Err(self.refusal(after, bytes, &error)),
            Some(Ok(reply)) if reply.sequence == after + 1 => {
                self.has_reached(reply.sequence);
                Ok(reply.sequence)
            }
            Some(Ok(reply)) => Err(unknown(format!("it has position {}", reply.sequence))),
        }
    }

    fn bounds(&self) -> Result<(u64, u64), StreamError> {
        let state = self.info()?.state;
        self.has_reached(state.last_sequence);
        Ok((state.first_sequence.max(1), state.last_sequence))
    }

    fn get(&self, position: u64) -> Result<Option<Vec<u8>>, StreamError> {
        for _ in 0..2 {
            // The server takes 0 for no position at all.
            if position > 0
                && let Some(message) = self.fetch(position)?
            {
                self.has_reached(position);
                return Ok(Some(message));
            }
            let (first, _) = self.bounds()?;
            if position < first {
                return Err(StreamError::Trimmed { position, first });
            }
            if position > self.shared.reached.load(Ordering::Relaxed) {
                return Ok(None);
            }
            // Appended since the first look.
        }
        // Not for good: in a change of leaders a server that lags may reply to either call. A
        // follower that took this for a deletion would stop without need.
        Err(StreamError::Unreachable(format!(
            "message {position} of stream {} was there, and is missing: the server that replied \
             lags, or a client has deleted the message",
            self.shared.name
        )))
    }

    fn read_from(&self, after: u64) -> Result<Box<dyn ReadStream>, StreamError> {
        let (position, (first, _)) = (after + 1, self.bounds()?);
        if position < first {
            return Err(StreamError::Trimmed { position, first });
        }
        Ok(Box::new(reader::Reader::new(self.clone(), after)))
    }

    fn message_bytes_max(&self) -> usize {
        let server = self.shared.connection.bytes_max().saturating_sub(HEADER_BYTES);
        let stream =
            self.shared.bytes_max.map_or(usize::MAX, |max| max.saturating_sub(HEADER_BYTES));
        server.min(stream)
    }

    fn warnings(&self) -> Result<Vec<String>, StreamError> {
        let mut warnings = settings::warnings(&self.info()?.config);
        let version = self.shared.connection.version();
        warnings.extend(settings::server_warnings(&version, &self.shared.monitors));
        Ok(warnings)
    }
}

/// Returns the state and settings of a stream, or `None` if it does not exist.
fn info_of(connection: &Connection, name: &str) -> Result<Option<Info>, StreamError> {
    let (context, stream) = (connection.context.clone(), name.to_owned());
    let info = connection.call(REPLY, async move {
        let stream = context.get_stream(stream).await?;
        Ok(stream.cached_info().clone())
    });
    let info: Result<Info, async_nats::jetstream::context::GetStreamError> =
        info.ok_or_else(|| no_reply("read the state of the stream"))?;
    match info {
        Ok(info) => Ok(Some(info)),
        Err(error) => match error.kind() {
            GetStreamErrorKind::JetStream(error)
                if error.error_code() == ErrorCode::STREAM_NOT_FOUND =>
            {
                Ok(None)
            }
            _ => Err(StreamError::Unreachable(format!("stream {name}: {}", reason(&error)))),
        },
    }
}

fn no_reply(call: &str) -> StreamError {
    StreamError::Unreachable(format!("cannot {call}: no reply within {} s", REPLY.as_secs()))
}
