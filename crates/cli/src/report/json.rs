//! Reports for programs: objects, their keys the fields' names.

use serde::Serialize;

/// One object on several lines.
pub(crate) fn object(report: &impl Serialize) -> String {
    serde_json::to_string_pretty(report).expect("reports have plain keys")
}

/// One object on one line.
pub(crate) fn line(report: &impl Serialize) -> String {
    serde_json::to_string(report).expect("reports have plain keys")
}
