//! The data sets of ReDU's evaluation (section V), which set the writes of a transaction.

use std::fmt;
use std::str::FromStr;

use crate::options::Options;

/// The writes of a transaction of [`vector`](crate::Vector), [`swap`](crate::Swap) and similar
/// workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataSet {
    /// One object, written whole, in a slot beside the key.
    Large {
        /// Size of the object: a multiple of 1024 up to 16384.
        bytes: u64,
    },
    /// A word in each of several objects of 64 bytes.
    Random {
        /// Number of objects: 1 to 64.
        objects: u64,
    },
}

/// Size of a line, and of an object of which only a word is written.
pub(crate) const LINE_BYTES: u64 = 64;

/// Sizes of large objects: multiples of the least.
const LARGE_MIN: u64 = 1024;
const LARGE_MAX: u64 = 16384;

/// Most objects of which a transaction writes a word.
pub(crate) const OBJECTS_MAX: usize = 64;

impl DataSet {
    /// The data set without an option.
    pub const DEFAULT: DataSet = DataSet::Large { bytes: LARGE_MIN };

    /// Returns the data set of these options.
    pub(crate) fn of(options: &Options) -> DataSet {
        match options.data.unwrap_or(DataSet::DEFAULT) {
            DataSet::Large { bytes } => {
                let bytes = bytes.next_multiple_of(LARGE_MIN).clamp(LARGE_MIN, LARGE_MAX);
                DataSet::Large { bytes }
            }
            DataSet::Random { objects } => {
                DataSet::Random { objects: objects.clamp(1, OBJECTS_MAX as u64) }
            }
        }
    }

    /// Returns the lines of an object.
    pub(crate) fn lines(self) -> u64 {
        match self {
            DataSet::Large { bytes } => bytes / LINE_BYTES,
            DataSet::Random { .. } => 1,
        }
    }

    /// Returns the objects of a transaction.
    pub(crate) fn objects(self) -> u64 {
        match self {
            DataSet::Large { .. } => 1,
            DataSet::Random { objects } => objects,
        }
    }
}

impl fmt::Display for DataSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataSet::Large { bytes } => write!(f, "large:{bytes}"),
            DataSet::Random { objects } => write!(f, "random:{objects}"),
        }
    }
}

impl FromStr for DataSet {
    type Err = String;

    /// Parses `large:BYTES` or `random:OBJECTS`.
    fn from_str(text: &str) -> Result<DataSet, String> {
        let form = || format!("`{text}` is neither large:BYTES nor random:OBJECTS");
        let (kind, number) = text.split_once(':').ok_or_else(form)?;
        let number: u64 = number.parse().map_err(|_| form())?;
        let is_large = (LARGE_MIN..=LARGE_MAX).contains(&number);
        match kind {
            "large" if is_large && number.is_multiple_of(LARGE_MIN) => {
                Ok(DataSet::Large { bytes: number })
            }
            "large" => Err(format!(
                "`{text}`: bytes must be a multiple of {LARGE_MIN}, from {LARGE_MIN} to {LARGE_MAX}"
            )),
            "random" if (1..=OBJECTS_MAX as u64).contains(&number) => {
                Ok(DataSet::Random { objects: number })
            }
            "random" => Err(format!("`{text}`: objects must be from 1 to {OBJECTS_MAX}")),
            _ => Err(form()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_set_round_trips() {
        for text in ["large:1024", "large:16384", "random:4", "random:64"] {
            assert_eq!(text.parse::<DataSet>().unwrap().to_string(), text);
        }
        for wrong in
            ["large", "large:", "large:1000", "large:32768", "random:0", "random:65", "x:1"]
        {
            let said = wrong.parse::<DataSet>().unwrap_err();
            assert!(said.contains(&format!("`{wrong}`")), "{said}");
        }
    }
}
