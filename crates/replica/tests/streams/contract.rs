//! Checks of the invariants of [`LogStream`], for any implementation.
//!
//! Calls go through helpers that retry as a writer does, so that streams with faults can pass.

use std::thread;
use std::time::Duration;

use replica::{LogStream, StreamError};

/// More attempts than any run of faults takes.
const ATTEMPTS: usize = 1000;

const PATIENCE: Duration = Duration::from_secs(10);

/// An empty stream under test.
pub(crate) struct Subject {
    /// Returns another handle to the stream.
    pub(crate) open: Box<dyn Fn() -> Box<dyn LogStream> + Send + Sync>,
    /// Trims all messages before a position.
    pub(crate) trim: Box<dyn Fn(u64) + Send + Sync>,
    /// Storage that is removed at the end.
    pub(crate) _storage: Box<dyn std::any::Any + Send + Sync>,
}

/// Runs all checks. `$subject` is an expression for a [`Subject`], which each check gets anew.
/// `contract!(module: $subject)` defines a module with a test for each check, and
/// `contract!(all: $subject)` runs them one after another.
#[macro_export]
macro_rules! contract {
    (all: $subject:expr) => {
        $crate::contract!(@with run () $subject);
    };
    ($name:ident: $subject:expr) => {
        $crate::contract!(@with tests ($name) $subject);
    };
    (@with $kind:ident $name:tt $subject:expr) => {
        $crate::contract!(@$kind $name $subject, [
            positions_are_dense, empty_stream_has_no_message, append_after_other_position_conflicts,
            concurrent_appends_have_one_winner, readers_see_messages_of_other_handles,
            reader_waits_for_next_message, trimmed_messages_are_reported,
            too_large_message_is_not_appended, reopened_stream_has_its_messages
        ]);
    };
    (@tests ($name:ident) $subject:expr, [$($check:ident),*]) => {
        mod $name {
            $(#[test]
            fn $check() {
                $crate::contract::$check(&$subject);
            })*
        }
    };
    (@run () $subject:expr, [$($check:ident),*]) => {
        $(
            eprintln!("check: {}", stringify!($check));
            $crate::contract::$check(&$subject);
        )*
    };
}

/// Repeats a call until it succeeds, or fails for good.
pub(crate) fn retry<T>(mut call: impl FnMut() -> Result<T, StreamError>) -> Result<T, StreamError> {
    for _ in 0..ATTEMPTS {
        match call() {
            Err(StreamError::Unreachable(_)) => thread::sleep(Duration::from_millis(1)),
            result => return result,
        }
    }
    call()
}

/// Appends as a writer does. Messages must differ, so that a writer knows its own.
pub(crate) fn append(
    stream: &dyn LogStream,
    after: u64,
    message: &[u8],
) -> Result<u64, StreamError> {
    let mut was_unknown = false;
    for _ in 0..ATTEMPTS {
        match retry(|| stream.append(after, message)) {
            Err(StreamError::Unknown { .. }) => was_unknown = true,
            Err(StreamError::Conflict { .. }) if was_unknown => (),
            result => return result,
        }
        match retry(|| stream.get(after + 1))? {
            Some(present) if present == message => return Ok(after + 1),
            Some(_) => return Err(StreamError::Conflict { after }),
            None => (),
        }
    }
    panic!("no append after {after} in {ATTEMPTS} attempts");
}

/// Checks that an append after this position is a conflict.
fn assert_conflict(stream: &dyn LogStream, after: u64) {
    let is_known = |result: &Result<u64, StreamError>| {
        !matches!(result, Err(StreamError::Unknown { .. } | StreamError::Unreachable(_)))
    };
    let mut appends = std::iter::repeat_with(|| stream.append(after, b"elsewhere")).take(ATTEMPTS);
    assert_eq!(appends.find(is_known), Some(Err(StreamError::Conflict { after })));
}

/// Returns the message that a test appends at a position.
fn message(position: u64) -> Vec<u8> {
    format!("message {position}").into_bytes()
}

/// Appends messages up to a position.
fn fill(stream: &dyn LogStream, last: u64) {
    for after in 0..last {
        assert_eq!(append(stream, after, &message(after + 1)), Ok(after + 1));
    }
}

fn bounds(stream: &dyn LogStream) -> (u64, u64) {
    retry(|| stream.bounds()).unwrap()
}

fn get(stream: &dyn LogStream, position: u64) -> Option<Vec<u8>> {
    retry(|| stream.get(position)).unwrap()
}

/// Reads messages through a new reader.
fn read(stream: &dyn LogStream, after: u64, count: u64) -> Vec<(u64, Vec<u8>)> {
    let mut reader = retry(|| stream.read_from(after)).unwrap();
    let next = || retry(|| reader.next(PATIENCE)).unwrap().expect("a message before the patience");
    std::iter::repeat_with(next).take(count as usize).collect()
}

pub(crate) fn positions_are_dense(subject: &Subject) {
    let stream = (subject.open)();
    fill(&*stream, 20);
    assert_eq!(bounds(&*stream), (1, 20));
    for position in 1..=20 {
        assert_eq!(get(&*stream, position), Some(message(position)));
    }
    assert_eq!(get(&*stream, 21), None);
    assert_eq!(get(&*stream, 1000), None);
}

pub(crate) fn empty_stream_has_no_message(subject: &Subject) {
    let stream = (subject.open)();
    assert_eq!(bounds(&*stream), (1, 0));
    assert_eq!(get(&*stream, 1), None);
    let mut reader = retry(|| stream.read_from(0)).unwrap();
    assert_eq!(retry(|| reader.next(Duration::ZERO)), Ok(None));
}

