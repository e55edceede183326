//! Errors of commands, one line each, and the verdict of their checks.

use std::io;
use std::path::PathBuf;

use lastword::{LostFile, LostName, Stop};
use medium::quoted;
use thiserror::Error;

/// The verdict of a command's checks. `exit` of `main.rs` selects the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Verdict {
    /// Everything that was checked holds.
    Held,
    /// Something was lost or is damaged.
    Failed,
}

impl Verdict {
    pub(crate) fn of(held: bool) -> Verdict {
        if held { Verdict::Held } else { Verdict::Failed }
    }
}

/// An error that kept a command from running.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Pool(lastword::Error),

    #[error(
        "{}: leave a pool's files in place until the command that uses it has ended",
        .0.iter().map(lost_name).collect::<Vec<_>>().join("; ")
    )]
    NamesLost(Vec<LostFile>),

    #[error(transparent)]
    Medium(#[from] medium::Error),

    #[error("{done}, but the report is lost: {source}")]
    Unreported { done: String, source: Box<Failure> },

    #[error(
        "standard output is closed, so all output would be lost: open it, or redirect it \
         to /dev/null"
    )]
    NoOutput,

    #[error(
        "cannot write an export to a terminal, because it is binary: redirect it, or name a file"
    )]
    BinaryOnTerminal,

    #[error("{path} exists already: export to another name, or remove it first")]
    ExportExists { path: PathBuf },

    #[error(
        "{path} has no collection {name:?}: `lastword pool info {}` lists its collections",
        quoted(path)
    )]
    NoCollection { path: PathBuf, name: String },

    #[error("{path} holds another program's data: choose another pool")]
    ForeignData { path: PathBuf },

    #[error("{path} holds workload {found}: run {found}, or choose another pool")]
    OtherWorkload { path: PathBuf, found: &'static str },

    #[error(
        "{workload} needs a heap of {needed} bytes at this scale: use `--bytes {needed}`, or \
         leave --bytes out"
    )]
    SmallHeap { workload: &'static str, needed: u64 },

    #[error(
        "{option} is not supported by workload `{workload}`: leave it out, or run a workload that \
         supports it"
    )]
    UnsupportedOption { workload: &'static str, option: &'static str },

    #[error("--readers {readers} exceeds --threads {threads}: raise --threads")]
    TooManyReaders { readers: usize, threads: usize },

    #[error("{path} exists, and `compare` creates fresh pools: choose another path")]
    NotFresh { path: PathBuf },

    #[error("{path} exists and was not created by the demo: move it away")]
    DemoInTheWay { path: PathBuf },

    #[error(
        "{path} holds no workload: load one, as in `lastword run bank --pool={}`",
        quoted(path)
    )]
    NoWorkload { path: PathBuf },

    #[error("`crash kill` does not support {option}: bound a round by --seconds")]
    NotForKills { option: &'static str },

    #[error("{design} has no pool: leave {option} out")]
    KeepsNothing { design: &'static str, option: &'static str },

    #[error(
        "a full shadow is as large as the heap: leave --shadow-bytes out, or use --shadow cow or \
             software"
    )]
    FullHasNoBound,

    #[error("{design} does not support {option}: leave it out, or run decoupled")]
    NoBound { design: &'static str, option: &'static str },

    #[error("`crash kill` does not support {option}: leave it out")]
    KillsNoBound { option: &'static str },

    #[error("compare needs two designs or more, as in `--designs volatile,decoupled`")]
    OneDesign,

    #[error(transparent)]
    Replica(#[from] replica::Error),

    #[error(transparent)]
    Paper(#[from] papers::Error),

    #[error(
        "the stack of {limit} bytes (`ulimit -s`) is too small, and a thread with a larger one \
         cannot be started: {source}; raise that limit or the one of processes (`ulimit -u`)"
    )]
    Stack { limit: u64, source: io::Error },

    #[error("the writer process exited before it was killed ({status})")]
    WriterEnded { status: std::process::ExitStatus },

    #[error(
        "no room for {bytes} bytes in {directory}: free some space, or choose another directory"
    )]
    NoRoom { bytes: u64, directory: PathBuf },

    #[error(
        "cannot write a file in {directory}: {source}; name a directory that exists and can be \
         written to, as in `--dir /tmp`"
    )]
    NoScratch { directory: PathBuf, source: io::Error },

    #[error(transparent)]
    Trace(crash::BadTrace),

    #[error(transparent)]
    Machine(#[from] sim::machine::named::DescribeError),

    #[error(transparent)]
    Simulation(#[from] sim::Error),

    #[error(transparent)]
    Sweep(#[from] sim::sweep::SweepError),

    #[error("machine {machine} has {has} cores, not {cores}: add `--set cores={cores}`")]
    TooManyCores { machine: String, has: usize, cores: usize },

    #[error(
        "{design} does not use {key}, which would change only the machine's hash: leave \
         it out, or run one of {others}"
    )]
    NotOfDesign { design: &'static str, key: String, others: String },

    #[error("this build has no mutants: build it with `--features mutants`")]
    NoMutants,

    #[error("no mutant `{name}`; there are: {known}")]
    UnknownMutant { name: String, known: String },

    #[error("{doing}: {source}")]
    Io { doing: &'static str, source: io::Error },

    #[error("cannot {doing} {path}: {source}")]
    File { doing: &'static str, path: PathBuf, source: io::Error },
}

/// The library's remedies hold while the process lives, and a command ends with the error.
impl From<lastword::Error> for Failure {
    fn from(error: lastword::Error) -> Failure {
        use lastword::Error::{Cut, NameLost};
        match error {
            NameLost { files, .. } => Failure::NamesLost(files),
            Cut { file, .. } => Failure::Pool(Cut { file, closed: true }),
            error => Failure::Pool(error),
        }
    }
}

/// Describes a file that lost its name, after the command's end.
fn lost_name(file: &LostFile) -> String {
    let path = file.path.display();
    match file.how {
        LostName::Replaced => format!(
            "{path} is another file: the pool's file was renamed while the pool was open, and can \
             be renamed back"
        ),
        LostName::Unlinked { .. } => format!(
            "{path} was removed or replaced while the pool was open, and its content is lost with \
             the end of this command"
        ),
    }
}

impl Failure {
    /// Adds to a failed print that the command's work is done, for `map_err`.
    pub(crate) fn after(done: impl Into<String>) -> impl FnOnce(Failure) -> Failure {
        let done = done.into();
        move |source| Failure::Unreported { done, source: Box::new(source) }
    }

    /// Wraps an I/O error, for `map_err`.
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Failure {
        move |source| Failure::Io { doing, source }
    }
}

/// Returns whether an error reports damage of the pool, not a failure to examine it.
pub(crate) fn is_damage(error: &lastword::Error) -> bool {
    use lastword::Error::{
        BadAreas, BadPointer, BadValue, Contradiction, DamagedHeap, DamagedLog, LogMissing, Medium,
        NotAPool, OnlyLog, Stopped, TooLong, Truncated, WrongLog,
    };
    match error {
        NotAPool { .. } | BadAreas { .. } => true,
        Contradiction { .. } | Truncated { .. } | TooLong { .. } => true,
        OnlyLog { .. } | LogMissing { .. } | WrongLog { .. } => true,
        DamagedLog { .. } | DamagedHeap { .. } | BadPointer { .. } | BadValue => true,
        // A workload's index leaves an array only if the length was changed.
        Stopped { stop: Stop::BadIndex } => true,
        Medium(error) => matches!(
            error,
            medium::Error::Truncated { .. }
                | medium::Error::DamagedPages { .. }
                | medium::Error::BadArea { .. }
                | medium::Error::OutOfHeap { .. }
                | medium::Error::TornBatch { .. }
        ),
        _ => false,
    }
}
