//! The file format of a sweep.
//!
//! ```toml
//! [base]                              # keys of all points
//! workload = "cq"                     # workload and design are required, here or below
//! transactions = 10000                # of these keys: machine, cores, transactions, seed, scale,
//! mc.write_age_ns = 500               # data, update_percent, zipf, shared, check, power_cuts; and
//!                                     # any of the machine
//! settings = { "mc.wq" = 64 }         # the same, for keys that could be mistaken for others
//!
//! [axes]                              # lists: a point for each of their combinations
//! design = ["volatile", "lad"]
//! "mc.wq" = [64, 32, 16, 8]
//! settings = [{}, { "nvm.read_miss_ns" = 60, "nvm.write_ns" = 150 }]    # keys that vary together
//!
//! [[points]]                          # groups: all combinations again, with the group's keys in
//! workload = ["tatp-hash", "cq"]      # place of those of [base] and [axes]
//!
//! [[points]]
//! workload = "tpcc-hash"
//! transactions = 2000
//! ```
//!
//! Points are ordered by group. Within a group, keys vary in the order `workload`, `design`,
//! `machine`, `cores`, `transactions`, `seed`, `scale`, `data`, `update_percent`, `zipf`, `shared`,
//! `check`, `power_cuts`, `settings`, then the machine's keys by name; the last key varies fastest.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::POINTS_MAX;
use super::error::SweepError;
use super::point::{Asked, KEYS, place};

/// Keys of machines without a dot.
const PLAIN: [&str; 2] = ["clock_ghz", "name"];

/// Values by key, in the order in which keys vary.
type Axes = BTreeMap<(usize, String), Vec<Value>>;

/// Parses the points of a sweep.
pub(super) fn parse(text: &str) -> Result<Vec<Asked>, SweepError> {
    let file: Table = text.parse().map_err(|error| bad_text(text, &error))?;
    let (mut base, mut axes, mut groups) = (Axes::new(), Axes::new(), Vec::new());
    for (key, value) in file {
        match (key.as_str(), value) {
            ("base", Value::Table(table)) => base = values(table, "[base]", Kind::One)?,
            ("axes", Value::Table(table)) => axes = values(table, "[axes]", Kind::Many)?,
            ("points", Value::Array(tables)) => {
                for (table, number) in tables.into_iter().zip(1..) {
                    groups.push(group(table, &format!("[[points]] {number}"))?);
                }
            }
            ("base" | "axes", value) => return Err(wrong("the file", &key, &value, "a table")),
            ("points", value) => {
                return Err(wrong("the file", &key, &value, "tables, each [[points]]"));
            }
            _ => {
                let known = "[base], [axes], [[points]]".to_owned();
                return Err(SweepError::UnknownKey { place: "the file".into(), key, known });
            }
        }
    }
    if let Some((_, key)) = axes.keys().find(|key| base.contains_key(key)) {
        return Err(SweepError::Twice { key: key.clone() });
    }
    base.append(&mut axes);
    if groups.is_empty() {
        groups.push(Axes::new());
    }
    let mut points = Vec::new();
    for mut group in groups {
        let mut whole = base.clone();
        whole.append(&mut group);
        combine(&whole, &mut points)?;
    }
    Ok(points)
}

fn group(group: Value, place: &str) -> Result<Axes, SweepError> {
    match group {
        Value::Table(table) => values(table, place, Kind::Either),
        value => Err(wrong("the file", "points", &value, "tables, each [[points]]")),
    }
}

/// The form of a table's values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    One,
    Many,
    Either,
}

/// Checks a table's values, and returns them as a list per key.
fn values(table: Table, at: &str, kind: Kind) -> Result<Axes, SweepError> {
    let mut flat = Vec::new();
    flatten("", table, &mut flat);
    let mut axes = Axes::new();
    for (key, value) in flat {
        if !KEYS.contains(&key.as_str()) && !PLAIN.contains(&key.as_str()) && !key.contains('.') {
            let known = format!("{}, and keys of a machine, as in mc.wq", KEYS.join(", "));
            return Err(SweepError::UnknownKey { place: at.to_owned(), key, known });
        }
        let values = match value {
            Value::Array(values) if kind != Kind::One => values,
            value if kind != Kind::Many => vec![value],
            value => return Err(wrong(at, &key, &value, "a list")),
        };
        if values.is_empty() {
            return Err(SweepError::NoValues { place: at.to_owned(), key });
        }
        for (value, before) in values.iter().zip(0..) {
            check(at, &key, value)?;
            if values[..before].contains(value) {
                let (place, value) = (at.to_owned(), value.to_string());
                return Err(SweepError::Repeated { place, key, value });
            }
        }
        axes.insert((place(&key), key), values);
    }
    Ok(axes)
}

/// Flattens nested tables into dotted keys; settings stay tables.
fn flatten(prefix: &str, table: Table, flat: &mut Vec<(String, Value)>) {
    for (key, value) in table {
        let key = format!("{prefix}{key}");
        match value {
            Value::Table(part) if key != "settings" => flatten(&format!("{key}."), part, flat),
            value => flat.push((key, value)),
        }
    }
}

