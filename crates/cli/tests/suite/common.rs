//! Fixture that runs the program in a temporary directory.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_lastword");

/// Options of a short run: small tables, a small log, few transactions.
pub(crate) const TINY: [&str; 6] =
    ["--scale", "0.0005", "--log-bytes", "256K", "--transactions", "3000"];

/// A temporary directory in which the program runs.
pub(crate) struct Room(TempDir);

impl Room {
    pub(crate) fn new() -> Room {
        Room(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns the names of the files in the directory, sorted.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Returns a command that runs the program in the directory.
    pub(crate) fn program(&self) -> Command {
        let mut program = Command::new(PROGRAM);
        program.current_dir(self.0.path());
        program
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.program().args(arguments).output().unwrap()
    }

    /// Runs the program and expects this exit code. Returns its standard output.
    pub(crate) fn expect(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{stdout}\n{stderr}");
        // A success prints no error, and a failure prints at least one.
        assert_eq!(code == 0, complaints(&stderr).is_empty(), "{arguments:?}\n{stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
        stdout
    }

    /// Runs the program and expects exit code 2 and an error that contains `words`.
    pub(crate) fn refuse(&self, words: &str, arguments: &[&str]) {
        let output = self.run(arguments);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}\n{stderr}");
        assert!(stderr.starts_with("error: ") && stderr.contains(words), "{stderr}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }

    /// Runs the program and expects this exit code. Returns its JSON output.
    pub(crate) fn json(&self, code: i32, arguments: &[&str]) -> Value {
        let arguments: Vec<&str> = arguments.iter().copied().chain(["--format", "json"]).collect();
        serde_json::from_str(&self.expect(code, &arguments)).unwrap()
    }
}

/// Returns the keys of an object, sorted.
pub(crate) fn keys(object: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

/// Concatenates two lists of arguments.
pub(crate) fn with<'a>(arguments: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    arguments.iter().chain(more).copied().collect()
}

/// Returns standard error without progress lines, such as `37 of 172 points, 12 min`.
pub(crate) fn complaints(stderr: &str) -> String {
    let is_progress = |line: &str| {
        let mut words = line.split(' ');
        let is_number = |word: Option<&str>| word.is_some_and(|word| word.parse::<u64>().is_ok());
        let is_of = is_number(words.next()) && words.next() == Some("of");
        is_of && is_number(words.next()) && (line.ends_with(" s") || line.ends_with(" min"))
    };
    stderr.split_inclusive('\n').filter(|line| !is_progress(line.trim_end())).collect()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
