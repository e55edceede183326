//! Streams without a server: the invariants that all streams keep, and the rest of each.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod contract;
mod directory;
mod faulty;
mod urls;

use contract::Subject;
use replica::{DirectoryStream, Faults, FaultyStream, MemoryStream};

fn memory() -> Subject {
    let stream = MemoryStream::new();
    let other = stream.clone();
    Subject {
        open: Box::new(move || Box::new(stream.clone())),
        trim: Box::new(move |first| other.trim(first)),
        _storage: Box::new(()),
    }
}

fn in_directory() -> Subject {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_owned();
    let stream = DirectoryStream::create(&path).unwrap();
    Subject {
        // Each handle opens the directory, as another process does.
        open: Box::new(move || Box::new(DirectoryStream::open(&path).unwrap())),
        trim: Box::new(move |first| stream.trim(first).unwrap()),
        _storage: Box::new(directory),
    }
}

fn with_faults(seed: u64) -> Subject {
    let memory = MemoryStream::new();
    let stream = FaultyStream::new(memory.clone(), Faults::of_each_kind(seed));
    Subject {
        open: Box::new(move || Box::new(stream.clone())),
        trim: Box::new(move |first| memory.trim(first)),
        _storage: Box::new(()),
    }
}

contract!(memory_stream: crate::memory());
contract!(directory_stream: crate::in_directory());
contract!(faulty_stream: crate::with_faults(1));
contract!(faulty_stream_of_another_seed: crate::with_faults(2));
