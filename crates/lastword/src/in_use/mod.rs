//! Reads a pool that a process has open, without its help.
//!
//! A reader opens the files read-only and without the lock. It copies the heap image while the
//! owner changes it, and repairs the copy with the log. PostgreSQL's base backups work alike. The
//! owner may run, be stopped, hang or die meanwhile, and does not notice any number of readers.
//!
//! ```text
//!   superblock S  | read log from S on, read pages |  read log  | sync log | superblock again
//!                   slice by slice                    to its end
//!   log:  S's reproduced ID                                    E
//!         |==== groups applied to the copy, in order ==========|
//! ```
//!
//! The result is the state after transaction E, the last of a whole group. The argument:
//!
//! - *Words that no group after S has.* The heap image had all words of earlier groups before S was
//!   written. Reproduction stores only words of groups. It may write a whole page or line, and then
//!   the other words keep their values. So a page has their final values whenever it is read.
//! - *Words of groups after S.* The owner may store them at any time, also those of groups that are
//!   after S's reproduced ID already. A read may find any of their values, or a mixture. Each such
//!   group was durable in the log before its first word was stored, so it is in the log when the
//!   last page has been read. The reader reads the log to its end after that, and applies all
//!   groups over what the pages had. Words in the log are absolute, so the last value remains.
//! - *The log.* The owner reuses the space of a group only after a superblock says so. When the
//!   reader finds no group at its place, it reads the superblock after that. If its log sequence is
//!   not behind the reader's, the place was not reused, and the log ended there. Else the owner has
//!   *overtaken* the reader, which starts again. A group has the pool, the generation and the
//!   sequence under its checksum, so a mixture of two groups is no group.
//! - *A lost end of the log.* On mapped media the reader takes the witnesses before it reads on.
//!   The groups that they name were durable before, so the owner's fence made them visible before.
//!   If the log ends earlier, and its end was not reused, they are damaged. A witness of another
//!   generation says nothing, and a witness that is read while it is stored is invalid. On `file` a
//!   lost end looks like a group that the owner is writing: a reader shows the state before it.
//! - *Another owner.* A recovery stores only words of groups that the reader has, too, and then
//!   writes a superblock of the next generation. Nothing else is changed before that. If the
//!   generation or another field differs at the end, the reader starts again.
//! - *Mapped media.* `pread` of a mapped file returns the stores of its owner: they share the pages
//!   of the page cache, or the memory itself. The owner's fence between the group and the words in
//!   the heap image makes the group visible first.
//!
//! The end of the log may have groups that are written and not durable. On `file` and `dax` the
//! reader syncs the log before it returns. So a crash of the owner loses no transaction that the
//! reader has shown. Only a failing disk could lose it.
//!
//! Designs without groups store words in the heap image that the log does not have as new values.
//! Their pools are refused.
//!
//! Invariants:
//! - The reader writes nothing, and waits for no other process.
//! - Log is read before each slice of the heap. So the owner overtakes the reader only if it writes
//!   a whole log within one slice.

mod image;
mod source;
mod tail;

use std::path::Path;

use medium::Memory;
use medium::mutants::{Mutant, injected};

use crate::error::{Error, InUse};
use crate::recover::Replayed;
use crate::superblock::Superblock;
use crate::sync::thread;

use image::PartialImage;
pub(crate) use source::{Interrupted, Source};
pub(crate) use tail::Tail;

/// Attempts until a reader gives up.
const ATTEMPTS: u32 = 20;

/// Bytes of the heap that are read at a time, unless the log is small.
const SLICE_BYTES: u64 = 1 << 20;
const SLICE_BYTES_MIN: u64 = 64 << 10;

/// Reads a pool: by `closed` if no process has it open, else by `beside`. Tries again when the
/// owner interrupts an attempt.
///
/// # Errors
/// Those of both. [`InUse::Overtaken`], [`InUse::Changing`] after the last attempt.
pub(crate) fn read<R>(
    path: &Path,
    mut closed: impl FnMut() -> Result<R, Error>,
    mut beside: impl FnMut() -> Result<R, Interrupted>,
) -> Result<R, Error> {
    let mut error = InUse::Changing { path: path.into() };
    for _ in 0..ATTEMPTS {
        match closed() {
            Err(Error::Medium(medium::Error::InUse { .. })) => {}
            done => return done,
        }
        match beside() {
            Ok(done) => return Ok(done),
            Err(Interrupted::Overtaken { log_bytes }) => {
                error = InUse::Overtaken { path: path.into(), log_bytes, attempts: ATTEMPTS };
            }
            Err(Interrupted::Changed) => thread::yield_now(),
            Err(Interrupted::Damaged { path, at, why }) => {
                return Err(Error::DamagedLog { path, at, why });
            }
            Err(Interrupted::Failed(error)) => return Err(error),
        }
    }
    Err(error.into())
}

impl Source {
    /// Reads the heap. `between` is called after each slice of it, by tests.
    ///
    /// # Errors
    /// An interruption by the owner; damage of the log; a file that cannot be read.
    pub(crate) fn load(
        &self,
        between: &mut dyn FnMut(),
    ) -> Result<(Memory, Replayed), Interrupted> {
        let Superblock { heap_bytes, log_bytes, .. } = self.superblock;
        let slice = (log_bytes / 4).clamp(SLICE_BYTES_MIN, SLICE_BYTES);
        let mut image = PartialImage::new(heap_bytes)?;
        let mut tail = Tail::new(self);
        for start in (0..heap_bytes).step_by(slice as usize) {
            tail.read_on(&mut image)?;
            image.read(&self.file, self.superblock.heap_offset, slice.min(heap_bytes - start))?;
            between();
        }
        if !injected(Mutant::TailAfterHeapSkipped) {
            tail.finish(&mut image)?;
        }
        Ok((image.into_heap(), tail.replayed()))
    }
}
