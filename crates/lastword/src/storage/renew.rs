//! A new log for a pool that was closed cleanly and has lost its own.
//!
//! Its heap holds every transaction, so the new log holds none. It is made beside what is there,
//! and nothing that is there is removed: a file in its place, which may be the log of another pool
//! or of a later state of this one, is kept under another name.
//!
//! ```text
//!   1  pool's file: settled, so that its clean mark is durable          (A11)
//!   2  .NAME.log.lastword-new: whole, its head of this pool and generation; durable
//!   3  NAME.log, if there is one -> NAME.log.lost; durable
//!   4  .NAME.log.lastword-new -> NAME.log; durable
//!   5  the pool begins as always: log head, then superblock, of the next generation
//! ```
//!
//! A crash leaves one of these states, and each is as before or further on:
//! - Before 3 is durable: the files are as they were. The next attempt removes the new file.
//! - Between 3 and 4: the log is missing and the superblock still says that the pool was closed
//!   cleanly. Opening without the log goes on with 2.
//! - After 4: the log is of this pool and generation and holds nothing. The pool opens without the
//!   option.
//!
//! Step 5 marks the superblock open, and no earlier step does. If the mark came before 4 is
//! durable, a crash could take the new log's name away. The pool would then be neither clean nor
//! have a log: refused for good.

use std::path::{Path, PathBuf};

use medium::sync::Arc;
use medium::{PoolFile, Prewrite};

use super::{Found, log_path};
use crate::Error;
use crate::recover::decide::Action;
use crate::superblock::{LogHead, Superblock};

/// Names that are tried for what was there: NAME.log.lost, NAME.log.lost1 and so on.
const NAMES: usize = 100;

/// Makes the log that a pool has lost, if it has; then the pool is one that starts. Durable on
/// return. The caller holds the pool's lock, and has settled its file and its name.
///
/// # Errors
/// As creating a pool; nothing that was there is lost.
pub(crate) fn if_lost(found: Found) -> Result<Found, Error> {
    if found.action != Action::Renew {
        return Ok(found);
    }
    let superblock = *found.superblocks.current();
    let system = found.file.system().clone();
    let path = log_path(found.file.path());
    let Found { file, log_file: old, superblocks, medium, .. } = found;
    let Superblock { pool, generation, log_offset, log_bytes, .. } = superblock;
    let head = LogHead { edition: 0, pool, generation };
    let bytes = log_offset + log_bytes;
    let new = PoolFile::create_beside(&system, &path, bytes, Prewrite::Zeros)?;
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

/// Gives what is in the log's place another name. Durable on return.
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
