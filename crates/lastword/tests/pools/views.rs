//! Views and backups of open pools, and copies of closed ones.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::names::{EMULATED, with_suffix};
use faults::{Failing, Fault, Faults};
use lastword::{
    Array, CopyOptions, Decoupled, DecoupledEvicting, DecoupledSoftware, Design, Error, Medium,
    MediumError, Objects, Options, Pool, PoolView, Ptr, Redo, Shadow, Snapshot, Stop, System, TxId,
    Undo, Volatile, Words,
};

const ACCOUNTS: u64 = 2000;
const MONEY: u64 = 100;

/// Accounts whose sum never changes, and a count of the transfers.
#[derive(Clone, Copy)]
pub(super) struct Bank {
    accounts: Array<u64>,
    transfers: Ptr<u64>,
}

impl Bank {
    pub(super) fn create<D: Design>(pool: &Pool<D>) -> Bank {
        let made = pool.run(|tx| {
            let transfers = tx.alloc(0_u64)?;
            tx.set_root_ptr(transfers)?;
            Ok(Bank { accounts: Array::create(tx, ACCOUNTS)?, transfers })
        });
        let bank = made.unwrap().value;
        for account in 0..ACCOUNTS {
            let put = pool.run(|tx| tx.set(bank.accounts.at(account)?, MONEY));
            let _ = put.unwrap();
        }
        bank
    }

    pub(super) fn transfer<D: Design>(self, pool: &Pool<D>, n: u64) -> TxId {
        let (from, to) = (n * 7919 % ACCOUNTS, n * 104_729 % ACCOUNTS);
        let done = pool.run(|tx| {
            let (from, to) = (self.accounts.at(from)?, self.accounts.at(to)?);
            if tx.get(from)? > 0 {
                tx.update(from, |money| money - 1)?;
                tx.update(to, |money| money + 1)?;
            }
            tx.update(self.transfers, |transfers| transfers + 1)
        });
        done.unwrap().ticket.id()
    }

    /// Checks the sum, and returns the number of transfers.
    pub(super) fn check<W: Words>(self, tx: &mut W) -> Result<u64, Stop> {
        let mut sum = 0;
        for account in 0..ACCOUNTS {
            sum += tx.get(self.accounts.at(account)?)?;
        }
        assert_eq!(sum, ACCOUNTS * MONEY);
        tx.get(self.transfers)
    }

    pub(super) fn check_pool<D: Design>(self, pool: &Pool<D>) -> u64 {
        pool.run(|tx| self.check(tx)).unwrap().value
    }
}

pub(super) fn options(medium: Medium) -> Options {
    Options::new().bytes(1 << 20).log_bytes(256 << 10).medium(medium)
}

/// Runs transfers in two threads during a call.
pub(super) fn under_load<D: Design, R>(pool: &Pool<D>, bank: Bank, call: impl FnOnce() -> R) -> R {
    /// Ends the threads, also when the call panics.
    struct End<'a>(&'a AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        let _end = End(&ends);
        for first in 0..2 {
            let (pool, ends) = (&pool, &ends);
            scope.spawn(move || {
                let mut n = first;
                while !ends.load(Ordering::Relaxed) {
                    bank.transfer(pool, n);
                    n += 2;
                }
            });
        }
        thread::sleep(Duration::from_millis(20));
        call()
    })
}

#[test]
fn view_shows_one_transaction_under_load() {
    view_under_load::<Decoupled>(options(Medium::File));
    view_under_load::<Decoupled>(options(Medium::File).reproduce_threads(2).gather_bytes(16 << 10));
    view_under_load::<Decoupled>(options(EMULATED).reproduce_threads(2));
    view_under_load::<Decoupled>(options(Medium::File).background(false));
    let bounded = options(Medium::File).shadow_bytes(64 << 10);
    view_under_load::<DecoupledSoftware>(bounded.clone().shadow(Shadow::Software));
    view_under_load::<DecoupledEvicting>(bounded.shadow(Shadow::CopyOnWrite));
    for medium in [Medium::File, EMULATED, Medium::PersistentCache] {
        view_under_load::<Snapshot>(options(medium));
        view_under_load::<Undo>(options(medium));
        view_under_load::<Redo>(options(medium));
        view_under_load::<Redo>(options(medium).page_checksums(true));
    }
}

