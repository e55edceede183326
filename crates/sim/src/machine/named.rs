//! Machines by name and by file, settings of single keys, and the canonical text of a machine.
//!
//! The canonical text lets a result identify its machine. A key is the path of a number, for
//! example `mc.wq`, `nvm.write_ns` or `design.lad.overflow`. The text has a line per key in
//! alphabetical order. It is TOML, so a machine can be parsed from it again:
//!
//! ```text
//!   clock_ghz = 2.0
//!   core.load_queue = 48
//!   ...
//! ```
//!
//! Invariants:
//! - Equal machines have equal texts, whatever program wrote them, and equal texts have equal
//!   hashes. The hash is 64-bit FNV-1a (Fowler, Noll, Vo) over the text's bytes.
//! - A file or a setting with a key that no built-in machine has is rejected with the key's name. A
//!   design's parameters are therefore exactly those in `crates/sim/machines/`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use thiserror::Error;
use toml::{Table, Value};

use super::description::Description;
use super::validate::Problem;

/// The built-in machines: names and files.
const BUILTIN: [(&str, &str); 6] = [
    ("lad", include_str!("../../machines/lad.toml")),
    ("redu", include_str!("../../machines/redu.toml")),
    ("ssp", include_str!("../../machines/ssp.toml")),
    ("tiny-lad", include_str!("../../machines/tiny-lad.toml")),
    ("tiny-redu", include_str!("../../machines/tiny-redu.toml")),
    ("tiny-ssp", include_str!("../../machines/tiny-ssp.toml")),
];

/// The built-in machines' names.
pub const NAMES: [&str; BUILTIN.len()] = {
    let mut names = [""; BUILTIN.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = BUILTIN[at].0;
        at += 1;
    }
    names
};

/// All parameters of designs, each with its value in the first built-in machine that has it.
static PARAMETERS: LazyLock<BTreeMap<String, BTreeMap<String, f64>>> = LazyLock::new(|| {
    let mut all: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
    for (_, text) in BUILTIN {
        let machine = read(text).expect("built-in machines are read in a test");
        for (design, parameters) in machine.design {
            let known = all.entry(design).or_default();
            parameters.into_iter().for_each(|(key, value)| {
                known.entry(key).or_insert(value);
            });
        }
    }
    all
});

/// The least similarity of a suggested key (1 for equal keys), and how much less similar than the
/// best suggestion another one may be.
const ALIKE: f64 = 0.65;
const ABOUT: f64 = 0.1;

/// The largest number of suggested keys.
const NEAR: usize = 3;

/// A reason why a machine or a setting is rejected.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DescribeError {
    /// No built-in machine and no file has this name.
    #[error("no machine `{name}`: there are {}, or the path of a file", NAMES.join(", "))]
    UnknownMachine {
        /// The name.
        name: String,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// A file contains an error.
    #[error("{}: {source}", path.display())]
    InFile {
        /// The file.
        path: PathBuf,
        /// The error.
        source: Box<DescribeError>,
    },
    /// A text is no valid description of a machine.
    #[error("line {line}: {problem}")]
    Text {
        /// The line, from 1.
        line: usize,
        /// The error in that line.
        problem: String,
    },
    /// A setting lacks its key or its value.
    #[error("setting `{text}` lacks a key or a value: write key=value, as in mc.wq=8")]
    NotASetting {
        /// The setting.
        text: String,
    },
    /// The key does not exist.
    #[error("no key `{key}`: there are {}{}", known.join(", "), meant(near))]
    UnknownKey {
        /// The key.
        key: String,
        /// The existing keys in the same part.
        known: Vec<String>,
        /// Suggestions: keys of similar spelling.
        near: Vec<String>,
    },
    /// The key's part is absent from this machine.
    #[error(
        "machine {machine} has no `{part}`, so no `{key}`: choose a machine that has one \
         ({others}), or write a file"
    )]
    NoSuchPart {
        /// The machine.
        machine: String,
        /// The key.
        key: String,
        /// The part.
        part: String,
        /// Built-in machines that have the part.
        others: String,
    },
    /// The value does not fit the key.
    #[error("{key} = {value}: it must be {expected}")]
    WrongType {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// The values that fit.
        expected: String,
    },
    /// The machine is inconsistent.
    #[error("{}", problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("; "))]
    Invalid {
        /// All problems.
        problems: Vec<Problem>,
    },
}

