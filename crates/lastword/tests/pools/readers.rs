//! Reading pools that are closed, or open in a process. `crates/cli/tests/suite/readers.rs` has the
//! tests with other processes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::names::EMULATED;
use crate::views::{Bank, options, under_load};
use lastword::{
    CopyOptions, Decoupled, DecoupledEvicting, DecoupledSoftware, Design, Error, HeapAtRest, InUse,
    Medium, MediumError, Objects, Options, Pool, PoolReader, Problem, Shadow, Snapshot, TxId, Undo,
};

/// Reads a pool in use, and checks that all of the result is as of one transaction. Returns that.
fn read_whole(path: &Path, options: Options, bank: Bank, begin: u64) -> TxId {
    let reader = PoolReader::open(path, options).unwrap();
    let shown = reader.read(|tx| bank.check(tx)).unwrap();
    // Each transaction after the first ones is a transfer, and some IDs are of aborts.
    assert!(shown <= reader.id().0 - begin);
    reader.check().unwrap();
    assert!(reader.info().in_use && reader.info().owner == Some(std::process::id()));
    reader.id()
}

#[test]
fn pool_in_use_is_read_as_of_one_transaction() {
    let file = options(Medium::File);
    in_use_under_load::<Decoupled>(file.clone());
    in_use_under_load::<Decoupled>(file.clone().group(100).compress(true));
    in_use_under_load::<Decoupled>(file.clone().reproduce_threads(2).gather_bytes(16 << 10));
    in_use_under_load::<Decoupled>(options(EMULATED).reproduce_threads(2));
    in_use_under_load::<Decoupled>(options(Medium::PersistentCache));
    let bounded = file.shadow_bytes(64 << 10);
    in_use_under_load::<DecoupledSoftware>(bounded.clone().shadow(Shadow::Software));
    in_use_under_load::<DecoupledEvicting>(bounded.shadow(Shadow::CopyOnWrite));
}

fn in_use_under_load<D: Design>(options: Options) {
    let dir = tempfile::tempdir().unwrap();
    let [path, copy] = ["pool", "copy"].map(|name| dir.path().join(name));
    let pool = Pool::<D>::create_as(&path, options.clone().log_bytes(1 << 20)).unwrap();
    let bank = Bank::create(&pool);
    let begin = pool.committed_id().0;
    let last = under_load(&pool, bank, || {
        let mut last = TxId::NONE;
        for _ in 0..5 {
            let before = pool.durable_id();
            let id = read_whole(&path, options.clone(), bank, begin);
            assert!(id >= before.max(last));
            let report = lastword::check(&path).unwrap();
            assert!(report.is_sound() && report.opens(), "{report:?}");
            last = report.sound().unwrap().durable_id;
            assert!(last >= id);
            let usage = lastword::heap_usage(&path).unwrap();
            assert_eq!(usage.unknown_bytes, 0);
            assert!(lastword::inspect(&path).unwrap().in_use);
        }
        let heap = HeapAtRest::load(&path).unwrap();
        assert!(heap.checked().unwrap().durable_id >= last);
        lastword::copy(&path, &copy, &CopyOptions::new()).unwrap()
    });
    // The copy may have a group that is written, and not yet acknowledged.
    pool.flush().unwrap();
    assert!(last <= pool.durable_id());
    pool.close().unwrap();
    let copy = Pool::<D>::open_as(&copy, options).unwrap();
    assert_eq!(copy.committed_id(), last);
    assert!(bank.check_pool(&copy) <= last.0 - begin);
}

/// The owner writes more than the log between two slices of the heap.
#[test]
fn overtaken_reader_retries_then_fails() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let options = options(Medium::File).background(false);
    let pool = Pool::create(&path, options.clone()).unwrap();
    let bank = Bank::create(&pool);
    let mut n = 0;
    let mut read = |slices: usize| {
        let mut left = slices;
        PoolReader::open_with(&path, options.clone(), || {
            if left == 0 {
                return;
            }
            left -= 1;
            for _ in 0..8 {
                for _ in 0..1000 {
                    bank.transfer(&pool, n);
                    n += 1;
                }
                pool.checkpoint().unwrap();
            }
        })
    };
    let reader = read(3).unwrap();
    let shown = reader.read(|tx| bank.check(tx)).unwrap();
    assert_eq!(shown, 3 * 8000, "the third attempt was not interrupted");
    reader.check().unwrap();
    let error = read(usize::MAX).unwrap_err();
    assert!(matches!(error, Error::InUse(InUse::Overtaken { .. })), "{error}");
    assert!(error.to_string().contains("log of 262144 bytes was reused"), "{error}");
    assert_eq!(reader.read(|tx| bank.check(tx)).unwrap(), shown, "a reader is a snapshot");
    pool.close().unwrap();
}

/// The next owner changes the generation between two slices.
#[test]
fn reader_starts_again_when_pool_is_reopened() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let options = options(Medium::File);
    let pool = Pool::create(&path, options.clone()).unwrap();
    let bank = Bank::create(&pool);
    let (mut pool, mut n) = (Some(pool), 0);
    let reader = PoolReader::open_with(&path, options.clone(), || {
        n += 1;
        let open = pool.take().unwrap();
        bank.transfer(&open, n);
        match n {
            1 => open.abandon(),
            2 => open.close().unwrap(),
            _ => return pool = Some(open),
        }
        pool = Some(Pool::open(&path, options.clone()).unwrap());
    });
    let reader = reader.unwrap();
    let shown = reader.read(|tx| bank.check(tx)).unwrap();
    assert!(shown >= 1 && reader.check().is_ok());
}

