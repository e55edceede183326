//! Collections over the [`words`] interface, for every design.
//!
//! | module | content |
//! |---|---|
//! | [`raw`] | maps from `u64` to `u64` and a queue: the structures of the papers' workloads |

pub mod raw;
