//! Question: how long does a durable write take on this disk, and how many bytes a second does it
//! write, one write at a time?
//!
//! The answer bounds every log on this disk. The benchmark creates a file of 64 MiB, writes it
//! whole and syncs it. Then it overwrites the file in order with `pwritev2` and `RWF_DSYNC`, past
//! the page cache where the file system supports that: the access pattern of a log. Each round
//! measures every size.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Instant;

use medium::Buffer;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use serde::Serialize;
use zerocopy::IntoBytes;

use super::Origin;
use crate::args::{Format, MeasureDisk};
use crate::failure::Failure;
use crate::report::{OverRounds, json, print, sorted, table};

const QUESTION: &str = "how long does a durable write take on this disk, one at a time?";

/// Sizes of writes, in bytes.
const SIZES: [usize; 3] = [4 << 10, 64 << 10, 1 << 20];

/// A multiple of every size.
const FILE_BYTES: u64 = 64 << 20;

/// Result of the benchmark.
#[derive(Debug, Serialize)]
struct Report {
    question: &'static str,
    #[serde(flatten)]
    origin: Origin,
    directory: String,
    file_system: Option<&'static str>,
    bypasses_page_cache: bool,
    rounds: u64,
    writes_per_round: u64,
    sizes: Vec<Row>,
}

/// Result of one size of write.
#[derive(Debug, Serialize)]
struct Row {
    bytes: usize,
    /// Over the medians of the rounds.
    latency_ns: OverRounds,
    /// Over all rounds.
    latency_ns_p99: f64,
    writes_per_second: OverRounds,
    bytes_per_second: OverRounds,
}

pub(super) fn run(arguments: &MeasureDisk) -> Result<(), Failure> {
    let MeasureDisk { dir, writes, rounds, output } = arguments;
    let mut disk = Disk::new(dir)?;
    let mut all: Vec<Vec<Vec<f64>>> = vec![Vec::new(); SIZES.len()];
    for _ in 0..*rounds {
        for (latencies, bytes) in all.iter_mut().zip(SIZES) {
            let round = disk.round(bytes, *writes).map_err(failure(dir))?;
            latencies.push(round);
        }
    }
    let report = Report {
        question: QUESTION,
        origin: Origin::this(),
        directory: dir.display().to_string(),
        file_system: disk.file_system,
        bypasses_page_cache: disk.direct,
        rounds: *rounds,
        writes_per_round: *writes,
        sizes: all.into_iter().zip(SIZES).map(|(rounds, bytes)| Row::new(bytes, rounds)).collect(),
    };
    print(&match output.format {
        Format::Json => json::object(&report),
        Format::Table => show(&report),
    })
}

/// An unnamed file and its contents.
struct Disk {
    file: File,
    direct: bool,
    file_system: Option<&'static str>,
    data: Buffer,
    at: u64,
}

impl Disk {
    fn new(directory: &Path) -> Result<Disk, Failure> {
        let (file, direct) = scratch(directory).map_err(|refused| Failure::NoScratch {
            directory: directory.into(),
            source: refused.into(),
        })?;
        let mut data = Buffer::new(SIZES[SIZES.len() - 1] / 8);
        // Not constant: a disk must not be able to compress the data away.
        let mut rng = StdRng::seed_from_u64(1);
        data.words_mut().iter_mut().for_each(|word| *word = rng.next_u64());
        let file_system = medium::FileSystem::of(&file).ok().and_then(|found| found.name());
        let mut disk = Disk { file, direct, file_system, data, at: 0 };
        let whole = FILE_BYTES / disk.data.words().as_bytes().len() as u64;
        let written = disk.write_all(whole).and_then(|()| disk.file.sync_all());
        written.map_err(failure(directory))?;
        Ok(disk)
    }

    /// Fills the file without durability.
    fn write_all(&mut self, writes: u64) -> io::Result<()> {
        let bytes = self.data.words().as_bytes().len();
        (0..writes).try_for_each(|_| self.write(bytes, ReadWriteFlags::empty()))
    }

    /// Makes durable writes of this size; returns their times in nanoseconds.
    fn round(&mut self, bytes: usize, writes: u64) -> io::Result<Vec<f64>> {
        self.at = self.at.next_multiple_of(bytes as u64);
        let mut latencies = Vec::with_capacity(writes as usize);
        for _ in 0..writes {
            let start = Instant::now();
            self.write(bytes, ReadWriteFlags::DSYNC)?;
            latencies.push(start.elapsed().as_nanos() as f64);
        }
        Ok(latencies)
    }

