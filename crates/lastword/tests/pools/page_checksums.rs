//! Damaged pages of the heap image are detected and named, and all other pages can be read.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::names::EMULATED;
use lastword::{
    Addr, Array, Bytes, CheckOptions, CopyOptions, Decoupled, DecoupledEvicting, DecoupledSoftware,
    Design, Error, HeapAtRest, Medium, MediumError, Objects, Options, Place, Pool, PoolReader,
    Problem, Ptr, Redo, Severity, Shadow, Snapshot, Undo, Words,
};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;
const MEDIA: [Medium; 2] = [Medium::File, EMULATED];
const COUNT: u64 = 1000;

fn options(medium: Medium) -> Options {
    Options::new().bytes(MIB).log_bytes(MIB).medium(medium)
}

type Value = [u64; 40];

/// A pool with `COUNT` values, each behind a table of pointers to them.
struct Values {
    _dir: TempDir,
    path: PathBuf,
    values: Vec<Ptr<Value>>,
}

impl Values {
    /// Makes the pool, and closes or abandons it.
    fn create<D: Design>(options: Options, closes: bool) -> Values {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("values.pool");
        let pool = Pool::<D>::create_as(&path, options).unwrap();
        let value = |number| pool.run(|tx| tx.alloc([number; 40])).unwrap().value;
        let values = (0..COUNT).map(value).collect();
        pool.flush().unwrap();
        match closes {
            true => pool.close().unwrap(),
            false => pool.abandon(),
        }
        Values { _dir: dir, path, values }
    }

    /// Returns the place of a value in the file.
    fn place(&self, number: u64) -> u64 {
        let heap_offset = self.file().metadata().unwrap().len() - MIB;
        heap_offset + (self.values[number as usize].to_bits() & 0xffff_ffff)
    }

    fn file(&self) -> File {
        File::options().read(true).write(true).open(&self.path).unwrap()
    }

    /// Flips a bit in the middle of a value.
    fn damage(&self, number: u64) {
        flip(&self.file(), self.place(number) + 160);
    }

    /// Returns the first byte of the page in which `damage` damages a value.
    fn page(&self, number: u64) -> u64 {
        (self.place(number) + 160) / 4096 * 4096
    }

    fn check<D: Design>(&self, pool: &Pool<D>) {
        for (number, value) in (0..).zip(&self.values) {
            assert_eq!(pool.run(|tx| tx.get(*value)).unwrap().value, [number; 40]);
        }
    }
}

fn flip(file: &File, at: u64) {
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 4], at).unwrap();
}

fn is_damaged_page<T>(result: Result<T, Error>, at: u64, count: usize) -> bool {
    match result {
        Err(Error::Medium(MediumError::DamagedPages { at: found, pages, .. })) => {
            (found, pages) == (at, count)
        }
        _ => false,
    }
}

fn damage_is_named<D: Design>() {
    for medium in MEDIA {
        let values = Values::create::<D>(options(medium), true);
        let scrub = lastword::scrub(&values.path).unwrap();
        assert_eq!((scrub.pages, scrub.compared, scrub.damaged.len()), (256, 256, 0));
        values.damage(700);
        let at = values.page(700);
        assert_eq!(lastword::scrub(&values.path).unwrap().damaged, [at]);
        let opened = Pool::<D>::open_as(&values.path, Options::new());
        assert!(is_damaged_page(opened, at, 1));
        assert!(is_damaged_page(PoolReader::open(&values.path, Options::new()), at, 1));
        let copy = values.path.with_extension("copy");
        assert!(is_damaged_page(lastword::copy(&values.path, copy, &CopyOptions::new()), at, 1));
        let report = lastword::check(&values.path).unwrap();
        assert_eq!((report.severity(), report.findings.len()), (Severity::Refused, 1));
        let finding = &report.findings[0];
        let Problem::DamagedPages { pages: 1, objects } = &finding.problem else {
            panic!("{finding}")
        };
        assert!(objects.contains(&values.values[700].to_bits()) && objects.len() < 15);
        assert_eq!(finding.at, Some(at));
        salvaged(&values, objects);
        assert!(is_damaged_page(report.sound().map(drop), at, 1));
    }
}

