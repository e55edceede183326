//! Tests of mutants below the recorded machine, in pools with page checksums.
//!
//! Two rules beside those of [`seam`](super::seam), for every design:
//! - Each line of the table that changes is stored past the cache, and a fence follows.
//! - The mark of a page is durable before a line of the page is written back.

use std::collections::BTreeSet;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use faults::mutants::{Mutant, inject};
use lastword::{Addr, AnyPool, Error, Medium, Options};
use medium::executed::{self, Call, Instruction};
use medium::sync::Arc;
use medium::{ChecksumArea, Domain, Emulation, MappedChecksums, PoolFile, Prewrite};

use super::seam::{
    LINE, LOG_AT, PAGE, changed, commit, designs, durable, line_at, lost, mappings, pool_on_a_disk,
    skipped, unsynced,
};

/// The table lies behind the superblocks, and the heap behind the log of a mapped pool.
const TABLE: Range<usize> = 8192..LOG_AT;
const HEAP_AT: usize = 2 * LOG_AT;
/// Pages whose checksums a line of the table has.
const LINE_SUMS: usize = 15;
const EMULATED: Medium = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };

fn options(medium: Medium) -> Options {
    // Small: observing an instruction takes long, and a seal reads whole pages.
    super::seam::options(medium).bytes(128 << 10).page_checksums(true)
}

/// Returns the line of the table with the checksum of the page of a line of the heap.
fn line_of_sum(line: usize) -> usize {
    TABLE.start / LINE + (line * LINE - HEAP_AT) / PAGE / LINE_SUMS
}

/// A commit of every design in a pool whose pages have checksums, and then a clean shutdown, which
/// computes new ones. Without a bug it runs once for all mutants, since observing takes long.
pub(crate) fn stores_of_checksums(bug: Option<Mutant>) -> Option<String> {
    static CLEAN: OnceLock<Option<String>> = OnceLock::new();
    match bug {
        None => CLEAN.get_or_init(|| stores_until_shutdown(None)).clone(),
        Some(_) => stores_until_shutdown(bug),
    }
}

fn stores_until_shutdown(bug: Option<Mutant>) -> Option<String> {
    for design in designs() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let pool = design.create(&path, options(EMULATED)).unwrap();
        (1..3).for_each(|value| commit(&*pool, &mut *pool.any_worker().unwrap(), value));
        pool.close().unwrap();
        let pool = design.open(&path, options(EMULATED)).unwrap();
        let (mappings, before) = (mappings(&path), std::fs::read(&path).unwrap());
        let _injected = inject(bug);
        let observed = executed::instructions(|| {
            commit(&*pool, &mut *pool.any_worker().unwrap(), 3);
            pool.close().unwrap();
        });
        let Some(((), steps)) = observed else { return skipped(bug, "instructions") };
        let after = std::fs::read(&path).unwrap();
        let table = changed(&before, &after, TABLE);
        let image = changed(&before, &after, HEAP_AT..after.len());
        assert!(!table.is_empty() && !image.is_empty(), "{} changes both", design.name);
        let safe = durable(&steps, &mappings);
        let violation = lost(&table, &safe, "shutdown").or_else(|| lost(&image, &safe, "shutdown"));
        let violation = violation.or_else(|| unmarked(&steps, &mappings));
        if let Some(violation) = violation {
            return Some(format!("{violation}, under {}", design.name));
        }
    }
    None
}

/// Returns a line of the heap that is written back before the mark of its page is durable.
fn unmarked(steps: &[Instruction], mappings: &[(Range<usize>, usize)]) -> Option<String> {
    let (mut waiting, mut marked) = (BTreeSet::new(), BTreeSet::new());
    for step in steps {
        match line_at(step, mappings) {
            Some(line) if TABLE.contains(&(line * LINE)) => _ = waiting.insert(line),
            Some(line) if line * LINE >= HEAP_AT && !marked.contains(&line_of_sum(line)) => {
                let at = line * LINE;
                return Some(format!(
                    "lost: the line at {at:#x} changes before its page is marked"
                ));
            }
            None if *step == Instruction::Fence => marked.append(&mut waiting),
            _ => {}
        }
    }
    None
}

