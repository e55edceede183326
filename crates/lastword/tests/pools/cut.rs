//! Pool files that another program cuts, overwrites with zeros or makes longer.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use lastword::{Decoupled, Design, Error, Medium, MediumError, Pool, Redo, Snapshot};

use super::names::{Counter, EMULATED, counted, options, with_suffix};

fn cut(path: &Path, bytes: u64) {
    fs::OpenOptions::new().write(true).open(path).unwrap().set_len(bytes).unwrap();
}

fn cut_log<D: Design>(bytes: u64) {
    let options = options(Medium::File);
    let counter = Counter::<D>::new(options.clone());
    (0..5).for_each(|_| counter.add().unwrap());
    let whole = fs::metadata(with_suffix(&counter.path, ".log")).unwrap().len();
    cut(&with_suffix(&counter.path, ".log"), bytes);
    let seen = counter.pool.flush().unwrap_err();
    let Error::Cut { file, closed: false } = &seen else { panic!("{seen}") };
    assert_eq!((file.is_log, file.found), (true, bytes));
    assert!(seen.to_string().contains("close the pool"), "{seen}");
    // Content is lost however long the file is again.
    cut(&with_suffix(&counter.path, ".log"), whole);
    for _ in 0..3 {
        assert!(matches!(counter.add(), Err(Error::Cut { .. })));
    }
    let Counter { pool, dir: _dir, path, .. } = counter;
    let closed = pool.close().unwrap_err();
    assert!(closed.to_string().contains("without_log"), "{closed}");
    if D::NAME == <Decoupled>::NAME {
        return assert_eq!(counted::<D>(&path, options.without_log(true)), 8);
    }
    // Never marked as closed: these designs write words to the heap's file by what the log says.
    let found = lastword::inspect(&path);
    assert!(!found.as_ref().is_ok_and(|info| info.clean), "{} {bytes}: {found:?}", D::NAME);
}

#[test]
fn cut_log_is_reported_and_loses_nothing_silently() {
    for bytes in [0, 8192, 100_000] {
        every_durable!(cut_log(bytes));
    }
}

/// The last page of the heap: no transaction touches it, which on mapped media would be `SIGBUS`.
fn cut_heap<D: Design>() {
    for medium in [Medium::File, EMULATED, Medium::PersistentCache] {
        let counter = Counter::<D>::new(options(medium));
        (0..5).for_each(|_| counter.add().unwrap());
        let bytes = fs::metadata(&counter.path).unwrap().len();
        cut(&counter.path, bytes - 4096);
        let seen = counter.pool.flush().unwrap_err();
        assert!(matches!(&seen, Error::Cut { file, .. } if !file.is_log), "{seen}");
        cut(&counter.path, bytes);
        assert!(matches!(counter.add(), Err(Error::Cut { .. })));
        let Counter { pool, dir: _dir, path, .. } = counter;
        let closed = pool.close().unwrap_err();
        assert!(matches!(closed, Error::Cut { closed: true, .. }), "{closed}");
        // Never marked as closed: zeros would pass for words.
        assert!(!lastword::inspect(&path).unwrap().clean);
    }
}

#[test]
fn cut_heap_is_reported_and_never_closed_cleanly() {
    every_durable!(cut_heap());
}

#[test]
fn bytes_at_the_end_are_cut_as_the_error_says() {
    for medium in [Medium::File, EMULATED] {
        let counter = Counter::<Decoupled>::new(options(medium));
        counter.add().unwrap();
        let Counter { pool, dir: _dir, path, .. } = counter;
        pool.close().unwrap();
        for file in [path.clone(), with_suffix(&path, ".log")] {
            let Ok(found) = fs::metadata(&file) else { continue };
            let bytes = found.len();
            cut(&file, bytes + 4096);
            let refused = Pool::open(&path, options(medium)).unwrap_err().to_string();
            let command = format!("truncate -s {bytes} {}`", file.display());
            assert!(refused.contains(&command), "{refused}");
            cut(&file, bytes);
        }
        assert_eq!(counted::<Decoupled>(&path, options(medium)), 1);
    }
}

/// Zeros for all records of the log, as `fallocate --punch-hole` leaves them.
fn wipe_records(file: &Path, log_bytes: u64) {
    const HEAD: &[u8] = b"LWSLOTHD";
    let content = fs::read(file).unwrap();
    let starts = (0..content.len()).step_by(4096);
    let first = starts.into_iter().find(|at| content[*at..].starts_with(HEAD));
    // Only slot 0 has a head before its first truncation; two copies, then records.
    let first = first.unwrap_or(0) / 8192 * 8192 + 8192;
    let file = fs::OpenOptions::new().write(true).open(file).unwrap();
    let zeros = vec![0; (log_bytes as usize).min(content.len() - first)];
    file.write_all_at(&zeros, first as u64).unwrap();
}

fn wipe_log<D: Design>() {
    let options = options(Medium::File);
    let counter = Counter::<D>::new(options);
    (0..3).for_each(|_| counter.add().unwrap());
    wipe_records(&with_suffix(&counter.path, ".log"), u64::MAX >> 1);
    // The log is full in the end; then records are read back.
    let failed = (0..1000).find_map(|_| counter.add().err()).expect("the log is read back");
    let Error::Poisoned { cause } = &failed else { panic!("{failed}") };
    assert!(matches!(**cause, Error::Changed { .. }), "{failed}");
    let shown = failed.to_string();
    assert!(shown.contains("test.pool.log") && shown.contains("may be lost"), "{shown}");
    assert!(counter.pool.flush().is_err());
    assert!(counter.pool.close().is_err());
    assert!(!lastword::inspect(&counter.path).is_ok_and(|info| info.clean));
}

#[test]
fn wiped_log_is_an_error_when_it_is_truncated() {
    wipe_log::<Redo>();
    wipe_log::<Snapshot>();
}

fn shortened_log<D: Design>() {
    let counter = Counter::<D>::new(options(Medium::File));
    (0..3).for_each(|_| counter.add().unwrap());
    let log = with_suffix(&counter.path, ".log");
    let fails = || {
        cut(&log, 16384);
        counter.add().err()
    };
    let failed = (0..1000).find_map(|_| fails()).expect("the cut is seen");
    let is_cut = match &failed {
        Error::Cut { .. } => true,
        Error::Poisoned { cause } => {
            matches!(**cause, Error::Changed { .. } | Error::Medium(MediumError::Truncated { .. }))
        }
        _ => false,
    };
    assert!(is_cut, "{failed}");
    assert!(counter.pool.close().is_err());
}

#[test]
fn log_cut_again_and_again_never_panics() {
    every_durable!(shortened_log());
}