/// Everything outside the damaged page can be read, and nothing on it is shown.
fn salvaged(values: &Values, objects: &[u64]) {
    let reader = PoolReader::open(&values.path, Options::new().salvage(true)).unwrap();
    let (mut whole, at) = (0, values.page(700));
    for (number, value) in (0..).zip(&values.values) {
        match reader.read(|tx| tx.get(*value)) {
            Ok(value) => {
                assert_eq!(value, [number; 40]);
                whole += 1;
            }
            read => {
                assert!(objects.contains(&value.to_bits()));
                assert!(is_damaged_page(read, at, 1));
            }
        }
    }
    let (heap, report) = HeapAtRest::salvage(&values.path).unwrap();
    assert!(!report.opens());
    let shown: Vec<_> = heap.objects().filter(|live| heap.is_whole(live)).collect();
    assert!(shown.len() >= whole && shown.len() <= COUNT as usize);
    assert_eq!(heap.objects().count(), COUNT as usize);
    assert!(shown.iter().all(|live| !objects.contains(&live.object)));
}

#[test]
fn damaged_page_is_named_rest_is_read() {
    every_durable!(damage_is_named());
}

fn free_memory_is_damaged<D: Design>() {
    for medium in MEDIA {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("values.pool");
        let pool = Pool::<D>::create_as(&path, options(medium)).unwrap();
        let make = |len: u64| pool.run(|tx| Array::<u64>::create(tx, len)).unwrap().value;
        let arrays: Vec<_> = (0..10).map(|_| make(4000)).collect();
        for array in &arrays {
            for from in (0..4000).step_by(400) {
                let set = pool
                    .run(|tx| (from..from + 400).try_for_each(|at| tx.set(array.at(at)?, at + 1)));
                let _ = set.unwrap();
            }
        }
        let _ = pool.run(|tx| arrays[5].free(tx)).unwrap();
        pool.close().unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let heap_at = file.metadata().unwrap().len() - MIB;
        let whole = std::fs::read(&path).unwrap();
        let page_of = |number: usize, page: u64| {
            let array = arrays[number].at(0).unwrap().addr().byte() & 0xffff_ffff;
            heap_at + array / 4096 * 4096 + 4096 * page
        };
        let copied = |name: &str| {
            let to = dir.path().join(name);
            // A backup fails on such a disk.
            let refused = lastword::copy(&path, &to, &CopyOptions::new());
            let Err(Error::Medium(MediumError::DamagedPages { .. })) = refused else {
                panic!("{refused:?}")
            };
            let done = lastword::copy_undamaged(&path, &to, &CopyOptions::new());
            done.map(|done| (done.left_out, Pool::<D>::open_as(&to, Options::new()).unwrap()))
        };
        // The last page of the heap was never used, and another one was freed.
        let (unused, freed) = (heap_at + MIB - 4096, page_of(5, 2));
        flip(&file, unused + 8);
        flip(&file, freed + 100);
        assert_eq!(lastword::scrub(&path).unwrap().damaged, [freed, unused]);
        assert!(Pool::<D>::open_as(&path, Options::new()).is_err());
        let (left_out, copy) = copied("copy").unwrap();
        assert_eq!(left_out, 2);
        copy.check_heap().unwrap();
        for array in arrays.iter().filter(|array| **array != arrays[5]) {
            let read = copy.run(|tx| tx.get(array.at(3999)?)).unwrap().value;
            assert_eq!(read, 4000);
        }
        // New memory is zero.
        let fresh = copy.run(|tx| Array::<u64>::reserve(tx, 60_000)).unwrap().value;
        while !copy.run(|tx| fresh.prepare(tx, 20)).unwrap().value {}
        for at in 0..60_000 {
            assert_eq!(copy.run(|tx| tx.get(fresh.at(at)?)).unwrap().value, 0);
        }
        copy.close().unwrap();
        // A page with the allocator's words, with an element, or with the end of a freed run.
        for (number, at) in [heap_at + 8, page_of(6, 2), page_of(5, 0)].into_iter().enumerate() {
            file.write_all_at(&whole, 0).unwrap();
            flip(&file, unused + 8);
            flip(&file, at + 1000);
            let copy = copied(&format!("refused{number}"));
            let Err(Error::Medium(MediumError::DamagedPages { .. })) = copy else {
                panic!("{number}: {:?}", copy.map(|(_, copy)| copy.info()))
            };
        }
    }
}

