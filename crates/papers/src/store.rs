//! Stored trials: an interrupted run resumes, and a later one shows the results of earlier ones.
//!
//! ```text
//!   DIR/trials.jsonl  {"program": ..., "machine": ...}               build, machine and seed
//!                     {"command": ..., "round": 0, "trial": {...}}   one line a trial
//! ```
//!
//! Invariants:
//! - A line is appended as a whole when its trial completes. A torn last line is a trial that did
//!   not.
//! - Of two lines for one trial the later one counts.
//! - All lines come from one build, machine and seed. A file of another one is renamed to
//!   `trials.jsonl.old`, with a number appended where that name is taken.
//! - One process at a time has the file open, by a lock on it.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::machine::Machine;
use crate::trial::Trial;

/// Identifies trials that ran in succession: the time when the first of them began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Together(u64);

impl Together {
    /// Returns the identifier of trials that begin at this time.
    pub(super) fn now() -> Together {
        Together(nanoseconds(SystemTime::now()))
    }
}

/// The first line of the file.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Maker {
    /// Length and modification time of the program's file, which differ between builds.
    program: (u64, u64),
    machine: String,
    cores: usize,
    seed: u64,
}

/// Any further line.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Line {
    command: String,
    round: u64,
    together: Together,
    /// Loading included.
    seconds: f64,
    trial: Trial,
}

/// The stored trials of one directory, locked against other processes.
pub(super) struct Store {
    path: PathBuf,
    file: File,
    done: HashMap<(String, u64), Line>,
}

impl Store {
    /// Opens the file of a directory, and moves one of another build away.
    ///
    /// # Errors
    /// [`Error::InUse`] if another process has it open; [`Error::File`].
    pub(super) fn open(out: &Path, seed: u64) -> Result<Store, Error> {
        let path = out.join("trials.jsonl");
        let Machine { cpu, cores } = Machine::this();
        let maker = Maker { program: program(), machine: cpu, cores, seed };
        let (mut file, mut text) = (locked(&path)?, String::new());
        file.read_to_string(&mut text).map_err(Error::file("reading", &path))?;
        let mut lines = text.lines();
        let first = lines.next().and_then(|line| serde_json::from_str::<Maker>(line).ok());
        let is_ours = first.as_ref() == Some(&maker);
        if !is_ours && !text.is_empty() {
            fs::rename(&path, free(&path)).map_err(Error::file("moving away", &path))?;
            file = locked(&path)?;
        }
        let mut store = Store { path, file, done: HashMap::new() };
        if is_ours {
            // A torn line is a trial that did not complete.
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

    /// Returns the trials of these commands in a round, each with its time, if all are stored and
    /// ran in succession.
    pub(super) fn together(&self, commands: &[&str], round: u64) -> Option<Vec<(f64, Trial)>> {
        let of = |command: &&str| self.done.get(&((*command).to_owned(), round));
        let lines: Vec<&Line> = commands.iter().map(of).collect::<Option<_>>()?;
        let first = lines.first()?.together;
        let all = lines.iter().all(|line| line.together == first);
        all.then(|| lines.iter().map(|line| (line.seconds, line.trial)).collect())
    }

    /// Stores a trial.
    ///
    /// # Errors
    /// The line cannot be written.
    pub(super) fn keep(
        &mut self,
        command: &str,
        round: u64,
        together: Together,
        (seconds, trial): (f64, Trial),
    ) -> Result<(), Error> {
        let line = Line { command: command.to_owned(), round, together, seconds, trial };
        self.line(&line)?;
        self.done.insert((line.command.clone(), round), line);
        Ok(())
    }

    fn line(&mut self, line: &impl Serialize) -> Result<(), Error> {
        let mut text = serde_json::to_string(line).expect("lines have plain keys");
        text.push('\n');
        self.put(&text)
    }

    fn put(&mut self, text: &str) -> Result<(), Error> {
        self.file.write_all(text.as_bytes()).map_err(Error::file("writing", &self.path))
    }
}

/// Opens a file for reading and appending, and locks it.
fn locked(path: &Path) -> Result<File, Error> {
    let file = OpenOptions::new().create(true).read(true).append(true).open(path);
    let file = file.map_err(Error::file("writing", path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::InUse { path: path.to_owned() }),
        Err(TryLockError::Error(error)) => Err(Error::file("locking", path)(error)),
    }
}

/// Returns the first free name for a file that is moved away.
fn free(path: &Path) -> PathBuf {
    let old = |number: u64| match number {
        0 => path.with_extension("jsonl.old"),
        number => path.with_extension(format!("jsonl.old{number}")),
    };
    (0..).map(old).find(|path| !path.exists()).expect("some number is free")
}

/// Returns the length and modification time of this program's file; where unknown, a value that no
/// other run has.
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
    fn store_is_locked_against_a_second_process() {
        let directory = tempfile::tempdir().unwrap();
        let first = Store::open(directory.path(), 1).unwrap();
        let second = Store::open(directory.path(), 1).err().unwrap().to_string();
        assert!(second.contains("another `lastword reproduce`"), "{second}");
        drop(first);
        Store::open(directory.path(), 1).unwrap();
    }
}
