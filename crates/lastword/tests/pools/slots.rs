//! Designs with one log slot per worker: `undo`, `redo` and `snapshot`.
//!
//! The tests cover concurrent workers, the bounds of a slot, changes of design, and damage.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::FileExt;
use std::path::Path;

use lastword::{
    Array, Decoupled, Design, Error, HeapAtRest, LogDamage, Medium, Objects, Options, Pool,
    Problem, Ptr, Redo, Shadow, Snapshot, Undo,
};

const EMULATED: Medium = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
const ACCOUNTS: usize = 64;
/// Words of an array that exceeds a slot.
const WORDS: u64 = 1 << 13;
type Accounts = [u64; ACCOUNTS];

fn options() -> Options {
    Options::new().bytes(1 << 20).log_bytes(256 << 10).ring_entries(1 << 12)
}

fn media() -> [Options; 3] {
    [options().medium(EMULATED), options().medium(Medium::PersistentCache), options()]
}

/// Transfers units between accounts on three threads, `each` times per thread. The accounts' sum is
/// zero in every transaction.
fn transfers<D: Design>(pool: &Pool<D>, accounts: Ptr<Accounts>, each: u64) {
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            scope.spawn(move || {
                let mut worker = pool.worker().unwrap();
                for step in 0..each {
                    let from = (step * 7 + thread * 13) as usize % ACCOUNTS;
                    let to = (step * 11 + thread * 29 + 1) as usize % ACCOUNTS;
                    let done = worker.run(|tx| {
                        let mut all = tx.get(accounts)?;
                        assert_eq!(all.iter().copied().fold(0, u64::wrapping_add), 0);
                        all[from] = all[from].wrapping_sub(1);
                        all[to] = all[to].wrapping_add(1);
                        if step % 17 == 0 {
                            tx.set(accounts, all)?;
                            return tx.abort("requested by the test");
                        }
                        tx.set(accounts, all)
                    });
                    match done {
                        Ok(done) => assert!(done.ticket.is_durable(), "the commit returned early"),
                        Err(error) => assert!(matches!(error, Error::Aborted { .. }), "{error}"),
                    }
                }
            });
        }
    });
}

fn accounts<D: Design>(pool: &Pool<D>) -> Option<Accounts> {
    let read = |tx: &mut lastword::Tx<'_, D>| {
        let accounts = tx.root_ptr::<Accounts>()?;
        if accounts.is_null() { Ok(None) } else { tx.get(accounts).map(Some) }
    };
    pool.worker().unwrap().read(read).unwrap().value
}

fn threads_on<D: Design>(options: &Options, each: u64) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let pool = Pool::<D>::create_as(&path, options.clone()).unwrap();
    let made = pool.run(|tx| {
        let accounts = tx.alloc([0_u64; ACCOUNTS])?;
        tx.set_root_ptr(accounts)?;
        Ok(accounts)
    });
    transfers(&pool, made.unwrap().value, each);
    let (left, last) = (accounts(&pool), pool.committed_id());
    assert_eq!(pool.durable_id(), last);
    pool.abandon();
    let replayed = lastword::check(&path).unwrap().sound().unwrap().transactions_to_replay;
    let pool = Pool::<D>::open_as(&path, options.clone()).unwrap();
    assert_eq!(accounts(&pool), left, "{}", D::NAME);
    // Records of `snapshot` have no IDs, and some that are replayed may be below the last ID of the
    // head. Recovery counts each as a later one, so its last ID is an upper bound.
    let counted_twice = if D::NAME == Snapshot::NAME { replayed } else { 0 };
    let found = pool.committed_id().0;
    let expected = last.0..=last.0 + counted_twice;
    assert!(expected.contains(&found), "{}: {found}, not in {expected:?}", D::NAME);
    pool.check_heap().unwrap();
    pool.close().unwrap();
    let report = lastword::check(&path).unwrap();
    assert!(report.is_sound() && report.findings.is_empty());
}

#[test]
fn concurrent_workers_on_slots_lose_nothing() {
    for (options, each) in media().into_iter().zip([4000, 4000, 60]) {
        threads_on::<Undo>(&options, each);
        threads_on::<Redo>(&options, each);
        threads_on::<Snapshot>(&options, each);
    }
    threads_on::<Undo>(&options().shadow(Shadow::CopyOnWrite), 60);
    threads_on::<Redo>(&options().shadow(Shadow::CopyOnWrite), 60);
    threads_on::<Snapshot>(&options().shadow(Shadow::CopyOnWrite), 60);
}

