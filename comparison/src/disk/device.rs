//! The disk itself: bytes written to it, and the duration of one durable write.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

use rustix::fs::{OFlags, major, minor};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};

use crate::failure::Failure;

/// Bytes of one write of the probe.
const BLOCK: usize = 4096;

/// Blocks of the probe's file.
const BLOCKS: u64 = 16 << 10;

#[repr(align(4096))]
struct Block([u8; BLOCK]);

/// The kernel's counters of a block device.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    path: Option<std::path::PathBuf>,
}

impl Counter {
    /// That of the device that a directory is on; none on file systems without one.
    pub(crate) fn of(dir: &Path) -> Counter {
        let path = |metadata: Metadata| {
            let (major, minor) = (major(metadata.dev()), minor(metadata.dev()));
            format!("/sys/dev/block/{major}:{minor}/stat").into()
        };
        Counter { path: dir.metadata().ok().map(path) }
    }

    /// Bytes written to the device by all of the machine since it was started.
    pub(crate) fn bytes_written(&self) -> Option<u64> {
        let text = std::fs::read_to_string(self.path.as_ref()?).ok()?;
        let sectors: u64 = text.split_whitespace().nth(6)?.parse().ok()?;
        Some(512 * sectors)
    }
}

/// Microseconds of one durable write of 4 KiB, one at a time: `O_DIRECT` and `RWF_DSYNC` (without
/// the former where the file system has none), to a file that was written before.
pub(crate) fn write_us(dir: &Path, seconds: f64) -> Result<f64, Failure> {
    let path = dir.join("probe");
    let probe = || -> io::Result<f64> {
        let mut file = File::create_new(&path)?;
        for _ in 0..BLOCKS / 256 {
            file.write_all(&vec![1; 256 * BLOCK])?;
        }
        file.sync_all()?;
        let direct = OFlags::DIRECT.bits() as i32;
        let file = match OpenOptions::new().write(true).custom_flags(direct).open(&path) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => file,
            opened => opened?,
        };
        let block = Block([2; BLOCK]);
        let (start, mut count) = (Instant::now(), 0_u64);
        while count < 16 || start.elapsed().as_secs_f64() < seconds {
            let at = count % BLOCKS * BLOCK as u64;
            let slices = [IoSlice::new(&block.0)];
            if pwritev2(&file, &slices, at, ReadWriteFlags::DSYNC)? != BLOCK {
                return Err(io::ErrorKind::WriteZero.into());
            }
            count += 1;
        }
        Ok(start.elapsed().as_secs_f64() * 1e6 / count as f64)
    };
    let us = probe().map_err(Failure::io("measuring the disk"));
    // The file is in a temporary directory, which is removed with its contents.
    let _ = std::fs::remove_file(&path);
    us
}
