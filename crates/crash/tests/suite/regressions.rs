//! Executions that once violated a promise, run again without a violation.
//!
//! A trace belongs to the program version that produced it, because the meaning of its choices
//! changes with the code. In later versions it selects an execution near the failing one.

use std::fs;
use std::path::Path;

use crash::{Limits, Prepared, Tier, Trace, explore};

/// Returns the traces, each with the name of its file.
fn traces() -> Vec<(String, Trace)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
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
fn fixed_bugs_stay_fixed() {
    let traces = traces();
    assert!(traces.len() >= 4, "traces are missing");
    for (name, trace) in traces {
        let (report, events) = trace.replay().unwrap();
        assert_eq!(report.violation, None, "{name}\n{}", events.join("\n"));
    }
}

/// The failing execution may have moved, so executions near it are explored too.
#[test]
fn cases_of_fixed_bugs_hold() {
    for (name, trace) in traces() {
        let prepared = Prepared::new(&trace.case).unwrap().unwrap();
        let limits = Limits { executions: 300, ..Limits::default() };
        let found = explore(&trace.case, &prepared, Tier::C { seed: 1 }, limits);
        if let Some((violation, trace)) = found.violation {
            panic!("{name}: {violation}\n{trace}");
        }
    }
}
