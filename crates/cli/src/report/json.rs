//! JSON reports: the keys are the names of the fields.
//!
//! A text from a pool may have characters that change a terminal's state. They are printed as
//! escape sequences of JSON, so a program still reads the text as it is.

use std::fmt::Write;

use lastword::printable;
use serde::Serialize;

/// Formats an object on several lines.
pub(crate) fn object(report: &impl Serialize) -> String {
    escaped(serde_json::to_string_pretty(report).expect("reports have plain keys"))
}

/// Formats an object on one line.
pub(crate) fn line(report: &impl Serialize) -> String {
    escaped(serde_json::to_string(report).expect("reports have plain keys"))
}

/// Escapes the control characters that `serde_json` leaves. They are in strings: the syntax of JSON
/// is plain ASCII.
fn escaped(json: String) -> String {
    let is_shown = |c: char| !printable(&c.to_string()).starts_with('\\');
    let is_plain = |c: char| (c.is_ascii() && c != '\x7f') || (!c.is_ascii() && is_shown(c));
    if json.chars().all(is_plain) {
        return json;
    }
    let mut text = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_plain(c) {
            text.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            write!(text, "\\u{unit:04x}").expect("a string takes all text");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_of_terminals_are_escaped() {
        let text = "a\n\u{1b}\u{7f}\u{9b}2J\u{202e}ß\u{1f600}\\";
        let json = line(&text);
        assert_eq!(json, r#""a\n\u001b\u007f\u009b2J\u202eß😀\\""#);
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        assert_eq!(object(&[1]), "[\n  1\n]");
    }
}
