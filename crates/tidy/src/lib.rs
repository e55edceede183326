//! The rules of CONTRIBUTING.md that no compiler or linter checks, as tests.
//!
//! ```text
//!   arrows    which crate may depend on which                      every Cargo.toml under crates/
//!   circles   modules that import each other                       every .rs file under src/
//!   doubles   imports of test doubles in product code              every .rs file under src/
//!   rules     file length, columns, unfinished work, module docs   .rs files in crates/, python/
//!   language  the words and openings that GLOSSARY.md replaces     sources, pages, scripts
//!   format    docs/reference/format.md against the sources it comes from
//!   pages     files, links and tests that a page names             every .md file
//!   path      files and functions of a write, and their calls      docs/internals/write-path.md
//!   commands  packages and targets that Cargo's commands name     sources, pages, scripts
//!   subjects  `area: Imperative summary`                           commits since the rule
//! ```
//!
//! `cargo test -p lastword-tidy` runs them on the repository, and runs each on a sample that breaks
//! it, so that no rule can pass by seeing nothing. [`arrows::ALLOWED`] needs a row for every crate.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

pub mod arrows;
pub mod circles;
pub mod commands;
pub mod doubles;
pub mod format;
pub mod language;
pub mod pages;
pub mod path;
pub mod rules;
pub mod source;
pub mod subjects;

/// A place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file, from the repository's root.
    pub file: String,
    /// Its line, from 1.
    pub line: usize,
    /// The rule's name.
    pub rule: &'static str,
    /// The problem, and its repair.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.file, self.line, self.rule, self.what)
    }
}

/// The root of the repository that the test runs in. `CARGO_MANIFEST_DIR` decides at run time, so a
/// build folder that two checkouts share does not mix them up.
pub fn repository() -> PathBuf {
    let here = std::env::var("CARGO_MANIFEST_DIR");
    Path::new(here.as_deref().unwrap_or(env!("CARGO_MANIFEST_DIR"))).join("../..")
}

/// The folders under `crates/` that have a manifest, by name.
///
/// # Errors
/// When a folder cannot be read.
pub fn crates(root: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(root.join("crates"))? {
        let entry = entry?;
        if entry.path().join("Cargo.toml").is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// The Rust sources of all crates: each one's path from `root` and its text, in order of crate and
/// path.
///
/// # Errors
/// When a file cannot be read.
pub fn sources(root: &Path) -> io::Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for name in crates(root)? {
        collect(root, &format!("crates/{name}"), &mut found)?;
    }
    found.sort();
    Ok(found)
}

/// The Rust sources in a folder outside of `crates/`, as [`sources`] returns them.
///
/// # Errors
/// When a file cannot be read.
pub fn sources_in(root: &Path, folder: &str) -> io::Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    collect(root, folder, &mut found)?;
    Ok(found)
}

fn collect(root: &Path, folder: &str, found: &mut Vec<(String, String)>) -> io::Result<()> {
    for entry in std::fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{folder}/{name}");
        let kind = entry.file_type()?;
        if kind.is_dir() && name != "target" && !name.starts_with('.') {
            collect(root, &path, found)?;
        } else if kind.is_file() && name.ends_with(".rs") {
            found.push((path, std::fs::read_to_string(entry.path())?));
        }
    }
    Ok(())
}
