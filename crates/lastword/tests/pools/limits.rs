//! Transactions that exceed a limit. The error names the option that raises the limit, and the
//! transaction succeeds after the program has followed that advice.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use lastword::{
    Array, Bytes, Decoupled, Design, Error, Limit, Medium, Objects, Options, Place, Pool, Redo,
    Snapshot, Tx, Undo, Words,
};

const EMULATED: Medium = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };

/// Creates a pool with an array of `words` words.
fn create<D: Design>(path: &Path, options: &Options, words: u64) -> (Pool<D>, Array<u64>) {
    let pool = Pool::<D>::create_as(path, options.clone()).unwrap();
    let array = pool.run(|tx| Array::<u64>::reserve(tx, words)).unwrap().value;
    while !pool.run(|tx| array.prepare(tx, 16)).unwrap().value {}
    (pool, array)
}

/// Follows each error's advice until the transaction succeeds. Returns the options that it raised.
fn advised<D: Design>(
    medium: Medium,
    words: u64,
    body: impl Fn(&mut Tx<'_, D>, Array<u64>) -> Result<(), lastword::Stop>,
) -> Vec<&'static str> {
    let dir = tempfile::tempdir().unwrap();
    let (mut log_bytes, mut entries, mut moved) = (256 << 10, 1 << 10, Vec::new());
    for step in 0..20 {
        let options = Options::new().bytes(8 << 20).log_bytes(log_bytes).ring_entries(entries);
        let options = options.medium(medium);
        let path = dir.path().join(format!("{step}.pool"));
        let (pool, array) = create::<D>(&path, &options, words);
        let mut error = match pool.run(|tx| body(tx, array)) {
            Ok(done) => {
                done.ticket.wait().unwrap();
                return moved;
            }
            Err(error) => error,
        };
        pool.close().unwrap();
        // The ring's size is chosen at each open, so a larger one needs no new pool. The log's size
        // is fixed at creation.
        loop {
            let text = error.to_string();
            let option = match error {
                Error::TransactionTooLarge { limit: Limit::Ring, ring_bytes, .. } => {
                    assert!(text.contains(&format!("{ring_bytes} bytes")), "{text}");
                    entries = 2 * ring_bytes / 16;
                    "ring_entries"
                }
                Error::CopiesTooSmall { copies_bytes } => {
                    assert!(text.contains(&format!("{copies_bytes} bytes")), "{text}");
                    entries = 2 * copies_bytes / 16;
                    "ring_entries"
                }
                Error::TransactionTooLarge { limit: Limit::Log, log_bytes: has, .. }
                | Error::SlotTooSmall { log_bytes: has, .. } => {
                    assert!(text.contains(&format!("{has} bytes")) && has == log_bytes, "{text}");
                    log_bytes *= 2;
                    "log_bytes"
                }
                _ => panic!("{text}"),
            };
            assert!(text.contains(&format!("more `{option}`")), "{text}");
            moved.push(option);
            if option == "log_bytes" {
                break;
            }
            let options = Options::new().ring_entries(entries);
            let pool = Pool::<D>::open_as(&path, options).unwrap();
            let done = pool.run(|tx| body(tx, array)).map(|done| done.ticket.wait().unwrap());
            match done {
                Ok(()) => return moved,
                Err(more) => error = more,
            }
        }
    }
    panic!("the advice does not help: {moved:?}");
}

fn writes<D: Design>(
    words: u64,
) -> impl Fn(&mut Tx<'_, D>, Array<u64>) -> Result<(), lastword::Stop> {
    move |tx, array| (0..words).try_for_each(|at| tx.set(array.at(at)?, at + 1))
}

#[test]
fn too_large_transaction_fits_after_advised_option() {
    for medium in [Medium::File, EMULATED] {
        let words = 12_000;
        let moved = advised::<Decoupled>(medium, words, writes(words));
        assert!(moved.contains(&"ring_entries") && moved.contains(&"log_bytes"), "{moved:?}");
        for moved in [
            advised::<Undo>(medium, words, writes(words)),
            advised::<Redo>(medium, words, writes(words)),
            advised::<Snapshot>(medium, words, writes(words)),
        ] {
            assert!(!moved.is_empty() && moved.iter().all(|one| *one == "log_bytes"), "{moved:?}");
        }
    }
}