#[test]
fn copy_leaves_damage_of_free_memory_behind() {
    every_durable!(free_memory_is_damaged());
}

fn crash_damages_no_page<D: Design>() {
    for medium in MEDIA {
        let values = Values::create::<D>(options(medium), false);
        assert!(lastword::scrub(&values.path).unwrap().damaged.is_empty());
        let pool = Pool::<D>::open_as(&values.path, Options::new()).unwrap();
        values.check(&pool);
        pool.close().unwrap();
        let scrub = lastword::scrub(&values.path).unwrap();
        assert_eq!((scrub.compared, scrub.damaged.len()), (256, 0));
    }
}

#[test]
fn abandoned_pool_has_no_damaged_page() {
    every_durable!(crash_damages_no_page());
}

/// The log of the crashed process has words of some pages. No other page may differ.
#[test]
fn damage_outside_replayed_pages_is_found() {
    let values = Values::create::<Decoupled>(options(Medium::File), true);
    let open = || Pool::open(&values.path, Options::new().background(false));
    let pool = open().unwrap();
    let _ = pool.run(|tx| tx.set(values.values[3], [3; 40])).unwrap();
    pool.flush().unwrap();
    pool.abandon();
    values.damage(700);
    let before = std::fs::read(&values.path).unwrap();
    let opened = open();
    assert!(is_damaged_page(opened, values.page(700), 1));
    assert!(before == std::fs::read(&values.path).unwrap());
    // A page that recovery writes to may have torn: its words in the log decide.
    values.damage(700);
    values.damage(3);
    values.check(&open().unwrap());
}

#[test]
fn page_is_compared_when_it_changes() {
    let values = Values::create::<Decoupled>(options(Medium::File), true);
    values.damage(700);
    let pool = Pool::open(&values.path, Options::new().verify_at_open(false)).unwrap();
    assert_eq!(pool.scrub().unwrap().damaged, [values.page(700)]);
    let mut damaged = [700; 40];
    damaged[20] ^= 4;
    assert_eq!(pool.run(|tx| tx.get(values.values[700])).unwrap().value, damaged);
    let copy = values.path.with_extension("copy");
    assert!(is_damaged_page(pool.backup(copy), values.page(700), 1));
    let _ = pool.run(|tx| tx.set(values.values[3], [3; 40])).unwrap();
    pool.checkpoint().unwrap();
    let _ = pool.run(|tx| tx.set(values.values[700], [700; 40])).unwrap();
    let written = pool.checkpoint().unwrap_err().to_string();
    assert!(written.contains("differs from its checksum"), "{written}");
    drop(pool);
    // The log has words of the page, which do not excuse it: damage was found before the crash.
    for verify in [true, false] {
        let options = Options::new().verify_at_open(verify);
        let opened = Pool::open(&values.path, options);
        assert!(is_damaged_page(opened, values.page(700), 1));
    }
}

/// The scrub's mark is durable, so a crash and the log's words do not hide the damage.
#[test]
fn scrubbed_page_stays_damaged_after_crash() {
    for medium in MEDIA {
        let values = Values::create::<Decoupled>(options(medium), true);
        let options = Options::new().verify_at_open(false).background(false);
        let pool = Pool::open(&values.path, options.clone()).unwrap();
        values.damage(700);
        assert_eq!(pool.scrub().unwrap().damaged, [values.page(700)]);
        let first = Addr::new(values.values[700].to_bits(), 0);
        let _ = pool.run(|tx| tx.write(first, 9)).unwrap();
        pool.flush().unwrap();
        pool.abandon();
        let opened = Pool::open(&values.path, options);
        assert!(is_damaged_page(opened, values.page(700), 1));
    }
}

