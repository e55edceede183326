//! Test doubles: product code does not import a module that stands in for a real one in tests.
//!
//! The rule takes the import graph of [`circles`], which leaves out code behind
//! `#[cfg(test)]`, and reports edges that lead into a double from outside of it. Paths from one
//! crate into a double of another are found by their text. A double in a crate of its own needs no
//! row here: [`arrows`](crate::arrows) keeps product crates from depending on it.

use std::collections::BTreeSet;

use crate::Finding;
use crate::circles;
use crate::source::Source;

/// The test doubles: crate, and module in it.
pub const DOUBLES: [(&str, &[&str]); 1] = [("words", &["mock"])];

/// The crates that a product is built from.
pub const PRODUCT: [&str; 7] =
    ["words", "medium", "log", "alloc", "collections", "lastword", "capi"];

const RULE: &str = "doubles";

/// Returns the modules of a crate that import a test double: each module and the double.
pub fn imports(name: &str, sources: &[Source]) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for (from, targets) in circles::graph(name, sources) {
        let is_in = |path: &[String], (owner, double): &(&str, &[&str])| {
            *owner == name && path.len() >= double.len() && path.iter().zip(*double).all(same)
        };
        if DOUBLES.iter().any(|double| is_in(&from, double)) {
            continue;
        }
        let into = |target: &Vec<String>| DOUBLES.iter().any(|double| is_in(target, double));
        for target in targets.iter().filter(|target| into(target)) {
            found.insert((from.join("::"), target.join("::")));
        }
    }
    for (from, path) in circles::foreign_paths(name, sources) {
        let is_double = |(owner, double): &&(&str, &[&str])| {
            *owner != name && path[0] == *owner && path[1..].iter().zip(*double).all(same)
        };
        let double = DOUBLES.iter().filter(|(_, double)| path.len() > double.len());
        for (owner, double) in double.filter(is_double) {
            found.insert((from.join("::"), format!("{owner}::{}", double.join("::"))));
        }
    }
    found
}

fn same((word, other): (&String, &&str)) -> bool {
    word == other
}

/// Returns the findings for a crate: one for each import.
pub fn check(name: &str, sources: &[Source]) -> Vec<Finding> {
    let finding = |(from, double): &(String, String)| {
        let what = format!("`{from}` imports the test double `{double}`: pass it in from the test");
        Finding { file: format!("crates/{name}/src"), line: 1, rule: RULE, what }
    };
    imports(name, sources).iter().map(finding).collect()
}
