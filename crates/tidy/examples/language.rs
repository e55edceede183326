//! Lists what the language rule finds, and the rates of each crate's comments and of the pages.
//!
//! `cargo run -p lastword-tidy --example language [PATH-PREFIX]`: with a prefix it also prints each
//! finding and the rates of each page below that path.

use std::collections::BTreeMap;

use tidy::language::{Language, Rates};
use tidy::{pages, repository};

fn main() -> std::io::Result<()> {
    let root = repository();
    let prefix = std::env::args().nth(1);
    let rule = Language::default();
    let mut areas: BTreeMap<String, (usize, Rates)> = BTreeMap::new();
    for path in pages::files(&root)?.into_iter().filter(|path| !pages::is_generated(path)) {
        let Ok(text) = std::fs::read_to_string(root.join(&path)) else { continue };
        let found = rule.check(&path, &text);
        if prefix.as_ref().is_some_and(|prefix| path.starts_with(prefix.as_str())) {
            found.iter().for_each(|finding| println!("{finding}"));
            if path.ends_with(".md") {
                let mut rates = Rates::default();
                rates.add(&path, &text);
                let (median, colons) = (rates.median(), rates.colons_in_100());
                println!("{path}: {median}; {colons:.0} % of {}", rates.sentences.len());
            }
        }
        let area: Vec<&str> = path.split('/').take(2).collect();
        for name in [area.join("/"), "all".to_owned()] {
            let (count, rates) = areas.entry(name).or_default();
            *count += found.len();
            if path.ends_with(".rs") || path.ends_with(".md") {
                rates.add(&path, &text);
            }
        }
    }
    println!(
        "area: findings, words; in 1000 words `who`, `nobody`, `what`; median sentence; `:` or `;`"
    );
    for (area, (count, rates)) in areas.iter().filter(|(_, (_, rates))| rates.words > 0) {
        let [a, b, c] = [rates.who, rates.nobody, rates.what].map(|count| rates.in_1000(count));
        let (median, colons) = (rates.median(), rates.colons_in_100());
        println!("{area}: {count}, {}; {a:.2} {b:.2} {c:.2}; {median}; {colons:.0} %", rates.words);
    }
    Ok(())
}