/// A worker fills its slot with records of a line but for 8 lines, and then writes a record of 9.
fn fill_a_slot<D: Design>() {
    const SLOT_BYTES: u64 = 64 << 10;
    // Behind the two copies of the head.
    const RECORDS: u64 = (SLOT_BYTES - 8192) / 64;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let options = options().medium(EMULATED).background(false);
    let pool = Pool::<D>::create_as(&path, options).unwrap();
    let mut first = pool.worker().unwrap();
    let made = first.run(|tx| Ok((tx.alloc(0_u64)?, tx.alloc([0_u64; 64])?)));
    let (small, large) = made.unwrap().value;
    let mut second = pool.worker().unwrap();
    for value in 0..RECORDS - 8 {
        assert!(second.run(|tx| tx.set(small, value)).unwrap().ticket.is_durable());
    }
    assert!(second.run(|tx| tx.set(large, [7; 64])).unwrap().ticket.is_durable());
    // The head of the third slot, which no worker uses.
    let mut next = [0; 64];
    let file = std::fs::File::open(&path).unwrap();
    file.read_exact_at(&mut next, (2 << 20) + 2 * SLOT_BYTES).unwrap();
    assert_eq!(next, [0; 64], "{} wrote a record behind its slot", D::NAME);
    drop((first, second));
    pool.close().unwrap();
}

#[test]
fn full_slot_leaves_the_next_slot_alone() {
    fill_a_slot::<Redo>();
    fill_a_slot::<Snapshot>();
}

/// Opens the pool with design `D`, adds 50 to its counter, and closes it in odd rounds only.
fn count<D: Design>(path: &Path, options: &Options, round: u64) {
    let pool = Pool::<D>::open_as(path, options.clone()).unwrap();
    assert_eq!(pool.info().design, D::NAME);
    for step in 0..50 {
        let count = pool.run(|tx| {
            let at = tx.root_ptr::<u64>()?;
            let count = tx.get(at)?;
            tx.set(at, count + 1)?;
            Ok(count)
        });
        let count = count.unwrap();
        count.ticket.wait().unwrap();
        assert_eq!(count.value, 50 * round + step, "{}", D::NAME);
    }
    if round.is_multiple_of(2) {
        pool.abandon()
    } else {
        pool.close().unwrap()
    }
    let checked = lastword::check(path).unwrap().sound().unwrap();
    assert_eq!(
        (checked.info.design.as_str(), checked.needs_recovery),
        (D::NAME, round.is_multiple_of(2))
    );
}

#[test]
fn pool_opens_under_any_other_design() {
    for options in media() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let pool = Pool::create(&path, options.clone()).unwrap();
        let made = pool.run(|tx| {
            let at = tx.alloc(0_u64)?;
            tx.set_root_ptr(at)
        });
        made.unwrap().ticket.wait().unwrap();
        pool.abandon();
        // The first 16 rounds repeat the order, and the others shift it, so that designs follow
        // each other in more pairs, after clean shutdowns and after crashes.
        let designs = [count::<Undo>, count::<Decoupled>, count::<Redo>, count::<Snapshot>];
        for round in 0..32_u64 {
            let design = (round + round / 4 * (round / 16)) as usize % 4;
            designs[design](&path, &options, round);
        }
    }
}

fn bounds<D: Design>(options: &Options) {
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::<D>::create_as(dir.path().join("pool"), options.clone()).unwrap();
    let at = pool.run(|tx| Array::<u64>::reserve(tx, WORDS)).unwrap().value;
    while !pool.run(|tx| at.prepare(tx, 64)).unwrap().value {}
    let before: Vec<u64> = (0..pool.design().words()).map(|i| pool.design().peek(i)).collect();
    let mut worker = pool.worker().unwrap();
    let large = worker.run(|tx| (0..WORDS).try_for_each(|word| tx.set(at.at(word)?, word + 1)));
    assert!(matches!(large, Err(Error::SlotTooSmall { slots: 4, .. })), "{:?}", large.err());
    let after: Vec<u64> = (0..pool.design().words()).map(|i| pool.design().peek(i)).collect();
    assert!(before == after, "{}: the refused transaction had an effect", D::NAME);
    for step in 0..300 {
        // Together these transactions fill the slot many times.
        let done = worker.run(|tx| (0..128).try_for_each(|word| tx.set(at.at(word)?, word + step)));
        assert!(done.unwrap().ticket.is_durable());
    }
    let mut more = Vec::new();
    let refused = loop {
        match pool.worker() {
            Ok(worker) => more.push(worker),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::TooManyWorkers { max: 4, .. }), "{refused}");
    assert!(refused.to_string().contains("a larger log"), "{refused}");
    drop(more);
    assert!(pool.worker().is_ok(), "no slot is free");
}

