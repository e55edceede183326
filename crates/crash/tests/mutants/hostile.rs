//! Tests of mutants on a real file system: the effect of a fork, another program, a copy, a stop or
//! a crash on a pool. Each takes the name of the injected bug and returns the violation.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};

use faults::mutants::{Mutant, inject};
use faults::{Call, Failing, Fault, Faults};
use lastword::{Addr, AnyDesign, Error, Medium, Objects, Options, Pool};
use medium::{Patience, Process, System};

const BLOCK: usize = 4096;

fn options() -> Options {
    let options = Options::new().bytes(1 << 20).log_bytes(128 << 10).ring_entries(1 << 12);
    options.medium(Medium::File).background(false)
}

pub(crate) fn a_forked_child(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    let is_parent = Process::current().is_current_in_child();
    is_parent.then(|| "forked: a child may use the pool of its parent".into())
}

/// Flushes a pool after its files were removed.
pub(crate) fn a_removed_pool(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let pool = Pool::create(&path, options()).unwrap();
    std::fs::remove_file(&path).unwrap();
    let flushed = pool.flush();
    match flushed {
        Err(Error::NameLost { .. }) => None,
        other => Some(format!("lost: the file is gone, and a flush returned {other:?}")),
    }
}

/// Opens a sparse copy of a pool.
pub(crate) fn a_sparse_copy(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    Pool::create(&path, options()).unwrap().close().unwrap();
    for path in [&path, &dir.path().join("pool.log")] {
        copy_sparse(path);
        assert!(holes(path) > 0, "{} has no hole", path.display());
    }
    let pool = Pool::open(&path, options()).unwrap();
    let holes = holes(&path) + holes(&dir.path().join("pool.log"));
    pool.close().unwrap();
    (holes > 0).then(|| format!("sparse: an open pool has no room for {holes} bytes"))
}

/// Replaces a file by a copy without its blocks of zeros.
fn copy_sparse(path: &Path) {
    let bytes = std::fs::read(path).unwrap();
    std::fs::remove_file(path).unwrap();
    let copy = File::create_new(path).unwrap();
    copy.set_len(bytes.len() as u64).unwrap();
    for (number, block) in bytes.chunks(BLOCK).enumerate() {
        if block.iter().any(|byte| *byte != 0) {
            copy.write_all_at(block, (number * BLOCK) as u64).unwrap();
        }
    }
    copy.sync_all().unwrap();
}

/// Returns the number of bytes without a block.
fn holes(path: &Path) -> u64 {
    let metadata = path.metadata().unwrap();
    metadata.len().saturating_sub(512 * metadata.blocks())
}

/// Stops a process for an hour while it waits for ten seconds.
pub(crate) fn a_stopped_process(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    let mut patience = Patience::new(Duration::from_secs(10));
    let start = Instant::now();
    let is_over =
        [0, 3600].map(|seconds| patience.is_over_at(start + Duration::from_secs(seconds)));
    (is_over != [false; 2]).then(|| "held: a stop counts as waiting".into())
}

/// Opens a pool after a crash left a placeholder under the log's name, on a file system without
/// safe renames and links.
pub(crate) fn an_interrupted_renewal(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    Pool::create(&path, options()).unwrap().close().unwrap();
    let faults = Faults::without(&[Call::Rename, Call::Link], u64::MAX, Fault::Io, false);
    let options = options().system(System::kernel().failing(faults)).without_log(true);
    std::fs::write(dir.path().join("pool.log"), "").unwrap();
    std::fs::write(dir.path().join(".pool.log.lastword-new"), "a whole log").unwrap();
    let opened = Pool::open(&path, options);
    opened.err().map(|error| format!("refused: {error}"))
}

/// Puts the copy of a pool's file from one opening earlier beside its log.
pub(crate) fn an_older_copy(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    Pool::create(&path, options()).unwrap().close().unwrap();
    let old = std::fs::read(&path).unwrap();
    let pool = Pool::open(&path, options()).unwrap();
    pool.run(|tx| tx.alloc(1_u64)).unwrap().ticket.wait().unwrap();
    pool.close().unwrap();
    std::fs::write(&path, old).unwrap();
    Pool::open(&path, options()).is_ok().then(|| "lost: an older copy opened".into())
}

/// Opens a pool with a damaged page, and changes another word of that page.
pub(crate) fn damaged_pages(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    let emulated = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
    [Medium::File, emulated].into_iter().find_map(damaged_page)
}

