//! Lists of designs that are text, against the registry of designs.
//!
//! `UPDATE=1 cargo test -p lastword-tests --test registry` writes the table of
//! docs/concepts/designs.md.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use lastword::{DesignInfo, Isolation, for_each_design};

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(path)
}

fn text(path: &str) -> String {
    std::fs::read_to_string(file(path)).unwrap()
}

/// The designs that programs choose from, in the order of their numbers.
fn numbered() -> Vec<&'static DesignInfo> {
    let mut designs: Vec<_> =
        DesignInfo::ALL.iter().filter(|design| design.number.is_some()).collect();
    designs.sort_by_key(|design| design.number);
    designs
}

const PAGE: &str = "docs/concepts/designs.md";
const HEAD: &str = "| design | steps | isolation | durable | use |\n|---|---|---|---|---|\n";

fn row(design: &DesignInfo) -> String {
    let DesignInfo { name, about, isolation, durability, used_for, .. } = design;
    // A simulated design may have the name of a design without durability, and a page.
    let has_page = design.is_durable && file(&format!("docs/designs/{name}.md")).exists();
    let name = match has_page {
        true => format!("[`{name}`](../designs/{name}.md)"),
        false => format!("`{name}`"),
    };
    let default = if design.number == Some(0) { " (default)" } else { "" };
    format!("| {name}{default} | {about} | {isolation} | {durability} | {used_for} |\n")
}

#[test]
fn table_in_the_book_equals_the_registry() {
    let page = text(PAGE);
    let begin = page.find(HEAD).unwrap() + HEAD.len();
    let end = begin + page[begin..].find("\n\n").unwrap() + 1;
    let rows: String = numbered().into_iter().map(row).collect();
    if page[begin..end] != rows && std::env::var_os("UPDATE").is_some() {
        let page = format!("{}{rows}{}", &page[..begin], &page[end..]);
        std::fs::write(file(PAGE), page).unwrap();
        return;
    }
    assert_eq!(page[begin..end], rows, "run UPDATE=1 cargo test -p lastword-tests --test registry");
}

#[test]
fn page_on_isolation_has_every_exception() {
    let page = text("docs/concepts/isolation.md");
    let weaker = |design: &&DesignInfo| design.isolation != Isolation::Serializable;
    for design in numbered().into_iter().filter(weaker) {
        let (name, isolation) = (format!("`{}`", design.name), design.isolation.to_string());
        let is_row = |line: &&str| {
            let mut cells = line.split('|').map(str::trim).skip(1);
            let (designs, claim) = (cells.next(), cells.next());
            designs.is_some_and(|designs| designs.split(", ").any(|one| one == name))
                && claim.is_some_and(|claim| claim.starts_with(&isolation))
        };
        assert!(page.lines().any(|line| is_row(&line)), "no row has {name} with {isolation}");
    }
}

macro_rules! named {
    (
        []
        volatile { $($volatile:tt)* }
        durable { $($durable:tt)* }
        research { $($research:tt)* }
    ) => {
        named!($($volatile)* $($durable)*)
    };
    ($($variant:ident = $number:literal: $design:ty { $($fact:tt)* } [$($types:tt)*])*) => {
        [$(stringify!($variant)),*]
    };
}

#[test]
fn module_table_equals_the_registry() {
    let module = text("crates/lastword/src/design/mod.rs");
    let row = |line: &str| Some(line.strip_prefix("//! | [`")?.split_once('`')?.0.to_owned());
    let mut found: Vec<String> = module.lines().filter_map(row).collect();
    let mut expected = for_each_design!([named]).map(str::to_owned).to_vec();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn numbers_and_names_are_unique() {
    for (at, design) in DesignInfo::ALL.iter().enumerate() {
        for other in &DesignInfo::ALL[..at] {
            assert_ne!(design.name, other.name);
            assert!(design.number.is_none() || design.number != other.number, "{}", design.name);
        }
    }
}

/// C programs are compiled with the numbers, and superblocks contain the names.
#[test]
fn released_numbers_and_names_stay() {
    let released = ["decoupled", "snapshot", "undo", "redo", "volatile", "plain"];
    let found: Vec<&str> = numbered().iter().map(|design| design.name).collect();
    assert_eq!(found[..released.len()], released);
}
