//! Import circles: modules of one crate that reach each other through imports.
//!
//! A module that stands in a large circle cannot be read, tested or moved alone. The rule builds
//! the graph of imports of each crate and bounds its largest strongly connected component.
//!
//! | edge from a module | found in |
//! |---|---|
//! | `crate::a::b`, `super::a`, `self::a` | `use` declarations and paths in code |
//! | `child::item` | the same, where the module has a file `child.rs` or `child/mod.rs` |
//!
//! A path leads to the longest prefix that is a module. `mod child;` alone is no edge. Code behind
//! `#[cfg(test)]` does not count, since tests may look into every corner. The scan sees files, so a
//! module within braces belongs to its file.

use std::collections::{BTreeMap, BTreeSet};

use crate::Finding;
use crate::source::Source;

/// Largest circle that a crate may have.
pub const LIMIT: usize = 10;

/// Crates with a larger circle, and its size. A row may shrink or go, never grow.
pub const LIMITS: [(&str, usize); 3] = [("lastword", 74), ("sim", 56), ("workloads", 35)];

const RULE: &str = "circles";

/// Path of a module, from the crate's root: empty for the root itself.
type Path = Vec<String>;

/// Imports of one crate: for each module the modules that it names.
pub type Graph = BTreeMap<Path, BTreeSet<Path>>;

/// Returns the findings for a crate: one if its largest circle exceeds the limit.
pub fn check(name: &str, sources: &[Source]) -> Vec<Finding> {
    let circle = largest(&graph(name, sources));
    let row = LIMITS.iter().find(|(known, _)| *known == name);
    let limit = row.map_or(LIMIT, |(_, limit)| *limit);
    if circle.len() <= limit {
        return Vec::new();
    }
    let names: Vec<String> = circle.iter().map(|path| path.join("::")).collect();
    let what = format!(
        "{} modules import each other, at most {limit} may: move what they share below them ({})",
        circle.len(),
        names.join(", ")
    );
    vec![Finding { file: format!("crates/{name}/src"), line: 1, rule: RULE, what }]
}

/// Returns the imports between the modules of a crate's `src` folder.
pub fn graph(name: &str, sources: &[Source]) -> Graph {
    let folder = format!("crates/{name}/src/");
    let own = |source: &&Source| source.path.starts_with(&folder);
    let files = sources.iter().filter(own).map(|source| {
        let path = module(&source.path[folder.len()..]);
        let (code, tests) = without_tests(source);
        (path, code, tests)
    });
    let files: Vec<(Path, String, Vec<String>)> = files.collect();
    let of_tests: BTreeSet<Path> = files
        .iter()
        .flat_map(|(path, _, tests)| {
            tests.iter().map(|test| joined(path, std::slice::from_ref(test)))
        })
        .collect();
    let is_test = |path: &Path| (1..=path.len()).any(|end| of_tests.contains(&path[..end]));
    let known: BTreeSet<Path> =
        files.iter().map(|(path, ..)| path.clone()).filter(|path| !is_test(path)).collect();
    let mut graph = Graph::new();
    for (path, code, _) in files.iter().filter(|(path, ..)| known.contains(path)) {
        let targets = paths(code).into_iter().filter_map(|words| target(path, &words, &known));
        graph.insert(path.clone(), targets.filter(|target| target != path).collect());
    }
    graph
}

/// Returns the paths in a crate's code that begin with another name than `crate`, `self` or
/// `super`: each module and the words of one path. Code for tests is left out, as in [`graph`].
pub(crate) fn foreign_paths(name: &str, sources: &[Source]) -> Vec<(Path, Path)> {
    let folder = format!("crates/{name}/src/");
    let modules = graph(name, sources);
    let own =
        sources.iter().filter_map(|source| Some((source.path.strip_prefix(&folder)?, source)));
    let mut found = Vec::new();
    for (from, source) in own.map(|(file, source)| (module(file), source)) {
        // A module for tests alone is not in the graph.
        if modules.contains_key(&from) {
            let all = paths(&without_tests(source).0).into_iter();
            let foreign = all.filter(|path| {
                path.first()
                    .is_some_and(|first| !["crate", "self", "super"].contains(&first.as_str()))
            });
            found.extend(foreign.map(|path| (from.clone(), path)));
        }
    }
    found
}

