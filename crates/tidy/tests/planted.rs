//! Every rule finds what it is there for, and nothing beside it.

use tidy::rules::{self, COLUMNS_MAX, FILE_LINES_MAX, FUNCTION_LINES_MAX, MARKS};
use tidy::source::{Function, Source};
use tidy::{Finding, arrows, format, pages};

fn source(text: &str) -> Source {
    Source::new("crates/words/src/sample.rs", text)
}

/// The lines that a rule finds.
fn lines(rule: fn(&Source) -> Vec<Finding>, text: &str) -> Vec<usize> {
    rule(&source(text)).iter().map(|finding| finding.line).collect()
}

#[test]
fn a_message_names_file_line_rule_and_what_to_do() {
    let found = rules::unsafe_code(&source("//! A sample.\n\nunsafe fn f() {}\n"));
    let text = found[0].to_string();
    assert!(text.starts_with("crates/words/src/sample.rs:3: unsafe: "), "{text}");
    assert!(text.contains("move it there"), "{text}");
}

#[test]
fn name_that_is_not_there_is_found() {
    let files = ["README.md", "docs/a.md", "docs/sub/b.md", "crates/log/src/ring.rs"];
    let files = files.map(str::to_owned);
    let names = pages::names(["fn a_test_that_is_there_now() {} let few_words = 1;"]);
    let of = |text: &str| {
        let found = pages::check("docs/a.md", text, &files, &names);
        found.into_iter().map(|finding| (finding.line, finding.rule)).collect::<Vec<_>>()
    };
    // A whole path, a path's end; a link to a file, a folder, a heading, another site.
    let there = "`crates/log/src/ring.rs`, `src/ring.rs`, `ring.rs`\n\
                 [b](sub/b.md) [s](sub) [up](../README.md) [h](#head) [w](https://a.b/c.md)\n\
                 `a_test_that_is_there_now`, `a_test_that_is_there`, `few_words`, `Options::x`";
    assert_eq!(of(there), []);
    assert_eq!(of("\n`emulated.rs` and `log/ring.rs`"), [(2, "file"), (2, "file")]);
    // The end of a name is no name.
    assert_eq!(of("`g.rs`"), [(1, "file")]);
    // Not from the folder of the page, and out of the repository.
    assert_eq!(of("[b](b.md), [up](../../README.md)"), [(1, "link"), (1, "link")]);
    assert_eq!(of("`a_test_that_was_there_once`"), [(1, "test")]);
}

#[test]
fn link_to_a_missing_heading_is_found() {
    let page = "# One *page*: `a`\n\n```\n# no heading [x](#y)\n```\n## Two, three";
    let pages = [("docs/a.md", page), ("docs/sub/b.md", "# B")];
    let pages = pages.map(|(path, text)| (path.to_owned(), text.to_owned()));
    let of = |text: &str| pages::check_anchors("docs/a.md", text, &pages).len();
    assert_eq!(of("[x](#two-three) [x](a.md#one-page-a) [x](sub/b.md#b) [x](sub/b.md)"), 0);
    assert_eq!(of("[x](#two) [x](sub/b.md#c) [x](#no-heading-xy)"), 3);
}

#[test]
fn page_outside_the_book_is_found() {
    let files = ["README.md", "docs/SUMMARY.md", "docs/a.md", "docs/sub/b.md", "docs/x.svg"];
    let files = files.map(str::to_owned);
    let of = |summary: &str| pages::missing_chapters(summary, &files).len();
    assert_eq!(of("- [A](a.md)\n  - [B](./sub/b.md)"), 0);
    assert_eq!(of("- [A](a.md)"), 1);
}

#[test]
fn a_long_file_is_found() {
    assert_eq!(lines(rules::file_length, &"\n".repeat(FILE_LINES_MAX)), []);
    let one_more = FILE_LINES_MAX + 1;
    assert_eq!(lines(rules::file_length, &"\n".repeat(one_more)), [one_more]);
}