fn view_under_load<D: Design>(options: Options) {
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::<D>::create_as(dir.path().join("pool"), options).unwrap();
    let bank = Bank::create(&pool);
    let begin = pool.committed_id().0;
    under_load(&pool, bank, || {
        let mut last = TxId::NONE;
        for _ in 0..5 {
            let before = pool.committed_id();
            let view = pool.view().unwrap();
            assert!(view.id() >= before.max(last));
            last = view.id();
            // Each transaction after the first ones is a transfer, and some IDs are of aborts.
            let shown = view.read(|tx| bank.check(tx)).unwrap();
            assert!(shown <= last.0 - begin);
            assert_eq!(view.read(|tx| tx.get(bank.transfers)).unwrap(), shown, "the view stays");
            view.check().unwrap();
        }
    });
    bank.check_pool(&pool);
    pool.close().unwrap();
    let files = std::fs::read_dir(dir.path()).unwrap();
    assert!(files.count() <= 2, "a view leaves no file");
}

/// Checkpoints of few transactions, whose steps are not due, end beside threads that copy pages of
/// views all the time.
#[test]
fn checkpoint_ends_beside_readers() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().bytes(8 << 20).log_bytes(1 << 20).medium(Medium::File);
    let pool = Pool::create(dir.path().join("pool"), options).unwrap();
    let numbers = pool.run(|tx| Array::<u64>::reserve(tx, 500_000)).unwrap().value;
    while !pool.run(|tx| numbers.prepare(tx, 500)).unwrap().value {}
    let ends = AtomicBool::new(false);
    let read = || {
        while !ends.load(Ordering::Relaxed) {
            let view = pool.view().unwrap();
            let sum = view.read(|tx| {
                (0..numbers.len())
                    .step_by(8000)
                    .try_fold(0, |sum, n| Ok(sum + tx.get(numbers.at(n)?)?))
            });
            assert!(sum.unwrap() <= 20);
        }
    };
    thread::scope(|scope| {
        let readers: Vec<_> = (0..3).map(|_| scope.spawn(read)).collect();
        for _ in 0..20 {
            let _ = pool.run(|tx| tx.update(numbers.at(0)?, |n| n + 1)).unwrap();
            pool.checkpoint().unwrap();
        }
        ends.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}

#[test]
fn views_are_independent() {
    every_durable!(independent());
}

fn independent<D: Design>() {
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::<D>::create_as(dir.path().join("pool"), options(Medium::File)).unwrap();
    let count = pool.run(|tx| tx.alloc(0_u64)).unwrap().value;
    let views: Vec<PoolView<'_, D>> = (1..5)
        .map(|value| {
            let _ = pool.run(|tx| tx.set(count, value)).unwrap();
            pool.view().unwrap()
        })
        .collect();
    let _ = pool.run(|tx| tx.set(count, 9)).unwrap();
    pool.checkpoint().unwrap();
    for (view, value) in views.iter().zip([1, 2, 3, 4]).rev() {
        assert_eq!(view.read(|tx| tx.get(count)).unwrap(), value);
    }
    drop(views);
    assert_eq!(pool.run(|tx| tx.get(count)).unwrap().value, 9);
}

#[test]
fn view_refuses_writes_and_wild_pointers() {
    every_durable!(refusing());
}

fn refusing<D: Design>() {
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::<D>::create_as(dir.path().join("pool"), options(Medium::File)).unwrap();
    let count = pool.run(|tx| tx.alloc(3_u64)).unwrap().value;
    let view = pool.view().unwrap();
    assert!(matches!(view.read(|tx| tx.set(count, 4)), Err(Error::ReadOnly)));
    assert!(matches!(view.read(|tx| tx.alloc(4_u64)), Err(Error::ReadOnly)));
    assert!(matches!(view.read(|tx| tx.free(count)), Err(Error::ReadOnly)));
    for wild in [8, count.to_bits() + 1, count.to_bits() + (1 << 40), u64::MAX - 7] {
        let read = view.read(|tx| tx.get(Ptr::<u64>::from_bits(wild)));
        assert!(matches!(read, Err(Error::BadPointer { .. })), "{read:?}");
    }
    // A stop is sticky, also if the body swallows it.
    let swallowed = view.read(|tx| {
        let _ = tx.get(Ptr::<u64>::from_bits(8));
        tx.get(count).or(Ok(0))
    });
    assert!(matches!(swallowed, Err(Error::BadPointer { .. })), "{swallowed:?}");
    assert_eq!(view.read(|tx| tx.get(count)).unwrap(), 3);
    let inside = pool.run(|_| {
        assert!(matches!(pool.view(), Err(Error::InsideTransaction { .. })));
        Ok(())
    });
    let _ = inside.unwrap();
}

#[test]
fn views_beyond_their_limit_are_refused() {
    const HEAP_BYTES: u64 = 1 << 20;
    let options = Options::new().bytes(HEAP_BYTES).log_bytes(1 << 20);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.pool");
    let pool = Pool::create(&path, options.clone().view_bytes(2 * HEAP_BYTES + 1)).unwrap();
    let (first, _second) = (pool.view().unwrap(), pool.view().unwrap());
    assert_eq!(pool.metrics().view_bytes, 2 * HEAP_BYTES);
    match pool.view() {
        Err(Error::ViewLimit { wanted, used, limit }) => {
            assert_eq!((wanted, used, limit), (HEAP_BYTES, 2 * HEAP_BYTES, 2 * HEAP_BYTES + 1));
        }
        other => panic!("{other:?}"),
    }
    pool.backup(dir.path().join("backup.pool")).unwrap();
    drop(first);
    drop(pool.view().unwrap());
    assert_eq!(pool.metrics().view_bytes, HEAP_BYTES);
}

#[test]
fn view_of_pool_without_file_is_refused() {
    let pool = Pool::<Volatile>::create_as("", options(Medium::File)).unwrap();
    let copy = tempfile::tempdir().unwrap().path().join("copy");
    assert!(matches!(pool.view().map(drop), Err(Error::NotDurable { .. })));
    assert!(matches!(pool.backup(&copy), Err(Error::NotDurable { .. })));
    assert!(!copy.exists());
}

#[test]
fn backup_under_load_opens_at_its_transaction() {
    every_durable!(backups_under_load());
}

fn backups_under_load<D: Design>() {
    for options in [
        options(Medium::File),
        options(Medium::File).reproduce_threads(2).gather_bytes(16 << 10),
        options(EMULATED),
        options(Medium::PersistentCache).page_checksums(true),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let pool =
            Pool::<D>::create_as(dir.path().join("pool"), options.layout("bank", 2)).unwrap();
        let bank = Bank::create(&pool);
        let backups: Vec<_> = under_load(&pool, bank, || {
            (0..3)
                .map(|n| {
                    let (path, before) =
                        (dir.path().join(format!("backup{n}")), pool.committed_id());
                    let id = pool.backup(&path).unwrap();
                    assert!(id >= before);
                    (path, id)
                })
                .collect()
        });
        let info = pool.info();
        pool.close().unwrap();
        for (path, id) in backups {
            let report = lastword::check(&path).unwrap();
            assert!(report.is_sound(), "{:?}", report.findings);
            let refused = Pool::<D>::open_as(&path, Options::new()).unwrap_err();
            assert!(matches!(refused, Error::Layout { .. }), "{refused}");
            let copy = Pool::<D>::open_as(&path, Options::new().layout("bank", 2)).unwrap();
            assert_eq!(copy.committed_id(), id);
            assert_eq!(copy.durable_id(), id);
            let now = copy.info();
            assert_eq!((now.heap_bytes, now.log_bytes), (info.heap_bytes, info.log_bytes));
            assert_ne!(now.pool_id, info.pool_id, "the files of both cannot be mixed up");
            let transfers = bank.check_pool(&copy);
            // It goes on, and its log is its own.
            assert!(bank.transfer(&copy, 5) > id);
            copy.abandon();
            let copy = Pool::<D>::open_as(&path, Options::new().layout("bank", 2)).unwrap();
            let transfers = bank.check_pool(&copy) - transfers;
            assert!(transfers <= 1, "{transfers}");
        }
    }
}

#[test]
fn backup_keeps_existing_file() {
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::create(dir.path().join("pool"), options(Medium::File)).unwrap();
    let taken = dir.path().join("taken");
    std::fs::write(&taken, "mine").unwrap();
    let refused = pool.backup(&taken).unwrap_err();
    assert!(matches!(refused, Error::Medium(MediumError::AlreadyExists { .. })), "{refused}");
    let itself = pool.backup(dir.path().join("pool")).unwrap_err();
    assert!(matches!(itself, Error::Medium(MediumError::AlreadyExists { .. })), "{itself}");
    let nowhere = pool.backup(dir.path().join("no").join("where")).unwrap_err();
    assert!(matches!(nowhere, Error::Medium(MediumError::NoDirectory { .. })), "{nowhere}");
    assert_eq!(std::fs::read(&taken).unwrap(), b"mine");
    assert!(pool.run(|tx| tx.alloc(1_u64)).unwrap().ticket.wait().is_ok());
}

/// Backs up with a failing call. Returns the calls before and after the backup.
fn backup_with_failing_call<D: Design>(nth: u64, sticky: bool) -> (u64, u64) {
    let dir = tempfile::tempdir().unwrap();
    let faults = Faults::nth(nth, Fault::Io, sticky);
    let system = System::kernel().failing(Arc::clone(&faults));
    let options = options(Medium::File).background(false);
    let (path, copy) = (dir.path().join("pool"), dir.path().join("copy"));
    let pool = Pool::<D>::create_as(&path, options.clone().system(system)).unwrap();
    let count = pool.run(|tx| tx.alloc(7_u64)).unwrap().value;
    pool.flush().unwrap();
    let before = faults.calls();
    let backup = pool.backup(&copy);
    let after = faults.calls();
    let text = format!("call {nth}, sticky {sticky}: {:?}, {backup:?}", faults.failed());
    let failed = pool.flush().is_err();
    if backup.is_err() && !sticky {
        assert!(!copy.exists() && !with_suffix(&copy, ".log").exists(), "a part is left: {text}");
    }
    if backup.is_ok() || copy.exists() {
        let open = Pool::<D>::open_as(&copy, options.clone());
        let open = open.unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(open.run(|tx| tx.get(count)).unwrap().value, 7, "{text}");
    }
    // The pool itself is poisoned only by its own steps, and loses nothing.
    assert!(!failed || backup.is_err(), "{text}");
    pool.abandon();
    let pool = Pool::<D>::open_as(&path, options).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(pool.run(|tx| tx.get(count)).unwrap().value, 7, "{text}");
    (before, after)
}

#[test]
fn failed_backup_leaves_no_file() {
    every_durable!(failed_backups());
}

fn failed_backups<D: Design>() {
    for sticky in [false, true] {
        let (before, after) = backup_with_failing_call::<D>(u64::MAX, sticky);
        assert!(after - before > 20, "only {} calls", after - before);
        for nth in before..after {
            backup_with_failing_call::<D>(nth, sticky);
        }
    }
}

#[test]
fn full_disk_fails_backup_and_not_pool() {
    every_durable!(backups_on_full_disk());
}

fn backups_on_full_disk<D: Design>() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("pool"), dir.path().join("copy"));
    let create = |nth| {
        let faults = Faults::nth(nth, Fault::NoSpace, false);
        let system = System::kernel().failing(Arc::clone(&faults));
        let options = options(Medium::File).background(false).system(system);
        (Pool::<D>::create_as(&path, options).unwrap(), faults)
    };
    let (pool, faults) = create(u64::MAX);
    let before = faults.calls();
    pool.backup(&copy).unwrap();
    let after = faults.calls();
    let mut failed = 0;
    for nth in before..after {
        pool_files(&path)
            .chain(pool_files(&copy))
            .for_each(|file| drop(std::fs::remove_file(file)));
        let (pool, _) = create(nth);
        let backup = pool.backup(&copy);
        failed += u32::from(backup.is_err());
        // The copy takes no part in the durability of the pool.
        let count = pool.run(|tx| tx.alloc(7_u64)).unwrap().value;
        pool.flush().unwrap();
        pool.close().unwrap();
        let pool = Pool::<D>::open_as(&path, options(Medium::File)).unwrap();
        assert_eq!(pool.run(|tx| tx.get(count)).unwrap().value, 7);
    }
    assert!(failed > 5, "{failed} of {} calls", after - before);
}

