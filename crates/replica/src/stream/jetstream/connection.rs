//! A connection to a cluster, and the thread that runs it.
//!
//! The client is asynchronous, and streams are not: a call gives a future to a runtime of one
//! thread, and waits for its result. It may come from any thread, also of another runtime.

use std::error::Error;
use std::future::Future;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use async_nats::connection::State;
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectErrorKind, ConnectOptions, ServerAddr};
use tokio::runtime::{Builder, Runtime};

use super::address::Address;
use crate::stream::StreamError;

/// Time that a call waits for its reply. A stream without a leader elects one in 4 to 10 seconds,
/// and callers repeat their calls.
pub(super) const REPLY: Duration = Duration::from_secs(3);

/// Interval of pings. The client drops a connection after two pings without a reply.
const PING: Duration = Duration::from_secs(1);

/// Polling interval while the client reconnects.
const POLL: Duration = Duration::from_millis(5);

pub(super) struct Connection {
    /// `None` while it is dropped.
    runtime: Option<Runtime>,
    client: Client,
    pub(super) context: Context,
}

impl Connection {
    pub(super) fn open(address: &Address) -> Result<Connection, StreamError> {
        let mut options = ConnectOptions::new()
            .name("lastword")
            .connection_timeout(REPLY)
            .request_timeout(Some(REPLY))
            .ping_interval(PING)
            .reconnect_delay_callback(|attempts| {
                Duration::from_millis(50) * u32::try_from(attempts).unwrap_or(20).min(20)
            });
        if let Some((user, password)) = address.user.clone() {
            options = options.user_and_password(user, password);
        }
        let servers = address.servers.iter().map(|server| {
            let why = |error| StreamError::Refused(format!("{server} is not an address: {error}"));
            server.parse::<ServerAddr>().map_err(why)
        });
        let servers = servers.collect::<Result<Vec<_>, _>>()?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("lastword-nats")
            .enable_all()
            .build()
            .map_err(|error| StreamError::Refused(format!("cannot start a thread: {error}")))?;
        let list = address.servers.join(", ");
        let client = match wait(&runtime, 2 * REPLY, options.connect(servers)) {
            None => return Err(StreamError::Unreachable(format!("{list}: no reply in time"))),
            Some(Err(error)) => {
                let why = format!("{list}: {}", reason(&error));
                return Err(match error.kind() {
                    ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                        StreamError::Refused(format!("{why}; check the user and the password"))
                    }
                    _ => StreamError::Unreachable(why),
                });
            }
            Some(Ok(client)) => client,
        };
        let mut context = {
            let _inside = runtime.enter(); // It starts a task.
            jetstream::new(client.clone())
        };
        context.set_timeout(REPLY);
        Ok(Connection { runtime: Some(runtime), client, context })
    }

    /// Runs a future on the connection's thread. Returns `None` if it takes too long.
    pub(super) fn call<F>(&self, patience: Duration, future: F) -> Option<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send,
    {
        wait(self.runtime.as_ref().expect("it is not dropped"), patience, future)
    }

    /// Waits until a server is connected.
    pub(super) fn wait_until_connected(&self) -> Result<(), StreamError> {
        let begun = Instant::now();
        while self.client.connection_state() != State::Connected {
            if begun.elapsed() > REPLY {
                return Err(StreamError::Unreachable("no server is connected".to_owned()));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Returns the largest message that the server takes, headers included.
    pub(super) fn bytes_max(&self) -> usize {
        self.client.max_payload()
    }

    /// Returns the version of the server.
    pub(super) fn version(&self) -> String {
        self.client.server_info().version
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // A runtime must not be dropped by a thread of another one, unless it is not waited for.
        self.runtime.take().expect("it is dropped once").shutdown_background();
    }
}

fn wait<F>(runtime: &Runtime, patience: Duration, future: F) -> Option<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    let (sender, receiver) = mpsc::sync_channel(1);
    runtime.spawn(async move {
        let result = tokio::time::timeout(patience, future).await;
        let _ = sender.send(result.ok()); // The receiver waits for this.
    });
    // Without a sender the task has panicked.
    receiver.recv().ok().flatten()
}

/// Returns an error and its causes as one line.
pub(super) fn reason(error: &dyn Error) -> String {
    let mut reason = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !reason.contains(&cause_text) {
            reason = format!("{reason}: {cause_text}");
        }
        source = cause.source();
    }
    reason
}
