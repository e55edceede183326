//! The results of a sweep: a directory with a file per point.
//!
//! ```text
//!   DIR/sweep.json    {"format": 1, "program": ...,
//!                      "points": [{"point": HASH, "asked": ...}, ...], "checksum": ...}
//!   DIR/HASH.json     {"format": 1, "point": HASH, "program": ..., "transactions": ..., "scale":
//!                      ..., "check": ..., "power_cuts": ..., "outcome": {...}, "checksum": ...}
//!   DIR/.NAME.*.tmp   a file that is being written, or was left by a killed process
//! ```
//!
//! The checksum is 64-bit FNV-1a over all bytes before its line. A file is renamed to its final
//! name when its contents are durable. It is therefore present as a whole or not at all, and stays
//! so.
//!
//! Invariants:
//! - A point's file depends on the point alone, and not on the host or on the simulation's
//!   duration.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Sweep;
use super::error::SweepError;
use super::point::{Asked, Point};
use crate::machine::named::fnv_1a;
use crate::report::Outcome;

/// The version of the file format.
const FORMAT: u32 = 1;

/// The text before the checksum.
const CHECKSUM: &str = ",\n  \"checksum\": \"";

/// The result of a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    format: u32,
    /// The point's hash.
    pub point: String,
    /// The program that simulated it.
    pub program: String,
    /// The requested number of measured transactions, which is the least.
    pub transactions: u64,
    /// See [`Asked::scale`].
    pub scale: f64,
    /// See [`Asked::data`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// See [`Asked::update_percent`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_percent: Option<u8>,
    /// See [`Asked::zipf`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zipf: Option<f64>,
    /// See [`Asked::shared`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// See [`Setup::check`](crate::Setup::check).
    pub check: bool,
    /// See [`Setup::power_cuts`](crate::Setup::power_cuts).
    pub power_cuts: u64,
    /// The result, without its duration.
    pub outcome: Outcome,
}

impl Record {
    /// Returns the record of a point's outcome.
    pub fn new(point: &Point, program: &str, outcome: Outcome) -> Record {
        Record {
            format: FORMAT,
            point: point.hash.clone(),
            program: program.to_owned(),
            transactions: point.setup.transactions,
            scale: point.asked.scale,
            data: point.asked.data.clone(),
            update_percent: point.asked.update_percent,
            zipf: point.asked.zipf,
            shared: point.asked.shared,
            check: point.setup.check,
            power_cuts: point.setup.power_cuts,
            outcome: Outcome { host_seconds: 0.0, complaints: Vec::new(), ..outcome },
        }
    }

    /// Returns whether the record's parameters are the point's, beyond an equal hash.
    fn is_of(&self, point: &Point) -> bool {
        let (setup, outcome, asked) = (&point.setup, &self.outcome, &point.asked);
        (&self.point, self.transactions) == (&point.hash, setup.transactions)
            && (self.scale, self.check) == (asked.scale, setup.check)
            && (&self.data, self.update_percent, self.zipf, self.shared)
                == (&asked.data, asked.update_percent, asked.zipf, asked.shared)
            && self.power_cuts == setup.power_cuts
            && (&outcome.workload, &outcome.design) == (&asked.workload, &setup.design)
            && (outcome.cores, outcome.seed) == (setup.cores, setup.seed)
            && outcome.description == setup.description
    }
}

/// The points of a sweep, without their machines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct List {
    format: u32,
    /// The program that simulates them.
    pub program: String,
    /// The points in order.
    pub points: Vec<Listed>,
}

/// A point in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Listed {
    /// The point's hash.
    pub point: String,
    /// The requested point.
    pub asked: Asked,
}

/// The state of a point's result.
#[derive(Clone, Debug)]
pub enum Found {
    /// The point has no file.
    Missing,
    /// The file is damaged or unreadable, with the reason.
    Damaged(String),
    /// The result.
    Whole(Box<Record>),
}

/// A directory of results.
#[derive(Clone, Debug)]
pub struct Results {
    directory: PathBuf,
}

