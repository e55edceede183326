//! Every rule, on this repository.

use std::path::PathBuf;

use tidy::source::Source;
use tidy::{Finding, arrows, crates, format, pages, repository, rules, sources};

fn report(found: &[Finding]) {
    let lines: Vec<String> = found.iter().map(Finding::to_string).collect();
    assert!(found.is_empty(), "{} places to mend:\n{}", found.len(), lines.join("\n"));
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
fn every_source_file_keeps_the_rules() {
    let mut found = Vec::new();
    for (path, text) in all_sources() {
        let source = Source::new(&path, &text);
        found.extend(rules::ALL.iter().flat_map(|rule| rule(&source)));
    }
    report(&found);
}

#[test]
fn pages_name_what_is_there() {
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
fn every_page_is_a_chapter_of_the_book() {
    let root = repository();
    let files = pages::files(&root).expect("the repository can be read");
    assert!(files.iter().filter(|file| file.starts_with("docs/")).count() > 20, "it was looked at");
    report(&pages::missing_chapters(&read(root.join(pages::SUMMARY)), &files));
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
fn the_page_of_formats_is_what_the_sources_say() {
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
