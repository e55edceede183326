//! A user's crate outside of the workspace, `crates/crash/shop`: compiled and run as `cargo test`
//! does it there.
//!
//! Cargo would compile the library once more for another workspace. So this test calls the compiler
//! itself, with the libraries that it was built with. It takes the crate's sources, and checks with
//! Cargo that the manifest's two dependencies are all that a user needs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the libraries of this name beside the test: path and suffix, the newest first.
fn libraries(name: &str) -> Vec<(PathBuf, String)> {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let begin = format!("lib{name}-");
    let mut found: Vec<(PathBuf, String)> = files
        .filter_map(|path| {
            let file = path.file_name()?.to_str()?;
            let suffix = file.strip_prefix(&begin)?.strip_suffix(".rlib")?;
            let is_hash = suffix.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_hash.then(|| (path.clone(), format!("-{suffix}")))
        })
        .collect();
    let written = |path: &Path| path.metadata().unwrap().modified().unwrap();
    found.sort_by_key(|(path, _)| std::cmp::Reverse(written(path)));
    found
}

/// Returns the newest library of the crash tests, and the `lastword` that it was compiled with: the
/// library names the suffix of its dependency.
fn pair() -> (PathBuf, PathBuf) {
    let (crash, _) = libraries("lastword_crash").remove(0);
    let bytes = fs::read(&crash).unwrap();
    let is_named = |suffix: &str| bytes.windows(suffix.len()).any(|part| part == suffix.as_bytes());
    let mut all = libraries("lastword").into_iter();
    let used = all.find(|(_, suffix)| is_named(suffix));
    (used.expect("the library that the crash tests use").0, crash)
}

fn shop() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../shop")
}

/// Runs a command, and returns its output if it succeeds.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}:\n{stdout}\n{stderr}");
    stdout
}

/// Compiles a file of the user's crate.
fn compile(into: &Path, file: &str, name: &str, arguments: &[&str]) {
    let (lastword, crash) = pair();
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition=2024", "-Awarnings", "--crate-name", name]).args(arguments);
    rustc.arg("--extern").arg(format!("lastword={}", lastword.display()));
    rustc.arg("--extern").arg(format!("lastword_crash={}", crash.display()));
    rustc.arg("-L").arg(format!("dependency={}", crash.parent().unwrap().display()));
    rustc.arg("-L").arg(into).arg("--out-dir").arg(into).arg(shop().join(file));
    run(&mut rustc);
}

#[test]
fn users_crate_passes_its_own_tests() {
    let dir = tempfile::tempdir().unwrap();
    compile(dir.path(), "src/lib.rs", "shop", &["--crate-type=lib"]);
    compile(dir.path(), "tests/crash/main.rs", "tests", &["--test", "--extern", "shop"]);
    let tests = || Command::new(dir.path().join("tests"));
    let passed = run(tests().arg("--show-output"));
    assert!(passed.contains("10 passed; 0 failed; 1 ignored"), "{passed}");

    // With the trace of the printed line only that execution runs: in a test of the same explorer
    // that expects no failure, and in the test that the line names.
    let test = "bank::reply_before_the_ticket_is_found";
    let begin = "LASTWORD_CRASH_TRACE='";
    let lines = passed.lines().filter_map(|line| line.trim().strip_prefix(begin));
    let line = lines.filter_map(|line| line.strip_suffix(test)).next().expect("a line to enter");
    let (trace, command) = line.split_once('\'').unwrap();
    assert_eq!(command, " cargo test ");
    let mut alone = tests();
    alone.args(["--exact", "--ignored", "bank::reply_before_the_ticket_fails"]);
    let alone = alone.env("LASTWORD_CRASH_TRACE", trace).output().unwrap();
    let report = String::from_utf8(alone.stdout).unwrap();
    assert!(!alone.status.success() && report.contains("transfer 3 is lost"), "{report}");
    assert!(report.contains("explored: 1 executions"), "{report}");
    let entered = |test| {
        let mut tests = tests();
        run(tests.args(["--exact", "--show-output", test]).env("LASTWORD_CRASH_TRACE", trace))
    };
    let named = entered(test);
    assert!(named.contains("explored: 1 executions"), "{named}");
    let other = entered("jobs::job_accepted_before_its_ticket_is_found");
    let warning = "LASTWORD_CRASH_TRACE is of another explorer: exploring";
    assert!(other.contains(warning) && !other.contains("explored: 1 executions"), "{other}");
}

/// Every dependency of the crate is a package of its own two, so a user needs no other line.
#[test]
fn users_crate_has_one_dev_dependency() {
    let manifest = fs::read_to_string(shop().join("Cargo.toml")).unwrap();
    let (_, dependencies) = manifest.split_once("[dependencies]").unwrap();
    let lines: Vec<&str> = dependencies.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(
        lines,
        [
            "lastword = { path = \"../../lastword\" }",
            "[dev-dependencies]",
            "lastword-crash = { path = \"..\" }"
        ]
    );
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--format-version=1", "--offline", "--no-deps", "--manifest-path"]);
    let metadata = run(cargo.arg(shop().join("Cargo.toml")));
    assert!(metadata.contains("\"name\":\"shop\""), "{metadata}");
}
