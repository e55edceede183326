//! Files of a pool that lost their names, and how to keep their content.

use std::path::PathBuf;

use medium::LostName;

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
