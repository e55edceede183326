//! JSON reports: the keys are the names of the fields.

use serde::Serialize;

/// Formats an object on several lines.
pub(crate) fn object(report: &impl Serialize) -> String {
    serde_json::to_string_pretty(report).expect("reports have plain keys")
}

/// Formats an object on one line.
pub(crate) fn line(report: &impl Serialize) -> String {
    serde_json::to_string(report).expect("reports have plain keys")
}
