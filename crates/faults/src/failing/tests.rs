//! Tests of the faults of a bad disk.

use super::*;

const PLAIN: ReadWriteFlags = ReadWriteFlags::empty();

/// A file of zeros. Opening it is the first call that `faults` counts.
fn file(faults: &Arc<Faults>) -> (tempfile::TempDir, Box<dyn Handle>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, [0; 8192]).unwrap();
    let system = System::kernel().failing(Arc::clone(faults));
    let file = system.files().open(&path, OFlags::RDWR, Mode::empty()).unwrap();
    (dir, file)
}

fn write(file: &dyn Handle, offset: u64, words: &[u64], flags: ReadWriteFlags) -> Result<usize> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    file.write(&[IoSlice::new(&bytes)], offset, flags)
}

fn words<const N: usize>(file: &dyn Handle, offset: u64) -> [u64; N] {
    let mut bytes = vec![9; 8 * N];
    assert_eq!(file.read(&mut bytes, offset), Ok(8 * N));
    let (words, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|word| u64::from_le_bytes(words[word]))
}

#[test]
fn failed_sync_loses_writes_since_last_sync() {
    // open; write, sync, write, write, sync.
    let faults = Faults::nth(5, Fault::Io, false);
    let (_dir, file) = file(&faults);
    write(&*file, 4096, &[1], PLAIN).unwrap();
    file.sync_data().unwrap();
    write(&*file, 4096, &[2], PLAIN).unwrap();
    write(&*file, 4096, &[3], PLAIN).unwrap();
    assert_eq!(file.sync_data(), Err(Errno::IO));
    assert_eq!(words(&*file, 4096), [1]);
    assert!(file.sync_data().is_ok() && words(&*file, 4096) == [1]);
    assert_eq!(faults.failed(), [Call::SyncData]);
    assert_eq!(faults.passed(Call::Write), 3);
}

#[test]
fn failed_write_leaves_nothing_half_or_all() {
    let mut left = Vec::new();
    for already in 0..3 {
        let faults = Faults::nth(1 + already, Fault::NoSpace, false);
        let (_dir, file) = file(&faults);
        for _ in 0..already {
            words::<1>(&*file, 4096);
        }
        let failed = write(&*file, 4088, &[1, 2], ReadWriteFlags::DSYNC);
        assert_eq!(failed, Err(Errno::NOSPC));
        left.push(words::<2>(&*file, 4088));
    }
    left.sort_unstable();
    assert_eq!(left, [[0, 0], [1, 0], [1, 2]]);
}

#[test]
fn short_write_ends_early() {
    for sticky in [false, true] {
        let faults = Faults::nth(0, Fault::Short, sticky);
        let (_dir, file) = file(&faults);
        assert_eq!(write(&*file, 4064, &[1, 2, 3, 4, 5, 6], PLAIN), Ok(24));
        assert_eq!(words(&*file, 4064), [1, 2, 3, 0, 0, 0]);
        assert_eq!(write(&*file, 4088, &[4, 5], PLAIN), Ok(if sticky { 8 } else { 16 }));
        assert_eq!(faults.failed().len(), if sticky { 2 } else { 1 });
    }
}
