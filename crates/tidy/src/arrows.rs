//! The allowed dependencies between crates, checked in the manifests.
//!
//! Data structures are above `words` and designs below it, and neither depends on the other. A
//! crate is identified by its folder's name.

use toml::{Table, Value};

use crate::Finding;

/// Each crate and the workspace crates that it may depend on; `"*"` allows any.
pub const ALLOWED: [(&str, &[&str]); 18] = [
    ("words", &[]),
    ("system", &[]),
    ("faults", &["system"]),
    ("medium", &["system", "words"]),
    ("log", &["medium", "words"]),
    ("alloc", &["system", "words"]),
    ("collections", &["system", "words"]),
    ("macros", &[]),
    ("lastword", &["log", "medium", "words", "alloc", "collections", "macros"]),
    ("replica", &["lastword", "system"]),
    ("workloads", &["words", "collections", "alloc"]),
    ("sim", &["words", "alloc"]),
    (
        "crash",
        &["faults", "lastword", "log", "medium", "words", "alloc", "collections", "workloads"],
    ),
    ("models", &["faults", "medium", "log", "lastword"]),
    ("papers", &["medium", "sim", "words", "workloads"]),
    ("capi", &["lastword"]),
    ("cli", &["*"]),
    ("tidy", &[]),
];

/// Further crates that tests may depend on.
pub const ALLOWED_IN_TESTS: [&str; 5] = ["words", "alloc", "workloads", "collections", "faults"];

const RULE: &str = "arrows";

/// Returns the forbidden dependencies of one crate. `workspace` is the text of the root manifest,
/// which defines the shared dependencies.
pub fn check(name: &str, manifest: &str, workspace: &str) -> Vec<Finding> {
    let file = format!("crates/{name}/Cargo.toml");
    let at = |line, what| Finding { file: file.clone(), line, rule: RULE, what };
    let (table, shared) = match (manifest.parse::<Table>(), workspace.parse::<Table>()) {
        (Ok(table), Ok(shared)) => (table, shared),
        (Err(error), _) => return vec![at(1, format!("not a manifest: {error}"))],
        (_, Err(error)) => return vec![at(1, format!("the root manifest is none: {error}"))],
    };
    let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
        let what = "a crate without a row: add it to `ALLOWED` in crates/tidy/src/arrows.rs";
        return vec![at(1, what.to_owned())];
    };
    let mut found = Vec::new();
    for (kind, key, value) in dependencies(&table) {
        let Some(target) = ours(key, value, &shared) else { continue };
        let known_in_tests = target == name || ALLOWED_IN_TESTS.contains(&target.as_str());
        let in_tests = kind == "dev-dependencies" && known_in_tests;
        if !in_tests && !allowed.contains(&target.as_str()) && *allowed != ["*"] {
            let line = line_of(manifest, kind, key);
            let list = if allowed.is_empty() { "none of ours".into() } else { allowed.join(", ") };
            let what = format!(
                "`{name}` must not depend on `{target}` (allowed: {list}): move the code to the \
                 other side, or talk through `words`"
            );
            found.push(at(line, what));
        }
    }
    found
}

/// Returns every dependency: section, key and value; those of one target too.
fn dependencies(table: &Table) -> Vec<(&'static str, &String, &Value)> {
    let targets = table.get("target").and_then(Value::as_table);
    let tables = targets.into_iter().flat_map(Table::values).filter_map(Value::as_table);
    let mut all = Vec::new();
    for table in [table].into_iter().chain(tables) {
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let section = table.get(kind).and_then(Value::as_table);
            all.extend(section.into_iter().flatten().map(|(key, value)| (kind, key, value)));
        }
    }
    all
}

/// Returns the folder of a workspace crate that a dependency names; `None` for other crates.
fn ours(key: &str, value: &Value, workspace: &Table) -> Option<String> {
    let shared = || workspace.get("workspace")?.get("dependencies")?.get(key);
    let is_shared = value.get("workspace").and_then(Value::as_bool) == Some(true);
    let value = if is_shared { shared().unwrap_or(value) } else { value };
    let package = value.get("package").and_then(Value::as_str).unwrap_or(key);
    match package {
        "lastword" => Some(package.to_owned()),
        _ => package.strip_prefix("lastword-").map(str::to_owned),
    }
}

/// Returns the line of a dependency, for the message; its section's line in other notations.
fn line_of(manifest: &str, kind: &str, key: &str) -> usize {
    let mut here = false;
    let mut section = 1;
    for (i, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            let name = line.trim_matches(['[', ']']);
            here = name.ends_with(kind);
            if here {
                section = i + 1;
            }
            if name.ends_with(&format!("{kind}.{key}")) {
                return i + 1;
            }
        }
        let name = line.split(['.', '=', ' ']).next();
        if here && name == Some(key) {
            return i + 1;
        }
    }
    section
}
