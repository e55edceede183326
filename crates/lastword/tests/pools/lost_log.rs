//! Pools whose log file is lost or damaged.
//!
//! After a clean shutdown the heap image is complete, so `without_log` opens the pool with a new
//! log. Otherwise the log may hold transactions that the heap image misses, and opening is refused.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use lastword::{
    CheckOptions, Decoupled, Design, Error, HeapAtRest, LogMismatch, Objects, Options, Pool,
    Problem, Ptr, Severity,
};
use tempfile::TempDir;

fn options() -> Options {
    Options::new().bytes(1 << 20).log_bytes(256 << 10).ring_entries(1 << 10)
}

fn log_of(path: &Path) -> PathBuf {
    path.with_extension("pool.log")
}

/// Creates a pool of one object, then closes or abandons it.
fn create<D: Design>(closes: bool) -> (TempDir, PathBuf, Ptr<u64>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.pool");
    let pool = Pool::<D>::create_as(&path, options()).unwrap();
    let done = pool.run(|tx| tx.alloc(42_u64)).unwrap();
    done.ticket.wait().unwrap();
    let object = done.value;
    if closes {
        pool.close().unwrap()
    } else {
        pool.abandon()
    }
    (dir, path, object)
}

/// Loses or damages a log. Returns a test of the reported reason, or `None` if the log is missing.
type Lose = fn(&Path) -> Option<fn(&LogMismatch) -> bool>;

const WAYS: [Lose; 5] = [
    |log| {
        fs::remove_file(log).unwrap();
        None
    },
    |log| {
        fs::write(log, vec![0; fs::metadata(log).unwrap().len() as usize]).unwrap();
        Some(|why| matches!(why, LogMismatch::Damaged))
    },
    |log| {
        let bytes = fs::read(log).unwrap();
        fs::write(log, &bytes[..bytes.len() - 4096]).unwrap();
        Some(|why| matches!(why, LogMismatch::Length { .. }))
    },
    |log| {
        fs::write(log, "").unwrap();
        Some(|why| matches!(why, LogMismatch::Length { found: 0, .. }))
    },
    |log| {
        let (_dir, other, _) = create::<Decoupled>(true);
        fs::copy(log_of(&other), log).unwrap();
        Some(|why| matches!(why, LogMismatch::OtherPool { .. }))
    },
];

