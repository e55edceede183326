//! Compaction, export and import: the objects of a pool at other addresses in a new pool.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::names::EMULATED;
use lastword::{
    Allocate, Array, Bytes, CopyOptions, Decoupled, Design, Error, HeapAtRest, Objects, Options,
    Pool, PoolReader, Ptr, Stop, TransferError, TxId, Words,
};
use tempfile::TempDir;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const MIB: u64 = 1 << 20;
/// Lengths of byte strings: in an object, a slot of any size class and a run, at their limits.
const LENGTHS: [u64; 9] = [1, 1000, 1024, 1025, 2016, 5000, 32 << 10, (32 << 10) + 1, 100_001];
const ELEMENTS: u64 = 1000;
const NODES: u64 = 3000;

fn options() -> Options {
    // Not on a file: designs that are durable on return would sync it for each object.
    let options = Options::new().bytes(4 * MIB).log_bytes(16 * MIB).medium(EMULATED);
    options.layout("transfers", 3)
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Node {
    number: u64,
    next: Ptr<Node>,
}

/// The root of the tests' pool.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Root {
    nodes: Ptr<Node>,
    strings: [Bytes; 9],
    array: Array<Ptr<Node>>,
    /// An array of which only some blocks are prepared.
    reserved: Array<u64>,
    /// A pointer with a bit in it.
    marked: u64,
    freed: u64,
}

fn letter(at: u64) -> u8 {
    (at % 251) as u8
}

/// A pool with objects of all kinds, between holes.
struct Fixture {
    dir: TempDir,
    path: PathBuf,
    last: TxId,
}

impl Fixture {
    fn create<D: Design>() -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("full.pool");
        let pool = Pool::<D>::create_as(&path, options()).unwrap();
        let mut nodes = Vec::new();
        let mut next = Ptr::NULL;
        for number in 0..NODES {
            // A hole beside each node.
            let made = pool.run(|tx| {
                let hole = Bytes::new(tx, &[7; 700])?;
                let node = tx.alloc(Node { number, next })?;
                Ok((node, hole))
            });
            let (node, hole) = made.unwrap().value;
            nodes.push(node);
            next = node;
            let _ = pool.run(|tx| hole.free(tx)).unwrap();
        }
        let array = pool.run(|tx| Array::create(tx, ELEMENTS)).unwrap().value;
        let put = |n: u64| pool.run(|tx| tx.set(array.at(n)?, nodes[n as usize]));
        (0..ELEMENTS).for_each(|n| drop(put(n).unwrap()));
        // Each string in a transaction, because a slot of the log bounds it.
        let string = |len: u64| {
            let bytes: Vec<u8> = (0..len).map(letter).collect();
            pool.run(|tx| Bytes::new(tx, &bytes)).unwrap().value
        };
        let strings = LENGTHS.map(string);
        let last = pool.run(|tx| set_root(tx, (nodes[0], next), strings, array)).unwrap();
        let last = last.ticket.id();
        pool.close().unwrap();
        Fixture { dir, path, last }
    }

    fn to(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn export(&self) -> Vec<u8> {
        let mut stream = Vec::new();
        HeapAtRest::load(&self.path).unwrap().export(&mut stream).unwrap();
        stream
    }
}

fn set_root<W: Allocate>(
    tx: &mut W,
    (first, last): (Ptr<Node>, Ptr<Node>),
    strings: [Bytes; 9],
    array: Array<Ptr<Node>>,
) -> Result<(), Stop> {
    let reserved = Array::reserve(tx, ELEMENTS)?;
    reserved.prepare(tx, 3)?;
    let freed = tx.alloc(1_u64)?;
    tx.free(freed)?;
    let root = Root {
        nodes: last,
        strings,
        array,
        reserved,
        marked: first.to_bits() | 1,
        freed: freed.to_bits(),
    };
    let root = tx.alloc(root)?;
    tx.set_root_ptr(root)
}

