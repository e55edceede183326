//! Damaged, foreign and misused pool files. Each is refused with a specific error, and the refusal
//! leaves every file as it was.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use lastword::{Error, HeapAtRest, LogMismatch, Medium, Objects, Options, Pool};
use tempfile::TempDir;

/// Checks a pool without changing it and expects that it is sound.
fn checked(path: &Path) -> Result<lastword::Checked, lastword::Error> {
    lastword::check(path)?.sound()
}

const EMULATED: Medium = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };

fn options() -> Options {
    Options::new().bytes(1 << 20).log_bytes(128 << 10).ring_entries(1 << 10)
}

/// Creates a pool of one committed object and abandons it.
fn create(options: Options) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.pool");
    let pool = Pool::create(&path, options).unwrap();
    pool.run(|tx| tx.alloc(7_u64)).unwrap().ticket.wait().unwrap();
    pool.abandon();
    (dir, path)
}

fn log_of(path: &Path) -> PathBuf {
    path.with_extension("pool.log")
}

/// Expects that open and check refuse the pool with the same error and change no file. Returns the
/// error and its text.
fn refused(path: &Path) -> (Error, String) {
    let before: Vec<_> = [path.to_path_buf(), log_of(path)].map(|file| fs::read(file).ok()).into();
    let error = Pool::open(path, options()).expect_err("open accepts the pool");
    let shown = checked(path).expect_err("check accepts the pool");
    assert_eq!(error.to_string(), shown.to_string(), "check and open disagree");
    let after: Vec<_> = [path.to_path_buf(), log_of(path)].map(|file| fs::read(file).ok()).into();
    assert!(before == after, "a refused open changed a file");
    let text = error.to_string();
    assert!(text.contains("test.pool"), "no file name in: {text}");
    (error, text)
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

#[test]
fn zeros_or_garbage_are_not_a_pool() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.pool");
    for bytes in [vec![], vec![0; 100], vec![0; 1 << 20], (0..1 << 16).map(|i| i as u8).collect()] {
        fs::write(&path, bytes).unwrap();
        let (error, text) = refused(&path);
        assert!(matches!(error, Error::NotAPool { .. }), "{text}");
    }
}

#[test]
fn truncated_pool_is_refused() {
    for (options, lengths) in [
        (options(), [8192, (2 << 20) + 4096, (3 << 20) - 1]),
        (options().medium(EMULATED), [8192, 2 << 20, (5 << 20) - 1]),
        (options().medium(Medium::PersistentCache), [8192, 2 << 20, (5 << 20) - 1]),
    ] {
        for length in lengths {
            let (_dir, path) = create(options.clone());
            change(&path, |bytes| bytes.truncate(length));
            let (error, text) = refused(&path);
            assert!(matches!(error, Error::Truncated { .. }), "{text}");
        }
    }
}

/// Options for each medium that every machine has.
fn media() -> [Options; 3] {
    [options(), options().medium(EMULATED), options().medium(Medium::PersistentCache)]
}

#[test]
fn single_damaged_superblock_is_tolerated() {
    for (created_as, copy) in media().into_iter().flat_map(|one| [(one.clone(), 0), (one, 4096)]) {
        for opened_before in [false, true] {
            let (_dir, path) = create(created_as.clone());
            if opened_before {
                Pool::open(&path, options()).unwrap().abandon();
            }
            change(&path, |bytes| bytes[copy + 100] ^= 1);
            assert_eq!(checked(&path).unwrap().usage.objects, 1);
            Pool::open(&path, options()).unwrap().close().unwrap();
            assert_eq!(checked(&path).unwrap().usage.objects, 1, "the object is lost");
        }
    }
    let (_dir, path) = create(options());
    change(&path, |bytes| (bytes[100], bytes[4196]) = (bytes[100] ^ 1, bytes[4196] ^ 1));
    assert!(matches!(refused(&path).0, Error::NotAPool { .. }));
}

#[test]
fn unknown_version_design_or_medium_is_refused() {
    let (design, medium) = (u64::from_le_bytes(*b"newdesig"), u64::from_le_bytes(*b"clay\0\0\0\0"));
    for (word, value) in [(1, 5_u64), (6, design), (21, medium)] {
        let (_dir, path) = create(options());
        // A newer program writes one copy of the superblock at a time, so one new copy suffices.
        for copy in if word == 1 { vec![4096] } else { vec![0, 4096] } {
            change(&path, |bytes| set_word(&mut bytes[copy..], word, value));
        }
        let (error, text) = refused(&path);
        let fits = match word {
            1 => matches!(error, Error::FormatVersion { .. }),
            6 => matches!(error, Error::UnknownDesign { .. }),
            _ => matches!(error, Error::UnknownMedium { .. }),
        };
        assert!(fits, "{text}");
    }
}