/// The checksums of a new mapped heap.
pub(crate) fn stores_of_new_checksums(bug: Option<Mutant>) -> Option<String> {
    const HEAP: u64 = 128 << 10;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let file = PoolFile::create(&path, HEAP_AT as u64 + HEAP, Prewrite::No).unwrap();
    file.publish().unwrap();
    let domain = Domain::emulated(Emulation::new(0, 0));
    let (file, area) = (Arc::new(file), ChecksumArea { offset: 8192, bytes: 4096 });
    let sizes = (HEAP_AT as u64, HEAP, HEAP);
    let _injected = inject(bug);
    let new = || MappedChecksums::new(file, area, sizes, &domain, None).unwrap();
    let Some((sums, steps)) = executed::instructions(new) else {
        return skipped(bug, "instructions");
    };
    let (mappings, after) = (mappings(&path), std::fs::read(&path).unwrap());
    let table = changed(&vec![0; after.len()], &after, TABLE);
    assert!(!table.is_empty(), "a new heap has checksums");
    drop(sums);
    lost(&table, &durable(&steps, &mappings), "creation")
}

/// A scrub of a mapped pool with a damaged page.
pub(crate) fn stores_of_a_scrub(bug: Option<Mutant>) -> Option<String> {
    for design in designs() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let pool = design.create(&path, options(EMULATED)).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        // In the last page, which has a checksum of zeros.
        file.write_all_at(&[1], file.metadata().unwrap().len() - 9).unwrap();
        let (mappings, before) = (mappings(&path), std::fs::read(&path).unwrap());
        let _injected = inject(bug);
        let observed = executed::instructions(|| pool.scrub().unwrap());
        let Some((scrub, steps)) = observed else { return skipped(bug, "instructions") };
        assert_eq!(scrub.damaged.len(), 1, "{} finds the page", design.name);
        let table = changed(&before, &std::fs::read(&path).unwrap(), TABLE);
        assert!(!table.is_empty(), "{} marks the page", design.name);
        pool.abandon();
        if let Some(violation) = lost(&table, &durable(&steps, &mappings), "scrub") {
            return Some(format!("{violation}, under {}", design.name));
        }
    }
    None
}

/// Whether a call writes to the table.
fn is_of_table(call: &Call) -> bool {
    let writes = [libc::SYS_pwrite64, libc::SYS_pwritev, libc::SYS_pwritev2];
    writes.contains(&call.number) && TABLE.contains(&(call.arguments[3] as usize))
}

/// Returns a write to the directory that is not durable, or the lack of one to the table.
fn unwritten(calls: &[Call], directory: &std::path::Path) -> Option<String> {
    let is_written = calls.iter().any(is_of_table);
    let missing = (!is_written).then(|| "lost: no call writes the checksums".to_owned());
    unsynced(calls, directory).or(missing)
}

/// A commit and a checkpoint of every design on `file`.
pub(crate) fn calls_of_checksums(bug: Option<Mutant>) -> Option<String> {
    for design in designs() {
        let (_dir, path) = pool_on_a_disk();
        let pool = design.create(&path, options(Medium::File)).unwrap();
        let observed = executed::calls(|| {
            let _injected = inject(bug);
            commit(&*pool, &mut *pool.any_worker().unwrap(), 1);
            pool.checkpoint().unwrap();
        });
        let Some(((), calls)) = observed else { return skipped(bug, "calls") };
        pool.abandon();
        if let Some(violation) = unwritten(&calls, path.parent().unwrap()) {
            return Some(format!("{violation}, under {}", design.name));
        }
    }
    None
}

/// A commit to a damaged page on `file`, which poisons the pool. The mark must be durable: the next
/// opening replays words of that page.
pub(crate) fn calls_of_a_damaged_page(bug: Option<Mutant>) -> Option<String> {
    for design in designs() {
        let (_dir, path) = pool_on_a_disk();
        let pool = design.create(&path, options(Medium::File)).unwrap();
        commit(&*pool, &mut *pool.any_worker().unwrap(), 1);
        pool.close().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        for at in (LOG_AT..bytes.len()).step_by(PAGE) {
            if bytes[at..at + PAGE].iter().any(|byte| *byte != 0) {
                let at = at + PAGE - 9;
                file.write_all_at(&[bytes[at] ^ 4], at as u64).unwrap();
            }
        }
        let pool = design.open(&path, options(Medium::File).verify_at_open(false)).unwrap();
        let observed = executed::calls(|| {
            let _injected = inject(bug);
            change(&*pool).err()
        });
        let Some((error, calls)) = observed else { return skipped(bug, "calls") };
        assert!(error.is_some(), "{} finds the damage", design.name);
        pool.abandon();
        if let Some(violation) = unwritten(&calls, path.parent().unwrap()) {
            return Some(format!("{violation}, under {}", design.name));
        }
    }
    None
}

/// Changes the root object, and makes that durable in the heap image.
fn change(pool: &dyn AnyPool) -> Result<(), Error> {
    let mut worker = pool.any_worker()?;
    worker.run_any(false, &mut |tx| {
        let object = tx.root()?;
        tx.write(Addr::new(object, 0), 2)
    })?;
    pool.flush()?;
    pool.checkpoint()
}