impl Results {
    /// Opens the directory, and creates it if it does not exist.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn create(directory: &Path) -> Result<Results, SweepError> {
        fs::create_dir_all(directory).map_err(error("make", directory))?;
        Ok(Results::at(directory))
    }

    /// Opens an existing directory.
    pub fn at(directory: &Path) -> Results {
        Results { directory: directory.to_owned() }
    }

    /// Writes the list of points, over that of an earlier sweep in the same directory. Durable on
    /// return.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn put_list(&self, sweep: &Sweep) -> Result<(), SweepError> {
        let listed =
            |point: &Point| Listed { point: point.hash.clone(), asked: point.asked.clone() };
        let points = sweep.points().iter().map(listed).collect();
        let text = sealed(&List { format: FORMAT, program: sweep.program().to_owned(), points });
        let path = self.path("sweep");
        match fs::read(&path) {
            Ok(there) if there == text.as_bytes() => Ok(()),
            _ => self.put("sweep", &text),
        }
    }

    /// Reads the list of points.
    ///
    /// # Errors
    /// [`SweepError::NoList`].
    pub fn list(&self) -> Result<List, SweepError> {
        let path = self.path("sweep");
        let problem = match fs::read(&path) {
            Ok(bytes) => match opened::<List>(&bytes) {
                Ok(list) if list.format == FORMAT => return Ok(list),
                Ok(list) => format!("format {}, not {FORMAT}", list.format),
                Err(problem) => problem,
            },
            Err(source) => source.to_string(),
        };
        Err(SweepError::NoList { path, problem })
    }

    /// Writes the result of a point. Durable on return.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn put_record(&self, record: &Record) -> Result<(), SweepError> {
        self.put(&record.point, &sealed(record))
    }

    /// Reads the result of a point, and compares its parameters with the point's.
    pub fn record(&self, point: &Point) -> Found {
        match self.record_of(&point.hash) {
            Found::Whole(record) if !record.is_of(point) => {
                Found::Damaged("it is of another point".into())
            }
            found => found,
        }
    }

    /// Reads the result of a point by its hash alone.
    pub fn record_of(&self, hash: &str) -> Found {
        let bytes = match fs::read(self.path(hash)) {
            Ok(bytes) => bytes,
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Found::Missing,
            Err(source) => return Found::Damaged(source.to_string()),
        };
        match opened::<Record>(&bytes) {
            Ok(record) if record.format != FORMAT => {
                Found::Damaged(format!("format {}, not {FORMAT}", record.format))
            }
            Ok(record) if record.point != hash => {
                Found::Damaged(format!("it is of point {}", record.point))
            }
            Ok(record) => Found::Whole(Box::new(record)),
            Err(problem) => Found::Damaged(problem),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.json"))
    }

    /// Writes a file and renames it when its contents are durable. The name is durable on return,
    /// too.
    fn put(&self, name: &str, text: &str) -> Result<(), SweepError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let path = self.path(name);
        // Relaxed: the counter only has to return distinct numbers.
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let temporary = format!(".{name}.{}.{}.{number}.tmp", host(), process::id());
        let temporary = self.directory.join(temporary);
        let write = || {
            let mut file = File::create(&temporary)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
            File::open(&self.directory)?.sync_all()
        };
        write().map_err(|source| {
            // The temporary file is invisible to readers, so a failed removal is harmless.
            let _ = fs::remove_file(&temporary);
            error("write", &path)(source)
        })
    }
}

/// Returns the name of this host, to keep temporary files of several hosts apart.
fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().chars().filter(char::is_ascii_alphanumeric).collect()
}

/// Serializes an object and appends its checksum.
fn sealed(value: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(value).expect("it has plain keys");
    let open = text.strip_suffix("\n}").expect("it is an object with keys");
    format!("{open}{CHECKSUM}{:016x}\"\n}}\n", fnv_1a(open.as_bytes()))
}

/// Parses a file and verifies its checksum.
fn opened<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let (open, rest) = text.rsplit_once(CHECKSUM).ok_or("it is incomplete")?;
    if rest != format!("{:016x}\"\n}}\n", fnv_1a(open.as_bytes())) {
        return Err("its checksum is wrong".into());
    }
    serde_json::from_str(&format!("{open}\n}}")).map_err(|error| error.to_string())
}

fn error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SweepError {
    let path = path.to_owned();
    move |source| SweepError::File { doing, path, source }
}