/// Sets a word of a superblock or log head and updates the checksum.
pub(crate) fn set_word(block: &mut [u8], word: usize, value: u64) {
    block[8 * word..8 * word + 8].copy_from_slice(&value.to_le_bytes());
    let crc = crc32c::crc32c(&block[..504]);
    block[504..508].copy_from_slice(&crc.to_le_bytes());
}

/// Random words with valid checksums in superblocks and log heads give a pool or an error.
#[test]
fn random_superblock_words_never_panic() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let (mut opened, mut refused) = (0, 0);
    let (_dir, path) = create(options());
    let saved = [path.clone(), log_of(&path)].map(|file| (fs::read(&file).unwrap(), file));
    for _ in 0..400 {
        for (bytes, file) in &saved {
            fs::write(file, bytes).unwrap();
        }
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        let file = if next() % 4 == 0 { log_of(&path) } else { path.clone() };
        let (word, shift) = (next() as usize % 21, next() % 64);
        let value = if next() % 2 == 0 { next() >> shift } else { u64::MAX - (next() % 3) };
        change(&file, |bytes| {
            for copy in [0, 4096] {
                set_word(&mut bytes[copy..], word, value);
            }
        });
        let _ = lastword::check(&path);
        match Pool::open(&path, options()) {
            Ok(pool) => {
                let _ = pool.run(|tx| tx.alloc(1_u64));
                opened += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert!(opened > 10 && refused > 10, "{opened} opened, {refused} refused");
}

#[test]
fn missing_damaged_or_foreign_log_is_refused() {
    let (_dir, path) = create(options());
    let (_other_dir, other) = create(options());
    let log = log_of(&path);
    let own = fs::read(&log).unwrap();
    fs::remove_file(&log).unwrap();
    assert!(matches!(refused(&path).0, Error::LogMissing { .. }));
    fs::copy(log_of(&other), &log).unwrap();
    let (error, text) = refused(&path);
    let foreign = matches!(error, Error::WrongLog { why: LogMismatch::OtherPool { .. }, .. });
    assert!(foreign, "{text}");
    fs::write(&log, &own[..own.len() - 4096]).unwrap();
    let (error, text) = refused(&path);
    assert!(matches!(error, Error::WrongLog { why: LogMismatch::Length { .. }, .. }), "{text}");
    fs::write(&log, &own).unwrap();
    change(&log, |bytes| [30, 4096 + 30].into_iter().for_each(|at| bytes[at] ^= 77));
    let (error, text) = refused(&path);
    assert!(matches!(error, Error::WrongLog { why: LogMismatch::Damaged, .. }), "{text}");
    fs::write(&log, &own).unwrap();
    Pool::open(&path, options()).unwrap().close().unwrap();
}

#[test]
fn log_of_other_generation_is_refused() {
    let (_dir, path) = create(options());
    let (old_pool, old_log) = (fs::read(&path).unwrap(), fs::read(log_of(&path)).unwrap());
    for _ in 0..2 {
        Pool::open(&path, options()).unwrap().abandon();
    }
    let new_log = fs::read(log_of(&path)).unwrap();
    fs::write(log_of(&path), &old_log).unwrap();
    let (error, text) = refused(&path);
    let why = matches!(error, Error::WrongLog { why: LogMismatch::Generation { .. }, .. });
    assert!(why, "an older log: {text}");
    fs::write(&path, &old_pool).unwrap();
    fs::write(log_of(&path), &new_log).unwrap();
    refused(&path);
    fs::write(log_of(&path), &old_log).unwrap();
    Pool::open(&path, options()).unwrap().close().unwrap();
}

/// A backup of the pool's file alone is put back beside the log of a later opening.
#[test]
fn older_copy_of_pool_file_is_refused() {
    let end =
        |pool: Pool, closes: bool| if closes { pool.close().unwrap() } else { pool.abandon() };
    for (closed_before, closed_after) in
        [(false, false), (false, true), (true, false), (true, true)]
    {
        let (_dir, path) = create(options());
        end(Pool::open(&path, options()).unwrap(), closed_before);
        let old = fs::read(&path).unwrap();
        let pool = Pool::open(&path, options()).unwrap();
        let added = pool.run(|tx| tx.alloc(8_u64)).unwrap();
        added.ticket.wait().unwrap();
        let added = added.value;
        end(pool, closed_after);
        let new = fs::read(&path).unwrap();
        fs::write(&path, &old).unwrap();
        let (error, text) = refused(&path);
        let Error::WrongLog { why: LogMismatch::Generation { found, expected }, .. } = error else {
            panic!("{text}")
        };
        assert_eq!(found, expected + 1);
        assert!(text.contains("the pool's file is an older copy"), "{text}");
        // Neither a dump nor an export shows the older copy as the pool.
        let loaded = HeapAtRest::load(&path).unwrap_err();
        assert_eq!(loaded.to_string(), text);
        let (_, report) = HeapAtRest::salvage(&path).unwrap();
        assert_eq!(report.refusal.unwrap().to_string(), text);
        fs::write(&path, &new).unwrap();
        let pool = Pool::open(&path, options()).unwrap();
        assert_eq!(pool.run(|tx| tx.get(added)).unwrap().value, 8);
    }
}

#[test]
fn log_without_its_pool_is_kept_and_named() {
    let (dir, path) = create(options());
    let away = dir.path().join("away");
    fs::rename(&path, &away).unwrap();
    let (error, text) = refused(&path);
    assert!(matches!(error, Error::OnlyLog { .. }) && text.contains("put the pool's file back"));
    let log = fs::read(log_of(&path)).unwrap();
    let created = Pool::create(&path, options()).map(drop).unwrap_err();
    assert_eq!(created.to_string(), text);
    assert!(!path.exists() && fs::read(log_of(&path)).unwrap() == log);
    fs::rename(&away, &path).unwrap();
    Pool::open(&path, options()).unwrap().close().unwrap();
}

#[test]
fn second_opener_is_refused() {
    let (_dir, path) = create(options());
    let pool = Pool::open(&path, options()).unwrap();
    let text = Pool::open(&path, options()).unwrap_err().to_string();
    assert!(text.contains("in use"), "{text}");
    assert!(lastword::repair(&path).unwrap_err().to_string().contains("in use"));
    checked(&path).unwrap();
    pool.run(|tx| tx.alloc(8_u64)).unwrap().ticket.wait().unwrap();
    pool.close().unwrap();
    checked(&path).unwrap();
}

#[test]
fn create_over_existing_file_is_refused() {
    let (_dir, path) = create(options());
    let before = fs::read(&path).unwrap();
    let text = Pool::create(&path, options()).unwrap_err().to_string();
    assert!(text.contains("exists"), "{text}");
    assert!(before == fs::read(&path).unwrap());
}

#[test]
fn create_replaces_only_empty_leftover_log() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.pool");
    // An interrupted creation leaves a log without records: a crash between its two renames, or a
    // kill while a failed creation removes its files.
    Pool::create(&path, options()).unwrap().close().unwrap();
    fs::remove_file(&path).unwrap();
    let pool = Pool::create(&path, options()).unwrap();
    pool.run(|tx| tx.alloc(8_u64)).unwrap().ticket.wait().unwrap();
    pool.close().unwrap();
    // A log with records belongs to a pool that was lost, so it must be kept.
    fs::remove_file(&path).unwrap();
    let before = fs::read(log_of(&path)).unwrap();
    assert!(Pool::create(&path, options()).unwrap_err().to_string().contains("test.pool.log"));
    assert!(fs::read(log_of(&path)).unwrap() == before);
}

#[test]
fn other_layout_version_or_medium_is_refused() {
    let (_dir, path) = create(options().layout("bank", 3));
    for (name, version) in [("bank", 4), ("shop", 3), ("", 0)] {
        let error = Pool::open(&path, options().layout(name, version)).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Layout { .. }) && text.contains("version 3"), "{text}");
    }
    let error = Pool::open(&path, options().layout("bank", 3).medium(EMULATED)).unwrap_err();
    assert!(matches!(error, Error::WrongMedium { own: "file" }));
    Pool::open(&path, options().layout("bank", 3)).unwrap().close().unwrap();
}