/// A design that works on the mapping compares a page before its first store.
#[test]
fn mapped_page_is_compared_when_it_changes() {
    fn changes<D: Design>() {
        let values = Values::create::<D>(options(EMULATED), true);
        values.damage(700);
        let options = Options::new().verify_at_open(false);
        let pool = Pool::<D>::open_as(&values.path, options).unwrap();
        // Another word of the page.
        let first = Addr::new(values.values[700].to_bits(), 0);
        let _ = pool.run(|tx| tx.write(first, 9));
        let closed = pool.close().unwrap_err().to_string();
        assert!(closed.contains("differs from its checksum"), "{closed}");
        let opened = Pool::<D>::open_as(&values.path, Options::new());
        assert!(is_damaged_page(opened, values.page(700), 1));
    }
    every_durable!(changes());
}

/// The text of a string has a header after each kilobyte, so it ends later than its length says.
#[test]
fn damage_at_string_end_names_string() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("strings.pool");
    let pool = Pool::create(&path, options(Medium::File)).unwrap();
    let _ = pool.run(|tx| Bytes::new(tx, &[7; 200_000])).unwrap();
    pool.close().unwrap();
    let string = HeapAtRest::load(&path).unwrap().objects().next().unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let heap_offset = file.metadata().unwrap().len() - MIB;
    // 199 headers of 16 bytes.
    let end = heap_offset + string.offset + 200_000;
    flip(&file, end + 3000);
    let report = lastword::check(&path).unwrap();
    let Problem::DamagedPages { objects, .. } = &report.findings[0].problem else {
        panic!("{report:?}")
    };
    assert_eq!(objects, &[string.object]);
    let (heap, _) = HeapAtRest::salvage(&path).unwrap();
    assert!(!heap.objects().any(|live| heap.is_whole(&live)));
}

#[test]
fn check_verifies_pages_as_open_does() {
    let values = Values::create::<Decoupled>(options(Medium::File), true);
    values.damage(700);
    for verify in [false, true] {
        let options = Options::new().verify_at_open(verify);
        let report = lastword::check_with(&values.path, &CheckOptions::from(&options)).unwrap();
        assert_eq!(report.opens(), !verify);
        assert_eq!(Pool::open(&values.path, options).is_ok(), !verify);
    }
    // Shadows that open a pool without reading its heap compare no page.
    let bounded = Options::new().shadow(Shadow::CopyOnWrite);
    assert!(Pool::open(&values.path, bounded.clone()).is_ok());
    assert!(Pool::open(&values.path, bounded.verify_at_open(true)).is_err());
}

#[test]
fn pool_in_use_is_scrubbed() {
    fn scrubs<D: Design>(options: Options, changes: bool) {
        let values = Values::create::<D>(options.clone(), true);
        let pool = Pool::<D>::open_as(&values.path, options).unwrap();
        for value in values.values.iter().filter(|_| changes) {
            let _ = pool.run(|tx| {
                tx.update(*value, |mut value| {
                    value[7] = 1;
                    value
                })
            });
        }
        pool.checkpoint().unwrap();
        let scrub = pool.scrub().unwrap();
        assert_eq!((scrub.pages, scrub.compared, scrub.damaged.len()), (256, 256, 0));
        values.damage(10);
        assert_eq!(pool.scrub().unwrap().damaged, [values.page(10)]);
        let beside = lastword::scrub(&values.path).unwrap_err();
        assert!(matches!(beside, Error::Medium(MediumError::InUse { .. })), "{beside}");
        pool.abandon();
    }
    for medium in MEDIA {
        scrubs::<Decoupled>(options(medium).reproduce_threads(3), true);
        let bounded = options(medium).shadow_bytes(200 << 10);
        scrubs::<DecoupledEvicting>(bounded.clone().shadow(Shadow::CopyOnWrite), true);
        scrubs::<DecoupledSoftware>(bounded.shadow(Shadow::Software), true);
        // Workers that write to a mapped heap image leave checksums to the shutdown.
        let changes = medium == Medium::File;
        scrubs::<Snapshot>(options(medium), changes);
        scrubs::<Undo>(options(medium), changes);
        scrubs::<Redo>(options(medium), changes);
    }
}

