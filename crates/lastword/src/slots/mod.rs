//! Designs that keep one log per worker: `undo`, `redo` and `snapshot`.
//!
//! Each worker makes its own transactions durable in its own slot of the log area. `undo` and
//! `redo` are baselines to compare with, as earlier systems do it; `snapshot` is Pisces.
//!
//! | design | transactions write to | logged | record durable before | persist barriers |
//! |---|---|---|---|---|
//! | [`Undo`] | the heap | old values | a word's first write | 1 a record, 2 at commit |
//! | [`Redo`] | a buffer that reads search | new values | the heap image | 1 at commit |
//! | [`Snapshot`] | copies of objects | new values | the heap image | 1 at commit |
//!
//! | file | contents |
//! |---|---|
//! | `undo`, `redo`, `snapshot` | the designs and their write orders |
//! | `buffer` | the write buffer of `redo` |
//! | `gather` | group commit across workers, on `file` |
//! | `store` | the slot store: heap and log slots on each medium |
//! | `frozen`, `boundary` | views: frozen images, and the moment at which they begin |
//! | `workers` | the transaction table and the durable watermark |
//! | `format` | layout of slots, heads and records |
//! | `witnesses` | proofs that records were durable, on mapped media |
//! | `truncation` | applies records to the heap image and frees their slots |
//! | `recover` | recovery from the slots after a crash |
//!
//! All three are durable on return: a commit returns when the transaction and every earlier one are
//! durable. No transaction reads a value before it is durable, because a commit releases its
//! ownership records, or shows its copies, only after that.

mod boundary;
mod buffer;
mod format;
mod frozen;
mod gather;
mod records;
mod recover;
mod redo;
mod snapshot;
mod store;
mod truncation;
mod undo;
mod witnesses;
mod workers;

pub(crate) use recover::{replay, replay_all, salvage, salvage_undo, take_back};
pub use redo::Redo;
pub use snapshot::Snapshot;
pub use undo::Undo;