/// Reads everything from the root on.
fn expect_all<W: Words>(tx: &mut W, root: Ptr<Root>) -> Result<(), Stop> {
    let root = tx.get(root)?;
    let mut node = root.nodes;
    for number in (0..NODES).rev() {
        let found = tx.get(node)?;
        assert_eq!(found.number, number);
        if number < ELEMENTS {
            assert_eq!(tx.get(root.array.at(number)?)?, node);
        }
        node = found.next;
    }
    assert!(node.is_null());
    for (len, string) in LENGTHS.into_iter().zip(root.strings) {
        let bytes = string.read(tx)?;
        assert!(bytes.len() as u64 == len && bytes.iter().zip(0..).all(|(b, at)| *b == letter(at)));
    }
    assert_eq!(tx.get(root.reserved.at(0)?)?, 0);
    Ok(())
}

fn expect_sound<D: Design>(path: &Path, last: TxId) {
    assert!(lastword::check(path).unwrap().is_sound());
    let pool = Pool::<D>::open_as(path, Options::new().layout("transfers", 3)).unwrap();
    assert_eq!(pool.committed_id(), last);
    let root = pool.run(|tx| tx.root_ptr::<Root>()).unwrap().value;
    let found = pool.worker().unwrap().read(|tx| expect_all(tx, root));
    found.map(drop).unwrap();
    // The rest of the array is still to be prepared.
    let reserved = pool.run(|tx| Ok(tx.get(root)?.reserved)).unwrap().value;
    assert!(pool.run(|tx| tx.set(reserved.at(ELEMENTS - 1)?, 1)).is_err());
    while !pool.run(|tx| reserved.prepare(tx, 10)).unwrap().value {}
    assert_eq!(pool.run(|tx| tx.get(reserved.at(ELEMENTS - 1)?)).unwrap().value, 0);
    // Freeing everything returns all memory.
    let freed = pool.run(|tx| {
        let Root { nodes, strings, array, reserved, .. } = tx.get(root)?;
        strings.into_iter().try_for_each(|string| string.free(tx))?;
        array.free(tx)?;
        reserved.free(tx)?;
        tx.free(root)?;
        Ok(nodes)
    });
    let mut node = freed.unwrap().value;
    while !node.is_null() {
        node = pool
            .run(|tx| {
                let next = tx.get(node)?.next;
                tx.free(node)?;
                Ok(next)
            })
            .unwrap()
            .value;
    }
    pool.close().unwrap();
    let usage = lastword::heap_usage(path).unwrap();
    assert_eq!((usage.objects, usage.arrays, usage.unknown_bytes), (0, 0, 0));
}

fn compacts<D: Design>() {
    let (fixture, form) = (Fixture::create::<D>(), CopyOptions::new());
    let small = fixture.to("small.pool");
    let before = lastword::heap_usage(&fixture.path).unwrap();
    let moved = lastword::compact(&fixture.path, &small, &form).unwrap();
    assert_eq!((moved.last, moved.allocations), (fixture.last, before.objects + before.arrays));
    // The list, the array, the root and its parts; not the marked and the freed one.
    let pointers = NODES - 1 + ELEMENTS + 1 + LENGTHS.len() as u64 + 2 + 1;
    assert_eq!((moved.pointers, moved.unmatched), (pointers, 2));
    let used = before.live_bytes();
    // The allocator's own 64 KiB, partly used slabs, and a quarter more.
    assert!(moved.heap_bytes < 2 * used && moved.heap_bytes < MIB, "{moved:?}, live {used}");
    // Pointers of the first pool, and pointers in another form, lead to errors.
    let reader = PoolReader::open(&small, Options::new().layout("transfers", 3)).unwrap();
    let old = PoolReader::open(&fixture.path, Options::new().layout("transfers", 3)).unwrap();
    let old = old.read(|tx| tx.root_ptr::<Root>()).unwrap();
    let is_bad = |read| matches!(read, Err(Error::BadPointer { .. }));
    assert!(is_bad(reader.read(|tx| tx.get(old).map(drop))));
    let marked = reader.read(|tx| {
        let root = tx.root_ptr::<Root>()?;
        Ok(tx.get(root)?.marked)
    });
    let marked = Ptr::<u64>::from_bits(marked.unwrap() & !1);
    assert!(is_bad(reader.read(|tx| tx.get(marked).map(drop))));
    drop(reader);
    expect_sound::<D>(&small, fixture.last);
    // A heap with little spare memory suffices, and a much larger one is possible.
    let again = fixture.to("again.pool");
    lastword::compact(&fixture.path, &again, &form.clone().bytes(used + 256 * 1024)).unwrap();
    expect_sound::<D>(&again, fixture.last);
    let large = fixture.to("large.pool");
    let moved = lastword::compact(&fixture.path, &large, &form.bytes(64 * MIB)).unwrap();
    assert_eq!(moved.heap_bytes, 64 * MIB);
    expect_sound::<D>(&large, fixture.last);
}

