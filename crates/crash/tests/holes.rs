//! Sparse mapped pools on a full disk: opening must allocate the holes. Without that allocation a
//! store into a hole raises SIGBUS, which ends the process.
//!
//! The full disk is a small tmpfs in a mount namespace of the child. A mount needs root, or a
//! kernel that allows unprivileged user namespaces. Without either, the test prints on standard
//! error that it is skipped.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

use faults::mutants::{Mutant, by_name, entry, inject};
use lastword::{Error, Medium, MediumError, Objects, Options, Pool};

const NAME: &str = "mapped_hole_without_allocation_is_a_sigbus";

/// Set in the child process: its small disk.
const DISK: &str = "LASTWORD_TEST_SMALL_DISK";

/// Set in the child process, if it runs with an injected bug: the bug's name.
const BUG: &str = "LASTWORD_TEST_BUG";

const MOUNT: &str = "mount -t tmpfs -o size=8m lastword \"$0\"";
const BLOCK: usize = 4096;

/// Number of the signal SIGBUS.
const BUS: i32 = 7;

/// Line that the child prints if the pool does not open.
const REFUSED: &str = "the pool is refused";

/// Line that the child prints once the pool is open.
const OPENED: &str = "the pool is open";

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
}

/// Fills the disk with one file.
fn fill(disk: &Path) {
    let mut filler = File::create(disk.join("filler")).unwrap();
    let error = std::iter::repeat_with(|| filler.write_all(&[1; BLOCK])).find_map(Result::err);
    assert_eq!(error.unwrap().kind(), std::io::ErrorKind::StorageFull);
}

/// Opens a sparse copy of a mapped pool, and fills its heap.
fn open_sparse(disk: &Path) {
    let bug = std::env::var(BUG).ok();
    let _injected = inject(bug.map(|name| by_name(&name).expect("this build has the mutant")));
    let medium = Medium::Emulated { latency_cycles: 0, bandwidth_bytes_per_second: 0 };
    let options = Options::new().bytes(1 << 20).log_bytes(128 << 10).ring_entries(1 << 12);
    let options = options.medium(medium).background(false);
    let path = disk.join("pool");
    Pool::create(&path, options.clone()).unwrap().close().unwrap();
    copy_sparse(&path);
    fill(disk);
    match Pool::open(&path, options) {
        Err(Error::Medium(MediumError::Unallocated { .. })) => println!("{REFUSED}"),
        Err(error) => panic!("{error}"),
        Ok(pool) => {
            println!("{OPENED}");
            let fills = || pool.run(|tx| tx.alloc([7_u64; 32])).and_then(|done| done.ticket.wait());
            let full = std::iter::repeat_with(fills).find_map(Result::err);
            assert!(matches!(full, Some(Error::Full { .. })), "{full:?}");
        }
    }
}

/// Runs this test in a child with a small disk.
fn child(flags: &str, disk: &Path, bug: Option<&str>) -> Output {
    let line = format!("{MOUNT} && exec \"$1\" --exact \"$2\" --nocapture");
    let mut unshare = Command::new("unshare");
    unshare.args([flags, "sh", "-c", &line]).arg(disk);
    unshare.arg(std::env::current_exe().unwrap()).arg(NAME).env(DISK, disk);
    if let Some(bug) = bug {
        unshare.env(BUG, bug);
    }
    unshare.output().unwrap()
}

#[test]
fn mapped_hole_without_allocation_is_a_sigbus() {
    if let Some(disk) = std::env::var_os(DISK) {
        return open_sparse(Path::new(&disk));
    }
    let dir = tempfile::tempdir().unwrap();
    let works = |flags: &&str| {
        let mut unshare = Command::new("unshare");
        let mounted = unshare.args([flags, "sh", "-c", MOUNT]).arg(dir.path()).output();
        mounted.is_ok_and(|output| output.status.success())
    };
    let Some(flags) = ["-m", "-Urm"].into_iter().find(works) else {
        // `writeln!` bypasses the test harness's capture, so that `.ci/run` can list these lines.
        let _ = writeln!(std::io::stderr(), "skipped: {NAME}: no file system can be mounted");
        return;
    };
    let whole = child(flags, dir.path(), None);
    let text = String::from_utf8_lossy(&whole.stdout);
    assert!(whole.status.success() && text.contains(REFUSED), "{text}");
    let injected = child(flags, dir.path(), Some(entry(Mutant::HolesKept).name));
    let text = String::from_utf8_lossy(&injected.stdout);
    assert!(text.contains(OPENED), "{text}");
    assert_eq!(injected.status.signal(), Some(BUS), "{}: {text}", injected.status);
}