#[test]
fn readers_exclude_writer_of_closed_pool() {
    every_durable!(closed_is_read());
}

fn closed_is_read<D: Design>() {
    for medium in [Medium::File, EMULATED] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let pool = Pool::<D>::create_as(&path, options(medium)).unwrap();
        let bank = Bank::create(&pool);
        for n in 0..50 {
            bank.transfer(&pool, n);
        }
        pool.flush().unwrap();
        let id = pool.durable_id();
        pool.abandon();
        let files = || -> Vec<_> {
            let mut files: Vec<_> =
                std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().path()).collect();
            files.sort();
            files.into_iter().map(|path| (std::fs::read(&path).unwrap(), path)).collect()
        };
        for closed in [false, true] {
            let before = files();
            let readers = [(); 2].map(|()| PoolReader::open(&path, options(medium)).unwrap());
            for reader in &readers {
                assert!(reader.id() >= id && !reader.info().in_use);
                assert_eq!(reader.read(|tx| bank.check(tx)).unwrap(), 50);
                reader.check().unwrap();
                let written = reader.read(|tx| tx.alloc(1_u64));
                assert!(matches!(written, Err(Error::ReadOnly)), "{written:?}");
            }
            let writer = Pool::<D>::open_as(&path, options(medium)).unwrap_err();
            assert!(matches!(writer, Error::Medium(MediumError::InUse { .. })), "{writer}");
            assert!(lastword::check(&path).unwrap().is_sound());
            drop(readers);
            assert!(files() == before, "a reader writes nothing");
            if !closed {
                Pool::<D>::open_as(&path, options(medium)).unwrap().close().unwrap();
            }
        }
        let other = PoolReader::open(&path, options(medium).layout("bank", 1)).unwrap_err();
        assert!(matches!(other, Error::Layout { .. }), "{other}");
    }
}

#[test]
fn design_without_groups_is_refused_while_in_use() {
    refused_in_use::<Undo>();
    refused_in_use::<Snapshot>();
}

fn refused_in_use<D: Design>() {
    let dir = tempfile::tempdir().unwrap();
    let [path, copy] = ["pool", "copy"].map(|name| dir.path().join(name));
    let pool = Pool::<D>::create_as(&path, options(Medium::File)).unwrap();
    let errors = [
        PoolReader::open(&path, options(Medium::File)).map(drop).unwrap_err(),
        lastword::check(&path).map(drop).unwrap_err(),
        lastword::heap_usage(&path).map(drop).unwrap_err(),
        lastword::copy(&path, &copy, &CopyOptions::new()).map(drop).unwrap_err(),
    ];
    for error in errors {
        let Error::InUse(InUse::Design { design, .. }) = &error else { panic!("{error}") };
        assert_eq!(*design, D::NAME);
        assert!(error.to_string().contains("only while it is closed"), "{error}");
    }
    assert!(lastword::inspect(&path).unwrap().in_use && !copy.exists());
    pool.close().unwrap();
    assert!(lastword::check(&path).unwrap().is_sound());
}

#[test]
fn damage_of_pool_in_use_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let pool = Pool::create(&path, options(Medium::File)).unwrap();
    let bank = Bank::create(&pool);
    pool.checkpoint().unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(b"oops", 100).unwrap(); // in the first superblock
    file.write_all_at(b"oops", (2 << 20) + 80).unwrap(); // in the heap
    let report = lastword::check(&path).unwrap();
    assert!(report.opens() && !report.is_sound(), "{report:?}");
    let is_heap = |problem: &Problem| matches!(problem, Problem::Heap(_));
    assert_eq!(report.findings[0].problem, Problem::Superblock { copy: 0 });
    assert!(report.findings.iter().any(|finding| is_heap(&finding.problem)), "{report:?}");
    let copied = lastword::copy(&path, dir.path().join("copy"), &CopyOptions::new());
    assert!(matches!(copied, Err(Error::DamagedHeap { .. })), "{copied:?}");
    bank.check_pool(&pool);
}

#[test]
fn lost_group_of_pool_in_use_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let pool = Pool::create(&path, options(Medium::File).background(false)).unwrap();
    let bank = Bank::create(&pool);
    pool.checkpoint().unwrap();
    let log = dir.path().join("pool.log");
    let before = std::fs::read(&log).unwrap();
    bank.transfer(&pool, 1);
    pool.flush().unwrap();
    let first = std::fs::read(&log).unwrap();
    let at = (0..before.len()).find(|&at| before[at] != first[at]).unwrap();
    for n in 2..5 {
        bank.transfer(&pool, n);
        pool.flush().unwrap();
    }
    assert!(lastword::check(&path).unwrap().is_sound());
    let file = std::fs::File::options().write(true).open(&log).unwrap();
    file.write_all_at(b"oops", at as u64 + 64).unwrap();
    let report = lastword::check(&path).unwrap();
    assert!(matches!(report.refusal, Some(Error::DamagedLog { .. })), "{report:?}");
    let copied = lastword::copy(&path, dir.path().join("copy"), &CopyOptions::new());
    assert!(matches!(copied, Err(Error::DamagedLog { .. })), "{copied:?}");
    pool.abandon();
}
