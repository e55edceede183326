//! Maps from `u64` to `u64`, and a queue: the structures of the papers' workloads.
//!
//! Each has the layout and the limits of the structure that a paper measured, and workloads compare
//! designs on them.
//!
//! | map | lookup | words written by an insert | ordered |
//! |---|---|---|---|
//! | [`HashMap`], of fixed capacity | one probe run, usually one line | 2 | no |
//! | [`ChainedMap`] | a head, then an object an entry | new key: 4 and an object; old: 1 | no |
//! | [`ChainedTable`] | the same | new key: 3 and its value; old: that | no |
//! | [`Chain`] | an object an entry | as above | yes |
//! | [`BTreeMap`] | one node a level, 28 pairs a node | new key: 7 with splits; old key: 1 | yes |
//! | [`RbTree`] | a node of 48 bytes a level | new key: 7, and rotations; old key: 1 | yes |
//!
//! A [`Queue`] is a ring of entries of one cache line, first in, first out.
//!
//! Every collection is a small value. A program stores it in its own objects, reads it once, and
//! keeps the copy: no operation rereads words that never change. The code uses only
//! [`Words`](words::Words), so the changes of a transaction commit or roll back with it.
//!
//! ```
//! use collections::raw::{BTreeMap, HashMap, Inserted};
//! use words::{Objects, Transact, mock::Mock};
//! use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};
//!
//! #[derive(Clone, Copy, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
//! #[repr(C)]
//! struct Root {
//!     stock: HashMap,
//!     by_price: BTreeMap,
//! }
//!
//! let mut mock = Mock::new(1 << 16);
//! let root = mock.transact(|tx| {
//!     let root = Root { stock: HashMap::create(tx, 64)?, by_price: BTreeMap::create(tx)? };
//!     let object = tx.alloc(root)?;
//!     tx.set_root(object.to_bits())?;
//!     Ok(root)
//! })?;
//! mock.transact(|tx| {
//!     assert_eq!(root.stock.insert(tx, 7, 100)?, Inserted::New);
//!     root.by_price.insert(tx, 1999, 7)
//! })?;
//! assert_eq!(mock.transact(|tx| root.by_price.get(tx, 1999))?, Some(7));
//! # use words::Allocate;
//! # Ok::<(), words::mock::Refused>(())
//! ```
//!
//! Invariants of all collections:
//! - An operation ends after a number of steps that its structure bounds, whatever the heap holds.
//!   Damaged nodes, cycles and wild pointers are [`Stop::BadValue`](words::Stop::BadValue) or
//!   [`Stop::BadPointer`](words::Stop::BadPointer).
//! - A write goes only to a place that was checked to lie inside the structure's own objects.
//! - No word is shared by all operations, not even a length. Two inserts conflict only when they
//!   change the same node or bucket.
//! - Write skew, which snapshot isolation allows, is prevented: an operation protects every word
//!   that it relied on and does not write.

mod btree;
mod chain;
mod chained_map;
mod chained_table;
mod check;
mod hash;
mod hash_map;
pub mod model;
mod queue;
mod rb_tree;

pub use btree::{BTree, BTree16, BTree32, BTreeMap, Cursor};
pub use chain::Chain;
pub use chained_map::{ChainedMap, ENTRY_BYTES};
pub use chained_table::ChainedTable;
pub use check::{Checked, Damage, whole};
pub use hash_map::{HashMap, Inserted};
pub use queue::{QUEUE_WORDS, Queue, Ring};
pub use rb_tree::RbTree;
