//! Files of a pool that lost their names or a part of their content, and what can be kept.

use std::path::PathBuf;

use medium::LostName;

use super::Error;

/// A pool's file that lost its name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostFile {
    /// The name.
    pub path: PathBuf,
    /// What became of the file.
    pub how: LostName,
}

/// What became of each file.
pub(super) fn sentences(files: &[LostFile], closed: bool) -> String {
    let when = if closed { "was" } else { "is" };
    let sentence = |LostFile { path, how }: &LostFile| {
        let path = path.display();
        match how {
            LostName::Replaced => {
                format!(
                    "{path} is another file's name: the pool's was renamed while it {when} open"
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

/// What to do about names that are lost.
pub(super) fn rescue(files: &[LostFile], closed: bool) -> &'static str {
    match (files.iter().any(|file| file.how != LostName::Replaced), closed) {
        (false, _) => "give each file its name back",
        (true, false) => {
            "stop all transactions, flush, and copy what each /proc/.../fd/... holds to its name \
             before this process ends"
        }
        (true, true) => {
            "copy what each /proc/.../fd/... holds to its name before this process ends"
        }
    }
}

/// A pool's file that was cut short while the pool was open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CutFile {
    /// Its name.
    pub path: PathBuf,
    /// Bytes it must have.
    pub expected: u64,
    /// Bytes it had when the cut was seen.
    pub found: u64,
    /// Whether it is the log's file.
    pub is_log: bool,
}

/// What is lost with a cut file, and what to do.
pub(super) fn after_cut(file: &CutFile, closed: bool) -> &'static str {
    match (file.is_log, closed) {
        (true, false) => {
            "the log is no longer whole, and a crash now could lose what was acknowledged; stop \
             all transactions; under `decoupled` close the pool, which writes all of them to the \
             heap's file; under other designs copy the objects into another pool first"
        }
        (true, true) => {
            "a pool of `decoupled` has all that was committed in the heap's file: open it with the \
             option `without_log` (`lastword pool check --repair --without-log`); one of another \
             design was left as a crash would leave it: restore both files from one copy"
        }
        (false, false) => {
            "what lay behind is no longer in the file; stop all transactions, and copy what this \
             process can still read into another pool before it ends"
        }
        (false, true) => {
            "what lay behind is lost, and the pool was left as a crash would leave it; restore \
             both files from one copy"
        }
    }
}

/// What is safe after the failure that poisoned a pool, and what to do.
pub(super) fn after_failure(cause: &Error) -> &'static str {
    match cause {
        Error::Changed { .. } | Error::Medium(medium::Error::Truncated { .. }) => {
            "What was acknowledged may be lost; copy what this process can still read into \
             another pool, or restore both files from one copy"
        }
        _ => "What was acknowledged is safe; close the pool, mend the cause and open it again",
    }
}
