//! Collections over the [`words`] interface, for every design.
//!
//! | module | content |
//! |---|---|
//! | [`raw`] | maps from `u64` to `u64` and a queue: the structures of the papers' workloads |
//!
//! A [`Key`] is an ordered byte string to a map, and a [`Value`] is a byte string.

mod counter;
#[allow(dead_code, reason = "the maps are built on it")]
mod entry;
mod key;
#[allow(dead_code, reason = "the maps are built on it")]
mod length;
pub mod raw;
mod value;

pub use counter::Counter;
pub use key::{AsKey, Key, KeyBuf};
#[cfg(feature = "serde")]
pub use value::Postcard;
pub use value::{AsValue, Value};
