//! Limits on the process's address space (`ulimit -v`).
//!
//! A pool that gets too little memory is refused before any of its files is made or changed, and
//! the error names the missing memory.

use std::path::Path;

use lastword::{
    Decoupled, Design, Error, Medium, MediumError, Options, Pool, Shadow, Snapshot, Undo, Volatile,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::limits::in_child;

/// Set in the child process, to which the limits apply.
const CHILD: &str = "LASTWORD_TEST_LIMITED";

const HEAP_BYTES: u64 = 256 << 20;
/// One ownership record for each stripe of 512 bytes: 4 MiB in total.
const RECORDS: u64 = HEAP_BYTES / 512;

/// Limits the address space to `more` bytes above its present size, or lifts the limit.
fn limit(more: Option<u64>) {
    let maximum = getrlimit(Resource::As).maximum;
    let used = || {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        4096 * pages.split(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let current = more.map(|more| {
        // A thread that has just ended may still give its memory back.
        let mut before = used();
        loop {
            std::thread::sleep(std::time::Duration::from_millis(20));
            let now = used();
            if now == before {
                return now + more;
            }
            before = now;
        }
    });
    setrlimit(Resource::As, Rlimit { current, maximum }).unwrap();
}

fn assert_no_records(error: &Error) {
    let Error::NoRecords { records, bytes } = error else { panic!("{error}") };
    assert_eq!((*records, *bytes), (RECORDS, 8 * RECORDS));
    let text = error.to_string();
    for name in ["Options::ownership_records", "lw_options", "--ownership-records"] {
        assert!(text.contains(name), "{text}");
    }
}

#[test]
fn records_without_memory_are_refused_at_open() {
    const NAME: &str = "memory::records_without_memory_are_refused_at_open";
    if std::env::var_os(CHILD).is_none() {
        return in_child("true", NAME);
    }
    let heap = HEAP_BYTES + (4 << 20); // huge pages take 2 MiB for alignment, records 4 and 2
    let options = Options::new().bytes(HEAP_BYTES).ownership_records(RECORDS);
    limit(Some(heap));
    let refused = Pool::<Volatile>::create_as("", options.clone());
    let fewer = Pool::<Volatile>::create_as("", options.clone().ownership_records(1 << 12));
    limit(None);
    assert_no_records(&refused.unwrap_err());
    drop(fewer.unwrap());
}

/// The records are asked for before a file is made, and before a sparse copy gets its blocks. On
/// mapped media they are all the memory that `undo` needs.
#[test]
fn records_without_memory_allocate_no_disk() {
    const NAME: &str = "memory::records_without_memory_allocate_no_disk";
    if std::env::var_os(CHILD).is_none() {
        return in_child("true", NAME);
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.pool");
    let options = Options::new().bytes(HEAP_BYTES).log_bytes(1 << 20);
    let options = options.medium(Medium::PersistentCache);
    let demanding = options.clone().ownership_records(RECORDS);
    limit(Some(4 * RECORDS));
    let refused = Pool::<Undo>::create_as(&path, demanding.clone());
    limit(None);
    assert_no_records(&refused.unwrap_err());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    let pool = Pool::<Undo>::create_as(&path, options.ownership_records(1000)).unwrap();
    pool.close().unwrap();
    make_sparse(&path);
    let before = blocks(&path);
    limit(Some(4 * RECORDS));
    let refused = Pool::<Undo>::open_as(&path, demanding.clone());
    limit(None);
    assert_no_records(&refused.unwrap_err());
    assert_eq!(blocks(&path), before);
    drop(Pool::<Undo>::open_as(&path, demanding).unwrap());
    assert!(blocks(&path) > before);
}

/// The shadow is allocated before any file is made, so a refusal leaves no file.
#[test]
fn heap_without_memory_allocates_no_disk() {
    const NAME: &str = "memory::heap_without_memory_allocates_no_disk";
    if std::env::var_os(CHILD).is_none() {
        return in_child("true", NAME);
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.pool");
    let options = Options::new().bytes(HEAP_BYTES).log_bytes(1 << 20).medium(Medium::File);
    limit(Some(HEAP_BYTES / 2));
    let refused = Pool::create(&path, options.clone()).unwrap_err();
    limit(None);
    assert!(matches!(refused, Error::Medium(MediumError::NoMemory { bytes: HEAP_BYTES })));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    // A sparse copy keeps its holes when the open is refused. A successful open allocates them.
    let small = Options::new().bytes(HEAP_BYTES).log_bytes(1 << 20).medium(Medium::File);
    Pool::create(&path, small.shadow(Shadow::CopyOnWrite)).unwrap().close().unwrap();
    make_sparse(&path);
    let before = blocks(&path);
    limit(Some(HEAP_BYTES / 2));
    let refused = Pool::open(&path, options.clone()).unwrap_err();
    limit(None);
    assert!(matches!(refused, Error::Medium(MediumError::NoMemory { bytes: HEAP_BYTES })));
    assert_eq!(blocks(&path), before);
    assert!(before < HEAP_BYTES / 512);
    let pool = Pool::open(&path, options.ownership_records(1000)).unwrap();
    assert_eq!(pool.info().ownership_records, Some(1024));
    assert!(blocks(&path) >= HEAP_BYTES / 512);
}

/// The pool has its memory. A worker's ring comes on top, and no other pool size would help.
#[test]
fn ring_without_memory_is_named() {
    const NAME: &str = "memory::ring_without_memory_is_named";
    if std::env::var_os(CHILD).is_none() {
        return in_child("true", NAME);
    }
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().bytes(1 << 20).log_bytes(1 << 20).medium(Medium::File);
    assert_no_ring::<Decoupled>(&dir.path().join("decoupled.pool"), &options);
    assert_no_ring::<Snapshot>(&dir.path().join("snapshot.pool"), &options);
}

fn assert_no_ring<D: Design>(path: &Path, options: &Options) {
    let pool = Pool::<D>::create_as(path, options.clone()).unwrap();
    limit(Some(4 << 20));
    let refused = pool.worker().map(drop);
    limit(None);
    let error = refused.unwrap_err();
    let Error::NoRing { bytes } = error else { panic!("{}: {error}", D::NAME) };
    let text = error.to_string();
    assert!(bytes >= 16 << 20 && text.contains(&bytes.to_string()), "{text}");
    for name in ["Options::ring_entries", "lw_options", "--ring-entries"] {
        assert!(text.contains(name), "{text}");
    }
    drop(pool.worker().unwrap());
}

fn blocks(path: &Path) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(&path.metadata().unwrap())
}

/// Punches a hole into most of an empty pool's heap image.
fn make_sparse(path: &Path) {
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    let hole = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, hole, 16 << 20, HEAP_BYTES - (32 << 20)).unwrap();
}