#[test]
fn slots_bound_transactions_and_workers() {
    for options in media() {
        bounds::<Undo>(&options);
        bounds::<Redo>(&options);
        bounds::<Snapshot>(&options);
    }
}

/// Abandons a pool with the records of several transactions, overwrites four bytes at offset `at`
/// of its log, and returns the check's report.
fn destroyed<D: Design>(at: u64) -> lastword::Report {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let pool = Pool::<D>::create_as(&path, options().medium(EMULATED)).unwrap();
    let word = pool.run(|tx| tx.alloc(0_u64)).unwrap().value;
    for value in 0..5 {
        let _ = pool.run(|tx| tx.set(word, value)).unwrap();
    }
    pool.abandon();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(b"oops", (2 << 20) + at).unwrap();
    let report = lastword::check(&path).unwrap();
    let opened = Pool::<D>::open_as(&path, Options::new());
    assert_eq!(report.opens(), opened.is_ok());
    report
}

#[test]
fn destroyed_record_before_others_is_damage() {
    let report = destroyed::<Redo>(8192 + 24);
    assert!(matches!(report.refusal, Some(Error::DamagedLog { .. })), "{:?}", report.refusal);
    assert!(report.findings.iter().any(|one| matches!(one.problem, Problem::LogGroup { .. })));
    // The same damage is harmless to `undo`, whose records are void after each commit.
    assert!(destroyed::<Undo>(8192 + 24).opens());
}

/// Returns the first words of the live objects that a salvage shows, and the refusal.
fn salvaged(path: &Path) -> (Vec<u64>, Error) {
    let (heap, report) = HeapAtRest::salvage(path).unwrap();
    let first = |live| heap.words(&live).next().unwrap();
    (heap.objects().map(first).collect(), report.refusal.expect("the log is damaged"))
}

/// Each of two workers writes a word of its own several times. The third of five records of the
/// first worker is lost.
fn whole_records_are_salvaged<D: Design>() {
    const FIRST: u64 = 0x00ab_cd00;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let pool = Pool::<D>::create_as(&path, options().medium(Medium::File)).unwrap();
    let words = [0, 1].map(|_| pool.run(|tx| tx.alloc(0_u64)).unwrap().value);
    pool.checkpoint().unwrap();
    let mut workers = [pool.worker().unwrap(), pool.worker().unwrap()];
    for value in 1..=5 {
        for (number, worker) in workers.iter_mut().enumerate() {
            let value = FIRST + 16 * number as u64 + value;
            let _ = worker.run(|tx| tx.set(words[number], value)).unwrap();
        }
    }
    drop(workers);
    pool.abandon();
    let log = path.with_file_name("pool.log");
    let mut bytes = std::fs::read(&log).unwrap();
    let lost = (FIRST + 3).to_le_bytes();
    let blocks = bytes.chunks_mut(4096).enumerate();
    let mut found = blocks.filter(|(_, block)| block.chunks(8).any(|word| word == lost));
    let (number, block) = found.next().expect("the log has the record");
    block.fill(0);
    std::fs::write(&log, bytes).unwrap();
    let (shown, refusal) = salvaged(&path);
    assert_eq!(shown, [FIRST + 2, FIRST + 16 + 5], "{}", D::NAME);
    let lost = 4096 * number as u64;
    let why = LogDamage::RecordLost { proof: lost + 4096 };
    assert!(
        matches!(refusal, Error::DamagedLog { at, why: found, .. } if at == lost && found == why)
    );
}

#[test]
fn salvage_shows_whole_records_of_damaged_log() {
    whole_records_are_salvaged::<Redo>();
    whole_records_are_salvaged::<Snapshot>();
}

