//! Tests of mutants below the recorded machine: the instructions and system calls that a thread
//! executes on the real processor and kernel. Each takes the name of the injected bug and returns
//! the violation.
//!
//! Two rules, for every design:
//! - Each line of a mapped pool that a commit or checkpoint has changed, and that must be durable,
//!   is stored past the cache or written back, and a fence follows.
//! - Each write to a pool's file carries `RWF_DSYNC`, or a sync of that file follows. Each new name
//!   is followed by a sync of its directory.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use faults::mutants::{Mutant, inject};
use lastword::replication::read_log;
use lastword::{
    Addr, AnyDesign, AnyPool, AnyWorker, Error, LogDamage, Medium, Objects, Options, Pool, TxId,
};
use medium::executed::{self, Call, Instruction};
use medium::sync::Arc;
use medium::{Combining, Domain, Emulation, HeapMedium, MappedHeap, PoolFile, Prewrite, writes};
use tempfile::TempDir;

pub(super) const LINE: usize = 64;
pub(super) const PAGE: usize = 4096;
/// The log of a mapped pool, and behind it the heap.
pub(super) const LOG_AT: usize = 2 << 20;
const LOG_BYTES: usize = 256 << 10;
/// `RWF_DSYNC`.
const DSYNC: u64 = 2;
/// `POSIX_FADV_DONTNEED`.
const DONTNEED: u64 = 4;

/// The result of a mutant's test on a machine that cannot observe it.
pub(crate) const SKIPPED: &str = "skipped";

/// Reports a machine that cannot observe. The mutant does not count as killed there. If
/// `LASTWORD_REQUIRE` is `seam`, this is a violation, also without a bug.
pub(super) fn skipped(bug: Option<Mutant>, what: &str) -> Option<String> {
    if std::env::var("LASTWORD_REQUIRE").is_ok_and(|required| required == "seam") {
        return Some(format!("LASTWORD_REQUIRE=seam, and {what} cannot be observed here"));
    }
    eprintln!("skipped: mutants: {what} of a thread cannot be observed here");
    bug.map(|_| SKIPPED.into())
}

pub(super) fn options(medium: Medium) -> Options {
    let options = Options::new().bytes(256 << 10).log_bytes(LOG_BYTES as u64).medium(medium);
    options.ring_entries(1 << 10).background(false).page_checksums(false)
}

pub(super) fn designs() -> impl Iterator<Item = &'static AnyDesign> {
    let all = <AnyDesign>::all().iter();
    all.filter(|design| design.is_durable && design.type_name == design.name)
}

/// Runs a transaction that changes words in several lines; returns when it is durable.
pub(super) fn commit(pool: &dyn AnyPool, worker: &mut dyn AnyWorker, value: u64) {
    let done = worker.run_any(false, &mut |tx| {
        let object = match tx.root()? {
            0 => tx.allocate(256)?,
            object => object,
        };
        (0..32).step_by(9).try_for_each(|word| tx.write(Addr::new(object, 8 * word), value))?;
        tx.set_root(object)
    });
    done.unwrap();
    pool.flush().unwrap();
}

/// Maps addresses in a mapping of the file to offsets in the file.
pub(super) fn mappings(path: &Path) -> Vec<(Range<usize>, usize)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let of_file = maps.lines().filter(|line| line.ends_with(path.to_str().unwrap()));
    let hex = |digits: &str| usize::from_str_radix(digits, 16).unwrap();
    let parse = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (start, end) = words[0].split_once('-').unwrap();
        (hex(start)..hex(end), hex(words[2]))
    };
    of_file.map(parse).collect()
}

/// Returns the lines of the file that the steps make durable.
pub(super) fn durable(
    steps: &[Instruction],
    mappings: &[(Range<usize>, usize)],
) -> BTreeSet<usize> {
    let (mut durable, mut waiting) = (BTreeSet::new(), BTreeSet::new());
    for step in steps {
        if *step == Instruction::Fence {
            durable.append(&mut waiting);
        } else if let Some(line) = line_at(step, mappings) {
            // Its last store counts.
            durable.remove(&line);
            waiting.insert(line);
        }
    }
    durable
}

