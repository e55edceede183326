//! Pages for readers (README.md, docs/ and others): links lead somewhere, names exist.
//!
//! ```text
//!   [text](path)                    a file or folder, from the page's own folder
//!   [text](page.md#heading)         a heading of that page; `#heading` of this one
//!   `slots/undo.rs`                 a file whose path ends so
//!   `a_name_of_five_words_or_more`  a test: some function's name begins so
//! ```
//! Every page under docs/ is a chapter of the book: docs/SUMMARY.md links it. CHANGELOG.md is not
//! checked, because it names removed files. Pages that `GENERATED` has are written when the book
//! is built: they count as files whether they are written or not, and their text is not checked.

use std::io;
use std::path::Path;

use crate::Finding;

/// Endings of file names that are checked in pages.
const ENDINGS: [&str; 8] = [".rs", ".md", ".toml", ".h", ".hpp", ".cpp", ".py", ".sh"];

/// Words of the shortest name that counts as a test's.
const TEST_WORDS: usize = 5;

/// Folders to skip: build output.
const SKIPPED: [&str; 2] = ["target", "node_modules"];

/// The folder of generated pages, and the folder of their sources: `NAME.toml` makes `NAME.md`.
const GENERATED: (&str, &str) = ("docs/papers/", "crates/papers/targets/");

/// Returns whether a file is generated when the book is built.
pub fn is_generated(path: &str) -> bool {
    path.starts_with(GENERATED.0)
}

/// Returns these files with the generated pages that follow from them, in order. Generated files
/// among them are dropped first: they may be missing, or left over from an earlier state.
pub fn with_generated(mut files: Vec<String>) -> Vec<String> {
    files.retain(|file| !is_generated(file));
    let page = |file: &String| {
        let name = file.strip_prefix(GENERATED.1)?.strip_suffix(".toml")?;
        Some(format!("{}{name}.md", GENERATED.0))
    };
    let pages: Vec<String> = files.iter().filter_map(page).collect();
    files.extend(pages);
    files.sort();
    files
}

/// Returns the repository's pages: the path of each from `root`, and its text.
///
/// # Errors
/// When a file cannot be read.
pub fn pages(root: &Path) -> io::Result<Vec<(String, String)>> {
    let is_page =
        |path: &String| path.ends_with(".md") && path != "CHANGELOG.md" && !is_generated(path);
    let read = |path: String| Ok((path.clone(), std::fs::read_to_string(root.join(path))?));
    files(root)?.into_iter().filter(is_page).map(read).collect()
}

/// The book's table of contents.
pub const SUMMARY: &str = "docs/SUMMARY.md";

/// Pages under docs/ that the book leaves out: a page without a link in its table of contents.
pub fn missing_chapters(summary: &str, files: &[String]) -> Vec<Finding> {
    let chapters: Vec<String> = summary
        .lines()
        .flat_map(links)
        .filter_map(|target| resolve("docs", target.split('#').next().unwrap_or(target)))
        .collect();
    let is_page = |file: &&String| file.starts_with("docs/") && file.ends_with(".md");
    let pages = files.iter().filter(is_page).filter(|file| *file != SUMMARY);
    let missing = pages.filter(|file| !chapters.contains(file));
    let finding = |file: &String| {
        let what = format!("`{file}` is no chapter of the book: add a line to this file");
        Finding { file: SUMMARY.to_owned(), line: 1, rule: "chapter", what }
    };
    missing.map(finding).collect()
}

/// Links of a page to headings that their target does not have. `pages` are all pages, by path.
pub fn check_anchors(page: &str, text: &str, pages: &[(String, String)]) -> Vec<Finding> {
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        for link in links(line) {
            let Some((target, anchor)) = link.split_once('#') else { continue };
            let path = if target.is_empty() { Some(page.into()) } else { resolve(folder, target) };
            let of = |(other, _): &&(String, String)| Some(other) == path.as_ref();
            let Some((_, text)) = pages.iter().find(of) else { continue };
            if !anchors(text).iter().any(|other| other == anchor) {
                let what = format!("`{link}`: the page has no such heading: correct the link");
                found.push(Finding { file: page.to_owned(), line: number, rule: "anchor", what });
            }
        }
    }
    found
}

/// Every file of the repository and every generated page, by its path from `root`, in order.
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
    Ok(with_generated(found))
}

/// Returns the names in a page that do not exist. `files` are the repository's, `names` the words
/// of its sources, in order.
pub fn check(page: &str, text: &str, files: &[String], names: &[&str]) -> Vec<Finding> {
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let mut add = |rule, what| {
            found.push(Finding { file: page.to_owned(), line: number, rule, what });
        };
        let paths = links(line).filter_map(|link| link.split('#').next());
        for target in paths.filter(|target| !is_there(folder, target, files)) {
            add("link", format!("`{target}` is not there: correct the link"));
        }
        for name in line.split('`').skip(1).step_by(2) {
            if is_file(name) && !files.iter().any(|file| ends_with(file, name)) {
                add("file", format!("no file is called `{name}`: correct the name"));
            }
            if is_test(name) && !is_begun(name, names) {
                add("test", format!("no test is called `{name}`: correct the name"));
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

/// Targets of links that stay in the repository, with their anchors.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.is_empty() && !target.contains("://"))
}

/// The lines of a page outside of its code blocks, each with its number, from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        !fenced && !is_fence
    })
}

/// The anchors of a page's headings, as mdBook and GitHub make them: lower case, a hyphen for each
/// space, other punctuation dropped.
fn anchors(text: &str) -> Vec<String> {
    let headings = prose(text).filter(|(_, line)| line.starts_with('#'));
    let anchor = |heading: &str| {
        let kept = heading.trim().chars().filter_map(|c| match c {
            c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c.to_ascii_lowercase()),
            c if c.is_whitespace() => Some('-'),
            _ => None,
        });
        kept.collect()
    };
    headings.map(|(_, line)| anchor(line.trim_start_matches('#'))).collect()
}

/// A link's path from the repository's root; nothing when it leads out of the repository.
fn resolve(folder: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => (),
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn is_there(folder: &str, target: &str, files: &[String]) -> bool {
    if target.is_empty() {
        return true;
    }
    let Some(path) = resolve(folder, target) else { return false };
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