pub(crate) fn append_after_other_position_conflicts(subject: &Subject) {
    let stream = (subject.open)();
    assert_conflict(&*stream, 1);
    fill(&*stream, 3);
    for after in [0, 1, 2, 4, 5] {
        assert_conflict(&*stream, after);
    }
    assert_eq!(bounds(&*stream), (1, 3));
    assert_eq!(get(&*stream, 3), Some(message(3)));
    assert_eq!(append(&*stream, 3, b"next"), Ok(4));
}

pub(crate) fn concurrent_appends_have_one_winner(subject: &Subject) {
    const WRITERS: u64 = 4;
    const LAST: u64 = 40;
    let write = |writer: u64| {
        let stream = (subject.open)();
        let mut won = Vec::new();
        loop {
            let (_, last) = bounds(&*stream);
            if last >= LAST {
                return won;
            }
            let message = format!("{last} by {writer}").into_bytes();
            match append(&*stream, last, &message) {
                Ok(position) => won.push((position, message)),
                Err(StreamError::Conflict { after }) => assert_eq!(after, last),
                Err(error) => panic!("{error}"),
            }
        }
    };
    let mut won: Vec<_> = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS).map(|i| scope.spawn(move || write(i))).collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    won.sort();
    let stream = (subject.open)();
    let (first, last) = bounds(&*stream);
    assert!(first == 1 && last >= LAST);
    assert_eq!(won, read(&*stream, 0, last), "each position has the message of its one winner");
    assert!(won.iter().map(|(position, _)| *position).eq(1..=last));
}

pub(crate) fn readers_see_messages_of_other_handles(subject: &Subject) {
    const LAST: u64 = 30;
    let writer = (subject.open)();
    let expected = |after: u64| (after + 1..=LAST).map(|at| (at, message(at))).collect::<Vec<_>>();
    thread::scope(|scope| {
        let reader = || {
            let stream = (subject.open)();
            read(&*stream, 0, LAST)
        };
        let readers = [scope.spawn(reader), scope.spawn(reader)];
        fill(&*writer, LAST);
        for reader in readers {
            assert_eq!(reader.join().unwrap(), expected(0));
        }
    });
    assert_eq!(read(&*writer, 12, LAST - 12), expected(12));
}

pub(crate) fn reader_waits_for_next_message(subject: &Subject) {
    let (stream, other) = ((subject.open)(), (subject.open)());
    fill(&*stream, 2);
    let mut reader = retry(|| stream.read_from(2)).unwrap();
    assert_eq!(retry(|| reader.next(Duration::from_millis(1))), Ok(None));
    thread::scope(|scope| {
        let next = scope.spawn(|| retry(|| reader.next(PATIENCE)));
        assert_eq!(append(&*other, 2, &message(3)), Ok(3));
        assert_eq!(next.join().unwrap(), Ok(Some((3, message(3)))));
    });
    // The reader goes on after a time without messages.
    assert_eq!(retry(|| reader.next(Duration::from_millis(1))), Ok(None));
    assert_eq!(append(&*stream, 3, &message(4)), Ok(4));
    assert_eq!(retry(|| reader.next(PATIENCE)), Ok(Some((4, message(4)))));
}

pub(crate) fn trimmed_messages_are_reported(subject: &Subject) {
    let stream = (subject.open)();
    fill(&*stream, 10);
    let trimmed = |position, first| StreamError::Trimmed { position, first };
    (subject.trim)(6);
    assert_eq!(bounds(&*stream), (6, 10));
    assert_eq!(retry(|| stream.get(5)), Err(trimmed(5, 6)));
    assert_eq!(get(&*stream, 6), Some(message(6)));
    assert_eq!(retry(|| stream.read_from(4).map(|_| ())), Err(trimmed(5, 6)));
    assert_conflict(&*stream, 4);
    let mut reader = retry(|| stream.read_from(5)).unwrap();
    assert_eq!(append(&*stream, 10, &message(11)), Ok(11));
    (subject.trim)(1000);
    assert_eq!(bounds(&*stream), (11, 11), "the last message stays");
    // A reader may have fetched some messages before.
    let behind = loop {
        match retry(|| reader.next(PATIENCE)) {
            Ok(Some((position, present))) if position < 11 => {
                assert_eq!(present, message(position))
            }
            result => break result,
        }
    };
    let allowed = matches!(behind, Err(StreamError::Trimmed { first: 11, .. }))
        || behind == Ok(Some((11, message(11))));
    assert!(allowed, "a gap without a report: {behind:?}");
    assert_eq!(append(&*stream, 11, &message(12)), Ok(12));
}

pub(crate) fn too_large_message_is_not_appended(subject: &Subject) {
    let stream = (subject.open)();
    let bytes_max = stream.message_bytes_max();
    let mut large: Vec<u8> = (0..=bytes_max).map(|i| (i % 251) as u8).collect();
    let expected = Err(StreamError::TooLarge { bytes: bytes_max + 1, bytes_max });
    assert_eq!(retry(|| stream.append(0, &large)), expected);
    large.pop();
    assert_eq!(append(&*stream, 0, &large), Ok(1));
    assert_eq!(append(&*stream, 1, b""), Ok(2));
    assert!(get(&*stream, 1).unwrap() == large);
    assert_eq!(get(&*stream, 2), Some(Vec::new()));
}

pub(crate) fn reopened_stream_has_its_messages(subject: &Subject) {
    fill(&*(subject.open)(), 5);
    let stream = (subject.open)();
    assert_eq!(bounds(&*stream), (1, 5));
    assert_eq!(append(&*stream, 5, &message(6)), Ok(6));
    let expected: Vec<_> = (1..=6).map(|position| (position, message(position))).collect();
    assert_eq!(read(&*stream, 0, 6), expected);
    assert_eq!(read(&*(subject.open)(), 0, 6), expected);
}