/// Returns the line of the file that the instruction stores or writes back.
pub(super) fn line_at(step: &Instruction, mappings: &[(Range<usize>, usize)]) -> Option<usize> {
    let (Instruction::WriteBack(at) | Instruction::Stream(at)) = step else { return None };
    let (range, offset) = mappings.iter().find(|(range, _)| range.contains(at))?;
    Some((at - range.start + offset) / LINE)
}

pub(super) fn changed(before: &[u8], after: &[u8], range: Range<usize>) -> BTreeSet<usize> {
    let lines = range.start / LINE..range.end / LINE;
    lines
        .filter(|line| (line * LINE..(line + 1) * LINE).any(|at| before[at] != after[at]))
        .collect()
}

pub(super) fn lost(
    changed: &BTreeSet<usize>,
    durable: &BTreeSet<usize>,
    step: &str,
) -> Option<String> {
    let lost = changed.difference(durable).next()?;
    Some(format!("lost: the line at {:#x} is not durable after a {step}", lost * LINE))
}

/// Whether the line holds a slot's witness, which no barrier waits for: the second or third line in
/// the page of a head.
fn is_slot_witness(at: usize) -> bool {
    const SLOT_BYTES: usize = LOG_BYTES / 4;
    let in_slot = (at - LOG_AT) % SLOT_BYTES;
    in_slot < 2 * PAGE && [1, 2].contains(&(in_slot % PAGE / LINE))
}

/// A commit and a checkpoint of every design on mapped memory.
pub(crate) fn stores_of_commits(bug: Option<Mutant>) -> Option<String> {
    let emulated = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
    for design in designs() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let pool = design.create(&path, options(emulated)).unwrap();
        let mut worker = pool.any_worker().unwrap();
        (1..3).for_each(|value| commit(&*pool, &mut *worker, value));
        pool.checkpoint().unwrap();
        let (mappings, before) = (mappings(&path), std::fs::read(&path).unwrap());
        let _injected = inject(bug);
        let observed = executed::instructions(|| commit(&*pool, &mut *worker, 3));
        let Some(((), steps)) = observed else { return skipped(bug, "instructions") };
        let committed = std::fs::read(&path).unwrap();
        let mut log = changed(&before, &committed, LOG_AT..LOG_AT + LOG_BYTES);
        if design.name != "decoupled" {
            log.retain(|line| !is_slot_witness(line * LINE));
        }
        assert!(!log.is_empty(), "{} has a log", design.name);
        let violation = lost(&log, &durable(&steps, &mappings), "commit");
        let (((), last), after) = (
            executed::instructions(|| pool.checkpoint().unwrap()).expect("as before"),
            std::fs::read(&path).unwrap(),
        );
        let safe = durable(&[steps, last].concat(), &mappings);
        let image = changed(&before, &after, 2 * LOG_AT..after.len());
        assert!(!image.is_empty(), "{} has a heap image", design.name);
        let violation = violation.or_else(|| lost(&image, &safe, "checkpoint"));
        drop(worker);
        pool.abandon();
        if let Some(violation) = violation {
            return Some(format!("{violation}, under {}", design.name));
        }
    }
    None
}

/// The lines of the witnesses of all groups.
const LATEST: [usize; 2] = [2496 / LINE, 6592 / LINE];

/// A power failure, and the loss of the last page of the log.
pub(crate) fn a_lost_page_after_a_power_failure(bug: Option<Mutant>) -> Option<String> {
    a_lost_page(bug, None)
}

/// The same after a checkpoint between the groups of that page.
pub(crate) fn a_lost_page_after_a_checkpoint(bug: Option<Mutant>) -> Option<String> {
    a_lost_page(bug, Some(26))
}

