//! Laps on disk, kept as they are done: an interrupted run goes on where it was, and a later one
//! shows what earlier ones have made.
//!
//! ```text
//!   DIR/laps.jsonl    {"program": ..., "machine": ...}           what made them
//!                     {"command": ..., "round": 0, "lap": {...}} one line for each
//! ```
//!
//! A line is written whole when its lap is done; of two for the same lap the later one counts. What
//! another build or another machine has made, or with another seed, is no part of these results: it
//! is moved to `laps.jsonl.old`, or with a number behind it.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::lap::Lap;
use crate::machine::Machine;
use crate::report;

/// Laps that were made one behind the other: when the first of them was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Together(u64);

impl Together {
    /// Those that are made from now on.
    pub(super) fn now() -> Together {
        Together(nanoseconds(SystemTime::now()))
    }
}

/// The first line of the file.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Maker {
    /// Length and time of the program's file: another build has others.
    program: (u64, u64),
    machine: String,
    cores: usize,
    seed: u64,
}

/// Another line.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Line {
    command: String,
    round: u64,
    together: Together,
    /// How long it took, loading included.
    seconds: f64,
    lap: Lap,
}

/// The laps of one directory, for nobody else at the time.
pub(super) struct Store {
    path: PathBuf,
    file: File,
    done: HashMap<(String, u64), Line>,
}

impl Store {
    /// Reads what is in a directory, and moves away what is not ours.
    ///
    /// # Errors
    /// What kept it from being read; [`Failure::LapsInUse`].
    pub(super) fn open(out: &Path, seed: u64) -> Result<Store, Failure> {
        let path = out.join("laps.jsonl");
        let Machine { cpu, cores } = Machine::this();
        let maker = Maker { program: program(), machine: cpu, cores, seed };
        let (mut file, mut text) = (locked(&path)?, String::new());
        file.read_to_string(&mut text).map_err(Failure::file("reading", &path))?;
        let mut lines = text.lines();
        let first = lines.next().and_then(|line| serde_json::from_str::<Maker>(line).ok());
        let is_ours = first.as_ref() == Some(&maker);
        if !is_ours && !text.is_empty() {
            fs::rename(&path, free(&path)).map_err(Failure::file("moving away", &path))?;
            file = locked(&path)?;
        }
        let mut store = Store { path, file, done: HashMap::new() };
        if is_ours {
            // A line that was cut short is a lap that was not done.
            let whole = lines.filter_map(|line| serde_json::from_str::<Line>(line).ok());
            store.done.extend(whole.map(|line| ((line.command.clone(), line.round), line)));
            if !text.ends_with('\n') {
                store.put("\n")?;
            }
        } else {
            store.line(&maker)?;
        }
        Ok(store)
    }

    /// The laps of these commands in a round, and how long each took, if all are there and were
    /// made one behind the other.
    pub(super) fn together(&self, commands: &[&str], round: u64) -> Option<Vec<(f64, Lap)>> {
        let of = |command: &&str| self.done.get(&((*command).to_owned(), round));
        let lines: Vec<&Line> = commands.iter().map(of).collect::<Option<_>>()?;
        let first = lines.first()?.together;
        let all = lines.iter().all(|line| line.together == first);
        all.then(|| lines.iter().map(|line| (line.seconds, line.lap)).collect())
    }

    /// Keeps a lap.
    ///
    /// # Errors
    /// What kept it from being written.
    pub(super) fn keep(
        &mut self,
        command: &str,
        round: u64,
        together: Together,
        (seconds, lap): (f64, Lap),
    ) -> Result<(), Failure> {
        let line = Line { command: command.to_owned(), round, together, seconds, lap };
        self.line(&line)?;
        self.done.insert((line.command.clone(), round), line);
        Ok(())
    }

    fn line(&mut self, line: &impl Serialize) -> Result<(), Failure> {
        let mut text = report::json::line(line);
        text.push('\n');
        self.put(&text)
    }

    fn put(&mut self, text: &str) -> Result<(), Failure> {
        self.file.write_all(text.as_bytes()).map_err(Failure::file("writing", &self.path))
    }
}

/// Opens what is read and added to, for nobody else at the time.
fn locked(path: &Path) -> Result<File, Failure> {
    let file = OpenOptions::new().create(true).read(true).append(true).open(path);
    let file = file.map_err(Failure::file("writing", path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Failure::LapsInUse { path: path.to_owned() }),
        Err(TryLockError::Error(error)) => Err(Failure::file("locking", path)(error)),
    }
}

/// A name for what is moved away, behind those that are taken.
fn free(path: &Path) -> PathBuf {
    let old = |number: u64| match number {
        0 => path.with_extension("jsonl.old"),
        number => path.with_extension(format!("jsonl.old{number}")),
    };
    (0..).map(old).find(|path| !path.exists()).expect("there are enough numbers")
}

/// Length of this program's file, and when it was written; where that cannot be told, what no other
/// run has.
fn program() -> (u64, u64) {
    let about = || {
        let about = std::env::current_exe().ok()?.metadata().ok()?;
        Some((about.len(), nanoseconds(about.modified().ok()?)))
    };
    about().unwrap_or_else(|| (0, nanoseconds(SystemTime::now())))
}

fn nanoseconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_at_a_time_writes_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        let first = Store::open(directory.path(), 1).unwrap();
        let second = Store::open(directory.path(), 1).err().unwrap().to_string();
        assert!(second.contains("another `lastword reproduce`"), "{second}");
        drop(first);
        Store::open(directory.path(), 1).unwrap();
    }
}