#[test]
fn compaction_keeps_all_objects() {
    every_durable!(compacts());
}

#[test]
fn too_small_heap_is_refused_with_needed_size() {
    let fixture = Fixture::create::<Decoupled>();
    let small = fixture.to("small.pool");
    let form = CopyOptions::new().bytes(256 << 10);
    let needed = match lastword::compact(&fixture.path, &small, &form) {
        Err(Error::Transfer(TransferError::HeapTooSmall { heap_bytes, needed_bytes })) => {
            assert_eq!(heap_bytes, 256 << 10);
            needed_bytes
        }
        other => panic!("{other:?}"),
    };
    assert!(!small.exists());
    let needed = needed.next_multiple_of(64 << 10);
    lastword::compact(&fixture.path, &small, &form.bytes(needed)).unwrap();
    // An existing pool is never replaced.
    let again = lastword::compact(&fixture.path, &small, &CopyOptions::new());
    assert!(again.is_err());
    assert!(lastword::check(&small).unwrap().is_sound());
}

fn imports<D: Design>() {
    let (fixture, form) = (Fixture::create::<D>(), CopyOptions::new());
    let stream = fixture.export();
    let path = fixture.to("imported.pool");
    let moved = lastword::import(&stream[..], &path, &form.log_bytes(2 * MIB)).unwrap();
    assert_eq!((moved.last, moved.unmatched), (fixture.last, 2));
    assert_eq!(lastword::inspect(&path).unwrap().log_bytes, 2 * MIB);
    // The export of the import has the same objects.
    let mut again = Vec::new();
    HeapAtRest::load(&path).unwrap().export(&mut again).unwrap();
    assert_eq!(again.len(), stream.len());
    expect_sound::<D>(&path, fixture.last);
}

#[test]
fn imported_pool_has_all_objects() {
    every_durable!(imports());
}

#[test]
fn view_is_exported_as_of_its_transaction() {
    let fixture = Fixture::create::<Decoupled>();
    let len = fixture.export().len();
    let pool = Pool::open(&fixture.path, Options::new().layout("transfers", 3)).unwrap();
    let root = pool.run(|tx| tx.root_ptr::<Root>()).unwrap().value;
    let view = pool.view().unwrap();
    let changed = pool.run(|tx| {
        let Root { nodes, strings, .. } = tx.get(root)?;
        tx.set(nodes, Node { number: 0, next: Ptr::NULL })?;
        strings[8].free(tx)
    });
    changed.unwrap().ticket.wait().unwrap();
    let mut stream = Vec::new();
    assert_eq!(view.export(&mut stream).unwrap().last, view.id());
    assert_eq!(stream.len(), len);
    let path = fixture.to("imported.pool");
    lastword::import(&stream[..], &path, &CopyOptions::new()).unwrap();
    let id = view.id();
    drop(view);
    expect_sound::<Decoupled>(&path, id);
}

/// A small pool, so that each byte of its export can be tried.
fn small_export(dir: &TempDir) -> Vec<u8> {
    let path = dir.path().join("small.pool");
    let pool = Pool::create(&path, options()).unwrap();
    let made = pool.run(|tx| {
        let first = tx.alloc([1_u64, 2, 3])?;
        let second = tx.alloc(first)?;
        tx.set_root_ptr(second)
    });
    made.map(drop).unwrap();
    pool.close().unwrap();
    let mut stream = Vec::new();
    HeapAtRest::load(&path).unwrap().export(&mut stream).unwrap();
    stream
}

