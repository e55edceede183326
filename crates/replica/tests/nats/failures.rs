//! Servers that die or stop, and connections that break at a chosen point.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use replica::{JetStream, LogStream, StreamError};

use crate::cluster::{Cluster, wait_for, wait_until_ready};
use crate::contract::append;
use crate::proxy::{CUT_REPLY, HOLD, PASS, Proxy};

fn message(position: u64) -> Vec<u8> {
    format!("message {position}").into_bytes()
}

/// Checks that a stream has each message exactly once, for a reader and for `get`.
fn assert_exactly_once(stream: &JetStream, last: u64) {
    assert_eq!(wait_for("bounds", || stream.bounds().ok()), (1, last));
    let mut reader = wait_for("a reader", || stream.read_from(0).ok());
    for position in 1..=last {
        let next = wait_for("a message", || reader.next(Duration::from_secs(5)).ok().flatten());
        assert_eq!(next, (position, message(position)));
        assert_eq!(wait_for("a message", || stream.get(position).ok().flatten()), next.1);
    }
}

/// Appends messages while a fault happens to the leader, and reads them through another handle.
fn append_through(test: &str, fault: impl FnOnce(&mut Cluster, usize)) {
    const LAST: u64 = 120;
    let Some(mut cluster) = Cluster::start(test, 3) else { return };
    let (url, stream) = cluster.create();
    let leader = cluster.leader(&stream);
    let appended = AtomicU64::new(0);
    let other = wait_for("a stream", || JetStream::open(&url).ok());
    let mut reader = wait_for("a reader", || other.read_from(0).ok());
    thread::scope(|scope| {
        scope.spawn(|| {
            for after in 0..LAST {
                assert_eq!(append(&stream, after, &message(after + 1)), Ok(after + 1));
                appended.store(after + 1, Ordering::SeqCst);
            }
        });
        scope.spawn(|| {
            for position in 1..=LAST {
                let next =
                    wait_for("a message", || reader.next(Duration::from_secs(1)).ok().flatten());
                assert_eq!(next, (position, message(position)));
            }
        });
        wait_for("appends", || (appended.load(Ordering::SeqCst) > 20).then_some(()));
        fault(&mut cluster, leader);
        let before = appended.load(Ordering::SeqCst);
        wait_for("appends", || {
            (appended.load(Ordering::SeqCst) > before.min(LAST - 1)).then_some(())
        });
    });
    assert_exactly_once(&stream, LAST);
}

#[test]
fn killed_leader_loses_no_message() {
    append_through("killed_leader_loses_no_message", |cluster, leader| {
        cluster.kill(leader);
        thread::sleep(Duration::from_secs(1)); // Some appends fail, or go to a new leader.
        cluster.restart(leader);
    });
}

#[test]
fn stopped_leader_loses_no_message() {
    append_through("stopped_leader_loses_no_message", |cluster, leader| {
        cluster.pause(leader);
        thread::sleep(Duration::from_secs(8)); // The others elect a leader.
        cluster.resume(leader);
    });
}

#[test]
fn killed_cluster_keeps_its_messages() {
    let Some(mut cluster) = Cluster::start("killed_cluster_keeps_its_messages", 3) else { return };
    let (_, stream) = cluster.create();
    for after in 0..20 {
        assert_eq!(append(&stream, after, &message(after + 1)), Ok(after + 1));
    }
    for node in 0..3 {
        cluster.kill(node);
    }
    let error = stream.append(20, b"no server is there").unwrap_err();
    let is_expected = matches!(error, StreamError::Unreachable(_) | StreamError::Unknown { .. });
    assert!(is_expected, "{error}");
    for node in 0..3 {
        cluster.restart(node);
    }
    wait_until_ready(&stream);
    assert_exactly_once(&stream, 20);
    assert_eq!(append(&stream, 20, &message(21)), Ok(21));
}

/// Returns a handle of a new stream through a proxy, and another one around it.
fn through_proxy(cluster: &Cluster) -> (Proxy, JetStream, JetStream) {
    let (url, direct) = cluster.create();
    let port = cluster.port(0);
    let proxy = Proxy::start(port);
    let url = url.replace(&format!("@127.0.0.1:{port}"), &format!("@127.0.0.1:{}", proxy.port));
    let through = JetStream::open(&url).unwrap();
    assert_eq!(append(&through, 0, &message(1)), Ok(1));
    (proxy, through, direct)
}

#[test]
fn reply_that_is_cut_off_is_unknown() {
    let Some(cluster) = Cluster::start("reply_that_is_cut_off_is_unknown", 1) else { return };
    let (proxy, stream, _) = through_proxy(&cluster);
    proxy.set(CUT_REPLY);
    let result = stream.append(1, &message(2));
    assert!(matches!(result, Err(StreamError::Unknown { after: 1, .. })), "{result:?}");
    proxy.set(PASS);
    assert_eq!(wait_for("the message", || stream.get(2).ok().flatten()), message(2));
    assert_eq!(append(&stream, 2, &message(3)), Ok(3));
    assert_exactly_once(&stream, 3);
}

#[test]
fn late_publish_after_other_is_refused() {
    let test = "late_publish_after_other_is_refused";
    let Some(cluster) = Cluster::start(test, 1) else { return };
    let (proxy, stream, direct) = through_proxy(&cluster);
    proxy.set(HOLD);
    let result = stream.append(1, b"late");
    assert!(matches!(result, Err(StreamError::Unknown { after: 1, .. })), "{result:?}");
    assert_eq!(direct.get(2), Ok(None));
    // As a new primary's first message.
    assert_eq!(append(&direct, 1, &message(2)), Ok(2));
    proxy.set(PASS);
    assert_eq!(append(&stream, 1, b"late"), Err(StreamError::Conflict { after: 1 }));
    assert_eq!(append(&stream, 2, &message(3)), Ok(3));
    assert_exactly_once(&direct, 3);
}

#[test]
fn late_publish_is_not_duplicated() {
    let test = "late_publish_is_not_duplicated";
    let Some(cluster) = Cluster::start(test, 1) else { return };
    let (proxy, stream, direct) = through_proxy(&cluster);
    proxy.set(HOLD);
    let result = stream.append(1, &message(2));
    assert!(matches!(result, Err(StreamError::Unknown { after: 1, .. })), "{result:?}");
    proxy.set(PASS);
    assert_eq!(wait_for("the late message", || direct.get(2).ok().flatten()), message(2));
    assert_eq!(stream.append(1, &message(2)), Err(StreamError::Conflict { after: 1 }));
    assert_eq!(append(&stream, 2, &message(3)), Ok(3));
    assert_exactly_once(&direct, 3);
}
