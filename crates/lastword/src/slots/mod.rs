//! Designs whose workers make their own transactions durable, each by a slot of the log: what
//! people had before, to compare with, and `snapshot`.
//!
//! | design | transactions write | logged | before | persist barriers |
//! |---|---|---|---|---|
//! | [`Undo`] | in place | what words were | each word's first write | one a piece, two at commit |
//! | [`Redo`] | to a buffer, which each read searches | what words become | home | one at commit |
//! | [`Snapshot`] | to copies of objects | what words become | home | one at commit |
//!
//! | file | what it is |
//! |---|---|
//! | `undo`, `redo`, `snapshot` | the designs: which order, and why |
//! | `buffer` | the buffer |
//! | `gather` | one record of all that commit at the same time, on `file` |
//! | `ground` | where words and records are, on each medium |
//! | `workers` | who is committing, and so what is durable |
//! | `format` | slots, heads, records |
//! | `truncation` | from the slots to home |
//! | `recover` | what a crash left |
//!
//! All are durable on return: a transaction is acknowledged when it and all before it are durable,
//! and nobody can read what is not durable yet: ownership records are released, and copies shown,
//! only then.

mod buffer;
mod format;
mod gather;
mod ground;
mod recover;
mod redo;
mod snapshot;
mod truncation;
mod undo;
mod workers;

pub(crate) use recover::{replay, take_back};
pub use redo::Redo;
pub use snapshot::Snapshot;
pub use undo::Undo;
