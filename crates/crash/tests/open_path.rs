//! The checks before a pool's files are read: names, kinds, locks, lengths.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use crash::hostile::{Files, Kind, options, seal};
use lastword::{Error, MediumError, Pool};

const OWN_LOG: Kind = Kind::GROUPS[0];

fn made(kind: Kind) -> Files {
    let files = Files::make(kind);
    files.write(&[], false);
    files
}

/// Returns the result of every function that takes a path.
fn all(path: &Path) -> [Result<(), Error>; 5] {
    [
        Pool::open(path, options()).map(drop),
        lastword::check(path).map(drop),
        lastword::inspect(path).map(drop),
        lastword::repair(path).map(drop),
        lastword::HeapAtRest::load(path).map(drop),
    ]
}

#[test]
fn link_directory_or_socket_is_refused() {
    let files = made(OWN_LOG);
    let aside = files.path().with_file_name("aside");
    for file in [files.path(), files.log_path()] {
        let before = fs::read(&file).unwrap();
        fs::rename(&file, &aside).unwrap();
        symlink(&aside, &file).unwrap();
        let others: [fn(&Path); 2] = [
            |path| fs::create_dir(path).unwrap(),
            |path| drop(UnixListener::bind(path).unwrap()), // its name stays
        ];
        for make in [None].into_iter().chain(others.map(Some)) {
            if let Some(make) = make {
                let _ = fs::remove_file(&file).or_else(|_| fs::remove_dir(&file));
                make(&file);
            }
            for result in all(&files.path()) {
                let refused = matches!(&result, Err(Error::Medium(MediumError::NotAFile { path }))
                    if *path == file);
                assert!(refused, "{} {result:?}", file.display());
            }
        }
        assert!(fs::read(&aside).unwrap() == before, "the link's target was changed");
        let _ = fs::remove_file(&file).or_else(|_| fs::remove_dir(&file));
        fs::rename(&aside, &file).unwrap();
    }
    Pool::open(files.path(), options()).unwrap().close().unwrap();
}

#[test]
fn creation_follows_no_link() {
    let dir = tempfile::tempdir().unwrap();
    let (path, precious) = (dir.path().join("new.pool"), dir.path().join("precious"));
    fs::write(&precious, "precious").unwrap();
    for name in ["new.pool", "new.pool.log", ".new.pool.lastword-new", ".new.pool.log.lastword-new"]
    {
        let link = dir.path().join(name);
        symlink(&precious, &link).unwrap();
        assert!(Pool::create(&path, options()).is_err(), "{name}");
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        fs::remove_file(&link).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "{name}: no file is left");
    }
    Pool::create(&path, options()).unwrap().close().unwrap();
}

#[test]
fn open_pool_file_is_private_and_not_inherited() {
    const CLOSE_ON_EXEC: u32 = 0o2_000_000;
    for kind in Kind::GROUPS {
        let files = made(kind);
        let pool = Pool::open(files.path(), options()).unwrap();
        let own = fs::metadata(files.path()).unwrap();
        assert_eq!(own.permissions().mode() & 0o777, 0o600);
        let mut seen = 0;
        for entry in fs::read_dir("/proc/self/fd").unwrap() {
            let entry = entry.unwrap().path();
            let Ok(open) = fs::metadata(&entry) else { continue };
            if (open.dev(), open.ino()) != (own.dev(), own.ino()) {
                continue;
            }
            let info = Path::new("/proc/self/fdinfo").join(entry.file_name().unwrap());
            let info = fs::read_to_string(info).unwrap();
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
            let flags = u32::from_str_radix(flags.trim(), 8).unwrap();
            assert!(flags & CLOSE_ON_EXEC != 0, "{info}");
            seen += 1;
        }
        assert!(seen > 0, "the pool's file is open");
        pool.close().unwrap();
    }
}

#[test]
fn open_pool_is_refused_by_any_name() {
    for kind in Kind::GROUPS {
        let files = made(kind);
        let other = files.path().with_file_name("other.pool");
        let _ = fs::remove_file(&other);
        fs::hard_link(files.path(), &other).unwrap();
        let pool = Pool::open(files.path(), options()).unwrap();
        for path in [&files.path(), &other] {
            let opened = Pool::open(path, options()).map(drop);
            let in_use = matches!(opened, Err(Error::Medium(MediumError::InUse { .. })));
            assert!(in_use, "{} {opened:?}", path.display());
        }
        // It is read beside its owner. A log has the name of its pool.
        assert!(lastword::inspect(files.path()).unwrap().in_use);
        lastword::check(files.path()).unwrap().sound().unwrap();
        match lastword::check(&other).unwrap().sound() {
            Ok(checked) => assert!(kind.mapped && checked.info.in_use),
            Err(error) => assert!(!kind.mapped && matches!(error, Error::LogMissing { .. })),
        }
        pool.close().unwrap();
        fs::remove_file(&other).unwrap();
        lastword::check(files.path()).unwrap().sound().unwrap();
    }
}

/// A sparse file of the right length without content must not cost us its size.
#[test]
fn huge_empty_pool_takes_no_time_or_memory() {
    const HEAP_BYTES: u64 = 64 << 30;
    let mut files = made(Kind::GROUPS[1]);
    for copy in [0, 512] {
        let words = &mut files.copies(0).words[copy..];
        words[14] = HEAP_BYTES;
        seal::block(words);
    }
    files.write(&[(0, (2 << 20) + HEAP_BYTES)], false);
    let resident = || {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    let allocated = || fs::metadata(files.path()).unwrap().blocks();
    let (before, allocated_before) = (resident(), allocated());
    let check = lastword::check(files.path());
    let open = Pool::open(files.path(), options());
    for error in [check.err(), open.err()].into_iter().flatten() {
        assert!(matches!(error, Error::Medium(MediumError::NoMemory { .. })), "{error}");
    }
    // The memory is asked for before the disk is: the file is as sparse as it was.
    assert_eq!(allocated(), allocated_before);
    // The kernel sums resident pages over its processors late, so the maximum may seem to fall.
    let after = resident();
    assert!(after.saturating_sub(before) < 256 << 10, "{before} KiB, then {after}");
}
