//! Commands of Cargo in pages and scripts: the packages and targets that they name exist.
//!
//! A script that no test runs does not notice that a test was renamed. A command begins at `cargo
//! test`, `run`, `bench` or `build`, or at `bring_tests PACKAGE` (tests/dax/run), and ends with its
//! line. A line continues if it ends in a backslash or has an open backtick. The path
//! `/tests/PACKAGE/TARGET` is a program in the guest of tests/dax. Its filters and `--skip` names
//! match tests of this target. Words with a `$`, and those in capitals, stand for others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io};

use toml::{Table, Value};

use crate::Finding;

/// The targets of each package, by kind: `lib`, `bin`, `test`, `bench` and `example`.
pub type Targets = BTreeMap<String, BTreeMap<&'static str, BTreeSet<String>>>;

const RULE: &str = "command";
const KINDS: [(&str, &str); 3] = [("test", "tests"), ("bench", "benches"), ("example", "examples")];
const BEGINNINGS: [&str; 5] =
    ["cargo test", "cargo run", "cargo bench", "cargo build", "bring_tests"];
const GUEST: &str = "/tests/";

/// Returns the packages of the workspace, with their targets as Cargo finds them.
///
/// # Errors
/// When a folder cannot be read.
pub fn targets(root: &Path) -> io::Result<Targets> {
    let mut found = Targets::new();
    for entry in fs::read_dir(root.join("crates"))? {
        let folder = entry?.path();
        for folder in [folder.clone(), folder.join("tests")] {
            let Ok(text) = fs::read_to_string(folder.join("Cargo.toml")) else { continue };
            let Ok(manifest) = text.parse::<Table>() else { continue };
            let name = |table: &Table| table.get("name")?.as_str().map(str::to_owned);
            let Some(package) = manifest.get("package").and_then(Value::as_table) else { continue };
            let Some(package_name) = name(package) else { continue };
            let targets = found.entry(package_name.clone()).or_default();
            let lib = manifest.get("lib").and_then(Value::as_table).and_then(name);
            targets.entry("lib").or_default().extend(lib.or(Some(package_name)));
            for (kind, inside) in KINDS {
                let named = manifest.get(kind).and_then(Value::as_array);
                let tables = named.into_iter().flatten().filter_map(Value::as_table);
                let own = targets.entry(kind).or_default();
                own.extend(tables.filter_map(name));
                let looks = package.get(&format!("auto{inside}")).and_then(Value::as_bool);
                if looks != Some(false) {
                    own.extend(discovered(&folder.join(inside)));
                }
            }
            let bins = manifest.get("bin").and_then(Value::as_array);
            let tables = bins.into_iter().flatten().filter_map(Value::as_table);
            targets.entry("bin").or_default().extend(tables.filter_map(name));
        }
    }
    Ok(found)
}

/// The tests of each target, as `PACKAGE/TARGET`, by their paths: `module::name`.
pub type Tests = BTreeMap<String, Vec<String>>;

/// Returns the tests in the sources of the workspace, which are paths with texts. A module inside
/// a file is left out of a path.
pub fn tests(targets: &Targets, sources: &[(String, String)]) -> Tests {
    let mut found = Tests::new();
    for (package, kinds) in targets {
        // A package `NAME-tests` is the folder `tests` of the package `NAME`.
        let short = package.strip_suffix("-tests").unwrap_or(package);
        let short = short.strip_prefix("lastword-").unwrap_or(short);
        for (kind, names) in kinds {
            for name in names {
                let folder = match *kind {
                    "lib" => format!("crates/{short}/src"),
                    "test" => format!("crates/{short}/tests/{name}"),
                    _ => continue,
                };
                let file = format!("{folder}.rs");
                let of_target = sources.iter().filter_map(|(path, text)| {
                    let inside = match *path == file {
                        true => "",
                        false => path.strip_prefix(&folder)?.strip_prefix('/')?,
                    };
                    Some((inside, text))
                });
                let tests = of_target.flat_map(|(inside, text)| tests_in(inside, text));
                found.entry(format!("{package}/{name}")).or_default().extend(tests);
            }
        }
    }
    found
}

/// Returns the tests in a file, whose path in its target is given.
fn tests_in(path: &str, text: &str) -> Vec<String> {
    let modules: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
    let modules = modules.into_iter().filter(|part| !["", "main", "lib", "mod"].contains(part));
    let prefix: String = modules.map(|module| format!("{module}::")).collect();
    let mut found = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        is_test |= line == "#[test]";
        let Some(rest) = line.strip_prefix("fn ").filter(|_| is_test) else { continue };
        is_test = false;
        found.push(format!("{prefix}{}", rest.split('(').next().unwrap_or_default()));
    }
    found
}

/// Returns the targets in a folder: a file, or a folder with a `main.rs`.
fn discovered(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_target = |path: &std::path::PathBuf| {
        path.extension().is_some_and(|ending| ending == "rs") || path.join("main.rs").is_file()
    };
    let stem = |path: std::path::PathBuf| Some(path.file_stem()?.to_string_lossy().into_owned());
    entries.filter(is_target).filter_map(stem).collect()
}