fn damaged_page(medium: Medium) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.pool");
    let pool = Pool::create(&path, options().medium(medium)).unwrap();
    let object = pool.run(|tx| tx.alloc([7_u64; 100])).unwrap().value;
    pool.close().unwrap();
    let options = Options::new().background(false);
    let file = File::options().read(true).write(true).open(&path).unwrap();
    // In the checksum table: the page is intact.
    let mut byte = [0];
    file.read_exact_at(&mut byte, 8192).unwrap();
    file.write_all_at(&[byte[0] ^ 1], 8192).unwrap();
    match Pool::open(&path, options.clone()) {
        Ok(pool) => pool.close().unwrap(),
        Err(_) => {
            return Some("damaged: a damaged checksum makes an intact page look damaged".into());
        }
    }
    let heap_offset = file.metadata().unwrap().len() - (1 << 20);
    let at = heap_offset + (object.to_bits() & 0xffff_ffff) + 640;
    file.write_all_at(&[8], at).unwrap();
    if Pool::open(&path, options.clone()).is_ok() {
        return Some("damaged: a pool with a damaged page opens".into());
    }
    let pool = Pool::open(&path, options.clone().verify_at_open(false)).unwrap();
    let first = lastword::Addr::new(object.to_bits(), 0);
    let _ = pool.run(|tx| lastword::Words::write(tx, first, 9)).unwrap();
    let written = pool.checkpoint();
    drop(pool);
    let opened = Pool::open(&path, options);
    match (written, opened) {
        (Ok(()), _) => Some("damaged: a damaged word got a valid checksum".into()),
        (Err(_), Ok(_)) => Some("damaged: recovery gives a damaged word a valid checksum".into()),
        (Err(_), Err(_)) => None,
    }
}

/// Opens pools whose last record, or last head, lies on a page that was lost after its barrier.
pub(crate) fn a_lost_end_of_a_slot(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    ["undo", "redo", "snapshot"].into_iter().find_map(lost_end)
}

/// The same for the last group.
pub(crate) fn a_lost_end_of_a_log(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    lost_end("decoupled")
}

fn lost_end(name: &str) -> Option<String> {
    const LOG_AT: usize = 2 << 20;
    let emulated = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
    let options = options().medium(emulated).page_checksums(false);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let design = <AnyDesign>::all().iter().find(|design| design.type_name == name).unwrap();
    let pool = design.create(&path, options.clone()).unwrap();
    let mut worker = pool.any_worker().unwrap();
    for value in 0..20 {
        let done = worker.run_any(false, &mut |tx| {
            let object = if value == 0 { tx.allocate(200)? } else { tx.root()? };
            (0..25).try_for_each(|word| tx.write(Addr::new(object, 8 * word), value))?;
            tx.set_root(object)
        });
        done.unwrap();
        pool.flush().unwrap();
    }
    let mut bytes = Vec::new();
    // The records of `undo` are void at the end of the transaction.
    let unfinished = worker.run_any(false, &mut |tx| {
        if name == "undo" {
            let object = tx.root()?;
            tx.write(Addr::new(object, 0), 20)?;
        }
        bytes = std::fs::read(&path).unwrap();
        Ok(())
    });
    unfinished.unwrap();
    drop(worker);
    pool.abandon();
    let page = |number: usize| LOG_AT + number * BLOCK..LOG_AT + (number + 1) * BLOCK;
    let is_used = |number: &usize| bytes[page(*number)].iter().any(|byte| *byte != 0);
    let lost = (0..8).rfind(is_used).unwrap();
    bytes[page(lost)].fill(0);
    std::fs::write(&path, bytes).unwrap();
    let checked = lastword::check(&path).unwrap().refusal.map(|error| error.to_string());
    let opened = design.open(&path, options).map(|pool| pool.abandon());
    match opened {
        Err(error @ Error::DamagedLog { .. }) if checked == Some(error.to_string()) => None,
        _ => Some(format!(
            "lost: page {lost} of {name}'s log is gone, check finds {checked:?}, and open returns \
             {opened:?}"
        )),
    }
}

/// Opens a pool of `redo` on `file` whose first worker has lost its only record, while the records
/// of the second worker prove that it was there.
pub(crate) fn a_lost_record_of_another_slot(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let redo = <AnyDesign>::all().iter().find(|design| design.type_name == "redo").unwrap();
    let pool = redo.create(&path, options()).unwrap();
    let mut workers = [pool.any_worker().unwrap(), pool.any_worker().unwrap()];
    for worker in [0, 1, 1] {
        workers[worker].run_any(false, &mut |tx| tx.allocate(64).map(drop)).unwrap();
    }
    drop(workers);
    pool.abandon();
    // Behind the log's head and the two copies of a slot's head.
    let log = File::options().write(true).open(dir.path().join("pool.log")).unwrap();
    log.write_all_at(&[0; BLOCK], 4 * BLOCK as u64).unwrap();
    match redo.open(&path, options()).map(|pool| pool.abandon()) {
        Err(Error::DamagedLog { .. }) => None,
        opened => Some(format!("lost: a transaction is missing, and open returned {opened:?}")),
    }
}
