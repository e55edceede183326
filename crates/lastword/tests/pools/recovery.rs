//! Recovery of `decoupled`, with the persist and reproduce steps run by hand.
//!
//! Invariants: exactly the durable prefix of the transactions survives, a torn end of the log is
//! ignored, and recovery is idempotent.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::damaged::set_word;
use lastword::{
    Array, Error, LogDamage, Medium, Objects, OpeningStep, Options, Pool, Problem, Shadow, TxId,
};
use tempfile::TempDir;

/// Checks a pool without changing it and expects that it is sound.
fn checked(path: &Path) -> Result<lastword::Checked, lastword::Error> {
    lastword::check(path)?.sound()
}

const EMULATED: Medium = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
const CELLS: u64 = 64;

fn options() -> Options {
    let options = Options::new().bytes(1 << 20).log_bytes(128 << 10).ring_entries(1 << 10);
    options.background(false)
}

struct Place {
    _dir: TempDir,
    path: PathBuf,
    options: Options,
    cells: Array<u64>,
}

/// Creates and closes a pool of zeroed cells.
fn place(options: Options) -> Place {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.pool");
    let pool = Pool::create(&path, options.clone()).unwrap();
    let cells = pool.run(|tx| Array::create(tx, CELLS)).unwrap().value;
    pool.close().unwrap();
    Place { _dir: dir, path, options, cells }
}

impl Place {
    fn open(&self) -> Pool {
        Pool::open(&self.path, self.options.clone()).unwrap()
    }

    /// Writes `n` to three cells and to the first one, in one transaction.
    fn put(&self, pool: &Pool, n: u64) -> TxId {
        let done = pool.run(|tx| {
            for i in 0..3 {
                tx.set(self.cells.at((n * 5 + i * 7) % CELLS)?, n)?;
            }
            tx.set(self.cells.at(0)?, n)
        });
        done.unwrap().ticket.id()
    }

    /// On mapped media the witnesses say that the groups were durable, so the pool is damaged.
    /// Removes them, as a power failure does before the barriers of these groups.
    fn is_damaged_until_power_failure(&self) {
        if self.log().0 != self.path {
            return;
        }
        let error = Pool::open(&self.path, self.options.clone()).unwrap_err();
        let Error::DamagedLog { why: LogDamage::EndLost { last, .. }, .. } = error else {
            panic!("{error}");
        };
        let report = lastword::check(&self.path).unwrap();
        assert_eq!(report.refusal.map(|error| error.to_string()), Some(error.to_string()));
        let is_named = |problem: &Problem| match problem {
            Problem::LogGroups { lost, unreached } => {
                lost.iter().chain(unreached).any(|(_, end)| *end == last)
            }
            _ => false,
        };
        assert!(report.findings.iter().any(|one| is_named(&one.problem)), "{:?}", report.findings);
        let mut bytes = fs::read(&self.path).unwrap();
        for page in [0, 4096] {
            bytes[page + 2048..page + 4096].fill(0);
        }
        fs::write(&self.path, bytes).unwrap();
    }

    fn cells(&self, pool: &Pool) -> Vec<u64> {
        pool.run(|tx| (0..CELLS).map(|i| tx.get(self.cells.at(i)?)).collect()).unwrap().value
    }

    /// Returns the cells after the first `n` transactions.
    fn expected(n: u64) -> Vec<u64> {
        let mut cells = vec![0; CELLS as usize];
        for n in 1..=n {
            for i in 0..3 {
                cells[((n * 5 + i * 7) % CELLS) as usize] = n;
            }
            cells[0] = n;
        }
        cells
    }

    /// Returns the file that holds the log, and the log's offset in it.
    fn log(&self) -> (PathBuf, usize) {
        let own = self.path.with_extension("pool.log");
        if own.exists() { (own, 8192) } else { (self.path.clone(), 2 << 20) }
    }
}

/// Options for each medium that every machine has, with both shadows of `decoupled`.
fn media() -> [Options; 4] {
    [
        options(),
        options().shadow(Shadow::CopyOnWrite),
        options().medium(EMULATED),
        options().medium(Medium::PersistentCache).shadow(Shadow::CopyOnWrite),
    ]
}