/// Returns the packages and targets that a page or script names and that do not exist.
pub fn check(file: &str, text: &str, targets: &Targets, tests: &Tests) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut lines = (1..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        let mut line = line.to_owned();
        while is_open_line(&line)
            && let Some((_, next)) = lines.next()
        {
            let next = next.trim_start();
            let comment = ["//!", "///", "//", "#"].iter().find_map(|mark| next.strip_prefix(mark));
            line = format!("{} {}", line.trim_end_matches('\\'), comment.unwrap_or(next).trim());
        }
        let mut add = |what| {
            found.push(Finding { file: file.to_owned(), line: number, rule: RULE, what });
        };
        commands(&line)
            .for_each(|command| problems(command, targets).into_iter().for_each(&mut add));
        guests(&line, targets).into_iter().for_each(&mut add);
        filters(&line, tests).into_iter().for_each(&mut add);
    }
    found
}

/// Whether a command goes on in the next line.
fn is_open_line(line: &str) -> bool {
    let has_command = BEGINNINGS.iter().any(|beginning| line.contains(beginning));
    let is_code = line.matches('`').count() % 2 == 1 && !line.trim_start().starts_with("```");
    line.ends_with('\\') || has_command && is_code
}

/// The commands in a line, each up to the next one, or to a mark that ends it.
fn commands(line: &str) -> impl Iterator<Item = &str> {
    let begins = move |beginning| line.match_indices(beginning).map(|(at, _)| at);
    let mut starts: Vec<usize> = BEGINNINGS.into_iter().flat_map(begins).collect();
    starts.sort_unstable();
    starts.into_iter().map(|start| {
        let rest = &line[start..];
        let end = rest.find(['`', '|', '#', ';', '&', ')', '"']).unwrap_or(rest.len());
        &rest[..end]
    })
}

/// Whether a word stands for others, or is none of a name's.
fn is_open(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
    word.is_empty() || !word.chars().all(plain)
}

fn problems(command: &str, targets: &Targets) -> Vec<String> {
    // Cargo passes the rest to the program.
    let command = command.split(" -- ").next().unwrap_or_default();
    let words: Vec<&str> = command.split_whitespace().collect();
    let mut packages = Vec::new();
    let mut wanted = Vec::new();
    if words.first() == Some(&"bring_tests") {
        packages.extend(words.get(1).copied());
    }
    for pair in words.windows(2) {
        match pair[0].trim_start_matches('[') {
            "-p" | "--package" => packages.push(pair[1]),
            "--test" => wanted.push(("test", pair[1])),
            "--bench" => wanted.push(("bench", pair[1])),
            "--example" => wanted.push(("example", pair[1])),
            "--bin" => wanted.push(("bin", pair[1])),
            _ => (),
        }
    }
    if packages.iter().any(|package| is_open(package)) {
        return Vec::new();
    }
    let unknown = packages.iter().filter(|package| !targets.contains_key(**package));
    let mut found: Vec<String> = unknown
        .map(|package| format!("no package is called `{package}`: correct the name"))
        .collect();
    for (kind, target) in wanted.into_iter().filter(|(_, target)| !is_open(target)) {
        let has = |of: &str| {
            targets.get(of).and_then(|all| all.get(kind)).is_some_and(|all| all.contains(target))
        };
        let is_there = match packages.is_empty() {
            true => targets.keys().any(|package| has(package)),
            false => packages.iter().any(|package| has(package)),
        };
        // The workspaces of `comparison` and `fuzz` have programs of their own.
        let is_foreign = kind == "bin" && packages.is_empty();
        if !is_there && !is_foreign {
            let of = packages.iter().map(|package| format!(" of `{package}`")).collect::<String>();
            found.push(format!("no {kind}{of} is called `{target}`: correct the name"));
        }
    }
    found
}

/// Checks the programs of the guest of tests/dax.
fn guests(line: &str, targets: &Targets) -> Vec<String> {
    let ends = |c: char| !(c.is_ascii_alphanumeric() || "_-/$\"{}".contains(c));
    let paths = line.match_indices(GUEST).map(|(at, _)| &line[at + GUEST.len()..]);
    let paths = paths.filter_map(|rest| rest.split(ends).next()?.split_once('/'));
    let mut found = Vec::new();
    for (package, target) in paths.filter(|(package, _)| package.starts_with("lastword")) {
        let Some(all) = targets.get(package) else {
            found.push(format!("no package is called `{package}`: correct the name"));
            continue;
        };
        let programs = ["test", "lib"].into_iter().filter_map(|kind| all.get(kind)).flatten();
        if !is_open(target) && !programs.into_iter().any(|program| program == target) {
            found.push(format!("no test of `{package}` is called `{target}`: correct the name"));
        }
    }
    found
}

/// Checks the filters of the programs of the guest: a word that is no option matches a test.
fn filters(line: &str, tests: &Tests) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices(GUEST) {
        let rest = &line[at + GUEST.len()..];
        let end = rest.find(['`', '|', '#', ';', '&', ')', '"']).unwrap_or(rest.len());
        let mut words = rest[..end].split_whitespace();
        let Some((program, names)) = words.next().and_then(|program| tests.get_key_value(program))
        else {
            continue;
        };
        while let Some(word) = words.next() {
            let filter = match word {
                "--skip" => words.next().unwrap_or_default(),
                "--test-threads" => {
                    words.next();
                    continue;
                }
                "\\" => continue,
                _ if word.starts_with('-') => continue,
                _ => word,
            };
            let is_name = filter.chars().all(|c| c.is_ascii_lowercase() || "_:".contains(c));
            if is_name && !names.iter().any(|name| name.contains(filter)) {
                found.push(format!("no test of `{program}` matches `{filter}`: correct the name"));
            }
        }
    }
    found
}
