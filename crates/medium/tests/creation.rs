//! Obstacles to a new file: names, directories and locks. A failed creation leaves no file.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;

use faults::{Call, Failing, Fault, Faults};
use medium::{Error, PoolFile, Prewrite, System};
use rustix::fs::IFlags;

fn create(path: &Path) -> Result<PoolFile, Error> {
    let file = PoolFile::create(path, 8192, Prewrite::No)?;
    file.publish()?;
    Ok(file)
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn too_long_name_is_refused_before_creation() {
    let dir = tempfile::tempdir().unwrap();
    let limit = rustix::fs::statvfs(dir.path()).unwrap().f_namemax as usize;
    // `.` and `.lastword-new`.
    let most = limit - 14;
    let path = |bytes| dir.path().join("n".repeat(bytes));
    let refused = create(&path(most + 1)).unwrap_err();
    assert!(matches!(refused, Error::NameTooLong { added: 14, .. }), "{refused}");
    assert!(refused.to_string().contains(&format!("may have {most},")), "{refused}");
    assert!(names(dir.path()).is_empty());
    let refused = PoolFile::check_name(&System::kernel(), &path(most - 3), ".log").unwrap_err();
    assert!(refused.to_string().contains(&format!("may have {},", most - 4)), "{refused}");
    PoolFile::check_name(&System::kernel(), &path(most - 4), ".log").unwrap();
    create(&path(most)).unwrap();
    assert_eq!(names(dir.path()), ["n".repeat(most)]);
}

#[test]
fn foreign_entry_under_temporary_name_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (path, temporary) = (dir.path().join("pool"), dir.path().join(".pool.lastword-new"));
    fs::write(dir.path().join("precious"), "precious").unwrap();
    let dangling = dir.path().join("nowhere");
    let make: [&dyn Fn(); 3] = [
        &|| fs::create_dir(&temporary).unwrap(),
        &|| symlink(dir.path().join("precious"), &temporary).unwrap(),
        &|| symlink(&dangling, &temporary).unwrap(),
    ];
    for make in make {
        make();
        let before = fs::symlink_metadata(&temporary).unwrap();
        let refused = create(&path).unwrap_err();
        assert!(matches!(refused, Error::InTheWay { .. }), "{refused}");
        let shown = refused.to_string();
        assert!(shown.contains(".pool.lastword-new") && shown.contains("remove"), "{shown}");
        let after = fs::symlink_metadata(&temporary).unwrap();
        assert_eq!(before.file_type(), after.file_type());
        assert_eq!(fs::read(dir.path().join("precious")).unwrap(), b"precious");
        assert!(!path.exists() && !dangling.exists());
        if after.is_dir() {
            fs::remove_dir(&temporary).unwrap();
        } else {
            fs::remove_file(&temporary).unwrap();
        }
        create(&path).unwrap();
        fs::remove_file(&path).unwrap();
    }
}

/// Sets the attributes of a directory, as `chattr` does.
fn set(dir: &Path, flags: IFlags) -> rustix::io::Result<()> {
    let dir = fs::File::open(dir).unwrap();
    let before = rustix::fs::ioctl_getflags(&dir)?;
    let settable = IFlags::APPEND | IFlags::IMMUTABLE;
    rustix::fs::ioctl_setflags(&dir, (before - settable) | flags)
}

/// A directory with attributes. Dropping it clears them, because they prevent its removal.
struct Fixed<'d>(&'d Path);

impl Drop for Fixed<'_> {
    fn drop(&mut self) {
        let _ = set(self.0, IFlags::empty());
    }
}

#[test]
fn fixed_directory_is_refused_before_creation() {
    for (flags, letter) in [(IFlags::APPEND, 'a'), (IFlags::IMMUTABLE, 'i')] {
        let dir = tempfile::tempdir().unwrap();
        let fixed = Fixed(dir.path());
        if let Err(errno) = set(dir.path(), flags) {
            let reason = format!("attributes cannot be set in {}: {errno}", dir.path().display());
            let _ = writeln!(
                std::io::stderr(),
                "skipped: fixed_directory_is_refused_before_creation: {reason}"
            );
            return;
        }
        let refused = create(&dir.path().join("pool")).unwrap_err();
        assert!(names(dir.path()).is_empty(), "{:?}", names(dir.path()));
        let Error::FixedDirectory { attribute, .. } = &refused else { panic!("{refused}") };
        assert_eq!(*attribute, letter);
        let command = format!("`chattr -{letter} -- '{}'`", dir.path().display());
        assert!(refused.to_string().contains(&command), "{refused}");
        drop(fixed);
        create(&dir.path().join("pool")).unwrap();
    }
}

#[test]
fn refused_lock_leaves_nothing_and_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let faults = Faults::without(&[Call::Lock], u64::MAX, Fault::Io, false);
    let system = System::kernel().failing(faults);
    let refused = PoolFile::create_on(&system, &path, 8192, Prewrite::No).unwrap_err();
    assert!(matches!(refused, Error::NoLocks { .. }), "{refused}");
    assert!(refused.to_string().contains("lock service"), "{refused}");
    assert!(names(dir.path()).is_empty());
    create(&path).unwrap();
    let refused = PoolFile::open_on(&system, &path).unwrap_err();
    assert!(matches!(refused, Error::NoLocks { .. }), "{refused}");
}