#[test]
fn mapped_pool_remembers_its_last_medium() {
    let (_dir, path) = create(options().medium(EMULATED));
    Pool::open(&path, options().medium(Medium::PersistentCache)).unwrap().close().unwrap();
    assert_eq!(lastword::inspect(&path).unwrap().medium, Some(Medium::PersistentCache));
    let pool = Pool::open(&path, options()).unwrap();
    assert_eq!(pool.info().medium, Some(Medium::PersistentCache));
    pool.close().unwrap();
    assert!(Pool::open(&path, options().medium(Medium::File)).is_err());
}

#[test]
fn create_without_dax_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.pool");
    match Pool::create(&path, options().medium(Medium::Dax)) {
        // This machine has persistent memory, so there is no refusal to test.
        Ok(pool) => return pool.close().unwrap(),
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains("test.pool") && text.contains("-o dax"), "{text}");
        }
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    // The default medium there is `file`. A mapped pool refuses to reopen on `dax`.
    let (_dir, path) = create(options());
    assert_eq!(lastword::inspect(&path).unwrap().medium, Some(Medium::File));
    let (_dir, path) = create(options().medium(EMULATED));
    let before = fs::read(&path).unwrap();
    assert!(Pool::open(&path, options().medium(Medium::Dax)).is_err());
    assert!(fs::read(&path).unwrap() == before, "a refused open changed the file");
}

#[test]
fn check_finds_damaged_allocator() {
    let (_dir, path) = create(options().page_checksums(false));
    Pool::open(&path, options()).unwrap().close().unwrap();
    checked(&path).unwrap();
    change(&path, |bytes| bytes[(2 << 20) + 16] ^= 1);
    let error = checked(&path).unwrap_err();
    assert!(matches!(error, Error::DamagedHeap { .. }), "{error}");
}