/// Returns the largest set of modules that all reach each other, in order of their names.
pub fn largest(graph: &Graph) -> Vec<Path> {
    let reached: BTreeMap<&Path, BTreeSet<&Path>> =
        graph.keys().map(|path| (path, reach(graph, path))).collect();
    let circle = |path: &&Path| -> Vec<Path> {
        let back = reached[path].iter().filter(|other| reached[**other].contains(path));
        back.map(|other| (*other).clone()).collect()
    };
    graph.keys().map(|path| circle(&path)).max_by_key(Vec::len).unwrap_or_default()
}

/// Modules that a module reaches through at least one import.
fn reach<'g>(graph: &'g Graph, from: &Path) -> BTreeSet<&'g Path> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&Path> = graph[from].iter().collect();
    while let Some(path) = open.pop() {
        if found.insert(path) {
            open.extend(graph.get(path).into_iter().flatten());
        }
    }
    found
}

/// The module of a file: `a/mod.rs` and `a.rs` are `a`; `lib.rs` and `main.rs` are the root.
fn module(file: &str) -> Path {
    let mut path: Path = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    let is_root = path.len() == 1 && ["lib", "main"].contains(&path[0].as_str());
    if is_root || path.last().is_some_and(|last| last == "mod") {
        path.pop();
    }
    path
}

/// The code of a file without what is compiled for tests, and the names of its test modules that
/// are files of their own.
fn without_tests(source: &Source) -> (String, Vec<String>) {
    let (mut code, mut tests) = (String::new(), Vec::new());
    let mut lines = source.lines.iter().map(|line| line.code.as_str());
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            code += line;
            code.push('\n');
            continue;
        }
        let mut item = String::new();
        let mut depth = 0_i64;
        for line in lines.by_ref() {
            depth += line.matches('{').count() as i64 - line.matches('}').count() as i64;
            item += line;
            let ends = line.trim_end();
            if depth == 0 && (ends.ends_with('}') || ends.ends_with(';')) {
                break;
            }
        }
        let words: Vec<&str> = item.split_whitespace().collect();
        if let Some(at) = words.iter().position(|word| *word == "mod") {
            let name = words.get(at + 1).and_then(|name| name.strip_suffix(';'));
            tests.extend(name.map(str::to_owned));
        }
    }
    (code, tests)
}

/// Every path of the code as its words, groups of `use` written out.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find("use ") {
        let (before, after) = rest.split_at(at);
        inline(before, &mut found);
        let is_word = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let end = after.find(';').filter(|_| !is_word).unwrap_or(3);
        if !is_word {
            expand(&after[4..end.max(4)], &[], &mut found);
        }
        rest = &after[end..];
    }
    inline(rest, &mut found);
    found
}

/// Adds the paths that stand in code outside of `use`.
fn inline(code: &str, found: &mut Vec<Vec<String>>) {
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    for text in code.split(|c: char| !is_path(c)).filter(|text| text.contains("::")) {
        let words = text.split("::").map(|word| word.trim_matches(':').to_owned());
        found.push(words.filter(|word| !word.is_empty()).collect());
    }
}

/// Adds the paths of a `use` tree behind a prefix.
fn expand(tree: &str, prefix: &[String], found: &mut Vec<Vec<String>>) {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        let words = path.split("::").map(|word| word.trim().to_owned());
        found.push(prefix.iter().cloned().chain(words.filter(|word| !word.is_empty())).collect());
        return;
    };
    let words = tree[..open].split("::").map(|word| word.trim().to_owned());
    let prefix: Vec<String> =
        prefix.iter().cloned().chain(words.filter(|word| !word.is_empty())).collect();
    let inside = &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())];
    let (mut depth, mut from) = (0_i64, 0);
    for (at, c) in inside.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&inside[from..at], &prefix, found);
                from = at + 1;
            }
            _ => {}
        }
    }
    if !inside[from..].trim().is_empty() {
        expand(&inside[from..], &prefix, found);
    }
}

/// The module of this crate that a path leads to, named from within `from`.
fn target(from: &Path, words: &[String], known: &BTreeSet<Path>) -> Option<Path> {
    let first = words.first()?.as_str();
    let mut path = match first {
        "crate" => words[1..].to_vec(),
        "self" => joined(from, &words[1..]),
        "super" => {
            let ups = words.iter().take_while(|word| *word == "super").count();
            let base = &from[..from.len().saturating_sub(ups)];
            joined(base, &words[ups..])
        }
        _ if known.contains(&joined(from, &words[..1])) => joined(from, words),
        _ => return None,
    };
    while !known.contains(&path) {
        path.pop()?;
    }
    Some(path)
}

fn joined(base: &[String], words: &[String]) -> Path {
    base.iter().chain(words).cloned().collect()
}
