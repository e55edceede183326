//! Injected faults.

use std::time::Duration;

use replica::{Faults, FaultyStream, LogStream, MemoryStream, StreamError};

use crate::contract::append;

/// Appends and reads with the faults of a seed. Returns a line for each call.
fn run(seed: u64) -> (Vec<String>, FaultyStream) {
    let stream = FaultyStream::new(MemoryStream::new(), Faults::of_each_kind(seed));
    let mut lines = Vec::new();
    let mut after = 0;
    for call in 0..2000 {
        let appended = stream.append(after, format!("call {call}").as_bytes());
        lines.push(format!("{appended:?}"));
        let bounds = stream.bounds();
        lines.push(format!("{bounds:?}"));
        after = bounds.map_or(after, |(_, last)| last);
    }
    (lines, stream)
}

#[test]
fn faults_depend_on_the_seed_alone() {
    assert_eq!(run(7).0, run(7).0);
    assert_ne!(run(7).0, run(8).0);
}

#[test]
fn each_kind_of_fault_is_injected() {
    let (_, stream) = run(3);
    let of = stream.injected();
    let counts = [of.refused_requests, of.lost_requests, of.lost_replies, of.failed_reads];
    assert!(counts.iter().all(|count| *count > 20), "{of:?}");
    assert!(of.late_requests > 0, "{of:?}");
}

#[test]
fn lost_reply_leaves_the_message() {
    let faults = Faults { lost_reply: 1000, ..Faults::default() };
    let stream = FaultyStream::new(MemoryStream::new(), faults);
    assert!(matches!(stream.append(0, b"there"), Err(StreamError::Unknown { after: 0, .. })));
    assert_eq!(stream.get(1), Ok(Some(b"there".to_vec())));
}

#[test]
fn late_request_arrives_at_a_later_call() {
    let memory = MemoryStream::new();
    let faults = Faults { late_request: 1000, ..Faults::default() };
    let stream = FaultyStream::new(memory.clone(), faults);
    assert!(matches!(stream.append(0, b"late"), Err(StreamError::Unknown { after: 0, .. })));
    assert_eq!(memory.get(1), Ok(None));
    assert!((0..100).any(|_| stream.get(1) == Ok(Some(b"late".to_vec()))));
    assert_eq!(stream.injected().late_requests, 1);
}

#[test]
fn paused_stream_is_unreachable_until_resumed() {
    let faults = Faults { patience: Duration::from_millis(5), ..Faults::default() };
    let stream = FaultyStream::new(MemoryStream::new(), faults);
    let mut reader = stream.read_from(0).unwrap();
    stream.pause();
    assert!(matches!(stream.append(0, b"held up"), Err(StreamError::Unreachable(_))));
    assert!(matches!(stream.bounds(), Err(StreamError::Unreachable(_))));
    assert!(matches!(reader.next(Duration::ZERO), Err(StreamError::Unreachable(_))));
    stream.resume();
    assert_eq!(stream.bounds(), Ok((1, 0)), "a refused append is not delivered later");
    assert_eq!(append(&stream, 0, b"resumed"), Ok(1));
    assert_eq!(reader.next(Duration::ZERO), Ok(Some((1, b"resumed".to_vec()))));
}
