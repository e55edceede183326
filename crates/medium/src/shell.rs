//! Shell commands in error messages.
//!
//! A user copies a command from a message and runs it, often as root. A path with a space or a
//! quote must stay one word there, or the command acts on other files. So every message that has a
//! path in a command quotes it by [`quoted`], after a `--` that ends the options.

use std::path::Path;

/// Returns the path as one word of a POSIX shell. Bytes that are not UTF-8 are replaced, as in
/// every message.
#[must_use]
pub fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn quoted_path_is_one_shell_word() {
        for path in ["a.pool", "two words", "it's", "'", "-rf", "$(false)`false`\"\\;&*~", "a\nb"] {
            let script = format!("printf %s {}", quoted(Path::new(path)));
            let shown = Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&shown.stdout), *path);
        }
    }
}