/// A power failure, after which each line has what a fence has made durable, and the loss of the
/// last page of the log. Another thread has sent the first group on that page, and sends no more.
/// If `checkpoint` is given, a checkpoint precedes the commit of that value.
fn a_lost_page(bug: Option<Mutant>, checkpoint: Option<u64>) -> Option<String> {
    /// Bytes of each group: 8 words of its header, 9 of its transaction, and the rest of the line.
    const GROUP: usize = 192;
    /// The first observed commit, shortly before the second page. Observing one takes long.
    const OBSERVED: u64 = 18;
    let emulated = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let design = designs().find(|design| design.name == "decoupled").unwrap();
    let pool = design.create(&path, options(emulated)).unwrap();
    let mut worker = pool.any_worker().unwrap();
    (1..3).for_each(|value| commit(&*pool, &mut *worker, value));
    pool.checkpoint().unwrap();
    let (mappings, before) = (mappings(&path), std::fs::read(&path).unwrap());
    let whole_log = LOG_AT..LOG_AT + LOG_BYTES;
    let _injected = inject(bug);
    let (mut after, mut safe) = (before.clone(), BTreeSet::new());
    let (mut pages, mut witnesses) = (0, None);
    for value in 3..32 {
        if checkpoint == Some(value) {
            let observed = executed::instructions(|| pool.checkpoint().unwrap());
            let Some(((), steps)) = observed else { return skipped(bug, "instructions") };
            let kept = durable(&steps, &mappings);
            if let Some(lost) = lost(&LATEST.into(), &kept, "checkpoint") {
                return Some(lost);
            }
            // Later stores to these lines are not durable.
            safe.extend(kept.iter().filter(|line| !LATEST.contains(line)));
            let now = std::fs::read(&path).unwrap();
            // The superblock is written and synced by system calls.
            [0, PAGE].into_iter().for_each(|at| safe.extend(changed(&after, &now, at..at + 512)));
            (after, witnesses) = (now.clone(), Some(now));
        }
        let end = used(&after).next_multiple_of(LINE);
        let enters = end / PAGE != (end + GROUP - 1) / PAGE;
        if enters {
            let send = || {
                let _injected = inject(bug);
                commit(&*pool, &mut *pool.any_worker().unwrap(), value);
            };
            std::thread::scope(|scope| scope.spawn(send).join().unwrap());
            pages += 1;
        } else if value < OBSERVED {
            commit(&*pool, &mut *worker, value);
        } else {
            let observed = executed::instructions(|| commit(&*pool, &mut *worker, value));
            let Some(((), steps)) = observed else { return skipped(bug, "instructions") };
            safe.extend(durable(&steps, &mappings));
        }
        let now = std::fs::read(&path).unwrap();
        assert_eq!(used(&now).next_multiple_of(LINE), end + GROUP, "groups have one size");
        if enters || value < OBSERVED {
            // This commit was not observed, but its fence made the group durable.
            safe.extend(changed(&after, &now, whole_log.clone()));
        }
        after = now;
    }
    let last = pool.durable_id();
    drop(worker);
    pool.abandon();
    assert_eq!(pages, 1, "the last page is the second one");
    let mut image = before;
    safe.into_iter().for_each(|line| copy_line(&mut image, &after, line));
    if let Some(kept) = witnesses {
        LATEST.into_iter().for_each(|line| copy_line(&mut image, &kept, line));
    }
    last_page_is_missed(&path, image, last)
}

fn copy_line(to: &mut [u8], from: &[u8], line: usize) {
    let at = line * LINE..(line + 1) * LINE;
    to[at.clone()].copy_from_slice(&from[at]);
}

/// Returns the end of the log's bytes in use.
fn used(bytes: &[u8]) -> usize {
    let log = &bytes[LOG_AT..LOG_AT + LOG_BYTES];
    1 + log.iter().rposition(|it| *it != 0).unwrap()
}

/// Checks that this pool is whole up to a transaction, and refused without the last page of its
/// log.
fn last_page_is_missed(path: &Path, mut image: Vec<u8>, last: TxId) -> Option<String> {
    std::fs::write(path, &image).unwrap();
    let checked = lastword::check(path).unwrap().sound();
    let found = checked.map(|checked| checked.durable_id).map_err(|error| error.to_string());
    if found != Ok(last) {
        return Some(format!("lost: after a power failure the pool has {found:?}, not {last}"));
    }
    let page = LOG_AT + (used(&image) - 1) / PAGE * PAGE;
    image[page..page + PAGE].fill(0);
    std::fs::write(path, &image).unwrap();
    let refusal = lastword::check(path).unwrap().refusal;
    match refusal {
        Some(Error::DamagedLog { why: LogDamage::EndLost { .. }, .. }) => None,
        other => Some(format!("lost: the last page of the log is gone, and a check has {other:?}")),
    }
}