#[test]
fn damaged_checksums_are_named_and_replaced() {
    for medium in MEDIA {
        let values = Values::create::<Decoupled>(options(medium), true);
        flip(&values.file(), 8192 + 64 + 5);
        let report = lastword::check(&values.path).unwrap();
        assert!(report.opens() && report.severity() == Severity::Damage);
        let problem = &report.findings[0].problem;
        assert!(matches!(problem, Problem::PageChecksums { pages: 15, .. }), "{problem}");
        let scrub = lastword::scrub(&values.path).unwrap();
        assert_eq!((scrub.compared, scrub.lost_checksums), (256 - 15, 15));
        let pool = Pool::open(&values.path, Options::new()).unwrap();
        values.check(&pool);
        pool.close().unwrap();
        assert!(lastword::check(&values.path).unwrap().findings.is_empty());
        assert_eq!(lastword::scrub(&values.path).unwrap().compared, 256);
    }
}

#[test]
fn erased_checksums_are_found() {
    let values = Values::create::<Decoupled>(options(Medium::File), true);
    values.file().write_all_at(&[0; 4096], 8192).unwrap();
    let scrub = lastword::scrub(&values.path).unwrap();
    assert!(scrub.compared == 0 && scrub.lost_checksums > 80, "{scrub:?}");
    assert!(!lastword::check(&values.path).unwrap().is_sound());
}

#[test]
fn damaged_pool_does_not_grow() {
    let values = Values::create::<Decoupled>(options(Medium::File), true);
    values.damage(700);
    let before = std::fs::read(&values.path).unwrap();
    assert!(is_damaged_page(lastword::grow(&values.path, 4 * MIB), values.page(700), 1));
    assert!(before == std::fs::read(&values.path).unwrap());
}

#[test]
fn pool_without_checksums_is_not_compared() {
    for medium in MEDIA {
        let values = Values::create::<Decoupled>(options(medium).page_checksums(false), true);
        let info = lastword::inspect(&values.path).unwrap();
        assert_eq!(info.checksummed_bytes, 0);
        let copy = values.path.with_extension("copy");
        let form = CopyOptions::new().page_checksums(true);
        lastword::copy(&values.path, &copy, &form).unwrap();
        assert_eq!(lastword::inspect(&copy).unwrap().checksummed_bytes, MIB);
        assert_eq!(lastword::scrub(&copy).unwrap().compared, 256);
        values.damage(700);
        assert_eq!(lastword::scrub(&values.path).unwrap().compared, 0);
        assert!(lastword::check(&values.path).unwrap().is_sound());
        let pool = Pool::open(&values.path, Options::new()).unwrap();
        pool.checkpoint().unwrap();
        assert_eq!(pool.scrub().unwrap().compared, 0);
    }
}

#[test]
fn copies_and_backups_have_checksums() {
    for medium in MEDIA {
        let values = Values::create::<Decoupled>(options(medium), true);
        let (copy, backup) =
            (values.path.with_extension("copy"), values.path.with_extension("backup"));
        lastword::copy(&values.path, &copy, &CopyOptions::new().bytes(3 * MIB)).unwrap();
        let pool = Pool::open(&values.path, Options::new()).unwrap();
        let _ = pool.run(|tx| tx.set(values.values[7], [7; 40])).unwrap();
        pool.backup(&backup).unwrap();
        drop(pool);
        for (path, pages) in [(&copy, 768), (&backup, 256)] {
            let scrub = lastword::scrub(path).unwrap();
            assert_eq!((scrub.compared, scrub.damaged.len()), (pages, 0));
            values.check(&Pool::open(path, Options::new()).unwrap());
        }
    }
}

