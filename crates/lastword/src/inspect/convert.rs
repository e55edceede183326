//! The conversion of a pool of format version 3, whose heap has format 1, into a new pool.
//!
//! Every object keeps its address, and the pool keeps its ID, which is part of every pointer. So
//! the program's data need no change. The new pool is created with the converted words as its first
//! content. Like every new pool it appears whole or not at all. The old pool is only read.

use std::path::Path;

use super::check::{Examined, examine};
use super::{CheckOptions, word};
use crate::recover::decide::Action;
use crate::storage::{Demand, Storage, heap, log_path, plan};
use crate::superblock::{FORMAT_VERSION_3, exact_name, name};
use crate::{Error, LogMismatch, Medium, Options};
use medium::{PoolFile, System};

/// Creates a pool at `to` with the content of the pool at `from`, which an earlier version of
/// Lastword wrote in format version 3.
///
/// Objects keep their addresses, and the new pool has the old one's ID, layout, medium, design and
/// sizes. The old pool is recovered in memory and never written. Takes twice as much memory as the
/// heap. IDs of transactions start again.
///
/// # Errors
/// As [`check`](crate::check) for the old pool, and as [`Pool::create`](crate::Pool::create) for
/// the new one. [`Error::DamagedHeap`] when the old heap is damaged. [`Error::FormatVersion`] when
/// it needs no conversion, or this version has none for it.
pub fn convert(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<(), Error> {
    convert_on(&System::kernel(), from.as_ref(), to.as_ref())
}

/// Converts as [`convert`] does, in files of this system.
fn convert_on(system: &System, path: &Path, to: &Path) -> Result<(), Error> {
    let expected = CheckOptions { converts: true, ..CheckOptions::new() };
    let Examined { survey, image, .. } =
        examine(path, &expected, |path| PoolFile::open_shared_on(system, path))?;
    let found = survey.found()?;
    let (superblock, medium) = (*found.superblocks.current(), found.medium);
    if superblock.version != FORMAT_VERSION_3 {
        let (path, found, expected) = (path.into(), superblock.version, FORMAT_VERSION_3);
        return Err(Error::FormatVersion { path, found, expected });
    }
    // An opening of the old program that crashed leaves a log of the next generation, and so does
    // an older copy of the pool's file. Format 3 cannot distinguish them.
    if let Some(head) = found.log_head
        && head.generation != superblock.generation
    {
        let (found, expected) = (head.generation, superblock.generation);
        let why = LogMismatch::Generation { found, expected };
        return Err(Error::WrongLog { path: log_path(path), why, needed_after: None });
    }
    debug_assert!(found.action != Action::Refuse, "a refused pool was not found");
    let Some(image) = image else {
        return Err(Error::NotAPool { path: path.into() });
    };
    let heap = heap(&superblock);
    let mut words: Vec<u64> =
        (0..superblock.heap_bytes).step_by(8).map(|offset| word(&image, offset)).collect();
    drop(image);
    heap.convert_format_1(&mut words)
        .and_then(|()| heap.check(|offset| words[offset as usize / 8]))
        .map_err(|damage| Error::DamagedHeap { path: path.into(), damage })?;
    let options = Options::new()
        .bytes(superblock.heap_bytes)
        .log_bytes(superblock.log_bytes)
        .medium(medium)
        .system(system.clone())
        .layout(&exact_name(&superblock.layout), superblock.layout_version);
    let mut first = plan(&options, &name(&superblock.design), medium)?;
    first.pool = superblock.pool;
    // A log of the old pool must not pass for one of the new pool, which has the same ID. The old
    // program may open the old pool again, which adds 1 each time.
    first.generation = superblock.generation.saturating_add(1 << 32);
    let content = (0..).zip(words).filter(|&(_, word)| word != 0);
    // The words are in memory already, and no design starts.
    let none = |_: &Options, _: Medium, _: u64| Demand { heap_bytes: 0, records: 0 };
    let (_, created) = Storage::create_with(to, &options, (first, medium), none, content)?;
    drop(created);
    Ok(())
}

#[cfg(test)]
mod tests {
    use faults::{Failing, Fault, Faults};
    use zerocopy::IntoBytes;

    use super::*;

    use crate::superblock::{FORMAT_VERSION, LogHead};
    use crate::{Pool, Undo};

    /// The heap that format 1 wrote, of the allocator's tests: non-zero words by offset.
    const IMAGE: &str = include_str!("../../../alloc/src/tests/golden-v1.txt");
    const HEAP_BYTES: u64 = 6 << 16;

    /// Makes a pool of version 3 with that heap. Its pointers carry the tag 0x1a5e.
    fn old(path: &Path, clean: bool) {
        let medium = Medium::File;
        let options = Options::new().bytes(HEAP_BYTES).log_bytes(1 << 20).layout("bank", 7);
        let options = options.page_checksums(false);
        let mut first = plan(&options, "undo", medium).unwrap();
        (first.version, first.pool, first.clean) = (FORMAT_VERSION_3, 0x1a5d, clean);
        let words = IMAGE.lines().map(|line| {
            let (offset, word) = line.split_once(' ').unwrap();
            let hexadecimal = |text| u64::from_str_radix(text, 16).unwrap();
            (hexadecimal(offset) / 8, hexadecimal(word))
        });
        let none = |_: &Options, _: Medium, _: u64| Demand { heap_bytes: 0, records: 0 };
        drop(Storage::create_with(path, &options, (first, medium), none, words).unwrap());
    }

    #[test]
    fn pool_of_version_3_is_converted() {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("old.pool"), directory.path().join("new.pool"));
        old(&from, true);
        let before = std::fs::read(&from).unwrap();
        let refused = Pool::<Undo>::open_as(&from, Options::new()).unwrap_err();
        assert!(matches!(refused, Error::FormatVersion { found: 3, .. }), "{refused}");
        assert!(refused.to_string().contains("pool convert"), "{refused}");

        convert(&from, &to).unwrap();
        assert!(std::fs::read(&from).unwrap() == before, "the old pool is only read");
        let report = crate::check(&to).unwrap();
        assert!(report.is_sound(), "{report:?}");
        let pool = Pool::<Undo>::open_as(&to, Options::new().layout("bank", 7)).unwrap();
        assert_eq!(pool.check_heap().unwrap().objects, 3);
        let mut worker = pool.worker().unwrap();
        let word = worker.read(|tx| {
            let root = words::Allocate::root(tx)?;
            words::Words::read(tx, words::Addr::new(root, 8))
        });
        assert_eq!(word.unwrap().value, 0x0123_4567_89ab_cdef);
        drop(worker);
        pool.close().unwrap();
        let again = convert(&to, directory.path().join("third.pool")).unwrap_err();
        assert!(matches!(again, Error::FormatVersion { found: FORMAT_VERSION, .. }), "{again}");
        assert!(convert(&from, &to).is_err(), "no file is overwritten");
    }

    #[test]
    fn damaged_pool_of_version_3_is_refused() {
        use std::os::unix::fs::FileExt;
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("old.pool"), directory.path().join("new.pool"));
        old(&from, true);
        let file = std::fs::File::options().read(true).write(true).open(&from).unwrap();
        let heap_begin = file.metadata().unwrap().len() - HEAP_BYTES;
        file.write_all_at(77_u64.as_bytes(), heap_begin + (1 << 16) + 16).unwrap();
        let error = convert(&from, &to).unwrap_err();
        assert!(matches!(error, Error::DamagedHeap { .. }), "{error}");
        assert!(!to.exists());
    }

    /// Format 3 does not say whether such a log has transactions.
    #[test]
    fn log_of_later_opening_is_not_converted() {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("old.pool"), directory.path().join("new.pool"));
        old(&from, false);
        let log = PoolFile::open_on(&System::kernel(), log_path(&from)).unwrap();
        let head = LogHead { edition: 1, pool: 0x1a5d, generation: 2, entered: false };
        head.write(&log, 0).unwrap();
        drop(log);
        let error = convert(&from, &to).unwrap_err();
        let why = LogMismatch::Generation { found: 2, expected: 1 };
        assert!(matches!(error, Error::WrongLog { why: found, .. } if found == why), "{error}");
        assert!(!to.exists());
    }

    /// Converts with a failing call; expects that the new pool is absent or whole. Returns whether
    /// a call failed.
    fn convert_with_failing_call(from: &Path, n: u64, fault: Fault, sticky: bool) -> bool {
        let directory = tempfile::tempdir().unwrap();
        let to = directory.path().join("new.pool");
        let faults = Faults::nth(n, fault, sticky);
        let converted = convert_on(&System::kernel().failing(faults.clone()), from, &to);
        let text = format!("call {n}, {fault:?}, sticky {sticky}, {:?}", faults.failed());
        if converted.is_err() && !sticky {
            // After a single failing call the conversion still removes the new files.
            let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
            assert!(left.is_empty(), "{left:?} is left: {text}");
        }
        // After a kill, as when every later call fails, nothing is removed. A pool that has the new
        // name then is whole, and other files do not hinder the next conversion.
        if !to.exists() {
            assert!(converted.is_err(), "{text}");
            convert(from, &to).unwrap_or_else(|error| panic!("{error} after {text}"));
        }
        assert!(crate::check(&to).unwrap().is_sound(), "{text}");
        !faults.failed().is_empty()
    }

    #[test]
    fn interrupted_conversion_leaves_old_pool_and_no_part_of_new() {
        let directory = tempfile::tempdir().unwrap();
        let from = directory.path().join("old.pool");
        old(&from, true);
        let read = || (std::fs::read(&from).unwrap(), std::fs::read(log_path(&from)).unwrap());
        let before = read();
        for fault in [Fault::Io, Fault::NoSpace] {
            for sticky in [false, true] {
                let fails = |&n: &u64| convert_with_failing_call(&from, n, fault, sticky);
                let calls = (0..).take_while(fails).count();
                assert!(calls > 20, "only {calls} calls");
                assert!(read() == before, "the old pool is only read");
            }
        }
    }
}