impl Description {
    /// Returns the built-in machine of this name, one of [`NAMES`].
    ///
    /// ```
    /// use sim::machine::description::Description;
    ///
    /// let mut machine = Description::builtin("lad")?;
    /// machine.set("mc.wq=8")?;
    /// machine.validate()?;
    /// assert_eq!((machine.mc.wq, machine.cycles(50.0)), (8, 100));
    /// # Ok::<(), sim::machine::named::DescribeError>(())
    /// ```
    ///
    /// # Errors
    /// [`DescribeError::UnknownMachine`].
    pub fn builtin(name: &str) -> Result<Description, DescribeError> {
        match BUILTIN.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Description::parse(text),
            None => Err(DescribeError::UnknownMachine { name: name.into() }),
        }
    }

    /// Parses a machine from TOML text.
    ///
    /// # Errors
    /// The first syntax error, or all problems of the machine.
    pub fn parse(text: &str) -> Result<Description, DescribeError> {
        let machine = read(text)?;
        for (design, parameters) in &machine.design {
            for key in parameters.keys() {
                known_parameter(&format!("design.{design}.{key}"))?;
            }
        }
        machine.validate()?;
        Ok(machine)
    }

    /// Reads a machine from a file.
    ///
    /// # Errors
    /// The file cannot be read; otherwise as [`parse`](Description::parse), with the path.
    pub fn from_file(path: &Path) -> Result<Description, DescribeError> {
        let path = || path.to_owned();
        let text = fs::read_to_string(path())
            .map_err(|source| DescribeError::File { path: path(), source })?;
        Description::parse(&text)
            .map_err(|source| DescribeError::InFile { path: path(), source: Box::new(source) })
    }

    /// Returns the built-in machine of this name, or else the machine in the file of this path.
    ///
    /// # Errors
    /// Neither exists, or the file is invalid.
    pub fn named(name: &str) -> Result<Description, DescribeError> {
        match Description::builtin(name) {
            Err(DescribeError::UnknownMachine { .. }) if is_path(name) => {
                Description::from_file(Path::new(name))
            }
            machine => machine,
        }
    }

    /// Sets one key: `mc.wq=8`, `nvm.write_ns=600`, or `design.lad.overflow=0.5`, for which
    /// `lad.overflow=0.5` is short. The result may be inconsistent until another setting follows;
    /// [`validate`](Description::validate) checks it.
    ///
    /// # Errors
    /// This machine has no such key, or the value does not fit. The machine is then unchanged.
    pub fn set(&mut self, setting: &str) -> Result<(), DescribeError> {
        let not_one = || DescribeError::NotASetting { text: setting.into() };
        let (key, text) = setting.split_once('=').ok_or_else(not_one)?;
        let (key, text) = (key.trim(), text.trim());
        if key.is_empty() || text.is_empty() {
            return Err(not_one());
        }
        let mut leaves = self.leaves();
        let (key, old) = match leaves.get(key) {
            Some(old) => (key.to_owned(), old.clone()),
            None => self.parameter_key(key, &leaves)?,
        };
        let value = value_like(&old, text).ok_or_else(|| wrong(&key, text, kind(&old)))?;
        leaves.insert(key.clone(), value);
        let table = unflattened(&leaves);
        *self = table.try_into().map_err(|error| wrong_as(&key, text, &error))?;
        Ok(())
    }

    /// Returns a design's parameter: this machine's, or else that of the first built-in machine
    /// with it.
    ///
    /// # Panics
    /// When no built-in machine has the parameter, which means that the caller has misspelt it.
    pub fn parameter(&self, design: &str, key: &str) -> f64 {
        #[cfg(test)]
        tests::ASKED.with_borrow_mut(|asked| asked.insert(format!("design.{design}.{key}")));
        let of = |all: &BTreeMap<String, BTreeMap<String, f64>>| all.get(design)?.get(key).copied();
        let value = of(&self.design).or_else(|| of(&PARAMETERS));
        value.unwrap_or_else(|| panic!("crates/sim/machines has design.{design}.{key}"))
    }

    /// Returns the canonical text: TOML with one line per key, in alphabetical order.
    ///
    /// # Panics
    /// When a number exceeds 2^63, which neither a file nor a setting can express.
    pub fn text(&self) -> String {
        let line = |(key, value): (String, Value)| format!("{key} = {}\n", show(&value));
        self.leaves().into_iter().map(line).collect()
    }

    /// Returns the hash of the canonical text as 16 hexadecimal digits.
    pub fn hash(&self) -> String {
        format!("{:016x}", fnv_1a(self.text().as_bytes()))
    }

    /// Converts nanoseconds into cycles of the cores' clock, rounded to the nearest.
    pub fn cycles(&self, ns: f64) -> u64 {
        (ns * self.clock_ghz).round() as u64
    }

    /// Returns every value by its key.
    fn leaves(&self) -> BTreeMap<String, Value> {
        let table = Table::try_from(self).expect("its numbers are below 2^63");
        let mut leaves = BTreeMap::new();
        flatten("", table, &mut leaves);
        leaves
    }

    /// Completes the key of a parameter that this machine need not contain. Returns the key and a
    /// value of its type.
    fn parameter_key(
        &self,
        key: &str,
        leaves: &BTreeMap<String, Value>,
    ) -> Result<(String, Value), DescribeError> {
        let whole = match key.strip_prefix("design.") {
            Some(_) => key.to_owned(),
            None => format!("design.{key}"),
        };
        match known_parameter(&whole) {
            Ok(()) => Ok((whole, Value::Float(0.0))),
            Err(error) if whole == key => Err(error),
            Err(_) => {
                let has_it = |it: &Description| it.leaves().contains_key(key);
                let others = NAMES
                    .iter()
                    .filter(|name| Description::builtin(name).is_ok_and(|it| has_it(&it)));
                let others: Vec<&str> = others.copied().collect();
                if let (Some((part, _)), false) = (key.split_once('.'), others.is_empty()) {
                    let (machine, part) = (self.name.clone(), part.to_owned());
                    let (key, others) = (key.to_owned(), others.join(", "));
                    return Err(DescribeError::NoSuchPart { machine, key, part, others });
                }
                let parameters = parameters();
                let short = parameters.iter().map(|it| it.trim_start_matches("design."));
                let own = leaves.keys().filter(|it| !it.starts_with("design."));
                let near = nearest(key, own.map(String::as_str).chain(short));
                let table = key.split_once('.').map(|(table, _)| table);
                let known = match table.is_some_and(|table| PARAMETERS.contains_key(table)) {
                    true => siblings(&whole, parameters.iter().map(String::as_str)),
                    false => siblings(key, leaves.keys().map(String::as_str)),
                };
                Err(DescribeError::UnknownKey { key: key.into(), known, near })
            }
        }
    }
}