fn pool_files(path: &Path) -> impl Iterator<Item = std::path::PathBuf> {
    [path.to_path_buf(), with_suffix(path, ".log")].into_iter()
}

#[test]
fn view_of_poisoned_pool_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut nth = u64::MAX;
    loop {
        let faults = Faults::nth(nth, Fault::Io, true);
        let system = System::kernel().failing(Arc::clone(&faults));
        let options = options(Medium::File).background(false).system(system);
        let path = dir.path().join(format!("pool{nth}"));
        let pool = Pool::create(path, options).unwrap();
        let count = pool.run(|tx| tx.alloc([1_u64; 100])).unwrap().value;
        pool.checkpoint().unwrap();
        let view = pool.view().unwrap();
        let _ = pool.run(|tx| tx.set(count, [2; 100])).unwrap();
        pool.flush().unwrap();
        let last = faults.calls();
        if pool.checkpoint().is_ok() {
            // Without a fault: now fail the first call of the heap image's write.
            assert_eq!(nth, u64::MAX);
            assert_eq!(view.read(|tx| tx.get(count)).unwrap(), [1; 100]);
            nth = last;
            continue;
        }
        for _ in 0..3 {
            let read = view.read(|tx| tx.get(count));
            assert!(read.is_err(), "{read:?}");
            assert!(pool.view().is_err());
        }
        break;
    }
}

