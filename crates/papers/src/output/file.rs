//! Atomic file replacement: on a full disk the file of an earlier run stays.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process;

use crate::error::Error;

/// Writes a file under a temporary name, syncs it, and renames it. The rename itself is not synced:
/// a power failure may bring back the old file, which can be written again.
///
/// # Errors
/// The file cannot be written; it then keeps its earlier content.
pub(super) fn put(directory: &Path, name: &str, text: &str) -> Result<(), Error> {
    let path = directory.join(name);
    // With the process's ID: two processes never write the same temporary file.
    let temporary = directory.join(format!(".{name}.{}.tmp", process::id()));
    let write = || {
        let mut file = File::create(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, &path)
    };
    write().map_err(|source| {
        // The temporary file is of no use to a later run.
        let _ = fs::remove_file(&temporary);
        Error::file("writing", &path)(source)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_replacement_leaves_no_temporary_file() {
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
