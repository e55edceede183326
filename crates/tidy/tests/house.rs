//! Every rule, on this repository.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use tidy::language::{self, Language};
use tidy::source::Source;
use tidy::{
    Finding, arrows, circles, commands, crates, doubles, format, pages, path, repository, rules,
    sources, sources_in, subjects,
};

fn report(found: &[Finding]) {
    let lines: Vec<String> = found.iter().map(Finding::to_string).collect();
    assert!(found.is_empty(), "{} places to repair:\n{}", found.len(), lines.join("\n"));
}

fn read(path: PathBuf) -> String {
    let text = std::fs::read_to_string(&path);
    text.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn all_sources() -> Vec<(String, String)> {
    let found = sources(&repository()).expect("the repository can be read");
    assert!(found.iter().any(|(path, _)| path == "crates/words/src/lib.rs"), "it was looked at");
    found
}

#[test]
fn source_files_keep_the_rules() {
    let python = sources_in(&repository(), "python/src").expect("the repository can be read");
    assert!(python.iter().any(|(path, _)| path == "python/src/lib.rs"), "it was looked at");
    let mut found = Vec::new();
    for (path, text) in all_sources().into_iter().chain(python) {
        let source = Source::new(&path, &text);
        found.extend(rules::ALL.iter().flat_map(|rule| rule(&source)));
    }
    report(&found);
}

#[test]
fn pages_name_existing_files_and_tests() {
    let root = repository();
    let files = pages::files(&root).expect("the repository can be read");
    let all = pages::pages(&root).expect("the repository can be read");
    assert!(all.iter().any(|(path, _)| path == "docs/operating/durability.md"), "it was looked at");
    let sources = all_sources();
    let names = pages::names(sources.iter().map(|(_, text)| text.as_str()));
    let check = |(path, text): &(String, String)| pages::check(path, text, &files, &names);
    let mut found: Vec<Finding> = all.iter().flat_map(check).collect();
    found.extend(all.iter().flat_map(|(path, text)| pages::check_anchors(path, text, &all)));
    report(&found);
}

#[test]
fn commands_name_existing_packages_and_targets() {
    let root = repository();
    let targets = commands::targets(&root).expect("the repository can be read");
    assert!(targets["lastword-tests"]["test"].contains("pools"), "{targets:?}");
    let tests = commands::tests(&targets, &all_sources());
    let has = |program: &str, test: &str| tests[program].iter().any(|name| name == test);
    assert!(has("lastword-tests/pools", "recovery::durable_prefix_survives_exactly"));
    let mut files = pages::files(&root).expect("the repository can be read");
    files.retain(|path| !pages::is_generated(path));
    files.extend([".ci/run", ".ci/book"].map(str::to_owned));
    assert!(files.iter().any(|path| path == "tests/dax/init"), "it was looked at");
    let mut found = Vec::new();
    for path in files.iter().filter(|path| !path.starts_with("crates/tidy/")) {
        if let Ok(text) = std::fs::read_to_string(root.join(path)) {
            found.extend(commands::check(path, &text, &targets, &tests));
        }
    }
    report(&found);
}

#[test]
fn every_page_is_a_chapter_of_the_book() {
    let root = repository();
    let files = pages::files(&root).expect("the repository can be read");
    assert!(files.iter().filter(|file| file.starts_with("docs/")).count() > 20, "it was looked at");
    report(&pages::missing_chapters(&read(root.join(pages::SUMMARY)), &files));
}

#[test]
fn write_path_page_follows_the_sources() {
    let page = read(repository().join(path::PAGE));
    report(&path::check(&page, &all_sources(), path::FILES_MAX));
}

/// With `UPDATE` the baseline takes lower counts. Its sum never grows.
#[test]
fn language_keeps_to_the_glossary() {
    let root = repository();
    let rule = Language::default();
    let mut found = Vec::new();
    let files = pages::files(&root).expect("the repository can be read");
    for path in files.into_iter().filter(|path| !pages::is_generated(path)) {
        if let Ok(text) = std::fs::read_to_string(root.join(&path)) {
            found.extend(rule.check(&path, &text));
        }
    }
    let file = root.join(language::BASELINE);
    let mut allowed = language::baseline(&std::fs::read_to_string(&file).unwrap_or_default());
    if std::env::var_os("UPDATE").is_some() {
        let now = language::counts(&found);
        let sum = |counts: &BTreeMap<String, usize>| counts.values().sum::<usize>();
        if sum(&now) <= sum(&allowed) || !file.exists() {
            std::fs::write(&file, language::render(&now)).expect("the baseline can be written");
            allowed = now;
        }
    }
    report(&language::against(&allowed, &found));
}

/// A shallow or exported checkout has no history to read.
#[test]
fn commit_subjects_are_imperative() {
    let range = format!("{}..HEAD", subjects::BEFORE);
    let mut git = Command::new("git");
    let log = git.current_dir(repository()).args(["log", "--format=%h %s", &range]).output();
    let Some(log) = log.ok().filter(|log| log.status.success()) else {
        return eprintln!("skipped: commit_subjects_are_imperative: no history here");
    };
    let mut found = Vec::new();
    for line in String::from_utf8_lossy(&log.stdout).lines() {
        let (commit, subject) = line.split_once(' ').expect("git was asked for two fields");
        if let Some(problem) = subjects::check(subject) {
            let what = format!("{problem}: `{subject}`");
            found.push(Finding { file: commit.to_owned(), line: 1, rule: "subject", what });
        }
    }
    report(&found);
}

#[test]
fn dependencies_follow_the_arrows() {
    let root = repository();
    let workspace = read(root.join("Cargo.toml"));
    let names = crates(&root).expect("the repository can be read");
    assert!(names.iter().any(|name| name == "words"));
    let mut found = Vec::new();
    for name in names {
        let manifest = read(root.join("crates").join(&name).join("Cargo.toml"));
        found.extend(arrows::check(&name, &manifest, &workspace));
    }
    report(&found);
}

#[test]
fn import_circles_stay_small() {
    let all = all_sources();
    let sources: Vec<Source> = all.iter().map(|(path, text)| Source::new(path, text)).collect();
    let names = crates(&repository()).expect("the repository can be read");
    let check = |name: &String| circles::check(name, &sources);
    report(&names.iter().flat_map(check).collect::<Vec<_>>());
}

#[test]
fn product_crates_import_no_test_double() {
    let all = all_sources();
    let sources: Vec<Source> = all.iter().map(|(path, text)| Source::new(path, text)).collect();
    let check = |name: &&str| doubles::check(name, &sources);
    report(&doubles::PRODUCT.iter().flat_map(check).collect::<Vec<_>>());
}

#[test]
fn format_page_matches_the_sources() {
    let page = format::page(&all_sources());
    let path = repository().join(format::PATH);
    if std::env::var_os("UPDATE").is_some() {
        let folder = path.parent().expect("it is in a folder");
        std::fs::create_dir_all(folder).expect("the folder can be made");
        std::fs::write(&path, &page).expect("the page can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    if let Some(line) = format::first_difference(&committed, &page) {
        let what = "differs from the sources: run `UPDATE=1 cargo test -p lastword-tidy`";
        let file = format::PATH.to_owned();
        report(&[Finding { file, line, rule: "format-drift", what: what.to_owned() }]);
    }
}
