//! Machines by name and by file, changed key by key, and written down so that a result can say what
//! it was simulated on.
//!
//! A key is the path of a number: `mc.wq`, `nvm.write_ns`, `design.lad.overflow`. The canonical
//! text has a line for each, in alphabetical order; it is TOML, so a machine can be read from it
//! again:
//!
//! ```text
//!   clock_ghz = 2.0
//!   core.load_queue = 48
//!   ...
//! ```
//!
//! Invariants:
//! - Equal machines have equal texts, and equal texts equal hashes, whatever program made them: the
//!   hash is FNV-1a of 64 bits (Fowler, Noll, Vo) over the text's bytes.
//! - A key that no built-in machine has, in its file or in a setting, is refused by name. So a
//!   design's parameters are those that `crates/sim/machines/` names.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use thiserror::Error;
use toml::{Table, Value};

use super::description::Description;
use super::validate::Problem;

/// The built-in machines: their names and their files.
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

/// What designs can be told: of each parameter the value in the first built-in machine that has it.
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

/// How alike two keys are of which one may be meant by the other (1: they are equal), and by how
/// much less alike than the nearest one others may be.
const ALIKE: f64 = 0.65;
const ABOUT: f64 = 0.1;

/// Keys that are named of those that may be meant.
const NEAR: usize = 3;

/// Why there is no such machine.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DescribeError {
    /// No built-in machine has this name, and no file.
    #[error("no machine `{name}`: there are {}, or the path of a file", NAMES.join(", "))]
    UnknownMachine {
        /// The name.
        name: String,
    },
    /// A file that cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file with something wrong in it.
    #[error("{}: {source}", path.display())]
    InFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: Box<DescribeError>,
    },
    /// A text that describes no machine.
    #[error("line {line}: {problem}")]
    Text {
        /// Its line, from 1.
        line: usize,
        /// What is wrong there.
        problem: String,
    },
    /// A setting without a key or a value.
    #[error("`{text}` sets nothing: write key=value, as in mc.wq=8")]
    NotASetting {
        /// The setting.
        text: String,
    },
    /// A key that there is not.
    #[error("no key `{key}`: there are {}{}", known.join(", "), meant(near))]
    UnknownKey {
        /// The key.
        key: String,
        /// Those that there are beside it.
        known: Vec<String>,
        /// Those that are spelt much as it is.
        near: Vec<String>,
    },
    /// A key of a part that this machine does not have.
    #[error(
        "machine {machine} has no `{part}`, so no `{key}`: take a machine that has one ({others}), \
         or write a file"
    )]
    NoSuchPart {
        /// The machine.
        machine: String,
        /// The key.
        key: String,
        /// The part.
        part: String,
        /// Built-in machines that have it.
        others: String,
    },
    /// A value that a key cannot have.
    #[error("{key} = {value}: it must be {expected}")]
    WrongType {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What it can have.
        expected: String,
    },
    /// A machine that cannot be.
    #[error("{}", problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("; "))]
    Invalid {
        /// All that is wrong with it.
        problems: Vec<Problem>,
    },
}

impl Description {
    /// The built-in machine of this name, one of [`NAMES`].
    ///
    /// ```
    /// use sim::machine::description::Description;
    ///
    /// let mut machine = Description::builtin("lad")?;
    /// machine.set("mc.wq=8")?;
    /// machine.validate()?;
    /// assert_eq!((machine.mc.wq, machine.cycles(50.0)), (8, 100));
    /// # Ok::<(), sim::machine::describe::DescribeError>(())
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

    /// The machine that a text in TOML describes.
    ///
    /// # Errors
    /// What is wrong with the text, or with the machine.
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

    /// The machine that a file describes.
    ///
    /// # Errors
    /// It cannot be read; or as [`parse`](Description::parse), with the path.
    pub fn from_file(path: &Path) -> Result<Description, DescribeError> {
        let path = || path.to_owned();
        let text = fs::read_to_string(path())
            .map_err(|source| DescribeError::File { path: path(), source })?;
        Description::parse(&text)
            .map_err(|source| DescribeError::InFile { path: path(), source: Box::new(source) })
    }

    /// The built-in machine of this name; else the one in the file of this path.
    ///
    /// # Errors
    /// Neither is there, or the file has something wrong in it.
    pub fn named(name: &str) -> Result<Description, DescribeError> {
        match Description::builtin(name) {
            Err(DescribeError::UnknownMachine { .. }) if is_path(name) => {
                Description::from_file(Path::new(name))
            }
            machine => machine,
        }
    }

    /// Changes one number: `mc.wq=8`, `nvm.write_ns=600`, `design.lad.overflow=0.5`, which may be
    /// written `lad.overflow=0.5` too. The machine may be one that cannot be until another setting
    /// follows: [`validate`](Description::validate) looks.
    ///
    /// # Errors
    /// No such key in this machine, or not such a value. The machine is as it was.
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