/// A heap image that combines lines and writes each back once.
pub(crate) fn stores_of_a_heap_image(bug: Option<Mutant>) -> Option<String> {
    const BYTES: usize = 64 << 10;
    const LINES: u64 = 200;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let file = PoolFile::create(&path, BYTES as u64, Prewrite::No).unwrap();
    file.publish().unwrap();
    let domain = Domain::emulated(Emulation::new(0, 0));
    let image = MappedHeap::new(Arc::new(file), 0, BYTES as u64, &domain).unwrap();
    let mut image = image.with_combining(Combining::Always);
    let (mappings, before) = (mappings(&path), std::fs::read(&path).unwrap());
    let batch: Vec<u64> = (0..LINES).flat_map(|run| [writes::run(8 * run, 1), 42]).collect();
    let _injected = inject(bug);
    let observed = executed::instructions(|| {
        image.write_back(&batch).unwrap();
        image.barrier().unwrap();
    });
    let Some(((), steps)) = observed else { return skipped(bug, "instructions") };
    let changed = changed(&before, &std::fs::read(&path).unwrap(), 0..BYTES);
    assert_eq!(changed.len(), LINES as usize);
    lost(&changed, &durable(&steps, &mappings), "barrier")
}

/// Returns the first change of a file in this directory that is durable neither by its flag nor by
/// a later sync.
pub(super) fn unsynced(calls: &[Call], directory: &Path) -> Option<String> {
    const CHANGES: [i64; 12] = [
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_pwrite64,
        libc::SYS_pwritev,
        libc::SYS_pwritev2,
        libc::SYS_sendfile,
        libc::SYS_splice,
        libc::SYS_copy_file_range,
        libc::SYS_io_submit,
        libc::SYS_ftruncate,
        libc::SYS_truncate,
        libc::SYS_fallocate,
    ];
    for (at, call) in calls.iter().enumerate() {
        let is_durable = call.number == libc::SYS_pwritev2 && call.arguments[5] & DSYNC != 0;
        // Calls without a file are counted, too: they have no descriptor.
        let is_here = call.file.as_ref().is_none_or(|file| file.starts_with(directory));
        if !CHANGES.contains(&call.number) || !is_here || is_durable {
            continue;
        }
        let syncs = |later: &Call| {
            let is_sync = [libc::SYS_fdatasync, libc::SYS_fsync].contains(&later.number);
            is_sync && later.file == call.file
        };
        if !calls[at..].iter().any(syncs) {
            let (number, file) = (call.number, &call.file);
            return Some(format!("lost: call {number} on {file:?} is not durable"));
        }
    }
    None
}

pub(super) fn pool_on_a_disk() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap().join("pool");
    (dir, path)
}

/// A commit of every design on `file`, and then a checkpoint: a sync of the checkpoint comes too
/// late for the commit.
pub(crate) fn calls_of_a_file_pool(bug: Option<Mutant>) -> Option<String> {
    for design in designs() {
        let (_dir, path) = pool_on_a_disk();
        let pool = design.create(&path, options(Medium::File)).unwrap();
        let observed = executed::calls(|| {
            let _injected = inject(bug);
            commit(&*pool, &mut *pool.any_worker().unwrap(), 1);
        });
        let Some(((), commit)) = observed else { return skipped(bug, "calls") };
        let observed = executed::calls(|| {
            let _injected = inject(bug);
            pool.checkpoint().unwrap();
        });
        let checkpoint = observed.expect("as before").1;
        assert!(!commit.is_empty(), "{} writes", design.name);
        // A commit of `undo` has written the heap image.
        assert!(!checkpoint.is_empty() || design.name == "undo", "{} writes", design.name);
        // The entries in a queue are seen by `a_write_for_io_uring`: those of groups.
        let is_queued = |call: &Call| call.number == libc::SYS_io_uring_enter;
        let queues = commit.iter().chain(&checkpoint).any(is_queued);
        assert!(!queues || design.name == "decoupled", "{} has no queue", design.name);
        let directory = path.parent().unwrap();
        let violation = unsynced(&commit, directory);
        let violation = violation.or_else(|| unsynced(&checkpoint, directory));
        pool.abandon();
        if let Some(violation) = violation {
            return Some(format!("{violation}, under {}", design.name));
        }
    }
    None
}

