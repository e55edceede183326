//! Pool files that another program truncates, zeroes or extends while the pool is open.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use faults::{Call, Failing, Fault, Faults};
use lastword::{
    Decoupled, Design, Error, Medium, MediumError, Objects, Pool, Redo, Snapshot, System, TxId,
};

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
    let says = if D::READS_LOG { "copy the objects" } else { "close the pool" };
    assert!(file.is_needed == D::READS_LOG && seen.to_string().contains(says), "{seen}");
    // Extending the file again does not restore the lost bytes.
    cut(&with_suffix(&counter.path, ".log"), whole);
    for _ in 0..3 {
        assert!(matches!(counter.add(), Err(Error::Cut { .. })));
    }
    let Counter { pool, dir: _dir, path, .. } = counter;
    let closed = pool.close().unwrap_err();
    let Error::Cut { file, closed: true } = &closed else { panic!("{closed}") };
    assert_eq!(file.is_clean, !D::READS_LOG);
    if !D::READS_LOG {
        assert!(closed.to_string().contains("without_log"), "{closed}");
        match Pool::<D>::open_as(&path, options.clone()) {
            Ok(pool) if bytes > 0 => pool.close().unwrap(),
            Err(Error::WrongLog { needed_after: None, .. }) if bytes == 0 => {}
            opened => panic!("{} {bytes}: {opened:?}", D::NAME),
        }
        return assert_eq!(counted::<D>(&path, options.without_log(true)), 8);
    }
    // The pool must not count as cleanly closed: these designs apply log records to the heap image,
    // so it may miss transactions.
    assert!(closed.to_string().contains("restore both files"), "{closed}");
    match (bytes, lastword::inspect(&path)) {
        (0, Err(Error::WrongLog { needed_after: Some(_), .. })) => {}
        // The log is zeros up to the records that were added after the cut.
        (8192, Err(Error::DamagedLog { .. })) => {}
        // The cut is after the records of the one worker.
        (100_000, Ok(info)) => assert!(!info.clean),
        (_, found) => panic!("{} {bytes}: {found:?}", D::NAME),
    }
}

#[test]
fn cut_log_is_reported_and_loses_nothing_silently() {
    for bytes in [0, 8192, 100_000] {
        every_durable!(cut_log(bytes));
    }
}

/// Cuts the heap's last page off. No transaction touches that page: on mapped media an access would
/// raise SIGBUS.
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
        let Error::Cut { file, closed: true } = &closed else { panic!("{closed}") };
        assert!(file.is_needed && !file.is_clean && !file.is_log);
        // The pool must not count as cleanly closed: the extended page holds zeros, which would
        // pass for data.
        assert!(!lastword::inspect(&path).unwrap().clean);
    }
}

#[test]
fn cut_heap_is_reported_and_never_closed_cleanly() {
    every_durable!(cut_heap());
}

/// A callback cuts the heap's file: it runs while `close` makes its transaction durable, after the
/// first look at the files.
fn cut_while_closing(medium: Medium, end: impl FnOnce(Pool)) {
    let counter = Counter::<Decoupled>::new(options(medium).background(false));
    let (count, path) = (counter.count, counter.path.clone());
    let bytes = fs::metadata(&path).unwrap().len();
    let ticket = counter.pool.run(|tx| tx.update(count, |count| count + 1)).unwrap().ticket;
    let cuts = move |outcome: Result<(), Error>| {
        outcome.unwrap();
        cut(&path, bytes - 4096);
    };
    ticket.on_durable(cuts).unwrap();
    let Counter { pool, dir: _dir, path, .. } = counter;
    assert_eq!(fs::metadata(&path).unwrap().len(), bytes);
    end(pool);
    assert_eq!(fs::metadata(&path).unwrap().len(), bytes - 4096);
    // As long again, with zeros: only the mark could show it.
    cut(&path, bytes);
    assert!(!lastword::inspect(&path).unwrap().clean);
}

