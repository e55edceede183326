//! What can be wrong with a sweep and with its results.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::machine::describe::DescribeError;

/// Why a sweep cannot be run, or its results not be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SweepError {
    /// A file or a directory.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        /// What was to be done with it.
        doing: &'static str,
        /// Where it is.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A sweep's file with something wrong in it.
    #[error("{}: {source}", path.display())]
    InFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: Box<SweepError>,
    },
    /// A text that is no TOML.
    #[error("line {line}: {problem}")]
    Text {
        /// Its line, from 1.
        line: usize,
        /// What is wrong there.
        problem: String,
    },
    /// A key that there is not.
    #[error("no key `{key}` in {place}: there are {known}")]
    UnknownKey {
        /// Where it was found.
        place: String,
        /// The key.
        key: String,
        /// Those that there are.
        known: String,
    },
    /// A key that has one value and many.
    #[error("`{key}` is in [base] and in [axes]: keep one of them")]
    Twice {
        /// The key.
        key: String,
    },
    /// A key that points have, and that their settings have, too.
    #[error("`{key}` is a key of its own and in `settings`: keep one of them")]
    InSettings {
        /// The key.
        key: String,
    },
    /// A value that a key cannot have.
    #[error("{key} = {value} in {place}: it must be {expected}")]
    WrongType {
        /// Where it was found.
        place: String,
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What it can have.
        expected: &'static str,
    },
    /// A list without values leaves no points.
    #[error("`{key}` in {place} has no values")]
    NoValues {
        /// Where it was found.
        place: String,
        /// The key.
        key: String,
    },
    /// A list that has a value twice has no point for the second one.
    #[error("`{key}` in {place} has {value} twice: keep one of them")]
    Repeated {
        /// Where it was found.
        place: String,
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
    /// No point can do without.
    #[error("no `{key}`: put it into [base], or its values into [axes]")]
    Missing {
        /// The key.
        key: &'static str,
    },
    /// More points than anybody means.
    #[error("more than {} points: leave out some values", super::POINTS_MAX)]
    TooMany,
    /// There is no such design.
    #[error("there is no design `{name}`; there are: {known}")]
    NoDesign {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// More cores than the machine has.
    #[error("machine {machine} has {has} cores, not {cores}: add the setting cores = {cores}")]
    TooManyCores {
        /// Its name.
        machine: String,
        /// Its cores.
        has: usize,
        /// Those that were asked for.
        cores: usize,
    },
    /// The machine cannot be.
    #[error(transparent)]
    Description(#[from] DescribeError),
    /// Text that names no slice.
    #[error("`{text}` is no slice: write I/N, as in 0/4 to 3/4")]
    NotASlice {
        /// The text.
        text: String,
    },
    /// The sweep has no such point.
    #[error("the sweep has no point {hash}: `--list` says which it has")]
    NoPoint {
        /// What was asked for.
        hash: String,
    },
    /// A directory that no sweep has written to, or whose list is damaged.
    #[error("{}: {problem}; run the sweep with this directory as --out", path.display())]
    NoList {
        /// The list's file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}
