//! Many simulations: a file that says which, cut into slices, each result in a file of its own.
//!
//! ```text
//!   FILE.toml --product of the axes--> points, in order     each named by a hash
//!      point 0   1   2   3   4   5 ...
//!      slice 0/3 1/3 2/3 0/3 1/3 2/3                        in any process, in any order, again
//!   DIR/HASH.json                                           one for each point that is done
//!   DIR/sweep.json                                          which points there are
//! ```
//!
//! A point is one simulation: its hash is over the resolved machine, the design, the workload and
//! its options, and the program that simulates. Nothing here knows a workload: whoever has them
//! runs the points, and gives the results back.
//!
//! Invariants:
//! - Equal points have equal files, to the last byte, whoever has made them and how often.
//! - A file that is there under its name is whole, but for damage; damage is seen by its checksum.

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

/// Most points of a sweep: more are a mistake in its file.
pub const POINTS_MAX: usize = 1 << 20;

/// The points of a file, in their order.
#[derive(Clone, Debug)]
pub struct Sweep {
    program: String,
    points: Vec<Point>,
}

impl Sweep {
    /// The sweep that a text in TOML describes; machines that are files lie in `directory`, unless
    /// their paths begin at the root. `program` says which program simulates: results of another
    /// one are others.
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
    /// What is wrong with the text, or with a machine.
    pub fn parse(text: &str, directory: &Path, program: &str) -> Result<Sweep, SweepError> {
        let asked = file::parse(text)?;
        Sweep::of(asked, directory, program)
    }

    /// What a text in TOML asks for, whether this program can simulate it or not.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn asked(text: &str) -> Result<Vec<Asked>, SweepError> {
        file::parse(text)
    }

    /// The sweep in a file; machines that are files lie beside it.
    ///
    /// # Errors
    /// It cannot be read; or as [`parse`](Sweep::parse), with the path.
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

    /// The sweep of these points. What is asked for twice is one point, at its first place.
    ///
    /// # Errors
    /// A point cannot be simulated.
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

    /// Which program simulates.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// All points.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Those of a slice: every n-th, so that slices take about as long as each other.
    pub fn slice(&self, slice: Slice) -> impl Iterator<Item = &Point> {
        self.points.iter().skip(slice.index).step_by(slice.of)
    }

    /// The point of this hash.
    ///
    /// # Errors
    /// [`SweepError::NoPoint`].
    pub fn point(&self, hash: &str) -> Result<&Point, SweepError> {
        let found = self.points.iter().find(|point| point.hash == hash);
        found.ok_or_else(|| SweepError::NoPoint { hash: hash.to_owned() })
    }
}

/// What differs between points, as `workload=tatp-hash design=lad mc.wq=8` for each: workload and
/// design always, anything else when it is not the same for all.
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

/// The keys whose values are not the same for all, in the order of [`Asked::pairs`].
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

/// Every `of`-th point, from the one with this index: `2/4`.
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
