//! Files of a stream in a directory: copies, damage and leftovers.

use std::fs;
use std::path::{Path, PathBuf};

use replica::{DirectoryStream, LogStream, StreamError};
use tempfile::TempDir;

fn stream_of(last: u64) -> (TempDir, DirectoryStream) {
    let directory = tempfile::tempdir().unwrap();
    let stream = DirectoryStream::create(directory.path()).unwrap();
    for after in 0..last {
        stream.append(after, format!("message {}", after + 1).as_bytes()).unwrap();
    }
    (directory, stream)
}

fn file(directory: &Path, position: u64) -> PathBuf {
    directory.join(format!("{position:020}"))
}

fn why<T>(result: Result<T, StreamError>) -> String {
    result.map(|_| ()).unwrap_err().to_string()
}

#[test]
fn copy_without_later_messages_is_a_prefix() {
    let (from, _stream) = stream_of(6);
    let to = tempfile::tempdir().unwrap();
    for name in ["stream", "00000000000000000001", "00000000000000000002", "00000000000000000004"] {
        fs::copy(from.path().join(name), to.path().join(name)).unwrap();
    }
    let copy = DirectoryStream::open(to.path()).unwrap();
    assert_eq!(copy.bounds(), Ok((1, 2)));
    assert_eq!(copy.get(4), Ok(None), "message 3 is not there yet");
    fs::copy(file(from.path(), 3), file(to.path(), 3)).unwrap();
    assert_eq!(copy.get(4), Ok(Some(b"message 4".to_vec())));
    assert_eq!(copy.bounds(), Ok((1, 4)));
}

#[test]
fn cut_message_is_not_taken() {
    let (directory, stream) = stream_of(2);
    let whole = fs::read(file(directory.path(), 2)).unwrap();
    for bytes in 0..whole.len() {
        fs::write(file(directory.path(), 2), &whole[..bytes]).unwrap();
        let error = stream.get(2).unwrap_err();
        assert!(error.is_transient() && error.to_string().contains("not complete"), "{error}");
    }
    fs::write(file(directory.path(), 2), &whole).unwrap();
    assert_eq!(stream.get(2), Ok(Some(b"message 2".to_vec())));
}

#[test]
fn message_of_another_stream_is_refused() {
    let (directory, stream) = stream_of(3);
    let (other, _stream) = stream_of(3);
    fs::copy(file(other.path(), 2), file(directory.path(), 2)).unwrap();
    assert!(why(stream.get(2)).contains("another stream"), "{}", why(stream.get(2)));
    fs::copy(file(directory.path(), 1), file(directory.path(), 2)).unwrap();
    assert!(why(stream.get(2)).contains("position"), "{}", why(stream.get(2)));
}

#[test]
fn removed_message_is_reported() {
    let (directory, stream) = stream_of(3);
    fs::remove_file(file(directory.path(), 2)).unwrap();
    assert!(why(stream.get(2)).contains("is missing"), "{}", why(stream.get(2)));
}

#[test]
fn replaced_stream_is_refused() {
    let (directory, stream) = stream_of(3);
    let (other, _stream) = stream_of(3);
    fs::copy(other.path().join("stream"), directory.path().join("stream")).unwrap();
    assert!(why(stream.bounds()).contains("another stream"), "{}", why(stream.bounds()));
    assert!(why(stream.append(3, b"x")).contains("another stream"));
    assert!(!file(directory.path(), 4).exists());
}

#[test]
fn directory_without_stream_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let error = why(DirectoryStream::open(directory.path()));
    assert!(error.contains("has no stream"), "{error}");
    fs::write(directory.path().join("notes"), "mine").unwrap();
    let error = why(DirectoryStream::create(directory.path()));
    assert!(error.contains("has files already"), "{error}");
    let error = why(DirectoryStream::create(directory.path().join("notes")));
    assert!(error.contains("notes"), "{error}");
}

#[test]
fn dead_append_leaves_no_file() {
    let (directory, stream) = stream_of(2);
    let (dead, live) = (".append-2-00", ".append-3-00");
    for name in [dead, live] {
        fs::write(directory.path().join(name), "half a mess").unwrap();
    }
    let reopened = DirectoryStream::open(directory.path()).unwrap();
    assert!(!directory.path().join(dead).exists());
    assert!(directory.path().join(live).exists(), "its append may be at work");
    assert_eq!(stream.append(2, b"message 3"), Ok(3));
    assert_eq!(reopened.bounds(), Ok((1, 3)));
    let names = fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(names, 5, "head, 3 messages and the one temporary file");
}

#[test]
fn interrupted_trimming_is_completed() {
    let (directory, stream) = stream_of(5);
    let trimmed = fs::read(file(directory.path(), 1)).unwrap();
    stream.trim(3).unwrap();
    assert!(!file(directory.path(), 1).exists());
    // As after a power failure that came between the head and the removal.
    fs::write(file(directory.path(), 1), trimmed).unwrap();
    let reopened = DirectoryStream::open(directory.path()).unwrap();
    assert_eq!(reopened.bounds(), Ok((3, 5)));
    assert_eq!(reopened.get(1), Err(StreamError::Trimmed { position: 1, first: 3 }));
    reopened.trim(1).unwrap();
    assert!(!file(directory.path(), 1).exists());
    assert_eq!(reopened.bounds(), Ok((3, 5)), "trimming never goes back");
}