fn copied(from: &Path, to: &Path, form: &CopyOptions) -> TxId {
    let before = std::fs::read(from).unwrap();
    let id = lastword::copy(from, to, form).unwrap();
    assert!(std::fs::read(from).unwrap() == before, "the pool is only read");
    assert!(lastword::check(to).unwrap().is_sound());
    id
}

#[test]
fn copy_has_recovered_content() {
    every_durable!(copy_of());
}

fn copy_of<D: Design>() {
    for medium in [Medium::File, EMULATED] {
        let dir = tempfile::tempdir().unwrap();
        let [path, closed, crashed] =
            ["pool", "closed", "crashed"].map(|name| dir.path().join(name));
        let pool = Pool::<D>::create_as(&path, options(medium)).unwrap();
        let bank = Bank::create(&pool);
        for n in 0..50 {
            bank.transfer(&pool, n);
        }
        pool.flush().unwrap();
        let id = pool.durable_id();
        pool.abandon();
        assert!(copied(&path, &crashed, &CopyOptions::new()) >= id);
        Pool::<D>::open_as(&path, options(medium)).unwrap().close().unwrap();
        copied(&path, &closed, &CopyOptions::new());
        for copy in [closed, crashed] {
            let open = Pool::<D>::open_as(&copy, options(medium)).unwrap();
            assert!(open.committed_id() >= id);
            assert_eq!(bank.check_pool(&open), 50);
            assert_eq!(bank.transfer(&open, 50).0, open.committed_id().0);
            open.close().unwrap();
        }
    }
}