#[test]
fn heap_cut_while_closing_is_not_closed_cleanly() {
    for medium in [EMULATED, Medium::PersistentCache] {
        cut_while_closing(medium, |pool| {
            let closed = pool.close().unwrap_err();
            let Error::Cut { file, closed: true } = &closed else { panic!("{closed}") };
            assert!(!file.is_clean && closed.to_string().contains("as a crash"), "{closed}");
        });
        cut_while_closing(medium, drop);
    }
    // Writing the heap's file looks at its length, too.
    cut_while_closing(Medium::File, |pool| {
        let closed = pool.close().unwrap_err();
        let Error::Poisoned { cause } = &closed else { panic!("{closed}") };
        assert!(matches!(**cause, Error::Medium(MediumError::Truncated { .. })), "{closed}");
    });
}

/// Another program cuts the heap's file between the last look at its length and the mark.
///
/// The mark is the last write of `close`, so a first run counts the writes.
fn cut_before_mark<D: Design>(medium: Medium, left: u64) {
    let mut nth = u64::MAX;
    loop {
        let faults = Faults::nth(nth, Fault::Cut(left), false);
        let system = System::kernel().failing(Arc::clone(&faults));
        let options = options(medium).background(false);
        let counter = Counter::<D>::new(options.clone().system(system));
        counter.add().unwrap();
        let Counter { pool, dir: _dir, path, .. } = counter;
        let closed = pool.close();
        if nth == u64::MAX {
            closed.unwrap();
            nth = faults.calls() - 1;
            continue;
        }
        assert_eq!(faults.failed(), [Call::Write]);
        // `is_clean`: the pool has the mark, so the cut came after the look.
        let closed = closed.unwrap_err();
        let Error::Cut { file, closed: true } = &closed else { panic!("{closed}") };
        assert!(file.is_clean && !file.is_log && closed.to_string().contains("cut"), "{closed}");
        let opened = Pool::<D>::open_as(&path, options).map(drop).unwrap_err().to_string();
        assert!(opened.contains("test.pool") && opened.contains("restore"), "{opened}");
        return assert!(!lastword::check(&path).is_ok_and(|report| report.sound().is_ok()));
    }
}

fn heap_cut_before_mark<D: Design>() {
    for medium in [Medium::File, EMULATED, Medium::PersistentCache] {
        for left in [0, 1 << 20] {
            cut_before_mark::<D>(medium, left);
        }
    }
}

#[test]
fn heap_cut_just_before_clean_mark_is_refused_at_open() {
    every_durable!(heap_cut_before_mark());
}

/// Runs the command in backticks that begins so, as a user runs it from a message.
fn run_advice(text: &str, begin: &str) {
    let (_, rest) = text.split_once(&format!("`{begin}")).expect(text);
    let (rest, _) = rest.split_once('`').expect(text);
    let done = Command::new("sh").args(["-c", &format!("{begin}{rest}")]).status().unwrap();
    assert!(done.success(), "{text}");
}

#[test]
fn appended_bytes_are_cut_by_advised_command() {
    for medium in [Medium::File, EMULATED] {
        let counter = Counter::<Decoupled>::new(options(medium));
        counter.add().unwrap();
        let Counter { pool, dir, path: old, .. } = counter;
        pool.close().unwrap();
        // Without quotes a shell would cut these files instead.
        let path = dir.path().join("it's one.pool");
        let others = ["it's", "its", "one.pool"].map(|name| dir.path().join(name));
        others.iter().for_each(|other| fs::write(other, [1; 64]).unwrap());
        fs::rename(&old, &path).unwrap();
        if medium == Medium::File {
            fs::rename(with_suffix(&old, ".log"), with_suffix(&path, ".log")).unwrap();
        }
        for file in [path.clone(), with_suffix(&path, ".log")] {
            let Ok(found) = fs::metadata(&file) else { continue };
            let bytes = found.len();
            cut(&file, bytes + 4096);
            let refused = Pool::open(&path, options(medium)).unwrap_err().to_string();
            run_advice(&refused, "truncate ");
            assert_eq!(fs::metadata(&file).unwrap().len(), bytes, "{refused}");
            if file == path {
                cut(&file, bytes + 4096);
                let report = lastword::check(&path).unwrap();
                run_advice(&report.findings[0].remedy(), "truncate ");
                assert_eq!(fs::metadata(&file).unwrap().len(), bytes);
            }
        }
        assert!(others.iter().all(|other| fs::read(other).unwrap() == [1; 64]));
        assert_eq!(counted::<Decoupled>(&path, options(medium)), 1);
    }
}

