//! Ways that once broke a promise, gone again: nothing is broken on them any more.
//!
//! A trace belongs to the program that it was found with: what its choices say changes when the
//! program does. It goes on to be a way near the one that failed.
#![allow(clippy::unwrap_used, reason = "a test says best by its panic what went wrong")]

use std::fs;
use std::path::Path;

use crash::{Limits, Prepared, Tier, Trace, explore};

/// The traces, each with the name of its file.
fn traces() -> Vec<(String, Trace)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/regressions");
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let trace = |file: &Path| {
        let text = fs::read_to_string(file).unwrap();
        let line = text.lines().find(|line| !line.starts_with('#')).unwrap().parse();
        (file.file_name().unwrap().to_string_lossy().into_owned(), line.unwrap())
    };
    files.iter().map(|file| trace(file)).collect()
}

#[test]
fn what_was_mended_stays_mended() {
    let traces = traces();
    assert!(traces.len() >= 4, "the traces are not there");
    for (name, trace) in traces {
        let (report, heard) = trace.replay().unwrap();
        assert_eq!(report.violation, None, "{name}\n{}", heard.join("\n"));
    }
}

/// The way itself may have moved: what is near it is gone too.
#[test]
fn the_cases_of_mended_bugs_hold() {
    for (name, trace) in traces() {
        let prepared = Prepared::new(&trace.case).unwrap().unwrap();
        let limits = Limits { executions: 300, ..Limits::default() };
        let found = explore(&trace.case, &prepared, Tier::C { seed: 1 }, limits);
        if let Some((violation, trace)) = found.violation {
            panic!("{name}: {violation}\n{trace}");
        }
    }
}