#[test]
fn copy_can_be_larger_and_on_another_medium() {
    let dir = tempfile::tempdir().unwrap();
    let [path, larger, mapped, smaller] =
        ["pool", "larger", "mapped", "smaller"].map(|name| dir.path().join(name));
    let pool = Pool::create(&path, options(Medium::File)).unwrap();
    let bank = Bank::create(&pool);
    let full = loop {
        if let Err(error) = pool.run(|tx| tx.alloc([7_u64; 64])) {
            break error;
        }
    };
    assert!(matches!(full, Error::Full { .. }), "{full}");
    pool.close().unwrap();
    copied(&path, &larger, &CopyOptions::new().bytes(4 << 20).log_bytes(1 << 20));
    let pool = Pool::open(&larger, Options::new()).unwrap();
    let info = pool.info();
    assert_eq!((info.heap_bytes, info.log_bytes), (4 << 20, 1 << 20));
    let mut more = 0;
    while pool.run(|tx| tx.alloc([7_u64; 64])).is_ok() {
        more += 1;
    }
    assert!(more > 4000, "{more} more objects of 512 bytes fit in 3 MiB");
    pool.check_heap().unwrap();
    bank.check_pool(&pool);
    pool.close().unwrap();
    copied(&larger, &mapped, &CopyOptions::new().medium(EMULATED));
    let pool = Pool::open(&mapped, options(EMULATED)).unwrap();
    bank.check_pool(&pool);
    let refused = lastword::copy(&larger, &smaller, &CopyOptions::new().bytes(1 << 20));
    assert!(matches!(refused, Err(Error::BadOption { option: "bytes", .. })), "{refused:?}");
    assert!(!smaller.exists());
}

#[test]
fn pool_is_opened_or_created() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let pool = Pool::open_or_create(&path, options(Medium::File)).unwrap();
    let bank = Bank::create(&pool);
    let in_use = Pool::open_or_create(&path, options(Medium::File)).unwrap_err();
    assert!(matches!(in_use, Error::Medium(MediumError::InUse { .. })), "{in_use}");
    pool.close().unwrap();
    let pool = Pool::open_or_create(&path, options(Medium::File)).unwrap();
    assert_eq!(bank.check_pool(&pool), 0);
    pool.abandon();
    // A pool that has lost its own file and not its log is not created anew.
    std::fs::rename(&path, dir.path().join("moved")).unwrap();
    let lost = Pool::open_or_create(&path, options(Medium::File)).unwrap_err();
    assert!(matches!(lost, Error::OnlyLog { .. }), "{lost}");
    std::fs::rename(dir.path().join("moved"), &path).unwrap();
    std::fs::write(&path, "no pool").unwrap();
    let other = Pool::open_or_create(&path, options(Medium::File)).unwrap_err();
    assert!(matches!(other, Error::NotAPool { .. } | Error::Truncated { .. }), "{other}");
    assert!(Pool::<Volatile>::open_or_create_as("", Options::new()).is_ok());
}
