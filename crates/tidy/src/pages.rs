//! Pages for readers (README.md, docs/ and others): every name in them must exist.
//!
//! ```text
//!   [text](path)                    a file or folder, from the page's own folder
//!   `slots/undo.rs`                 a file whose path ends so
//!   `a_name_of_five_words_or_more`  a test: some function's name begins so
//! ```
//! A name that a change of the sources has removed is reported at its line. CHANGELOG.md is
//! excluded, because it names removed files.

use std::io;
use std::path::Path;

use crate::Finding;

/// Endings of file names that are checked in pages.
const ENDINGS: [&str; 8] = [".rs", ".md", ".toml", ".h", ".hpp", ".cpp", ".py", ".sh"];

/// Words of the shortest name that counts as a test's.
const TEST_WORDS: usize = 5;

/// Folders to skip: build output, and workspaces with their own pages.
const SKIPPED: [&str; 3] = ["target", "peers", "node_modules"];

/// Returns the repository's pages: the path of each from `root`, and its text.
///
/// # Errors
/// When a file cannot be read.
pub fn pages(root: &Path) -> io::Result<Vec<(String, String)>> {
    let is_page = |path: &String| path.ends_with(".md") && path != "CHANGELOG.md";
    let read = |path: String| Ok((path.clone(), std::fs::read_to_string(root.join(path))?));
    files(root)?.into_iter().filter(is_page).map(read).collect()
}

/// Returns every file of the repository, by its path from `root`, in order.
///
/// # Errors
/// When a folder cannot be read.
pub fn files(root: &Path) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type()?;
            if kind.is_dir() && !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
                folders.push(format!("{folder}{name}/"));
            } else if !kind.is_dir() {
                found.push(format!("{folder}{name}"));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the names in a page that do not exist. `files` are the repository's, `names` the words
/// of its sources, in order.
pub fn check(page: &str, text: &str, files: &[String], names: &[&str]) -> Vec<Finding> {
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mut add = |rule, what| {
            found.push(Finding { file: page.to_owned(), line: number + 1, rule, what });
        };
        for target in links(line).filter(|target| !is_there(folder, target, files)) {
            add("link", format!("`{target}` is not there: correct the link"));
        }
        for name in line.split('`').skip(1).step_by(2) {
            if is_file(name) && !files.iter().any(|file| ends_with(file, name)) {
                add("file", format!("no file is called `{name}`: name the one that is meant"));
            }
            if is_test(name) && !is_begun(name, names) {
                add("test", format!("no test is called `{name}`: name the one that is meant"));
            }
        }
    }
    found
}

/// Returns the words of sources that can be names of tests, in order.
pub fn names<'t>(sources: impl IntoIterator<Item = &'t str>) -> Vec<&'t str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = sources.into_iter().flat_map(|text| text.split(move |c| !is_part(c)));
    let mut names: Vec<&str> = words.filter(|word| is_test(word)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the targets of links within the repository.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    targets.filter(|target| !target.is_empty() && !target.contains("://"))
}

fn is_there(folder: &str, target: &str, files: &[String]) -> bool {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => (),
            ".." if parts.pop().is_none() => return false,
            ".." => (),
            part => parts.push(part),
        }
    }
    let path = parts.join("/");
    path.is_empty()
        || files.iter().any(|file| {
            file.strip_prefix(&path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
}

fn is_file(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    name.chars().all(plain)
        && !name.starts_with(['.', '/'])
        && ENDINGS.iter().any(|ending| name.len() > ending.len() && name.ends_with(ending))
}

fn ends_with(file: &str, name: &str) -> bool {
    file.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
}

fn is_test(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(plain)
        && name.split('_').count() >= TEST_WORDS
}

fn is_begun(name: &str, names: &[&str]) -> bool {
    let at = names.partition_point(|other| *other < name);
    names.get(at).is_some_and(|other| other.starts_with(name))
}
