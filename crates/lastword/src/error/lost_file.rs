//! Files of an open pool that lost their name or part of their content, and how to rescue the rest.

use std::borrow::Cow;
use std::path::PathBuf;

use medium::LostName;

use super::{Error, commands};

/// A file of a pool that lost its name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostFile {
    /// The name that it had.
    pub path: PathBuf,
    /// How it lost its name.
    pub how: LostName,
}

/// Describes the loss of each file.
pub(super) fn sentences(files: &[LostFile], closed: bool) -> String {
    let when = if closed { "was" } else { "is" };
    let sentence = |LostFile { path, how }: &LostFile| {
        let path = path.display();
        match how {
            LostName::Replaced => {
                format!(
                    "{path} is another file: the pool's file was renamed while the pool {when} open"
                )
            }
            LostName::Unlinked { descriptor: None } => {
                format!("{path} was removed or replaced while the pool {when} open")
            }
            LostName::Unlinked { descriptor: Some(number) } => format!(
                "{path} was removed or replaced while the pool {when} open; its content is in \
                 /proc/{}/fd/{number}",
                std::process::id(),
            ),
        }
    };
    files.iter().map(sentence).collect::<Vec<_>>().join("; ")
}

/// Returns the remedy for files that lost their names.
pub(super) fn rescue(files: &[LostFile], closed: bool) -> &'static str {
    match (files.iter().any(|file| file.how != LostName::Replaced), closed) {
        (false, false) => {
            "the pool refuses transactions that write until each file is renamed back"
        }
        (false, true) => "rename each file back",
        (true, false) => {
            "the pool refuses transactions that write; save it with `Pool::backup`, or flush and \
             copy each /proc/.../fd/... to its old name before this process ends"
        }
        (true, true) => "copy each /proc/.../fd/... to its old name before this process ends",
    }
}

/// A file of a pool that was cut short while the pool was open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CutFile {
    /// The file's name.
    pub path: PathBuf,
    /// The required length in bytes.
    pub expected: u64,
    /// The length in bytes when the cut was found.
    pub found: u64,
    /// Whether it is the log file.
    pub is_log: bool,
    /// Whether the heap image needs what was cut. It does not need the log of `decoupled` and of
    /// `undo`, which is read only after a crash: closing such a pool is clean.
    pub is_needed: bool,
    /// Whether the pool was marked as closed cleanly. False while it is open.
    pub is_clean: bool,
}

/// Describes the loss, and returns the remedy.
pub(super) fn after_cut(file: &CutFile, closed: bool) -> Cow<'static, str> {
    Cow::Borrowed(match (file.is_log, closed, file.is_clean) {
        (true, false, _) if file.is_needed => {
            "the log is no longer whole, and words of acknowledged transactions may be in it \
             alone; stop all transactions, and copy the objects into another pool before this \
             process ends"
        }
        (true, false, _) => {
            "the log is no longer whole, and a crash now may lose acknowledged transactions; stop \
             all transactions and close the pool, which leaves all of them in the heap's file"
        }
        (true, true, true) => {
            return Cow::Owned(format!(
                "the pool was closed cleanly, and the heap's file has every commit: open it with \
                 the option `without_log` (`{}`)",
                commands::repair_without_log(&file.path)
            ));
        }
        (true, true, false) => {
            "acknowledged transactions may be lost, and the pool was left as a crash would leave \
             it; restore both files from the same backup"
        }
        (false, false, _) => {
            "the data past the cut is no longer in the file; stop all transactions, and copy what \
             this process can still read into another pool before it ends"
        }
        (false, true, false) => {
            "the data past the cut is lost, and the pool was left as a crash would leave it; \
             restore both files from the same backup"
        }
        (false, true, true) => {
            "the data past the cut is lost, although the pool is marked as closed cleanly; restore \
             both files from the same backup"
        }
    })
}

/// Returns what is safe after the failure that poisoned a pool, and the remedy.
pub(super) fn after_failure(cause: &Error) -> &'static str {
    match loses_content(cause) {
        true => {
            "Acknowledged transactions may be lost; copy what this process can still read into \
             another pool, or restore both files from the same backup"
        }
        false => {
            "Acknowledged transactions are safe; close the pool, fix the cause and open it again"
        }
    }
}

/// Whether the failure shows that the files lack content, or have other content than the pool
/// wrote.
fn loses_content(cause: &Error) -> bool {
    use medium::Error as Medium;
    matches!(
        cause,
        Error::Cut { .. }
            | Error::Changed { .. }
            | Error::DamagedLog { .. }
            | Error::DamagedHeap { .. }
            | Error::Medium(
                Medium::Truncated { .. }
                    | Medium::DamagedPages { .. }
                    | Medium::BadArea { .. }
                    | Medium::OutOfHeap { .. }
                    | Medium::TornBatch { .. }
                    | Medium::OutOfLog { .. }
            )
    )
}
