//! The path of a write: the tables of files and functions in docs/internals/write-path.md.
//!
//! ```text
//!   ## The files ...
//!   | 3 | `crates/lastword/src/tx.rs` | `write_words`, `run_place` | what happens there |
//!   | 15 | `crates/log/src/ring.rs` | `persist_loop` (thread) | a note marks an entry |
//! ```
//! A row names one file and functions with a body in it. Another function of the same table calls
//! each of them, except for the entries: the functions of the first row and of rows with a note in
//! parentheses. So a table stays one connected path, and a renamed or moved function is noticed.
//! The check reads text: a call is `name(` or a path that ends in `name`, in the caller's body.
//! Calls through a macro or under another name are not seen.

use std::collections::BTreeMap;

use crate::Finding;
use crate::source::Source;

/// The page, from the repository's root.
pub const PAGE: &str = "docs/internals/write-path.md";

/// Most files in the first table, from `tx.set` to the heap image. The number may shrink, never
/// grow.
pub const FILES_MAX: usize = 29;

const RULE: &str = "write-path";

/// A row of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    line: usize,
    file: String,
    functions: Vec<String>,
    is_entry: bool,
}

/// Returns the findings for the page: missing files and functions, functions that no other one of
/// their table calls, files named twice, wrong numbers, and a first table that is too long.
pub fn check(page: &str, sources: &[(String, String)], files_max: usize) -> Vec<Finding> {
    let tables = tables(page);
    let at = |line, what| Finding { file: PAGE.to_owned(), line, rule: RULE, what };
    let mut found = Vec::new();
    if tables.is_empty() {
        found.push(at(1, "has no table of files: see crates/tidy/src/path.rs".to_owned()));
    }
    for table in &tables {
        found.extend(of_table(table, sources).into_iter().map(|(line, what)| at(line, what)));
    }
    if let Some(first) = tables.first().filter(|table| table.len() > files_max) {
        let what = format!("{} files, at most {files_max} may be: merge two", first.len());
        found.push(at(first[files_max].line, what));
    }
    found
}

fn of_table(table: &[Row], sources: &[(String, String)]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    // The bodies of each named function, by row.
    let mut bodies: BTreeMap<(usize, &str), String> = BTreeMap::new();
    for (at, row) in table.iter().enumerate() {
        if table[..at].iter().any(|other| other.file == row.file) {
            found.push((row.line, format!("`{}` has two rows: join them", row.file)));
        }
        let Some((path, text)) = sources.iter().find(|(path, _)| *path == row.file) else {
            found.push((row.line, format!("no source is called `{}`", row.file)));
            continue;
        };
        let source = Source::new(path, text);
        let functions = source.functions();
        for name in &row.functions {
            let named = functions.iter().filter(|function| function.name == *name);
            let lines = named.flat_map(|function| {
                &source.lines[function.line..function.line - 1 + function.lines]
            });
            // The first line is left out: it has the function's own name.
            let body: Vec<&str> = lines.map(|line| line.code.as_str()).collect();
            match functions.iter().any(|function| function.name == *name) {
                true => drop(bodies.insert((at, name), body.join("\n"))),
                false => found.push((row.line, format!("`{path}` has no function `{name}`"))),
            }
        }
    }
    for (&(at, name), _) in bodies.iter().filter(|((at, _), _)| !is_entry(table, *at)) {
        let others = bodies.iter().filter(|(caller, _)| **caller != (at, name));
        if !others.map(|(_, body)| body).any(|body| calls(body, name)) {
            let what = format!("no other function of the table calls `{name}`: name its caller");
            found.push((table[at].line, what));
        }
    }
    found.sort();
    found
}

fn is_entry(table: &[Row], at: usize) -> bool {
    at == 0 || table[at].is_entry
}

/// Returns whether the code has `name(`, or a path that ends in `name`, as in `map(Type::name)`.
fn calls(code: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(name).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + name.len()..]);
        let is_whole = !before.ends_with(is_word) && !after.starts_with(is_word);
        let is_called = after.starts_with(['(', '<']) || after.starts_with("::<");
        is_whole && !before.ends_with("fn ") && (is_called || before.ends_with("::"))
    })
}

/// The tables of a page whose rows have a number, a file, functions and a text.
fn tables(page: &str) -> Vec<Vec<Row>> {
    let mut tables: Vec<Vec<Row>> = Vec::new();
    let mut inside = false;
    for (line, text) in (1..).zip(page.lines()) {
        let row = row(line, text);
        match (row, inside) {
            (Some(row), true) => tables.last_mut().expect("a table is open").push(row),
            (Some(row), false) => tables.push(vec![row]),
            (None, _) => {
                inside = false;
                continue;
            }
        }
        inside = true;
    }
    tables
}

fn row(line: usize, text: &str) -> Option<Row> {
    let cells: Vec<&str> = text.strip_prefix('|')?.split('|').map(str::trim).collect();
    let [number, file, functions, ..] = cells[..] else { return None };
    number.parse::<usize>().ok()?;
    let file = file.strip_prefix('`')?.strip_suffix('`')?.to_owned();
    let names = functions.split('`').skip(1).step_by(2).map(str::to_owned);
    Some(Row { line, file, functions: names.collect(), is_entry: functions.contains('(') })
}