/// Parses a machine without validation.
fn read(text: &str) -> Result<Description, DescribeError> {
    let at = |error: toml::de::Error| {
        let before = error.span().map_or("", |span| text.get(..span.start).unwrap_or_default());
        let line = 1 + before.matches('\n').count();
        DescribeError::Text { line, problem: error.message().to_owned() }
    };
    toml::from_str(text).map_err(at)
}

/// Returns whether a name is a file, or looks like a path.
fn is_path(name: &str) -> bool {
    let path = Path::new(name);
    path.exists() || path.components().count() > 1 || path.extension().is_some()
}

/// Returns the parameter of a design that a key refers to: `lad.overflow` for both `lad.overflow`
/// and `design.lad.overflow`.
pub fn parameter_of(key: &str) -> Option<&str> {
    let parameter = key.strip_prefix("design.").unwrap_or(key);
    // Not `known_parameter`: its error compares the key with all others, for suggestions.
    let is_known = |(design, own): (&String, &BTreeMap<String, f64>)| {
        let rest = parameter.strip_prefix(design.as_str());
        rest.and_then(|rest| rest.strip_prefix('.')).is_some_and(|key| own.contains_key(key))
    };
    PARAMETERS.iter().any(is_known).then_some(parameter)
}

/// Checks that a design has this parameter, given as `design.lad.overflow`.
fn known_parameter(key: &str) -> Result<(), DescribeError> {
    let all = parameters();
    if all.iter().any(|known| known == key) {
        return Ok(());
    }
    let all = || all.iter().map(String::as_str);
    let (known, near) = (siblings(key, all()), nearest(key, all()));
    Err(DescribeError::UnknownKey { key: key.into(), known, near })
}

/// Returns the full keys of all parameters.
fn parameters() -> Vec<String> {
    let of = |(design, parameters): (&String, &BTreeMap<String, f64>)| {
        parameters.keys().map(|key| format!("design.{design}.{key}")).collect::<Vec<_>>()
    };
    PARAMETERS.iter().flat_map(of).collect()
}

