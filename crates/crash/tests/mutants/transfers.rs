//! Tests of mutants in compaction, export and import.

use std::path::Path;

use faults::mutants::{Mutant, inject};
use lastword::{Array, Bytes, CopyOptions, Error, HeapAtRest, Objects, Options, Pool, Ptr};

/// Bytes of the header of an export, and of a frame.
const HEADER: usize = 256;
const FRAME: usize = 8 * (8192 + 1);

const PARTS: u64 = 200;

/// Compacts a pool, and imports an export of it as it is and with exchanged frames.
pub(crate) fn a_compacted_pool(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let old = create(&path);
    let to = |name: &str| dir.path().join(name);
    lastword::compact(&path, to("compacted"), &CopyOptions::new()).unwrap();
    let mut stream = Vec::new();
    HeapAtRest::load(&path).unwrap().export(&mut stream).unwrap();
    lastword::import(&stream[..], to("imported"), &CopyOptions::new()).unwrap();
    let found = ["compacted", "imported"].into_iter().find_map(|name| read(&to(name), old).err());
    found.or_else(|| {
        // Not the first frame: its descriptions of the objects would be refused anywhere else.
        let (first, second) = stream[HEADER + FRAME..].split_at_mut(FRAME);
        first.swap_with_slice(&mut second[..FRAME]);
        let done = lastword::import(&stream[..], to("exchanged"), &CopyOptions::new());
        done.is_ok().then(|| "damaged: exchanged frames are imported".into())
    })
}

/// The root: the two words of a string's handle, and a pointer. The string repeats that pointer.
type Root = Ptr<[u64; 3]>;

/// Creates a pool with holes; returns a pointer to its root.
fn create(path: &Path) -> Root {
    let pool = Pool::create(path, Options::new().bytes(4 << 20).log_bytes(4 << 20)).unwrap();
    let root = pool.run(|tx| {
        let hole = tx.alloc(0_u64)?;
        let number = tx.alloc(42_u64)?;
        tx.free(hole)?;
        let mut text = Vec::new();
        (0..PARTS).for_each(|_| text.extend(number.to_bits().to_le_bytes()));
        let [first, form]: [u64; 2] = zerocopy::transmute!(Bytes::new(tx, &text)?);
        let root = tx.alloc([first, form, number.to_bits()])?;
        tx.set_root_ptr(root)?;
        // Fills several frames.
        let numbers = Array::create(tx, 40_000)?;
        (0..40_000).try_for_each(|at| tx.set(numbers.at(at)?, at))?;
        Ok(root)
    });
    let root = root.unwrap().value;
    pool.close().unwrap();
    root
}

/// Reads a new pool, and through a pointer of the old one.
fn read(path: &Path, old: Root) -> Result<(), String> {
    let pool = Pool::open(path, Options::new()).unwrap();
    let mut worker = pool.worker().unwrap();
    let read = worker.read(|tx| {
        let root: Root = tx.root_ptr()?;
        let [first, form, number] = tx.get(root)?;
        let text: Bytes = zerocopy::transmute!([first, form]);
        Ok((text.read(tx)?, number, tx.get(Ptr::<u64>::from_bits(number))?))
    });
    let (text, number, value) = read.map_err(|error| format!("failed: {error}"))?.value;
    if value != 42 {
        return Err(format!("torn: the object is {value}"));
    }
    let (words, _) = text.as_chunks::<8>();
    if words.iter().any(|word| u64::from_le_bytes(*word) == number) {
        return Err("torn: a string has changed".into());
    }
    match worker.read(|tx| tx.get(old)) {
        Err(Error::BadPointer { .. }) => Ok(()),
        found => Err(format!("torn: a pointer of the old pool leads to {found:?}")),
    }
}
