//! Every rule finds a sample that breaks it, and nothing in a sample that keeps it.

use tidy::rules::{self, COLUMNS_MAX, FILE_LINES_MAX, MARKS};
use tidy::source::{Function, Source};
use tidy::{Finding, arrows, circles, commands, doubles, format, pages, path};

fn source(text: &str) -> Source {
    Source::new("crates/words/src/sample.rs", text)
}

/// The lines that a rule finds.
fn lines(rule: fn(&Source) -> Vec<Finding>, text: &str) -> Vec<usize> {
    rule(&source(text)).iter().map(|finding| finding.line).collect()
}

#[test]
fn finding_names_file_line_rule_and_repair() {
    let found = rules::module_docs(&source("\nfn f() {}\n"));
    let text = found[0].to_string();
    assert!(text.starts_with("crates/words/src/sample.rs:2: module-docs: "), "{text}");
    assert!(text.contains("starts with `//!`"), "{text}");
}

#[test]
fn missing_file_link_or_test_is_found() {
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
fn command_with_a_missing_package_or_target_is_found() {
    let package = [
        ("lib", vec!["medium"]),
        ("test", vec!["pools", "dax"]),
        ("bench", vec![]),
        ("example", vec!["world"]),
        ("bin", vec![]),
    ];
    let sets = package.map(|(kind, names)| (kind, names.into_iter().map(str::to_owned).collect()));
    let targets = commands::Targets::from([("lastword-a".to_owned(), sets.into_iter().collect())]);
    let source = "#[test]\nfn page_is_kept() {}\n\nfn helper() {}\n".to_owned();
    let files = ["crates/a/tests/pools/disk.rs", "crates/a/src/pool.rs"];
    let sources = files.map(|path| (path.to_owned(), source.clone()));
    let tests = commands::tests(&targets, &sources);
    let of = |text: &str| {
        let found = commands::check("run", text, &targets, &tests);
        found.into_iter().map(|finding| finding.line).collect::<Vec<_>>()
    };
    let there = "`cargo test -p lastword-a --test pools NAME`, cargo run --example world -- -p x\n\
                 cargo test -p CRATE --lib; cargo test -p \"$package\" --test $test\n\
                 bring_tests lastword-a --test dax \\\n --test pools\n\
                 /tests/lastword-a/medium pool:: /tests/lastword-a/$test /tests/x/y.rs";
    assert_eq!(of(there), []);
    assert_eq!(of("cargo test -p lastword-b --test pools"), [1, 1]);
    assert_eq!(of("\n`cargo test -p lastword-a --test pool`"), [2]);
    assert_eq!(of("//! `cargo test -p\n//! lastword-a --test pool`"), [1]);
    assert_eq!(of("cargo bench --bench world"), [1]);
    assert_eq!(of("bring_tests lastword-a --test dax \\\n --test pool"), [1]);
    assert_eq!(of("\n/tests/lastword-a/pool\n/tests/lastword-b/dax"), [2, 3]);
    let filtered = "/tests/lastword-a/pools disk:: --test-threads 2 \\\n --skip page_is";
    assert_eq!(of(filtered), []);
    assert_eq!(of(&filtered.replace("disk", "disks")), [1]);
    assert_eq!(of(&filtered.replace("page_is", "page_was")), [1]);
    assert_eq!(of(&filtered.replace("page_is", "helper")), [1]);
}

#[test]
fn page_outside_the_book_is_found() {
    let files = ["README.md", "docs/SUMMARY.md", "docs/a.md", "docs/sub/b.md", "docs/x.svg"];
    let files = files.map(str::to_owned);
    let of = |summary: &str| pages::missing_chapters(summary, &files).len();
    assert_eq!(of("- [A](a.md)\n  - [B](./sub/b.md)"), 0);
    assert_eq!(of("- [A](a.md)"), 1);
}

/// A page that is there but no longer generated is dropped, so that no stale copy hides a missing
/// source.
#[test]
fn generated_page_follows_from_its_source() {
    let files = ["crates/papers/targets/a.toml", "docs/papers/old.md", "docs/x.md"];
    let files = pages::with_generated(files.map(str::to_owned).to_vec());
    assert_eq!(files, ["crates/papers/targets/a.toml", "docs/papers/a.md", "docs/x.md"]);
    let of = |text: &str| pages::check("docs/x.md", text, &files, &[]).len();
    assert_eq!((of("[a](papers/a.md)"), of("[old](papers/old.md)")), (0, 1));
    let missing = |summary: &str| pages::missing_chapters(summary, &files).len();
    assert_eq!((missing("[x](x.md) [a](papers/a.md)"), missing("[x](x.md)")), (0, 1));
}

#[test]
fn untrue_row_of_the_write_path_is_found() {
    let sources = [
        ("a.rs", "fn set() {\n    self.put(1);\n}\nfn lone() {\n    lone();\n}\n"),
        ("b.rs", "fn put(x: u64) {\n    store(x)\n}\nfn wake() {\n    x.map(Self::take);\n}\n"),
        ("c.rs", "fn take() {\n    // put(\n    retake();\n}\n"),
    ];
    let sources = sources.map(|(path, text)| (path.to_owned(), text.to_owned()));
    let of = |rows: &[&str]| -> Vec<String> {
        let page = format!("# P\n\n| # | file |\n|---|---|\n{}\n", rows.join("\n"));
        path::check(&page, &sources, 3).into_iter().map(|finding| finding.what).collect()
    };
    let rows = ["| 1 | `a.rs` | `set` | x |", "| 2 | `b.rs` | `put` | y |"];
    let thread = "| 2 | `b.rs` | `wake` (thread) | y |";
    assert_eq!(of(&rows), [""; 0]);
    assert_eq!(of(&[rows[0], thread, "| 3 | `c.rs` | `take` | z |"]), [""; 0]);
    let first = |rows: &[&str]| of(rows).first().cloned().unwrap_or_default();
    assert!(first(&["text"]).contains("no table"));
    assert!(first(&[rows[0], "| 2 | `d.rs` | `put` | y |"]).contains("no source"));
    assert!(first(&[rows[0], "| 2 | `b.rs` | `set` | y |"]).contains("no function `set`"));
    assert!(first(&[rows[0], "| 2 | `a.rs` | `set` | y |"]).contains("two rows"));
    // No call: nothing names it, a comment does, a part of a word does, it calls itself.
    assert!(first(&[rows[0], "| 2 | `c.rs` | `take` | y |"]).contains("calls `take`"));
    assert!(first(&["| 1 | `c.rs` | `take` | y |", rows[1]]).contains("calls `put`"));
    assert!(
        first(&["| 1 | `b.rs` | `put` | y |", "| 2 | `a.rs` | `lone` | x |"]).contains("`lone`")
    );
    let page = format!("{}\n{}\n{thread}\n", rows[0], rows[1]);
    let long = path::check(&page, &sources, 2);
    assert!(long.iter().any(|finding| finding.what.contains("3 files")), "{long:?}");
}

#[test]
fn import_of_a_test_double_is_found() {
    let of = |name: &str, files: &[(&str, &str)]| {
        let source =
            |(file, text): &(&str, &str)| Source::new(&format!("crates/{name}/src/{file}"), text);
        let sources: Vec<Source> = files.iter().map(source).collect();
        (doubles::imports(name, &sources).len(), doubles::check(name, &sources).len())
    };
    let double = ("mock/mod.rs", "mod disk;\nuse self::disk::Disk;\n");
    let disk = ("mock/disk.rs", "use crate::real::Real;\n");
    let real = |text: &'static str| ("real.rs", text);
    assert_eq!(of("words", &[double, disk, real("use crate::file::File;\n")]).0, 0);
    assert_eq!(of("words", &[double, disk, real("use crate::mock::disk::Disk;\n")]).0, 1);
    let test = "#[cfg(test)]\nmod tests {\n    use crate::mock::disk::Disk;\n}\n";
    assert_eq!(of("words", &[double, disk, real(test)]).0, 0);
    // Of another crate; a path that only begins alike is another item.
    assert_eq!(of("log", &[("lib.rs", "use words::mock::Disk;\n")]), (1, 1));
    assert_eq!(of("log", &[("lib.rs", "use words::{Addr, mock::Disk};\n")]), (1, 1));
    assert_eq!(of("log", &[("lib.rs", "use words::mocks::Kernel;\n")]), (0, 0));
}

#[test]
fn long_file_is_found() {
    assert_eq!(lines(rules::file_length, &"\n".repeat(FILE_LINES_MAX)), []);
    let one_more = FILE_LINES_MAX + 1;
    assert_eq!(lines(rules::file_length, &"\n".repeat(one_more)), [one_more]);
}

#[test]
fn function_ends_at_its_own_brace() {
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
fn long_line_is_found() {
    let line = |columns| format!("// {}\n", "é".repeat(columns - 3));
    assert_eq!(lines(rules::columns, &line(COLUMNS_MAX)), []);
    assert_eq!(lines(rules::columns, &line(COLUMNS_MAX + 1)), [1]);
}

#[test]
fn unfinished_work_is_found() {
    for mark in MARKS {
        assert_eq!(lines(rules::left_over_marks, &format!("//! A.\n// {mark}: later\n")), [2]);
        assert_eq!(lines(rules::left_over_marks, &format!("//! A.\n// {mark}LIST\n")), []);
    }
}

#[test]
fn file_without_module_docs_is_found() {
    assert_eq!(lines(rules::module_docs, "//! Docs.\n"), []);
    assert_eq!(lines(rules::module_docs, "\n// No docs.\n//! Late.\n"), [2]);
    assert_eq!(lines(rules::module_docs, "//!\nuse std::fmt;\n"), [1]);
    assert_eq!(lines(rules::module_docs, ""), [1]);
}

const WORKSPACE: &str = r#"
[workspace.dependencies]
words = { package = "lastword-words", path = "crates/words" }
faults = { package = "lastword-faults", path = "crates/faults" }
lw_log = { package = "lastword-log", path = "crates/log" }
lastword = { path = "crates/lastword" }
rand = "0.10"
"#;

fn arrows_of(name: &str, manifest: &str) -> Vec<usize> {
    arrows::check(name, manifest, WORKSPACE).iter().map(|finding| finding.line).collect()
}

#[test]
fn forbidden_dependency_is_found_in_every_form() {
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
fn tests_may_use_data_structures_but_no_design() {
    let tests = "[dev-dependencies]\nwords.workspace = true\nlastword.workspace = true\n";
    assert_eq!(arrows_of("log", tests), [3]);
    assert_eq!(arrows_of("cli", tests), []);
}

#[test]
fn test_double_in_product_code_is_found() {
    let manifest = |section| format!("[{section}]\nfaults.workspace = true\n");
    for product in ["system", "words", "medium", "log", "alloc", "lastword", "capi"] {
        assert_eq!(arrows_of(product, &manifest("dependencies")), [2], "{product}");
        assert_eq!(arrows_of(product, &manifest("dev-dependencies")), [], "{product}");
    }
    assert_eq!(arrows_of("crash", &manifest("dependencies")), []);
}

#[test]
fn missing_row_and_broken_manifest_are_found() {
    assert_eq!(arrows_of("surprise", ""), [1]);
    assert_eq!(arrows_of("words", "[dependencies"), [1]);
    assert!(arrows::check("words", "", "[").len() == 1);
}

#[test]
fn format_ends_at_next_heading_and_drift_is_found() {
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

#[test]
fn import_circle_is_found_through_every_kind_of_path() {
    let of = |files: &[(&str, &str)]| {
        let path = |file: &str| format!("crates/words/src/{file}.rs");
        let sources: Vec<Source> =
            files.iter().map(|(file, text)| Source::new(&path(file), text)).collect();
        let circle = circles::largest(&circles::graph("words", &sources));
        circle.iter().map(|path| path.join("::")).collect::<Vec<_>>()
    };
    let lib = ("lib", "mod a;\nmod b;\nmod c;\n");
    let a = ("a/mod", "mod deep;\nuse crate::{b::B, c::{self, C}};\n");
    let none: [&str; 0] = [];
    assert_eq!(of(&[lib, a, ("b", "use std::fmt;\n"), ("c", "")]), none);
    // A group, a path in code, a parent, a child.
    let b = ("b", "fn f() -> crate::c::C { todo!() }\n");
    let c = ("c", "use super::a::deep::D;\n");
    let deep = ("a/deep", "use super::A;\n");
    assert_eq!(of(&[lib, a, b, c, deep]), ["a", "a::deep", "b", "c"]);
    assert_eq!(of(&[lib, ("a/mod", "pub use deep::D;\n"), ("a/deep", "use super::A;\n")]).len(), 2);
    // Tests, comments and strings import nothing.
    let tests = "// crate::a\nconst S: &str = \"crate::a\";\n#[cfg(test)]\nmod tests {\n    \
                 use crate::a::A;\n}\n";
    assert_eq!(of(&[lib, a, ("b", tests), ("c", "")]), none);
    let module = ("b", "#[cfg(test)]\nmod tests;\n");
    assert_eq!(of(&[lib, a, module, ("b/tests", "use crate::a::A;\n"), ("c", "")]), none);
}

#[test]
fn large_import_circle_is_reported() {
    let file = |at: usize| {
        let next = (at + 1) % (circles::LIMIT + 1);
        Source::new(&format!("crates/words/src/m{at}.rs"), &format!("use crate::m{next}::X;\n"))
    };
    let sources: Vec<Source> = (0..=circles::LIMIT).map(file).collect();
    let found = circles::check("words", &sources);
    assert!(found[0].to_string().contains("11 modules import each other, at most 10"));
    assert!(circles::check("words", &sources[1..]).is_empty());
}
