//! Files that are there whole or not at all: on a full disk what an earlier run has left stays.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process;

use crate::failure::Failure;

/// Writes a file of a directory under another name, and gives it its own when it is durable. The
/// name itself is not made durable: what is lost with it can be made again.
///
/// # Errors
/// It cannot be written; then the file is as it was.
pub(super) fn put(directory: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let path = directory.join(name);
    // The process's: two that write one directory never write one file.
    let temporary = directory.join(format!(".{name}.{}.tmp", process::id()));
    let write = || {
        let mut file = File::create(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, &path)
    };
    write().map_err(|source| {
        // Nobody looks for it under this name.
        let _ = fs::remove_file(&temporary);
        Failure::file("writing", &path)(source)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_take_its_name_leaves_nothing_and_what_can_replaces_the_old() {
        let room = tempfile::tempdir().unwrap();
        let directory = room.path();
        put(directory, "a.json", "old").unwrap();
        put(directory, "a.json", "new").unwrap();
        assert_eq!(fs::read_to_string(directory.join("a.json")).unwrap(), "new");
        fs::create_dir_all(directory.join("b.json/full")).unwrap();
        let refused = put(directory, "b.json", "text").unwrap_err().to_string();
        assert!(refused.starts_with("writing ") && refused.contains("b.json"), "{refused}");
        assert_eq!(fs::read_dir(directory).unwrap().count(), 2);
    }
}