fn grows<D: Design>() {
    for medium in MEDIA {
        let options = options(medium).max_bytes(4 << 30);
        let values = Values::create::<D>(options.clone(), true);
        let pool = Pool::<D>::open_as(&values.path, options).unwrap();
        pool.grow(2 * MIB).unwrap();
        for number in 0..COUNT {
            let _ = pool.run(|tx| tx.alloc([number; 100])).unwrap();
        }
        pool.close().unwrap();
        let scrub = lastword::scrub(&values.path).unwrap();
        assert_eq!((scrub.compared, scrub.damaged.len()), (scrub.pages, 0));
        assert_eq!(scrub.pages, 512);
        assert_eq!(lastword::inspect(&values.path).unwrap().checksummed_bytes, 2 * MIB);
        flip(&values.file(), values.file().metadata().unwrap().len() - 9);
        assert_eq!(lastword::scrub(&values.path).unwrap().damaged.len(), 1);
    }
}

#[test]
fn grown_heap_has_checksums() {
    every_durable!(grows());
}

/// The table lies before the first area, which has the place that it needs.
#[test]
fn table_has_room_for_the_largest_heap() {
    for (max_bytes, offset) in [(MIB, 2), (1 << 30, 2), (3 << 30, 4), (64 << 30, 70)] {
        let values = Values::create::<Decoupled>(options(Medium::File).max_bytes(max_bytes), true);
        assert_eq!(heap_offset(&values.path), offset * MIB);
    }
}

fn heap_offset(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len() - MIB
}

/// A design that changes words in place marks their pages first.
#[test]
fn changed_page_has_no_checksum_until_shutdown() {
    fn changes<D: Design>() {
        let values = Values::create::<D>(options(EMULATED), true);
        let pool = Pool::<D>::open_as(&values.path, Options::new()).unwrap();
        pool.run(|tx| tx.set(values.values[700], [700; 40])).unwrap().ticket.wait().unwrap();
        pool.checkpoint().unwrap();
        pool.abandon();
        let compared = lastword::scrub(&values.path).unwrap().compared;
        assert!((200..256).contains(&compared), "{compared}");
        drop(Pool::<D>::open_as(&values.path, Options::new()).unwrap());
        assert_eq!(lastword::scrub(&values.path).unwrap().compared, 256);
    }
    changes::<Undo>();
    changes::<Redo>();
    changes::<Snapshot>();
}

/// The copied memory was loaded without a comparison: the copy must not make the damage valid.
fn unverified_damage_fails_backup<D: Design>(shadow: Shadow) {
    let values = Values::create::<D>(options(Medium::File), true);
    values.damage(700);
    let unverified = options(Medium::File).shadow(shadow).verify_at_open(false);
    let pool = Pool::<D>::open_as(&values.path, unverified).unwrap();
    let copy = values.path.with_extension("backup");
    assert!(is_damaged_page(pool.backup(&copy), values.page(700), 1), "{}", D::NAME);
    assert!(!copy.exists());
}

/// A page that changes after its damage has no checksum: the copy must not give it one.
fn changed_damaged_page_fails_backup<D: Design>() {
    let values = Values::create::<D>(options(EMULATED), true);
    values.damage(700);
    let unverified = options(EMULATED).verify_at_open(false);
    let pool = Pool::<D>::open_as(&values.path, unverified).unwrap();
    let is_beside = |other: &u64| values.place(*other) / 4096 * 4096 == values.page(700);
    let intact = [699, 701].into_iter().find(is_beside).unwrap();
    pool.run(|tx| tx.set(values.values[intact as usize], [0; 40])).unwrap().ticket.wait().unwrap();
    let copy = values.path.with_extension("backup");
    assert!(is_damaged_page(pool.backup(&copy), values.page(700), 1), "{}", D::NAME);
    assert_eq!(pool.scrub().unwrap().damaged, [values.page(700)], "{}", D::NAME);
}

#[test]
fn backup_finds_damage_of_changed_page() {
    changed_damaged_page_fails_backup::<Undo>();
    changed_damaged_page_fails_backup::<Redo>();
    changed_damaged_page_fails_backup::<Snapshot>();
}

#[test]
fn backup_of_unverified_pool_finds_damage() {
    every_durable!(unverified_damage_fails_backup(Shadow::Full));
    unverified_damage_fails_backup::<Redo>(Shadow::CopyOnWrite);
    unverified_damage_fails_backup::<Snapshot>(Shadow::CopyOnWrite);
}