fn files(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(path.parent().unwrap()).unwrap();
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

/// Expects that every entry point reports the lost log with its remedy and changes no file.
fn assert_reported<D: Design>(path: &Path, why: Option<fn(&LogMismatch) -> bool>) {
    let before = files(path);
    let error = Pool::<D>::open_as(path, options()).unwrap_err();
    match (&error, why) {
        (Error::LogMissing { needed_after: None, .. }, None) => {}
        (Error::WrongLog { why, needed_after: None, .. }, Some(fits)) if fits(why) => {}
        _ => panic!("{error}"),
    }
    let text = error.to_string();
    assert!(text.contains("heap is whole") && text.contains("`without_log`"), "{text}");
    let report = lastword::check(path).unwrap();
    assert_eq!((report.severity(), report.opens()), (Severity::Refused, false));
    assert!(report.findings.iter().all(|one| one.problem.affected().contains("heap is whole")));
    assert!(report.findings.iter().all(|one| one.problem.remedy().contains("--without-log")));
    let command = format!("lastword pool check --repair --without-log -- '{}'", path.display());
    assert!(text.contains(&command), "{text}");
    assert!(report.findings.iter().all(|one| one.remedy().contains(&command)));
    assert_eq!(lastword::inspect(path).unwrap_err().to_string(), text);
    // A dump reads the heap image alone.
    assert_eq!(HeapAtRest::load(path).unwrap().objects().count(), 1);
    let repair = lastword::repair(path).unwrap();
    assert!(repair.fixed.is_empty() && !repair.after.opens());
    assert!(files(path) == before, "a refused call changed a file");
}

fn opens_without_log<D: Design>() {
    for (number, lose) in WAYS.into_iter().enumerate() {
        for repairs in [false, true] {
            let (_dir, path, object) = create::<D>(true);
            let why = lose(&log_of(&path));
            let lost = fs::read(log_of(&path)).ok();
            assert_reported::<D>(&path, why);
            let expected = CheckOptions::new().without_log(true);
            let report = lastword::check_with(&path, &expected).unwrap();
            assert!(report.opens() && report.severity() == Severity::Spare);
            assert!(matches!(report.findings[..], [ref one] if one.problem.name() == "log_lost"));
            let info = lastword::inspect_with(&path, &expected).unwrap();
            assert!(info.clean && info.log_path.is_none());
            let options = match repairs {
                true => {
                    let repair = lastword::repair_with(&path, &expected).unwrap();
                    let fixed = &repair.fixed[..];
                    assert!(
                        matches!(fixed, [one] if matches!(one.problem, Problem::LogLost { .. }))
                    );
                    assert!(repair.after.findings.is_empty(), "{:?}", repair.after.findings);
                    options()
                }
                false => options().without_log(true),
            };
            let pool = Pool::<D>::open_as(&path, options).unwrap();
            assert_eq!(pool.run(|tx| tx.get(object)).unwrap().value, 42);
            pool.run(|tx| tx.set(object, 43)).unwrap().ticket.wait().unwrap();
            pool.abandon();
            // Recovery from the new log needs no option.
            let pool = Pool::<D>::open_as(&path, self::options()).unwrap();
            assert_eq!(pool.run(|tx| tx.get(object)).unwrap().value, 43);
            pool.close().unwrap();
            let kept = fs::read(path.with_extension("pool.log.lost")).ok();
            assert!(kept == lost, "case {number}: the damaged log is not kept");
        }
    }
}

#[test]
fn cleanly_closed_pool_without_log_opens_on_demand() {
    every_durable!(opens_without_log());
}

fn is_refused<D: Design>() {
    for lose in WAYS {
        let (_dir, path, _) = create::<D>(false);
        lose(&log_of(&path));
        let before = files(&path);
        let options = options().without_log(true);
        let error = Pool::<D>::open_as(&path, options.clone()).unwrap_err();
        let needed = match &error {
            Error::LogMissing { needed_after, .. } | Error::WrongLog { needed_after, .. } => {
                *needed_after
            }
            error => panic!("{error}"),
        };
        assert!(needed.is_some(), "{error}");
        assert!(error.to_string().contains("was not closed cleanly"), "{error}");
        let expected = CheckOptions::from(&options);
        let report = lastword::check_with(&path, &expected).unwrap();
        assert_eq!(report.refusal.unwrap().to_string(), error.to_string());
        let repair = lastword::repair_with(&path, &expected).unwrap();
        assert!(repair.fixed.is_empty());
        assert!(HeapAtRest::load(&path).is_err());
        assert!(files(&path) == before, "a refused call changed a file");
    }
}

#[test]
fn abandoned_pool_without_log_stays_refused() {
    every_durable!(is_refused());
}

const OBJECTS: u64 = 200;

/// Creates a pool of `OBJECTS` objects of value 1, closes it, sets each to 2, and abandons it.
fn create_many<D: Design>() -> (TempDir, PathBuf) {
    let (dir, path, _) = create::<D>(true);
    let pool = Pool::<D>::open_as(&path, options()).unwrap();
    let made: Vec<Ptr<u64>> =
        (0..OBJECTS).map(|_| pool.run(|tx| tx.alloc(1_u64)).unwrap().value).collect();
    pool.close().unwrap();
    let pool = Pool::<D>::open_as(&path, options()).unwrap();
    for (number, object) in made.into_iter().enumerate() {
        let done = pool.run(|tx| tx.set(object, 2)).unwrap();
        // Waits, so that the log has several groups.
        if number % 10 == 0 {
            done.ticket.wait().unwrap();
        }
    }
    pool.flush().unwrap();
    pool.abandon();
    (dir, path)
}

fn shown(path: &Path) -> (Vec<u64>, Error) {
    let (heap, report) = HeapAtRest::salvage(path).unwrap();
    let whole = heap.objects().filter(|live| heap.is_whole(live));
    let values = whole.flat_map(|live| heap.words(&live).collect::<Vec<_>>()).collect();
    (values, report.refusal.expect("the pool does not open"))
}

fn is_salvaged<D: Design>() {
    for lose in WAYS {
        let (_dir, path) = create_many::<D>();
        lose(&log_of(&path));
        let before = files(&path);
        let (values, refusal) = shown(&path);
        assert!(matches!(refusal, Error::LogMissing { .. } | Error::WrongLog { .. }));
        assert_eq!(values.len() as u64, OBJECTS + 1);
        assert!(values.iter().all(|value| [1, 2, 42].contains(value)), "{values:?}");
        assert!(files(&path) == before);
    }
}

#[test]
fn heap_image_without_its_log_is_salvaged() {
    every_durable!(is_salvaged());
}

/// A damaged page is not shown as whole, although the log cannot be replayed.
#[test]
fn damaged_page_beside_damaged_log_is_left_out() {
    use std::os::unix::fs::FileExt;
    let (_dir, path) = create_many::<Decoupled>();
    let damage = |path: &Path, at: u64| {
        let file = fs::File::options().write(true).open(path).unwrap();
        file.write_all_at(&[0xa5; 8], at).unwrap();
    };
    // Behind the allocator's own 64 KiB, where the first objects are.
    let heap_offset = fs::metadata(&path).unwrap().len() - (1 << 20);
    damage(&path, heap_offset + (65 << 10));
    // The first group of the log.
    damage(&log_of(&path), 8192 + 8);
    let (values, refusal) = shown(&path);
    assert!(matches!(refusal, Error::DamagedLog { .. }), "{refusal}");
    assert!(values.len() < OBJECTS as usize);
    assert!(values.iter().all(|value| [1, 2, 42].contains(value)), "{values:?}");
}

/// The groups before a damaged one are replayed.
#[test]
fn groups_before_damage_are_salvaged() {
    let (_dir, path) = create_many::<Decoupled>();
    let log = fs::read(log_of(&path)).unwrap();
    let (mut fewest, mut most) = (OBJECTS, 0);
    for block in (8192..log.len()).step_by(8 << 10) {
        let mut damaged = log.clone();
        damaged[block + 9] ^= 1;
        fs::write(log_of(&path), damaged).unwrap();
        let report = lastword::check(&path).unwrap();
        if !matches!(report.refusal, Some(Error::DamagedLog { .. })) {
            continue;
        }
        let (values, _) = shown(&path);
        assert_eq!(values.len() as u64, OBJECTS + 1);
        let new = values.iter().filter(|value| **value == 2).count() as u64;
        (fewest, most) = (fewest.min(new), most.max(new));
    }
    assert!(fewest < most && most > 0, "{fewest} to {most} values from the log");
}

#[test]
fn log_of_newer_program_is_never_replaced() {
    let (_dir, path, _) = create::<Decoupled>(true);
    let log = log_of(&path);
    let mut bytes = fs::read(&log).unwrap();
    bytes[8] = 9; // the version
    let crc = crc32c::crc32c(&bytes[..504]);
    bytes[504..508].copy_from_slice(&crc.to_le_bytes());
    fs::write(&log, &bytes).unwrap();
    let error = Pool::open(&path, options().without_log(true)).unwrap_err();
    let newer = matches!(error, Error::WrongLog { why: LogMismatch::Version { .. }, .. });
    assert!(newer && !error.to_string().contains("without_log"), "{error}");
    assert!(fs::read(&log).unwrap() == bytes);
}

#[test]
fn earlier_lost_log_is_not_overwritten() {
    let (_dir, path, _) = create::<Decoupled>(true);
    let kept = |number: &str| fs::read(path.with_extension(format!("pool.log.lost{number}"))).ok();
    for content in ["a", "b", "c"] {
        fs::write(log_of(&path), content).unwrap();
        Pool::open(&path, options().without_log(true)).unwrap().close().unwrap();
    }
    let all = ["", "1", "2"].map(kept);
    assert_eq!(all, [b"a", b"b", b"c"].map(|content| Some(content.to_vec())));
}

#[test]
fn without_log_leaves_sound_pools_unchanged() {
    let emulated = lastword::Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
    for medium in [lastword::Medium::File, emulated] {
        for closes in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("test.pool");
            let options = options().without_log(true);
            let pool = Pool::create(&path, options.clone().medium(medium)).unwrap();
            let object = pool.run(|tx| tx.alloc(42_u64)).unwrap();
            object.ticket.wait().unwrap();
            let object = object.value;
            if closes {
                pool.close().unwrap()
            } else {
                pool.abandon()
            }
            let names = fs::read_dir(dir.path()).unwrap().count();
            let pool = Pool::open(&path, options).unwrap();
            assert_eq!(pool.run(|tx| tx.get(object)).unwrap().value, 42);
            pool.close().unwrap();
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), names);
        }
    }
}