    /// A design's parameter: this machine's, else that of the first built-in machine that has it.
    ///
    /// # Panics
    /// When no built-in machine has it: whoever asks has misspelt it.
    pub fn parameter(&self, design: &str, key: &str) -> f64 {
        #[cfg(test)]
        tests::ASKED.with_borrow_mut(|asked| asked.insert(format!("design.{design}.{key}")));
        let of = |all: &BTreeMap<String, BTreeMap<String, f64>>| all.get(design)?.get(key).copied();
        let value = of(&self.design).or_else(|| of(&PARAMETERS));
        value.unwrap_or_else(|| panic!("crates/sim/machines has design.{design}.{key}"))
    }

    /// The machine in its canonical text: a line for each key, in alphabetical order, as TOML.
    ///
    /// # Panics
    /// When a number is above 2^63, which no file and no setting can say.
    pub fn text(&self) -> String {
        let line = |(key, value): (String, Value)| format!("{key} = {}\n", show(&value));
        self.leaves().into_iter().map(line).collect()
    }

    /// The hash of the canonical text: 16 hexadecimal digits.
    pub fn hash(&self) -> String {
        format!("{:016x}", fnv_1a(self.text().as_bytes()))
    }

    /// Cycles of the cores' clock, the nearest whole number of them.
    pub fn cycles(&self, ns: f64) -> u64 {
        (ns * self.clock_ghz).round() as u64
    }

    /// Every number, by its key.
    fn leaves(&self) -> BTreeMap<String, Value> {
        let table = Table::try_from(self).expect("its numbers are below 2^63");
        let mut leaves = BTreeMap::new();
        flatten("", table, &mut leaves);
        leaves
    }

    /// The whole key of a parameter that this machine need not name, and a value like its own.
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

/// A machine from its text, whatever its numbers are.
fn read(text: &str) -> Result<Description, DescribeError> {
    let at = |error: toml::de::Error| {
        let before = error.span().map_or("", |span| text.get(..span.start).unwrap_or_default());
        let line = 1 + before.matches('\n').count();
        DescribeError::Text { line, problem: error.message().to_owned() }
    };
    toml::from_str(text).map_err(at)
}

/// Whether there is a file, or somebody means one.
fn is_path(name: &str) -> bool {
    let path = Path::new(name);
    path.exists() || path.components().count() > 1 || path.extension().is_some()
}

/// The parameter of a design that a key means, if it means one: `lad.overflow` of both
/// `lad.overflow` and `design.lad.overflow`.
pub fn parameter_of(key: &str) -> Option<&str> {
    let parameter = key.strip_prefix("design.").unwrap_or(key);
    known_parameter(&format!("design.{parameter}")).is_ok().then_some(parameter)
}

/// Whether a design has this parameter: `design.lad.overflow`.
fn known_parameter(key: &str) -> Result<(), DescribeError> {
    let all = parameters();
    if all.iter().any(|known| known == key) {
        return Ok(());
    }
    let all = || all.iter().map(String::as_str);
    let (known, near) = (siblings(key, all()), nearest(key, all()));
    Err(DescribeError::UnknownKey { key: key.into(), known, near })
}

/// The whole keys of all parameters.
fn parameters() -> Vec<String> {
    let of = |(design, parameters): (&String, &BTreeMap<String, f64>)| {
        parameters.keys().map(|key| format!("design.{design}.{key}")).collect::<Vec<_>>()
    };
    PARAMETERS.iter().flat_map(of).collect()
}

/// The keys that are spelt most as this one, or that end as it does: some at most, the nearest
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

/// What an error says of the keys that may be meant.
fn meant(near: &[String]) -> String {
    match near {
        [] => String::new(),
        near => format!("; do you mean `{}`?", near.join("` or `")),
    }
}

/// The keys in the same part as this one; when there is no such part, the parts.
fn siblings<'a>(key: &str, all: impl Iterator<Item = &'a str>) -> Vec<String> {
    let all: Vec<&str> = all.collect();
    let mut part = key;
    loop {
        let prefix = if part.is_empty() { String::new() } else { format!("{part}.") };
        // What follows the part: a key, or a part in it.
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
            part = below.as_table_mut().expect("a key is not a part, too");
        }
    }
    whole
}

/// The value that a text says, if it is of the same kind as the one before.
fn value_like(old: &Value, text: &str) -> Option<Value> {
    let parsed = format!("value = {text}").parse::<Table>().ok();
    let parsed = parsed.filter(|table| table.len() == 1).and_then(|mut all| all.remove("value"));
    match (old, parsed) {
        (Value::Float(_), Some(Value::Integer(number))) => Some(Value::Float(number as f64)),
        (Value::Float(_), Some(Value::Float(number))) if !number.is_finite() => None,
        // Words need no quotes.
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

/// A value of the right kind that does not fit.
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

/// A value as the canonical text has it.
fn show(value: &Value) -> String {
    match value {
        // The shortest digits that give the same number again.
        Value::Float(number) => format!("{number:?}"),
        value => value.to_string(),
    }
}

/// The hash of Fowler, Noll and Vo, of 64 bits.
pub(crate) fn fnv_1a(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests;
