//! Subjects of commits: `area: Imperative summary`, at most [`COLUMNS_MAX`] columns, one idea.

/// Columns of a subject.
pub const COLUMNS_MAX: usize = 72;

/// The last commit before the rule. Subjects up to it are history.
pub const BEFORE: &str = "48dd5ccdaa29041e4a3c87222ae27b217cdc58a8";

/// Returns the problem of a subject, or `None`.
pub fn check(subject: &str) -> Option<&'static str> {
    let Some((area, summary)) = subject.split_once(": ") else {
        return Some("a subject is `area: Imperative summary`");
    };
    let is_area = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-./, ".contains(c);
    if area.is_empty() || !area.chars().all(is_area) {
        return Some("the area is a crate's name or a folder, in lower case");
    }
    if subject.chars().count() > COLUMNS_MAX {
        return Some("a subject has at most 72 columns: say the rest in the body");
    }
    if !summary.starts_with(|c: char| c.is_ascii_uppercase()) {
        return Some("the summary begins with a capital letter");
    }
    if summary.ends_with('.') || summary.contains(';') {
        return Some("one idea, without a full stop or a semicolon");
    }
    let verb = summary.split_whitespace().next().unwrap_or_default();
    if is_inflected(verb) {
        return Some("the summary begins with an imperative: Add, not Adds, Added or Adding");
    }
    None
}

/// Whether a verb carries an ending. Imperatives that end so by nature are known.
fn is_inflected(verb: &str) -> bool {
    const PLAIN: [&str; 10] =
        ["Embed", "Feed", "Need", "Seed", "Speed", "Shed", "Bring", "Ring", "String", "Focus"];
    let third = verb.ends_with('s') && !verb.ends_with("ss");
    (third || verb.ends_with("ed") || verb.ends_with("ing")) && !PLAIN.contains(&verb)
}