#[test]
fn damaged_export_creates_no_pool() {
    let dir = tempfile::tempdir().unwrap();
    let (stream, path) = (small_export(&dir), dir.path().join("imported.pool"));
    assert_eq!(stream.len(), 256 + (2 * 24 + 4 * 8) + 8);
    let import = |stream: &[u8]| {
        let result = lastword::import(stream, &path, &CopyOptions::new());
        assert_eq!(path.exists(), result.is_ok());
        result.map(drop).map_err(|error| match error {
            Error::Transfer(error) => error,
            other => panic!("{other}"),
        })
    };
    for len in 0..stream.len() {
        let error = import(&stream[..len]).unwrap_err();
        match len {
            0..8 => assert!(matches!(error, TransferError::NotAnExport), "{len}: {error}"),
            _ => assert!(matches!(error, TransferError::Incomplete { .. }), "{len}: {error}"),
        }
    }
    for at in 0..8 * stream.len() {
        let mut stream = stream.clone();
        stream[at / 8] ^= 1 << (at % 8);
        let error = import(&stream).unwrap_err();
        match at / 64 {
            0 => assert!(matches!(error, TransferError::NotAnExport), "{at}: {error}"),
            1 => assert!(matches!(error, TransferError::Version { .. }), "{at}: {error}"),
            _ => assert!(matches!(error, TransferError::Damaged { .. }), "{at}: {error}"),
        }
    }
    let longer = [&stream[..], &[0]].concat();
    assert!(matches!(import(&longer), Err(TransferError::Damaged { .. })));
    import(&stream).unwrap();
}

/// The checksum of a frame covers its number.
#[test]
fn exchanged_frames_of_export_are_refused() {
    const FRAME: usize = 8 * (8192 + 1);
    let fixture = Fixture::create::<Decoupled>();
    let mut stream = fixture.export();
    // The first two frames have the descriptions of the objects.
    let begin = 256 + 2 * FRAME;
    let (first, second) = stream[begin..].split_at_mut(FRAME);
    first.swap_with_slice(&mut second[..FRAME]);
    let path = fixture.to("imported.pool");
    let error = lastword::import(&stream[..], &path, &CopyOptions::new()).unwrap_err();
    let at = (begin + FRAME) as u64;
    assert!(matches!(error, Error::Transfer(TransferError::Damaged { at: found }) if found == at));
}

/// A sink with room for so many bytes.
struct Bounded(usize);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn failed_write_of_export_is_an_error() {
    let fixture = Fixture::create::<Decoupled>();
    let (len, heap) = (fixture.export().len(), HeapAtRest::load(&fixture.path).unwrap());
    for room in [0, 300, len - 1] {
        let failed = heap.export(Bounded(room));
        assert!(matches!(failed, Err(Error::Transfer(TransferError::Write { .. }))));
    }
    heap.export(Bounded(len)).unwrap();
}

#[test]
fn salvaged_export_omits_damaged_objects() {
    let fixture = Fixture::create::<Decoupled>();
    let reader = PoolReader::open(&fixture.path, Options::new().layout("transfers", 3)).unwrap();
    let string = reader.read(|tx| {
        let root = tx.root_ptr::<Root>()?;
        Ok(tx.get(root)?.strings[8])
    });
    drop(reader);
    // Bytes in the middle of the longest string, on a page of its own.
    let offset = (string.unwrap().as_bytes()[..8].try_into().map(u64::from_le_bytes)).unwrap();
    let file = File::options().write(true).open(&fixture.path).unwrap();
    let heap_offset = file.metadata().unwrap().len() - 4 * MIB;
    file.write_all_at(&[0xff; 8], heap_offset + (offset & 0xffff_ffff) + 50_000).unwrap();

    let copy = fixture.to("copy.pool");
    assert!(HeapAtRest::load(&fixture.path).is_err());
    assert!(lastword::compact(&fixture.path, &copy, &CopyOptions::new()).is_err());
    let (heap, report) = HeapAtRest::salvage(&fixture.path).unwrap();
    assert!(!report.is_sound());
    let mut stream = Vec::new();
    let all = heap.objects().filter(|live| live.kind != lastword::Kind::Block).count() as u64 + 2;
    let exported = heap.export(&mut stream).unwrap();
    assert_eq!((exported.allocations, exported.left_out), (all - 1, 1));
    lastword::import(&stream[..], &copy, &CopyOptions::new()).unwrap();
    assert!(lastword::check(&copy).unwrap().is_sound());
    let reader = PoolReader::open(&copy, Options::new().layout("transfers", 3)).unwrap();
    let root = reader.read(|tx| {
        let root = tx.root_ptr::<Root>()?;
        tx.get(root)
    });
    let root = root.unwrap();
    assert_eq!(reader.read(|tx| root.strings[7].read(tx)).unwrap().len() as u64, LENGTHS[7]);
    let lost = reader.read(|tx| root.strings[8].read(tx));
    assert!(matches!(lost, Err(Error::BadPointer { .. })));
}