/// The creation of a pool: its files are synced before they have a name, and the directory after.
pub(crate) fn calls_of_a_new_pool(bug: Option<Mutant>) -> Option<String> {
    const NAMES: &[i64] = &[
        libc::SYS_linkat,
        libc::SYS_renameat2,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_link,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_rename,
        #[cfg(not(target_arch = "riscv64"))]
        libc::SYS_renameat,
    ];
    let (_dir, path) = pool_on_a_disk();
    let design = designs().next().unwrap();
    let create = || {
        let _injected = inject(bug);
        design.create(&path, options(Medium::File)).unwrap().abandon();
    };
    let Some(((), calls)) = executed::calls(create) else { return skipped(bug, "calls") };
    let named = calls.iter().rposition(|call| NAMES.contains(&call.number));
    let (before, after) = calls.split_at(named.expect("a new pool gets its name"));
    let syncs = |calls: &[Call], file: Option<&Path>| {
        let syncs = calls.iter().filter(|call| call.number == libc::SYS_fsync);
        let is_one = |call: &&Call| {
            file.map_or(call.file.as_deref() != path.parent(), |file| {
                call.file.as_deref() == Some(file)
            })
        };
        syncs.filter(is_one).count()
    };
    if syncs(after, path.parent()) == 0 {
        return Some("lost: a new name is not durable".into());
    }
    // The log and the pool.
    (syncs(before, None) < 2).then(|| "lost: the length of a new file is not durable".into())
}

/// The removal of a file: a sync of the directory follows.
pub(crate) fn calls_of_a_removal(bug: Option<Mutant>) -> Option<String> {
    let (_dir, path) = pool_on_a_disk();
    let file = PoolFile::create(&path, 4096, Prewrite::No).unwrap();
    file.publish().unwrap();
    let remove = || {
        let _injected = inject(bug);
        file.remove().unwrap();
    };
    let Some(((), calls)) = executed::calls(remove) else { return skipped(bug, "calls") };
    assert!(!path.exists());
    let is_synced = calls
        .iter()
        .any(|call| call.number == libc::SYS_fsync && call.file.as_deref() == path.parent());
    (!is_synced).then(|| "lost: the removal of a name is not durable".into())
}

/// An opening: after a failed sync of another process the page cache may have bytes that the disk
/// has not.
pub(crate) fn calls_of_an_opening(bug: Option<Mutant>) -> Option<String> {
    let (_dir, path) = pool_on_a_disk();
    let design = designs().next().unwrap();
    design.create(&path, options(Medium::File)).unwrap().close().unwrap();
    let open = || {
        let _injected = inject(bug);
        design.open(&path, options(Medium::File)).unwrap().abandon();
    };
    let Some(((), calls)) = executed::calls(open) else { return skipped(bug, "calls") };
    believed(&calls, &path)
}

/// Reads the log for a stream. Its files must be durable or read anew, as in an opening.
pub(crate) fn calls_of_a_log_read(bug: Option<Mutant>) -> Option<String> {
    let (_dir, path) = pool_on_a_disk();
    let pool = Pool::create(&path, options(Medium::File)).unwrap();
    let _ = pool.run(|tx| tx.alloc(1_u64)).unwrap();
    pool.flush().unwrap();
    pool.abandon();
    let read = || {
        let _injected = inject(bug);
        let mut groups = 0;
        let log = read_log(&path, |_| {
            groups += 1;
            Ok(())
        });
        assert!(log.unwrap().last > TxId(0) && groups > 0);
    };
    let Some(((), calls)) = executed::calls(read) else { return skipped(bug, "calls") };
    believed(&calls, &path)
}

/// Reports a file of a pool whose pages in the cache are neither made durable nor forgotten.
fn believed(calls: &[Call], path: &Path) -> Option<String> {
    let is_read_anew = |file: &Path| {
        calls.iter().any(|call| {
            let is_advice = call.number == libc::SYS_fadvise64 && call.arguments[3] == DONTNEED;
            is_advice && call.file.as_deref() == Some(file)
        })
    };
    let log = path.with_file_name("pool.log");
    let kept = [path, &log].into_iter().find(|file| !is_read_anew(file));
    kept.map(|file| format!("lost: an opening believes the page cache of {}", file.display()))
}

/// The entry that the kernel gets for a group.
pub(crate) fn a_write_for_io_uring(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    let flags = u64::from(executed::queued_write_flags());
    (flags & DSYNC == 0).then(|| "lost: a group in io_uring is not durable".into())
}