#[test]
fn a_long_function_is_found() {
    let function = |body| format!("//! A sample.\n\nfn f() {{\n{}}}\n", "    ();\n".repeat(body));
    assert_eq!(lines(rules::function_length, &function(FUNCTION_LINES_MAX - 2)), []);
    assert_eq!(lines(rules::function_length, &function(FUNCTION_LINES_MAX - 1)), [3]);
}

#[test]
fn a_function_ends_at_its_own_brace_whatever_strings_and_comments_hold() {
    let text = r####"
trait T { fn declared(&self, x: [u8; 2]); }
const F: fn(u8) -> u8 = f;
fn first<'a>(x: &'a str) -> char {
    // }
    /* } /* } */ } */
    let _ = ("}", '}', '\'', b'}', "\"}", r#"}"}"#, br##"}"# }"##);
    if x.is_empty() { '{' } else { '\u{7d}' }
}
impl S { fn second() {} }
fn third()
where
    u8: Copy,
{
    fn inner() {
    }
}
"####;
    let function = |name: &str, line, lines| Function { name: name.to_owned(), line, lines };
    let expected = [
        function("first", 4, 6),
        function("second", 10, 1),
        function("third", 11, 7),
        function("inner", 15, 2),
    ];
    assert_eq!(source(text).functions(), expected);
}

#[test]
fn a_long_line_is_found() {
    let line = |columns| format!("// {}\n", "é".repeat(columns - 3));
    assert_eq!(lines(rules::columns, &line(COLUMNS_MAX)), []);
    assert_eq!(lines(rules::columns, &line(COLUMNS_MAX + 1)), [1]);
}

#[test]
fn unsafe_code_is_found_outside_the_crates_that_may_have_it() {
    let text = "//! unsafe\n#![forbid(unsafe_code)]\nconst S: &str = \"unsafe\";\n\
                fn f() { unsafe { g() } }\n";
    assert_eq!(lines(rules::unsafe_code, text), [4]);
    for path in ["crates/medium/src/lib.rs", "crates/capi/src/lib.rs"] {
        assert_eq!(rules::unsafe_code(&Source::new(path, text)), []);
    }
}

#[test]
fn a_crate_root_that_does_not_forbid_unsafe_code_is_found() {
    for path in ["src/lib.rs", "src/main.rs", "src/bin/tool.rs", "src/bin/tool/main.rs"] {
        let check = |text| rules::unsafe_code(&Source::new(&format!("crates/log/{path}"), text));
        let found = check("//! Docs.\n// #![forbid(unsafe_code)]\n");
        assert_eq!(found.iter().map(|f| f.rule).collect::<Vec<_>>(), ["forbid-unsafe"], "{path}");
        assert_eq!(check("//! Docs.\n#![forbid(unsafe_code)]\n"), []);
    }
    assert_eq!(lines(rules::unsafe_code, "//! No root.\n"), []);
}

#[test]
fn left_over_marks_are_found() {
    for mark in MARKS {
        assert_eq!(lines(rules::left_over_marks, &format!("//! A.\n// {mark}: later\n")), [2]);
        assert_eq!(lines(rules::left_over_marks, &format!("//! A.\n// {mark}LIST\n")), []);
    }
    for name in ["todo", "unimplemented"] {
        assert_eq!(lines(rules::left_over_marks, &format!("fn f() {{ {name}!() }}\n")), [1]);
        assert_eq!(lines(rules::left_over_marks, &format!("fn {name}() {{}}\n")), []);
        assert_eq!(lines(rules::left_over_marks, &format!("// not `{name}!`\n")), []);
    }
}

#[test]
fn an_ignored_test_without_a_reason_is_found() {
    assert_eq!(lines(rules::reasons, "#[test]\n#[ignore]\nfn f() {}\n"), [2]);
    assert_eq!(lines(rules::reasons, "#[test]\n#[ignore = \"slow\"]\nfn f() {}\n"), []);
}

