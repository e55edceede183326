//! Collections over the [`words`] interface, for every design.
//!
//! | item | content |
//! |---|---|
//! | [`HashMap`], [`HashSet`] | any keys and values, growing and shrinking |
//! | [`Counter`] | an integer that many threads change at once |
//! | [`raw`] | maps from `u64` to `u64` and a queue: the structures of the papers' workloads |
//!
//! A [`Key`] is an ordered byte string to a map, and a [`Value`] is a byte string.

mod counter;
#[allow(dead_code, reason = "the maps are built on it")]
mod entry;
pub mod hash_map;
pub mod hash_set;
mod key;
mod length;
pub mod raw;
mod value;

pub use counter::Counter;
pub use hash_map::HashMap;
pub use hash_set::HashSet;
pub use key::{AsKey, Key, KeyBuf};
#[cfg(feature = "serde")]
pub use value::Postcard;
pub use value::{AsValue, Value};
