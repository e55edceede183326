//! Tests of mutants in recoveries that end in a refusal: the pool's file is as before. Each takes
//! the name of the injected bug and returns the violation.

use std::path::Path;
use std::sync::Barrier;

use faults::mutants::{Mutant, inject};
use lastword::{Addr, AnyDesign, Error, Medium, Options};

const PAGE: usize = 4096;
const LOG_AT: usize = 2 << 20;
const LOG_BYTES: usize = 256 << 10;
const SLOT_BYTES: usize = LOG_BYTES / 4;
const WORDS: u64 = 25;

fn options() -> Options {
    let emulated = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
    let options = Options::new().bytes(256 << 10).log_bytes(LOG_BYTES as u64).medium(emulated);
    options.ring_entries(1 << 10).background(false).page_checksums(false)
}

fn design(name: &str) -> &'static AnyDesign {
    <AnyDesign>::all().iter().find(|design| design.type_name == name).unwrap()
}

/// A mapped log that recovery reads in part before it finds that the rest is lost.
pub(crate) fn a_refused_opening(bug: Option<Mutant>) -> Option<String> {
    refused_groups(bug).or_else(|| refused_rollback(bug))
}

/// Loses this page of the log, and opens the pool.
fn refuses(name: &str, path: &Path, page: usize, bug: Option<Mutant>) -> Option<String> {
    let mut bytes = std::fs::read(path).unwrap();
    let lost = LOG_AT + page * PAGE..LOG_AT + (page + 1) * PAGE;
    assert!(bytes[lost.clone()].iter().any(|byte| *byte != 0), "the page is used");
    bytes[lost].fill(0);
    std::fs::write(path, &bytes).unwrap();
    let _injected = inject(bug);
    let opened = design(name).open(path, options()).map(|pool| pool.abandon());
    assert!(matches!(opened, Err(Error::DamagedLog { .. })), "{opened:?}");
    let now = std::fs::read(path).unwrap();
    let changed = (0..bytes.len()).find(|at| bytes[*at] != now[*at])?;
    Some(format!("torn: a refused opening under {name} has written to byte {changed:#x}"))
}

/// Groups on two pages, of which the second is lost.
fn refused_groups(bug: Option<Mutant>) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let pool = design("decoupled").create(&path, options()).unwrap();
    let mut worker = pool.any_worker().unwrap();
    for value in 0..20 {
        let done = worker.run_any(false, &mut |tx| {
            let object = if value == 0 { tx.allocate(8 * WORDS as usize)? } else { tx.root()? };
            (0..WORDS).try_for_each(|word| tx.write(Addr::new(object, 8 * word), value))?;
            tx.set_root(object)
        });
        done.unwrap();
        pool.flush().unwrap();
    }
    drop(worker);
    pool.abandon();
    refuses("decoupled", &path, 1, bug)
}

/// Two unfinished transactions of `undo`. The slot of the second one loses its records.
fn refused_rollback(bug: Option<Mutant>) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("pool"), dir.path().join("copy"));
    let pool = design("undo").create(&path, options()).unwrap();
    // So large that no ownership record covers words of both.
    let mut objects = Vec::new();
    for _ in 0..2 {
        let mut worker = pool.any_worker().unwrap();
        let made = worker.run_any(false, &mut |tx| {
            objects.push(tx.allocate(1000)?);
            Ok(())
        });
        made.unwrap();
    }
    let (written, copied) = (Barrier::new(3), Barrier::new(3));
    std::thread::scope(|scope| {
        for object in &objects {
            let (pool, written, copied) = (&*pool, &written, &copied);
            scope.spawn(move || {
                let done = pool.any_worker().unwrap().run_any(false, &mut |tx| {
                    (0..WORDS).try_for_each(|word| tx.write(Addr::new(*object, 8 * word), 7))?;
                    written.wait();
                    copied.wait();
                    Ok(())
                });
                done.unwrap();
            });
        }
        written.wait();
        std::fs::copy(&path, &copy).unwrap();
        copied.wait();
    });
    pool.close().unwrap();
    // Behind the two pages of the head.
    refuses("undo", &copy, SLOT_BYTES / PAGE + 2, bug)
}
