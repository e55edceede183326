//! The ways on which bugs were found are gone again: tests/regressions/NAME.trace, comments and a
//! trace each.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};

use crash::Trace;

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/regressions");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "trace")).collect()
}

#[test]
fn no_way_that_once_failed_fails() {
    let files = files();
    assert!(files.len() >= 2, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        for line in lines {
            let trace: Trace = line.parse().unwrap();
            let (report, heard) = trace.replay().unwrap();
            let heard = heard.join("\n");
            assert_eq!(report.violation, None, "{}\n{heard}", file.display());
            // The trace still goes where the bug was.
            let crashes = heard.matches("the power goes").count();
            assert_eq!(crashes, trace.case.model.crashes, "{}\n{heard}", file.display());
            if std::env::var_os("HEARD").is_some() {
                println!("{}\n{heard}\n", file.display());
            }
        }
    }
}
