//! Rules about one Rust file.

use crate::Finding;
use crate::source::{Source, has_word};

/// Lines of a file, tests included.
pub const FILE_LINES_MAX: usize = 600;

/// Lines of a function.
pub const FUNCTION_LINES_MAX: usize = 70;

/// Columns of a line.
pub const COLUMNS_MAX: usize = 100;

/// The crates that may have unsafe code.
pub const UNSAFE_CRATES: [&str; 2] = ["capi", "medium"];

/// Marks of unfinished work; put together here so that this file has none.
pub const MARKS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

fn finding(source: &Source, line: usize, rule: &'static str, what: String) -> Finding {
    Finding { file: source.path.clone(), line, rule, what }
}

/// Every rule.
pub const ALL: [fn(&Source) -> Vec<Finding>; 7] =
    [file_length, function_length, columns, unsafe_code, left_over_marks, reasons, module_docs];

/// A file has at most [`FILE_LINES_MAX`] lines.
pub fn file_length(source: &Source) -> Vec<Finding> {
    let lines = source.lines.len();
    if lines <= FILE_LINES_MAX {
        return Vec::new();
    }
    let what = format!("{lines} lines, at most {FILE_LINES_MAX}: split it into two ideas");
    vec![finding(source, lines, "file-length", what)]
}

/// A function has at most [`FUNCTION_LINES_MAX`] lines.
pub fn function_length(source: &Source) -> Vec<Finding> {
    let long = source.functions().into_iter().filter(|f| f.lines > FUNCTION_LINES_MAX);
    long.map(|f| {
        let (name, lines) = (&f.name, f.lines);
        let what =
            format!("`{name}` has {lines} lines, at most {FUNCTION_LINES_MAX}: give parts names");
        finding(source, f.line, "function-length", what)
    })
    .collect()
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

/// Only [`UNSAFE_CRATES`] have unsafe code; the root of every other crate forbids it.
pub fn unsafe_code(source: &Source) -> Vec<Finding> {
    if UNSAFE_CRATES.contains(&source.crate_name()) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (i, line) in source.lines.iter().enumerate() {
        if has_word(&line.code, "unsafe") {
            let what = "unsafe code is for crates/medium and crates/capi: move it there behind a \
                        safe function";
            found.push(finding(source, i + 1, "unsafe", what.to_owned()));
        }
    }
    let mut parts = source.path.split('/').skip(2);
    let root = match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some("src"), Some("lib.rs" | "main.rs"), None, None) => true,
        (Some("src"), Some("bin"), Some(file), None) => file.ends_with(".rs"),
        (Some("src"), Some("bin"), Some(_), Some("main.rs")) => true,
        _ => false,
    };
    let forbids = |code: &str| code.replace(' ', "").contains("#![forbid(unsafe_code");
    if root && !source.lines.iter().any(|line| forbids(&line.code)) {
        let what = "the root of a crate: add `#![forbid(unsafe_code)]` after the module docs";
        found.push(finding(source, 1, "forbid-unsafe", what.to_owned()));
    }
    found
}

/// No [`MARKS`], and no macros that stand for missing code.
pub fn left_over_marks(source: &Source) -> Vec<Finding> {
    let mut found = Vec::new();
    for (i, line) in source.lines.iter().enumerate() {
        if let Some(mark) = MARKS.into_iter().find(|mark| has_word(&line.raw, mark)) {
            let what = format!("`{mark}`: do it, or say in the docs what does not work");
            found.push(finding(source, i + 1, "left-over", what));
        }
        for name in ["todo", "unimplemented"] {
            let bare: String = line.code.split_whitespace().collect();
            if has_word(&line.code, name) && bare.contains(&format!("{name}!")) {
                let what = format!("`{name}!`: write the code, or give an error that says so");
                found.push(finding(source, i + 1, "left-over", what));
            }
        }
    }
    found
}

/// An ignored test and a lint that is switched off say why.
pub fn reasons(source: &Source) -> Vec<Finding> {
    let mut found = Vec::new();
    for (i, line) in source.lines.iter().enumerate() {
        let code: String = line.code.split_whitespace().collect();
        if code.contains("#[ignore]") {
            let what = "an ignored test says why: `#[ignore = \"...\"]`".to_owned();
            found.push(finding(source, i + 1, "ignore-reason", what));
        }
        let switches = ["#[allow(", "#![allow(", "#[expect(", "#![expect("];
        if switches.iter().any(|switch| code.contains(switch)) && !has_reason(source, i) {
            let what = "a lint that is switched off has its reason beside it: a comment on this \
                        line or the one before, or `reason = \"...\"`";
            found.push(finding(source, i + 1, "allow-reason", what.to_owned()));
        }
    }
    found
}

/// Whether the attribute that starts in line `i` has a comment (not docs) or a reason.
fn has_reason(source: &Source, i: usize) -> bool {
    let is_plain = |comment: &str| {
        let docs = comment.starts_with("//!")
            || comment.starts_with("///") && !comment.starts_with("////");
        !comment.is_empty() && !docs
    };
    if is_plain(&source.lines[i].comment) || i > 0 && is_plain(&source.lines[i - 1].comment) {
        return true;
    }
    let mut attribute = source.lines[i..].iter().map(|line| line.code.as_str());
    let mut text = String::new();
    // It ends with its `]`, on this line or a later one.
    while !text.contains(']') {
        let Some(code) = attribute.next() else { break };
        text.push_str(code);
    }
    has_word(text.split(']').next().unwrap_or_default(), "reason")
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