#[test]
fn durable_prefix_survives_exactly() {
    for options in media() {
        for durable in [0, 1, 7, 40] {
            let place = place(options.clone());
            let pool = place.open();
            let mut id = pool.committed_id();
            for n in 1..=durable {
                id = place.put(&pool, n);
                if n % 3 == 0 {
                    pool.wait_for(id).unwrap();
                }
                if n % 10 == 0 {
                    pool.design().reproduce_step().unwrap();
                }
            }
            pool.wait_for(id).unwrap();
            for n in durable + 1..durable + 20 {
                place.put(&pool, n);
            }
            pool.abandon();
            let pool = place.open();
            assert_eq!(place.cells(&pool), Place::expected(durable), "{durable} durable");
            assert_eq!(pool.committed_id(), id);
            assert_eq!(place.put(&pool, durable + 1), id.next(), "lost IDs are not assigned again");
        }
    }
}

#[test]
fn opening_reports_its_steps() {
    let steps = |place: &Place| {
        let steps = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&steps);
        let options = place.options.clone().on_opening(move |opening| {
            assert!(opening.done_bytes <= opening.total_bytes, "{opening:?}");
            if opening.remaining.is_none() {
                noted.lock().unwrap().push((opening.step, opening.total_bytes));
            }
        });
        let pool = Pool::open(&place.path, options).unwrap();
        let steps = steps.lock().unwrap().clone();
        (pool, steps)
    };
    // With the order of `media`: whether opening reads the whole heap.
    for (options, full) in media().into_iter().zip([true, false, true, false]) {
        let place = place(options);
        let on_file = place.log().0 != place.path;
        let (pool, found) = steps(&place);
        let heap = pool.info().heap_bytes;
        let mut expected = Vec::from_iter(full.then_some((OpeningStep::Verify, heap)));
        expected.extend(full.then_some((OpeningStep::ReadHeap, heap)));
        assert_eq!(found, expected, "after a clean shutdown");
        let id: TxId = (1..20).map(|n| place.put(&pool, n)).last().unwrap();
        pool.wait_for(id).unwrap();
        pool.abandon();
        let (pool, found) = steps(&place);
        let log = (OpeningStep::ReadLog, pool.info().log_bytes);
        expected.insert(usize::from(full), log);
        if on_file {
            // The 64 cells and the words of their array are on one page.
            expected.insert(1 + usize::from(full), (OpeningStep::WritePages, 4096));
        }
        assert_eq!(found, expected, "after a crash");
        pool.close().unwrap();
    }
}