/// A protected object is copied but not logged, so the error must not advise a larger log.
#[test]
fn oversized_snapshot_copies_name_ring_entries() {
    let words = 200_000;
    let moved = advised::<Snapshot>(EMULATED, words, |tx, array| {
        (0..words).step_by(32).try_for_each(|at| tx.protect(array.at(at)?.addr()))
    });
    assert_eq!(moved, ["ring_entries"]);
}

#[test]
fn large_byte_string_names_ring_entries() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().bytes(1 << 20).log_bytes(1 << 20).ring_entries(1 << 10);
    let pool = Pool::create(dir.path().join("pool"), options).unwrap();
    let error = pool.run(|tx| Bytes::new(tx, &[7; 100_000]).map(drop)).unwrap_err();
    let is_ring = matches!(error, Error::TransactionTooLarge { limit: Limit::Ring, .. });
    assert!(is_ring && error.to_string().contains("`ring_entries`"), "{error}");
}

/// Returns the largest string that one transaction writes, to 4 KiB, and the limit in bytes that
/// the error names for a longer one.
fn longest_string<D: Design>(medium: Medium) -> (u64, u64) {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().bytes(16 << 20).log_bytes(8 << 20).ring_entries(1 << 19);
    let pool = Pool::<D>::create_as(dir.path().join("pool"), options.medium(medium)).unwrap();
    let content = vec![7; 4 << 20];
    let write = |bytes: u64| {
        let done = pool.run(|tx| Bytes::new(tx, &content[..bytes as usize])?.free(tx));
        done.map(|done| done.value)
    };
    let named = match write(4 << 20).unwrap_err() {
        Error::TransactionTooLarge { words_max, .. } | Error::SlotTooSmall { words_max, .. } => {
            8 * words_max as u64
        }
        error => panic!("{}: {error}", D::NAME),
    };
    let (mut fits, mut exceeds) = (0, 4 << 20);
    while exceeds - fits > 4096 {
        let middle = (fits + exceeds) / 2;
        if write(middle).is_ok() { fits = middle } else { exceeds = middle }
    }
    (fits, named)
}

/// The error names the bytes that a transaction can write. The size of the ring or slot is greater,
/// because it also holds the addresses of the words.
#[test]
fn longest_string_has_size_named_by_error() {
    for medium in [EMULATED, Medium::File] {
        let measured = [
            longest_string::<Decoupled>(medium),
            longest_string::<Redo>(medium),
            longest_string::<Snapshot>(medium),
        ];
        for (fits, named) in measured {
            // The allocator writes some words for each KiB, and the search stops at 4 KiB.
            let least = named - named / 16 - 4096;
            assert!(fits < named && fits >= least, "{fits} of {named} bytes");
        }
    }
}

#[test]
fn append_past_limit_is_size_error_and_keeps_string() {
    every_durable!(append_past_limit());
}

fn append_past_limit<D: Design>() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().bytes(8 << 20).log_bytes(1 << 20).medium(EMULATED);
    let pool = Pool::<D>::create_as(dir.path().join("pool"), options).unwrap();
    let handle = pool.run(|tx| tx.alloc(Bytes::EMPTY)).unwrap().value;
    let mut model = Vec::new();
    let named = loop {
        let part = vec![model.len() as u8; 5000];
        match pool.run(|tx| Bytes::append(tx, handle, &part)) {
            Ok(_) => model.extend(part),
            Err(Error::TransactionTooLarge { words_max, .. })
            | Err(Error::SlotTooSmall { words_max, .. }) => break 8 * words_max,
            Err(error) => panic!("{}: {error}", D::NAME),
        }
    };
    assert!(!model.is_empty() && model.len() < named, "{}: {}", D::NAME, model.len());
    let found = pool.run(|tx| tx.get(handle)?.read(tx)).unwrap().value;
    assert!(found == model, "{}: the string has changed", D::NAME);
    // The error left nothing behind: a write in place still fits.
    let _ = pool.run(|tx| tx.get(handle)?.write_at(tx, 0, b"begin")).unwrap();
    pool.check_heap().unwrap();
}

