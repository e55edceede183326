//! Reports for programs: one object, its keys the fields' names.

use serde::Serialize;

/// One object on several lines.
pub(crate) fn object(report: &impl Serialize) -> String {
    serde_json::to_string_pretty(report).expect("reports have plain keys")
}