/// Returns the keys of the most similar spelling or of the same last part, at most [`NEAR`], best
/// first.
fn nearest<'a>(key: &str, all: impl Iterator<Item = &'a str>) -> Vec<String> {
    let last = |key: &str| key.rsplit('.').next().map(str::to_owned);
    let scored = all.map(|known| {
        let score = strsim::normalized_damerau_levenshtein(key, known);
        (if last(known) == last(key) { score.max(ALIKE) } else { score }, known)
    });
    let mut near: Vec<(f64, &str)> = scored.filter(|(score, _)| *score >= ALIKE).collect();
    near.sort_by(|one, other| other.0.total_cmp(&one.0));
    let far = near.first().map_or(0.0, |(best, _)| best - ABOUT);
    near.retain(|(score, _)| *score >= far);
    near.into_iter().map(|(_, known)| known.to_owned()).take(NEAR).collect()
}

/// Returns the suggestion at the end of an error message.
fn meant(near: &[String]) -> String {
    match near {
        [] => String::new(),
        near => format!("; do you mean `{}`?", near.join("` or `")),
    }
}

/// Returns the keys in the same part as this one, or the parts when its part does not exist.
fn siblings<'a>(key: &str, all: impl Iterator<Item = &'a str>) -> Vec<String> {
    let all: Vec<&str> = all.collect();
    let mut part = key;
    loop {
        let prefix = if part.is_empty() { String::new() } else { format!("{part}.") };
        // The rest is a key or a nested part.
        let within = all.iter().filter_map(|known| known.strip_prefix(&prefix)).map(|rest| {
            let more = rest.split_once('.').map(|(part, _)| format!("{part}.*"));
            format!("{prefix}{}", more.unwrap_or_else(|| rest.to_owned()))
        });
        let mut within: Vec<String> = within.collect();
        within.dedup();
        if !within.is_empty() || part.is_empty() {
            return within;
        }
        part = part.rsplit_once('.').map_or("", |(part, _)| part);
    }
}

fn flatten(prefix: &str, table: Table, leaves: &mut BTreeMap<String, Value>) {
    for (key, value) in table {
        match value {
            Value::Table(part) => flatten(&format!("{prefix}{key}."), part, leaves),
            value => drop(leaves.insert(format!("{prefix}{key}"), value)),
        }
    }
}

fn unflattened(leaves: &BTreeMap<String, Value>) -> Table {
    let mut whole = Table::new();
    for (key, value) in leaves {
        let mut part = &mut whole;
        let mut names = key.split('.').peekable();
        while let Some(name) = names.next() {
            if names.peek().is_none() {
                part.insert(name.to_owned(), value.clone());
                break;
            }
            let below = part.entry(name).or_insert_with(|| Value::Table(Table::new()));
            part = below.as_table_mut().expect("a key is never a part too");
        }
    }
    whole
}

/// Parses a value of the same type as the old one.
fn value_like(old: &Value, text: &str) -> Option<Value> {
    let parsed = format!("value = {text}").parse::<Table>().ok();
    let parsed = parsed.filter(|table| table.len() == 1).and_then(|mut all| all.remove("value"));
    match (old, parsed) {
        (Value::Float(_), Some(Value::Integer(number))) => Some(Value::Float(number as f64)),
        (Value::Float(_), Some(Value::Float(number))) if !number.is_finite() => None,
        // A word needs no quotes.
        (Value::String(_), Some(Value::String(text))) => Some(Value::String(text)),
        (Value::String(_), _) => Some(Value::String(text.to_owned())),
        (old, Some(value)) if old.same_type(&value) => Some(value),
        _ => None,
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) => "a whole number",
        Value::Float(_) => "a number",
        Value::Boolean(_) => "true or false",
        _ => "a word",
    }
}

fn wrong(key: &str, value: &str, expected: impl Into<String>) -> DescribeError {
    let (key, value) = (key.to_owned(), value.to_owned());
    DescribeError::WrongType { key, value, expected: expected.into() }
}

/// The error for a value of the right type that is out of range.
fn wrong_as(key: &str, value: &str, error: &toml::de::Error) -> DescribeError {
    let message = error.message();
    let expected = message.rsplit_once("expected ").map_or(message, |(_, expected)| expected);
    let in_words = match expected {
        "u32" => "a whole number from 0 to 2^32 - 1",
        "u64" | "usize" => "a whole number, not negative",
        expected => expected,
    };
    wrong(key, value, in_words)
}

/// Formats a value for the canonical text.
fn show(value: &Value) -> String {
    match value {
        // `{:?}` prints the shortest digits that parse to the same number.
        Value::Float(number) => format!("{number:?}"),
        value => value.to_string(),
    }
}

/// The 64-bit hash of Fowler, Noll and Vo.
pub(crate) fn fnv_1a(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests;