/// Returns the bytes that a transaction of a default pool may write, by its error, which calls only
/// the number of `undo` a bound.
fn default_limit<D: Design>(medium: Medium) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().medium(medium);
    let (pool, array) = create::<D>(&dir.path().join("pool"), &options, 150_000);
    let error = pool.run(|tx| writes(150_000)(tx, array)).unwrap_err();
    let is_bound = error.to_string().contains("bytes, fewer when they are scattered");
    assert_eq!(is_bound, D::NAME == Undo::NAME, "{error}");
    match error {
        Error::TransactionTooLarge { words_max, .. } | Error::SlotTooSmall { words_max, .. } => {
            8 * words_max as u64
        }
        error => panic!("{}: {error}", D::NAME),
    }
}

/// The numbers are those of docs/concepts/transaction.md, "Limits".
#[test]
fn default_pool_has_documented_transaction_sizes() {
    let limits = |medium| {
        [
            default_limit::<Decoupled>(medium),
            default_limit::<Undo>(medium),
            default_limit::<Redo>(medium),
            default_limit::<Snapshot>(medium),
        ]
    };
    assert_eq!(limits(Medium::File), [1022 << 10, 56 << 10, 24 << 10, 26 << 10]);
    assert_eq!(limits(EMULATED), [1022 << 10, 56 << 10, 28_608, 28_640]);
}

/// Returns how many words one transaction can write that are `distance` words apart.
fn words_apart<D: Design>(medium: Medium, distance: u64) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().medium(medium);
    let (pool, array) = create::<D>(&dir.path().join("pool"), &options, 1 << 16);
    let write = |words: u64| {
        let set = |tx: &mut Tx<'_, D>, at| tx.set(array.at(at * distance)?, at + 1);
        pool.run(|tx| (0..words).try_for_each(|at| set(tx, at))).is_ok()
    };
    let (mut fits, mut exceeds) = (0, (1 << 16) / distance);
    while exceeds - fits > 1 {
        let middle = (fits + exceeds) / 2;
        if write(middle) { fits = middle } else { exceeds = middle }
    }
    fits
}

/// `redo` and `snapshot` log the address of each word that has no neighbor, and name that number.
#[test]
fn scattered_words_reach_limit_of_redo_and_snapshot() {
    for medium in [Medium::File, EMULATED] {
        assert_eq!(words_apart::<Redo>(medium, 16), default_limit::<Redo>(medium) / 8);
        assert_eq!(words_apart::<Snapshot>(medium, 16), default_limit::<Snapshot>(medium) / 8);
    }
}

/// `undo` records the whole cache line of each word, on mapped media in a record of its own. The
/// error therefore calls its number a bound.
#[test]
fn undo_error_names_bound_that_scattered_words_miss() {
    let words = default_limit::<Undo>(EMULATED) / 8;
    assert_eq!(words_apart::<Undo>(Medium::File, 16), words / 9);
    assert_eq!(words_apart::<Undo>(EMULATED, 16), words / 16);
    // A piece of a string is one write.
    for (medium, percent) in [(Medium::File, 83..90), (EMULATED, 70..77)] {
        let (fits, named) = longest_string::<Undo>(medium);
        assert!(percent.contains(&(100 * fits / named)), "{fits} of {named} bytes");
    }
}

#[test]
fn full_heap_error_names_wanted_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().bytes(128 << 10).log_bytes(1 << 20).ring_entries(1 << 10);
    let pool = Pool::create(dir.path().join("pool"), options).unwrap();
    let error = pool.run(|tx| Array::<u64>::reserve(tx, 1 << 20)).unwrap_err();
    let wanted = matches!(error, Error::Full { wanted_bytes: 8_388_608, .. });
    assert!(wanted && error.to_string().contains("8388608 bytes more"), "{error}");
    // The array has 272 bytes for each 256, and the allocator a run of 64 KiB.
    assert!(error.to_string().contains("`max_bytes` of at least 9043968"), "{error}");
}