#[test]
fn torn_group_and_later_groups_are_ignored() {
    for options in media() {
        let place = place(options);
        let pool = place.open();
        let mut ends = Vec::new();
        for n in 1..=6 {
            let id = place.put(&pool, n);
            // Each wait closes a group, so every transaction is a group of its own.
            pool.wait_for(id).unwrap();
            ends.push(id);
        }
        pool.abandon();
        let saved = fs::read(&place.path).unwrap();
        let (log, start) = place.log();
        let saved_log = fs::read(&log).unwrap();
        let block = if log == place.path { 64 } else { 4096 };
        let groups: Vec<usize> = (start..saved_log.len() - 8)
            .step_by(block)
            .filter(|&at| is_head(&saved_log, at))
            .collect();
        assert_eq!(groups.len(), 6);
        let mut seen = Vec::new();
        for (group, &at) in groups.iter().enumerate() {
            for byte in [0, 8, 25, 40, 56, 64, 70, 100] {
                fs::write(&place.path, &saved).unwrap();
                let mut torn = saved_log.clone();
                torn[at + byte] ^= 0x10;
                fs::write(&log, &torn).unwrap();
                if group + 1 < groups.len() {
                    // Whole groups follow, so this is damage and not an interrupted write.
                    let error = Pool::open(&place.path, place.options.clone()).unwrap_err();
                    assert!(matches!(error, Error::DamagedLog { .. }), "{error}");
                    assert!(matches!(checked(&place.path), Err(Error::DamagedLog { .. })));
                    assert!(fs::read(&place.path).unwrap()[..8192] == saved[..8192]);
                    for &later in &groups[group + 1..] {
                        torn[later..later + 64].fill(0);
                    }
                    fs::write(&log, torn).unwrap();
                    fs::write(&place.path, &saved).unwrap();
                    if log == place.path {
                        let mut torn = fs::read(&log).unwrap();
                        torn[at + byte] ^= 0x10;
                        for &later in &groups[group + 1..] {
                            torn[later..later + 64].fill(0);
                        }
                        fs::write(&log, torn).unwrap();
                    }
                }
                place.is_damaged_until_power_failure();
                let shown = checked(&place.path).unwrap();
                let pool = place.open();
                let survived = group as u64;
                assert_eq!(
                    place.cells(&pool),
                    Place::expected(survived),
                    "group {group}, byte {byte}"
                );
                assert_eq!(shown.transactions_to_replay, survived);
                assert_eq!(shown.durable_id, pool.durable_id());
                seen.push(shown.torn_end);
                // A new group overwrites the torn end, and recovery replays it.
                let id = place.put(&pool, survived + 1);
                pool.wait_for(id).unwrap();
                pool.abandon();
                let pool = place.open();
                assert_eq!(place.cells(&pool), Place::expected(survived + 1));
            }
        }
        assert!(seen.contains(&true) && seen.contains(&false), "only one kind of end was seen");
    }
}

fn is_head(bytes: &[u8], at: usize) -> bool {
    bytes[at..].starts_with(b"LWGROUP3")
}

/// Several groups are in flight at a time, and the device may write a later one before the first.
/// If the first is lost, none of them was acknowledged, so recovery ignores them all.
#[test]
fn groups_in_flight_after_lost_group_are_ignored() {
    for options in media() {
        let place = place(options);
        let pool = place.open();
        for n in 1..=6 {
            let id = place.put(&pool, n);
            // Each wait closes a group, so every transaction is a group of its own.
            pool.wait_for(id).unwrap();
        }
        pool.abandon();
        let (log, start) = place.log();
        let [saved, saved_log] = [&place.path, &log].map(|file| fs::read(file).unwrap());
        let block = if log == place.path { 64 } else { 4096 };
        let starts = (start..saved_log.len() - 8).step_by(block);
        let groups: Vec<usize> = starts.filter(|&at| is_head(&saved_log, at)).collect();
        for lost in 0..5 {
            let mut bytes = saved_log.clone();
            bytes[groups[lost]..groups[lost] + 64].fill(0);
            for &later in &groups[lost + 1..] {
                // The group's distance to the last acknowledged one says that the lost group was
                // still in flight when this one was written.
                let units = (later - groups[lost]) as u32 / 64;
                bytes[later + 60..later + 64].copy_from_slice(&units.to_le_bytes());
                seal(&mut bytes[later..]);
            }
            fs::write(&place.path, &saved).unwrap();
            fs::write(&log, bytes).unwrap();
            place.is_damaged_until_power_failure();
            let survived = lost as u64;
            assert_eq!(checked(&place.path).unwrap().transactions_to_replay, survived);
            let pool = place.open();
            assert_eq!(place.cells(&pool), Place::expected(survived), "lost group {lost}");
            // The next transaction gets the lost ID and overwrites the ignored groups.
            let id = place.put(&pool, survived + 1);
            pool.wait_for(id).unwrap();
            pool.abandon();
            assert_eq!(place.cells(&place.open()), Place::expected(survived + 1));
        }
    }
}

