//! Tests of the texts of statuses, and of the status of each variant of an error.

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::fs::OpenOptions;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lastword::{
    Damage, Error, IdealError, Limit, LogDamage, LogMismatch, Medium, MediumError, NamedError,
    Options, Pool, ReplicationError, Stop, TransferError, TxId, Volatile, Wrong,
};
use lastword_c::status::*;

#[test]
fn every_status_has_a_distinct_text() {
    let mut texts: Vec<_> = ALL.iter().map(|(_, number)| text(*number)).collect();
    assert!(texts.iter().all(|text| !text.is_empty()));
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), ALL.len());
    assert_eq!(text(7).to_str(), Ok("a status of the program"));
    assert_eq!(text(-99).to_str(), Ok("no status of this library"));
}

/// Returns the names of the variants that a source declares.
fn variants(source: &str) -> BTreeSet<&str> {
    let (_, rest) = source.split_once("Error {\n").unwrap();
    let (body, _) = rest.split_once("\n}\n").unwrap();
    let declared = body.lines().filter_map(|line| {
        let name = line.strip_prefix("    ")?.split([' ', '(', ',']).next()?;
        name.starts_with(|first: char| first.is_ascii_uppercase()).then_some(name)
    });
    declared.collect()
}

/// Asserts that the table has each variant, under the variant's name and with the right status.
fn assert_all(table: &[(&'static str, Error, c_int)], source: &str) {
    let listed: BTreeSet<_> = table.iter().map(|(name, ..)| *name).collect();
    assert_eq!(listed, variants(source));
    for (name, error, status) in table {
        assert_eq!(of(error), *status, "{name}");
    }
}

/// Returns a table of errors that this conversion makes of its values.
fn converted<E>(table: Vec<(&'static str, E, c_int)>) -> Vec<(&'static str, Error, c_int)>
where
    Error: From<E>,
{
    table.into_iter().map(|(name, error, status)| (name, error.into(), status)).collect()
}

/// Lists values of variants with their names.
macro_rules! table {
    ($kind:ident: $($name:ident $({ $($fields:tt)* })? => $status:expr,)*) => {
        vec![$((stringify!($name), $kind::$name $({ $($fields)* })?, $status)),*]
    };
}

fn path() -> PathBuf {
    "bank.pool".into()
}

fn system() -> io::Error {
    io::Error::from_raw_os_error(5)
}

#[test]
fn each_medium_error_has_its_status() {
    let table = table![MediumError:
        Io { operation: "opening", path: path(), source: system() } => IO,
        Transfer { operation: "reading", path: path(), offset: 0, bytes: 8, source: system() }
            => IO,
        InUse { path: path() } => BUSY,
        AlreadyExists { path: path() } => EXISTS,
        NotFound { path: path() } => MISSING,
        NoDirectory { path: path() } => MISSING,
        NotAFile { path: path() } => PLACE,
        ReadOnly { path: path() } => IO,
        NoDax { path: path(), source: system() } => PLACE,
        NameTooLong { path: path(), added: 14, limit: None } => INVALID,
        InTheWay { path: path(), temporary: path(), found: "a directory".into() } => PLACE,
        FixedDirectory { path: path(), attribute: 'a' } => PLACE,
        NoSpace { path: path(), bytes: 8, option: None } => IO,
        Unallocated { path: path(), bytes: 8, missing: 8 } => IO,
        FileTooLarge { path: path(), bytes: 8, limit: None, option: None } => IO,
        NoLocks { path: path(), source: system() } => PLACE,
        Truncated { path: path(), offset: 0, expected: 8, found: 0 } => DAMAGED,
        DamagedPages { path: path(), at: 0, pages: 1 } => DAMAGED,
        BadArea { path: path(), offset: 0, bytes: 8, unit: 8, file_bytes: 0 } => DAMAGED,
        OutOfHeap { index: 0, words: 1, heap_words: 0 } => DAMAGED,
        TornBatch { words: 1 } => DAMAGED,
        OutOfLog { at: 0, bytes: 8, log_bytes: 0, unit: 8 } => DAMAGED,
        OutOfGroup { words: 1, group_words: 0 } => PANIC,
        NoMemory { bytes: 8 } => NO_MEMORY,
        Kept { bytes: 8, source: system() } => IO,
        Poisoned { path: path() } => IO,
    ];
    let table = converted(table);
    assert_all(&table, include_str!("../../../medium/src/error.rs"));
    for (name, error, _) in table {
        let poisoned = Error::Poisoned { cause: Arc::new(error) };
        let text = poisoned.to_string();
        assert_eq!(of(&poisoned) == DAMAGED, text.contains("may be lost"), "{name}: {text}");
    }
}

/// Returns the error of a pool whose log another program cuts. No other crate can construct it.
fn cut() -> Error {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cut.pool");
    let options = Options::new().bytes(256 << 10).log_bytes(256 << 10).medium(Medium::File);
    let pool = Pool::create(&path, options).unwrap();
    let log = OpenOptions::new().write(true).open(dir.path().join("cut.pool.log")).unwrap();
    log.set_len(0).unwrap();
    pool.flush().unwrap_err()
}

/// Returns the error of a pool that has a worker.
fn still_used() -> Error {
    let options = Options::new().bytes(256 << 10).patience(std::time::Duration::ZERO);
    let pool = Pool::<Volatile>::create_as("", options).unwrap();
    let worker = pool.worker().unwrap();
    let refused = pool.close_shared().unwrap_err();
    drop(worker);
    refused
}

fn aborted() -> Error {
    let options = Options::new().bytes(256 << 10);
    let pool = Pool::<Volatile>::create_as("", options).unwrap();
    pool.run(|tx| tx.abort::<()>("enough")).unwrap_err()
}

/// Returns poisoned pools. `LW_EIO` is only right where durable transactions are safe.
fn poisoned() -> Vec<(&'static str, Error, c_int)> {
    let truncated = MediumError::Truncated { path: path(), offset: 0, expected: 8, found: 0 };
    let failed = MediumError::Transfer {
        operation: "writing",
        path: path(),
        offset: 0,
        bytes: 8,
        source: system(),
    };
    let causes = [
        (Error::Changed { path: path(), at: 0 }, DAMAGED),
        (cut(), DAMAGED),
        (truncated.into(), DAMAGED),
        (Error::StepPanicked { step: "persist" }, PANIC),
        (failed.into(), IO),
        (MediumError::NoMemory { bytes: 8 }.into(), NO_MEMORY),
        (Error::Thread { source: system() }, IO),
    ];
    let poison = |(cause, status)| ("Poisoned", Error::Poisoned { cause: Arc::new(cause) }, status);
    causes.into_iter().map(poison).collect()
}

/// Returns errors of nested enums, and those of pools in use.
fn of_kinds() -> [(&'static str, Error, c_int); 8] {
    let changing = lastword::InUse::Changing { path: path() }.into();
    let other = NamedError::OtherTypes {
        path: path(),
        name: "a".into(),
        stored: "HashMap<str, u32>".into(),
        wanted: "HashMap<str, u64>".into(),
    };
    let (name, from, to) = ("a".into(), "Vec<u32>".into(), "Vec<u64>".into());
    let converting = NamedError::Converting { path: path(), name, from, to };
    [
        ("StillUsed", still_used(), BUSY),
        ("InUse", changing, BUSY),
        ("Replication", ReplicationError::NotReplicated.into(), INVALID),
        ("Ideal", IdealError::Unsupported { found: "file" }.into(), INVALID),
        ("Ideal", IdealError::NoContent { path: path() }.into(), DAMAGED),
        ("Named", other.into(), MISMATCH),
        ("Named", converting.into(), MISMATCH),
        ("Named", NamedError::OwnRoot { path: path() }.into(), MISMATCH),
    ]
}

#[test]
fn each_transfer_error_has_its_status() {
    let table = table![TransferError:
        Write { source: system() } => IO,
        Read { at: 0, source: system() } => IO,
        NotAnExport => DAMAGED,
        IsAnExport { path: path() } => INVALID,
        Version { found: 2, expected: 1 } => MISMATCH,
        Incomplete { at: 8 } => DAMAGED,
        Damaged { at: 8 } => DAMAGED,
        HeapTooSmall { heap_bytes: 8, needed_bytes: 16 } => INVALID,
    ];
    assert_all(&converted(table), include_str!("../../../lastword/src/error/transfer.rs"));
}

#[test]
fn each_error_has_its_status() {
    let damage = Damage { wrong: Wrong::Size, offset: 0, expected: 0, found: 1 };
    let (id, waited) = (TxId(1), Duration::from_secs(1));
    let mut table = table![Error:
        NotAPool { path: path() } => DAMAGED,
        Contradiction { path: path() } => DAMAGED,
        FormatVersion { path: path(), found: 2, expected: 1 } => MISMATCH,
        Layout {
            path: path(), found: "a".into(), found_version: 0, expected: "b".into(),
            expected_version: 0, migrating: false
        } => MISMATCH,
        WrongMedium { own: "file" } => MISMATCH,
        Truncated { path: path(), expected: 8, found: 0 } => DAMAGED,
        TooLong { path: path(), expected: 0, found: 8 } => DAMAGED,
        BadAreas { path: path() } => DAMAGED,
        OnlyLog { path: path(), log: path() } => DAMAGED,
        LogMissing { path: path(), needed_after: None } => DAMAGED,
        WrongLog { path: path(), why: LogMismatch::Damaged, needed_after: None } => DAMAGED,
        DamagedLog { path: path(), at: 0, why: LogDamage::Unexpected } => DAMAGED,
        DamagedHeap { path: path(), damage } => DAMAGED,
        NoView { design: "undo" } => INVALID,
        ViewLimit { wanted: 8, used: 4, limit: 8 } => INVALID,
        NoGrowth { wanted: 2, max_bytes: 1 } => INVALID,
        Migration { from: 1, source: Box::new(Error::BadValue) } => DAMAGED,
        OtherShadow { asked: "software", design: "Decoupled" } => INVALID,
        ShadowTooSmall { shadow_bytes: 8 } => TOO_LARGE,
        BadOption { option: "bytes", value: 0, must: "at least 1" } => INVALID,
        Full {
            wanted_bytes: 8,
            heap_bytes: 8,
            free_bytes: 8,
            largest_free_bytes: 8,
            free_slot_bytes: 8,
            shortage: lastword::Shortage::default(),
        } => FULL,
        TransactionTooLarge { limit: Limit::Ring, words_max: 1, log_bytes: 8, ring_bytes: 8 }
            => TOO_LARGE,
        SlotTooSmall { design: "undo", words_max: 1, slot_bytes: 8, slots: 64, log_bytes: 512 }
            => TOO_LARGE,
        CopiesTooSmall { copies_bytes: 16 } => TOO_LARGE,
        BadPointer { object: 8, offset: 0 } => ADDRESS,
        BadValue => DAMAGED,
        Stopped { stop: Stop::TooLarge } => TOO_LARGE,
        ReadOnly => READ_ONLY,
        InsideTransaction { call: "run" } => NESTED,
        UnknownDesign { path: path(), found: "other".into() } => MISMATCH,
        UnknownMedium { path: path(), found: "other".into() } => MISMATCH,
        NoRecords { records: 1, bytes: 8 } => NO_MEMORY,
        NoRing { bytes: 8 } => NO_MEMORY,
        StepPanicked { step: "persist" } => PANIC,
        Thread { source: system() } => IO,
        NoSuchTransaction { id, committed: TxId::NONE } => UNKNOWN,
        NotDurable { design: "volatile" } => NOT_DURABLE,
        TooManyWorkers { design: "undo", max: 64, instead: "end it" } => WORKERS,
        HeldUp { what: "memory", limit_bytes: None, since: id, waited, instead: "wait" }
            => HELD_UP,
        StarvationLockHeld { worker: 0, waited } => HELD_UP,
        Blocked { worker: 0, waited } => HELD_UP,
        Forked { call: "run" } => FORKED,
        Closed { call: "run" } => CLOSED,
        WorkerForgotten { durable: id } => IO,
        BadSize => INVALID,
        NameLost { files: Vec::new(), closed: false } => NAME,
        Changed { path: path(), at: 0 } => DAMAGED,
    ];
    table.push(("Medium", Error::Medium(MediumError::NoMemory { bytes: 8 }), NO_MEMORY));
    table.extend([("Aborted", aborted(), INVALID), ("Cut", cut(), DAMAGED)]);
    table.push(("Transfer", TransferError::NotAnExport.into(), DAMAGED));
    table.extend(of_kinds());
    table.extend(poisoned());
    assert_all(&table, include_str!("../../../lastword/src/error.rs"));
}
