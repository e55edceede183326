//! Rules about one Rust file.

use crate::Finding;
use crate::source::{Source, has_word};

/// Lines of a file, tests included.
pub const FILE_LINES_MAX: usize = 600;

/// Columns of a line.
pub const COLUMNS_MAX: usize = 100;

/// Marks of unfinished work, assembled so that this file contains none.
pub const MARKS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

fn finding(source: &Source, line: usize, rule: &'static str, what: String) -> Finding {
    Finding { file: source.path.clone(), line, rule, what }
}

/// Every rule.
pub const ALL: [fn(&Source) -> Vec<Finding>; 4] =
    [file_length, columns, left_over_marks, module_docs];

/// A file has at most [`FILE_LINES_MAX`] lines.
pub fn file_length(source: &Source) -> Vec<Finding> {
    let lines = source.lines.len();
    if lines <= FILE_LINES_MAX {
        return Vec::new();
    }
    let what = format!("{lines} lines, at most {FILE_LINES_MAX}: split it into two ideas");
    vec![finding(source, lines, "file-length", what)]
}

/// A line has at most [`COLUMNS_MAX`] columns.
pub fn columns(source: &Source) -> Vec<Finding> {
    let mut found = Vec::new();
    for (i, line) in source.lines.iter().enumerate() {
        let columns = line.raw.chars().count();
        if columns > COLUMNS_MAX {
            let what = format!("{columns} columns, at most {COLUMNS_MAX}: break the line");
            found.push(finding(source, i + 1, "columns", what));
        }
    }
    found
}

/// No [`MARKS`].
pub fn left_over_marks(source: &Source) -> Vec<Finding> {
    let mut found = Vec::new();
    for (i, line) in source.lines.iter().enumerate() {
        if let Some(mark) = MARKS.into_iter().find(|mark| has_word(&line.raw, mark)) {
            let what = format!("`{mark}`: do it, or say in the docs what does not work");
            found.push(finding(source, i + 1, "left-over", what));
        }
    }
    found
}

/// A file starts with its module docs.
pub fn module_docs(source: &Source) -> Vec<Finding> {
    let first = source.lines.iter().position(|line| !line.raw.trim().is_empty());
    let docs = first.is_some_and(|i| {
        source.lines[i].raw.strip_prefix("//!").is_some_and(|text| !text.trim().is_empty())
    });
    if docs {
        return Vec::new();
    }
    let what = "a file starts with `//!`: what it is, and its invariants".to_owned();
    vec![finding(source, first.unwrap_or(0) + 1, "module-docs", what)]
}
