//! Collections over the [`words`] interface, for every design.
//!
//! | item | content |
//! |---|---|
//! | [`HashMap`], [`HashSet`] | any keys and values, growing and shrinking |
//! | [`BTreeMap`], [`BTreeSet`] | any keys and values, in order |
//! | [`IndexedMap`] | an ordered map whose records are also found by other keys, in order |
//! | [`Vec`] | elements by index, growing and shrinking at the back |
//! | [`VecDeque`] | elements by index, growing and shrinking at both ends: a queue |
//! | [`Counter`] | an integer that many threads change at once |
//! | [`catalog`] | collections by name |
//! | [`encoded`] | the same with types known at run time, for other languages and tools |
//! | [`raw`] | maps from `u64` to `u64` and a queue: the structures of the papers' workloads |
//!
//! A [`Key`] is an ordered byte string to a map, and a [`Value`] is a byte string.

mod btree;
pub mod btree_map;
pub mod btree_set;
pub mod catalog;
mod counter;
mod definitions;
pub mod encoded;
mod entry;
pub mod hash_map;
pub mod hash_set;
pub mod indexed_map;
mod key;
mod length;
pub mod raw;
mod sequence;
mod value;
pub mod vec;
pub mod vec_deque;

pub use btree_map::BTreeMap;
pub use btree_set::BTreeSet;
pub use catalog::{Convert, Named};
pub use counter::Counter;
#[doc(hidden)]
pub use definitions::Definitions;
pub use hash_map::HashMap;
pub use hash_set::HashSet;
pub use indexed_map::{Index, IndexedMap};
#[doc(hidden)]
pub use key::derived;
pub use key::{AsKey, Key, KeyBuf};
#[cfg(feature = "serde")]
pub use value::Postcard;
pub use value::{AsValue, Value};
pub use vec::Vec;
pub use vec_deque::VecDeque;
