//! Errors of a sweep and of its results.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::machine::named::DescribeError;

/// A reason why a sweep cannot run or its results cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SweepError {
    /// An I/O error.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        /// The operation.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// A sweep's file contains an error.
    #[error("{}: {source}", path.display())]
    InFile {
        /// The file.
        path: PathBuf,
        /// The error.
        source: Box<SweepError>,
    },
    /// The text is not valid TOML.
    #[error("line {line}: {problem}")]
    Text {
        /// The line, from 1.
        line: usize,
        /// The syntax error.
        problem: String,
    },
    /// The key does not exist.
    #[error("no key `{key}` in {place}: there are {known}")]
    UnknownKey {
        /// The table that has the key.
        place: String,
        /// The key.
        key: String,
        /// The existing keys.
        known: String,
    },
    /// The key is both fixed and an axis.
    #[error("`{key}` is in [base] and in [axes]: keep one of them")]
    Twice {
        /// The key.
        key: String,
    },
    /// The key is both a point's own and in `settings`.
    #[error("`{key}` is a key of its own and in `settings`: keep one of them")]
    InSettings {
        /// The key.
        key: String,
    },
    /// The value does not fit the key.
    #[error("{key} = {value} in {place}: it must be {expected}")]
    WrongType {
        /// The table that has the key.
        place: String,
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// The values that fit.
        expected: &'static str,
    },
    /// A list is empty, which would leave no points.
    #[error("`{key}` in {place} has no values")]
    NoValues {
        /// The table that has the key.
        place: String,
        /// The key.
        key: String,
    },
    /// A list has a value twice, and a point cannot be simulated twice.
    #[error("`{key}` in {place} has {value} twice: keep one of them")]
    Repeated {
        /// The table that has the key.
        place: String,
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
    /// A required key is missing.
    #[error("no `{key}`: put it into [base], or its values into [axes]")]
    Missing {
        /// The key.
        key: &'static str,
    },
    /// The file describes too many points.
    #[error("more than {} points: leave out some values", super::POINTS_MAX)]
    TooMany,
    /// The design does not exist.
    #[error("there is no design `{name}`; there are: {known}")]
    NoDesign {
        /// The name.
        name: String,
        /// The existing designs.
        known: String,
    },
    /// The machine has fewer cores.
    #[error("machine {machine} has {has} cores, not {cores}: add the setting cores = {cores}")]
    TooManyCores {
        /// The machine's name.
        machine: String,
        /// The machine's cores.
        has: usize,
        /// The requested cores.
        cores: usize,
    },
    /// The machine is invalid.
    #[error(transparent)]
    Description(#[from] DescribeError),
    /// The text is no slice.
    #[error("`{text}` is no slice: write I/N, as in 0/4 to 3/4")]
    NotASlice {
        /// The text.
        text: String,
    },
    /// The sweep has no such point.
    #[error("the sweep has no point {hash}: `--list` prints its points")]
    NoPoint {
        /// The requested hash.
        hash: String,
    },
    /// The directory has no valid list of a sweep.
    #[error("{}: {problem}; run the sweep with this directory as --out", path.display())]
    NoList {
        /// The list's file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
}
