//! `--kill`: a run in a process of its own, which ends by SIGKILL instead of a close.
//!
//! ```text
//!   parent   spawn ------------------ read results, 1 s, kill | open: recovery, check
//!   child         load | timed part | results to stdout | workers go on ...
//! ```
//!
//! The kernel's page cache outlives the process, as it would not outlive a power failure.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use super::Setup;
use super::run::{self, Timed};
use super::store::{System, with_store};
use crate::failure::Failure;

/// How long the workers go on after the timed part, before the process is killed.
const GO_ON: Duration = Duration::from_secs(1);

/// Name of the hidden command that the child runs.
const COMMAND: &str = "heap-child";

/// Arguments of the hidden command.
#[derive(Debug, clap::Args)]
pub(crate) struct ChildOptions {
    /// The run, as the parent has written it.
    job: String,
}

/// The run that a child makes.
#[derive(Debug, Serialize, Deserialize)]
struct Job {
    system: System,
    dir: PathBuf,
    setup: Setup,
}

/// Makes a run in a child, kills it, and returns the results of its timed part.
pub(crate) fn killed(system: System, dir: &Path, setup: &Setup) -> Result<Timed, Failure> {
    let job = Job { system, dir: dir.to_owned(), setup: setup.clone() };
    let job = serde_json::to_string(&job)?;
    let program = std::env::current_exe().map_err(Failure::io("finding this program"))?;
    let mut command = Command::new(program);
    command.arg(COMMAND).arg(job).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(Failure::io("starting a child"))?;
    let results = results(&mut child);
    if results.is_ok() {
        std::thread::sleep(GO_ON);
    }
    // `kill` fails if the child has ended, and so the status has no signal.
    let _ = child.kill();
    let status = child.wait().map_err(Failure::io("waiting for a child"))?;
    let results = results?;
    if status.signal() != Some(Signal::KILL.as_raw()) {
        return Err(Failure::Child { what: format!("it ended before it was killed: {status}") });
    }
    Ok(results)
}

/// Reads the results that a child writes after its timed part.
fn results(child: &mut Child) -> Result<Timed, Failure> {
    let Some(stdout) = child.stdout.take() else {
        return Err(Failure::Child { what: "it has no standard output".into() });
    };
    let mut line = String::new();
    BufReader::new(stdout)
        .read_line(&mut line)
        .map_err(Failure::io("reading a child's results"))?;
    if line.is_empty() {
        return Err(Failure::Child { what: "it ended without results".into() });
    }
    serde_json::from_str(&line).map_err(|error| Failure::Child { what: error.to_string() })
}

/// The hidden command: makes the run, writes its results, and lets the workers go on.
pub(crate) fn child(options: &ChildOptions) -> Result<(), Failure> {
    // A parent that ends otherwise would leave a child without an end.
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| Failure::Child { what: error.to_string() })?;
    let parsed = serde_json::from_str(&options.job);
    let Job { system, dir, setup } =
        parsed.map_err(|error| Failure::Child { what: format!("its argument: {error}") })?;
    let report = |timed: &Timed| -> Result<(), Failure> {
        let mut line = serde_json::to_vec(timed)?;
        line.push(b'\n');
        let mut stdout = std::io::stdout().lock();
        let written = stdout.write_all(&line).and_then(|()| stdout.flush());
        written.map_err(Failure::io("writing a child's results"))
    };
    with_store!(system, S => run::endless::<S>(&dir, &setup, report)).map(|never| match never {})
}