/// Zeroes all log records, as `fallocate --punch-hole` would.
fn wipe_records(file: &Path, log_bytes: u64) {
    const HEAD: &[u8] = b"LWSLOTHD";
    let content = fs::read(file).unwrap();
    let starts = (0..content.len()).step_by(4096);
    let first = starts.into_iter().find(|at| content[*at..].starts_with(HEAD));
    // Before the first truncation only slot 0 has a head: two copies, then its records.
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
    // The full log is truncated in the end, and truncation reads its records back.
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

/// The offset of slot 0's records in a file whose log was truncated before.
fn records_at(content: &[u8]) -> usize {
    let mut starts = (0..content.len()).step_by(4096).rev();
    // Only slot 0 has a head. The first truncation writes copy 1, just before the records.
    starts.find(|at| content[*at..].starts_with(b"LWSLOTHD")).expect("a head") + 4096
}

/// The first records of one wrap are written over those of the next one: whole records of this pool
/// and generation, at their places, of transactions that the heap image has.
fn wrap_comes_back<D: Design>(medium: Medium) {
    let counter = Counter::<D>::new(options(medium));
    let log = with_suffix(&counter.path, ".log");
    let log = if log.exists() { log } else { counter.path.clone() };
    (0..3).for_each(|_| counter.add().unwrap());
    let old = fs::read(&log).unwrap();
    while counter.pool.reproduced_id() == TxId::NONE {
        counter.add().unwrap();
    }
    (0..5).for_each(|_| counter.add().unwrap());
    let new = fs::read(&log).unwrap();
    let at = records_at(&new);
    // Two records, each of one block. The third one of the new wrap follows them.
    let bytes = if medium == Medium::File { 2 * 4096 } else { 2 * 64 };
    let (old, new) = (&old[at..at + bytes], &new[at..at + bytes]);
    assert!(old[..8] != [0; 8] && old != new, "{}: no second wrap", D::NAME);
    let file = fs::OpenOptions::new().write(true).open(&log).unwrap();
    file.write_all_at(old, at as u64).unwrap();
    let failed = (0..10_000).find_map(|_| counter.add().err()).expect("the log is read back");
    let Error::Poisoned { cause } = &failed else { panic!("{failed}") };
    let Error::Changed { path, at: found } = &**cause else { panic!("{failed}") };
    assert_eq!((path, *found), (&log, at as u64));
    assert!(counter.pool.close().is_err());
    assert!(!lastword::inspect(&counter.path).is_ok_and(|info| info.clean));
}

#[test]
fn record_of_an_earlier_wrap_is_an_error_when_it_is_truncated() {
    for medium in [Medium::File, EMULATED] {
        wrap_comes_back::<Redo>(medium);
        wrap_comes_back::<Snapshot>(medium);
    }
}

/// Cuts the log before some commits. Other commits write after its end, which leaves zeros before
/// them: the next truncation finds the file too short, or as long as it was and with zeros.
fn shortened_log<D: Design>(cuts: fn(u32) -> bool) {
    let counter = Counter::<D>::new(options(Medium::File));
    (0..3).for_each(|_| counter.add().unwrap());
    let log = with_suffix(&counter.path, ".log");
    let fails = |number| {
        if cuts(number) {
            cut(&log, 16384);
        }
        counter.add().err()
    };
    let failed = (0..1000).find_map(fails).expect("the cut is seen");
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
    let all: [fn(u32) -> bool; 3] = [|_| true, |number| number % 2 == 0, |number| number % 2 == 1];
    for cuts in all {
        every_durable!(shortened_log(cuts));
    }
}
