//! The syntax of stored type names and definitions.

/// Returns the parts of a text between separators that are in no brackets. `None` if the brackets
/// do not match.
pub(super) fn split<'t>(text: &'t str, separator: &str) -> Option<Vec<&'t str>> {
    let (mut parts, mut begin, mut depth, mut before) = (Vec::new(), 0, 0_u32, ' ');
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '<' | '{' => depth += 1,
            '>' if before == '-' => {} // of `->`
            ')' | ']' | '>' | '}' => depth = depth.checked_sub(1)?,
            _ if depth == 0 && at >= begin && text[at..].starts_with(separator) => {
                parts.push(&text[begin..at]);
                begin = at + separator.len();
            }
            _ => {}
        }
        before = c;
    }
    if !text.is_empty() {
        parts.push(&text[begin..]);
    }
    (depth == 0).then_some(parts)
}

/// Returns the text between two brackets.
pub(super) fn within<'t>(text: &'t str, open: &str, close: char) -> Option<&'t str> {
    text.strip_prefix(open)?.strip_suffix(close)
}

/// Returns the type and the length of `[T; N]`.
pub(super) fn array(name: &str) -> Option<(&str, usize)> {
    let (element, length) = within(name, "[", ']')?.rsplit_once("; ")?;
    Some((element, length.parse().ok()?))
}

/// Returns whether a text is a name in Rust. It then has no control characters.
pub(super) fn is_identifier(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_in_brackets_divide_nothing() {
        assert_eq!(split("(u8, str), Pair<A, B>", ", "), Some(vec!["(u8, str)", "Pair<A, B>"]));
        assert_eq!(split("P<fn(u8) -> u16, A>", ", "), Some(vec!["P<fn(u8) -> u16, A>"]));
        assert_eq!(split("A = 0 | B(u8) = 1", " | "), Some(vec!["A = 0", "B(u8) = 1"]));
        assert_eq!(split("", ", "), Some(vec![]));
        for wrong in ["a>", "(u8", "[u8; 2", "a, b)"] {
            assert_eq!(split(wrong, ", "), None, "{wrong}");
        }
        assert_eq!(array("[[u8; 2]; 3]"), Some(("[u8; 2]", 3)));
        assert_eq!(array("[u8]"), None);
    }
}
