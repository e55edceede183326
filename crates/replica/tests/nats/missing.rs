//! Messages that were there, and that the server no longer returns.

use std::time::Duration;

use async_nats::jetstream::stream::Config;
use replica::{JetStream, LogStream, StreamError};

use crate::cluster::Cluster;
use crate::operate;

/// Creates a stream from which clients may delete.
fn create(url: &str) {
    operate(url, async |context, name| {
        let config =
            Config { subjects: vec![format!("lastword.{name}")], name, ..Config::default() };
        context.create_stream(config).await.unwrap();
    });
}

/// Checks that a follower would repeat the call, and that the error names both causes.
fn assert_transient<T>(result: Result<T, StreamError>) {
    let error = result.map(|_| ()).expect_err("the message is missing");
    assert!(error.is_transient(), "{error}");
    let text = error.to_string();
    assert!(text.contains("lags") && text.contains("has deleted"), "{text}");
}

#[test]
fn deleted_message_is_a_transient_error() {
    let test = "deleted_message_is_a_transient_error";
    let Some(cluster) = Cluster::start(test, 1) else { return };
    cluster.create(); // The server is ready.
    let url = cluster.url("DELETED");
    create(&url);
    let stream = JetStream::open(&url).unwrap();
    for after in 0..4 {
        assert_eq!(stream.append(after, b"message"), Ok(after + 1));
    }
    operate(&url, async |context, name| {
        context.get_stream(name).await.unwrap().delete_message(2).await.unwrap();
    });
    assert_transient(stream.get(2));
    assert_transient(JetStream::open(&url).unwrap().get(2));
    let mut reader = stream.read_from(1).unwrap();
    assert_transient(reader.next(Duration::from_secs(5)));
    assert_transient(reader.next(Duration::from_secs(5)));
    assert_eq!(stream.get(5), Ok(None));
}

/// As a server that lags would reply: the last messages are not there yet.
#[test]
fn lost_last_message_is_a_transient_error() {
    let test = "lost_last_message_is_a_transient_error";
    let Some(cluster) = Cluster::start(test, 1) else { return };
    cluster.create(); // The server is ready.
    let url = cluster.url("LOST");
    create(&url);
    let stream = JetStream::open(&url).unwrap();
    for after in 0..4 {
        assert_eq!(stream.append(after, b"message"), Ok(after + 1));
    }
    operate(&url, async |context, name| context.delete_stream(name).await.unwrap());
    create(&url);
    assert_eq!(stream.bounds(), Ok((1, 0)));
    assert_transient(stream.get(4));
    assert_eq!(stream.get(5), Ok(None));
}