#[test]
fn salvage_rolls_back_in_intact_slots() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("pool"), dir.path().join("copy"));
    let pool = Pool::<Undo>::create_as(&path, options().medium(EMULATED)).unwrap();
    let mut workers = [pool.worker().unwrap(), pool.worker().unwrap()];
    // Each worker allocates in slabs of its own, so the words have different ownership records.
    let words = workers.each_mut().map(|worker| worker.run(|tx| tx.alloc(7_u64)).unwrap().value);
    let [first, second] = &mut workers;
    // The heap image has new words of both transactions, and neither has ended.
    let _ = first.run(|tx| {
        tx.set(words[0], 8)?;
        let other = || {
            let _ = second.run(|tx| {
                tx.set(words[1], 8)?;
                std::fs::copy(&path, &copy).unwrap();
                Ok(())
            });
        };
        std::thread::scope(|scope| scope.spawn(other).join().unwrap());
        Ok(())
    });
    let mut bytes = std::fs::read(&copy).unwrap();
    // The records of the first worker's slot, behind its two pages of heads.
    bytes[(2 << 20) + 2 * 4096..(2 << 20) + 3 * 4096].fill(0);
    std::fs::write(&copy, bytes).unwrap();
    let (shown, refusal) = salvaged(&copy);
    assert_eq!(shown, [8, 7]);
    let why = LogDamage::SlotEndLost;
    assert!(matches!(refusal, Error::DamagedLog { why: found, .. } if found == why), "{refusal}");
    drop(workers);
    pool.close().unwrap();
}

/// On mapped media a head has two copies, in two pages.
#[test]
fn lost_page_of_heads_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let pool = Pool::<Undo>::create_as(&path, options().medium(EMULATED)).unwrap();
    let word = pool.run(|tx| tx.alloc(1_u64)).unwrap().value;
    let last = pool.run(|tx| tx.set(word, 2)).unwrap().ticket.id();
    pool.abandon();
    let whole = std::fs::read(&path).unwrap();
    for page in 0..2 {
        let mut bytes = whole.clone();
        bytes[(2 << 20) + 4096 * page..(2 << 20) + 4096 * (page + 1)].fill(0);
        std::fs::write(&path, bytes).unwrap();
        let checked = lastword::check(&path).unwrap().sound().unwrap();
        assert_eq!(checked.durable_id, last, "page {page}");
        let pool = Pool::<Undo>::open_as(&path, options().medium(EMULATED)).unwrap();
        assert_eq!(pool.run(|tx| tx.get(word)).unwrap().value, 2, "page {page}");
        pool.abandon();
    }
}

/// Under `undo` on files the lost end of a slot has no finding. Its last head marks the records of
/// a transaction as finished.
#[test]
fn undo_on_files_without_last_head_rolls_back_finished() {
    const PAGE: usize = 4096;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let options = options().medium(Medium::File);
    let pool = Pool::<Undo>::create_as(&path, options.clone()).unwrap();
    let word = pool.run(|tx| tx.alloc(0_u64)).unwrap().value;
    let mut workers = [pool.worker().unwrap(), pool.worker().unwrap()];
    let mut put =
        |worker: usize, value| workers[worker].run(|tx| tx.set(word, value)).unwrap().ticket.id().0;
    put(0, 1);
    let last = put(0, 2);
    put(1, 3);
    drop(workers);
    pool.abandon();
    let [whole, log_path] = ["pool", "pool.log"].map(|name| dir.path().join(name));
    let (heap, mut log) = (std::fs::read(&whole).unwrap(), std::fs::read(&log_path).unwrap());
    let number = |page: &[u8], word: usize| {
        u64::from_le_bytes(page[8 * word..8 * word + 8].try_into().unwrap())
    };
    let is_last = |page: &[u8]| page.starts_with(b"LWSLOTHD") && number(page, 5) == last;
    let head = log.chunks(PAGE).position(is_last).expect("the worker has a head");
    let copy = number(&log[head * PAGE..], 4) as usize % 2;
    let mut shown = |lost: usize| {
        log[lost * PAGE..(lost + 1) * PAGE].fill(0);
        std::fs::write(&whole, &heap).unwrap();
        std::fs::write(&log_path, &log).unwrap();
        assert!(lastword::check(&path).unwrap().is_sound());
        let pool = Pool::<Undo>::open_as(&path, options.clone()).unwrap();
        let shown = pool.run(|tx| tx.get(word)).unwrap().value;
        pool.abandon();
        shown
    };
    // The transaction looks unfinished. Its old value replaces that of the other worker.
    assert_eq!(shown(head), 1);
    // Without its record, behind the two copies of the head, it is not rolled back.
    assert_eq!(shown(head - copy + 2), 3);
}