#[test]
fn salvaged_export_without_page_of_root_has_no_root() {
    let fixture = Fixture::create::<Decoupled>();
    let file = File::options().read(true).write(true).open(&fixture.path).unwrap();
    let root = file.metadata().unwrap().len() - 4 * MIB + 96;
    let mut byte = [0];
    file.read_exact_at(&mut byte, root).unwrap();
    file.write_all_at(&[byte[0] ^ 0x20], root).unwrap();
    let (heap, _) = HeapAtRest::salvage(&fixture.path).unwrap();
    assert_eq!(heap.root(), 0);
    let mut stream = Vec::new();
    heap.export(&mut stream).unwrap();
    let copy = fixture.to("copy.pool");
    lastword::import(&stream[..], &copy, &CopyOptions::new()).unwrap();
    assert_eq!(HeapAtRest::load(&copy).unwrap().root(), 0);
}

#[test]
fn empty_pool_is_compacted_and_imported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("empty.pool");
    Pool::create(&path, options()).unwrap().close().unwrap();
    let mut stream = Vec::new();
    assert_eq!(HeapAtRest::load(&path).unwrap().export(&mut stream).unwrap().allocations, 0);
    let copies = ["small.pool", "imported.pool"].map(|name| dir.path().join(name));
    lastword::compact(&path, &copies[0], &CopyOptions::new()).unwrap();
    lastword::import(&stream[..], &copies[1], &CopyOptions::new().bytes(8 * MIB)).unwrap();
    for copy in copies {
        let pool = Pool::open(&copy, Options::new().layout("transfers", 3)).unwrap();
        pool.run(|tx| tx.alloc([0_u64; 100])).unwrap().ticket.wait().unwrap();
    }
}

/// A migration that walks a list and notes the next node goes on in the compacted pool.
#[test]
fn migration_goes_on_in_compacted_pool() {
    let fixture = Fixture::create::<Decoupled>();
    let migrating = |steps: u64| {
        let left = std::sync::atomic::AtomicU64::new(steps);
        Options::new().layout("transfers", 4).migrate(3, move |tx, progress| {
            let root = tx.root_ptr::<Root>()?;
            let first = tx.get(root)?.nodes;
            let mut node = if progress == 0 { first } else { Ptr::from_bits(progress) };
            for _ in 0..100 {
                if node.is_null() {
                    return Ok(None);
                }
                let Node { number, next } = tx.get(node)?;
                tx.set(node, Node { number: number + NODES, next })?;
                node = next;
            }
            // Relaxed: a migration runs in one thread.
            let before = left.fetch_update(
                std::sync::atomic::Ordering::Relaxed,
                std::sync::atomic::Ordering::Relaxed,
                |left| left.checked_sub(1),
            );
            let next = Some(node.to_bits()).filter(|_| !node.is_null());
            before.map(|_| next).map_err(|_| Stop::Aborted)
        })
    };
    let stopped = Pool::open(&fixture.path, migrating(7));
    assert!(matches!(stopped, Err(Error::Migration { .. })));
    let small = fixture.to("small.pool");
    lastword::compact(&fixture.path, &small, &CopyOptions::new()).unwrap();
    let pool = Pool::open(&small, migrating(u64::MAX)).unwrap();
    let root = pool.run(|tx| tx.root_ptr::<Root>()).unwrap().value;
    let mut node = pool.run(|tx| Ok(tx.get(root)?.nodes)).unwrap().value;
    for number in (0..NODES).rev() {
        let found = pool.run(|tx| tx.get(node)).unwrap().value;
        assert_eq!(found.number, number + NODES);
        node = found.next;
    }
}
