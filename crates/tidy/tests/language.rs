//! The language rule and the subject rule find what they are for, and nothing beside it.

use std::collections::BTreeMap;

use tidy::language::{Language, Rates, against, baseline, counts, render};
use tidy::{Finding, subjects};

/// The lines of a file's findings.
fn lines(path: &str, text: &str) -> Vec<usize> {
    Language::default().check(path, text).iter().map(|finding| finding.line).collect()
}

#[test]
fn banned_words_are_found_in_comments_strings_and_names() {
    let of = |text| lines("crates/log/src/sample.rs", text);
    assert_eq!(of("//! A worker that waits.\nfn ring_wraps() {}\n"), []);
    assert_eq!(of("// The thread\n// who waits.\n"), [2]);
    assert_eq!(of("let x = \"nobody waits\";\n"), [1]);
    assert_eq!(of("let x = \"a\\nwho b\";\n"), [1]);
    assert_eq!(of("fn lap_is_over() {}\n"), [1]);
    // Code and code spans are names.
    assert_eq!(of("let lap = who;\n// `lap` and `who` are names.\n"), []);
    assert_eq!(of("//! ```\n//! // who knows\n//! ```\n//! Text.\n"), []);
    assert_eq!(of("//! ```text\n//! who\n//! ```\n"), [2]);
}

#[test]
fn phrase_across_lines_is_found_at_its_first_line() {
    assert_eq!(lines("docs/a.md", "One line.\nGroups that are under\nway here.\n"), [2]);
    assert_eq!(lines("docs/a.md", "under\n\nway\n"), []);
}

#[test]
fn question_and_excepted_phrases_are_no_findings() {
    assert_eq!(lines("docs/a.md", "What survives a crash?\n"), []);
    assert_eq!(lines("docs/a.md", "What survives: the log.\n"), [1]);
    assert_eq!(lines("docs/a.md", "The home location of a line.\n"), []);
    assert_eq!(lines("docs/a.md", "A customer's home warehouse.\n"), []);
    assert_eq!(lines("a.c", "#define HOME_BUCKET(key) 0 /* not HOME */\n"), [1]);
    assert_eq!(lines("a.toml", "heed = 1 # of use\n# Workloads heed it.\n"), [2]);
    assert_eq!(lines("docs/a.md", "Groups in flight, and two flights.\nIn flight.\n"), [1]);
    assert_eq!(lines("docs/a.md", "Tables of cars, flights and rooms.\n"), []);
    assert_eq!(lines("a.rs", "fn to_home() {}\nfn to_home_tile() {}\n"), [1]);
    assert_eq!(lines("docs/a.md", "It is at home.\n"), [1]);
    assert_eq!(lines("GLOSSARY.md", "It is at home.\n"), []);
    assert_eq!(lines("a.bin", "It is at home.\n"), []);
}

fn finding(file: &str) -> Finding {
    Finding { file: file.to_owned(), line: 7, rule: "language", what: String::new() }
}

#[test]
fn baseline_may_only_shrink() {
    let found = [finding("a"), finding("a"), finding("b")];
    let allowed = baseline("2 a\n1 b\n");
    assert_eq!(counts(&found), allowed);
    assert_eq!(render(&allowed), "2 a\n1 b\n");
    assert_eq!(against(&allowed, &found), []);
    // One more in `b`; one less than is allowed in `a`.
    let rules = |allowed: &BTreeMap<String, usize>| {
        let found = against(allowed, &found);
        found.into_iter().map(|it| (it.file, it.rule)).collect::<Vec<_>>()
    };
    assert_eq!(rules(&baseline("2 a\n")), [("b".to_owned(), "language")]);
    assert_eq!(rules(&baseline("3 a\n1 b\n")), [("a".to_owned(), "language-baseline")]);
    assert_eq!(rules(&baseline("2 a\n1 b\n1 c\n")), [("c".to_owned(), "language-baseline")]);
}

#[test]
fn rates_count_words_and_sentences() {
    let mut rates = Rates::default();
    rates.add("a.md", "# Head\n\nWho knows what it is; nobody. A b `c d` e.\n\n| who | table |\n");
    assert_eq!((rates.words, rates.who, rates.nobody, rates.what), (11, 1, 1, 1));
    assert_eq!((rates.sentences.as_slice(), rates.colons), ([6, 4].as_slice(), 1));
    assert_eq!((rates.median(), rates.colons_in_100()), (6, 50.0));
    let mut comments = Rates::default();
    comments.add("a.rs", "let who = 1; // three more words\n");
    assert_eq!((comments.words, comments.who), (3, 0));
}

#[test]
fn subjects_that_break_the_form_are_found() {
    for good in ["log: Reject torn groups", "docs, cli: Name the limit", "ci: Process pages"] {
        assert_eq!(subjects::check(good), None, "{good}");
    }
    let long = format!("log: Reject {}", "x".repeat(61));
    for bad in [
        "Reject torn groups",
        "Log: Reject torn groups",
        "log: reject torn groups",
        "log: Rejects torn groups",
        "log: Rejected torn groups",
        "log: Rejecting torn groups",
        "log: Reject torn groups.",
        "log: Reject torn groups; add a test",
        long.as_str(),
    ] {
        assert!(subjects::check(bad).is_some(), "{bad}");
    }
}