#[test]
fn interrupted_recovery_is_repeated() {
    for options in media() {
        let place = place(options);
        let pool = place.open();
        for n in 1..=30 {
            let id = place.put(&pool, n);
            if n % 4 == 0 {
                pool.wait_for(id).unwrap();
            }
        }
        pool.flush().unwrap();
        pool.abandon();
        let saved = fs::read(&place.path).unwrap();
        let (log, _) = place.log();
        let saved_log = fs::read(&log).unwrap();
        let pool = place.open();
        assert_eq!(place.cells(&pool), Place::expected(30));
        pool.abandon();
        // A crash between recovery's heap writes and its superblock leaves old superblocks with the
        // new heap image. The log's head is the old one, or of the next generation and not entered.
        let recovered = fs::read(&place.path).unwrap();
        let mut recovered_log = fs::read(&log).unwrap();
        if log != place.path {
            [0, 4096].iter().for_each(|&copy| set_word(&mut recovered_log[copy..], 5, 0));
        }
        for new_log_head in [false, true] {
            let mut file = recovered.clone();
            file[..8192].copy_from_slice(&saved[..8192]);
            fs::write(&place.path, &file).unwrap();
            if log != place.path {
                let bytes = if new_log_head { &recovered_log } else { &saved_log };
                fs::write(&log, bytes).unwrap();
            }
            assert!(checked(&place.path).unwrap().needs_recovery);
            let pool = place.open();
            assert_eq!(place.cells(&pool), Place::expected(30));
            pool.abandon();
        }
    }
}

#[test]
fn earlier_wraps_and_generations_are_not_replayed() {
    for options in media() {
        let place = place(options);
        let mut n = 0;
        for generation in 0..6 {
            let pool = place.open();
            assert_eq!(place.cells(&pool), Place::expected(n), "generation {generation}");
            // Over all generations these groups wrap the log. The last few are not durable.
            for _ in 0..50 {
                n += 1;
                let id = place.put(&pool, n);
                pool.wait_for(id).unwrap();
            }
            for lost in 1..=generation {
                place.put(&pool, n + lost);
            }
            pool.abandon();
        }
    }
}

#[test]
fn log_with_gap_in_ids_is_damaged() {
    // The first group gets later IDs and a valid checksum. Its place and sequence are right, so it
    // is no torn write, but its IDs do not follow those of the heap image.
    let place = place(options().medium(EMULATED));
    let pool = place.open();
    let id = place.put(&pool, 1);
    pool.wait_for(id).unwrap();
    pool.abandon();
    let (log, start) = place.log();
    let mut bytes = fs::read(&log).unwrap();
    let first = u64::from_le_bytes(bytes[start + 32..start + 40].try_into().unwrap());
    for at in [32, 40] {
        bytes[start + at..start + at + 8].copy_from_slice(&(first + 5).to_le_bytes());
    }
    seal(&mut bytes[start..]);
    fs::write(&log, bytes).unwrap();
    let error = Pool::open(&place.path, place.options.clone()).unwrap_err();
    assert!(matches!(error, Error::DamagedLog { .. }), "{error}");
    assert!(checked(&place.path).is_err());
}

/// Updates a group's checksum.
fn seal(group: &mut [u8]) {
    let words = u32::from_le_bytes(group[16..20].try_into().unwrap()) as usize;
    group[56..60].fill(0);
    let payload = crc32c::crc32c(&group[64..64 + 8 * words]);
    let crc = crc32c::crc32c_append(payload, &group[..64]);
    group[56..60].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn clean_pool_replays_nothing() {
    for options in media() {
        let place = place(options);
        let pool = place.open();
        place.put(&pool, 1);
        pool.close().unwrap();
        let shown = checked(&place.path).unwrap();
        assert!(!shown.needs_recovery && shown.transactions_to_replay == 0);
        assert_eq!(place.cells(&place.open()), Place::expected(1));
    }
}

#[test]
fn check_changes_no_file() {
    for options in media() {
        let place = place(options);
        let pool = place.open();
        let id = place.put(&pool, 1);
        pool.wait_for(id).unwrap();
        pool.abandon();
        let read = |path: &Path| fs::read(path).unwrap();
        let before = (read(&place.path), read(&place.log().0));
        let shown = checked(&place.path).unwrap();
        assert!(shown.needs_recovery && shown.transactions_to_replay == 1);
        assert!(before == (read(&place.path), read(&place.log().0)));
    }
}
