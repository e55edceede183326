//! A reader of a stream: a consumer on a server, which the reader replaces when it is lost.
//!
//! A consumer is on one server and does not survive it. The reader knows the position of its last
//! message. It accepts the next position alone, and otherwise begins again with a new consumer. So
//! a message that a lost connection has swallowed is read again.

use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::pull::{Config, Stream as Messages};
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy};
use futures_util::StreamExt;

use super::connection::{REPLY, reason};
use super::{JetStream, no_reply};
use crate::stream::{LogStream, ReadStream, StreamError};

/// Messages that a reader asks for in advance.
const BATCH: usize = 16;

/// Heartbeat interval of an idle consumer. After two missed heartbeats the consumer is lost.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Time that a request for messages stays at the server.
const EXPIRES: Duration = Duration::from_secs(10);

/// Time after which a server drops a consumer without requests.
const INACTIVE: Duration = Duration::from_secs(60);

pub(super) struct Reader {
    stream: JetStream,
    after: u64,
    /// `None` before the first call, and after an error.
    messages: Option<Messages>,
}

/// The outcome of a wait for a message.
enum Next {
    Message(u64, Vec<u8>),
    Nothing,
    Lost(String),
}

impl Reader {
    pub(super) fn new(stream: JetStream, after: u64) -> Reader {
        Reader { stream, after, messages: None }
    }

    /// Begins to read after the position of the last message.
    fn begin(&self) -> Result<Messages, StreamError> {
        let config = Config {
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: self.after + 1 },
            ack_policy: AckPolicy::None,
            inactive_threshold: INACTIVE,
            ..Config::default()
        };
        let stream = self.stream.shared.stream.clone();
        let begun = self.stream.shared.connection.call(REPLY, async move {
            let consumer = stream.create_consumer(config).await.map_err(|error| reason(&error))?;
            let messages = consumer.stream().max_messages_per_batch(BATCH);
            let messages = messages.expires(EXPIRES).heartbeat(HEARTBEAT).messages().await;
            messages.map_err(|error| reason(&error))
        });
        match begun {
            None => Err(no_reply("read the stream")),
            Some(begun) => begun.map_err(StreamError::Unreachable),
        }
    }

    /// Waits for a message. Keeps the consumer, unless it is lost.
    fn wait(&mut self, mut messages: Messages, patience: Duration) -> Next {
        let waited = self.stream.shared.connection.call(patience + REPLY, async move {
            let next = tokio::time::timeout(patience, messages.next()).await;
            (messages, next)
        });
        let Some((messages, next)) = waited else {
            return Next::Lost("its task has ended".to_owned());
        };
        let message = match next {
            Err(_elapsed) => {
                self.messages = Some(messages);
                return Next::Nothing;
            }
            Ok(None) => return Next::Lost("the consumer has ended".to_owned()),
            Ok(Some(Err(error))) => return Next::Lost(reason(&error)),
            Ok(Some(Ok(message))) => message,
        };
        match message.info().map(|info| info.stream_sequence) {
            Err(error) => Next::Lost(error.to_string()),
            Ok(position) => {
                self.messages = Some(messages);
                Next::Message(position, message.message.payload.into())
            }
        }
    }

    /// Returns an error if the next message is gone, so that the stream continues after it.
    fn gap(&self) -> Result<(), StreamError> {
        let position = self.after + 1;
        let (first, _) = self.stream.bounds()?;
        if position < first {
            return Err(StreamError::Trimmed { position, first });
        }
        // An error if the server lacks it.
        self.stream.get(position).map(|_| ())
    }
}

impl ReadStream for Reader {
    fn next(&mut self, patience: Duration) -> Result<Option<(u64, Vec<u8>)>, StreamError> {
        let begun = Instant::now();
        loop {
            let messages = match self.messages.take() {
                Some(messages) => messages,
                None => self.begin()?,
            };
            let left = patience.saturating_sub(begun.elapsed());
            match self.wait(messages, left) {
                Next::Message(position, message) if position == self.after + 1 => {
                    self.after = position;
                    self.stream.has_reached(position);
                    return Ok(Some((position, message)));
                }
                Next::Message(..) => {
                    self.messages = None;
                    self.gap()?;
                    if begun.elapsed() >= patience {
                        return Ok(None);
                    }
                }
                Next::Nothing => return Ok(None),
                Next::Lost(why) if begun.elapsed() >= patience => {
                    return Err(StreamError::Unreachable(why));
                }
                Next::Lost(_) => (),
            }
        }
    }
}