    fn write(&mut self, bytes: usize, flags: ReadWriteFlags) -> io::Result<()> {
        let offset = self.at % FILE_BYTES;
        self.at = offset + bytes as u64;
        let mut rest = &self.data.words().as_bytes()[..bytes];
        // A short write is resumed; its cause is the error of the next write.
        while !rest.is_empty() {
            let at = self.at - rest.len() as u64;
            let written = rustix::io::retry_on_intr(|| {
                rustix::io::pwritev2(self.file.as_fd(), &[IoSlice::new(rest)], at, flags)
            })?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            rest = &rest[written..];
        }
        Ok(())
    }
}

/// For `map_err`: the error of a full disk includes the required space.
fn failure<E: Into<io::Error>>(directory: &Path) -> impl FnOnce(E) -> Failure {
    move |source| {
        let source = source.into();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Failure::NoRoom { bytes: FILE_BYTES, directory: directory.into() }
            }
            _ => Failure::NoScratch { directory: directory.into(), source },
        }
    }
}

/// Creates an unnamed file in this directory; returns whether writes bypass the page cache.
fn scratch(directory: &Path) -> Result<(File, bool), Errno> {
    let name = directory.join(format!(".lastword-measure-{}", std::process::id()));
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let open = |more| rustix::fs::open(&name, flags | more, mode);
    let (file, direct) = match open(OFlags::DIRECT) {
        Ok(file) => (file, true),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => {
            // Some file systems create the file before they refuse the flag.
            let _ = rustix::fs::unlink(&name);
            (open(OFlags::empty())?, false)
        }
        Err(errno) => return Err(errno),
    };
    rustix::fs::unlink(&name)?;
    Ok((File::from(file), direct))
}

impl Row {
    fn new(bytes: usize, rounds: Vec<Vec<f64>>) -> Row {
        let rates: Vec<f64> = rounds
            .iter()
            .map(|latencies| 1e9 * latencies.len() as f64 / latencies.iter().sum::<f64>())
            .collect();
        let rounds: Vec<Vec<f64>> = rounds.into_iter().map(sorted).collect();
        let medians = rounds.iter().filter_map(|latencies| crate::report::median(latencies));
        let latency_ns = OverRounds::of(medians.collect());
        let all = sorted(rounds.concat());
        let p99 = all.get((all.len() * 99).div_ceil(100).saturating_sub(1));
        Row {
            bytes,
            latency_ns,
            latency_ns_p99: p99.copied().unwrap_or(0.0),
            bytes_per_second: OverRounds::of(rates.iter().map(|r| r * bytes as f64).collect()),
            writes_per_second: OverRounds::of(rates),
        }
    }
}

fn show(report: &Report) -> String {
    let time = |ns: f64| table::time(ns as u64);
    let rows: Vec<[String; 5]> = report
        .sizes
        .iter()
        .map(|row| {
            [
                table::bytes(row.bytes as u64),
                row.latency_ns.show(time),
                time(row.latency_ns_p99),
                format!("{} writes/s", table::short(row.writes_per_second.median)),
                format!("{}B/s", table::short(row.bytes_per_second.median)),
            ]
        })
        .collect();
    let route = if report.bypasses_page_cache { "past" } else { "through" };
    format!(
        "{}\n{}: {}, {route} the page cache; {} rounds of {} writes\n{}\n{}",
        report.question,
        report.directory,
        report.file_system.unwrap_or("a file system of unknown name"),
        report.rounds,
        report.writes_per_round,
        report.origin.show(),
        table::sheet(["size", "median (min to max)", "p99", "rate", "bytes"], &rows),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_summarizes_rounds() {
        let rounds = vec![vec![1000.0; 99], vec![3000.0; 99], vec![2000.0; 102]];
        let row = Row::new(4096, rounds);
        let OverRounds { median, min, max } = row.latency_ns;
        assert_eq!((median, min, max), (2000.0, 1000.0, 3000.0));
        assert_eq!(row.latency_ns_p99, 3000.0);
        assert_eq!(row.writes_per_second.max, 1e6);
        assert_eq!(row.bytes_per_second.median, 4096.0 * 5e5);
    }
}
