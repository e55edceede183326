//! Byte strings that are written in place, grow and shrink, in all durable designs.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use lastword::{
    Array, Bytes, Design, Error, Medium, Objects, Options, Place, Pool, Ptr, Snapshot, Stop, Tx,
    Words,
};

const EMULATED: Medium = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };

fn options() -> Options {
    Options::new().bytes(16 << 20).log_bytes(64 << 20).ring_entries(1 << 16)
}

/// Lengths around those at which a string changes its form, and long ones.
const LENGTHS: [usize; 12] =
    [0, 1, 8, 100, 1008, 1024, 1025, 2016, 2017, 5000, 33 << 10, 100 << 10];

/// A small generator of numbers below a bound.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn length(&mut self) -> usize {
        LENGTHS[self.below(LENGTHS.len())] + self.below(3)
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.below(256) as u8).collect()
    }
}

/// Makes one change of the string whose handle is at a place, and the same of the model.
fn change<D: Design>(
    tx: &mut Tx<'_, D>,
    handle: impl Place<Value = Bytes>,
    model: &mut Vec<u8>,
    numbers: &mut Numbers,
) -> Result<(), Stop> {
    match numbers.below(5) {
        0 | 1 => {
            let at = numbers.below(model.len() + 1);
            let len = numbers.length().min(model.len() - at);
            let bytes = numbers.bytes(len);
            tx.get(handle)?.write_at(tx, at as u64, &bytes)?;
            model[at..at + len].copy_from_slice(&bytes);
        }
        2 if model.len() < 100_000 => {
            let len = numbers.length();
            let bytes = numbers.bytes(len);
            Bytes::append(tx, handle, &bytes)?;
            model.extend(bytes);
        }
        3 => {
            let len = numbers.below(model.len() + 1);
            Bytes::truncate(tx, handle, len as u64)?;
            model.truncate(len);
        }
        _ => {
            let (len, fill) = (numbers.length(), numbers.below(256) as u8);
            Bytes::resize(tx, handle, len as u64, fill)?;
            model.resize(len, fill);
        }
    }
    Ok(())
}

fn follow_a_vector<D: Design>(medium: Medium) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let mut pool = Pool::<D>::create_as(&path, options().medium(medium)).unwrap();
    let made = pool.run(|tx| {
        let handles = tx.alloc([Bytes::EMPTY; 3])?;
        tx.set_root_ptr(handles)?;
        Ok(handles)
    });
    let handles: Ptr<[Bytes; 3]> = made.unwrap().value;
    let mut models = [const { Vec::new() }; 3];
    for seed in 1..=120 {
        let which = seed as usize % 3;
        let handle = handles.field_at::<Bytes>(16 * which);
        let abort = seed % 7 == 0;
        // The body may run again, so it begins with the same numbers and model each time.
        let done = pool.run(|tx| {
            let mut numbers = Numbers(seed << 32 | 0x9e37_79b9);
            let mut model: Vec<u8> = models[which].clone();
            for _ in 0..1 + numbers.below(2) {
                change(tx, handle, &mut model, &mut numbers)?;
                assert!(tx.get(handle)?.read(tx)? == model, "{} inside {seed}", D::NAME);
            }
            if abort { tx.abort("an abort") } else { Ok(model) }
        });
        match done {
            Ok(done) => models[which] = done.value,
            Err(Error::Aborted { .. }) if abort => {}
            Err(error) => panic!("{}: {error}", D::NAME),
        }
        if seed % 40 == 0 {
            pool.close().unwrap();
            pool = Pool::<D>::open_as(&path, options()).unwrap();
            pool.check_heap().unwrap();
        }
        for (which, model) in models.iter().enumerate() {
            let handle = handles.field_at::<Bytes>(16 * which);
            let found = pool.run(|tx| tx.get(handle)?.read(tx)).unwrap().value;
            assert!(found == *model, "{} string {which} after {seed}", D::NAME);
        }
    }
    for which in 0..3 {
        let handle = handles.field_at::<Bytes>(16 * which);
        let _ = pool.run(|tx| Bytes::resize(tx, handle, 0, 0)).unwrap();
    }
    assert_eq!(pool.check_heap().unwrap().objects, 1, "{}: only the handles are left", D::NAME);
}

#[test]
fn changing_strings_equal_vectors_in_every_design() {
    every_durable!(follow_a_vector(EMULATED));
    every_durable!(follow_a_vector(Medium::File));
}

fn write_past_the_end<D: Design>() {
    let dir = tempfile::tempdir().unwrap();
    let options = options().medium(EMULATED);
    let pool = Pool::<D>::create_as(dir.path().join("pool"), options).unwrap();
    for (len, shorter) in [(100, 5), (3000, 2100)] {
        let written = pool.run(|tx| {
            let string = Bytes::new(tx, &vec![1; len])?;
            // The transaction remembers the object, or the piece, as live with its old size.
            string.write_at(tx, len as u64 - 8, &[2; 8])?;
            let _shorter = string.truncated(tx, shorter)?;
            string.write_at(tx, len as u64 - 8, &[3; 8])
        });
        let refused = written.unwrap_err();
        assert!(matches!(refused, Error::BadPointer { .. }), "{} {len}: {refused}", D::NAME);
    }
}

