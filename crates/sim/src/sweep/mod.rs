//! Sweeps: many simulations described by one file, cut into slices, with one result file per point.
//!
//! ```text
//!   FILE.toml --product of the axes--> points, in order     each named by a hash
//!      point 0   1   2   3   4   5 ...
//!      slice 0/3 1/3 2/3 0/3 1/3 2/3                        in any process, in any order, again
//!   DIR/HASH.json                                           one for each point that is done
//!   DIR/sweep.json                                          the list of points
//! ```
//!
//! A point is one simulation. Its hash covers the resolved machine, the design, the workload and
//! its options, and the simulating program. This module knows no workload: the caller runs the
//! points and passes the results back.
//!
//! Invariants:
//! - Equal points have equal result files, byte by byte, in every process and every repetition.
//! - A file under its final name is complete, unless it was damaged; its checksum detects damage.

mod error;
mod file;
mod point;
mod results;

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::str::FromStr;

pub use error::SweepError;
pub use point::{Asked, Point};
pub use results::{Found, List, Listed, Record, Results};

/// The largest number of points of a sweep; a larger number is a mistake in its file.
pub const POINTS_MAX: usize = 1 << 20;

/// The points of a sweep, in order.
#[derive(Clone, Debug)]
pub struct Sweep {
    program: String,
    points: Vec<Point>,
}

impl Sweep {
    /// Parses a sweep from TOML text. Relative paths of machine files start at `directory`.
    /// `program` identifies the simulating program, because results of another program count as
    /// different ones.
    ///
    /// ```
    /// use sim::sweep::Sweep;
    ///
    /// let text = r#"
    ///     [base]
    ///     workload = "tatp-hash"
    ///     cores = 4
    ///     [axes]
    ///     design = ["volatile", "sw-undo"]
    ///     "mc.wq" = [64, 8]
    /// "#;
    /// let sweep = Sweep::parse(text, ".".as_ref(), "1.0")?;
    /// let last = sweep.points().last().expect("there are four");
    /// assert_eq!((sweep.points().len(), last.setup.description.mc.wq), (4, 8));
    /// assert_eq!(last.setup.design, "sw-undo");
    /// # Ok::<(), sim::sweep::SweepError>(())
    /// ```
    ///
    /// # Errors
    /// The first error in the text or in a machine.
    pub fn parse(text: &str, directory: &Path, program: &str) -> Result<Sweep, SweepError> {
        let asked = file::parse(text)?;
        Sweep::of(asked, directory, program)
    }

    /// Parses the requested points, whether this program can simulate them or not.
    ///
    /// # Errors
    /// The first error in the text.
    pub fn asked(text: &str) -> Result<Vec<Asked>, SweepError> {
        file::parse(text)
    }

    /// Reads a sweep from a file; paths of machine files start at its directory.
    ///
    /// # Errors
    /// The file cannot be read; otherwise as [`parse`](Sweep::parse), with the path.
    pub fn from_file(path: &Path, program: &str) -> Result<Sweep, SweepError> {
        let text = fs::read_to_string(path).map_err(|source| SweepError::File {
            doing: "read",
            path: path.into(),
            source,
        })?;
        let directory = path.parent().unwrap_or(Path::new("."));
        Sweep::parse(&text, directory, program)
            .map_err(|source| SweepError::InFile { path: path.into(), source: Box::new(source) })
    }

    /// Resolves the requested points. Duplicates become one point, at the first place.
    ///
    /// # Errors
    /// The first point that cannot be simulated.
    pub fn of(asked: Vec<Asked>, directory: &Path, program: &str) -> Result<Sweep, SweepError> {
        let mut points = Vec::with_capacity(asked.len());
        let mut seen = HashSet::new();
        for asked in asked {
            let point = asked.resolve(directory, program)?;
            if seen.insert(point.hash.clone()) {
                points.push(point);
            }
        }
        Ok(Sweep { program: program.to_owned(), points })
    }

    /// Returns the identity of the simulating program.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Returns all points.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Returns the points of a slice: every n-th one, so that slices take similar time.
    pub fn slice(&self, slice: Slice) -> impl Iterator<Item = &Point> {
        self.points.iter().skip(slice.index).step_by(slice.of)
    }

    /// Returns the point of this hash.
    ///
    /// # Errors
    /// [`SweepError::NoPoint`].
    pub fn point(&self, hash: &str) -> Result<&Point, SweepError> {
        let found = self.points.iter().find(|point| point.hash == hash);
        found.ok_or_else(|| SweepError::NoPoint { hash: hash.to_owned() })
    }
}

/// Labels points by their differences, for example `workload=tatp-hash design=lad mc.wq=8`.
/// Workload and design are always included, and other keys when their values differ.
pub fn labels<'a>(all: impl Iterator<Item = &'a Asked> + Clone) -> Vec<String> {
    let keys = varying(all.clone());
    let label = |asked: &Asked| {
        let pairs = asked.pairs().into_iter();
        let shown = pairs.filter(|(key, _)| {
            matches!(key.as_str(), "workload" | "design") || keys.iter().any(|shown| shown == key)
        });
        shown.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    };
    all.map(label).collect()
}

/// Returns the keys with different values, in the order of [`Asked::pairs`].
pub fn varying<'a>(all: impl Iterator<Item = &'a Asked> + Clone) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for asked in all.clone() {
        for (key, _) in asked.pairs() {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    keys.retain(|key| {
        let mut values = all.clone().map(|asked| asked.value(key));
        let first = values.next();
        values.any(|value| Some(value) != first)
    });
    keys.sort_by_key(|key| (point::place(key), key.clone()));
    keys
}

/// Every `of`-th point, starting at an index: `2/4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    index: usize,
    of: usize,
}

impl Slice {
    /// All points.
    pub const ALL: Slice = Slice { index: 0, of: 1 };
}

impl FromStr for Slice {
    type Err = SweepError;

    fn from_str(text: &str) -> Result<Slice, SweepError> {
        let parsed = text.split_once('/').and_then(|(index, of)| {
            Some(Slice { index: index.parse().ok()?, of: of.parse().ok()? })
        });
        let fits = parsed.filter(|slice| slice.index < slice.of);
        fits.ok_or_else(|| SweepError::NotASlice { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests;