#[test]
fn a_lint_switched_off_without_a_reason_is_found() {
    for bad in ["#[allow(dead_code)]", "#![allow(dead_code)]", "#[expect(dead_code)]"] {
        assert_eq!(lines(rules::reasons, &format!("/// Docs.\n{bad}\nfn f() {{}}\n")), [2]);
        assert_eq!(lines(rules::reasons, &format!("// Why.\n{bad}\nfn f() {{}}\n")), []);
        assert_eq!(lines(rules::reasons, &format!("{bad} // why\nfn f() {{}}\n")), []);
    }
    let long = "#[allow(\n    dead_code,\n    reason = \"why\"\n)]\nfn f() {}\n";
    assert_eq!(lines(rules::reasons, long), []);
    assert_eq!(lines(rules::reasons, "#[allow(dead_code)]\nfn reason() {}\n"), [1]);
}

#[test]
fn a_file_without_module_docs_is_found() {
    assert_eq!(lines(rules::module_docs, "//! Docs.\n"), []);
    assert_eq!(lines(rules::module_docs, "\n// No docs.\n//! Late.\n"), [2]);
    assert_eq!(lines(rules::module_docs, "//!\nuse std::fmt;\n"), [1]);
    assert_eq!(lines(rules::module_docs, ""), [1]);
}

const WORKSPACE: &str = r#"
[workspace.dependencies]
words = { package = "lastword-words", path = "crates/words" }
lw_log = { package = "lastword-log", path = "crates/log" }
lastword = { path = "crates/lastword" }
rand = "0.10"
"#;

fn arrows_of(name: &str, manifest: &str) -> Vec<usize> {
    arrows::check(name, manifest, WORKSPACE).iter().map(|finding| finding.line).collect()
}

#[test]
fn an_arrow_against_the_rules_is_found_however_it_is_written() {
    let allowed = "[dependencies]\nrand.workspace = true\nwords.workspace = true\n";
    assert_eq!(arrows_of("collections", allowed), []);
    assert_eq!(arrows_of("words", allowed), [3]);
    let renamed = "[dependencies]\nwords.workspace = true\nlw_log = { workspace = true }\n";
    assert_eq!(arrows_of("collections", renamed), [3]);
    let direct = "[dependencies]\nx = { package = \"lastword-log\", path = \"../log\" }\n";
    assert_eq!(arrows_of("sim", direct), [2]);
    let target = "[target.'cfg(unix)'.dependencies]\nlastword.workspace = true\n";
    assert_eq!(arrows_of("workloads", target), [2]);
    let table = "\n[build-dependencies.lastword]\nworkspace = true\n";
    assert_eq!(arrows_of("sim", table), [2]);
}

#[test]
fn tests_may_take_data_structures_but_no_design() {
    let tests = "[dev-dependencies]\nwords.workspace = true\nlastword.workspace = true\n";
    assert_eq!(arrows_of("log", tests), [3]);
    assert_eq!(arrows_of("cli", tests), []);
}

#[test]
fn a_crate_without_a_row_and_a_broken_manifest_are_found() {
    assert_eq!(arrows_of("surprise", ""), [1]);
    assert_eq!(arrows_of("words", "[dependencies"), [1]);
    assert!(arrows::check("words", "", "[").len() == 1);
}

#[test]
fn a_format_ends_at_the_next_heading_and_drift_is_found() {
    let text = "//! A module.\n//!\n//! # Durable format: ring\n//! ```text\n//! # no heading\n\
                //!   0 | magic |\n//! ```\n//! Then.\n//! # Other\n//! no\n\
                //! # Durable format: record\n//! one\n\n//! # Durable format: late\n";
    let sections = format::sections(text);
    assert_eq!(sections.len(), 2);
    assert_eq!(sections[0].title, "ring");
    assert_eq!(sections[0].text, "```text\n# no heading\n  0 | magic |\n```\nThen.\n");
    assert_eq!(sections[1].text, "one\n");

    let page = |text: &str| format::page(&[("crates/log/src/ring.rs".to_owned(), text.to_owned())]);
    assert!(page(text).contains("\n## ring\n\nSource: `crates/log/src/ring.rs`\n\n```text\n"));
    let (before, after) = (page(text), page(&text.replace("magic", "MAGIC")));
    let line = before.lines().position(|line| line.contains("magic")).map(|i| i + 1);
    assert_eq!(format::first_difference(&before, &after), line);
    assert_eq!(format::first_difference(&before, &before), None);
}
