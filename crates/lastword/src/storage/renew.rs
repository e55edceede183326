//! Makes a new log for a pool that was closed cleanly and lost its log.
//!
//! The heap holds every transaction, so the new log is empty. It is created beside the existing
//! files, and nothing is removed. A file in its place may be the log of another pool or of a later
//! state of this one, so it is kept under another name.
//!
//! ```text
//!   1  pool's file: settled, so that its clean shutdown is durable     (A11)
//!   2  .NAME.log.lastword-new: complete, with this pool and generation in its head; durable
//!   3  NAME.log, if it exists -> NAME.log.lost; durable
//!   4  .NAME.log.lastword-new -> NAME.log; durable
//!   5  the pool starts as always: log head, then superblock, of the next generation
//! ```
//!
//! A crash leaves one of these states:
//! - Before 3 is durable: the files are unchanged. The next attempt removes the new file.
//! - Between 3 and 4: the log is missing, and the superblock still records a clean shutdown.
//!   Opening without the log continues with 2.
//! - After 4: the log belongs to this pool and generation and is empty. The pool opens without the
//!   option.
//!
//! Only step 5 marks the superblock open. If it did so before 4 is durable, a crash could remove
//! the new log's name. The pool would then be neither clean nor have a log, and no program could
//! open it.

use std::path::{Path, PathBuf};

use medium::PoolFile;
use medium::sync::Arc;

use super::{Found, log_path};
use crate::Error;
use crate::recover::decide::Action;
use crate::superblock::{LogHead, Superblock};

/// Number of names tried for the old file: NAME.log.lost, NAME.log.lost1 and so on.
const NAMES: usize = 100;

/// Makes a new log if the pool lost its own; the pool can then start. Durable on return. The caller
/// holds the pool's lock and has settled its file and name.
///
/// # Errors
/// As creating a pool. Existing files are kept.
pub(crate) fn if_lost(found: Found) -> Result<Found, Error> {
    if found.action != Action::Renew {
        return Ok(found);
    }
    let superblock = *found.superblocks.current();
    let system = found.file.system().clone();
    let path = log_path(found.file.path());
    let Found { file, log_file: old, superblocks, medium, .. } = found;
    let Superblock { pool, generation, .. } = superblock;
    let head = LogHead { edition: 0, pool, generation, entered: true };
    let bytes = superblock.log_file_bytes();
    let new = PoolFile::create_beside(&system, &path, bytes, super::prewrite(bytes))?;
    head.write(&new, 0)?;
    new.sync()?;
    if let Some(old) = old {
        set_aside(&old, &path)?;
    }
    new.publish()?;
    new.end_creation();
    let (log_file, log_head, action) = (Some(Arc::new(new)), Some(head), Action::Start);
    Ok(Found { file, log_file, superblocks, log_head, medium, action })
}

/// Renames the file in the log's place. Durable on return.
fn set_aside(old: &PoolFile, path: &Path) -> Result<(), Error> {
    let mut result = Ok(());
    for number in 0..NAMES {
        result = old.move_aside(&lost_name(path, number));
        if !matches!(result, Err(medium::Error::AlreadyExists { .. })) {
            break;
        }
    }
    Ok(result?)
}

fn lost_name(path: &Path, number: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lost");
    if number > 0 {
        name.push(number.to_string());
    }
    name.into()
}