#[test]
fn old_handle_of_shortened_string_writes_nothing() {
    every_durable!(write_past_the_end());
}

/// Runs `meanwhile` in another thread, from inside a body.
fn beside<R: Send>(meanwhile: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| scope.spawn(meanwhile).join().unwrap())
}

/// A reader's snapshot has the old string while others shrink, free and reuse its memory.
#[test]
fn snapshot_reader_keeps_a_string_that_is_freed() {
    for len in [100, 1000, 1025, 5000, 30_000, 100_000] {
        for shorter in [0, 7, 1500, 20_000] {
            let dir = tempfile::tempdir().unwrap();
            let options = options().medium(EMULATED);
            let pool = Pool::<Snapshot>::create_as(dir.path().join("pool"), options).unwrap();
            let old = Numbers(len as u64).bytes(len);
            let handle = pool.run(|tx| {
                let string = Bytes::new(tx, &old)?;
                tx.alloc(string)
            });
            let handle = handle.unwrap().value;
            let (mut reader, mut writer) = (pool.worker().unwrap(), pool.worker().unwrap());
            let seen = reader.read(|tx| {
                let string = tx.get(handle)?;
                beside(|| {
                    // One transaction: a second one would wait until the reader has ended.
                    let done = writer.run(|tx| {
                        Bytes::truncate(tx, handle, shorter)?;
                        Bytes::append(tx, handle, &vec![0xee; len])?;
                        (0..(200_000 / len).clamp(1, 10))
                            .try_for_each(|_| Bytes::new(tx, &vec![0xdd; len]).map(drop))
                    });
                    let _ = done.unwrap();
                });
                string.read(tx)
            });
            assert!(seen.unwrap().value == old, "{len} bytes, truncated to {shorter}");
        }
    }
}

/// Parts of a string of which the allocator marks fewer as free.
const PARTS: u64 = 300;
const LATE_PART: u64 = 290;
const PIECE_BYTES: u64 = 1008;
const BLOCK_BYTES: u64 = 256;

type Move = fn(&mut Tx<'_, Snapshot>, Ptr<Bytes>) -> Result<(), Stop>;

fn pool_of_string(dir: &tempfile::TempDir, bytes: u64) -> (Pool<Snapshot>, Ptr<Bytes>) {
    let options = options().medium(EMULATED).ring_entries(1 << 18);
    let pool = Pool::<Snapshot>::create_as(dir.path().join("pool"), options).unwrap();
    let made = pool.run(|tx| {
        let string = Bytes::new(tx, &vec![1; bytes as usize])?;
        tx.alloc(string)
    });
    let handle = made.unwrap().value;
    (pool, handle)
}

/// A transaction writes a late part of a string that another one has moved meanwhile.
fn write_beside_move(pool: &Pool<Snapshot>, handle: Ptr<Bytes>, offset: u64, moves: Move) {
    let (mut writer, mut mover) = (pool.worker().unwrap(), pool.worker().unwrap());
    let mut runs = 0;
    let done = writer.run(|tx| {
        runs += 1;
        let string = tx.get(handle)?;
        if runs == 1 {
            let _ = beside(|| mover.run(|tx| moves(tx, handle))).unwrap();
        }
        string.write_at(tx, offset, &[2; 8])
    });
    let _ = done.unwrap();
    assert_eq!(runs, 2, "the write did not conflict with the move");
    let found = pool.run(|tx| tx.get(handle)?.read_range(tx, offset - 1..offset + 9));
    assert_eq!(found.unwrap().value, [1, 2, 2, 2, 2, 2, 2, 2, 2, 1], "bytes are lost");
}

#[test]
fn snapshot_write_conflicts_with_move_of_string() {
    let append: Move = |tx, handle| Bytes::append(tx, handle, &[3; 5000]);
    let replace: Move = |tx, handle| {
        let string = tx.get(handle)?;
        let content = string.read(tx)?;
        let copy = Bytes::new(tx, &content)?;
        string.free(tx)?;
        tx.set(handle, copy)
    };
    for moves in [append, replace] {
        let dir = tempfile::tempdir().unwrap();
        let (pool, handle) = pool_of_string(&dir, PARTS * PIECE_BYTES);
        write_beside_move(&pool, handle, LATE_PART * PIECE_BYTES + 100, moves);
        pool.check_heap().unwrap();
    }
}

/// A string of a converted pool lies in the blocks of an array.
#[test]
fn snapshot_write_conflicts_with_move_of_converted_string() {
    let dir = tempfile::tempdir().unwrap();
    let (pool, handle) = pool_of_string(&dir, 0);
    let blocks = pool.run(|tx| Array::<[u64; 32]>::create(tx, PARTS)).unwrap().value;
    let made = pool.run(|tx| {
        for index in 0..PARTS {
            tx.set(blocks.at(index)?, [0x0101_0101_0101_0101; 32])?;
        }
        tx.write(handle.addr(), blocks.at(0)?.addr().object)?;
        tx.write(handle.addr().plus(8), PARTS * BLOCK_BYTES)
    });
    let _ = made.unwrap();
    let append: Move = |tx, handle| Bytes::append(tx, handle, &[3; 5000]);
    write_beside_move(&pool, handle, LATE_PART * BLOCK_BYTES + 100, append);
    pool.check_heap().unwrap();
}