/// Checks whether a value fits its key.
fn check(at: &str, key: &str, value: &Value) -> Result<(), SweepError> {
    let (holds, expected) = match key {
        "workload" | "design" | "machine" | "data" => (value.is_str(), "a name in quotes"),
        "cores" | "transactions" => {
            (value.as_integer().is_some_and(|n| n > 0), "a whole number, at least 1")
        }
        "seed" | "power_cuts" => {
            (value.as_integer().is_some_and(|n| n >= 0), "a whole number, not negative")
        }
        "scale" => {
            let fits = number(value).is_some_and(|n| n > 0.0 && n <= 1e9);
            (fits, "a number above 0 and at most 10^9")
        }
        "update_percent" => {
            let fits = value.as_integer().is_some_and(|n| (0..=100).contains(&n));
            (fits, "a whole number, at most 100")
        }
        "zipf" => {
            let fits = number(value).is_some_and(|n| (0.0..=10.0).contains(&n));
            (fits, "a number from 0 to 10")
        }
        "shared" | "check" => (value.is_bool(), "true or false"),
        "settings" => (value.is_table(), "a table of keys of a machine, as in { \"mc.wq\" = 8 }"),
        _ => {
            let is_one = !matches!(value, Value::Array(_) | Value::Table(_) | Value::Datetime(_));
            (is_one, "a number, true, false or a word")
        }
    };
    if holds { Ok(()) } else { Err(wrong(at, key, value, expected)) }
}

/// Appends a point for each combination. The last key varies fastest.
fn combine(axes: &Axes, points: &mut Vec<Asked>) -> Result<(), SweepError> {
    for key in ["workload", "design"] {
        if !axes.contains_key(&(place(key), key.to_owned())) {
            return Err(SweepError::Missing { key });
        }
    }
    if let Some(key) = set_twice(axes) {
        return Err(SweepError::InSettings { key });
    }
    let count = axes.values().try_fold(1_usize, |count, values| count.checked_mul(values.len()));
    let total = count.and_then(|count| count.checked_add(points.len()));
    let count = total.filter(|total| *total <= POINTS_MAX).and(count);
    for at in 0..count.ok_or(SweepError::TooMany)? {
        let mut asked = Asked::new("", "");
        let mut rest = at;
        // The last key is the lowest digit of the number. Settings come first, so that other keys
        // override them.
        let mut chosen: Vec<(&str, &Value)> = Vec::new();
        for ((_, key), values) in axes.iter().rev() {
            chosen.push((key, &values[rest % values.len()]));
            rest /= values.len();
        }
        chosen.into_iter().rev().for_each(|(key, value)| put(&mut asked, key, value));
        points.push(asked);
    }
    Ok(())
}

/// Returns a machine's key that is both a point's own and in its `settings`. (`cores` is not
/// checked: for a point it is the number of cores that run.)
fn set_twice(axes: &Axes) -> Option<String> {
    let settings = axes.iter().filter(|((_, key), _)| key == "settings");
    let mut flat = Vec::new();
    for table in settings.flat_map(|(_, values)| values).filter_map(Value::as_table) {
        flatten("", table.clone(), &mut flat);
    }
    let keys = flat.into_iter().map(|(key, _)| key);
    let mut keys = keys.filter(|key| !KEYS.contains(&key.as_str()));
    keys.find(|key| axes.contains_key(&(place(key), key.clone())))
}

/// Sets one key to a checked value.
fn put(asked: &mut Asked, key: &str, value: &Value) {
    let count = || value.as_integer().map_or(1, i64::unsigned_abs);
    match key {
        "workload" => asked.workload = word(value),
        "design" => asked.design = word(value),
        "machine" => asked.machine = Some(word(value)),
        "cores" => asked.cores = Some(usize::try_from(count()).unwrap_or(usize::MAX)),
        "transactions" => asked.transactions = count(),
        "seed" => asked.seed = count(),
        "power_cuts" => asked.power_cuts = count(),
        "scale" => asked.scale = number(value).unwrap_or(1.0),
        "data" => asked.data = Some(word(value)),
        "update_percent" => asked.update_percent = u8::try_from(count()).ok(),
        "zipf" => asked.zipf = number(value),
        "shared" => asked.shared = value.as_bool().unwrap_or(false),
        "check" => asked.check = value.as_bool().unwrap_or(false),
        "settings" => {
            let mut flat = Vec::new();
            flatten("", value.as_table().cloned().unwrap_or_default(), &mut flat);
            asked.settings.extend(flat.iter().map(|(key, value)| (key.clone(), word(value))));
        }
        key => drop(asked.settings.insert(key.to_owned(), word(value))),
    }
}

fn number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|number| number as f64))
}

/// Formats a value as in a setting, without quotes.
fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn wrong(place: &str, key: &str, value: &Value, expected: &'static str) -> SweepError {
    let (place, key) = (place.to_owned(), key.to_owned());
    SweepError::WrongType { place, key, value: value.to_string(), expected }
}

fn bad_text(text: &str, error: &toml::de::Error) -> SweepError {
    let before = error.span().map_or("", |span| text.get(..span.start).unwrap_or_default());
    let line = 1 + before.matches('\n').count();
    SweepError::Text { line, problem: error.message().to_owned() }
}
