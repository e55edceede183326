//! What came of points: a directory with a file for each.
//!
//! ```text
//!   DIR/sweep.json    {"format": 1, "program": ...,
//!                      "points": [{"point": HASH, "asked": ...}, ...], "checksum": ...}
//!   DIR/HASH.json     {"format": 1, "point": HASH, "program": ..., "transactions": ..., "scale":
//!                      ..., "check": ..., "power_cuts": ..., "outcome": {...}, "checksum": ...}
//!   DIR/.NAME.*.tmp   what somebody is writing, or was killed while writing
//! ```
//!
//! The checksum, FNV-1a of 64 bits, is over all bytes before its line. A file gets its name when
//! all of it is durable, so that it is there whole or not at all, and stays.
//!
//! Invariants:
//! - A point's file follows from the point alone: what this host is, and how long it took, is no
//!   part of it.

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
use crate::machine::describe::fnv_1a;
use crate::report::Outcome;

/// Of the files.
const FORMAT: u32 = 1;

/// What is before the checksum, on its line.
const CHECKSUM: &str = ",\n  \"checksum\": \"";

/// A point that was simulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    format: u32,
    /// The point's hash.
    pub point: String,
    /// The program that simulated it.
    pub program: String,
    /// Transactions that were to be measured, at least.
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
    /// Whether it was checked.
    pub check: bool,
    /// How often power was cut.
    pub power_cuts: u64,
    /// What was found, without the time that it took.
    pub outcome: Outcome,
}

impl Record {
    /// What was found of a point.
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

    /// Whether this is about that point, whatever its hash is.
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
    /// In their order.
    pub points: Vec<Listed>,
}

/// A point in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Listed {
    /// Its hash.
    pub point: String,
    /// What was asked for.
    pub asked: Asked,
}

/// What there is of a point.
#[derive(Clone, Debug)]
pub enum Found {
    /// Nothing.
    Missing,
    /// A file that is not what was written, or cannot be read, and why.
    Damaged(String),
    /// Its result.
    Whole(Box<Record>),
}

/// A directory of results.
#[derive(Clone, Debug)]
pub struct Results {
    directory: PathBuf,
}

impl Results {
    /// The directory, made if it is not there.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(directory: &Path) -> Result<Results, SweepError> {
        fs::create_dir_all(directory).map_err(error("make", directory))?;
        Ok(Results::at(directory))
    }

    /// A directory that is there.
    pub fn at(directory: &Path) -> Results {
        Results { directory: directory.to_owned() }
    }

    /// Writes which points there are; of two sweeps in one directory the later one counts. Durable
    /// on return.
    ///
    /// # Errors
    /// It cannot be written.
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

    /// Which points there are.
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

    /// Writes what was found of a point. Durable on return.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn put_record(&self, record: &Record) -> Result<(), SweepError> {
        self.put(&record.point, &sealed(record))
    }

    /// What there is of a point.
    pub fn record(&self, point: &Point) -> Found {
        match self.record_of(&point.hash) {
            Found::Whole(record) if !record.is_of(point) => {
                Found::Damaged("it is of another point".into())
            }
            found => found,
        }
    }

    /// What there is of a point that only its list knows.
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

    /// Gives a text its name when all of it is durable; the name is durable, too, on return.
    fn put(&self, name: &str, text: &str) -> Result<(), SweepError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let path = self.path(name);
        // Relaxed: only that no two of them are equal counts.
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
            // It has no name yet that anybody looks for.
            let _ = fs::remove_file(&temporary);
            error("write", &path)(source)
        })
    }
}

/// This machine among those that may write to the same directory.
fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().chars().filter(char::is_ascii_alphanumeric).collect()
}

/// An object with its checksum.
fn sealed(value: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(value).expect("it has plain keys");
    let open = text.strip_suffix("\n}").expect("it is an object with keys");
    format!("{open}{CHECKSUM}{:016x}\"\n}}\n", fnv_1a(open.as_bytes()))
}

/// What is in a file, if it is what was written.
fn opened<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let (open, rest) = text.rsplit_once(CHECKSUM).ok_or("it is not whole")?;
    if rest != format!("{:016x}\"\n}}\n", fnv_1a(open.as_bytes())) {
        return Err("its checksum is wrong".into());
    }
    serde_json::from_str(&format!("{open}\n}}")).map_err(|error| error.to_string())
}

fn error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SweepError {
    let path = path.to_owned();
    move |source| SweepError::File { doing, path, source }
}
