//! A stream that lags: its limit, and the waits while it stalls.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake};
use std::time::Duration;

use lastword::replication::Feed;
use lastword::{Error, Medium, Objects, Options, Pool, ReplicationError};

use crate::replication::SOON;

const EMULATED: Medium = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };

fn options(patience: Duration) -> Options {
    Options::new().bytes(1 << 20).ring_entries(1 << 12).patience(patience).replicated(true)
}

fn confirm(feed: &Feed) {
    while let Some(group) = feed.next(Duration::from_millis(10)).unwrap() {
        feed.replicated(group.last).unwrap();
    }
}

/// Commits end with an error long before the log is full, and go on with the stream.
fn lag_is_bounded_with(options: &Options) {
    const MAX_LAG: u64 = 64 << 10;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("primary.pool");
    let pool = Pool::create(&path, options.clone().max_lag(MAX_LAG)).unwrap();
    let feed = pool.feed().unwrap();
    let cells = pool.run(|tx| tx.alloc([0_u64; 100])).unwrap().value;
    for round in 1..4_u64 {
        let mut count = 0;
        let error = loop {
            if let Err(error) = pool.run(|tx| tx.set(cells, [round * count; 100])) {
                break error;
            }
            count += 1;
            assert!(count < 10_000);
        };
        let is_stalled = matches!(error, Error::Replication(ReplicationError::Stalled { .. }));
        assert!(is_stalled, "{error}");
        let metrics = pool.metrics();
        let lag = metrics.unreplicated_bytes;
        assert!(lag > 0, "{lag}");
        assert!(metrics.log_used_bytes < metrics.log_capacity_bytes / 2, "{metrics:?}");
        confirm(&feed);
    }
    while pool.flush().is_err() {
        confirm(&feed);
    }
    confirm(&feed);
    assert_eq!(pool.replicated_id(), Some(pool.committed_id()));
    assert_eq!(pool.metrics().unreplicated_bytes, 0);
    pool.close().unwrap();
}

#[test]
fn lag_of_stream_is_bounded() {
    for medium in [Medium::File, EMULATED] {
        for background in [true, false] {
            let options = options(Duration::from_millis(20)).medium(medium).log_bytes(1 << 20);
            lag_is_bounded_with(&options.background(background));
        }
    }
}

#[test]
fn lag_of_compressed_log_is_bounded() {
    let options = options(Duration::from_millis(20)).log_bytes(1 << 20);
    lag_is_bounded_with(&options.compress(true));
}

#[test]
fn lag_of_several_persist_threads_is_bounded() {
    let options = options(Duration::from_millis(20)).log_bytes(1 << 20).medium(EMULATED);
    lag_is_bounded_with(&options.persist_threads(3));
}

struct Notified(mpsc::Sender<()>);

impl Wake for Notified {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send(());
    }
}

/// No thread waits with the task. The pool's thread wakes it.
#[test]
fn awaited_ticket_ends_while_stream_stalls() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(Duration::from_millis(500)).log_bytes(128 << 10).ring_entries(1 << 16);
    let pool = Pool::create(dir.path().join("primary.pool"), options).unwrap();
    let feed = pool.feed().unwrap();
    let cells = pool.run(|tx| tx.alloc([0_u64; 100])).unwrap().value;
    // More than the log has room for, and less than the ring: no commit waits.
    for round in 0..400_u64 {
        let _ = pool.run(|tx| tx.set(cells, [round; 100])).unwrap();
    }
    while !feed.holds_commits().unwrap() {
        std::thread::yield_now();
    }
    let ticket = pool.run(|tx| tx.set(cells, [0; 100])).unwrap().ticket;
    let (sender, notified) = mpsc::channel();
    let waker = Arc::new(Notified(sender)).into();
    let mut future = pin!(ticket.into_future());
    let error = loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(outcome) => break outcome.unwrap_err(),
            Poll::Pending => notified.recv_timeout(SOON).expect("the task is woken"),
        }
    };
    let is_undurable = matches!(error, Error::Replication(ReplicationError::Undurable { .. }));
    assert!(is_undurable, "{error}");
}

#[test]
fn unbounded_rings_are_not_replicated() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(SOON).log_bytes(1 << 20).unbounded();
    let error = Pool::create(dir.path().join("primary.pool"), options).unwrap_err();
    assert!(matches!(error, Error::BadOption { option: "replicated", .. }), "{error}");
}
